//! Where files are copied from or to: a pool, or this system.

use rescue::LostRanges;
use zpl::{DeviceNumber, FileKind, Timestamp};

/// What stands at a path, without its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    pub kind: FileKind,
    pub permissions: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub links: u32,
    pub device: DeviceNumber,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    /// The same for all names of one file.
    pub identity: (u64, u64),
}

/// What is to be made at a path where nothing is.
pub enum New<'a> {
    Directory,
    Symlink(&'a [u8]),
    Special(FileKind, DeviceNumber),
}

/// What went wrong, in words.
pub type Trouble = String;

/// A name and its value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// Receives a run of data at an offset.
pub type Put<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), Trouble>;

/// The side from which files are copied. Paths are bytes and relative to the root of the side.
pub trait CopySource {
    /// A file that is open for reading.
    type Input;

    /// What stands at a path, if anything; a symbolic link is followed only if asked.
    fn meta(&self, path: &[u8], follow: bool) -> Result<Option<Meta>, Trouble>;
    /// Names in a directory.
    fn list(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Trouble>;
    /// Text of a symbolic link.
    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Trouble>;
    /// Extended attributes, POSIX ACLs among them.
    fn xattrs(&self, path: &[u8]) -> Result<Vec<Xattr>, Trouble>;

    /// Opens a file for reading.
    fn open(&self, path: &[u8]) -> Result<Self::Input, Trouble>;
    /// The first run of data at or after an offset: where it starts and ends.
    fn data(&self, file: &Self::Input, from: u64, size: u64) -> Result<Option<(u64, u64)>, Trouble>;
    /// Reads bytes; how many there were before the end.
    fn read(&self, file: &Self::Input, at: u64, into: &mut [u8]) -> Result<usize, Trouble>;
    /// Calls `put` for all readable data, and returns the lost ranges.
    fn salvage(&self, file: &Self::Input, size: u64, put: Put<'_>) -> Result<LostRanges, Trouble>;
}

/// The side to which files are copied. Paths are bytes and relative to the root of the side.
pub trait CopyTarget {
    /// A file that is open for writing.
    type Output;

    /// Returns the type of the file at a path, if there is one. A symbolic link is followed only
    /// with `follow`, and only if the side supports that.
    fn there(&self, path: &[u8], follow: bool) -> Result<Option<FileKind>, Trouble>;
    /// Makes an empty file, or empties the one that is there.
    fn create(&self, path: &[u8], permissions: u32) -> Result<Self::Output, Trouble>;
    /// Writes bytes.
    fn write(&self, file: &Self::Output, at: u64, bytes: &[u8]) -> Result<(), Trouble>;
    /// Sets a file's size; what was not written is a hole.
    fn set_size(&self, file: &Self::Output, size: u64) -> Result<(), Trouble>;
    /// Makes what is no plain file.
    fn make(&self, path: &[u8], new: New<'_>, permissions: u32) -> Result<(), Trouble>;
    /// Gives a file a second name.
    fn link(&self, old: &[u8], new: &[u8]) -> Result<(), Trouble>;
    /// Removes the name of what is no directory.
    fn remove(&self, path: &[u8]) -> Result<(), Trouble>;
    /// Sets an extended attribute.
    fn set_xattr(&self, path: &[u8], xattr: &Xattr) -> Result<(), Trouble>;
    /// Sets owner, mode (not of symbolic links) and times.
    fn set_meta(&self, path: &[u8], meta: &Meta) -> Result<(), Trouble>;
}

/// A name in a directory.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory.last() {
        None | Some(b'/') => [directory, name].concat(),
        Some(_) => [directory, b"/", name].concat(),
    }
}

/// The last name of a path.
pub fn last_name(path: &[u8]) -> &[u8] {
    let is_name = |part: &&[u8]| !part.is_empty() && *part != b".";
    path.split(|&byte| byte == b'/').rfind(is_name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_and_taken_apart() {
        assert_eq!(join(b"", b"x"), b"x");
        assert_eq!(join(b"/a/", b"x"), b"/a/x");
        assert_eq!(join(b"a", b"x"), b"a/x");
        assert_eq!(last_name(b"/a/b//"), b"b");
        assert_eq!(last_name(b"/a/."), b"a");
        assert_eq!(last_name(b"/"), b"");
    }
}
