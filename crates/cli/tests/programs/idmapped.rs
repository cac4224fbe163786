//! A mount shown once more with other ids, as containers with user namespaces have their volumes.

use std::path::Path;
use std::process::Command;

use oracle::needs::Need;
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use crate::mounted::World;
use crate::shell::sh;

const SHIFT: &str = include_str!("idmapped.py");
/// The script's exit status where the kernel knows no such mounts of FUSE.
const NOT_ALLOWED: i32 = 3;

#[test]
fn ids_are_shifted_there_and_back() {
    if let Some(world) = crate::world(&["python3", "setpriv"]) {
        shifts_ids(&world);
        world.finish();
    }
}

pub fn shifts_ids(world: &World) {
    let Some(shifted) = Shifted::new(&world.root()) else { return };
    let here = |user: u32, line: &str| {
        let who = format!("setpriv --reuid={user} --regid={user} --clear-groups");
        sh(&format!("{who} sh -ec '{line}' 2>&1 || echo refused"), shifted.0.path())
    };
    let owners = |dir: &Path, files: &str| sh(&format!("stat -c '%n %u:%g' {files}"), dir);
    assert_eq!(owners(shifted.0.path(), "."), ". 100000:100000\n", "root's own directory");

    assert_eq!(here(100_000, "echo x > file; mkdir dir; ln -s file link; mkfifo pipe"), "");
    let made = "dir 0:0\nfile 0:0\nlink 0:0\npipe 0:0\n";
    assert_eq!(owners(&world.root(), "dir file link pipe"), made);
    assert_eq!(here(100_000, "mv file dir; ln dir/file again; rm link; chmod 700 dir; cat again"), "x\n");

    assert!(here(100_007, "echo y > other").contains("Permission denied"), "the directory is another's");
    sh("chmod 1777 .", &world.root());
    assert_eq!(here(100_007, "echo y > other; chmod 600 other"), "");
    assert_eq!(owners(&world.root(), "other"), "other 7:7\n");
    assert!(here(100_008, "cat other").contains("Permission denied"), "it is another's");
    sh("chown 8:9 other", &world.root());
    assert_eq!(owners(shifted.0.path(), "other"), "other 100008:100009\n");
    assert_eq!(here(100_008, "cat other"), "y\n");

    // Who has no number there makes nothing there.
    assert!(here(0, "echo z > mine").contains("Value too large"), "root of the host");
    assert!(!world.root().join("mine").exists());
}

/// The second mount; unmounted when dropped.
struct Shifted(TempDir);

impl Shifted {
    fn new(source: &Path) -> Option<Self> {
        let target = TempDir::new().expect("a directory");
        let mut python = Command::new("python3");
        let status = python.args(["-c", SHIFT]).args([source, target.path()]).status().expect("it runs");
        if status.code() == Some(NOT_ALLOWED) {
            Need::FuseIds.is_missing("the kernel shows no FUSE mount with other ids: Linux 6.12 does");
            return None;
        }
        assert!(status.success(), "{status}");
        Some(Self(target))
    }
}

impl Drop for Shifted {
    fn drop(&mut self) {
        let _gone_already = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}
