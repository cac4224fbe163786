//! The files of this system.

use super::side::{Meta, New, Side, Trouble, Xattr};
use engine::refusal::words;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, SeekFrom, StatxFlags, Timespec, Timestamps, XattrFlags, lgetxattr,
    llistxattr, lsetxattr, makedev, mknodat, seek, statx, utimensat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use zpl::{DeviceNumber, FileKind, Timestamp};

/// The whole system, by paths as they are typed.
pub struct Outside;

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn errno(error: Errno) -> Trouble {
    io(std::io::Error::from(error))
}

fn io(error: std::io::Error) -> Trouble {
    words(&error)
}

impl Side for Outside {
    type File = File;

    fn meta(&self, path: &[u8], follow: bool) -> Result<Option<Meta>, Trouble> {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let found = match statx(CWD, path_of(path), flags, StatxFlags::BASIC_STATS) {
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(errno)?,
        };
        let mode = u32::from(found.stx_mode);
        let time = |at: rustix::fs::StatxTimestamp| Timestamp { secs: at.tv_sec, nanos: at.tv_nsec };
        let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
        Ok(Some(Meta {
            kind: FileKind::of_mode(mode).ok_or("unknown type of file")?,
            permissions: mode & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
            size: found.stx_size,
            links: found.stx_nlink,
            device: DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor },
            atime: time(found.stx_atime),
            mtime: time(found.stx_mtime),
            identity: (device, found.stx_ino),
        }))
    }

    fn list(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Trouble> {
        let entries = std::fs::read_dir(path_of(path)).map_err(io)?;
        let names = entries.map(|entry| Ok(entry.map_err(io)?.file_name().into_vec()));
        let mut names = names.collect::<Result<Vec<_>, Trouble>>()?;
        names.sort();
        Ok(names)
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Trouble> {
        Ok(std::fs::read_link(path_of(path)).map_err(io)?.into_os_string().into_vec())
    }

    fn xattrs(&self, path: &[u8]) -> Result<Vec<Xattr>, Trouble> {
        let mut names = vec![0; XATTRS_BYTES_MAX];
        let count = match llistxattr(path_of(path), &mut names[..]) {
            Err(Errno::NOTSUP) => return Ok(Vec::new()),
            count => count.map_err(errno)?,
        };
        let mut all = Vec::new();
        let mut value = vec![0; XATTRS_BYTES_MAX];
        for name in names[..count].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            match lgetxattr(path_of(path), OsStr::from_bytes(name), &mut value[..]) {
                Ok(count) => all.push((name.to_vec(), value[..count].to_vec())),
                // Gone meanwhile, or made up by the system.
                Err(Errno::NODATA | Errno::NOTSUP) => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(all)
    }

    fn open(&self, path: &[u8]) -> Result<File, Trouble> {
        File::open(path_of(path)).map_err(io)
    }

    fn data(&self, file: &File, from: u64, size: u64) -> Result<Option<(u64, u64)>, Trouble> {
        if from >= size {
            return Ok(None);
        }
        let start = match seek(file, SeekFrom::Data(from)) {
            Err(Errno::NXIO) => return Ok(None),
            // Where files have no holes to be told of.
            Err(Errno::INVAL | Errno::NOTSUP) => return Ok(Some((from, size))),
            start => start.map_err(errno)?,
        };
        let end = seek(file, SeekFrom::Hole(start)).map_err(errno)?;
        Ok(Some((start, end)))
    }

    fn read(&self, file: &File, at: u64, into: &mut [u8]) -> Result<usize, Trouble> {
        file.read_at(into, at).map_err(io)
    }

    fn create(&self, path: &[u8], permissions: u32) -> Result<File, Trouble> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(permissions);
        options.open(path_of(path)).map_err(io)
    }

    fn write(&self, file: &File, at: u64, bytes: &[u8]) -> Result<(), Trouble> {
        file.write_all_at(bytes, at).map_err(io)
    }

    fn set_size(&self, file: &File, size: u64) -> Result<(), Trouble> {
        file.set_len(size).map_err(io)
    }

    fn make(&self, path: &[u8], new: New<'_>, permissions: u32) -> Result<(), Trouble> {
        match new {
            New::Directory => std::fs::DirBuilder::new().mode(permissions).create(path_of(path)).map_err(io),
            New::Symlink(text) => std::os::unix::fs::symlink(path_of(text), path_of(path)).map_err(io),
            New::Special(kind, device) => {
                let kind = FileType::from_raw_mode(kind.mode_bits());
                let mode = Mode::from_raw_mode(permissions);
                mknodat(CWD, path_of(path), kind, mode, makedev(device.major, device.minor)).map_err(errno)
            }
        }
    }

    fn link(&self, old: &[u8], new: &[u8]) -> Result<(), Trouble> {
        std::fs::hard_link(path_of(old), path_of(new)).map_err(io)
    }

    fn remove(&self, path: &[u8]) -> Result<(), Trouble> {
        std::fs::remove_file(path_of(path)).map_err(io)
    }

    fn set_xattr(&self, path: &[u8], (name, value): &Xattr) -> Result<(), Trouble> {
        lsetxattr(path_of(path), OsStr::from_bytes(name), value, XattrFlags::empty()).map_err(errno)
    }

    fn set_meta(&self, path: &[u8], meta: &Meta) -> Result<(), Trouble> {
        let at = path_of(path);
        // Only the administrator can give files away.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(at, Some(meta.uid), Some(meta.gid)).map_err(io)?;
        }
        if meta.kind != FileKind::Symlink {
            std::fs::set_permissions(at, Permissions::from_mode(meta.permissions)).map_err(io)?;
        }
        let time = |at: Timestamp| Timespec { tv_sec: at.secs, tv_nsec: at.nanos.into() };
        let times = Timestamps { last_access: time(meta.atime), last_modification: time(meta.mtime) };
        utimensat(CWD, at, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(errno)
    }
}

/// The system's own limit of a list of names, and of a value.
const XATTRS_BYTES_MAX: usize = 64 << 10;
