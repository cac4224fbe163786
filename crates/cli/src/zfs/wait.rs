//! `zfs wait`.

use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::DatasetDeleting;
use std::time::Duration;

/// So often the daemon is asked.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Files that have no name any more are freed.
const DELETEQ: &str = "deleteq";

pub const COMMAND: Command = Command::new(
    Spec {
        name: "wait",
        alias: None,
        about: "waits until work in the background of a file system has ended",
        flags: &[Flag::value('t', "activity[,activity]...", "this work only: deleteq")],
        operands: "<filesystem>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    if let Some(word) = args.value('t').and_then(|text| text.split(',').find(|word| *word != DELETEQ)) {
        return usage(format!("invalid activity '{word}'"));
    }
    let name = match args.operands.as_slice() {
        [] => return usage("missing 'filesystem' argument"),
        [name] => name,
        _ => return usage("too many arguments"),
    };
    open(session, name, Kinds::FILESYSTEMS)?;
    while session.ask(&DatasetDeleting { name: name.clone() })? > 0 {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(0)
}
