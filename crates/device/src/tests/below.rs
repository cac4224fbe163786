//! A file system of FUSE with one file, for a device over it: notes what it is told, and may be held up.

use std::ffi::OsStr;
use std::path::PathBuf;
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
    _session: BackgroundSession,
    dir: TempDir,
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
        if let Some(lack) = lack_of_fuse() {
            Need::Fuse.is_missing(lack);
            return None;
        }
        let dir = TempDir::new().expect("a directory to mount it on");
        let (gate, told) = (Arc::<Gate>::default(), Arc::<Mutex<Vec<Told>>>::default());
        let server =
            Server { bytes: Mutex::new(vec![0; BYTES]), gate: Arc::clone(&gate), told: Arc::clone(&told) };
        let session = fuser::spawn_mount(server, dir.path(), &Config::default()).expect("mounted");
        Some(Self { gate, told, _session: session, dir })
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
    bytes: Mutex<Vec<u8>>,
    gate: Arc<Gate>,
    told: Arc<Mutex<Vec<Told>>>,
}

fn attributes(of: INodeNo) -> FileAttr {
    let (kind, perm, size) = match of {
        FILE => (FileType::RegularFile, 0o600, BYTES as u64),
        _ => (FileType::Directory, 0o700, 0),
    };
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
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
            true => reply.entry(&LONG, &attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, of: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &attributes(of));
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
        let end = BYTES.min(offset as usize + len as usize);
        reply.data(&self.bytes.lock()[offset as usize..end]);
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
        self.bytes.lock()[offset as usize..][..data.len()].copy_from_slice(data);
        self.told.lock().push(Told::Write { offset, len: data.len(), is_stable });
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, is_data: bool, reply: ReplyEmpty) {
        self.told.lock().push(Told::Sync { is_data });
        reply.ok();
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
