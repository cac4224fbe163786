//! `zpool remove`.

use super::pools::find;
use super::wait::{Activity, wait};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::names::find_vdev;
use control::{Failure, FailureKind, PoolInfo, PoolRemove, PoolRemoveCost, PoolRemoveStop, VdevInfo};
use engine::nice;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "remove",
        alias: None,
        about: "takes devices and vdevs out of a pool",
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
        return stop(session, name, args, devices);
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
        wait(session, &[pool], &[Activity::Remove])?;
    }
    Ok(code)
}

/// Only the removal of a data vdev can be stopped: all others are over when their command ends.
fn stop(session: &mut Session, pool: &str, args: &Args, devices: &[String]) -> Outcome {
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
    session.ask(&PoolRemoveStop { pool: pool.to_owned() })?;
    Ok(0)
}

/// The pool is looked at anew for each device: the one before has changed it.
fn remove(session: &mut Session, pool: &str, word: &str) -> Result<(), Stop> {
    let info = find(session, pool)?;
    let vdev = found(&info, word)?.guid;
    session.ask(&PoolRemove { pool: pool.to_owned(), vdev, name: word.to_owned() })
}

fn show(session: &mut Session, pool: &PoolInfo, word: &str, exact: bool) -> Result<(), Stop> {
    let vdev = found(pool, word)?.guid;
    let bytes = session.ask(&PoolRemoveCost { pool: pool.name.clone(), vdev })?;
    match exact {
        true => writeln!(session.out(), "{word} {bytes}")?,
        false => {
            let bytes = nice::number(bytes);
            writeln!(session.out(), "Memory that will be used after removing {word}: {bytes}")?;
        }
    }
    Ok(())
}

fn found<'a>(pool: &'a PoolInfo, word: &str) -> Result<&'a VdevInfo, Stop> {
    let no_such =
        || Failure::new(FailureKind::Invalid, format!("cannot remove {word}: no such device in pool"));
    find_vdev(pool, word).ok_or_else(|| no_such().into())
}
