//! A file system of FUSE with one file, for a device over it: notes what it is told, may be held up, and fails on demand.
//!
//! ```text
//!   device, or a pool ─► kernel ─► FUSE ─► Below ─┬─ a stretch that takes no reads or writes: EIO, ENOSPC
//!                                                 ├─ a sync that fails, and undoes the writes since the last one
//!                                                 └─ bytes in memory
//! ```
//! A stable write is a write and a sync in one here, and fails and undoes as one. Tests of other crates have this file by its
//! path.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};
use oracle::needs::{Need, lack_of_fuse};
use parking_lot::{Condvar, Mutex};
use tempfile::TempDir;

const FILE: INodeNo = INodeNo(2);
const NAME: &str = "disk";
/// Linux's own flag; that of rustix is the one of a full sync.
const O_DSYNC: i32 = 0o10_000;
/// The file's size.
pub const BYTES: usize = 1 << 20;
/// The kernel may remember what it was told of names and sizes.
const LONG: Duration = Duration::from_secs(1000);

/// What the file system was told, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Write { offset: u64, len: usize, is_stable: bool },
    Sync { is_data: bool },
}

/// Mounted until dropped.
pub struct Below {
    gate: Arc<Gate>,
    told: Arc<Mutex<Vec<Told>>>,
    orders: Arc<Mutex<Orders>>,
    _session: BackgroundSession,
    dir: TempDir,
}

/// What is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    Read,
    Write,
}

/// Which syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// Those that stable writes have in them.
    OfStableWrites,
    /// `fsync` and `fdatasync`.
    Alone,
}

#[derive(Default)]
struct Orders {
    bad: Vec<(Touch, Range<u64>, Errno)>,
    /// The sync of that kind which finds at least so many writes to undo.
    sync: Option<(Syncs, usize)>,
    /// Writes undone so far.
    undone: usize,
}

/// Opening, closing and writes wait for it while it is shut.
#[derive(Default)]
pub struct Gate {
    is_shut: Mutex<bool>,
    opens: Condvar,
}

impl Gate {
    fn wait(&self) {
        self.opens.wait_while(&mut self.is_shut.lock(), |is_shut| *is_shut);
    }
}

impl Below {
    /// `None` where nothing can be mounted and that may be so.
    pub fn mount() -> Option<Self> {
        Self::mount_sized(BYTES)
    }

    /// The same with a file of that size.
    pub fn mount_sized(bytes: usize) -> Option<Self> {
        if let Some(lack) = lack_of_fuse() {
            Need::Fuse.is_missing(lack);
            return None;
        }
        let dir = TempDir::new().expect("a directory to mount it on");
        let (gate, told) = (Arc::<Gate>::default(), Arc::<Mutex<Vec<Told>>>::default());
        let orders = Arc::<Mutex<Orders>>::default();
        let server = Server {
            owner: owner_of(dir.path()),
            file: Mutex::new(File { bytes: vec![0; bytes], unsynced: Vec::new() }),
            gate: Arc::clone(&gate),
            told: Arc::clone(&told),
            orders: Arc::clone(&orders),
        };
        let session = fuser::spawn_mount(server, dir.path(), &Config::default()).expect("mounted");
        Some(Self { gate, told, orders, _session: session, dir })
    }

    /// From now on reads or writes of these bytes fail.
    pub fn fail_within(&self, touch: Touch, bytes: Range<u64>, errno: Errno) {
        self.orders.lock().bad.push((touch, bytes, errno));
    }

    /// The next sync of that kind that finds so many writes that no sync has made stable fails with EIO, once, and undoes
    /// them all.
    pub fn fail_sync(&self, which: Syncs, writes: usize) {
        self.orders.lock().sync = Some((which, writes));
    }

    /// Writes that failing syncs have undone so far.
    pub fn undone(&self) -> usize {
        self.orders.lock().undone
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        let mut orders = self.orders.lock();
        orders.bad.clear();
        orders.sync = None;
    }

    /// Where the file is.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(NAME)
    }

    /// What was told since somebody asked last.
    pub fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.told.lock())
    }

    /// Opening, closing and writes wait until the answer is dropped.
    pub fn hold(&self) -> Held {
        *self.gate.is_shut.lock() = true;
        Held(Arc::clone(&self.gate))
    }
}

/// See [`Below::hold`].
pub struct Held(Arc<Gate>);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.is_shut.lock() = false;
        self.0.opens.notify_all();
    }
}

struct Server {
    owner: (u32, u32),
    file: Mutex<File>,
    gate: Arc<Gate>,
    told: Arc<Mutex<Vec<Told>>>,
    orders: Arc<Mutex<Orders>>,
}

/// The file's bytes, and what was in the place of each write since the last sync.
struct File {
    bytes: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl File {
    fn write(&mut self, offset: usize, data: &[u8]) {
        let place = offset..offset + data.len();
        self.unsynced.push((offset, self.bytes[place.clone()].to_vec()));
        self.bytes[place].copy_from_slice(data);
    }

    fn undo(&mut self) -> usize {
        let undone = self.unsynced.len();
        for (offset, old) in self.unsynced.drain(..).rev() {
            self.bytes[offset..offset + old.len()].copy_from_slice(&old);
        }
        undone
    }
}

fn owner_of(dir: &Path) -> (u32, u32) {
    let dir = dir.metadata().expect("a directory just made");
    (dir.uid(), dir.gid())
}

impl Server {
    fn check(&self, touch: Touch, offset: u64, len: u64) -> Result<(), Errno> {
        let orders = self.orders.lock();
        let is_bad = |(of, bytes, _): &&(Touch, Range<u64>, Errno)| {
            *of == touch && bytes.start < offset + len && offset < bytes.end
        };
        orders.bad.iter().find(is_bad).map_or(Ok(()), |(_, _, errno)| Err(*errno))
    }

    /// Makes all writes stable, or fails and undoes them, as is ordered.
    fn sync(&self, file: &mut File, which: Syncs) -> Result<(), Errno> {
        let mut orders = self.orders.lock();
        let fails = |(of, writes): &mut (Syncs, usize)| *of == which && file.unsynced.len() >= *writes;
        if orders.sync.take_if(fails).is_some() {
            orders.undone += file.undo();
            return Err(Errno::EIO);
        }
        file.unsynced.clear();
        Ok(())
    }

    fn attributes(&self, of: INodeNo) -> FileAttr {
        attributes(of, self.file.lock().bytes.len() as u64, self.owner)
    }
}

fn attributes(of: INodeNo, bytes: u64, (uid, gid): (u32, u32)) -> FileAttr {
    let (kind, perm, size) = match of {
        FILE => (FileType::RegularFile, 0o600, bytes),
        _ => (FileType::Directory, 0o700, 0),
    };
    FileAttr {
        ino: of,
        size,
        blocks: size / 512,
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

impl Filesystem for Server {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&LONG, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, of: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &self.attributes(of));
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
        if let Err(errno) = self.check(Touch::Read, offset, len.into()) {
            return reply.error(errno);
        }
        let file = self.file.lock();
        let end = file.bytes.len().min(offset as usize + len as usize);
        reply.data(&file.bytes[offset as usize..end]);
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
        self.gate.wait();
        let is_stable = flags.0 & O_DSYNC != 0;
        if let Err(errno) = self.check(Touch::Write, offset, data.len() as u64) {
            return reply.error(errno);
        }
        let mut file = self.file.lock();
        file.write(offset as usize, data);
        self.told.lock().push(Told::Write { offset, len: data.len(), is_stable });
        let synced = if is_stable { self.sync(&mut file, Syncs::OfStableWrites) } else { Ok(()) };
        match synced {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, is_data: bool, reply: ReplyEmpty) {
        self.told.lock().push(Told::Sync { is_data });
        match self.sync(&mut self.file.lock(), Syncs::Alone) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.gate.wait();
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.gate.wait();
        reply.ok();
    }
}
