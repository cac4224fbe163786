//! `zfs rename`.

use super::select::find;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::DatasetRename;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "rename",
        alias: None,
        about: "gives a dataset another name",
        flags: &[
            Flag::switch('f', "unmount by force"),
            Flag::switch('p', "make missing parents of the new name"),
            Flag::switch('u', "leave what is mounted where it is"),
        ],
        operands: "<filesystem|volume> <filesystem|volume>",
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
    if args.has('u') && args.has('p') {
        return usage("-u and -p options are mutually exclusive");
    }
    find(session, name)?;
    session.ask(&DatasetRename {
        name: name.clone(),
        new_name: new_name.clone(),
        parents: args.has('p'),
        keep_mounted: args.has('u'),
        force: args.has('f'),
    })?;
    Ok(0)
}
