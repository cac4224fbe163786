//! `zed`: runs the programs of a directory when something happens to pools and their devices, as OpenZFS's event
//! daemon does. Programs that were written for that daemon run unchanged.
//!
//! ```text
//!  daemon ─► events after the last one that was handled ─► variables ─► zedlets whose names fit the class ─► jobs
//!                                                              │
//!                                     state file: run and number of the last event that was handled
//! ```
//! Sawmill's daemon starts no program itself, because its rights end where the system calls end that it needs. `zed` is
//! a process of its own, with the rights of whoever runs it.
//!
//! Facts about names, variables and files are from OpenZFS's zed(8), and from the names in the programs that
//! OpenZFS has (`cmd/zed/zed.d`).

mod jobs;
mod place;
mod state;
mod variables;
mod zedlets;

use self::jobs::Jobs;
use self::place::{PidFile, detached};
use self::state::Handled;
use self::variables::{Surroundings, variables};
use self::zedlets::ZedletDir;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{Events, EventsPage, Failure, FailureKind};
use events::names::CLASS;
use nix::sys::signal::{SigSet, Signal};
use ondisk::NvList;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "zed",
        alias: None,
        about: "runs programs when something happens to pools and their devices",
        flags: &[
            FOREGROUND,
            Flag::switch('f', "runs programs whatever their owners and modes are"),
            Flag::switch('v', "reports each program that begins or ends"),
            Flag::switch('I', "has no effect, because zed always waits for a daemon"),
            Flag::switch('Z', "begins with the oldest event that the daemon has"),
            Flag::value(
                'd',
                "zedletdir",
                "the directory of the programs; /etc/zfs/zed.d without this option",
            ),
            Flag::value(
                'p',
                "pidfile",
                "the file for the process id; zed.pid beside the daemon's socket without this option",
            ),
            Flag::value('P', "path", "the variable PATH of the programs, which find zpool and zfs there"),
            Flag::value(
                's',
                "statefile",
                "the file for the last event; zed.state beside the daemon's socket without this option",
            ),
            Flag::value('j', "jobs", "the programs that may run at one time; 16 without this option"),
        ],
        operands: "",
    },
    run,
);

/// The command stays where it was started. Without this flag it starts itself in the background.
const FOREGROUND: Flag = Flag::switch('F', "stays in the foreground and reports on standard error");

const DEFAULT_DIR: &str = "/etc/zfs/zed.d";
const JOBS_AT_ONCE: usize = 16;
/// The time that one question for events waits for the next event.
const WAIT_MILLIS: u64 = 1000;
/// The time before a daemon that does not answer is asked again.
const DAEMON_WAIT: Duration = Duration::from_secs(1);

/// A `zed` at work.
struct Zed {
    dir: ZedletDir,
    jobs: Jobs,
    surroundings: Surroundings,
    state_file: PathBuf,
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    if let Some(word) = args.operands.first() {
        return usage(format!("unrecognized argument '{word}'"));
    }
    let jobs_at_once = args.value('j').map_or(Ok(JOBS_AT_ONCE), jobs_at_once)?;
    let path = PathBuf::from(args.value('d').unwrap_or(DEFAULT_DIR));
    let path = std::fs::canonicalize(&path).map_err(|error| cannot("read", &path, &error))?;
    let dir = ZedletDir::open(&path, args.has('f')).map_err(|reason| refused(&path, &reason))?;
    let beside = |letter, name: &str| {
        args.value(letter).map_or_else(|| session.paths().run_dir().join(name), PathBuf::from)
    };
    session.paths().make_run_dir().map_err(|error| cannot("make", session.paths().run_dir(), &error))?;
    let (pid_file, state_file) = (beside('p', "zed.pid"), beside('s', "zed.state"));
    if !args.has('F') {
        let log = session.paths().run_dir().join("zed.log");
        return Ok(detached(&args.typed, &log).map_err(|error| cannot("write", &log, &error))?);
    }
    // A request to read the directory again needs no answer, because each event reads the directory.
    let mut ignored = SigSet::empty();
    ignored.add(Signal::SIGHUP);
    _ = ignored.thread_block();
    let _held = PidFile::take(&pid_file).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Failure::new(FailureKind::Busy, "zed runs already"),
        _ => cannot("write", &pid_file, &error),
    })?;
    let surroundings = Surroundings { dir: path, path: args.value('P').map(str::to_owned) };
    let jobs = Jobs::new(jobs_at_once, args.has('v'));
    let handled = if args.has('Z') { Handled::default() } else { Handled::load(&state_file) };
    Zed { dir, jobs, surroundings, state_file }.follow(session, handled)
}

fn jobs_at_once(word: &str) -> Result<usize, Stop> {
    match word.parse() {
        Ok(jobs @ 1..) => Ok(jobs),
        _ => usage(format!("invalid number of jobs '{word}'")),
    }
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    let reason = engine::refusal::words(error);
    Failure::new(FailureKind::Other, format!("cannot {what} '{}': {reason}", path.display()))
}

fn refused(path: &Path, reason: &str) -> Failure {
    let line = format!("'{}' is not used: {reason}; -f uses the directory nevertheless", path.display());
    Failure::new(FailureKind::Denied, line)
}

impl Zed {
    /// Handles events as they come, until the process ends.
    fn follow(mut self, session: &Session, mut handled: Handled) -> Outcome {
        loop {
            let call = Events { seen: handled.seen(), wait_millis: WAIT_MILLIS };
            match session.ask_if_running(&call)? {
                Some(page) => self.handle_all(page, &mut handled)?,
                None => std::thread::sleep(DAEMON_WAIT),
            }
            self.jobs.reap();
        }
    }

    fn handle_all(&mut self, page: EventsPage, handled: &mut Handled) -> Result<(), Stop> {
        if page.dropped > 0 {
            eprintln!("zed: {} events were missed", page.dropped);
        }
        for event in &page.events {
            match NvList::decode(event) {
                Ok(event) => self.handle(&event),
                Err(error) => eprintln!("zed: an event cannot be read: {error}"),
            }
        }
        if handled.advance(page.seen) {
            handled.store(&self.state_file).map_err(|error| cannot("write", &self.state_file, &error))?;
        }
        Ok(())
    }

    fn handle(&mut self, event: &NvList) {
        let class = event.get_str(CLASS).unwrap_or_default();
        let zedlets = self.dir.zedlets_for(class);
        if zedlets.is_empty() {
            return;
        }
        let variables = variables(event, &self.surroundings);
        for zedlet in zedlets {
            self.jobs.start(&zedlet, &variables);
        }
    }
}
