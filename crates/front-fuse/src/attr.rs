//! Attributes as the kernel wants them.

use std::time::Duration;

use rustix::io::Errno;
use units::ObjectId;
use zpl::{Attributes, DeviceNumber, FileKind, SetTime, Timestamp};

use crate::abi::{Attr, AttrOut, EntryOut, ROOT_ID, Statx, StatxOut, StatxTime};
use crate::ctldir::Ctlnode;

/// How long the kernel may believe names, and attributes that only requests change: all requests
/// come through it, and it knows what each of them changes.
pub(crate) const LASTING: Duration = Duration::from_secs(24 * 60 * 60);
/// How long it may believe attributes of a file with data that no txg has written yet: then only
/// does it show how much space they take.
const PASSING: Duration = Duration::from_secs(1);

/// Objects have smaller numbers than this has bits; above them an inode has its [`Fsid`].
const OBJECT_BITS: u32 = 48;

/// Which file system of a mount a file is of: the one that is mounted, or a snapshot of it. Files have it in the upper
/// bits of their inodes, for they share the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fsid(pub u16);

impl Fsid {
    /// The one that is mounted.
    pub const LIVE: Self = Self(0);

    /// That of an inode.
    pub const fn of(inode: u64) -> Self {
        Self((inode >> OBJECT_BITS) as u16)
    }

    const fn bits(self) -> u64 {
        (self.0 as u64) << OBJECT_BITS
    }
}

/// Between the kernel's numbers and the file system's.
#[derive(Clone, Copy)]
pub(crate) struct Inodes {
    pub root: ObjectId,
    pub fsid: Fsid,
}

impl Inodes {
    /// No file is object 1, for that is the master node.
    pub fn object(self, inode: u64) -> ObjectId {
        if inode == ROOT_ID { self.root } else { ObjectId::new(inode & !self.fsid.bits()) }
    }

    /// The object of an inode that need not be of this file system.
    ///
    /// # Errors
    /// `EXDEV` when it is of another, or of none.
    pub fn own(self, inode: u64) -> Result<ObjectId, Errno> {
        let is_own = Fsid::of(inode) == self.fsid && Ctlnode::of(inode).is_none();
        if is_own { Ok(self.object(inode)) } else { Err(Errno::XDEV) }
    }

    pub fn inode(self, object: ObjectId) -> u64 {
        let is_mounted = object == self.root && self.fsid == Fsid::LIVE;
        if is_mounted { ROOT_ID } else { self.number(object) }
    }

    /// The number of a file for programs. The kernel calls the root 1, and programs see the root's object number.
    pub fn number(self, object: ObjectId) -> u64 {
        object.get() | self.fsid.bits()
    }

    pub fn attr(self, of: &Attributes) -> Attr {
        Attr {
            ino: self.number(of.object),
            size: of.size,
            blocks: of.sectors,
            // Seconds before 1970 go as negative numbers.
            atime: of.atime.secs as u64,
            mtime: of.mtime.secs as u64,
            ctime: of.ctime.secs as u64,
            atimensec: of.atime.nanos,
            mtimensec: of.mtime.nanos,
            ctimensec: of.ctime.nanos,
            mode: file_type(of.kind) | of.permissions,
            nlink: of.links,
            uid: of.uid,
            gid: of.gid,
            rdev: encode_device(of.device),
            blksize: of.block_bytes,
            flags: 0,
        }
    }

    pub fn attr_out(self, of: &Attributes) -> AttrOut {
        AttrOut { attr_valid: valid(of).as_secs(), attr: self.attr(of), ..AttrOut::default() }
    }

    pub fn statx_out(self, of: &Attributes) -> StatxOut {
        let of_birth = StatxTime { secs: of.crtime.secs, nanos: of.crtime.nanos, reserved: 0 };
        statx_out(&self.attr_out(of), Some(of_birth))
    }

    pub fn entry_out(self, of: &Attributes) -> EntryOut {
        EntryOut {
            nodeid: self.inode(of.object),
            generation: of.generation,
            entry_valid: LASTING.as_secs(),
            attr_valid: valid(of).as_secs(),
            attr: self.attr(of),
            ..EntryOut::default()
        }
    }

    /// There is no such name, which the kernel may believe as long.
    pub fn no_entry() -> EntryOut {
        EntryOut { entry_valid: LASTING.as_secs(), ..EntryOut::default() }
    }
}

/// The same attributes as STATX wants them, and the time of birth where there is one.
pub(crate) fn statx_out(of: &AttrOut, birth: Option<StatxTime>) -> StatxOut {
    let AttrOut { attr_valid, attr_valid_nsec, attr, .. } = *of;
    let time = |secs: u64, nanos| StatxTime { secs: secs as i64, nanos, reserved: 0 };
    let device = decode_device(attr.rdev);
    let mask = libc::STATX_BASIC_STATS | if birth.is_some() { libc::STATX_BTIME } else { 0 };
    let stat = Statx {
        mask,
        blksize: attr.blksize,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode as u16,
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime, attr.atimensec),
        btime: birth.unwrap_or_default(),
        ctime: time(attr.ctime, attr.ctimensec),
        mtime: time(attr.mtime, attr.mtimensec),
        rdev_major: device.major,
        rdev_minor: device.minor,
        ..Statx::default()
    };
    StatxOut { attr_valid, attr_valid_nsec, stat, ..StatxOut::default() }
}

fn valid(of: &Attributes) -> Duration {
    if of.is_settled { LASTING } else { PASSING }
}

/// The type in the upper bits of a mode.
pub(crate) fn file_type(kind: FileKind) -> u32 {
    match kind {
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::CharDevice => libc::S_IFCHR,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::BlockDevice => libc::S_IFBLK,
        FileKind::File => libc::S_IFREG,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Socket => libc::S_IFSOCK,
    }
}

/// The kernel's 32-bit device number in requests: minor's low byte, major, minor's rest.
pub(crate) fn decode_device(rdev: u32) -> DeviceNumber {
    DeviceNumber { major: (rdev >> 8) & 0xfff, minor: (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00) }
}

fn encode_device(device: DeviceNumber) -> u32 {
    (device.minor & 0xff) | ((device.major & 0xfff) << 8) | ((device.minor & 0xf_ff00) << 12)
}

/// A time to set, as SETATTR has it.
pub(crate) fn set_time(is_now: bool, secs: u64, nanos: u32) -> SetTime {
    if is_now { SetTime::Now } else { SetTime::To(Timestamp { secs: secs as i64, nanos }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive_the_way_there_and_back() {
        for device in [DeviceNumber { major: 259, minor: 70_000 }, DeviceNumber { major: 1, minor: 3 }] {
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }

    #[test]
    fn files_of_different_snapshots_have_different_inodes() {
        let root = ObjectId::new(34);
        let inodes = |fsid: u16| Inodes { root, fsid: Fsid(fsid) };
        for object in [root, ObjectId::new(2), ObjectId::new((1 << 48) - 4)] {
            let all: Vec<u64> = [0, 1, 2, u16::MAX].map(|fsid| inodes(fsid).inode(object)).to_vec();
            for (at, fsid) in [0, 1, 2, u16::MAX].into_iter().enumerate() {
                assert_eq!(all.iter().filter(|inode| **inode == all[at]).count(), 1);
                assert_eq!((Fsid::of(all[at]), inodes(fsid).object(all[at])), (Fsid(fsid), object));
                assert_eq!(inodes(fsid).own(all[at]), Ok(object));
                assert_eq!(inodes(7).own(all[at]), Err(Errno::XDEV));
            }
        }
        assert_eq!(inodes(0).own(crate::ctldir::Ctlnode::Root.inode()), Err(Errno::XDEV));
    }

    #[test]
    fn times_before_1970_are_taken_as_meant() {
        let time = Timestamp { secs: -2, nanos: 250_000_000 };
        assert_eq!(set_time(false, -2_i64 as u64, 250_000_000), SetTime::To(time));
    }
}
