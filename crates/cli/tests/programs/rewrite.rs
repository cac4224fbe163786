//! `zfs rewrite` of files on a mount: other blocks, the same bytes and times.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::mounted::{POOL, World};
use crate::shell::sh;

const USER: u32 = 65_433;
const FILES: [&str; 4] = ["a", "small", "d/b", "d/e/c"];

/// What `stat` tells of the files that a rewrite must not change, and how many sectors they take.
fn stats(root: &Path) -> BTreeMap<&'static str, (String, u64)> {
    let stat = |name| {
        let of = fs::metadata(root.join(name)).expect("it is there");
        let (mtime, ctime) = ((of.mtime(), of.mtime_nsec()), (of.ctime(), of.ctime_nsec()));
        (format!("{mtime:?} {ctime:?} {} {:o} {} {}", of.len(), of.mode(), of.uid(), of.ino()), of.blocks())
    };
    FILES.map(|name| (name, stat(name))).into()
}

/// Writes out all, and has the kernel ask again what files take.
fn settle(world: &World) {
    world.zpool(&format!("sync {POOL}"));
    world.export();
    world.import();
}

/// Which files take another tenth or less than they did; all else must be as it was.
fn shrunk(world: &World, before: &BTreeMap<&'static str, (String, u64)>) -> Vec<&'static str> {
    settle(world);
    let mut shrunk = Vec::new();
    for (name, (stat, sectors)) in stats(&world.root()) {
        let (old_stat, old_sectors) = &before[name];
        assert_eq!(stat, *old_stat, "{name}");
        if sectors != *old_sectors {
            assert!(sectors < old_sectors / 10, "{name}: {old_sectors} sectors, then {sectors}");
            shrunk.push(name);
        }
    }
    shrunk
}

/// A pool with files in some directories, none compressed, and compression for what is written from now on.
fn start() -> Option<(World, String)> {
    let world = crate::world(&["yes", "sha256sum", "setpriv"])?;
    world.zfs(&format!("set compression=off {POOL}"));
    let script = "mkdir -p d/e; { yes sawmill || true; } | head -c 6000000 > a
        { yes other || true; } | head -c 3000000 > d/b; cp --reflink=never d/b d/e/c
        { yes small || true; } | head -c 100000 > small
        sha256sum a small d/b d/e/c";
    let sums = sh(script, &world.root());
    settle(&world);
    world.zfs(&format!("set compression=lz4 {POOL}"));
    Some((world, sums))
}

#[test]
fn files_are_rewritten_as_the_properties_are_now() {
    let Some((world, sums)) = start() else { return };
    let (root, place) = (world.root(), world.root().display().to_string());
    let before = stats(&root);
    assert_eq!(world.zfs_prints(&format!("rewrite {place}/d")), "", "directories only with -r");
    assert_eq!(shrunk(&world, &before), [""; 0]);
    assert_eq!(world.zfs_prints(&format!("rewrite {place}/small")), "");
    assert_eq!(shrunk(&world, &before), ["small"]);
    // A part first.
    assert_eq!(
        world.zfs_prints(&format!("rewrite -v -o 0x20000 -l 1048576 {place}/a")),
        format!("{place}/a\n")
    );
    settle(&world);
    let part = stats(&root)["a"].1;
    let (most, least) = (before["a"].1 - 2000, before["a"].1 - 2100);
    assert!((least..=most).contains(&part), "{} sectors, then {part}", before["a"].1);
    let told = world.zfs_prints(&format!("rewrite -rv {place}/a {place}/d"));
    assert_eq!(told, format!("{place}/a\n{place}/d/b\n{place}/d/e/c\n"));
    assert_eq!(shrunk(&world, &before).len(), FILES.len());
    assert_eq!(sh("sha256sum a small d/b d/e/c", &root), sums);
    world.finish();
}

#[test]
fn what_lies_in_another_file_system_is_left_with_x() {
    let Some((world, _)) = start() else { return };
    let place = world.root().display().to_string();
    world.zfs(&format!("create -o mountpoint={place}/d/other {POOL}/other"));
    sh("{ yes other || true; } | head -c 100000 > d/other/f", &world.root());
    let told = world.zfs_prints(&format!("rewrite -rvx {place}/d"));
    assert_eq!(told, format!("{place}/d/b\n{place}/d/e/c\n"));
    let told = world.zfs_prints(&format!("rewrite -rv {place}/d"));
    assert!(told.contains(&format!("{place}/d/other/f\n")), "{told}");
    world.finish();
}

#[test]
fn who_may_write_to_a_file_may_rewrite_it() {
    let Some((world, _)) = start() else { return };
    let (root, place) = (world.root(), world.root().display().to_string());
    sh(&format!("chmod 666 a; chown {USER} small; chmod 600 small; chmod 644 d/b"), &root);
    let before = stats(&root);
    let as_user = |name: &str| {
        let ids = [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()];
        let mut command = Command::new("setpriv");
        command.args(ids).arg(world.run_dir().with_file_name("bin/zfs"));
        let output = command.args(["rewrite", &format!("{place}/{name}")]).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(as_user("a"), (Some(0), String::new()));
    assert_eq!(as_user("small"), (Some(0), String::new()));
    let refused = format!("failed to open {place}/d/b: Permission denied\n");
    assert_eq!(as_user("d/b"), (Some(13), refused));
    assert_eq!(shrunk(&world, &before), ["a", "small"]);
    world.finish();
}

#[test]
fn what_cannot_be_rewritten_is_told_in_openzfss_words() {
    let Some((world, _)) = start() else { return };
    let place = world.root().display().to_string();
    world.zfs(&format!("snapshot {POOL}@s"));
    let refused = |line: &str| {
        let output = world.run("zfs", &format!("rewrite {line}"));
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
    };
    let of = |what: &str, why: &str, code| (format!("failed to {what}: {why}\n"), Some(code));
    let missing = of(&format!("stat {place}/nope"), "No such file or directory", 2);
    assert_eq!(refused(&format!("{place}/nope {place}/a")), missing, "others are rewritten");
    let snapshot = format!("{place}/.zfs/snapshot/s/a");
    assert_eq!(refused(&snapshot), of(&format!("open {snapshot}"), "Read-only file system", 30));
    assert_eq!(
        refused(&format!("-P {place}/a")),
        of(&format!("rewrite {place}/a"), "Operation not supported", 95)
    );
    let elsewhere = world.run_dir().join("daemon.lock").display().to_string();
    let not_here = of(&format!("rewrite {elsewhere}"), "Inappropriate ioctl for device", 25);
    assert_eq!(refused(&elsewhere), not_here);
    let (told, code) = refused("");
    assert!(told.starts_with("missing file or directory target(s)\nusage:\n"), "{told}");
    assert_eq!(code, Some(2));
    world.finish();
}
