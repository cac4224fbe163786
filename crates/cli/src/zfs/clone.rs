//! `zfs clone` and `zfs promote`.

use super::props::assignments;
use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::{DatasetClone, DatasetPromote};

pub const CLONE: Command = Command::new(
    Spec {
        name: "clone",
        alias: None,
        about: "makes a dataset of a snapshot, and mounts it",
        flags: &[
            Flag::switch('p', "make missing parents; do not mind that it exists"),
            Flag::value('o', "property=value", "a property").repeated(),
        ],
        operands: "<snapshot> <filesystem|volume>",
    },
    clone,
);

pub const PROMOTE: Command = Command::new(
    Spec {
        name: "promote",
        alias: None,
        about: "has a clone change places with what it is a clone of",
        flags: &[],
        operands: "<clone-filesystem>",
    },
    promote,
);

fn clone(session: &mut Session, args: &Args) -> Outcome {
    let props = assignments(args)?;
    let (snapshot, name) = match args.operands.as_slice() {
        [] => return usage("missing source dataset argument"),
        [_] => return usage("missing target dataset argument"),
        [snapshot, name] => (snapshot.clone(), name.clone()),
        _ => return usage("too many arguments"),
    };
    open(session, &snapshot, Kinds::SNAPSHOTS)?;
    session.ask(&DatasetClone { snapshot, name, props, parents: args.has('p'), maker: None })?;
    Ok(0)
}

fn promote(session: &mut Session, args: &Args) -> Outcome {
    let name = match args.operands.as_slice() {
        [] => return usage("missing clone filesystem argument"),
        [name] => name.clone(),
        _ => return usage("too many arguments"),
    };
    open(session, &name, Kinds::LIVE)?;
    session.ask(&DatasetPromote { name })?;
    Ok(0)
}
