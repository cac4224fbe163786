//! `zfs send`.

use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{DatasetSend, DatasetSendSize, Failure, FailureKind, SendSize};
use engine::props::clock;
use engine::{names, nice, refusal};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant, SystemTime};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "send",
        alias: None,
        about: "writes a snapshot as a stream to standard output",
        flags: &[
            Flag::switch('L', "blocks above 128 KiB whole").or("large-block"),
            Flag::switch('P', "tell what is sent, for programs").or("parsable"),
            Flag::switch('c', "blocks as they are stored, compressed").or("compressed"),
            Flag::switch('e', "blocks that lie in their pointers so").or("embed"),
            Flag::switch('n', "send nothing").or("dryrun"),
            Flag::switch('v', "tell what is sent, and how far it is").or("verbose"),
            Flag::value('i', "snapshot|bookmark", "only what is new since then"),
            Flag::value('I', "snapshot", "the same, with all snapshots in between"),
        ],
        operands: "<snapshot>",
    },
    run,
);

/// How often it is told how far a stream is.
const TELL_EVERY: Duration = Duration::from_secs(1);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let snapshot = match args.operands.as_slice() {
        [] => return usage("missing snapshot argument"),
        [snapshot] => snapshot,
        _ => return usage("too many arguments"),
    };
    if args.has('i') && args.has('I') {
        return usage("");
    }
    if !args.has('n') && io::stdout().is_terminal() {
        let line = "Error: Stream can not be written to a terminal.";
        return Err(Failure::new(FailureKind::Invalid, line)
            .and("You must redirect standard output.")
            .into());
    }
    let all = args.has('I');
    if all && !snapshot.contains('@') {
        let line = "Error: Unsupported flag with filesystem or bookmark.";
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    let from = match args.value('I').or(args.value('i')) {
        Some(from) => Some(source(snapshot, from, all)?),
        None => None,
    };
    let call = DatasetSend {
        snapshot: snapshot.clone(),
        from,
        all,
        large_blocks: args.has('L'),
        embedded: args.has('e'),
        compressed: args.has('c'),
    };
    open(session, snapshot, Kinds::DATASETS)?;
    send(session, args, &call)
}

/// The full name of what a stream starts from; without a dataset it is one of the same.
fn source(snapshot: &str, from: &str, all: bool) -> Result<String, Stop> {
    let head = names::head_of(snapshot);
    if all && from.contains('#') {
        let line = "Error: multiple snapshots cannot be sent from a bookmark.";
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    if from.starts_with(['@', '#']) {
        return Ok(format!("{head}{from}"));
    }
    if from.contains(['@', '#']) {
        return Ok(from.to_owned());
    }
    if !all {
        eprintln!(
            "Warning: incremental source didn't specify type, assuming snapshot. Use '@' or '#' prefix to avoid \
             ambiguity."
        );
    }
    Ok(format!("{head}@{from}"))
}

fn send(session: &mut Session, args: &Args, call: &DatasetSend) -> Outcome {
    let (dry_run, parsable) = (args.has('n'), args.has('P'));
    if dry_run || parsable || args.has('v') {
        let sizes = session.ask(&DatasetSendSize { send: call.clone() })?;
        let lines = if parsable || args.has('v') { told(&sizes, parsable) } else { Vec::new() };
        for line in lines {
            // What is sent has standard output to itself.
            if dry_run { writeln!(session.out(), "{line}")? } else { eprintln!("{line}") }
        }
    }
    if dry_run {
        return Ok(0);
    }
    let mut progress = Progress { snapshot: &call.snapshot, parsable, sent_bytes: 0, told: Instant::now() };
    if args.has('v') && !parsable {
        eprintln!("TIME        SENT   SNAPSHOT {}", call.snapshot);
    }
    let cannot = |error: &io::Error| {
        let line = format!("warning: cannot send '{}': {}", call.snapshot, refusal::words(error));
        Failure::new(FailureKind::Other, line)
    };
    let is_watched = args.has('v');
    let mut watch = |bytes: usize| {
        if is_watched {
            progress.note(bytes);
        }
    };
    session.pass_on(call, &mut watch, cannot)?;
    Ok(0)
}

/// What is to be sent, in lines.
fn told(sizes: &[SendSize], parsable: bool) -> Vec<String> {
    let line = |size: &SendSize| match (&size.from, parsable) {
        (Some(from), true) => format!("incremental\t{from}\t{}\t{}", size.snapshot, size.bytes),
        (None, true) => format!("full\t{}\t{}", size.snapshot, size.bytes),
        (Some(from), false) => {
            format!("send from {from} to {} estimated size is {}", size.snapshot, nice::bytes(size.bytes))
        }
        (None, false) => {
            format!("full send of {} estimated size is {}", size.snapshot, nice::bytes(size.bytes))
        }
    };
    let total: u64 = sizes.iter().map(|size| size.bytes).sum();
    let last = match parsable {
        true => format!("size\t{total}"),
        false => format!("total estimated size is {}", nice::bytes(total)),
    };
    sizes.iter().map(line).chain([last]).collect()
}

/// How far a stream is.
struct Progress<'a> {
    snapshot: &'a str,
    parsable: bool,
    sent_bytes: u64,
    told: Instant,
}

impl Progress<'_> {
    fn note(&mut self, bytes: usize) {
        self.sent_bytes += bytes as u64;
        if self.told.elapsed() < TELL_EVERY {
            return;
        }
        self.told = Instant::now();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (time, sent) = (clock(now.as_secs()), self.sent_bytes);
        match self.parsable {
            true => eprintln!("{time}\t{sent}\t{}", self.snapshot),
            false => eprintln!("{time}   {:>5}   {}", nice::bytes(sent), self.snapshot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_told_as_openzfs_does() {
        let size = |snapshot: &str, from: Option<&str>, bytes| SendSize {
            snapshot: snapshot.to_owned(),
            from: from.map(str::to_owned),
            bytes,
        };
        let sizes = [size("p@1", None, 1536), size("p@2", Some("p@1"), 512)];
        assert_eq!(
            told(&sizes, false),
            [
                "full send of p@1 estimated size is 1.50K",
                "send from p@1 to p@2 estimated size is 512B",
                "total estimated size is 2K"
            ]
        );
        assert_eq!(told(&sizes, true), ["full\tp@1\t1536", "incremental\tp@1\tp@2\t512", "size\t2048"]);
    }

    #[test]
    fn a_source_without_a_dataset_is_of_the_same() {
        let source = |from| source("p/a@2", from, false).ok();
        assert_eq!(source("@1").as_deref(), Some("p/a@1"));
        assert_eq!(source("#1").as_deref(), Some("p/a#1"));
        assert_eq!(source("p@1").as_deref(), Some("p@1"));
        assert_eq!(source("1").as_deref(), Some("p/a@1"));
    }
}
