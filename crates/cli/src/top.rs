//! `sawmill top`: the intent log of a pool at work.

use crate::advise::{PE_CYCLES, TBW, rating};
use crate::args::{Args, Flag, Spec};
use crate::numbers::positive;
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{Failure, FailureKind, PoolInfo, PoolList, PoolLogFacts, PoolLogUsers, RunPaths};
use live::{Interval, Look};
use std::io::IsTerminal;
use std::time::Duration;
use top::{Ink, Options, Source};

/// The command.
pub const COMMAND: Command = Command::new(
    Spec {
        name: "top",
        alias: None,
        about: "shows the intent log at work: commits, where their time goes, log devices, who asks for them",
        flags: &[
            Flag::long("once", "print what one interval brought, as plain text, and end"),
            Flag::long_value("seconds", "number", "length of an interval (1)"),
            Flag::long("json", "as --once, as JSON"),
            TBW,
            PE_CYCLES,
            Flag::long("no-colour", "no colours; a NO_COLOR in the environment says the same"),
        ],
        operands: "[pool]",
    },
    run,
);

/// An interval is no longer than a day.
const SECONDS_MAX: f64 = 86_400.0;

fn run(session: &mut Session, args: &Args) -> Outcome {
    let pool = match args.operands.as_slice() {
        [] => None,
        [pool] => Some(pool.clone()),
        _ => return usage("too many arguments"),
    };
    let seconds = positive(args, "seconds", SECONDS_MAX)?.unwrap_or(1.0);
    let (period, rating) = (Duration::from_secs_f64(seconds), rating(args)?);
    if args.has_long("once") || args.has_long("json") {
        return once(session, args, pool, period, rating);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(refused("no terminal to draw on: --once and --json print"));
    }
    let options = Options { pool, period, ink: ink(args.has_long("no-colour")), rating };
    let source = || Asking(Session::new(RunPaths::from_env(), Box::new(std::io::sink())));
    top::run(source, options).map_err(|error| refused(&format!("cannot use the terminal: {error}")))?;
    Ok(0)
}

fn once(
    session: &mut Session,
    args: &Args,
    pool: Option<String>,
    period: Duration,
    rating: Option<advise::Rating>,
) -> Outcome {
    let first = look(session, one(session, pool)?)?;
    std::thread::sleep(period);
    let name = first.pool.name.clone();
    let second = look(session, one(session, Some(name.clone()))?)?;
    let interval = Interval::between(&first, &second, rating)
        .ok_or_else(|| refused(&format!("cannot watch '{name}': it was imported anew")))?;
    let text = match args.has_long("json") {
        true => serde_json::to_string(&interval).map_err(std::io::Error::from)? + "\n",
        false => top::once(&interval),
    };
    session.out().write_all(text.as_bytes())?;
    Ok(0)
}

/// The pool of this name; the only one where none is named.
fn one(session: &Session, name: Option<String>) -> Result<PoolInfo, Stop> {
    let mut pools = session.ask(&PoolList::default())?;
    match name {
        Some(name) => {
            let found = pools.into_iter().find(|pool| pool.name == name);
            found.ok_or_else(|| Failure::no_such_pool(&name).into())
        }
        None if pools.len() > 1 => usage("missing pool name argument: several pools are open"),
        None => pools.pop().ok_or_else(|| refused("no pools are open")),
    }
}

fn look(session: &Session, pool: PoolInfo) -> Result<Look, Stop> {
    let name = &pool.name;
    let facts = session.ask(&PoolLogFacts { pool: name.clone() })?;
    let users = session.ask(&PoolLogUsers { pool: name.clone() })?;
    Ok(Look { pool, facts, users })
}

/// Asks as every command does, and starts the daemon where nobody listens.
struct Asking(Session);

impl Source for Asking {
    fn pools(&mut self) -> Result<Vec<PoolInfo>, Failure> {
        self.0.ask(&PoolList::default()).map_err(failure)
    }

    fn look(&mut self, pool: PoolInfo) -> Result<Look, Failure> {
        look(&self.0, pool).map_err(failure)
    }
}

fn failure(stop: Stop) -> Failure {
    match stop {
        Stop::Failed(failure) => failure,
        Stop::Usage(reason) => Failure::new(FailureKind::Other, reason),
        Stop::Closed => Failure::new(FailureKind::Other, "the daemon has gone"),
    }
}

fn refused(line: &str) -> Stop {
    Failure::new(FailureKind::Other, line).into()
}

/// What the terminal can show, as far as the environment tells.
fn ink(no_colour: bool) -> Ink {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(|name| is_set(name)).map(std::env::var);
    let locale = locale.and_then(Result::ok).unwrap_or_default().to_lowercase();
    Ink {
        colour: !no_colour && !is_set("NO_COLOR"),
        unicode: locale.ends_with("utf-8") || locale.ends_with("utf8"),
    }
}
