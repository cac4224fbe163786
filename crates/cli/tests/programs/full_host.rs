//! The host's file system is full below a pool of sparse files: the pool waits for room, or is given up.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::mounted::{POOL, World};

const KEPT: &[u8] = b"made stable before";
const MIB: usize = 1 << 20;

/// A pool of one sparse file that is larger than the file system it lies in.
fn world() -> Option<World> {
    World::prepared("a", 512, |disks| {
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(disks);
        assert!(mount.status().expect("mount runs").success());
    })
}

/// Takes all room there is.
fn fill(disks: &Path) {
    let mut ballast = File::create(disks.join("ballast")).expect("a file");
    loop {
        match ballast.write(&[1; 4096]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn late(bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect()
}

/// Writes more than there is room for, until the pool is suspended. Who writes may be waiting then.
fn suspend(world: &World, bytes: usize) -> JoinHandle<io::Result<()>> {
    fs::write(world.root().join("kept"), KEPT).expect("there is room");
    world.zpool(&format!("sync {POOL}"));
    fill(&world.disks());
    let path = world.root().join("late");
    let writing = std::thread::spawn(move || fs::write(path, late(bytes)));
    let begun = Instant::now();
    while world.zpool(&format!("list -Ho health {POOL}")) != "SUSPENDED\n" {
        assert!(begun.elapsed() < Duration::from_secs(60), "the pool is not suspended");
        std::thread::sleep(Duration::from_millis(50));
    }
    writing
}

fn make_room(world: &World) {
    fs::remove_file(world.disks().join("ballast")).expect("it was there");
}

#[test]
fn a_pool_whose_host_was_full_goes_on_once_there_is_room() {
    let Some(world) = world() else { return };
    let writing = suspend(&world, 8 * MIB);
    let status = world.zpool(&format!("status {POOL}"));
    assert!(status.contains(" state: SUSPENDED\n"), "{status}");
    assert!(status.contains("One or more devices are faulted in response to IO failures."), "{status}");
    let suspended = "pool I/O is currently suspended\n";
    assert_eq!(
        world.refused(&format!("clear {POOL}")),
        format!("cannot clear errors for {POOL}: {suspended}")
    );
    assert_eq!(world.refused(&format!("export {POOL}")), format!("cannot export '{POOL}': {suspended}"));
    make_room(&world);
    world.zpool(&format!("clear {POOL}"));
    writing.join().expect("it ends").expect("all is written");
    world.zpool(&format!("sync {POOL}"));
    assert_eq!(world.zpool(&format!("list -Ho health {POOL}")), "ONLINE\n");
    assert!(fs::read(world.root().join("late")).expect("it is there") == late(8 * MIB));
    world.finish();
}

#[test]
fn a_suspended_pool_is_given_up_and_comes_back_with_what_was_stable() {
    let Some(world) = world() else { return };
    let writing = suspend(&world, 8 * MIB);
    let mut unmount = world.start("zfs", &format!("unmount -f {POOL}"));
    std::thread::sleep(Duration::from_secs(1));
    assert!(unmount.try_wait().expect("ours").is_none(), "it does not wait for what is to be made stable");
    world.zpool(&format!("export -f {POOL}"));
    _ = writing.join().expect("it ends");
    _ = unmount.wait().expect("it ends");
    make_room(&world);
    world.import();
    assert_eq!(fs::read(world.root().join("kept")).expect("it is there"), KEPT);
    let writing = suspend(&world, 24 * MIB);
    world.stop_daemon();
    _ = writing.join().expect("it ends");
    make_room(&world);
    world.restart();
    assert_eq!(fs::read(world.root().join("kept")).expect("it is there"), KEPT);
    world.finish();
}
