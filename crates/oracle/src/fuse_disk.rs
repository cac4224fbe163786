//! A FUSE file system with one file, the disk of a test. It records requests, delays them, and fails
//! them on demand.
//!
//! ```text
//!   device or pool ─► kernel ─► FUSE ─► FuseDisk
//!                                         ├─ requests within a range: an error, or half of the bytes
//!                                         ├─ a sync that fails and loses the writes before it
//!                                         └─ bytes in memory
//! ```
//! A stable write (`O_DSYNC`) is a write with a sync in it. If its sync fails, its own bytes are lost
//! too. The kernel keeps no pages of the disk, so that every request reaches this file system.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    WriteFlags,
};
use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

pub use fuser::Errno;

use crate::needs::{Need, lack_of_fuse};

const FILE: INodeNo = INodeNo(2);
const NAME: &str = "disk";
/// `O_DSYNC` of Linux. `rustix` names `O_SYNC` so.
const O_DSYNC: i32 = 0o10_000;
/// How long the kernel keeps attributes and names.
const KEPT: Duration = Duration::from_secs(1000);
/// The unit of a short transfer in bytes.
const SECTOR: u64 = 512;

/// A request that reached the disk and succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskRequest {
    /// A write.
    Write {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        len: usize,
        /// True for a write with `O_DSYNC`.
        is_stable: bool,
    },
    /// `fsync` or `fdatasync`.
    Sync {
        /// True for `fdatasync`.
        is_data: bool,
    },
}

/// The requests that a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskTransfer {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// The result of a request that meets a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// Nothing is read or written.
    Fails(Errno),
    /// Only the first half is read or written, in whole sectors, but at least one sector.
    Short,
}

/// The syncs that a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// Syncs in stable writes.
    OfStableWrites,
    /// `fsync` and `fdatasync`.
    Alone,
}

#[derive(Clone, Debug)]
struct DiskFault {
    of: DiskTransfer,
    within: Range<u64>,
    outcome: FaultOutcome,
    /// The number of requests that are still to meet the fault.
    left: u64,
}

#[derive(Default)]
struct DiskFaults {
    transfers: Vec<DiskFault>,
    /// The next sync of this kind that has at least so many writes to make stable fails.
    sync: Option<(SyncKind, usize)>,
    /// The number of requests that met a fault.
    met: u64,
    /// The number of writes that failed syncs lost.
    lost_writes: usize,
}

impl DiskFaults {
    fn outcome(&mut self, of: DiskTransfer, offset: u64, len: u64) -> Option<FaultOutcome> {
        let meets = |fault: &&mut DiskFault| {
            fault.of == of && fault.left > 0 && fault.within.start < offset + len && offset < fault.within.end
        };
        let fault = self.transfers.iter_mut().find(meets)?;
        fault.left -= 1;
        self.met += 1;
        Some(fault.outcome)
    }
}

/// Requests to open, close and write wait while this gate is shut.
#[derive(Default)]
struct DiskGate {
    is_shut: Mutex<bool>,
    opens: Condvar,
}

impl DiskGate {
    fn wait(&self) {
        self.opens.wait_while(&mut self.is_shut.lock(), |is_shut| *is_shut);
    }
}

/// The bytes of the file, and what each write since the last sync has replaced.
struct DiskBytes {
    bytes: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl DiskBytes {
    fn write(&mut self, offset: usize, data: &[u8]) {
        let place = offset..offset + data.len();
        self.unsynced.push((offset, self.bytes[place.clone()].to_vec()));
        self.bytes[place].copy_from_slice(data);
    }

    /// Loses the writes since the last sync. Returns their number.
    fn lose(&mut self) -> usize {
        let lost = self.unsynced.len();
        for (offset, old) in self.unsynced.drain(..).rev() {
            self.bytes[offset..offset + old.len()].copy_from_slice(&old);
        }
        lost
    }
}

/// The state that the mount and its test share.
struct DiskState {
    owner: (u32, u32),
    gate: DiskGate,
    contents: Mutex<DiskBytes>,
    requests: Mutex<Vec<DiskRequest>>,
    faults: Mutex<DiskFaults>,
}

/// The disk, mounted until this is dropped.
pub struct FuseDisk {
    shared: Arc<DiskState>,
    _session: BackgroundSession,
    dir: TempDir,
}

impl FuseDisk {
    /// Mounts a disk of zeros. Returns `None` where nothing can be mounted and the run allows that
    /// ([`Need::Fuse`]).
    ///
    /// # Panics
    /// If the mount fails.
    #[must_use]
    pub fn mount(bytes: usize) -> Option<Self> {
        if let Some(lack) = lack_of_fuse() {
            Need::Fuse.is_missing(lack);
            return None;
        }
        let dir = TempDir::new().expect("a directory for the mount");
        let shared = Arc::new(DiskState {
            owner: owner_of(dir.path()),
            gate: DiskGate::default(),
            contents: Mutex::new(DiskBytes { bytes: vec![0; bytes], unsynced: Vec::new() }),
            requests: Mutex::default(),
            faults: Mutex::default(),
        });
        let server = DiskServer(Arc::clone(&shared));
        let session = fuser::spawn_mount(server, dir.path(), &Config::default()).expect("mounted");
        Some(Self { shared, _session: session, dir })
    }

    /// Returns the path of the disk.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(NAME)
    }

    /// Returns the requests since the last call.
    pub fn take_requests(&self) -> Vec<DiskRequest> {
        std::mem::take(&mut *self.shared.requests.lock())
    }

    /// Requests to open, close and write wait until the result is dropped.
    #[must_use]
    pub fn hold(&self) -> HeldDisk {
        *self.shared.gate.is_shut.lock() = true;
        HeldDisk(Arc::clone(&self.shared))
    }

    /// From now on, reads or writes that touch these bytes have this outcome.
    pub fn fail_within(&self, of: DiskTransfer, within: Range<u64>, outcome: FaultOutcome) {
        self.fail_times(of, within, outcome, u64::MAX);
    }

    /// The next reads or writes, `times` of them, that touch these bytes have this outcome.
    pub fn fail_times(&self, of: DiskTransfer, within: Range<u64>, outcome: FaultOutcome, times: u64) {
        self.shared.faults.lock().transfers.push(DiskFault { of, within, outcome, left: times });
    }

    /// The next sync of this kind that has at least so many writes to make stable fails with EIO,
    /// once, and loses these writes.
    pub fn fail_sync(&self, of: SyncKind, writes: usize) {
        self.shared.faults.lock().sync = Some((of, writes));
    }

    /// Returns the number of writes that failed syncs have lost.
    #[must_use]
    pub fn lost_writes(&self) -> usize {
        self.shared.faults.lock().lost_writes
    }

    /// Returns the number of reads and writes that met a fault.
    #[must_use]
    pub fn faults_met(&self) -> u64 {
        self.shared.faults.lock().met
    }

    /// Removes all faults.
    pub fn heal(&self) {
        let mut faults = self.shared.faults.lock();
        faults.transfers.clear();
        faults.sync = None;
    }
}

/// See [`FuseDisk::hold`].
pub struct HeldDisk(Arc<DiskState>);

impl Drop for HeldDisk {
    fn drop(&mut self) {
        *self.0.gate.is_shut.lock() = false;
        self.0.gate.opens.notify_all();
    }
}

fn owner_of(dir: &Path) -> (u32, u32) {
    let dir = dir.metadata().expect("a new directory");
    (dir.uid(), dir.gid())
}

/// Returns how many bytes of a request of `len` bytes are done.
fn done_len(outcome: Option<FaultOutcome>, len: u64) -> Result<usize, Errno> {
    let done = match outcome {
        None => len,
        Some(FaultOutcome::Short) => (len / 2).next_multiple_of(SECTOR).min(len),
        Some(FaultOutcome::Fails(errno)) => return Err(errno),
    };
    Ok(usize::try_from(done).expect("a request fits in memory"))
}

struct DiskServer(Arc<DiskState>);

impl DiskServer {
    fn attributes(&self, of: INodeNo) -> FileAttr {
        let (kind, perm, size) = match of {
            FILE => (FileType::RegularFile, 0o600, self.0.contents.lock().bytes.len() as u64),
            _ => (FileType::Directory, 0o700, 0),
        };
        let (uid, gid) = self.0.owner;
        FileAttr {
            ino: of,
            size,
            blocks: size / SECTOR,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn do_read(&self, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
        let outcome = self.0.faults.lock().outcome(DiskTransfer::Read, offset, len);
        let len = done_len(outcome, len)?;
        let contents = self.0.contents.lock();
        let start = contents.bytes.len().min(usize::try_from(offset).map_err(|_| Errno::EINVAL)?);
        let end = contents.bytes.len().min(start + len);
        Ok(contents.bytes[start..end].to_vec())
    }

    fn do_write(&self, offset: u64, data: &[u8], is_stable: bool) -> Result<usize, Errno> {
        let outcome = self.0.faults.lock().outcome(DiskTransfer::Write, offset, data.len() as u64);
        let len = done_len(outcome, data.len() as u64)?;
        let mut contents = self.0.contents.lock();
        let start = usize::try_from(offset).map_err(|_| Errno::EINVAL)?;
        if start.checked_add(len).is_none_or(|end| end > contents.bytes.len()) {
            return Err(Errno::EFBIG);
        }
        contents.write(start, &data[..len]);
        if is_stable {
            self.sync(&mut contents, SyncKind::OfStableWrites)?;
        }
        self.0.requests.lock().push(DiskRequest::Write { offset, len, is_stable });
        Ok(len)
    }

    /// Makes all writes stable, or loses them if the sync is to fail.
    fn sync(&self, contents: &mut DiskBytes, kind: SyncKind) -> Result<(), Errno> {
        let mut faults = self.0.faults.lock();
        let fails = |(of, writes): &mut (SyncKind, usize)| *of == kind && contents.unsynced.len() >= *writes;
        if faults.sync.take_if(fails).is_some() {
            faults.lost_writes += contents.lose();
            return Err(Errno::EIO);
        }
        contents.unsynced.clear();
        Ok(())
    }
}

impl Filesystem for DiskServer {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&KEPT, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, of: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&KEPT, &self.attributes(of));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.do_read(offset, len.into()) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.0.gate.wait();
        match self.do_write(offset, data, flags.0 & O_DSYNC != 0) {
            Ok(len) => reply.written(u32::try_from(len).expect("no more than was asked for")),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, is_data: bool, reply: ReplyEmpty) {
        match self.sync(&mut self.0.contents.lock(), SyncKind::Alone) {
            Ok(()) => {
                self.0.requests.lock().push(DiskRequest::Sync { is_data });
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.0.gate.wait();
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.0.gate.wait();
        reply.ok();
    }
}
