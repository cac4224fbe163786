//! `zfs bookmark`.

use super::select::{Kinds, open};
use crate::args::{Args, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::BookmarkCreate;
use engine::names;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "bookmark",
        alias: None,
        about: "notes where a snapshot was, so that it can go",
        flags: &[],
        operands: "<snapshot|bookmark> <newbookmark>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let (source, name) = match args.operands.as_slice() {
        [] => return usage("missing source argument"),
        [_] => return usage("missing bookmark argument"),
        [source, name, ..] => (source.as_str(), name.as_str()),
    };
    if !source.contains(['@', '#']) {
        return usage(format!("invalid source name '{source}': must contain a '@' or '#'"));
    }
    if !name.contains('#') {
        return usage(format!("invalid bookmark name '{name}': must contain a '#'"));
    }
    // One of them may be told without its dataset: it is the other's.
    let (source, name) = match (names::head_of(source), names::head_of(name)) {
        ("", "") => return usage("either source or bookmark must be specified as full dataset paths"),
        ("", head) => (format!("{head}{source}"), name.to_owned()),
        (head, "") => (source.to_owned(), format!("{head}{name}")),
        _ => (source.to_owned(), name.to_owned()),
    };
    let wanted = if source[names::head_of(&source).len()..].starts_with('@') {
        Kinds::SNAPSHOTS
    } else {
        Kinds::BOOKMARKS
    };
    if let Err(stop) = open(session, &source, wanted) {
        let Stop::Failed(failure) = stop else { return Err(stop) };
        session.complain(&failure);
        return usage("");
    }
    session.ask(&BookmarkCreate { source, name })?;
    Ok(0)
}
