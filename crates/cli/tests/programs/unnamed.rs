//! Files that were removed while programs have them open.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

/// `zfs wait` ends when the last such file is closed, and not before.
#[test]
fn who_waits_for_removed_files_waits_until_they_are_closed() {
    let Some(world) = crate::world(&[]) else { return };
    world.zfs("create tank/fs");
    let path = world.root().join("fs/open");
    let mut file = File::create(&path).expect("made");
    file.write_all(&[1; 100_000]).expect("written");
    fs::remove_file(&path).expect("removed");
    let mut waiting = world.start("zfs", "wait -t deleteq tank/fs");
    std::thread::sleep(Duration::from_millis(700));
    assert!(waiting.try_wait().expect("a state").is_none(), "it waits");
    drop(file);
    assert!(waiting.wait().expect("it ends").success());
    world.zfs("unmount tank/fs");
    world.zfs("wait tank/fs");
    world.finish();
}
