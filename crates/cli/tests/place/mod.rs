//! The real daemon in a run-time directory of its own, started by the first command.
#![allow(dead_code, reason = "each test program uses a part of it")]

#[path = "../daemon_processes/mod.rs"]
mod daemon_processes;

use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A run-time directory and files for devices; what runs there ends with it.
pub struct Place {
    pub directory: TempDir,
}

/// What a command printed, and its exit code.
pub struct Printed {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Exit code.
    pub code: i32,
}

impl Place {
    pub fn new() -> Self {
        // A random name that ends in W would pass for what `W/` stands for in commands.
        let directory = tempfile::Builder::new().rand_bytes(5).suffix("_").tempdir();
        Self { directory: directory.expect("a directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn file(&self, name: &str, mib: u64) {
        std::fs::File::create(self.path(name)).and_then(|f| f.set_len(mib << 20)).expect("a file");
    }

    /// `d1`, `d2` of 96 MiB and `l1`, `l2` of 64 MiB.
    pub fn with_files() -> Self {
        let place = Self::new();
        ["d1", "d2"].iter().for_each(|name| place.file(name, 96));
        ["l1", "l2"].iter().for_each(|name| place.file(name, 64));
        place
    }

    /// The program with these words; `W/` stands for the directory. It is given a minute.
    pub fn command(&self, line: &str) -> Command {
        let directory = format!("{}/", self.directory.path().display());
        let mut command = Command::new("timeout");
        command.arg("60").arg(env!("CARGO_BIN_EXE_sawmill"));
        command.args(line.split_whitespace().map(|word| word.replace("W/", &directory)));
        command.env("SAWMILL_RUN", self.path("run"));
        command
    }

    pub fn run(&self, line: &str) -> Printed {
        self.print(&mut self.command(line))
    }

    /// Runs a command, and gives what it printed.
    pub fn print(&self, command: &mut Command) -> Printed {
        let output = command.output().expect("the program runs");
        let directory = self.directory.path().display().to_string();
        let text = |bytes| String::from_utf8(bytes).expect("text").replace(&directory, "W");
        Printed {
            out: text(output.stdout),
            err: text(output.stderr),
            code: output.status.code().unwrap_or(-1),
        }
    }

    pub fn ok(&self, line: &str) -> String {
        let printed = self.run(line);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}; log: {}", self.log());
        printed.out
    }

    pub fn pid(&self) -> Option<String> {
        let printed = self.run("daemon status --pid");
        (printed.code == 0).then(|| printed.out.trim().to_owned())
    }

    /// The numbers of the daemon, and of the process of each pool if the daemon has such processes.
    pub fn processes(&self) -> Vec<i32> {
        self.processes_in("run")
    }

    /// The same for the daemon of another run-time directory.
    pub fn processes_in(&self, run: &str) -> Vec<i32> {
        daemon_processes::numbers(&self.path(run))
    }

    /// A figure in KiB of all these processes together, by the figure's name in `/proc/PID/status`.
    pub fn processes_kib(&self, name: &str) -> u64 {
        let of = |number| daemon_processes::kib(number, name).expect("it lives");
        self.processes().into_iter().map(of).sum()
    }

    pub fn kill(&self) {
        let pid = self.pid().expect("a daemon");
        let killed = Command::new("kill").args(["-9", &pid]).status().expect("kill runs");
        assert!(killed.success());
        wait_for_the_end_of(&pid);
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("run/daemon.log")).unwrap_or_default()
    }
}

/// Waits until a process that was killed has let go of its files, and so of its locks on devices. Its memory
/// goes before them; it is gone, or waits for its parent, after them.
pub fn wait_for_the_end_of(pid: &str) {
    let stat = std::path::Path::new("/proc").join(pid).join("stat");
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::yield_now();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = self.run("zfs unmount -af");
        _ = self.run("daemon stop");
        if let Some(pid) = self.pid() {
            _ = Command::new("kill").args(["-9", &pid]).status();
        }
    }
}
