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

/// A time from a request. `fuser` 0.18 takes the nanoseconds of a time before 1970 off where they
/// are to be put on: -2 s and 0.25 s, which is -1.75 s, arrive as -2.25 s.
fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Timestamp { secs: after.as_secs() as i64, nanos: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            Timestamp { secs: -(before.as_secs() as i64), nanos: before.subsec_nanos() }
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
    fn times_before_1970_are_told_as_they_are() {
        let before = |secs, nanos| UNIX_EPOCH - Duration::new(secs, nanos);
        assert_eq!(system_time(Timestamp { secs: -2, nanos: 250_000_000 }), before(1, 750_000_000));
        assert_eq!(system_time(Timestamp { secs: -1, nanos: 0 }), before(1, 0));
    }

    #[test]
    fn times_in_requests_are_taken_as_meant() {
        // As `fuser` makes them of the kernel's seconds and nanoseconds.
        let request = |secs: i64, nanos| match secs {
            0.. => UNIX_EPOCH + Duration::new(secs as u64, nanos),
            _ => UNIX_EPOCH - Duration::new(secs.unsigned_abs(), nanos),
        };
        for (secs, nanos) in [(-43_200, 123_456_789), (-2, 999_999_999), (-1, 0), (0, 1), (4_102_444_800, 0)]
        {
            assert_eq!(timestamp(request(secs, nanos)), Timestamp { secs, nanos });
        }
    }

    #[test]
    fn device_numbers_survive_the_way_there_and_back() {
        for device in [DeviceNumber { major: 259, minor: 70_000 }, DeviceNumber { major: 1, minor: 3 }] {
            assert_eq!(decode_device(encode_device(device)), device);
        }
    }
}
