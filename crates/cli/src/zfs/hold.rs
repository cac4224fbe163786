//! `zfs hold`, `zfs release` and `zfs holds`.

use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::holds::table;
use control::{Failure, FailureKind, HeldSnapshot, SnapshotHold, SnapshotHolds, SnapshotRelease};
use engine::names;

pub const HOLD: Command = Command::new(
    Spec {
        name: "hold",
        alias: None,
        about: "keeps snapshots from being destroyed",
        flags: &[Flag::switch('r', "and those of the same name of all datasets below")],
        operands: "<tag> <snapshot> ...",
    },
    hold,
);

pub const RELEASE: Command = Command::new(
    Spec {
        name: "release",
        alias: None,
        about: "takes holds on snapshots back",
        flags: &[Flag::switch('r', "and on those of the same name of all datasets below")],
        operands: "<tag> <snapshot> ...",
    },
    release,
);

pub const HOLDS: Command = Command::new(
    Spec {
        name: "holds",
        alias: None,
        about: "shows what holds snapshots",
        flags: &[
            Flag::switch('r', "and those of the same name of all datasets below"),
            Flag::switch('H', "for programs: no heading, tabs"),
            Flag::switch('p', "moments in seconds"),
        ],
        operands: "<snapshot> ...",
    },
    holds,
);

fn hold(session: &mut Session, args: &Args) -> Outcome {
    let recursive = args.has('r');
    let Some((tag, names)) = args.operands.split_first().filter(|(_, names)| !names.is_empty()) else {
        return usage("");
    };
    if tag.starts_with('.') {
        return usage("tag may not start with '.'");
    }
    each(session, names, |session, name| {
        session.ask(&SnapshotHold { name: name.to_owned(), tag: tag.clone(), recursive })
    })
}

fn release(session: &mut Session, args: &Args) -> Outcome {
    let recursive = args.has('r');
    let Some((tag, names)) = args.operands.split_first().filter(|(_, names)| !names.is_empty()) else {
        return usage("");
    };
    each(session, names, |session, name| {
        session.ask(&SnapshotRelease { name: name.to_owned(), tag: tag.clone(), recursive })
    })
}

fn holds(session: &mut Session, args: &Args) -> Outcome {
    if args.operands.is_empty() {
        return usage("");
    }
    let recursive = args.has('r');
    let mut found: Vec<HeldSnapshot> = Vec::new();
    let code = each_named(session, &args.operands, |session, name| {
        let new = session.ask(&SnapshotHolds { name: name.to_owned(), recursive })?;
        for snapshot in new {
            if !found.iter().any(|other| other.name == snapshot.name) {
                found.push(snapshot);
            }
        }
        Ok(())
    })?;
    let text = table(&found, args.has('H'), args.has('p'));
    session.out().write_all(text.as_bytes())?;
    if found.is_empty() {
        eprintln!("no datasets available");
    }
    Ok(code)
}

/// The same of snapshots whose dataset is there; those there need not be.
fn each(
    session: &mut Session,
    names: &[String],
    one: impl Fn(&Session, &str) -> Result<(), Stop>,
) -> Outcome {
    each_named(session, names, |session, name| {
        open(session, names::head_of(name), Kinds::LIVE)?;
        one(session, name)
    })
}

/// Does it to every snapshot; complains of those it fails for, and gives the exit code.
fn each_named(
    session: &mut Session,
    names: &[String],
    mut one: impl FnMut(&Session, &str) -> Result<(), Stop>,
) -> Outcome {
    let mut failed = false;
    for name in names {
        let done = match name.contains('@') {
            true => one(session, name),
            false => {
                let line = format!("'{name}' is not a snapshot");
                Err(Failure::new(FailureKind::Invalid, line).into())
            }
        };
        match done {
            Err(Stop::Failed(failure)) => {
                session.complain(&failure);
                failed = true;
            }
            done => done?,
        }
    }
    Ok(u8::from(failed))
}
