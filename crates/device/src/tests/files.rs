use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oracle::needs::Need;
use units::LeafOffset;

use super::{at, env, filled, holds, plain_env};
use crate::FileDevice;
use env::{BufSlice, Device, DeviceError, Durability, Env, IoBuf, OpenMode};

/// A directory on the disk that holds the build: unlike /tmp, hardly ever a tmpfs.
fn disk_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its program");
    exe.parent().expect("programs lie in directories").to_owned()
}

/// A temporary file of that size on disk.
pub(super) fn file_on_disk(len: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(disk_dir()).expect("the target directory takes files");
    file.as_file().set_len(len).expect("the disk has room");
    file
}

fn bytes_of(path: &Path, offset: u64, len: usize) -> Vec<u8> {
    let mut file = std::fs::File::open(path).expect("readable");
    file.seek(SeekFrom::Start(offset)).expect("seekable");
    let mut bytes = vec![0; len];
    file.read_exact(&mut bytes).expect("long enough");
    bytes
}

#[test]
fn what_is_written_is_read_back_by_everybody() {
    for env in [env(), plain_env()] {
        let file = file_on_disk(1 << 20);
        env.block_on(async {
            let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
            for durability in [Durability::Cached, Durability::Stable] {
                let byte = 1 + durability as u8;
                device.write(at(8192), filled(byte, 16384), durability).await.expect("written");
                assert!(holds(&*device, 8192, 16384, byte).await);
                assert_eq!(bytes_of(file.path(), 8192, 16384), vec![byte; 16384]);
            }
            device.flush().await.expect("flushed");
        });
    }
}

#[test]
fn a_file_on_a_disk_goes_around_the_page_cache() {
    let file = file_on_disk(1 << 20);
    let device = FileDevice::open(file.path(), OpenMode::ReadOnly, true).expect("opened");
    if !device.is_direct() {
        Need::DirectIo.is_missing(&format!("no direct I/O in {}", disk_dir().display()));
        return;
    }
    assert!(!device.info().is_block_device);
}

#[test]
fn gathered_slices_of_any_alignment_land_one_after_another() {
    let env = env();
    let file = file_on_disk(1 << 20);
    env.block_on(async {
        let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
        let mut numbers = IoBuf::zeroed(8192);
        for (n, byte) in numbers.iter_mut().enumerate() {
            *byte = (n % 251) as u8;
        }
        let numbers = Arc::new(numbers);
        let cuts = [0..4096, 4096..4608, 4608..4609, 4609..5000, 5000..8192];
        let slices = cuts.map(|cut| BufSlice::new(Arc::clone(&numbers), cut)).to_vec();
        device.write(at(512), slices, Durability::Stable).await.expect("written");
        let back = device.read(at(512), 8192).await.expect("read");
        assert_eq!(back[..], numbers[..]);
    });
}

#[test]
fn more_slices_than_one_call_takes_are_written_all_the_same() {
    let env = env();
    let file = file_on_disk(4 << 20);
    env.block_on(async {
        let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
        let slices: Vec<_> = (0..3000_u32).flat_map(|n| filled(n as u8, 512)).collect();
        device.write(at(0), slices, Durability::Cached).await.expect("written");
        let back = device.read(at(0), 3000 * 512).await.expect("read");
        for (n, sector) in back.chunks(512).enumerate() {
            assert!(sector.iter().all(|&byte| byte == n as u8), "sector {n}");
        }
    });
}

#[test]
fn half_kilobyte_sectors_work_on_files() {
    let env = env();
    let file = file_on_disk(1 << 20);
    env.block_on(async {
        let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
        assert_eq!(device.info().logical_sector_bytes, 512);
        assert_eq!(device.info().physical_sector_bytes, 512);
        device.write(at(512), filled(1, 512), Durability::Stable).await.expect("written");
        device.write(at(1024), filled(2, 512), Durability::Cached).await.expect("written");
        assert!(holds(&*device, 0, 512, 0).await);
        assert!(holds(&*device, 512, 512, 1).await);
        assert!(holds(&*device, 1024, 512, 2).await);
    });
}

#[test]
fn requests_that_do_not_fit_the_device_are_refused() {
    let env = env();
    let file = file_on_disk(1 << 20);
    env.block_on(async {
        let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
        let refused = [
            device.read(at(1 << 20), 512).await.err(),
            device.read(at(u64::MAX - 511), 512).await.err(),
            device.read(at(100), 512).await.err(),
            device.read(at(0), 100).await.err(),
            device.write(at((1 << 20) - 512), filled(1, 1024), Durability::Cached).await.err(),
        ];
        for error in refused {
            assert!(matches!(error, Some(DeviceError::OutOfRange { .. })), "{error:?}");
        }
    });
}

#[test]
fn a_device_is_written_by_one_owner_at_a_time() {
    let env = env();
    let file = file_on_disk(1 << 20);
    env.block_on(async {
        let first = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
        let second = env.open(file.path(), OpenMode::ReadWrite).await;
        assert!(matches!(second.err(), Some(DeviceError::InUse { path }) if path == file.path()));
        env.open(file.path(), OpenMode::ReadOnly).await.expect("readers take no lock");
        drop(first);
        env.open(file.path(), OpenMode::ReadWrite).await.expect("free again");
    });
}

#[test]
fn reading_only_means_writes_fail() {
    let env = env();
    let file = file_on_disk(1 << 20);
    env.block_on(async {
        let device = env.open(file.path(), OpenMode::ReadOnly).await.expect("opened");
        let error = device.write(at(0), filled(1, 512), Durability::Cached).await.expect_err("refused");
        assert!(matches!(error, DeviceError::Io { op: "write", offset, len: 512, .. } if offset == LeafOffset::new(0)));
    });
}

#[test]
fn what_is_no_device_is_named_so() {
    let env = env();
    let dir = tempfile::tempdir().expect("a directory");
    let fifo = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from(0o600)).expect("a pipe");
    env.block_on(async {
        let missing = env.open(&dir.path().join("nothing"), OpenMode::ReadWrite).await.err();
        assert!(matches!(missing, Some(DeviceError::Missing { .. })), "{missing:?}");
        for path in [dir.path(), &fifo, Path::new("/dev/null")] {
            for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
                let error = env.open(path, mode).await.err();
                assert!(matches!(error, Some(DeviceError::NotADevice { .. })), "{error:?}");
            }
        }
    });
}

#[test]
fn files_in_memory_need_no_ring() {
    let Ok(mut file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        Need::Tmpfs.is_missing("no file can be made in /dev/shm");
        return;
    };
    file.write_all(&[7; 65536]).expect("written");
    let env = env();
    env.block_on(async {
        let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
        assert!(holds(&*device, 0, 65536, 7).await);
        device.write(at(4096), filled(8, 4096), Durability::Stable).await.expect("written");
        assert!(holds(&*device, 4096, 4096, 8).await);
        device.flush().await.expect("flushed");
    });
}

#[test]
fn a_file_cut_short_gives_errors_not_zeros() {
    let env = env();
    let file = file_on_disk(1 << 20);
    env.block_on(async {
        let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
        file.as_file().set_len(8192).expect("cut");
        let error = device.read(at(4096), 8192).await.expect_err("half of it is gone");
        assert!(matches!(error, DeviceError::Io { op: "read", .. }));
    });
}

#[test]
fn discarded_room_is_given_back_and_the_size_stays() {
    use std::os::unix::fs::MetadataExt;
    for env in [env(), plain_env()] {
        let file = file_on_disk(4 << 20);
        env.block_on(async {
            let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("opened");
            assert!(device.info().can_discard && device.info().has_volatile_cache);
            device.write(at(0), filled(3, 4 << 20), Durability::Stable).await.expect("written");
            let before = std::fs::metadata(file.path()).expect("there").blocks();
            device.discard(at(1 << 20), 2 << 20).await.expect("discarded");
            let after = std::fs::metadata(file.path()).expect("there");
            assert!(after.blocks() + (1 << 20) / 512 < before, "{} of {before} blocks left", after.blocks());
            assert_eq!(after.len(), 4 << 20);
            assert!(holds(&*device, (1 << 20) - 4096, 4096, 3).await);
            assert!(holds(&*device, 1 << 20, 2 << 20, 0).await);
            assert!(holds(&*device, 3 << 20, 4096, 3).await);
            let beyond = device.discard(at(3 << 20), 2 << 20).await;
            assert!(matches!(beyond, Err(DeviceError::OutOfRange { op: "discard", .. })), "{beyond:?}");
        });
    }
}

#[test]
fn a_part_has_its_own_numbers_and_ends() {
    let ram: Arc<dyn Device> = Arc::new(env::RamDevice::new(1 << 20));
    assert!(env::Part::new(Arc::clone(&ram), 4096..(1 << 20) + 512).is_none(), "beyond the end");
    assert!(env::Part::new(Arc::clone(&ram), 4096..4096).is_none(), "nothing");
    assert!(env::Part::new(Arc::clone(&ram), 100..4096).is_none(), "not in sectors");
    let part = env::Part::new(Arc::clone(&ram), 4096..12288).expect("on the device");
    assert_eq!(part.info().size_bytes, 8192);
    env().block_on(async {
        part.write(at(0), filled(7, 8192), Durability::Cached).await.expect("written");
        assert!(holds(&*ram, 4096, 8192, 7).await && holds(&*ram, 12288, 512, 0).await);
        part.discard(at(4096), 4096).await.expect("discarded");
        assert!(holds(&*ram, 4096, 4096, 7).await && holds(&*ram, 8192, 4096, 0).await);
        for (offset, len) in [(8192, 512), (4096, 8192), (u64::MAX - 511, 512)] {
            assert!(matches!(part.read(at(offset), len).await, Err(DeviceError::OutOfRange { .. })));
            let write = part.write(at(offset), filled(1, len), Durability::Cached).await;
            assert!(matches!(write, Err(DeviceError::OutOfRange { .. })));
        }
    });
}
