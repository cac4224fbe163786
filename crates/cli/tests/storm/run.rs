//! Commands of a storm, and how long they may take.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::mounted::World;

/// How long a command may take, on a slow disk, beside seven others.
pub const LIMIT: Duration = Duration::from_secs(60);
/// How often a step is tried while something else uses its data set, and how long apart.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);
/// What commands report while somebody else uses a data set or a snapshot.
const BUSY: &[&str] = &["busy", "it's being held"];

/// How a command ended.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    Done(String),
    /// The daemon was killed meanwhile: the command has been carried out, or has not.
    Killed,
    /// Something else used the data set all the time.
    Busy,
}

/// What the eight programs of a round share.
pub struct Round<'a> {
    pub world: &'a World,
    pub killed: AtomicBool,
    pub counts: &'a Counts,
}

/// What a storm has seen.
#[derive(Debug, Default)]
pub struct Counts {
    pub commands: AtomicU64,
    pub files: AtomicU64,
    pub busy: AtomicU64,
    pub cut: AtomicU64,
    pub longest_ms: AtomicU64,
}

impl Round<'_> {
    /// True when no further step is to begin.
    pub fn is_over(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Runs a command that may be refused because its data set is busy, and for no other reason.
    pub fn must(&self, program: &str, line: &str) -> Outcome {
        for _ in 0..TRIES {
            let (is_done, out, err) = self.once(program, line);
            if is_done {
                return Outcome::Done(out);
            }
            if self.is_over() {
                self.counts.cut.fetch_add(1, Ordering::Relaxed);
                return Outcome::Killed;
            }
            assert!(BUSY.iter().any(|word| err.contains(word)), "{program} {line}: {err}");
            std::thread::sleep(PAUSE);
        }
        self.counts.busy.fetch_add(1, Ordering::Relaxed);
        Outcome::Busy
    }

    /// Runs a command that may be refused for any reason. Returns its output if it was not.
    pub fn may(&self, program: &str, line: &str) -> Option<String> {
        let (is_done, out, _) = self.once(program, line);
        is_done.then_some(out)
    }

    fn once(&self, program: &str, line: &str) -> (bool, String, String) {
        let begun = Instant::now();
        let output = self.world.run(program, line);
        self.note(program, line, begun.elapsed());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }

    /// Runs a pipe of commands by the shell, whose `bin/` has the programs.
    pub fn pipe(&self, script: &str) -> (bool, String) {
        let begun = Instant::now();
        let mut command = std::process::Command::new("timeout");
        command.args(["-k", "5", &(LIMIT.as_secs() * 2).to_string(), "bash", "-o", "pipefail", "-c", script]);
        command.env("SAWMILL_RUN", self.world.run_dir());
        let output = command.output().expect("a shell");
        self.note("pipe", script, begun.elapsed());
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn note(&self, program: &str, line: &str, took: Duration) {
        self.counts.commands.fetch_add(1, Ordering::Relaxed);
        self.counts.longest_ms.fetch_max(took.as_millis() as u64, Ordering::Relaxed);
        assert!(took < LIMIT, "{program} {line}: took {took:?}");
    }

    /// True if a message says that something else used the data set.
    pub fn is_busy(message: &str) -> bool {
        BUSY.iter().any(|word| message.contains(word))
    }
}
