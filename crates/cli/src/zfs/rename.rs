//! `zfs rename`.

use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::DatasetRename;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "rename",
        alias: None,
        about: "gives a dataset or a snapshot another name",
        flags: &[
            Flag::switch('f', "unmount by force"),
            Flag::switch('p', "make missing parents of the new name"),
            Flag::switch('r', "of a snapshot: and those of the same name of all datasets below"),
            Flag::switch('u', "leave what is mounted where it is"),
        ],
        operands: "<filesystem|volume|snapshot> <filesystem|volume|snapshot>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let (name, new_name) = match args.operands.as_slice() {
        [] => return usage("missing source dataset argument"),
        [_] => return usage("missing target dataset argument"),
        [name, new_name] => (name, new_name),
        _ => return usage("too many arguments"),
    };
    let (parents, recursive, keep_mounted) = (args.has('p'), args.has('r'), args.has('u'));
    if recursive && parents {
        return usage("-p and -r options are mutually exclusive");
    }
    if keep_mounted && parents {
        return usage("-u and -p options are mutually exclusive");
    }
    if recursive && !name.contains('@') {
        return usage("source dataset for recursive rename must be a snapshot");
    }
    let wanted = match (keep_mounted, parents) {
        (true, _) => Kinds::FILESYSTEMS,
        (false, true) => Kinds::LIVE,
        (false, false) => Kinds::DATASETS,
    };
    open(session, name, wanted)?;
    session.ask(&DatasetRename {
        name: name.clone(),
        new_name: new_name.clone(),
        recursive,
        parents,
        keep_mounted,
        force: args.has('f'),
        ..DatasetRename::default()
    })?;
    Ok(0)
}
