//! The processes of a daemon: its own, and those that hold its pools.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the numbers of the processes that a run-time directory's lock files name, the daemon's first. The numbers
/// are those of the daemon's namespace.
pub fn numbers(run: &Path) -> Vec<i32> {
    let number = |lock: PathBuf| fs::read_to_string(lock).ok()?.trim().parse().ok();
    let mut numbers = vec![number(run.join("daemon.lock"))];
    let mut pools: Vec<PathBuf> =
        fs::read_dir(run.join("pools")).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    pools.sort();
    numbers.extend(pools.into_iter().map(|pool| number(pool.join("daemon.lock"))));
    numbers.into_iter().flatten().collect()
}

/// Returns a figure of a process in KiB, by the figure's name in `/proc/PID/status`; none when the process does not
/// live.
pub fn kib(number: i32, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().ok()
}
