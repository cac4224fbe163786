//! Files, and where they are.

use crate::format::{Data, KstatHead, Stamp, io, named};

/// Where a file is below `spl/kstat/zfs`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KstatPath {
    /// The directory: a pool's name. None of what is about all pools.
    pub pool: Option<String>,
    /// The name of the file, which is one component of a path.
    pub name: String,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KstatFile {
    /// Where it is.
    pub path: KstatPath,
    head: Option<KstatHead>,
    data: String,
}

impl KstatFile {
    /// The whole text. Its first line may differ each time; [`Self::data`] does where figures do.
    #[must_use]
    pub fn text(&self, stamp: &Stamp) -> String {
        let head = self.head.as_ref().map(|head| head.line(stamp));
        head.unwrap_or_default() + &self.data
    }

    /// The text without the line that says when it was taken.
    #[must_use]
    pub fn data(&self) -> &str {
        &self.data
    }

    /// A named kstat.
    pub(crate) fn named(pool: Option<&str>, name: impl Into<String>, lines: &[(&str, Data)]) -> Self {
        let (head, data) = named(lines);
        Self { path: path(pool, name), head: Some(head), data }
    }

    /// An io kstat.
    pub(crate) fn io(pool: &str, name: &str, columns: &[(&str, u64)]) -> Self {
        let (head, data) = io(columns);
        Self { path: path(Some(pool), name), head: Some(head), data }
    }

    /// Lines of its own form.
    pub(crate) fn raw(pool: &str, name: &str, data: String) -> Self {
        Self { path: path(Some(pool), name), head: None, data }
    }
}

fn path(pool: Option<&str>, name: impl Into<String>) -> KstatPath {
    KstatPath { pool: pool.map(str::to_owned), name: name.into() }
}

/// True if a pool of this name can have a directory: the name is one component of a path, and no file
/// for all pools has it.
pub(crate) fn is_pool_path(name: &str, others: &[KstatFile]) -> bool {
    let is_component = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
    is_component && others.iter().all(|file| file.path.name != name)
}
