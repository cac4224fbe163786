//! A thread of the daemon panics: this test program is the daemon then, the real one over devices that panic when told.
#![forbid(unsafe_code)]

mod fragile;
mod mounted;

use control::{Client, RunPaths};
use daemon::Wanted;
use device::OwnRights;
use fragile::{DISKS, DeviceOrder, FragileDisks};
use mounted::World;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tells this program that it is to be the daemon, and where.
const RUN_DIR: &str = "SAWMILL_TEST_DAEMON";
/// Memory of that daemon.
const MEMORY_BYTES: u64 = 256 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// No test of its own: what this program does when it is started as the daemon.
#[test]
fn the_daemon_that_other_tests_start() {
    let Some(run_dir) = std::env::var_os(RUN_DIR) else { return };
    let wanted = Wanted { memory_bytes: MEMORY_BYTES, web: None, kstats: None, pool_program: None };
    let env = FragileDisks::of_environment().env(Arc::new(OwnRights));
    daemon::serve_over(&RunPaths::under(run_dir), env, wanted).expect("it serves");
}

/// Starts it for the pool of a world whose own daemon is gone, and waits until it answers.
fn daemon_over(world: &World) -> (Child, RunPaths) {
    let (child, paths) = started_over(world);
    let client = Client::new(paths.socket());
    within(|| client.answers().then_some(()), "the daemon answers");
    (child, paths)
}

fn started_over(world: &World) -> (Child, RunPaths) {
    let run_dir = world.disks().parent().expect("the world's directory").join("run");
    let disks = ["a", "l"].map(|name| world.disks().join(name)).into_iter().filter(|disk| disk.exists());
    let log = OpenOptions::new().append(true).open(run_dir.join("daemon.log")).expect("it has a log");
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["--exact", "the_daemon_that_other_tests_start", "--nocapture"]);
    command.env(RUN_DIR, &run_dir).env(DISKS, std::env::join_paths(disks).expect("plain paths"));
    // Where the world's own daemon keeps this host's number, if the system has none.
    command.env("SAWMILL_RUN", &run_dir);
    (command.stderr(log).spawn().expect("it starts"), RunPaths::under(run_dir))
}

fn within<T>(mut look: impl FnMut() -> Option<T>, what: &str) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(begun.elapsed() < PATIENCE, "{what}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end_of(child: &mut Child) -> ExitStatus {
    within(|| child.try_wait().expect("a child of ours"), "the daemon ends")
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Which device panics, who meets that, and on which thread.
type Meets = fn(&World) -> std::io::Result<()>;
const CASES: [(&str, Meets); 2] = [
    // A txg is written by a task of the engine, which catches panics.
    ("a", |world| match world.may_fail("sync tank") {
        true => Ok(()),
        false => Err(std::io::Error::other("the command failed")),
    }),
    // An fsync writes to the log, on a thread of the FUSE library.
    ("l", |world| write_synced(&world.root().join("lost"), b"never promised")),
];

#[test]
fn a_daemon_in_which_a_thread_panics_ends_and_says_why_and_loses_nothing_promised() {
    let Some(world) = World::new("a log l", 96) else { return };
    let kept = |nth: usize| (world.root().join(format!("kept{nth}")), vec![nth as u8 + 1; 300_000]);
    for (nth, (disk, meets)) in CASES.into_iter().enumerate() {
        world.kill_daemon();
        let (mut child, paths) = daemon_over(&world);
        let (file, bytes) = kept(nth);
        write_synced(&file, &bytes).expect("it is promised");
        let disk_path = world.disks().join(disk);
        DeviceOrder::PanicInWrite.give(&disk_path);
        meets(&world).expect_err("nobody says that this was done");
        assert_eq!(end_of(&mut child).signal(), Some(6), "{disk}: it aborts");
        DeviceOrder::take_back(&disk_path);
        let log = fs::read_to_string(paths.log()).expect("its log");
        let reason = log.lines().next_back().expect("it says why");
        assert!(reason.contains("the daemon ends: thread "), "{reason}");
        assert!(
            reason.ends_with("this panic belongs to a test") && reason.contains("fragile/mod.rs:"),
            "{reason}"
        );
        let is_trace = |line: &str| line.contains("fragile::Fragile as ") && line.ends_with("::write");
        assert!(log.lines().any(is_trace), "and how it came there: {log}");
        world.restart();
        assert_eq!(fs::read(&file).expect("it is there"), bytes, "{disk}");
    }
    world.finish();
}

#[test]
fn a_pool_that_ends_the_daemon_keeps_no_other_pool_from_use() {
    let Some(world) = World::new("a", 96) else { return };
    let other = world.disks().join("other");
    File::create(&other).and_then(|disk| disk.set_len(96 << 20)).expect("a disk");
    world.zpool(&format!("create -m none other {}", other.display()));
    world.kill_daemon();
    let disk = world.disks().join("a");
    DeviceOrder::PanicInWrite.give(&disk);
    let (mut child, _) = started_over(&world);
    assert_eq!(end_of(&mut child).signal(), Some(6), "the import of tank panics");
    // The next daemon leaves the pool out, and so does the daemon after that.
    let mut again = String::new();
    for _ in 0..2 {
        let (mut child, _) = daemon_over(&world);
        assert_eq!(world.zpool("list -Ho name,health"), "other\tONLINE\ntank\tUNAVAIL\n");
        let why = world.refused("scrub tank");
        assert!(why.contains("cannot open 'tank': the daemon ended while it opened this pool\n"), "{why}");
        assert!(why.contains("this panic belongs to a test\n"), "{why}");
        let command =
            why.lines().find_map(|line| line.strip_prefix("use 'zpool ")?.strip_suffix("' to try again"));
        again = command.expect("it says how to try again").to_owned();
        world.stop_daemon();
        end_of(&mut child);
    }
    DeviceOrder::take_back(&disk);
    world.zpool(&again);
    world.kill_daemon();
    assert_eq!(world.zpool("list -Ho name"), "other\ntank\n", "it is brought back again");
    world.zpool("destroy other");
    world.finish();
}
