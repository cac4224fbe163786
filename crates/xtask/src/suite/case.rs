//! One test in a process of its own.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::leftovers::{Leftovers, left_in};
use super::stat::{Stat, TICKS_PER_SEC};
use super::{limits, modes};

/// How long a process that was killed may take to end: the kernel lets it finish what it is in the middle of.
const DYING: Duration = Duration::from_secs(20);
const POLL_MIN: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(50);
/// What a test program says when it has run one test.
const RAN_ONE: &str = "1 passed; 0 failed;";

/// A test that is to be run.
pub struct Case {
    /// The program's name, a space, the test's.
    pub name: String,
    command: Command,
    limit: Duration,
    is_of_program: bool,
}

/// How a case came out.
pub struct Outcome {
    pub verdict: Verdict,
    pub took: Duration,
    /// Of processors, by it and by those of its children that it has waited for; daemons are not among them.
    pub busy: Duration,
    /// What it had started or mounted and not ended.
    pub leftovers: Leftovers,
    /// What it printed, and, if it had to be killed, what it was doing then.
    pub printed: String,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// Why.
    Failed(String),
}

impl Outcome {
    /// That of a case that could not be run.
    pub fn without_a_run(verdict: Verdict) -> Self {
        Self {
            verdict,
            took: Duration::ZERO,
            busy: Duration::ZERO,
            leftovers: Leftovers::default(),
            printed: String::new(),
        }
    }
}

impl Case {
    pub fn new(name: String, command: Command) -> Self {
        Self { limit: limits::of(&name), name, command, is_of_program: false }
    }

    /// The command runs one test of a test program, which has to say that it did.
    pub fn of_program(self) -> Self {
        Self { is_of_program: true, ..self }
    }

    #[cfg(test)]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Runs it with `dir`, which is not there yet, for its temporary files. Nothing runs or is mounted there afterwards,
    /// and of files only those of a case that failed are left.
    pub fn run(&self, dir: &Path) -> Outcome {
        self.try_run(dir).unwrap_or_else(|error| {
            Outcome::without_a_run(Verdict::Failed(format!("cannot be run: {error}")))
        })
    }

    fn try_run(&self, dir: &Path) -> io::Result<Outcome> {
        fs::create_dir(dir)?;
        // Some tests have ordinary users make files.
        fs::set_permissions(dir, Permissions::from_mode(0o1777))?;
        let print = dir.with_extension("out");
        let out = File::create_new(&print)?;
        let mut command = self.copy_of_command();
        modes::choose(&self.name, &mut command);
        command.env("TMPDIR", dir).stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
        let begun = Instant::now();
        let mut child = command.spawn()?;
        let is_over = has_ended_within(&child, self.limit)?;
        let (took, busy) = (begun.elapsed(), busy_time(&child));
        let doing = if is_over { String::new() } else { format!("\n{}", left_in(dir).story()) };
        if !is_over {
            child.kill()?;
        }
        let leftovers = left_in(dir).except(child.id());
        leftovers.end(dir);
        let mut verdict = self.verdict(&mut child, is_over)?;
        let printed = String::from_utf8_lossy(&fs::read(&print)?).into_owned() + &doing;
        if verdict == Verdict::Passed && self.is_of_program && !printed.contains(RAN_ONE) {
            verdict = Verdict::Failed("the program does not say that it ran this test".to_owned());
        }
        fs::remove_file(&print)?;
        let kept = clear(dir, &verdict).map_or(String::new(), |kept| format!("\n{kept}"));
        let printed = printed + &kept;
        Ok(Outcome { verdict, took, busy, leftovers, printed })
    }

    /// Commands cannot be cloned.
    fn copy_of_command(&self) -> Command {
        let mut copy = Command::new(self.command.get_program());
        copy.args(self.command.get_args());
        copy.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(dir) = self.command.get_current_dir() {
            copy.current_dir(dir);
        }
        copy
    }

    fn verdict(&self, child: &mut Child, is_over: bool) -> io::Result<Verdict> {
        let ended = has_ended_within(child, DYING)?;
        Ok(match (is_over, ended) {
            (true, _) => match child.wait()? {
                status if status.success() => Verdict::Passed,
                status => Verdict::Failed(status.to_string()),
            },
            (false, true) => {
                child.wait()?;
                Verdict::Failed(format!("killed: it has not ended in {} s", self.limit.as_secs()))
            }
            // It stays behind. Who waits for it would wait for ever.
            (false, false) => Verdict::Failed(format!(
                "it has not ended in {} s, and cannot be killed",
                self.limit.as_secs()
            )),
        })
    }
}

/// Removes the directory of a case; says where it is if it stays: with a file system that cannot be unmounted in it,
/// or with what a test has kept because it failed.
fn clear(dir: &Path, verdict: &Verdict) -> Option<String> {
    if *verdict == Verdict::Passed && left_in(dir).is_empty() {
        // Where files belong to somebody else, they stay.
        _ = fs::remove_dir_all(dir);
    }
    let is_gone = fs::remove_dir(dir).is_ok() || !dir.exists();
    (!is_gone).then(|| format!("its files are kept in {}", dir.display()))
}

/// Whether it ends in that time. It is not waited for in the sense of the system, so that /proc still knows it.
fn has_ended_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let begun = Instant::now();
    let mut poll = POLL_MIN;
    while waitid(WaitId::Pid(pid), options)?.is_none() {
        if begun.elapsed() > limit {
            return Ok(false);
        }
        thread::sleep(poll);
        poll = (poll * 2).min(POLL_MAX);
    }
    Ok(true)
}

/// Of a child that was not waited for.
fn busy_time(child: &Child) -> Duration {
    /// The times of the process and of the children that it has waited for, each in user and system
    /// mode.
    const TIMES: std::ops::RangeInclusive<usize> = 14..=17;
    let stat = Stat::of(child.id());
    let ticks: u64 = TIMES.filter_map(|field| stat.number(field)).sum();
    Duration::from_millis(ticks * 1000 / TICKS_PER_SEC)
}
