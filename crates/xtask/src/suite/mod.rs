//! `cargo xtask test`: every test of the workspace, each in a process of its own, with a limit of time.
//!
//! ```text
//!  cargo test --no-run ─► programs ─► --list ─► cases, the long ones first
//!                                                │  of commands: so many at a time as there are cores
//!                                                │  of models: so many more, at a lower priority
//!              ┌─────────────────────────────────┘
//!              ▼
//!   PROGRAM --exact NAME ──ends───► passed, or failed with all that it printed
//!   with a mount namespace and
//!   a TMPDIR of its own ─────limit─► what each thread of it waits for is noted, it is killed, and it has failed
//!              │
//!              ▼ whatever happened
//!   processes that have this TMPDIR in their environment are killed, file systems mounted below it are
//!   aborted and unmounted: nothing is left that could hold up what comes next. Files of tests that failed are kept
//! ```
//! Invariants
//! - A test that does not end is named, within its limit; also when the kernel does not let its process die.
//!   (test: `a_case_that_does_not_end_is_killed_and_named_with_all_that_it_started`)
//! - No test is left out: what `--list` names is run, and a program that lists nothing it could run is an error.
//! - Nothing is tried twice.
//! - A test that makes files of the host's own daemon has failed. (test: `a_file_of_the_host_is_held_against_the_test_that_ends_next`)
//!
//! `cargo test` runs one program after another, waits for the last test of each with the other cores idle, and for a
//! test that hangs without an end. Why this is not cargo-nextest: docs/decisions/2026-11-25-test-runner.md.

mod case;
mod host_files;
mod leftovers;
mod limits;
mod modes;
mod namespace;
mod programs;
mod report;
mod stat;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Instant;

use case::Case;
pub use case::{Outcome, Verdict};
use host_files::HostFiles;
pub use programs::{Program, built};
use report::Report;

/// How many run at a time, if not as many as there are cores.
const JOBS: &str = "SAWMILL_TEST_JOBS";

/// Builds all tests and runs those in whose name one of `words` is, or all of them.
pub fn run(words: &[&str]) -> ExitCode {
    match try_run(words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask test: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(words: &[&str]) -> Result<bool, String> {
    let begun = Instant::now();
    let mut cases = programs::cases()?;
    cases.retain(|case| words.is_empty() || words.iter().any(|word| case.name.contains(word)));
    // Stable: tests of one program stay together, so that it is read from the disk once.
    cases.sort_by_key(|case| limits::turn(&case.name));
    eprintln!("built and listed in {} s: {} tests", begun.elapsed().as_secs(), cases.len());
    let place = Place::new().map_err(|error| format!("no directory for temporary files: {error}"))?;
    Ok(run_all(cases, jobs(), &place.0))
}

fn jobs() -> usize {
    let told = std::env::var(JOBS).ok().and_then(|word| word.parse().ok());
    told.unwrap_or_else(|| thread::available_parallelism().map_or(2, Into::into))
}

/// Tests that are not begun yet, with their numbers.
type Queue = Mutex<VecDeque<(usize, Case)>>;

/// The nice value of tests that compute beside tests in real time.
const NICE: i32 = 10;

/// Runs the tests. Returns true if all tests passed. Tests of commands mostly wait, so as many
/// tests that compute run at the same time. Tests that compute have a lower priority, because a
/// test of commands measures real time.
fn run_all(cases: Vec<Case>, jobs: usize, place: &Path) -> bool {
    let mut report = Report::new(cases.len());
    let mut host_files = HostFiles::of_a_daemon();
    let (commands, models): (VecDeque<_>, VecDeque<_>) =
        cases.into_iter().enumerate().partition(|(_, case)| limits::is_of_commands(&case.name));
    let (commands, models) = (Queue::new(commands), Queue::new(models));
    let next = |queue: &Queue| queue.lock().ok()?.pop_front();
    let (ended, endings) = mpsc::channel::<(Case, Outcome)>();
    thread::scope(|scope| {
        for (queue, nice) in [(&commands, 0), (&models, NICE)].repeat(jobs) {
            let (ended, next) = (ended.clone(), &next);
            scope.spawn(move || {
                be_nice(nice);
                while let Some((number, case)) = next(queue) {
                    let outcome = case.run(&place.join(number.to_string()));
                    if ended.send((case, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(ended);
        endings.iter().for_each(|(case, outcome)| report.add(case, host_files.judge(outcome)));
    });
    report.finish()
}

/// Gives this thread, and the processes that it starts, this nice value.
fn be_nice(value: i32) {
    // On Linux, the priority of the calling thread. Without the right, the tests run at the same
    // priority.
    _ = rustix::process::setpriority_process(None, value);
}

/// Where the directories of all cases are. Its path is short: sockets lie below it.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> std::io::Result<Self> {
        let place = std::env::temp_dir().join(format!("smt{}", std::process::id()));
        std::fs::create_dir(&place).map(|()| Self(place))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Unless a test that failed has kept something.
        _ = std::fs::remove_dir(&self.0);
    }
}
