//! Attributes as the kernel wants them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use units::ObjectId;
use zpl::{Attributes, DeviceNumber, FileKind, SetTime, Timestamp};

/// The kernel calls the root 1; no file has that number, for it is the master node's.
const ROOT_INODE: u64 = 1;

/// Between the kernel's numbers and the file system's.
#[derive(Clone, Copy)]
pub(crate) struct Inodes {
    pub root: ObjectId,
}

impl Inodes {
    pub fn object(self, inode: INodeNo) -> ObjectId {
        if inode.0 == ROOT_INODE { self.root } else { ObjectId::new(inode.0) }
    }

    pub fn inode(self, object: ObjectId) -> INodeNo {
        INodeNo(if object == self.root { ROOT_INODE } else { object.get() })
    }

    pub fn attr(self, of: &Attributes) -> FileAttr {
        FileAttr {
            ino: self.inode(of.object),
            size: of.size,
            blocks: of.sectors,
            atime: system_time(of.atime),
            mtime: system_time(of.mtime),
            ctime: system_time(of.ctime),
            crtime: system_time(of.crtime),
            kind: file_type(of.kind),
            perm: of.permissions as u16,
            nlink: of.links,
            uid: of.uid,
            gid: of.gid,
            rdev: encode_device(of.device),
            blksize: of.block_bytes,
            flags: 0,
        }
    }
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::Directory => FileType::Directory,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::File => FileType::RegularFile,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Socket => FileType::Socket,
    }
}

/// The kernel's 32-bit device number in requests: minor's low byte, major, minor's rest.
pub(crate) fn decode_device(rdev: u32) -> DeviceNumber {
    DeviceNumber { major: (rdev >> 8) & 0xfff, minor: (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00) }
}

fn encode_device(device: DeviceNumber) -> u32 {
    (device.minor & 0xff) | ((device.major & 0xfff) << 8) | ((device.minor & 0xf_ff00) << 12)
}

fn system_time(time: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(time.nanos.into());
    let secs = Duration::from_secs(time.secs.unsigned_abs());
    if time.secs >= 0 { UNIX_EPOCH + secs + nanos } else { UNIX_EPOCH - secs + nanos }
}

fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp { secs: after.as_secs() as i64, nanos: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let (secs, nanos) = (before.as_secs() as i64, before.subsec_nanos());
            if nanos == 0 {
                Timestamp { secs: -secs, nanos: 0 }
            } else {
                Timestamp { secs: -secs - 1, nanos: 1_000_000_000 - nanos }
            }
        }
    }
}

pub(crate) fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::To(timestamp(time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_survive_the_way_there_and_back() {
        for time in [
            Timestamp { secs: -43_200, nanos: 123_456_789 },
            Timestamp { secs: -1, nanos: 0 },
            Timestamp { secs: 0, nanos: 1 },
            Timestamp { secs: 4_102_444_800, nanos: 0 },
        ] {
            assert_eq!(timestamp(system_time(time)), time);
        }
    }

    #[test]
    fn device_numbers_survive_the_way_there_and_back() {
        for device in [DeviceNumber { major: 259, minor: 70_000 }, DeviceNumber { major: 1, minor: 3 }] {
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }
}
