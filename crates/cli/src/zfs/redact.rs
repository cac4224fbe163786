//! `zfs redact`.

use crate::args::{Args, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::BookmarkRedact;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "redact",
        alias: None,
        about: "notes what of a snapshot its clones have changed, so that it is sent without that",
        flags: &[],
        operands: "<snapshot> <bookmark> <redaction_snapshot> ...",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let [snapshot, bookmark, by @ ..] = args.operands.as_slice() else {
        return usage("too few arguments");
    };
    if by.is_empty() {
        return usage("too few arguments");
    }
    let (snapshot, bookmark, by) = (snapshot.clone(), bookmark.clone(), by.to_vec());
    session.ask(&BookmarkRedact { snapshot, bookmark, by })?;
    Ok(0)
}
