use super::*;
use env::{MemoryNow, Readers};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

/// Files, and what paths are.
#[derive(Default)]
struct Tree {
    files: BTreeMap<PathBuf, String>,
    identities: BTreeMap<PathBuf, (u64, u64)>,
}

impl Tree {
    fn new(files: &[(&str, &str)], identities: &[(&str, (u64, u64))]) -> Self {
        let files = files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        let identities = identities.iter().map(|(path, is)| (PathBuf::from(path), *is)).collect();
        Self { files, identities }
    }

    fn below(&self, path: &str) -> StorageInfo {
        below(self, Path::new(path))
    }
}

fn missing<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotFound.into())
}

impl Machine for Tree {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).map_or_else(missing, |text| Ok(text.clone().into_bytes()))
    }
    fn replace(&self, _: &Path, _: &[u8], _: Readers) -> io::Result<()> {
        missing()
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        missing()
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        missing()
    }
    fn names_in(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let below = self.files.keys().filter(|path| path.parent() == Some(directory));
        Ok(below.filter_map(|path| path.file_name().map(OsString::from)).collect())
    }
    fn is_directory(&self, _: &Path) -> bool {
        false
    }
    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        self.identities.get(path).copied()
    }
    fn held_by(&self, _: &Path) -> Option<(u32, String)> {
        None
    }
    fn memory(&self) -> Option<MemoryNow> {
        None
    }
}

/// 8:0 and 8:1.
const SDA: u64 = 0x800;
const SDA1: u64 = 0x801;

const DISK: [(&str, &str); 9] = [
    ("/sys/dev/block/8:1/uevent", "MAJOR=8\nMINOR=1\nDEVNAME=sda1\n"),
    ("/sys/dev/block/8:1/partition", "1\n"),
    ("/sys/dev/block/8:1/../uevent", "MAJOR=8\nMINOR=0\nDEVNAME=sda\nDEVTYPE=disk\n"),
    ("/sys/dev/block/8:1/../device/model", "WDC WD10EZEX\n"),
    ("/sys/dev/block/8:1/../size", "2048\n"),
    ("/sys/dev/block/8:1/../queue/rotational", "1\n"),
    ("/sys/dev/block/8:1/../queue/write_cache", "write back\n"),
    (
        "/proc/self/mountinfo",
        "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 1 0:40 / /x rw,y shared:1 - btrfs /dev/sda1 rw\n31 1 0:41 / /t rw - tmpfs tmpfs rw\n",
    ),
    ("/sys/dev/block/7:0/loop/backing_file", "/data/image\n"),
];

fn sda() -> DiskInfo {
    DiskInfo {
        name: "sda".into(),
        model: Some("WDC WD10EZEX".into()),
        size_bytes: Some(1 << 20),
        is_rotational: Some(true),
        has_volatile_cache: Some(true),
        is_virtual: false,
    }
}

#[test]
fn the_disk_below_a_partition_a_file_and_a_loop_is_told() {
    let tree = Tree::new(
        &DISK,
        &[
            ("/dev/sda1", (u64::MAX, SDA1)),
            ("/data/image", (SDA1, 17)),
            ("/dev/loop0", (u64::MAX, 0x700)),
            ("/x/file", (40, 5)),
            ("/t/file", (41, 5)),
        ],
    );
    let on = |file_system: Option<&str>| StorageInfo {
        file_system: file_system.map(Into::into),
        disks: vec![sda()],
    };
    assert_eq!(tree.below("/dev/sda1"), on(None));
    assert_eq!(tree.below("/data/image"), on(Some("ext4")));
    assert_eq!(tree.below("/dev/loop0"), on(None));
    assert_eq!(tree.below("/x/file"), on(Some("btrfs")), "its number is no disk's, what was mounted is");
    let memory = StorageInfo { file_system: Some("tmpfs".into()), disks: Vec::new() };
    assert_eq!(tree.below("/t/file"), memory);
    assert_eq!(tree.below("/nowhere"), StorageInfo::default());
}

#[test]
fn what_is_put_together_of_disks_tells_of_each_of_them() {
    let tree = Tree::new(
        &[
            ("/sys/dev/block/9:0/slaves/vdb", ""),
            ("/sys/dev/block/9:0/slaves/nvme0n1", ""),
            ("/sys/class/block/vdb/uevent", "DEVNAME=vdb\n"),
            ("/sys/class/block/vdb/queue/rotational", "?\n"),
            ("/sys/class/block/nvme0n1/uevent", "DEVNAME=nvme0n1\n"),
            ("/sys/class/block/nvme0n1/queue/rotational", "0\n"),
            ("/sys/class/block/nvme0n1/queue/write_cache", "write through\n"),
        ],
        &[("/dev/md0", (u64::MAX, 0x900))],
    );
    let disks = tree.below("/dev/md0").disks;
    let told: Vec<_> =
        disks.iter().map(|disk| (disk.name.as_str(), disk.is_rotational, disk.has_volatile_cache)).collect();
    assert_eq!(told, [("nvme0n1", Some(false), Some(false)), ("vdb", None, None)]);
    assert_eq!([disks[0].is_virtual, disks[1].is_virtual], [false, true]);
}

#[test]
fn numbers_of_devices_are_taken_apart_as_linux_does() {
    assert_eq!((major(SDA), minor(SDA)), (8, 0));
    // 259:300, as makedev(3) puts it together.
    let number = (259 << 8) | (300 & 0xff) | ((300 & !0xff) << 12);
    assert_eq!((major(number), minor(number)), (259, 300));
}

#[test]
fn a_ring_of_devices_has_an_end() {
    let tree = Tree::new(
        &[("/sys/dev/block/9:0/slaves/md0", ""), ("/sys/class/block/md0/slaves/md0", "")],
        &[("/dev/md0", (u64::MAX, 0x900))],
    );
    assert_eq!(tree.below("/dev/md0").disks, []);
}
