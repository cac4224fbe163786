//! What a test has started or mounted, found by the directory that it was given for temporary files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

use super::stat::{Stat, TICKS_PER_SEC};

/// Threads of a process that are told of.
const THREADS_MAX: usize = 40;
/// Lines of a daemon's log that are told.
const LOG_LINES: usize = 20;
/// A process that is killed may be starting the next, and takes its time to end on a busy machine.
const ROUNDS: usize = 250;
const ROUND: Duration = Duration::from_millis(20);
/// How long a process without an environment is waited for to get one, if it is no older than that.
const EXEC_ROUNDS: usize = 200;
const EXEC_ROUND: Duration = Duration::from_millis(1);
const YOUNG_SECS: u64 = 5;

/// Processes and mounts of one test.
#[derive(Default)]
pub struct Leftovers {
    processes: Vec<u32>,
    mounts: Vec<PathBuf>,
    logs: Vec<PathBuf>,
}

/// Everything that the test with this directory has.
pub fn left_in(dir: &Path) -> Leftovers {
    Leftovers { processes: processes_of(dir), mounts: mounts_below(dir), logs: logs_in(dir) }
}

/// Who inherited the directory. A zombie has no environment any more.
fn processes_of(dir: &Path) -> Vec<u32> {
    let variable = format!("TMPDIR={}", dir.display());
    let is_of_it = |pid: &u32| {
        let environment = environment_of(*pid);
        environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes())
    };
    names_in(Path::new("/proc")).filter_map(|name| name.parse().ok()).filter(is_of_it).collect()
}

/// While a process turns into another program it has none for a moment: that is waited for.
fn environment_of(pid: u32) -> Vec<u8> {
    let read = || fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    for _ in 0..EXEC_ROUNDS {
        let environment = read();
        if !environment.is_empty() || !may_be_in_exec(pid) {
            return environment;
        }
        thread::sleep(EXEC_ROUND);
    }
    read()
}

/// Whether it is a process that began a moment ago, and neither a thread of the kernel nor a zombie.
fn may_be_in_exec(pid: u32) -> bool {
    /// Of the kernel's flags of a process: it is one of its own threads (`PF_KTHREAD`).
    const KERNEL_THREAD: u64 = 0x20_0000;
    const FLAGS: usize = 9;
    const START: usize = 22;
    let stat = Stat::of(pid);
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let now = uptime.split('.').next().and_then(|secs| secs.parse::<u64>().ok());
    let (Some(flags), Some(start), Some(now)) = (stat.number(FLAGS), stat.number(START), now) else {
        return false;
    };
    !stat.is_zombie() && flags & KERNEL_THREAD == 0 && start / TICKS_PER_SEC + YOUNG_SECS >= now
}

/// The last mounted first.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(OsStr::from_bytes);
    let places = places.map(PathBuf::from);
    let mut places: Vec<_> = places.filter(|place| place.starts_with(dir)).collect();
    places.reverse();
    places
}

/// Logs of daemons: `DIR/SOMETHING/run/daemon.log`.
fn logs_in(dir: &Path) -> Vec<PathBuf> {
    names_in(dir).map(|name| dir.join(name).join("run/daemon.log")).filter(|log| log.is_file()).collect()
}

fn names_in(dir: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

impl Leftovers {
    /// Without a process that is somebody else's business.
    pub fn except(mut self, pid: u32) -> Self {
        self.processes.retain(|&process| process != pid);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.mounts.is_empty()
    }

    /// In a few words.
    pub fn summary(&self) -> String {
        format!("{} processes, {} mounts", self.processes.len(), self.mounts.len())
    }

    /// Ends all of it; files stay.
    pub fn end(&self, dir: &Path) {
        for _ in 0..ROUNDS {
            let processes = processes_of(dir);
            processes.iter().for_each(|&pid| kill(pid));
            // What waits for a file system whose daemon is gone, or is stopped, ends with that.
            mounts_below(dir).iter().for_each(|place| take_away(place));
            if processes.is_empty() {
                break;
            }
            thread::sleep(ROUND);
        }
    }

    /// What each thread of each process waits for, and the ends of logs.
    pub fn story(&self) -> String {
        let mut lines = vec!["it was doing this when it was killed:".to_owned()];
        self.processes.iter().for_each(|&pid| lines.extend(process_story(pid)));
        lines.extend(self.mounts.iter().map(|place| format!("mounted: {}", place.display())));
        for log in &self.logs {
            let text = fs::read_to_string(log).unwrap_or_default();
            let all: Vec<&str> = text.lines().collect();
            lines.push(format!("{} ends:", log.display()));
            lines.extend(all[all.len().saturating_sub(LOG_LINES)..].iter().map(|line| format!("  {line}")));
        }
        lines.join("\n")
    }
}

fn process_story(pid: u32) -> Vec<String> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let thread = |tid: String| {
        let read = |name: &str| fs::read_to_string(tasks.join(&tid).join(name)).unwrap_or_default();
        let stat = read("stat");
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('?');
        let call = read("syscall").split(' ').next().unwrap_or_default().trim().to_owned();
        format!("  {} {state} in {}, system call {call}", read("comm").trim(), read("wchan").trim())
    };
    let threads = names_in(&tasks).take(THREADS_MAX).map(thread);
    std::iter::once(format!("process {pid}: {command}")).chain(threads).collect()
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may just have ended by itself.
        _ = kill_process(pid, Signal::KILL);
    }
}

/// `FORCE` has the kernel end all requests to a file system of FUSE.
fn take_away(place: &Path) {
    _ = unmount(place, UnmountFlags::FORCE);
    if unmount(place, UnmountFlags::DETACH).is_err() {
        // An ordinary user's, or gone.
        _ = Command::new("fusermount3").args(["-u", "-z", "-q"]).arg(place).status();
    }
}
