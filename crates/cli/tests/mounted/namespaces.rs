//! Namespaces of their own for programs: mounts, processes, network. To those inside it is a machine.
//!
//! ```text
//!  this process ──pipe──► sh, process 1 inside ◄─ nsenter ─ every command
//!       │ ends in any way        │ reads its end
//!       └────────────────────────┴─► the kernel kills all that is inside, and its mounts and links go
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::bounded;

/// Tells which number process 1 has outside, for `/proc` is the old one until it is mounted; each of `$@` is empty
/// and nobody else's then.
const FIRST: &str = r#"
read -r number rest < /proc/self/stat
mount -t proc proc /proc
for place in "$@"; do mount -t tmpfs tmpfs "$place"; done
ip link set lo up
echo "$number"
cat > /dev/null
"#;
/// What is inside is killed at once; it may take the kernel a moment to take down its mounts.
const END: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

/// They end when this is dropped.
pub struct Namespaces {
    unshare: Child,
    first: u32,
}

impl Namespaces {
    /// The directories are empty inside, and private.
    pub fn new(private: &[&str]) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", FIRST, "sh"]);
        command.args(private).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut unshare = command.spawn().expect("unshare runs");
        let mut line = String::new();
        let told = unshare.stdout.take().map(|told| BufReader::new(told).read_line(&mut line));
        told.expect("a pipe").expect("it tells");
        let first = line.trim().parse().expect("namespaces are made");
        Self { unshare, first }
    }

    /// The number outside of the first process inside.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// A path inside as it is reached from outside.
    pub fn seen(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.first));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The table of mounts inside.
    pub fn mounts(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/mountinfo", self.first))
    }

    /// A program that runs inside and ends some time, in the root directory.
    pub fn command(&self, program: &str) -> Command {
        self.enter(&bounded(Path::new(program)))
    }

    /// The same command, inside. It has the environment that is set afterwards.
    pub fn enter(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.args(["--target", &self.first.to_string(), "--net", "--mount", "--pid", "--"]);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }

    /// The process that has this number inside, if it lives.
    pub fn process(&self, inside: i32) -> Option<Pid> {
        let namespace = fs::read_link(format!("/proc/{}/ns/pid", self.first)).ok()?;
        let numbers =
            fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let is_it = |number: &i32| {
            fs::read_link(format!("/proc/{number}/ns/pid")).is_ok_and(|of| of == namespace)
                && number_inside(*number) == Some(inside)
        };
        Pid::from_raw(numbers.filter_map(|number| number.parse().ok()).find(is_it)?)
    }
}

/// The number of a process in the innermost of its namespaces.
fn number_inside(number: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        drop(self.unshare.stdin.take());
        let begun = Instant::now();
        while self.unshare.try_wait().is_ok_and(|ended| ended.is_none()) {
            if begun.elapsed() > END {
                eprintln!("process {} and its namespaces do not end", self.first);
                // With `--kill-child` its child is told, too.
                _ = self.unshare.kill();
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}
