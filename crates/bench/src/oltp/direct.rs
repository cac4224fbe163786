//! The baseline: the same load with direct I/O (`O_DIRECT`, then `fdatasync`) on plain files or devices, without a file
//! system's or a pool's work between. It has no cache of its own, as databases that do so have theirs.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Load;
use super::store::{Moved, OltpError, Store};

/// Pages from the beginning of one file, and the log after them or in another.
pub(crate) struct Direct {
    pages: Part,
    wal: Part,
    read: AtomicU64,
    written: AtomicU64,
}

/// Where pages or the log lie.
struct Part {
    path: PathBuf,
    file: File,
    begin: u64,
}

impl Part {
    /// # Errors
    /// The file's; [`OltpError::TooSmall`].
    fn open(path: &Path, begin: u64, bytes: u64) -> Result<Self, OltpError> {
        let at = |source| OltpError::File { path: path.to_owned(), source };
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).custom_flags(direct).open(path).map_err(at)?;
        // A block device says so in this way only.
        let room = file.seek(SeekFrom::End(0)).map_err(at)?;
        let needed = begin + bytes;
        if room < needed {
            return Err(OltpError::TooSmall { path: path.to_owned(), room, needed });
        }
        Ok(Self { path: path.to_owned(), file, begin })
    }

    fn done<T>(&self, result: io::Result<T>) -> Result<T, OltpError> {
        result.map_err(|source| OltpError::File { path: self.path.clone(), source })
    }

    fn write(&self, offset: u64, data: &[u8], stable: bool) -> Result<(), OltpError> {
        self.done(self.file.write_all_at(data, self.begin + offset))?;
        if stable { self.flush() } else { Ok(()) }
    }

    fn flush(&self) -> Result<(), OltpError> {
        self.done(self.file.sync_data())
    }
}

impl Direct {
    /// On the bytes of these files as they are: nothing is made or lengthened.
    ///
    /// # Errors
    /// The files'; [`OltpError::TooSmall`].
    pub fn open(pages: &Path, wal: Option<&Path>, load: &Load) -> Result<Self, OltpError> {
        let (wal, begin) = wal.map_or((pages, load.span), |wal| (wal, 0));
        Ok(Self {
            wal: Part::open(wal, begin, load.wal_span)?,
            pages: Part::open(pages, 0, load.span)?,
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }
}

impl Store for Direct {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OltpError> {
        self.read.fetch_add(into.len() as u64, Relaxed);
        self.pages.done(self.pages.file.read_exact_at(into, self.pages.begin + offset))
    }

    fn write(&self, offset: u64, data: &[u8], stable: bool) -> Result<(), OltpError> {
        self.written.fetch_add(data.len() as u64, Relaxed);
        self.pages.write(offset, data, stable)
    }

    fn append(&self, offset: u64, data: &[u8]) -> Result<(), OltpError> {
        self.written.fetch_add(data.len() as u64, Relaxed);
        self.wal.write(offset, data, true)
    }

    fn checkpoint(&self) -> Result<(), OltpError> {
        self.pages.flush()
    }

    fn settle(&self) -> Result<(), OltpError> {
        Ok(())
    }

    /// What was asked of the files: that their own file system writes something beside it is not seen.
    fn moved(&self) -> Moved {
        Moved { read: self.read.load(Relaxed), written: self.written.load(Relaxed) }
    }
}
