//! Mounts where the kernel keeps what programs write: what they see is the same, and what was made stable outlives the daemon.

use std::fs;
use std::process::{Child, Command};

use rustix::fs::{SeekFrom, seek};

use crate::mounted::{POOL, World};
use crate::shell::{kill_child, sh, until};
use crate::{exerciser, posix};

/// A pool whose file system is mounted so, if all `programs` are there.
fn with_writeback(programs: &[&'static str], look: impl FnOnce(&World)) {
    let Some(world) = crate::world(programs) else { return };
    keep_writes(&world);
    look(&world);
    world.finish();
}

/// Mounts its file system so that the kernel keeps what is written.
fn keep_writes(world: &World) {
    world.zfs(&format!("set org.sawmill:writeback=on {POOL}"));
    world.zfs(&format!("unmount {POOL}"));
    world.zfs(&format!("mount {POOL}"));
}

/// The kernel sets times by its own clock where it keeps what is written.
const TIMES_OF_THE_KERNEL: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for number in range(300):
    fd = os.open(f"file-{number}", os.O_RDWR | os.O_CREAT)
    before = os.fstat(fd)
    assert libc.futimens(fd, None) == 0
    after = os.fstat(fd)
    for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns"):
        assert getattr(after, name) >= getattr(before, name), (number, name, before, after)
    os.close(fd)
"#;

#[test]
fn times_that_the_kernel_sets_are_not_earlier_than_ours() {
    with_writeback(&["python3"], |world| {
        let status =
            Command::new("python3").args(["-c", TIMES_OF_THE_KERNEL]).current_dir(world.root()).status();
        assert!(status.expect("python3 runs").success());
    });
}

/// What programs rely on of sizes, times and places, while the kernel has what they wrote and once it has handed it over.
const PROGRAM: &str = r#"
import errno, mmap, os, subprocess, sys, time

def changed(path, act):
    """Whether an act changes the times of a file, for those who look by its name, before it is closed and after."""
    before = os.stat(path)
    time.sleep(0.01)
    act()
    after = os.stat(path)
    assert after.st_mtime_ns > before.st_mtime_ns and after.st_ctime_ns > before.st_ctime_ns, (path, before, after)
    return after

PAGE = os.urandom(4096)
for flags in (0, os.O_DSYNC, os.O_SYNC, os.O_DIRECT, os.O_DIRECT | os.O_DSYNC, os.O_APPEND):
    path = f"file-{flags:x}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
    page = mmap.mmap(-1, 4096)
    page.write(PAGE)
    for at in range(3):
        seen = changed(path, lambda: os.pwrite(fd, page, at * 4096))
        assert seen.st_size == (at + 1) * 4096, (path, at, seen)
    assert changed(path, lambda: os.truncate(path, 8192)).st_size == 8192
    seen = os.stat(path)
    os.close(fd)
    closed = os.stat(path)
    assert (closed.st_mtime_ns, closed.st_ctime_ns, closed.st_size) == (seen.st_mtime_ns, seen.st_ctime_ns, 8192), path
    assert open(path, "rb").read() == PAGE * 2, path

# What is written and not handed over yet is data for who looks for data.
fd = os.open("sparse", os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(fd, 4 << 20)
os.pwrite(fd, PAGE, 2 << 20)
reader = os.open("sparse", os.O_RDONLY)
assert os.lseek(reader, 0, os.SEEK_DATA) == 0, "it takes all for data: or the kernel does not keep what is written"
assert os.lseek(reader, 2 << 20, os.SEEK_DATA) == 2 << 20
assert os.lseek(reader, 2 << 20, os.SEEK_HOLE) >= (2 << 20) + 4096
subprocess.run(["cp", "--sparse=auto", "sparse", "copied"], check=True)
assert open("copied", "rb").read()[2 << 20:][:4096] == PAGE
assert os.copy_file_range(fd, os.open("ranged", os.O_WRONLY | os.O_CREAT), 4096, 2 << 20) == 4096
assert open("ranged", "rb").read() == PAGE

# Who appends at the same time as others loses nothing, whoever else looks.
children = []
for child in range(4):
    if (pid := os.fork()) == 0:
        with open("appended", "ab", buffering=0) as file:
            for _ in range(200):
                file.write(bytes([65 + child]) * 100)
        os._exit(0)
    children.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
lines = open("appended", "rb").read()
assert sorted(lines[at:at + 100] for at in range(0, 80000, 100)) == sorted(bytes([65 + c]) * 100 for c in range(4) for _ in range(200))

# Set-id bits go with the first byte that somebody else writes.
os.close(os.open("setid", os.O_CREAT | os.O_WRONLY, 0o644))
os.chmod("setid", 0o4777)
subprocess.run(["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-c", "echo >> setid"], check=True)
assert os.stat("setid").st_mode & 0o7777 == 0o777, oct(os.stat("setid").st_mode)

# Times that are set count, and those of what takes more bytes and nothing else follow what is added.
os.utime("appended", ns=(1_000_000_000, 2_000_000_000))
assert os.stat("appended").st_mtime_ns == 2_000_000_000
subprocess.run(["chattr", "+a", "appended"], check=True)
assert changed("appended", lambda: subprocess.run("echo more >> appended", shell=True, check=True)).st_size == 80005
try:
    os.utime("appended", ns=(1, 1))
    raise AssertionError("its times can be set")
except PermissionError:
    pass
"#;

/// Size and times of all files, as `stat` prints them.
const TIMES: &str = "stat --format '%n %s %y %z' file-* sparse copied appended setid";

#[test]
fn what_programs_see_is_the_same() {
    with_writeback(&["python3", "setpriv", "chattr"], |world| {
        let root = world.root();
        fs::write(world.run_dir().join("program.py"), PROGRAM).expect("a script");
        sh("chmod 777 .", &root);
        sh(&format!("python3 {}/program.py", world.run_dir().display()), &root);
        let times = sh(TIMES, &root);
        world.zfs(&format!("unmount {POOL}"));
        world.zfs(&format!("mount {POOL}"));
        assert_eq!(sh(TIMES, &root), times, "what the kernel told is what was written");
        world.zfs(&format!("unmount {POOL}"));
        world.zfs(&format!("mount -o nowriteback {POOL}"));
        assert_eq!(sh(TIMES, &root), times, "and what is told without it");
        let sparse = fs::File::open(root.join("sparse")).expect("a file");
        assert_eq!(seek(&sparse, SeekFrom::Data(0)), Ok(2 << 20), "there was a hole");
    });
}

#[test]
fn what_was_synced_outlives_the_daemon() {
    with_writeback(&["fsx", "fio"], exerciser::rounds);
}

#[test]
fn fsx_reads_what_it_wrote() {
    with_writeback(&["fsx"], posix::fsx_passes);
}

#[test]
fn pjdfstest_finds_nothing_but_what_is_known() {
    with_writeback(&["pjdfstest"], posix::pjdfstest_passes);
}

#[test]
fn who_syncs_a_file_is_told_that_there_was_no_room_for_it() {
    with_writeback(&["python3"], |world| {
        world.zfs(&format!("set quota=20M {POOL}"));
        let program = r#"
import errno, os
fd = os.open("full", os.O_WRONLY | os.O_CREAT)
told = None
for _ in range(64):
    try:
        os.write(fd, os.urandom(1 << 20))
        os.fsync(fd)
    except OSError as error:
        told = error.errno
        break
assert told in (errno.ENOSPC, errno.EDQUOT), told
"#;
        fs::write(world.run_dir().join("program.py"), program).expect("a script");
        sh(&format!("python3 {}/program.py", world.run_dir().display()), &world.root());
        fs::remove_file(world.root().join("full")).expect("removed");
    });
}

#[test]
fn what_the_kernel_keeps_is_there_after_a_sync_of_the_pool_and_a_kill() {
    with_writeback(&["python3"], |world| {
        let path = world.root().join("open");
        let mut writer = start_writer(world);
        world.zpool(&format!("sync {POOL}"));
        world.kill_daemon();
        kill_child(&mut writer);
        world.restart();
        assert!(fs::read(&path).expect("it is there") == WRITTEN);
    });
}

/// What [`start_writer`] writes.
static WRITTEN: [u8; 100_000] = [b'w'; 100_000];

/// A program that has written to the file `open`, and has it open.
fn start_writer(world: &World) -> Child {
    // It starts no others: one that closes its copy of the file hands over what was written.
    let program = "import os, time; os.write(os.open('open', os.O_WRONLY | os.O_CREAT), b'w' * 100000); time.sleep(600)";
    let mut writer = Command::new("python3");
    let writer = writer.args(["-c", program]).current_dir(world.root()).spawn().expect("it runs");
    let path = world.root().join("open");
    until(|| fs::metadata(&path).is_ok_and(|file| file.len() == WRITTEN.len() as u64), "it has written");
    writer
}

#[test]
fn a_snapshot_has_what_the_kernel_keeps() {
    with_writeback(&["python3"], look_into_snapshots);
}

pub fn snapshots_have_what_the_kernel_keeps(world: &World) {
    keep_writes(world);
    look_into_snapshots(world);
}

/// Made by the command, and by who asks a mount for it, whose loop must not wait for what the loop itself is to do.
fn look_into_snapshots(world: &World) {
    let snapshots = world.root().join(".zfs/snapshot");
    for (name, by_command) in [("commanded", true), ("asked", false)] {
        let mut writer = start_writer(world);
        if by_command {
            world.zfs(&format!("snapshot {POOL}@{name}"));
        } else {
            fs::create_dir(snapshots.join(name)).expect("a snapshot is made");
        }
        assert!(fs::read(snapshots.join(name).join("open")).expect("it is there") == WRITTEN, "{name}");
        kill_child(&mut writer);
        fs::remove_file(world.root().join("open")).expect("removed");
    }
    // The second is asked for when the kernel had just failed to hand over what the first one's file had left.
    let log = fs::read_to_string(world.run_dir().join("daemon.log")).expect("a daemon writes one");
    assert!(!log.contains("what the kernel keeps may not be written"), "{log}");
}

#[test]
fn what_was_written_is_there_after_an_unmount_and_a_kill() {
    with_writeback(&["python3"], |world| {
        let root = world.root();
        // Its writer ends without closing anything: the kernel does that, and hands over what it has.
        let program = r#"
import mmap, os
fd = os.open("mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
mapped = mmap.mmap(fd, 1 << 20)
mapped[:] = b"m" * (1 << 20)
os.write(os.open("written", os.O_WRONLY | os.O_CREAT), b"w" * (1 << 20))
os._exit(0)
"#;
        fs::write(world.run_dir().join("program.py"), program).expect("a script");
        sh(&format!("python3 {}/program.py", world.run_dir().display()), &root);
        world.zfs(&format!("unmount {POOL}"));
        world.kill_daemon();
        world.restart();
        for (name, byte) in [("mapped", b'm'), ("written", b'w')] {
            let found = fs::read(root.join(name)).expect("it is there");
            assert!(found.len() == 1 << 20 && found.iter().all(|&of_file| of_file == byte), "{name}");
        }
    });
}
