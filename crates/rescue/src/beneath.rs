//! Writes only below one directory of this system, whatever the names are.
//!
//! The names come from a device that anyone may have written. A path is split into components. Each
//! component is checked by [`check_name`], and each directory on the way is opened relative to the
//! one before, never through a symbolic link. So no name leads out of the directory: neither `..`,
//! nor a name with a slash, nor a symbolic link that was just copied.
//! (tests: `names_that_lead_out_are_refused`, `a_link_on_the_way_is_not_followed`)

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, StatxFlags, Timespec, Timestamps, Uid, XattrFlags, chownat, linkat,
    lsetxattr, makedev, mkdirat, mknodat, open, openat, renameat, statx, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;
use zpl::{DeviceNumber, FileKind, Timestamp};

/// The longest name that common file systems accept.
const NAME_BYTES_MAX: usize = 255;

/// The flags for a directory on the way, which must not be a symbolic link.
const ON_THE_WAY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Checks that a directory of this system can have an entry with this name.
///
/// # Errors
/// The reason, in words.
pub fn check_name(name: &[u8]) -> Result<(), &'static str> {
    match name {
        b"" => Err("a name without bytes"),
        b"." | b".." => Err("a name that means another directory"),
        _ if name.contains(&b'/') => Err("a name with a slash"),
        _ if name.contains(&0) => Err("a name with a NUL"),
        _ if name.len() > NAME_BYTES_MAX => Err("a name that is too long"),
        _ => Ok(()),
    }
}

/// A directory below which everything is written. Paths are relative to it.
pub struct Beneath {
    root: Rc<OwnedFd>,
    /// The directory that was used last.
    last: RefCell<Option<(Vec<u8>, Rc<OwnedFd>)>>,
}

impl Beneath {
    /// Opens a directory. Its own path may contain symbolic links.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Rc::new(open(directory, flags, Mode::empty())?);
        Ok(Self { root, last: RefCell::default() })
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&*self.root)
    }

    /// Returns the directory of a path, opened, and the last component.
    fn place<'p>(&self, path: &'p [u8]) -> io::Result<(Rc<OwnedFd>, &'p OsStr)> {
        let (directory, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(0) => return Err(refused("a path from the root")),
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        check_name(name).map_err(refused)?;
        Ok((self.directory(directory)?, OsStr::from_bytes(name)))
    }

    fn directory(&self, path: &[u8]) -> io::Result<Rc<OwnedFd>> {
        if path.is_empty() {
            return Ok(Rc::clone(&self.root));
        }
        if let Some((known, descriptor)) = &*self.last.borrow()
            && known == path
        {
            return Ok(Rc::clone(descriptor));
        }
        let mut at = Rc::clone(&self.root);
        for name in path.split(|&byte| byte == b'/') {
            check_name(name).map_err(refused)?;
            at = Rc::new(openat(&*at, OsStr::from_bytes(name), ON_THE_WAY, Mode::empty())?);
        }
        *self.last.borrow_mut() = Some((path.to_vec(), Rc::clone(&at)));
        Ok(at)
    }

    /// Returns the type of the file at a path, if there is one. Symbolic links are not followed.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn kind_at(&self, path: &[u8]) -> io::Result<Option<FileKind>> {
        let (directory, name) = self.place(path)?;
        let found = match statx(&*directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS) {
            Err(Errno::NOENT) => return Ok(None),
            found => found?,
        };
        let kind = FileKind::of_mode(found.stx_mode.into());
        Ok(Some(kind.ok_or_else(|| io::Error::other("unknown type of file"))?))
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn make_dir(&self, path: &[u8], permissions: u32) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        Ok(mkdirat(&*directory, name, Mode::from_raw_mode(permissions))?)
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn make_dirs(&self, path: &[u8], permissions: u32) -> io::Result<()> {
        let ends = (1..=path.len()).filter(|&end| path.get(end).is_none_or(|&byte| byte == b'/'));
        for end in ends {
            match self.make_dir(&path[..end], permissions) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        Ok(())
    }

    /// Creates an empty file, or empties an existing one. A symbolic link is replaced, not
    /// followed.
    ///
    /// # Errors
    /// The error of the operating system. A pipe, a socket or a device at the path is refused too,
    /// because a write to it could have any effect.
    pub fn create(&self, path: &[u8], permissions: u32) -> io::Result<File> {
        match self.kind_at(path)? {
            None | Some(FileKind::File) => {}
            Some(FileKind::Symlink) => self.remove(path)?,
            Some(_) => {
                let why = "not a plain file";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (directory, name) = self.place(path)?;
        Ok(File::from(openat(&*directory, name, flags, Mode::from_raw_mode(permissions))?))
    }

    /// Opens a file for appending and truncates it to its first `bytes`.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn append(&self, path: &[u8], bytes: u64) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (directory, name) = self.place(path)?;
        let file = File::from(openat(&*directory, name, flags, Mode::from_raw_mode(0o600))?);
        file.set_len(bytes)?;
        Ok(file)
    }

    /// Returns the contents of a small file. `None` if the file does not exist.
    ///
    /// # Errors
    /// The error of the operating system; also if the file is larger than `max` bytes.
    pub fn read(&self, path: &[u8], max: u64) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match self
            .place(path)
            .and_then(|(directory, name)| Ok(File::from(openat(&*directory, name, flags, Mode::empty())?)))
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, max.saturating_add(1)), &mut bytes)?;
        if bytes.len() as u64 > max {
            Err(io::Error::other("a file that is too long"))
        } else {
            Ok(Some(bytes))
        }
    }

    /// Renames `old` to `new`, which is replaced.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn rename(&self, old: &[u8], new: &[u8]) -> io::Result<()> {
        let ((from, old), (to, new)) = (self.place(old)?, self.place(new)?);
        Ok(renameat(&*from, old, &*to, new)?)
    }

    /// Creates a symbolic link with this text.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn symlink(&self, text: &[u8], path: &[u8]) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        Ok(symlinkat(OsStr::from_bytes(text), &*directory, name)?)
    }

    /// Creates a pipe, socket or device.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn make_special(
        &self,
        path: &[u8],
        kind: FileKind,
        permissions: u32,
        device: DeviceNumber,
    ) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        let (kind, mode) = (FileType::from_raw_mode(kind.mode_bits()), Mode::from_raw_mode(permissions));
        Ok(mknodat(&*directory, name, kind, mode, makedev(device.major, device.minor))?)
    }

    /// Gives the file at `old` a second name.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn link(&self, old: &[u8], new: &[u8]) -> io::Result<()> {
        let ((from, old), (to, new)) = (self.place(old)?, self.place(new)?);
        Ok(linkat(&*from, old, &*to, new, AtFlags::empty())?)
    }

    /// Removes a name that is not a directory.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn remove(&self, path: &[u8]) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        Ok(unlinkat(&*directory, name, AtFlags::empty())?)
    }

    /// Sets an extended attribute, also of a symbolic link.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn set_xattr(&self, path: &[u8], name: &[u8], value: &[u8]) -> io::Result<()> {
        let (directory, last) = self.place(path)?;
        // The system call accepts no descriptor. The path through the descriptor leads to the
        // directory itself, and to no symbolic link.
        let place = through(&directory).join(last);
        Ok(lsetxattr(place, OsStr::from_bytes(name), value, XattrFlags::empty())?)
    }

    /// Sets the owner and group of the file at a path.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn set_owner(&self, path: &[u8], uid: u32, gid: u32) -> io::Result<()> {
        // All bits set means that the value does not change.
        let uid = (uid != u32::MAX).then(|| Uid::from_raw(uid));
        let gid = (gid != u32::MAX).then(|| Gid::from_raw(gid));
        let (directory, name) = self.place(path)?;
        Ok(chownat(&*directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets the permissions of a file that is not a symbolic link.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn set_permissions(&self, path: &[u8], permissions: u32) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = openat(&*directory, name, flags, Mode::empty())?;
        std::fs::set_permissions(through(&entry), std::fs::Permissions::from_mode(permissions))
    }

    /// Sets the times of last access and last change of contents.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn set_times(&self, path: &[u8], atime: Timestamp, mtime: Timestamp) -> io::Result<()> {
        let time = |at: Timestamp| Timespec { tv_sec: at.secs, tv_nsec: at.nanos.into() };
        let times = Timestamps { last_access: time(atime), last_modification: time(mtime) };
        let (directory, name) = self.place(path)?;
        Ok(utimensat(&*directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Returns a path to the file behind a descriptor.
fn through(descriptor: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_refused() {
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b", &[b'x'; 256]] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(
            check_name(b"...").is_ok() && check_name(b"a b\xff").is_ok() && check_name(&[b'x'; 255]).is_ok()
        );
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("in")).expect("a directory");
        let beneath = Beneath::open(&dir.path().join("in")).expect("it is there");
        for path in [&b"../out"[..], b"a/../../out", b"/out", b"./out", b"a//out"] {
            assert!(beneath.create(path, 0o600).is_err(), "{path:?}");
            assert!(beneath.make_dirs(path, 0o700).is_err(), "{path:?}");
        }
        assert!(!dir.path().join("out").exists());
    }

    #[test]
    fn a_link_on_the_way_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (inner, outer) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::create_dir(&inner).expect("a directory");
        std::fs::create_dir(&outer).expect("a directory");
        std::fs::write(outer.join("kept"), "kept").expect("a file");
        let beneath = Beneath::open(&inner).expect("it is there");
        beneath.symlink(b"../out", b"way").expect("a link");
        beneath.symlink(b"../out/kept", b"end").expect("a link");
        assert!(beneath.create(b"way/new", 0o600).is_err());
        assert!(beneath.make_dir(b"way/new", 0o700).is_err());
        assert!(beneath.set_permissions(b"end", 0o777).is_err());
        beneath.set_times(b"end", Timestamp::default(), Timestamp::default()).expect("of the link itself");
        // A file replaces the link.
        beneath.create(b"end", 0o600).expect("a file");
        assert_eq!(beneath.kind_at(b"end").expect("there"), Some(FileKind::File));
        assert_eq!(std::fs::read(outer.join("kept")).expect("a file"), b"kept");
        assert_eq!(std::fs::read_dir(&outer).expect("a directory").count(), 1);
    }

    #[test]
    fn what_is_made_stands_below_the_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let beneath = Beneath::open(dir.path()).expect("it is there");
        beneath.make_dirs(b"a/b/c", 0o755).expect("directories");
        beneath.make_dirs(b"a/b/c", 0o755).expect("once more");
        beneath.create(b"a/b/c/file", 0o640).expect("a file");
        beneath.link(b"a/b/c/file", b"a/second").expect("a link");
        beneath.set_permissions(b"a/second", 0o4711).expect("permissions");
        beneath.make_special(b"a/pipe", FileKind::Fifo, 0o600, DeviceNumber::default()).expect("a pipe");
        let mode = std::fs::metadata(dir.path().join("a/b/c/file")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o7777, 0o4711);
        assert!(beneath.create(b"a/pipe", 0o600).is_err() && beneath.create(b"a/b", 0o600).is_err());
        beneath.remove(b"a/pipe").expect("removed");
        assert_eq!(beneath.kind_at(b"a/pipe").expect("asked"), None);
    }
}
