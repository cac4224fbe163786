//! `zfs rollback`.

use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::DatasetRollback;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "rollback",
        alias: None,
        about: "makes a dataset what it was when a snapshot was made; what came later is lost",
        flags: &[
            Flag::switch('r', "destroy newer snapshots and bookmarks"),
            Flag::switch('R', "and clones of those"),
            Flag::switch('f', "unmount by force"),
        ],
        operands: "<snapshot>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let snapshot = match args.operands.as_slice() {
        [] => return usage("missing dataset argument"),
        [snapshot] => snapshot,
        _ => return usage("too many arguments"),
    };
    open(session, snapshot, Kinds::SNAPSHOTS)?;
    session.ask(&DatasetRollback {
        snapshot: snapshot.clone(),
        newer: args.has('r'),
        clones: args.has('R'),
        force: args.has('f'),
    })?;
    Ok(0)
}
