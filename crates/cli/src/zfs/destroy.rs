//! `zfs destroy`: of datasets, snapshots and bookmarks.

use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{BookmarkDestroy, DatasetDestroy, Failure, FailureKind, SnapshotDestroy, SnapshotsGoing};
use engine::nice;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "destroy",
        alias: None,
        about: "destroys a dataset, snapshots or a bookmark",
        flags: &[
            Flag::switch('d', "snapshots that are held or cloned: once nobody needs them any more"),
            Flag::switch('f', "unmount by force"),
            Flag::switch('n', "show what would go, destroy nothing"),
            Flag::switch('p', "tell what goes, for programs"),
            Flag::switch('r', "and all below it; of snapshots: and those of all datasets below"),
            Flag::switch('R', "the same, and all clones"),
            Flag::switch('v', "tell what goes"),
        ],
        operands: "<filesystem|volume>\n\
                   destroy [-dnprRv] <filesystem|volume>@<snap>[%<snap>][,...]\n\
                   destroy <filesystem|volume>#<bookmark>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let name = match args.operands.as_slice() {
        [] => return usage("missing dataset argument"),
        [name] => name,
        _ => return usage("too many arguments"),
    };
    match name.split_once('@') {
        Some((dataset, snapshots)) => destroy_snapshots(session, args, dataset, snapshots),
        None if name.contains('#') => destroy_bookmark(session, args, name),
        None => destroy_dataset(session, args, name),
    }
}

/// How what goes is told.
#[derive(Clone, Copy)]
struct Telling {
    /// At all.
    verbose: bool,
    /// For programs.
    parsable: bool,
    /// It does not go.
    dry_run: bool,
}

impl Telling {
    fn of(args: &Args) -> Self {
        let parsable = args.has('p');
        Self { verbose: args.has('v') || parsable, parsable, dry_run: args.has('n') }
    }

    fn line(self, what: &str, object: &str) -> String {
        match (self.parsable, self.dry_run) {
            (true, _) => format!("{what}\t{object}"),
            (false, true) => format!("would {what} {object}"),
            (false, false) => format!("will {what} {object}"),
        }
    }

    fn names(self, session: &mut Session, names: &[String]) -> Result<(), Stop> {
        for name in names {
            writeln!(session.out(), "{}", self.line("destroy", name))?;
        }
        Ok(())
    }
}

fn destroy_dataset(session: &mut Session, args: &Args, name: &str) -> Outcome {
    // Only snapshots can wait.
    open(session, name, if args.has('d') { Kinds::SNAPSHOTS } else { Kinds::LIVE })?;
    if !name.contains('/') && !args.has('r') && !args.has('R') {
        return Err(Stop::Failed(is_a_pool(name)));
    }
    let telling = Telling::of(args);
    let call = DatasetDestroy {
        name: name.to_owned(),
        recursive: args.has('r') || args.has('R'),
        clones: args.has('R'),
        force: args.has('f'),
        dry_run: false,
    };
    if telling.verbose || telling.dry_run {
        let going = session.ask_unnoted(&DatasetDestroy { dry_run: true, ..call.clone() })?;
        if telling.verbose {
            telling.names(session, &going)?;
        }
    }
    if !telling.dry_run {
        session.ask(&call)?;
    }
    Ok(0)
}

fn is_a_pool(name: &str) -> Failure {
    let reason = "operation does not apply to pools";
    Failure::cannot(FailureKind::Invalid, "destroy", name, reason)
        .and(format!("use 'zfs destroy -r {name}' to destroy all datasets in the pool"))
        .and(format!("use 'zpool destroy {name}' to destroy the pool itself"))
}

fn destroy_snapshots(session: &mut Session, args: &Args, dataset: &str, snapshots: &str) -> Outcome {
    open(session, dataset, Kinds::LIVE)?;
    let telling = Telling::of(args);
    let call = SnapshotDestroy {
        dataset: dataset.to_owned(),
        snapshots: snapshots.to_owned(),
        recursive: args.has('r') || args.has('R'),
        clones: args.has('R'),
        defer: args.has('d'),
        force: args.has('f'),
        dry_run: false,
    };
    if telling.verbose || telling.dry_run {
        let going = session.ask_unnoted(&SnapshotDestroy { dry_run: true, ..call.clone() })?;
        if telling.verbose {
            tell_snapshots(session, telling, &going)?;
        }
    }
    if !telling.dry_run {
        session.ask(&call)?;
    }
    Ok(0)
}

fn tell_snapshots(session: &mut Session, telling: Telling, going: &SnapshotsGoing) -> Result<(), Stop> {
    telling.names(session, &going.snapshots)?;
    let bytes = match telling.parsable {
        true => going.reclaimed_bytes.to_string(),
        false => nice::bytes(going.reclaimed_bytes),
    };
    writeln!(session.out(), "{}", telling.line("reclaim", &bytes))?;
    // OpenZFS tells of clones only when they go.
    let clones: &[String] = if telling.dry_run { &[] } else { &going.clones };
    telling.names(session, clones)
}

fn destroy_bookmark(session: &Session, args: &Args, name: &str) -> Outcome {
    let has = |flags: &[char]| flags.iter().any(|flag| args.has(*flag));
    let refused = [(has(&['n']), "dryrun"), (has(&['d']), "defer destroy"), (has(&['r', 'R']), "recursive")];
    if let Some((_, what)) = refused.iter().find(|(is_asked_for, _)| *is_asked_for) {
        let line = format!("{what} is not supported with bookmark");
        return Err(Failure::new(FailureKind::Invalid, line).exits(255).into());
    }
    session.ask(&BookmarkDestroy { name: name.to_owned() })?;
    Ok(0)
}
