//! The commands of a storm, and their time limits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::mounted::World;

/// The longest time for a command, on a slow disk, with seven others running.
pub const LIMIT: Duration = Duration::from_secs(60);
/// How often a step is tried while its dataset is in use, and the pause between the tries.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);
/// The messages of commands whose dataset or snapshot is in use.
const BUSY: &[&str] = &["busy", "it's being held"];

/// The result of a command.
#[derive(Debug, PartialEq)]
pub enum CommandOutcome {
    Done(String),
    /// The daemon was killed during the command, which may or may not have been carried out.
    Killed,
    /// The dataset was in use during all tries.
    Busy,
}

/// The state that the eight programs of a round share.
pub struct Round<'a> {
    pub world: &'a World,
    pub killed: AtomicBool,
    pub counts: &'a StormCounts,
}

/// What a storm has done.
#[derive(Debug, Default)]
pub struct StormCounts {
    pub commands: AtomicU64,
    pub files: AtomicU64,
    pub busy: AtomicU64,
    pub cut: AtomicU64,
    pub longest_ms: AtomicU64,
}

impl Round<'_> {
    /// True when no further step may begin.
    pub fn is_over(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Runs a command that may be refused only because its dataset is busy.
    pub fn must(&self, program: &str, line: &str) -> CommandOutcome {
        for _ in 0..TRIES {
            let (is_done, out, err) = self.once(program, line);
            if is_done {
                return CommandOutcome::Done(out);
            }
            if self.is_over() {
                self.counts.cut.fetch_add(1, Ordering::Relaxed);
                return CommandOutcome::Killed;
            }
            assert!(BUSY.iter().any(|word| err.contains(word)), "{program} {line}: {err}");
            std::thread::sleep(PAUSE);
        }
        self.counts.busy.fetch_add(1, Ordering::Relaxed);
        CommandOutcome::Busy
    }

    /// Runs a command that may be refused for any reason. Returns its output if it was not refused.
    pub fn may(&self, program: &str, line: &str) -> Option<String> {
        let (is_done, out, _) = self.once(program, line);
        is_done.then_some(out)
    }

    /// Runs a command that only reads, and which nothing but the end of the daemon may prevent.
    pub fn reads(&self, program: &str, line: &str) {
        let (is_done, _, err) = self.once(program, line);
        assert!(is_done || self.is_over(), "{program} {line}: {err}");
    }

    fn once(&self, program: &str, line: &str) -> (bool, String, String) {
        let begun = Instant::now();
        let output = self.world.run(program, line);
        self.note(program, line, begun.elapsed());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }

    /// Runs a pipeline in a shell whose `bin/` has the programs.
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

    /// True if a message reports that the dataset is in use.
    pub fn is_busy(message: &str) -> bool {
        BUSY.iter().any(|word| message.contains(word))
    }
}
