//! `sawmill doctor`: what this machine lacks for pools and mounts, and how to get it.

mod host;
mod system;

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use serde::Serialize;
use std::io::{self, Write};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "doctor",
        alias: None,
        about: "checks what pools and mounts need of this machine, and says how to get what is missing",
        flags: &[Flag::long("json", "as JSON")],
        operands: "",
    },
    run,
);

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Grade {
    /// Nothing is to be done.
    Good,
    /// Something is slower, or lacks a feature.
    Note,
    /// Something does not work.
    Bad,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    grade: Grade,
    /// What was checked.
    what: &'static str,
    /// What was seen.
    seen: String,
    /// What to do; nothing where all is good.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
}

impl Finding {
    fn good(what: &'static str, seen: impl Into<String>) -> Self {
        Self { grade: Grade::Good, what, seen: seen.into(), remedy: None }
    }

    fn note(what: &'static str, seen: impl Into<String>, remedy: &'static str) -> Self {
        Self { grade: Grade::Note, what, seen: seen.into(), remedy: Some(remedy) }
    }

    fn bad(what: &'static str, seen: impl Into<String>, remedy: &'static str) -> Self {
        Self { grade: Grade::Bad, what, seen: seen.into(), remedy: Some(remedy) }
    }
}

/// Exits with 1 if something does not work.
fn run(session: &mut Session, args: &Args) -> Outcome {
    if !args.operands.is_empty() {
        return usage("too many arguments");
    }
    let findings: Vec<Finding> = system::findings().into_iter().chain(host::findings(session)).collect();
    match args.has_long("json") {
        true => writeln!(session.out(), "{}", serde_json::to_string(&findings).expect("plain data"))?,
        false => print(session.out(), &findings)?,
    }
    Ok(u8::from(findings.iter().any(|finding| finding.grade == Grade::Bad)))
}

/// A line for each finding, and a line for each remedy.
fn print(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    for Finding { grade, what, seen, remedy } in findings {
        let grade = match grade {
            Grade::Good => "good",
            Grade::Note => "note",
            Grade::Bad => "BAD ",
        };
        writeln!(out, "{grade}  {what:16} {seen}")?;
        if let Some(remedy) = remedy {
            writeln!(out, "      {:16} -> {remedy}", "")?;
        }
    }
    let count = |grade| findings.iter().filter(|finding| finding.grade == grade).count();
    match (count(Grade::Bad), count(Grade::Note)) {
        (0, 0) => writeln!(out, "\nAll is good."),
        (0, notes) => writeln!(out, "\nAll works. Notes: {notes}."),
        (bad, _) => writeln!(out, "\nProblems: {bad}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_lines_with_what_to_do() {
        let mut printed = Vec::new();
        let findings = [
            Finding::good("kernel", "Linux 6.18.5"),
            Finding::note("io_uring", "is refused", "Allow io_uring."),
            Finding::bad("/dev/fuse", "is missing", "Load the module."),
        ];
        print(&mut printed, &findings).expect("memory");
        let wanted = "good  kernel           Linux 6.18.5\n\
                      note  io_uring         is refused\n\
                      \u{20}                      -> Allow io_uring.\n\
                      BAD   /dev/fuse        is missing\n\
                      \u{20}                      -> Load the module.\n\
                      \nProblems: 1.\n";
        assert_eq!(String::from_utf8(printed).expect("text"), wanted);
        let json = serde_json::to_value(&findings).expect("plain data");
        assert_eq!((&json[0]["grade"], &json[2]["remedy"]), (&"good".into(), &"Load the module.".into()));
    }
}
