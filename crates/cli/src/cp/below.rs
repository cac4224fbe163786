//! The files of this system below one directory, opened for writing.

use super::side::{CopyTarget, Meta, New, Trouble, Xattr};
use engine::refusal::words;
use rescue::Beneath;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use zpl::FileKind;

/// A directory of this system. The names in it come from a pool that anyone may have written, and
/// no name leads out of the directory.
pub struct BelowTarget(Beneath);

/// The target of the command.
pub struct Typed {
    /// The directory that the files are written to.
    pub below: BelowTarget,
    /// The path of the target in that directory. Empty if the target is the directory itself.
    pub path: Vec<u8>,
}

impl Typed {
    /// Opens a target. The path of the command may contain symbolic links and lead anywhere.
    pub fn open(target: &Path) -> Result<Self, Trouble> {
        let is_directory = std::fs::metadata(target).is_ok_and(|there| there.is_dir());
        let (directory, name) = if is_directory {
            (target.to_owned(), None)
        } else {
            let target = std::fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
            let directory = target.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = directory.unwrap_or_else(|| Path::new(".")).to_owned();
            (directory, Some(target.file_name().ok_or("No such file or directory")?.to_owned()))
        };
        let below = BelowTarget(Beneath::open(&directory).map_err(io)?);
        Ok(Self { below, path: name.map_or_else(Vec::new, |name| name.into_encoded_bytes()) })
    }

    /// True if the target is a directory.
    pub fn is_directory(&self) -> bool {
        self.path.is_empty()
    }
}

fn io(error: std::io::Error) -> Trouble {
    words(&error)
}

impl CopyTarget for BelowTarget {
    type Output = File;

    fn there(&self, path: &[u8], _follow: bool) -> Result<Option<FileKind>, Trouble> {
        self.0.kind_at(path).map_err(io)
    }

    fn create(&self, path: &[u8], permissions: u32) -> Result<File, Trouble> {
        self.0.create(path, permissions).map_err(io)
    }

    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> Result<(), Trouble> {
        file.write_all_at(bytes, at).map_err(io)
    }

    fn set_size(&self, file: &File, size: u64) -> Result<(), Trouble> {
        file.set_len(size).map_err(io)
    }

    fn make(&self, path: &[u8], new: New<'_>, permissions: u32) -> Result<(), Trouble> {
        let made = match new {
            New::Directory => self.0.make_dir(path, permissions),
            New::Symlink(text) => self.0.symlink(text, path),
            New::Special(kind, device) => self.0.make_special(path, kind, permissions, device),
        };
        made.map_err(io)
    }

    fn link(&self, old: &[u8], new: &[u8]) -> Result<(), Trouble> {
        self.0.link(old, new).map_err(io)
    }

    fn remove(&self, path: &[u8]) -> Result<(), Trouble> {
        self.0.remove(path).map_err(io)
    }

    fn set_xattr(&self, path: &[u8], (name, value): &Xattr) -> Result<(), Trouble> {
        self.0.set_xattr(path, name, value).map_err(io)
    }

    fn set_meta(&self, path: &[u8], meta: &Meta) -> Result<(), Trouble> {
        // Only root can change the owner of a file.
        if rustix::process::geteuid().is_root() {
            self.0.set_owner(path, meta.uid, meta.gid).map_err(io)?;
        }
        if meta.kind != FileKind::Symlink {
            self.0.set_permissions(path, meta.permissions).map_err(io)?;
        }
        self.0.set_times(path, meta.atime, meta.mtime).map_err(io)
    }
}
