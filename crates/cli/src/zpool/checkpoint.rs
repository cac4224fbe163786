//! `zpool checkpoint`.

use super::pools::find;
use super::wait::{Activity, wait};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::PoolCheckpoint;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "checkpoint",
        alias: None,
        about: "keeps the pool's state, which an import can return to",
        flags: &[
            Flag::switch('d', "give up the state that is kept").or("discard"),
            Flag::switch('w', "with -d: wait until its space is free").or("wait"),
        ],
        operands: "<pool>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let discard = args.has('d');
    if args.has('w') && !discard {
        return usage("--wait only valid when --discard also specified");
    }
    let name = match args.operands.as_slice() {
        [] => return usage("missing pool argument"),
        [name] => name,
        _ => return usage("too many arguments"),
    };
    let found = find(session, name);
    if found.is_err() && name.contains('/') {
        eprintln!(
            "'zpool checkpoint' doesn't work on datasets. To save the state of a dataset from a specific point in \
             time please use 'zfs snapshot'"
        );
    }
    let pool = found?;
    session.ask(&PoolCheckpoint { pool: pool.name.clone(), discard })?;
    if args.has('w') {
        wait(session, &[pool], &[Activity::Discard])?;
    }
    Ok(0)
}
