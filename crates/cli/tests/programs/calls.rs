//! System calls that programs rely on, on the mounted file system.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate, fstat, open, seek, statvfs};

use crate::mounted::POOL;
use crate::shell::sh;

const MIB: u64 = 1 << 20;

#[test]
fn what_a_memory_map_wrote_is_read_back_after_a_kill() {
    let Some(world) = crate::world(&["python3"]) else { return };
    let script = r#"
import mmap, os
f = os.open("mapped", os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(f, 1 << 20)
m = mmap.mmap(f, 1 << 20)
for at in range(0, 1 << 20, 4096):
    m[at:at + 8] = at.to_bytes(8, "little")
assert os.pread(f, 8, 8192) == (8192).to_bytes(8, "little"), "a read sees what the map wrote"
os.pwrite(f, b"written", 100)
assert m[100:107] == b"written", "the map sees what was written"
m.flush()
"#;
    fs::write(world.root().join("map.py"), script).expect("a script");
    sh("python3 map.py", &world.root());
    world.kill_daemon();
    world.restart();
    let found = fs::read(world.root().join("mapped")).expect("it is there");
    assert_eq!(found.len() as u64, MIB);
    assert_eq!(&found[100..107], b"written");
    for (at, page) in (0_u64..).step_by(4096).zip(found.chunks(4096)) {
        assert_eq!(page[..8], at.to_le_bytes(), "the page at {at}");
    }
    world.finish();
}

#[test]
fn a_locked_file_is_locked_for_other_processes() {
    let Some(world) = crate::world(&["flock", "python3"]) else { return };
    let root = world.root();
    let file = File::create(root.join("locked")).expect("a file");
    file.lock().expect("nobody else has it");
    sh("! flock -n locked true", &root);
    file.unlock().expect("it is ours");
    sh("flock -n locked true", &root);
    // Locks of byte ranges, as databases use.
    let ranges = r#"
import fcntl, os, sys
f = open("ranges", "w+")
fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
if os.fork() == 0:
    g = open("ranges", "r+")
    fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 10)
    try:
        fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
    except OSError:
        os._exit(0)
    os._exit(1)
sys.exit(os.wait()[1])
"#;
    fs::write(root.join("ranges.py"), ranges).expect("a script");
    sh("python3 ranges.py", &root);
    drop(file);
    world.finish();
}

#[test]
fn free_space_falls_as_files_grow_and_rises_as_they_go() {
    let Some(world) = crate::world(&["head"]) else { return };
    let root = world.root();
    let free = || {
        world.zpool("sync");
        let told = statvfs(&root).expect("it is mounted");
        assert!(told.f_bavail <= told.f_bfree && told.f_bfree <= told.f_blocks);
        assert!(told.f_ffree > 1_000, "room for files");
        told.f_bavail * told.f_frsize
    };
    let before = free();
    assert!(
        before > (crate::DISK_MIB / 2) * MIB && before < crate::DISK_MIB * MIB,
        "{before} bytes are free"
    );
    sh(&format!("head -c {} /dev/urandom > big", 64 * MIB), &root);
    let with = free();
    assert!(before - with >= 64 * MIB && before - with < 80 * MIB, "{before} free, {with} with 64 MiB");
    assert!(fs::metadata(root.join("big")).expect("it is there").blocks() * 512 >= 64 * MIB);
    fs::remove_file(root.join("big")).expect("removed");
    // What was freed may be used again only when it can no longer be needed.
    let after = free().max(free()).max(free()).max(free());
    assert!(before - after < 8 * MIB, "{before} free before, {after} after");
    world.finish();
}

#[test]
fn twenty_thousand_files_in_one_directory_are_listed_once_each() {
    let Some(world) = crate::world(&[]) else { return };
    let dir = world.root().join("many");
    fs::create_dir(&dir).expect("a directory");
    let wanted: BTreeSet<String> = (0..20_000).map(|n| format!("a file whose name ends in {n}")).collect();
    for name in &wanted {
        File::create_new(dir.join(name)).expect("a file");
    }
    let listed = || -> Vec<String> {
        let entries = fs::read_dir(&dir).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    };
    let once = |listed: Vec<String>, wanted: &BTreeSet<String>| {
        assert_eq!(listed.len(), wanted.len(), "each once");
        assert!(listed.into_iter().collect::<BTreeSet<_>>() == *wanted, "the names given");
    };
    once(listed(), &wanted);
    assert_eq!(fs::metadata(&dir).expect("it is there").size(), 20_002, "the size counts entries");
    world.zpool("sync");
    world.kill_daemon();
    world.restart();
    once(listed(), &wanted);
    // Removing while listing: no name is skipped, whichever have gone.
    for entry in fs::read_dir(&dir).expect("a directory") {
        fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    once(listed(), &BTreeSet::new());
    fs::remove_dir(&dir).expect("empty");
    world.finish();
}

#[test]
fn punched_holes_read_as_zeros_and_take_no_space() {
    let Some(world) = crate::world(&["head"]) else { return };
    let path = world.root().join("f");
    sh(&format!("head -c {} /dev/urandom > f", 8 * MIB), &world.root());
    let before = fs::read(&path).expect("it is there");
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("opens");
    let sectors = || {
        file.sync_all().expect("stable");
        world.zpool("sync");
        // The kernel believes for a second what it was told of a file.
        std::thread::sleep(Duration::from_millis(1_100));
        file.metadata().expect("open").blocks()
    };
    let full = sectors();
    let (from, len) = (MIB + 1000, 4 * MIB);
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, len).expect("punched");
    let mut wanted = before.clone();
    wanted[from as usize..(from + len) as usize].fill(0);
    assert!(fs::read(&path).expect("it is there") == wanted, "zeros there, the rest as it was");
    let holed = sectors();
    assert!((full - holed) * 512 > 3 * MIB, "{full} sectors, {holed} after punching");
    // A block has a hole when it lies in it whole; then SEEK_HOLE finds it.
    let hole = seek(&file, SeekFrom::Hole(0)).expect("a hole");
    assert!(hole >= from && hole < from + MIB, "the hole begins at {hole}");
    let data = seek(&file, SeekFrom::Data(hole)).expect("data after it");
    assert!(data <= from + len && data > from + 3 * MIB, "data begin again at {data}");
    fallocate(&file, FallocateFlags::empty(), 0, 9 * MIB).expect("room is made");
    assert_eq!(file.metadata().expect("open").len(), 9 * MIB);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 0, 5000).expect("zeros");
    wanted[..5000].fill(0);
    file.sync_all().expect("stable");
    drop(file);
    world.kill_daemon();
    world.restart();
    wanted.resize(9 * MIB as usize, 0);
    assert!(fs::read(&path).expect("it is there") == wanted, "the same after a kill");
    world.finish();
}

#[test]
fn a_removed_file_lives_as_long_as_it_is_open_and_not_longer() {
    let Some(world) = crate::world(&[]) else { return };
    let open = |name: &str| {
        let path = world.root().join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("a file");
        file.write_all_at(&vec![7; 4 << 20], 0).expect("written");
        fs::remove_file(&path).expect("removed");
        file
    };
    let file = open("closed in time");
    file.write_all_at(b"more", 4 << 20).expect("writable without a name");
    let mut bytes = [0; 6];
    file.read_exact_at(&mut bytes, (4 << 20) - 2).expect("readable without a name");
    assert_eq!(&bytes, b"\x07\x07more");
    assert_eq!(file.metadata().expect("open").nlink(), 0);
    drop(file);
    // This one is open when the daemon dies: the next one lets go of it.
    let orphan = open("open at the kill");
    orphan.sync_all().expect("stable");
    world.zpool("sync");
    world.kill_daemon();
    drop(orphan);
    world.restart();
    assert_eq!(fs::read_dir(world.root()).expect("the root").count(), 0);
    // `finish` has zdb look for what nobody refers to.
    world.zpool("sync");
    let free = statvfs(world.root()).expect("mounted");
    assert!((free.f_blocks - free.f_bavail) * free.f_frsize < 2 * MIB, "its space came back");
    world.finish();
}

#[test]
fn what_was_removed_is_seen_by_who_still_has_it() {
    let Some(world) = crate::world(&["python3", "df", "ls"]) else { return };
    let script = r#"
import os, stat, subprocess
os.mkdir("dir", 0o750)
os.mkdir("dir/below")
d = os.open("dir", os.O_RDONLY | os.O_DIRECTORY)
os.chdir("dir/below")
os.rmdir("../below")
os.rmdir("../../dir")
found = os.stat(".")
assert (found.st_nlink, stat.S_IMODE(found.st_mode)) == (0, 0o755), found
assert os.listdir(".") == []
subprocess.run(["ls", "-l"], check=True)
subprocess.run(["df", "."], check=True)
os.fchmod(d, 0o701)
os.fchown(d, 7, 8)
os.utime(d, (5, 6))
found = os.fstat(d)
assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime) == (0o701, 7, 8, 6), found
for make in [lambda: os.mkdir("new"), lambda: open("new", "w"), lambda: os.symlink("a", "new")]:
    try:
        make()
        raise SystemExit("made in a directory that was removed")
    except FileNotFoundError:
        pass
os.chdir("/")
"#;
    fs::write(world.root().join("removed.py"), script).expect("a script");
    sh("python3 removed.py; rm removed.py", &world.root());
    let file = File::create(world.root().join("file")).expect("a file");
    file.write_all_at(b"12345", 0).expect("written");
    drop(file);
    let by_path = open(world.root().join("file"), OFlags::PATH, Mode::empty()).expect("found");
    fs::remove_file(world.root().join("file")).expect("removed");
    let found = fstat(&by_path).expect("it is still seen");
    assert_eq!((found.st_nlink, found.st_size), (0, 5));
    drop(by_path);
    world.finish();
}

#[test]
fn names_of_trusted_attributes_are_shown_to_root_only() {
    let Some(world) = crate::world(&["setfattr", "getfattr", "setpriv"]) else { return };
    let root = world.root();
    sh("touch f; setfattr -n trusted.t -v x f; setfattr -n user.u -v x f", &root);
    let names = |output: String| {
        let mut names: Vec<String> = output.lines().skip(1).map(str::to_owned).collect();
        names.retain(|name| !name.is_empty());
        names.sort();
        names
    };
    assert_eq!(names(sh("getfattr -m - f", &root)), ["trusted.t", "user.u"]);
    let user = "setpriv --reuid=12002 --regid=12002 --clear-groups --inh-caps=-all";
    assert_eq!(names(sh(&format!("{user} getfattr -m - f"), &root)), ["user.u"]);
    world.finish();
}

#[test]
fn programs_see_when_a_file_was_made_and_the_number_of_the_root() {
    let Some(world) = crate::world(&[]) else { return };
    let root = world.root();
    world.zfs(&format!("set snapdir=visible {POOL}"));
    sh("echo 1 > file; mkdir dir", &root);
    // Asked first of what has no such time.
    assert_eq!(sh("stat -c %W .zfs .zfs/snapshot", &root), "0\n0\n");
    let made = sh("stat -c %W file; stat -c %W dir", &root);
    let changed = sh("stat -c %Y file; stat -c %Y dir", &root);
    assert_eq!(made, changed, "nothing was changed since");
    sh("touch -d 2001-01-01 file; sleep 1.1; echo 2 >> file; mv file dir/", &root);
    assert_eq!(sh("stat -c %W dir/file; stat -c %W dir", &root), made);
    let number = sh("stat -c %i .", &root);
    assert_ne!(number, "1\n", "that is the kernel's word for a root");
    let numbers =
        sh("stat -c %i dir/..; ls -id1 . | cut -d' ' -f1; ls -ia1 | awk '$2 == \".\" {print $1}'", &root);
    assert_eq!(numbers, number.repeat(3));
    world.finish();
}
