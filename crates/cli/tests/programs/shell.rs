//! Running programs and shell lines, with a bound on their time.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::mounted::bounded;

/// Where a program is.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Runs a script, which must succeed; gives what it printed.
pub fn sh(script: &str, dir: &Path) -> String {
    let mut command = bounded(Path::new("bash"));
    command.args(["-euo", "pipefail", "-c", script]).current_dir(dir);
    text(script, &command.output().expect("bash runs"))
}

/// What a command printed that must have succeeded.
pub fn text(what: &str, output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}: {err}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command, which must succeed; gives what it printed.
pub fn ok(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    text(&format!("{command:?}"), &output)
}

/// `kill -9` of processes that are not ours to wait for.
pub fn kill(pids: &[Pid]) {
    for pid in pids {
        // One may end because another did.
        _ = kill_process(*pid, Signal::KILL);
    }
    for pid in pids {
        until(|| !lives(*pid), "killed processes end");
    }
}

fn lives(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // After the name in brackets comes the state; Z: dead, and not waited for.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A process and those it started.
pub fn family(parent: Pid) -> Vec<Pid> {
    let children = sh(&format!("ps -o pid= --ppid {} || true", parent.as_raw_nonzero()), Path::new("/"));
    let children = children.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?));
    std::iter::once(parent).chain(children).collect()
}

/// `kill -9` of a child of ours.
pub fn kill_child(child: &mut Child) {
    // Fails when it has ended by itself.
    _ = child.kill();
    child.wait().expect("it is ours");
}

/// Waits until something holds.
pub fn until(mut holds: impl FnMut() -> bool, what: &str) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
