//! `zfs diff`.

use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::{DatasetDiff, Failure, FailureKind};
use engine::{names, refusal};
use std::io;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "diff",
        alias: None,
        about: "tells what changed in a file system since a snapshot",
        flags: &[
            Flag::switch('F', "with the kind of each file"),
            Flag::switch('H', "tabs instead of arrows"),
            Flag::switch('t', "with the time of each change"),
            Flag::switch('h', "names as they are, without escapes"),
        ],
        operands: "<snapshot> [snapshot|filesystem]",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let (from, to) = match args.operands.as_slice() {
        [] => return usage("must provide at least one snapshot name"),
        [from] => (from.as_str(), None),
        [from, to] => (from.as_str(), Some(to.as_str())),
        _ => return usage("too many arguments"),
    };
    let first = if from.starts_with('@') { to } else { Some(from) };
    let Some(first) = first else { return usage("") };
    open(session, names::head_of(first), Kinds::FILESYSTEMS)?;
    let (dataset, from, to) = pair(from, to)?;
    let call = DatasetDiff {
        dataset,
        from,
        to,
        kinds: args.has('F'),
        times: args.has('t'),
        scripted: args.has('H'),
        unescaped: args.has('h'),
        process: std::process::id().into(),
    };
    let cannot = |error: &io::Error| {
        Failure::new(FailureKind::Other, format!("Unable to obtain diffs: {}", refusal::words(error)))
    };
    session.pass_on(&call, &mut |_| {}, cannot)?;
    Ok(0)
}

/// Which file system is compared with which snapshot of it; where one of two names has no file system, it is the other's.
fn pair(from: &str, to: Option<&str>) -> Result<(String, String, Option<String>), Failure> {
    let Some(to) = to else {
        let Some((head, _)) = from.split_once('@') else {
            let line = format!("Badly formed snapshot name {from}: missing '@' delimiter in snapshot name");
            return Err(Failure::new(FailureKind::Invalid, line));
        };
        return Ok((head.to_owned(), from.to_owned(), None));
    };
    let split = |name: &str| {
        let at = name.find('@').unwrap_or(name.len());
        (name[..at].to_owned(), name[at..].to_owned())
    };
    let ((from_head, from_tail), (to_head, to_tail)) = (split(from), split(to));
    if from_tail.len() <= 1 || to_tail == "@" || (from_head.is_empty() && to_head.is_empty()) {
        let line = "Unable to determine which snapshots to compare: invalid name";
        return Err(Failure::new(FailureKind::Invalid, line));
    }
    let either = |one: &str, other: &str| if one.is_empty() { other.to_owned() } else { one.to_owned() };
    let (source, head) = (either(&from_head, &to_head), either(&to_head, &from_head));
    let to = (!to_tail.is_empty()).then(|| format!("{head}{to_tail}"));
    Ok((head, format!("{source}{from_tail}"), to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_file_system_are_the_others() {
        let of = |from, to| pair(from, to).map_err(|failure| failure.stderr.join("\n"));
        let is = |head: &str, from: &str, to: Option<&str>| {
            Ok((head.to_owned(), from.to_owned(), to.map(str::to_owned)))
        };
        assert_eq!(of("p/a@1", None), is("p/a", "p/a@1", None));
        assert_eq!(of("p/a@1", Some("p/a@2")), is("p/a", "p/a@1", Some("p/a@2")));
        assert_eq!(of("p/a@1", Some("@2")), is("p/a", "p/a@1", Some("p/a@2")));
        assert_eq!(of("p/a@1", Some("p/a")), is("p/a", "p/a@1", None));
        assert_eq!(of("@1", Some("p/a@2")), is("p/a", "p/a@1", Some("p/a@2")));
        assert_eq!(of("@1", Some("p/a")), is("p/a", "p/a@1", None));
        assert_eq!(of("p/a@1", Some("p/c@2")), is("p/c", "p/a@1", Some("p/c@2")));
        let undetermined = || Err("Unable to determine which snapshots to compare: invalid name".to_owned());
        for (from, to) in [("p/a", "p/a@1"), ("p/a@1", "@"), ("@1", "@2"), ("p/a@", "p/a@1")] {
            assert_eq!(of(from, Some(to)), undetermined(), "{from} {to}");
        }
        let badly = "Badly formed snapshot name p/a: missing '@' delimiter in snapshot name".to_owned();
        assert_eq!(of("p/a", None), Err(badly));
    }
}
