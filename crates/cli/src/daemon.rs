//! `sawmill daemon start|run|status|page|stop|logs`.

use crate::args::{Args, Flag, Spec};
use crate::program::{Command, Kind, Program};
use crate::session::{Outcome, Session, Stop, as_failure, usage};
use control::{ClientError, DaemonStatusCall, DaemonStop, Failure, FailureKind};
use daemon::{DaemonError, PoolGroups, PoolProgram, Wanted, kstats, web_page};
use device::{Options, RealEnv};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The commands.
pub const PROGRAM: Program = Program {
    name: "daemon",
    about: "the process that holds pools open between commands",
    kind: Kind::Own,
    commands: &[START, RUN, POOL, STATUS, PAGE, STOP, LOGS],
};

const START: Command = Command::new(
    Spec {
        name: "start",
        alias: None,
        about: "starts the daemon, if none runs",
        flags: &[MEMORY, WEB, KSTATS, ONE_PROCESS, POOL_GROUPS],
        operands: "",
    },
    start,
);

const RUN: Command = Command::new(
    Spec {
        name: "run",
        alias: None,
        about: "is the daemon, until stopped",
        flags: &[
            Flag::long("detach", "leave the terminal's session"),
            MEMORY,
            WEB,
            KSTATS,
            ONE_PROCESS,
            POOL_GROUPS,
        ],
        operands: "",
    },
    run,
);

const POOL: Command = Command::new(
    Spec {
        name: "pool",
        alias: None,
        about: "is the process of one pool, which the daemon starts",
        flags: &[],
        operands: "",
    },
    pool,
);

const STATUS: Command = Command::new(
    Spec {
        name: "status",
        alias: None,
        about: "tells whether the daemon runs, and what it holds",
        flags: &[Flag::long("pid", "its process id only")],
        operands: "",
    },
    status,
);

const PAGE: Command = Command::new(
    Spec {
        name: "page",
        alias: None,
        about: "prints where the page of a daemon started with --web is opened; whoever has that may look",
        flags: &[],
        operands: "",
    },
    page,
);

const STOP: Command = Command::new(
    Spec {
        name: "stop",
        alias: None,
        about: "syncs all pools and stops the daemon; the next command brings them back",
        flags: &[],
        operands: "",
    },
    stop,
);

const LOGS: Command = Command::new(
    Spec {
        name: "logs",
        alias: None,
        about: "shows what the daemon has to tell",
        flags: &[Flag::switch('f', "and go on as more comes")],
        operands: "",
    },
    logs,
);

/// How much memory it takes, in place of what suits the machine and its control group.
const MEMORY: Flag =
    Flag::value('m', "size", "memory for all pools together (SAWMILL_MEMORY), as in 512m").or("memory");

/// Where it shows its page, which is nowhere by default.
const WEB: Flag = Flag::long_value(
    "web",
    "address:port",
    "show a page and metrics there: a loopback address, or a port alone (SAWMILL_WEB)",
);

/// How often the kstat files are renewed, which exporters read.
const KSTATS: Flag = Flag::long_value(
    "kstats",
    "seconds",
    "renew the kstat files in proc/spl/kstat/zfs that often: 5 by default, 0 for none (SAWMILL_KSTATS)",
);

/// Has the daemon hold all pools itself. A mistake in the work for one pool then ends all pools.
const ONE_PROCESS: Flag = Flag::long(
    "one-process",
    "hold all pools in one process: what ends one, ends all (SAWMILL_ONE_PROCESS=1)",
);
/// The variable that asks for the same.
const ONE_PROCESS_VARIABLE: &str = "SAWMILL_ONE_PROCESS";

/// Has the process of each pool put into a control group of its own.
const POOL_GROUPS: Flag = Flag::long_value(
    "pool-groups",
    "directory",
    "put the process of POOL into the control group directory/POOL (SAWMILL_POOL_GROUPS)",
);
/// The variable that asks for the same.
const POOL_GROUPS_VARIABLE: &str = "SAWMILL_POOL_GROUPS";

const STOP_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

fn no_operands(args: &Args) -> Result<(), Stop> {
    if args.operands.is_empty() { Ok(()) } else { usage("too many arguments") }
}

fn start(session: &mut Session, args: &Args) -> Outcome {
    no_operands(args)?;
    // Wrong words are refused here, where somebody sees it.
    wanted(args)?;
    let memory = args.value('m').map(|size| ["--memory", size]);
    let web = args.long_values("web").last().map(|address| ["--web", address]);
    let kstats = args.long_values("kstats").last().map(|seconds| ["--kstats", seconds]);
    let one_process = args.has_long("one-process").then_some("--one-process");
    let groups = args.long_values("pool-groups").last().map(|dir| ["--pool-groups", dir]);
    let pairs = memory.into_iter().chain(web).chain(kstats).chain(groups);
    let words: Vec<&str> = pairs.flatten().chain(one_process).collect();
    if !words.is_empty() {
        let started = daemon::start_with(session.paths(), &words);
        if !started.map_err(|error| Stop::Failed(error.failure()))? {
            let line =
                "the daemon runs already; its memory, page, kstats and processes are set when it starts";
            return Err(Failure::new(FailureKind::Busy, line).into());
        }
    }
    session.ask(&DaemonStatusCall {})?;
    if args.has_long("web") { tell_page(session) } else { Ok(0) }
}

fn page(session: &mut Session, args: &Args) -> Outcome {
    no_operands(args)?;
    if let Err(error) = session.ask_running(&DaemonStatusCall {}) {
        return Err(Stop::Failed(as_failure(error)));
    }
    tell_page(session)
}

/// Where the page of the daemon is that runs.
fn tell_page(session: &mut Session) -> Outcome {
    let Some(place) = web_page::place(session.paths()) else {
        let line =
            "the daemon shows no page: it was not started with --web, or could not (see sawmill daemon logs)";
        return Err(Failure::new(FailureKind::Other, line).into());
    };
    writeln!(session.out(), "{}", place.secret_url.unwrap_or(place.url))?;
    Ok(0)
}

fn wanted(args: &Args) -> Result<Wanted, Stop> {
    let web = web_page::wanted(args.long_values("web").last()).or_else(|error| usage(error.to_string()))?;
    let kstats = kstats::wanted(args.long_values("kstats").last())
        .or_else(|word| usage(format!("'{word}' is no number of seconds up to 86400")))?;
    Ok(Wanted { memory_bytes: memory_bytes(args)?, web, kstats, pool_program: pool_program(args)? })
}

/// Returns this very program, unless one process is to hold all pools.
fn pool_program(args: &Args) -> Result<Option<PoolProgram>, Stop> {
    let is_said = std::env::var_os(ONE_PROCESS_VARIABLE).is_some_and(|value| value != "0");
    let is_one = is_said || args.has_long("one-process");
    let groups = pool_groups(args)?;
    match (is_one, groups) {
        (true, None) => Ok(None),
        (true, Some(_)) => usage("one process cannot be in the control groups of all pools"),
        (false, groups) => Ok(Some(PoolProgram { groups, ..daemon::pool_program(&["daemon", "pool"]) })),
    }
}

fn pool_groups(args: &Args) -> Result<Option<PoolGroups>, Stop> {
    let said = args.long_values("pool-groups").last().map(PathBuf::from);
    let Some(dir) = said.or_else(|| std::env::var_os(POOL_GROUPS_VARIABLE).map(PathBuf::from)) else {
        return Ok(None);
    };
    match PoolGroups::new(dir.clone()) {
        Ok(groups) => Ok(Some(groups)),
        Err(error) => usage(format!("'{}' is no control group: {error}", dir.display())),
    }
}

fn memory_bytes(args: &Args) -> Result<u64, Stop> {
    daemon::memory::wanted_bytes(args.value('m')).or_else(|word| usage(format!("'{word}' is no size")))
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    no_operands(args)?;
    let wanted = wanted(args)?;
    if args.has_long("detach") {
        // Fails only for the leader of a session, which needs no new one.
        _ = rustix::process::setsid();
    }
    daemon::init_log();
    ended(daemon::serve(session.paths(), wanted))
}

fn pool(session: &mut Session, args: &Args) -> Outcome {
    no_operands(args)?;
    daemon::init_log();
    let options = Options::from_process_environment().map_err(DaemonError::Delays);
    let memory = memory_bytes(args)?;
    ended(options.and_then(|options| {
        daemon::serve_pool(session.paths(), |opener| RealEnv::over(options, opener), memory)
    }))
}

fn ended(served: Result<(), DaemonError>) -> Outcome {
    match served {
        Ok(()) => Ok(0),
        Err(error) => {
            let mut line = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(next) = cause {
                line = format!("{line}: {next}");
                cause = next.source();
            }
            Err(Failure::new(FailureKind::Other, line).into())
        }
    }
}

fn status(session: &mut Session, args: &Args) -> Outcome {
    no_operands(args)?;
    let status = match session.ask_whoever_runs(&DaemonStatusCall {}) {
        Ok(status) => status,
        Err(ClientError::Unreachable { .. }) => {
            if !args.has_long("pid") {
                writeln!(session.out(), "not running")?;
            }
            return Ok(1);
        }
        Err(error) => return Err(Stop::Failed(as_failure(error))),
    };
    if args.has_long("pid") {
        writeln!(session.out(), "{}", status.pid)?;
        return Ok(0);
    }
    let socket = session.paths().socket();
    let page = web_page::place(session.paths());
    let out = session.out();
    writeln!(out, "running: pid {}, version {}, up {} s", status.pid, status.version, status.uptime_secs)?;
    writeln!(out, " socket: {}", socket.display())?;
    writeln!(
        out,
        "  pools: {}",
        if status.pools.is_empty() { "none".into() } else { status.pools.join(" ") }
    )?;
    if let Some(page) = page {
        writeln!(out, "   page: {}", page.url)?;
    }
    for process in &status.processes {
        writeln!(out, "process: {}: pid {}", process.pool, process.pid)?;
    }
    for (pool, reason) in &status.failed {
        writeln!(out, "missing: {pool}: {}", reason.join("\n         "))?;
    }
    for change in &status.under_way {
        writeln!(out, " at work: {}: {} for {} s", change.pool, change.what, change.millis / 1000)?;
    }
    Ok(0)
}

fn stop(session: &mut Session, args: &Args) -> Outcome {
    no_operands(args)?;
    match session.ask_running(&DaemonStop {}) {
        Ok(()) | Err(ClientError::Unreachable { .. }) => {}
        Err(error) => return Err(Stop::Failed(as_failure(error))),
    }
    let lock = match File::open(session.paths().daemon_lock()) {
        Ok(lock) => lock,
        Err(_) => return Ok(0),
    };
    let started = Instant::now();
    while lock.try_lock_shared().is_err() {
        if started.elapsed() > STOP_MAX {
            let line = "the daemon is still busy; it ends when its pools are synced";
            return Err(Failure::new(FailureKind::Busy, line).into());
        }
        std::thread::sleep(POLL);
    }
    Ok(0)
}

fn logs(session: &mut Session, args: &Args) -> Outcome {
    no_operands(args)?;
    if daemon::show_journal(session.paths(), args.has('f')) {
        return Ok(0);
    }
    let path = session.paths().log();
    let Ok(mut file) = File::open(&path) else { return Ok(0) };
    loop {
        std::io::copy(&mut file, session.out())?;
        session.out().flush()?;
        if !args.has('f') {
            return Ok(0);
        }
        std::thread::sleep(10 * POLL);
        // A log made anew is shorter than what was read.
        let read = file.stream_position()?;
        if std::fs::metadata(&path)?.len() < read {
            file = File::open(&path)?;
            file.seek(SeekFrom::Start(0))?;
        }
    }
}
