//! The files of this system, opened for reading.

use super::side::{CopySource, Meta, Put, Trouble, Xattr};
use engine::refusal::words;
use rescue::LostRanges;
use rustix::fs::{AtFlags, CWD, SeekFrom, StatxFlags, lgetxattr, llistxattr, seek, statx};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
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

impl CopySource for Outside {
    type Input = File;

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

    fn salvage(&self, _: &File, _: u64, _: Put<'_>) -> Result<LostRanges, Trouble> {
        Err("only files of a pool are copied in part".into())
    }
}

/// The system's own limit of a list of names, and of a value.
const XATTRS_BYTES_MAX: usize = 64 << 10;
