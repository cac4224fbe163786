//! Images of whole disks: the pool lies in a partition of them, as OpenZFS on Linux makes it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use oracle::golden;
use oracle::needs::Need;
use oracle::zdb::Zdb;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::World;

const POOL: &str = "g01-single-nofeat";
const START: u64 = 1 << 20;

/// A disk with a partition table as OpenZFS makes it (partition 1 from 1 MiB, 9 at the end) and the
/// image in partition 1. `None` where there is no sgdisk.
fn disk_around(image: &Path, disk: &Path) -> Option<()> {
    let bytes = std::fs::metadata(image).expect("an image").len();
    File::create(disk).and_then(|file| file.set_len(START + bytes + (10 << 20))).expect("room");
    let (first, last) = (START / 512, (START + bytes) / 512 - 1);
    let made = Command::new("sgdisk")
        .args([
            format!("--new=1:{first}:{last}"),
            "--typecode=1:BF01".into(),
            "--change-name=1:zfs-1a2b".into(),
        ])
        .args(["--new=9:0:+8M", "--typecode=9:BF07"])
        .arg(disk)
        .output();
    let Ok(made) = made else {
        Need::Program("sgdisk").is_missing("sgdisk is not installed (package gdisk)");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    copy(image, 0, disk, START, bytes);
    Some(())
}

fn copy(from: &Path, from_at: u64, to: &Path, to_at: u64, bytes: u64) {
    let from = File::open(from).expect("readable");
    let to = File::options().write(true).create(true).truncate(false).open(to).expect("writable");
    let mut buf = vec![0; 1 << 20];
    for at in (0..bytes).step_by(buf.len()) {
        let len = buf.len().min((bytes - at) as usize);
        from.read_exact_at(&mut buf[..len], from_at + at).expect("read");
        to.write_all_at(&buf[..len], to_at + at).expect("written");
    }
}

#[test]
fn a_pool_in_a_partition_of_a_whole_disk_is_read_and_written_there() {
    let images = golden::images(POOL);
    let dir = tempfile::tempdir().expect("a directory");
    let disk = dir.path().join("disk.img");
    let Some(()) = disk_around(&images[0], &disk) else { return };
    let bytes = std::fs::metadata(&images[0]).expect("an image").len();
    let world = World::of(POOL, vec![disk.clone()]);
    world.check(&world.told("manifest.jsonl"), crate::Leave::default());

    let pool = world.import(false).expect("imported for writing");
    world.env.block_on(async {
        let zfs = pool.filesystem("whirl").await.expect("the root dataset").zfs.clone();
        let new = zfs.create(zfs.root(), b"ours", NewNode::File, 0o600, Cred::default()).await;
        let file = new.expect("created").object;
        zfs.write(file, 0, &vec![0x5a; 300_000], WriteFlags::default()).await.expect("written");
        drop(zfs);
        pool.close(PoolState::Exported).await.expect("exported");
    });
    drop(pool);

    let extracted = tempfile::tempdir().expect("a directory");
    let part = extracted.path().join("part.img");
    copy(&disk, START, &part, 0, bytes);
    Zdb::new(extracted.path(), "whirl").check().expect("zdb finds nothing wrong");
    let alone = World::of(POOL, vec![part]);
    let walked = alone.read();
    assert!(walked.errors.is_empty(), "{:?}", walked.errors);
    assert!(walked.manifest.keys().any(|(dataset, path)| dataset == "whirl" && path.ends_with(b"ours")));

    // Nothing was written outside the partition.
    let table = Command::new("sgdisk").arg("--verify").arg(&disk).output().expect("sgdisk");
    assert!(String::from_utf8_lossy(&table.stdout).contains("No problems found"), "{table:?}");
}
