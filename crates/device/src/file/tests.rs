use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use oracle::loop_disk::LoopDisk;
use oracle::needs::Need;
use rustix::fs::{Mode, OFlags};

use super::*;
use crate::{Options, RealEnv};
use env::{Env, OpenMode};

/// A temporary file of 1 MiB on the disk that holds the build.
fn file_on_disk() -> tempfile::NamedTempFile {
    let exe = std::env::current_exe().expect("a test knows its program");
    let dir = exe.parent().expect("programs lie in directories");
    let file = tempfile::NamedTempFile::new_in(dir).expect("the target directory takes files");
    file.as_file().set_len(1 << 20).expect("the disk has room");
    file
}

#[test]
fn a_kernel_that_refuses_direct_io_after_all_gets_it_buffered() {
    let env = RealEnv::new(Options { workers: 1, ..Options::default() });
    let file = file_on_disk();
    let mut device = FileDevice::open(file.path(), OpenMode::ReadWrite, true).expect("opened");
    let inner = Arc::get_mut(&mut device.0).expect("the only owner");
    let Some(direct) = &mut inner.direct else {
        Need::DirectIo.is_missing("no direct I/O in the directory for temporary files");
        return;
    };
    // Believes that any address will do, which the kernel does not.
    direct.memory_align = 1;
    let mut numbers = IoBuf::zeroed(8192);
    for (n, byte) in numbers.iter_mut().enumerate() {
        *byte = (n % 251) as u8;
    }
    let odd = BufSlice::new(Arc::new(numbers.clone()), 1..1 + 4096);
    env.block_on(async {
        let offset = LeafOffset::new(4096);
        device.write(offset, vec![odd], Durability::Stable).await.expect("written all the same");
        let back = device.read(offset, 4096).await.expect("read");
        assert_eq!(back[..], numbers[1..1 + 4096]);
    });
    let direct = device.0.direct.as_ref().expect("still there");
    assert!(direct.is_refused.load(Ordering::Relaxed), "not tried again");
}

#[test]
fn a_block_device_has_its_size_and_sectors_and_one_writer() {
    let file = file_on_disk();
    let Some(disk) = LoopDisk::over(file.path()) else { return };
    let env = RealEnv::new(Options { workers: 1, ..Options::default() });
    env.block_on(async {
        let device = env.open(disk.path().as_ref(), OpenMode::ReadWrite).await.expect("opened");
        let info = device.info();
        assert_eq!((info.size_bytes, info.is_block_device), (1 << 20, true));
        assert!(info.logical_sector_bytes >= 512);
        assert!(info.physical_sector_bytes >= info.logical_sector_bytes);
        let mut block = IoBuf::zeroed(4096);
        block.fill(6);
        let offset = LeafOffset::new(8192);
        device.write(offset, vec![block.into()], Durability::Stable).await.expect("written");
        device.flush().await.expect("flushed");
        assert!(device.read(offset, 4096).await.expect("read").iter().all(|&byte| byte == 6));
        let second = env.open(disk.path().as_ref(), OpenMode::ReadWrite).await.err();
        assert!(matches!(second, Some(DeviceError::InUse { .. })), "{second:?}");
    });
}

#[test]
fn a_claim_keeps_others_away_and_yields_to_a_writer_of_this_process() {
    let file = file_on_disk();
    let Some(disk) = LoopDisk::over(file.path()) else { return };
    let path: &Path = disk.path().as_ref();
    let others_get_it = || rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL, Mode::empty()).is_ok();
    // A descriptor that was used for writing is closed by a thread that may wait.
    let others_get_it_soon = || {
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            others_get_it()
        })
    };
    let env = RealEnv::new(Options { workers: 1, ..Options::default() });
    env.block_on(async {
        let [first, second] =
            [env.open(path, OpenMode::Hold).await, env.open(path, OpenMode::Hold).await].map(Result::unwrap);
        first.read(LeafOffset::new(0), 4096).await.expect("read");
        assert!(!others_get_it());
        drop(first);
        assert!(!others_get_it());
        let writer = env.open(path, OpenMode::ReadWrite).await.expect("it yields");
        assert!(matches!(env.open(path, OpenMode::Hold).await, Err(DeviceError::InUse { .. })));
        drop(writer);
        assert!(others_get_it_soon());
        let third = env.open(path, OpenMode::Hold).await.expect("nobody writes any more");
        assert!(!others_get_it());
        drop((second, third));
        assert!(others_get_it_soon());
    });
}

#[test]
fn a_device_let_go_can_be_taken_though_a_fork_has_its_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("device");
    std::fs::write(&path, [0; 4096]).unwrap();
    let device = FileDevice::open(&path, OpenMode::ReadWrite, false).unwrap();
    let copy = device.0.buffered.file().try_clone().unwrap();
    assert!(FileDevice::open(&path, OpenMode::ReadWrite, false).is_err());
    drop(device);
    FileDevice::open(&path, OpenMode::ReadWrite, false).unwrap();
    drop(copy);
}
