//! `sawmill bench device`.

use std::time::Duration;

use bench::device::{Plan, run};

use super::words::Words;
use super::{JSON, PATH, SECONDS, environment, outcome, print_report};
use crate::args::{Flag, Spec};
use crate::program::Command;
use bench::Refusal;

pub(super) const DEVICE: Command = Command::new(
    Spec {
        name: "device",
        alias: None,
        about: "measures a file or disk as a model for simulations; overwrites its first 2 GiB",
        flags: &[PATH, SECONDS, Flag::long("force", "overwrite what is there"), JSON],
        operands: "",
    },
    |_, args| outcome(args, measure),
);

fn measure(words: &Words<'_>) -> Result<u8, Refusal> {
    let time = Duration::from_secs(words.number("seconds", 10)? as u64);
    let plan = Plan { path: words.path("path")?, time, force: words.has("force") };
    let report = run(&environment()?, &plan)?;
    print_report(words, &report, report.text());
    Ok(0)
}
