//! What is to be stable is told to the file system below as that: it is one of FUSE here, and notes what it is told.
//!
//! ```text
//!   device ─► system calls, or a ring ─► kernel ─► FUSE ─► Below: writes, each with O_DSYNC or without; fsync
//! ```
//! A read finds bytes that were never made stable, a process that is killed leaves them to the kernel, and the simulator
//! has disks of its own: nothing else sees what is missing here.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite, Request, WriteFlags,
};
use futures::future::join_all;
use oracle::needs::{Need, lack_of_fuse};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::{at, env, filled, plain_env};
use crate::RealEnv;
use env::{BufSlice, Device, Durability, Env, OpenMode};

const FILE: INodeNo = INodeNo(2);
const NAME: &str = "disk";
/// Linux's own flag; that of rustix is the one of a full sync.
const O_DSYNC: i32 = 0o10_000;
const BYTES: usize = 1 << 20;
const PIECE: usize = 8192;
/// The kernel may remember what it was told of names and sizes.
const LONG: Duration = Duration::from_secs(1000);

/// What the file system was told, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Write { offset: u64, len: usize, is_stable: bool },
    Sync { is_data: bool },
}

/// A file system with one file.
struct Below {
    bytes: Mutex<Vec<u8>>,
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

impl Filesystem for Below {
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
        let is_stable = flags.0 & O_DSYNC != 0;
        self.bytes.lock()[offset as usize..][..data.len()].copy_from_slice(data);
        self.told.lock().push(Told::Write { offset, len: data.len(), is_stable });
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, is_data: bool, reply: ReplyEmpty) {
        self.told.lock().push(Told::Sync { is_data });
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// A device over the file system, and what that was told.
struct World {
    env: Arc<RealEnv>,
    told: Arc<Mutex<Vec<Told>>>,
    device: Arc<dyn Device>,
    _below: BackgroundSession,
    _dir: TempDir,
}

impl World {
    fn new(env: Arc<RealEnv>) -> Self {
        let dir = TempDir::new().expect("a directory to mount it on");
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let below = Below { bytes: Mutex::new(vec![0; BYTES]), told: Arc::clone(&told) };
        let below = fuser::spawn_mount(below, dir.path(), &Config::default()).expect("mounted");
        let device = env.block_on(env.open(&dir.path().join(NAME), OpenMode::ReadWrite)).expect("opened");
        Self { env, told, device, _below: below, _dir: dir }
    }

    /// Writes pieces at once: a lone one, or several side by side, of which each second is in two parts. A lone request
    /// is a system call, and several go through the ring.
    fn write(&self, count: u64, durability: Durability) {
        let piece = |number: u64| match number % 2 {
            0 => filled(1, PIECE),
            _ => [filled(2, PIECE / 2), filled(3, PIECE / 2)].concat(),
        };
        let write = |number: u64, slices: Vec<BufSlice>| {
            self.device.write(at(number * PIECE as u64), slices, durability)
        };
        let all = self.env.block_on(join_all((0..count).map(|number| write(number, piece(number)))));
        all.into_iter().for_each(|written| written.expect("written"));
    }

    /// What was told since somebody asked last.
    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.told.lock())
    }

    /// So many pieces were written, each byte once, all of them to be stable or none. The kernel may have each that is
    /// to be stable followed by a sync.
    fn check_written(&self, count: u64, are_stable: bool) {
        let mut bytes = 0;
        for told in self.take() {
            match told {
                Told::Write { offset, len, is_stable } => {
                    assert_eq!(is_stable, are_stable, "at {offset}");
                    bytes += len;
                }
                Told::Sync { .. } => assert!(are_stable, "nobody asked for a sync"),
            }
        }
        assert_eq!(bytes, count as usize * PIECE);
    }
}

/// What there is to be tried: with a ring and without, a request alone and beside others.
fn try_all(what: fn(&World, u64)) {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    for env in [env(), plain_env()] {
        let world = World::new(env);
        world.take();
        for count in [1, 6] {
            what(&world, count);
        }
    }
}

#[test]
fn a_stable_write_is_told_to_be_stable() {
    try_all(|world, count| {
        world.write(count, Durability::Stable);
        world.check_written(count, true);
    });
}

#[test]
fn a_cached_write_is_not_told_to_be_stable_before_a_flush() {
    try_all(|world, count| {
        world.write(count, Durability::Cached);
        world.check_written(count, false);
        let flushes = (0..count).map(|_| world.device.flush());
        let flushed = world.env.block_on(join_all(flushes.collect::<Vec<_>>()));
        flushed.into_iter().for_each(|flushed| flushed.expect("flushed"));
        assert_eq!(world.take(), vec![Told::Sync { is_data: true }; count as usize]);
    });
}
