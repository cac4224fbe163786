//! Names of datasets: `pool/dir/dir` and `pool/dir@snapshot`.

use units::{ObjectId, ObjsetId};

use crate::DslError;

/// A dataset that was found by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetName {
    /// Full name, from the pool on; of a snapshot with what stands after the `@`.
    pub name: String,
    /// MOS object of its dir.
    pub dir: ObjectId,
    /// MOS object of the dataset.
    pub dataset: ObjectId,
}

impl DatasetName {
    /// Number of its objset: that of the dataset's object.
    #[must_use]
    pub fn objset(&self) -> ObjsetId {
        ObjsetId::new(self.dataset.get())
    }

    /// Whether it is a snapshot's.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.name.contains('@')
    }
}

/// Longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Deepest nesting of dirs below the pool.
const DEPTH_MAX: usize = 50;

/// Checks the full name of a file system or volume.
///
/// # Errors
/// [`DslError::BadName`].
pub fn check_dataset_name(name: &str) -> Result<(), DslError> {
    let refuse = |why| Err(DslError::BadName { name: name.to_owned(), why });
    if name.len() > NAME_BYTES_MAX {
        return refuse("too long");
    }
    if name.split('/').count() > DEPTH_MAX {
        return refuse("nested too deeply");
    }
    name.split('/').try_for_each(|component| match component {
        "" => refuse("empty component"),
        "." | ".." => refuse("`.` and `..` have a meaning of their own"),
        _ if component.bytes().all(|byte| is_plain(byte) || byte == b'%') => Ok(()),
        _ => refuse("only letters, digits and -_.: % and space are allowed"),
    })
}

/// Checks what stands after the `@` of a snapshot's name.
///
/// # Errors
/// [`DslError::BadName`].
pub fn check_snapshot_name(name: &str) -> Result<(), DslError> {
    let refuse = |why| Err(DslError::BadName { name: name.to_owned(), why });
    match name {
        "" => refuse("empty component"),
        _ if name.len() > NAME_BYTES_MAX => refuse("too long"),
        _ if name.bytes().all(|byte| is_plain(byte) || byte == b'%') => Ok(()),
        _ => refuse("only letters, digits and -_.: % and space are allowed"),
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.: ".contains(&byte)
}

/// A name as dir and, if it is a snapshot's, what stands after the `@`.
pub(crate) fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((dir, snapshot)) => (dir, Some(snapshot)),
        None => (name, None),
    }
}
