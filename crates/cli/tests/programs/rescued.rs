//! `sawmill rescue` into a file system of an imported pool.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;

use sawmill::Vdev;
use sawmill::blocking::Engine;

use crate::mounted::{World, bounded};

const DISK_BYTES: u64 = 64 << 20;
const LABEL_BYTES: u64 = 256 << 10;
const CONTENT: &[u8] = b"content of a lost pool";

/// Creates a pool on a file, writes a file to the pool, and wipes all labels.
fn lost_pool(disk: &Path) {
    File::create_new(disk).and_then(|file| file.set_len(DISK_BYTES)).expect("a disk");
    let pool = Engine::start().create("lost", &[Vdev::disk(disk)]).expect("a pool");
    let files = pool.filesystem("lost").expect("its file system");
    files.write("file", CONTENT).expect("written");
    drop(files);
    pool.export().expect("exported");
    let file = File::options().write(true).open(disk).expect("the disk");
    for label in [0, 1, DISK_BYTES / LABEL_BYTES - 2, DISK_BYTES / LABEL_BYTES - 1] {
        file.write_all_at(&vec![0; LABEL_BYTES as usize], label * LABEL_BYTES).expect("wiped");
    }
}

fn rescue(world: &World, disk: &Path, dataset: &str) -> Output {
    let mut command = bounded(Path::new(env!("CARGO_BIN_EXE_sawmill")));
    command.arg("rescue").arg(disk).args(["--to-dataset", dataset]);
    command.env("SAWMILL_RUN", world.run_dir()).output().expect("the program runs")
}

#[test]
fn a_lost_pool_is_rescued_into_a_dataset() {
    let Some(world) = crate::world(&[]) else { return };
    let disk = world.disks().join("lost");
    lost_pool(&disk);
    // The second run finds the file system, and nothing left to copy.
    for _ in 0..2 {
        let printed = rescue(&world, &disk, "tank/from/lost");
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let copied = world.root().join("from/lost/lost/@/file");
        assert!(fs::read(&copied).expect("the file") == CONTENT);
    }
    world.zfs("unmount tank/from/lost");
    let printed = rescue(&world, &disk, "tank/from/lost");
    let refused = "cannot rescue to 'tank/from/lost': filesystem is not mounted\n";
    assert_eq!(
        (String::from_utf8_lossy(&printed.stderr).as_ref(), printed.status.code()),
        (refused, Some(1))
    );
    let printed = rescue(&world, &disk, "absent/from");
    assert_eq!(printed.status.code(), Some(1));
    world.finish();
}
