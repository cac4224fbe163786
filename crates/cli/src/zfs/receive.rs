//! `zfs receive`.

use super::props::{assignments, excluded};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::{DatasetReceive, DatasetReceiveAbort, Failure, FailureKind, ReceiveNaming, ReceivedSnapshot};
use engine::nice;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "receive",
        alias: Some("recv"),
        about: "makes snapshots of a stream from standard input",
        flags: &[
            Flag::switch('F', "what came since the snapshot that the stream starts from may go"),
            Flag::switch('n', "receive nothing"),
            Flag::switch('s', "keep what came of a stream that breaks off"),
            Flag::switch('A', "give up what was kept of one"),
            Flag::switch('c', "put right what is damaged of a snapshot that is there"),
            Flag::switch('u', "do not mount what is new"),
            Flag::switch('v', "tell what is received"),
            Flag::switch('d', "below the dataset, by all of the name it was sent with but the pool"),
            Flag::switch('e', "below the dataset, by the last part of the name it was sent with"),
            Flag::switch('h', "without the holds that come"),
            Flag::switch('M', "unmount what is in use, too"),
            Flag::value('x', "property", "a property that is not taken over").repeated(),
            Flag::value('o', "property=value", "a property of the dataset").repeated(),
        ],
        operands: "<filesystem|volume|snapshot>\nreceive -A <filesystem|volume>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let target = match args.operands.as_slice() {
        [] => return usage("missing snapshot argument"),
        [target] => target,
        _ => return usage("too many arguments"),
    };
    if args.has('A') {
        if ['d', 'e', 'n', 's', 'u'].into_iter().any(|flag| args.has(flag)) {
            return usage("invalid option");
        }
        session.ask(&DatasetReceiveAbort { name: target.clone() })?;
        return Ok(0);
    }
    let naming = match (args.has('d'), args.has('e')) {
        (true, true) => return usage("invalid option combination: -d and -e options are mutually exclusive"),
        (true, false) => ReceiveNaming::AllButPool,
        (false, true) => ReceiveNaming::Last,
        (false, false) => ReceiveNaming::Target,
    };
    if args.has('c') && ['d', 'e', 'F', 's', 'u', 'h'].into_iter().any(|flag| args.has(flag)) {
        let line = "cannot receive: corrective recv can not be used when combined with this flag";
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    let props = assignments(args)?;
    let excluded_props = excluded(args, &props)?;
    if io::stdin().is_terminal() {
        let line = "Error: Backup stream can not be read from a terminal.";
        return Err(Failure::new(FailureKind::Invalid, line).and("You must redirect standard input.").into());
    }
    let call = DatasetReceive {
        target: target.clone(),
        naming,
        props,
        force: args.has('F'),
        no_mount: args.has('u'),
        dry_run: args.has('n'),
        resumable: args.has('s'),
        excluded_props,
        skip_holds: args.has('h'),
        force_unmount: args.has('M'),
        heal: args.has('c'),
        maker: None,
    };
    let received = session.pass_in(&call, io::stdin().as_fd())?;
    for warning in received.iter().flat_map(|one| &one.warnings) {
        eprintln!("{warning}");
    }
    if args.has('v') {
        for line in received.iter().flat_map(|one| told(one, &call)) {
            writeln!(session.out(), "{line}")?;
        }
    }
    Ok(0)
}

/// What was received, in lines.
fn told(one: &ReceivedSnapshot, call: &DatasetReceive) -> Vec<String> {
    let (dry_run, corrective) = (call.dry_run, if call.heal { "corrective " } else { "" });
    let kind = if one.is_incremental { "incremental" } else { "full" };
    let verb = if dry_run { "would receive" } else { "receiving" };
    let first = format!("{verb} {corrective}{kind} stream of {} into {}", one.sent_as, one.snapshot);
    if dry_run {
        return vec![first];
    }
    if one.is_known {
        return vec![first, format!("snap {} already exists; ignoring", one.snapshot)];
    }
    let rate = one.bytes.saturating_mul(1000) / one.millis.max(1);
    let last = format!(
        "received {} stream in {:.2} seconds ({}/sec)",
        nice::bytes(one.bytes),
        one.millis as f64 / 1000.0,
        nice::bytes(rate)
    );
    vec![first, last]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_received_is_told_as_openzfs_does() {
        let call = |dry_run| DatasetReceive { dry_run, ..DatasetReceive::default() };
        let one = ReceivedSnapshot {
            sent_as: "tank/a@1".to_owned(),
            snapshot: "p/b@1".to_owned(),
            is_incremental: true,
            bytes: 3 << 20,
            millis: 1500,
            ..ReceivedSnapshot::default()
        };
        assert_eq!(
            told(&one, &call(false)),
            [
                "receiving incremental stream of tank/a@1 into p/b@1",
                "received 3M stream in 1.50 seconds (2M/sec)"
            ]
        );
        let known = ReceivedSnapshot { is_known: true, ..one.clone() };
        assert_eq!(told(&known, &call(false))[1], "snap p/b@1 already exists; ignoring");
        let full = ReceivedSnapshot { is_incremental: false, ..one };
        assert_eq!(told(&full, &call(true)), ["would receive full stream of tank/a@1 into p/b@1"]);
    }
}
