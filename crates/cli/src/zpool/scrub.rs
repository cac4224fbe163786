//! `zpool scrub`, `zpool resilver`, `zpool prefetch` and `zpool clear`.

use super::pools::{find, select};
use super::wait::{Activity, wait};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::names::find_vdev;
use control::{Failure, FailureKind, PoolClear, PoolPrefetch, PoolScrub, ScrubHow, SharedTable};

pub const SCRUB: Command = Command::new(
    Spec {
        name: "scrub",
        alias: None,
        about: "reads everything, and repairs what is damaged",
        flags: &[
            Flag::switch('s', "stop the scrub that runs"),
            Flag::switch('p', "pause it until the next 'scrub'"),
            Flag::switch('w', "wait until it is done"),
            Flag::switch('a', "all pools"),
            Flag::switch('e', "read only what is in the list of errors"),
            Flag::switch('C', "only what was written since the last scrub"),
            Flag::value('S', "date", "only what was written since then; not supported yet"),
            Flag::value('E', "date", "only what was written until then; not supported yet"),
        ],
        operands: "<-a | pool ...>",
    },
    scrub,
);

pub const RESILVER: Command = Command::new(
    Spec {
        name: "resilver",
        alias: None,
        about: "begins to bring devices up to date that lack something, anew if that is under way",
        flags: &[],
        operands: "<pool> ...",
    },
    resilver,
);

pub const PREFETCH: Command = Command::new(
    Spec {
        name: "prefetch",
        alias: None,
        about: "reads tables of shared blocks into memory",
        flags: &[Flag::value('t', "ddt|brt", "only those of deduplicated, or of cloned, blocks")],
        operands: "<pool>",
    },
    prefetch,
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
        _ if args.has('C') => ScrubHow::StartSinceLast,
        _ if args.has('e') => ScrubHow::StartErrors,
        _ => ScrubHow::Start,
    };
    let is_start = !args.has('s') && !args.has('p');
    if args.has('C') && !is_start {
        return usage("invalid option combination: -C cannot be used with -p or -s");
    }
    if args.has('w') && !is_start {
        return usage("invalid option combination: -w cannot be used with -p or -s");
    }
    if args.has('e') && (!is_start || args.has('C')) {
        return usage("invalid option combination: -e cannot be used with -p, -s or -C");
    }
    if let Some(flag) = ['S', 'E'].into_iter().find(|flag| args.has(*flag)) {
        let line = format!("'zpool scrub -{flag}' is not supported yet; without -{flag}, everything is read");
        return Err(Failure::new(FailureKind::Unsupported, line).into());
    }
    match (args.has('a'), args.operands.is_empty()) {
        (true, false) => return usage("invalid option combination: -a and a pool name"),
        (false, true) => return usage("missing pool name argument"),
        _ => {}
    }
    let (pools, mut code) = select(session, &args.operands)?;
    for pool in &pools {
        match session.ask(&PoolScrub { pool: pool.name.clone(), how }) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            result => {
                result?;
                if is_start && pool.checkpoint.is_some() {
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

fn resilver(session: &mut Session, args: &Args) -> Outcome {
    if args.operands.is_empty() {
        return usage("missing pool name argument");
    }
    let (pools, mut code) = select(session, &args.operands)?;
    for pool in pools {
        match session.ask(&PoolScrub { pool: pool.name, how: ScrubHow::Resilver }) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            done => done?,
        }
    }
    Ok(code)
}

fn prefetch(session: &mut Session, args: &Args) -> Outcome {
    let tables: &[SharedTable] = match args.value('t') {
        None => &[SharedTable::Ddt, SharedTable::Brt],
        Some("ddt") => &[SharedTable::Ddt],
        Some("brt") => &[SharedTable::Brt],
        Some(other) => return usage(format!("unsupported prefetch type '{other}'")),
    };
    let pool = match args.operands.as_slice() {
        [] => return usage("missing pool name argument"),
        [pool] => find(session, pool)?.name,
        _ => return usage("too many arguments"),
    };
    for &table in tables {
        session.ask(&PoolPrefetch { pool: pool.clone(), table })?;
    }
    Ok(0)
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
    session.ask(&PoolClear { pool: pool.clone(), vdev, device: device.cloned().unwrap_or_default() })?;
    Ok(0)
}

fn no_such_device(word: &str) -> Stop {
    let line = format!("cannot clear errors for {word}: no such device in pool");
    Failure::new(FailureKind::Invalid, line).into()
}
