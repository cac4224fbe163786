//! `zpool scrub` and `zpool clear`.

use super::pools::{find, select};
use super::wait::{Activity, wait};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::names::find_vdev;
use control::{Failure, FailureKind, PoolClear, PoolScrub, ScrubHow};

pub const SCRUB: Command = Command::new(
    Spec {
        name: "scrub",
        alias: None,
        about: "reads everything, and repairs what is damaged",
        flags: &[
            Flag::switch('s', "stop the scrub that runs"),
            Flag::switch('p', "pause it until the next 'scrub'"),
            Flag::switch('w', "wait until it is done"),
        ],
        operands: "<pool> ...",
    },
    scrub,
);

pub const CLEAR: Command = Command::new(
    Spec {
        name: "clear",
        alias: None,
        about: "sets error counters back, and tries failed devices again",
        flags: &[],
        operands: "<pool> [device]",
    },
    clear,
);

fn scrub(session: &mut Session, args: &Args) -> Outcome {
    let how = match (args.has('s'), args.has('p')) {
        (true, true) => return usage("invalid option combination: -s and -p are mutually exclusive"),
        (true, _) => ScrubHow::Stop,
        (_, true) => ScrubHow::Pause,
        _ => ScrubHow::Start,
    };
    if args.has('w') && how != ScrubHow::Start {
        return usage("invalid option combination: -w cannot be used with -p or -s");
    }
    if args.operands.is_empty() {
        return usage("missing pool name argument");
    }
    let (pools, mut code) = select(session, &args.operands)?;
    for pool in &pools {
        match session.ask(&PoolScrub { pool: pool.name.clone(), how }) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            result => {
                result?;
                if how == ScrubHow::Start && pool.checkpoint.is_some() {
                    let words = "warning: will not scrub state that belongs to the checkpoint of pool";
                    writeln!(session.out(), "{words} '{}'", pool.name)?;
                }
            }
        }
    }
    if args.has('w') && code == 0 {
        wait(session, &pools, &[Activity::Scrub])?;
    }
    Ok(code)
}

fn clear(session: &mut Session, args: &Args) -> Outcome {
    let (pool, device) = match args.operands.as_slice() {
        [] => return usage("missing pool name"),
        [pool] => (pool, None),
        [pool, device] => (pool, Some(device)),
        _ => return usage("too many arguments"),
    };
    let info = find(session, pool)?;
    let vdev = match device {
        Some(word) => Some(find_vdev(&info, word).ok_or_else(|| no_such_device(word))?.guid),
        None => None,
    };
    session.ask(&PoolClear { pool: pool.clone(), vdev })?;
    Ok(0)
}

fn no_such_device(word: &str) -> Stop {
    let line = format!("cannot clear errors for {word}: no such device in pool");
    Failure::new(FailureKind::Invalid, line).into()
}
