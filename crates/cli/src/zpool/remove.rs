//! `zpool remove`.

use super::pools::find;
use super::wait::{Activity, wait};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::names::find_vdev;
use control::{Failure, FailureKind, PoolInfo, PoolRemove, VdevClass, VdevInfo};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "remove",
        alias: None,
        about: "takes logs, caches and spares out of a pool",
        flags: &[
            Flag::switch('n', "show what memory the removal would take, change nothing"),
            Flag::switch('p', "with -n: exact numbers"),
            Flag::switch('s', "stop a removal that is under way"),
            Flag::switch('w', "wait until it is done"),
        ],
        operands: "<pool> <device> ...",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let Some((name, devices)) = args.operands.split_first() else {
        return usage("missing pool name argument");
    };
    let pool = find(session, name)?;
    if args.has('s') {
        return stop(args, devices);
    }
    if devices.is_empty() {
        return usage("missing device");
    }
    let mut code = 0;
    for word in devices {
        let done = match args.has('n') {
            true => show(session, &pool, word, args.has('p')),
            false => remove(session, name, word),
        };
        match done {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            done => done?,
        }
        if args.has('n') && code != 0 {
            break;
        }
    }
    if code == 0 && args.has('w') {
        wait(session, &[pool], &[Activity::Absent])?;
    }
    Ok(code)
}

/// A log is gone when the command that removes it ends: there is nothing to be stopped.
fn stop(args: &Args, devices: &[String]) -> Outcome {
    if args.has('n') {
        eprintln!("stop request ignored");
        return Ok(0);
    }
    if !devices.is_empty() {
        return usage("too many arguments");
    }
    if args.has('w') {
        return usage("invalid option combination: -w cannot be used with -s");
    }
    Err(Failure::new(FailureKind::Invalid, "cannot cancel removal: operation is not in progress").into())
}

/// The pool is looked at anew for each device: the one before has changed it.
fn remove(session: &mut Session, pool: &str, word: &str) -> Result<(), Stop> {
    let info = find(session, pool)?;
    let vdev = found(&info, word)?.guid;
    session.ask(&PoolRemove { pool: pool.to_owned(), vdev, name: word.to_owned() })
}

fn show(session: &mut Session, pool: &PoolInfo, word: &str, exact: bool) -> Result<(), Stop> {
    let vdev = found(pool, word)?;
    if !matches!(vdev.class, VdevClass::Log | VdevClass::Cache | VdevClass::Spare) {
        let reason = "only log, cache and spare devices can be removed";
        return Err(Failure::new(FailureKind::Unsupported, format!("cannot remove {word}: {reason}")).into());
    }
    match exact {
        true => writeln!(session.out(), "{word} 0")?,
        false => writeln!(session.out(), "Memory that will be used after removing {word}: 0")?,
    }
    Ok(())
}

fn found<'a>(pool: &'a PoolInfo, word: &str) -> Result<&'a VdevInfo, Stop> {
    let no_such =
        || Failure::new(FailureKind::Invalid, format!("cannot remove {word}: no such device in pool"));
    find_vdev(pool, word).ok_or_else(|| no_such().into())
}
