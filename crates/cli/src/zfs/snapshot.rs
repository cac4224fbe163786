//! `zfs snapshot`.

use super::props::assignments;
use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::SnapshotCreate;
use engine::names;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "snapshot",
        alias: Some("snap"),
        about: "makes snapshots, all of them at the same moment",
        flags: &[
            Flag::switch('r', "and of all datasets below"),
            Flag::value('o', "property=value", "a user property").repeated(),
        ],
        operands: "<filesystem|volume>@<snap> ...",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let props = assignments(args)?;
    let names = &args.operands;
    let Some(first) = names.first() else { return usage("missing snapshot argument") };
    for name in names {
        let Some((dataset, _)) = name.split_once('@') else { return usage("") };
        match open(session, dataset, Kinds::LIVE) {
            Err(Stop::Failed(failure)) => {
                session.complain(&failure);
                return usage("");
            }
            found => found?,
        };
    }
    let recursive = args.has('r');
    let pool = names::pool_of(first).to_owned();
    match session.ask(&SnapshotCreate { pool, names: names.clone(), recursive, props }) {
        Err(Stop::Failed(failure)) if recursive || names.len() > 1 => {
            Err(failure.and("no snapshots were created").into())
        }
        done => done.map(|()| 0),
    }
}
