//! An administrator who does one thing to a log over and over, while 32 programs write; then `kill -9`.
//!
//! The writers and the check are those of `make demo`: `sawmill bench file` and `bench check`. A loop takes
//! `SAWMILL_LOOP_SECONDS`; `cargo xtask loops 120` gives each two minutes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use oracle::lane::number;

use crate::mounted::{POOL, World};

const DISK_MIB: u64 = 512;
const SECONDS_DEFAULT: u64 = 2;
/// Writers are to be at it when the daemon is killed, and end then.
const WRITERS_SECONDS_MORE: u64 = 600;
/// Turns of a loop at least, whatever the machine is busy with: what is shown is that they harm nobody.
const TURNS_MIN: u64 = 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// One thing done to a log: commands that lead back to where they began. `W/` is where the devices are.
struct Loop {
    vdevs: &'static str,
    /// A device that is beside the pool's own.
    beside: &'static str,
    commands: &'static [&'static str],
}

#[test]
fn logs_are_added_and_removed_over_and_over() {
    run(&Loop { vdevs: "a log b", beside: "c", commands: &["add tank log W/c", "remove tank W/c"] });
}

#[test]
fn a_lone_log_is_removed_and_added_over_and_over() {
    run(&Loop { vdevs: "a log b", beside: "c", commands: &["remove tank W/b", "add tank log W/b"] });
}

#[test]
fn a_log_is_mirrored_and_detached_over_and_over() {
    run(&Loop { vdevs: "a log b", beside: "c", commands: &["attach -w tank W/b W/c", "detach tank W/c"] });
}

#[test]
fn a_log_is_replaced_over_and_over() {
    let commands = &["replace -w tank W/b W/c", "replace -w tank W/c W/b"];
    run(&Loop { vdevs: "a log b", beside: "c", commands });
}

#[test]
fn logs_are_taken_offline_and_brought_back_over_and_over() {
    let commands = &["offline tank W/b", "online tank W/b", "offline tank W/d", "online tank W/d"];
    run(&Loop { vdevs: "a log mirror b c d", beside: "e", commands });
}

#[test]
fn a_lone_log_is_taken_offline_and_brought_back_over_and_over() {
    run(&Loop { vdevs: "a log b", beside: "c", commands: &["offline tank W/b", "online tank W/b"] });
}

fn run(what: &Loop) {
    let Some(world) = World::new(what.vdevs, DISK_MIB) else { return };
    let disks = world.disks();
    std::fs::File::create(disks.join(what.beside))
        .and_then(|disk| disk.set_len(DISK_MIB << 20))
        .expect("a disk");
    let sawmill = world.link("sawmill");
    let acks = world.root().with_file_name("acks");
    let writers = start_writers(&world, &sawmill, &acks);
    let is_over = AtomicBool::new(false);
    let turns = thread::scope(|scope| {
        let administrator = scope.spawn(|| turn_until(&world, what.commands, &is_over));
        thread::sleep(Duration::from_secs(number("SAWMILL_LOOP_SECONDS", SECONDS_DEFAULT)));
        is_over.store(true, Ordering::SeqCst);
        administrator.join().expect("the administrator ends")
    });
    // In the middle of a turn.
    let mut last = world.start("zpool", &placed(&world, what.commands[0]));
    thread::sleep(Duration::from_millis(3));
    world.kill_daemon();
    let output = writers.wait_with_output().expect("the writers end");
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("they tell what they wrote");
    // Its daemon may have died beneath it, or not have been there yet.
    last.wait().expect("it ends");
    let status = world.zpool(&format!("status {POOL}"));
    let path = world.root().join("data");
    let checked = bench(&world, &sawmill, &["check"], &path, &acks).output().expect("it runs");
    let verdict = String::from_utf8_lossy(&checked.stdout).into_owned();
    println!("{}: {turns} turns, {report}\n{verdict}", what.commands.join("; "));
    assert!(checked.status.success(), "{verdict}{}\n{status}", String::from_utf8_lossy(&checked.stderr));
    assert!(turns >= TURNS_MIN, "{turns} turns");
    assert!(report["acknowledged"].as_u64().is_some_and(|count| count > 100), "{report}");
    world.finish();
}

/// 32 writers of 8 KiB each, O_DSYNC, at random.
fn start_writers(world: &World, sawmill: &Path, acks: &Path) -> Child {
    let seconds = number("SAWMILL_LOOP_SECONDS", SECONDS_DEFAULT) + WRITERS_SECONDS_MORE;
    let mut command = bench(world, sawmill, &["file"], &world.root().join("data"), acks);
    command.args([
        "--threads",
        "32",
        "--size",
        "8k",
        "--span",
        "64m",
        "--seconds",
        &seconds.to_string(),
        "--json",
    ]);
    command.stdout(Stdio::piped()).spawn().expect("the writers start")
}

fn bench(world: &World, sawmill: &Path, words: &[&str], path: &Path, acks: &Path) -> Command {
    let mut command = Command::new(sawmill);
    command.arg("bench").args(words).arg("--path").arg(path).arg("--acks").arg(acks);
    command.env("SAWMILL_RUN", world.run_dir());
    command
}

fn placed(world: &World, command: &str) -> String {
    command.replace("W/", &format!("{}/", world.disks().display()))
}

/// Does all of it, over and over; how often.
fn turn_until(world: &World, commands: &[&str], is_over: &AtomicBool) -> u64 {
    let begun = std::time::Instant::now();
    let mut turns = 0;
    while !is_over.load(Ordering::SeqCst) || (turns < TURNS_MIN && begun.elapsed() < PATIENCE) {
        commands.iter().for_each(|command| drop(world.zpool(&placed(world, command))));
        turns += 1;
    }
    turns
}
