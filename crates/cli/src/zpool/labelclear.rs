//! `zpool labelclear`.

use super::devices::short_name;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::{Failure, FailureKind, LabelClear};
use engine::refusal::words;
use std::fs::OpenOptions;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "labelclear",
        alias: None,
        about: "wipes the labels of a device that no pool uses",
        flags: &[Flag::switch('f', "even if it is part of a pool that is not open")],
        operands: "<vdev>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let word = match args.operands.as_slice() {
        [] => return usage("missing vdev name"),
        [word] => word,
        _ => return usage("too many arguments"),
    };
    session.ask(&LabelClear { device: resolve(word)?, force: args.has('f') })?;
    Ok(0)
}

fn resolve(word: &str) -> Result<String, Failure> {
    let path = match word.starts_with('/') {
        true => Some(word.to_owned()),
        false => short_name(word),
    };
    let other = |line| Failure::new(FailureKind::Invalid, line);
    let Some(path) = path else {
        return Err(other(format!("failed to find device {word}, try specifying absolute path instead")));
    };
    match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(_) => Ok(path),
        Err(error) => Err(other(format!("failed to open {path}: {}", words(&error)))),
    }
}
