//! `zfs destroy`.

use super::select::find;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{DatasetDestroy, DatasetInfo, DatasetList, Failure, FailureKind};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "destroy",
        alias: None,
        about: "destroys a dataset",
        flags: &[
            Flag::switch('f', "unmount by force"),
            Flag::switch('n', "show what would go, destroy nothing"),
            Flag::switch('r', "and all below it"),
            Flag::switch('R', "and all below it and all clones"),
            Flag::switch('v', "tell what goes"),
        ],
        operands: "<filesystem|volume>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let name = match args.operands.as_slice() {
        [] => return usage("missing dataset argument"),
        [name] => name,
        _ => return usage("too many arguments"),
    };
    find(session, name)?;
    if !name.contains(['/', '@']) && !args.has('r') && !args.has('R') {
        return Err(Stop::Failed(is_a_pool(name)));
    }
    let call = DatasetDestroy {
        name: name.clone(),
        recursive: args.has('r') || args.has('R'),
        clones: args.has('R'),
        force: args.has('f'),
    };
    let going = going(session, &call)?;
    if args.has('v') {
        let verb = if args.has('n') { "would" } else { "will" };
        for dataset in &going {
            writeln!(session.out(), "{verb} destroy {}", dataset.name)?;
        }
    }
    if !args.has('n') {
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

/// What a call destroys, children first; refuses when there are children and no `-r`.
fn going(session: &Session, call: &DatasetDestroy) -> Result<Vec<DatasetInfo>, Stop> {
    let below = DatasetList { root: Some(call.name.clone()), ..DatasetList::default() };
    let mut all = session.ask(&below)?;
    if all.len() > 1 && !call.recursive {
        let reason = "filesystem has children";
        let mut failure = Failure::cannot(FailureKind::Busy, "destroy", &call.name, reason)
            .and("use '-r' to destroy the following datasets:");
        for child in all.iter().skip(1) {
            failure = failure.and(&child.name);
        }
        return Err(Stop::Failed(failure));
    }
    all.reverse();
    Ok(all)
}
