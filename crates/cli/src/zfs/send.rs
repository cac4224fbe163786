//! `zfs send`.

use super::select::{Kinds, open};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{DatasetSend, DatasetSendSize, DatasetSendSkipped, Failure, FailureKind, SendSize};
use engine::props::clock;
use engine::{names, nice, refusal};
use ondisk::NvValue;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant, SystemTime};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "send",
        alias: None,
        about: "writes a snapshot, or an unmounted dataset, as a stream to standard output",
        flags: &[
            Flag::switch('L', "blocks above 128 KiB whole").or("large-block"),
            Flag::value('X', "dataset[,dataset]...", "with -R: leave out these").or("exclude").repeated(),
            Flag::switch('R', "all datasets below, too, with all snapshots and properties").or("replicate"),
            Flag::switch('P', "tell what is sent, for programs").or("parsable"),
            Flag::switch('D', "has no effect: no stream is deduplicated any more").or("dedup"),
            Flag::switch('U', "encrypted datasets without their encryption").or("no-preserve-encryption"),
            Flag::switch('V', "show in the name of the process how far it is").or("proctitle"),
            Flag::switch('S', "what was received in part, and kept").or("saved"),
            Flag::switch('b', "with the properties that came with a stream").or("backup"),
            Flag::switch('c', "blocks as they are stored, compressed").or("compressed"),
            Flag::switch('e', "blocks that lie in their pointers so").or("embed"),
            Flag::switch('h', "with who holds snapshots").or("holds"),
            Flag::switch('n', "send nothing").or("dryrun"),
            Flag::switch('p', "with properties").or("props"),
            Flag::switch('s', "with -R: leave out datasets without the snapshot").or("skip-missing"),
            Flag::switch('v', "tell what is sent, and how far it is").or("verbose"),
            Flag::switch('w', "blocks as they are stored").or("raw"),
            Flag::value('t', "receive_resume_token", "go on with a stream that broke off").or("resume"),
            Flag::value('d', "bookmark", "without the blocks that a redaction bookmark lists").or("redact"),
            Flag::value('i', "snapshot|bookmark", "only what is new since then"),
            Flag::value('I', "snapshot", "the same, with all snapshots in between"),
        ],
        operands: "<snapshot|filesystem|volume>",
    },
    run,
);

/// How often it is told how far a stream is.
const TELL_EVERY: Duration = Duration::from_secs(1);

fn run(session: &mut Session, args: &Args) -> Outcome {
    if args.has('D') {
        eprintln!("WARNING: deduplicated streams are not supported any more. A regular stream is sent.\n");
    }
    let token = args.value('t');
    if token.is_some() && ['i', 'I', 'R', 'p', 'b', 'h', 'S', 'd'].into_iter().any(|flag| args.has(flag)) {
        return usage("invalid flags combined with -t");
    }
    let snapshot = match (args.operands.as_slice(), token) {
        ([], None) => return usage("missing snapshot argument"),
        ([], Some(_)) => "",
        ([snapshot], None) => snapshot.as_str(),
        _ => return usage("too many arguments"),
    };
    if args.values('i').chain(args.values('I')).count() > 1 {
        return usage("");
    }
    check_saved(args, snapshot)?;
    if args.has('w') && args.has('d') {
        return Err(Failure::new(FailureKind::Invalid, "Error: raw sends may not be redacted.").into());
    }
    if !args.has('n') && io::stdout().is_terminal() {
        let line = "Error: Stream can not be written to a terminal.";
        return Err(Failure::new(FailureKind::Invalid, line)
            .and("You must redirect standard output.")
            .into());
    }
    if args.has('s') && !args.has('R') {
        return usage("skip-missing flag can only be used in conjunction with replicate");
    }
    if args.has('X') && !args.has('R') {
        let line = "Cannot specify dataset exclusion (-X) on a non-recursive send.";
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    let replicate = args.has('R');
    let all = args.has('I') || replicate && !args.has('i');
    if (all || replicate) && args.has('d') {
        let line = "Error: multiple snapshots cannot be sent redacted.";
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    if (all || replicate) && !snapshot.contains('@') {
        let line = "Error: Unsupported flag with filesystem or bookmark.";
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    let from = match args.value('I').or(args.value('i')) {
        Some(from) => Some(source(snapshot, from, all || replicate)?),
        None => None,
    };
    let call = DatasetSend {
        snapshot: snapshot.to_owned(),
        token: token.map(str::to_owned),
        from,
        all,
        large_blocks: args.has('L') || args.has('w'),
        embedded: args.has('e') || args.has('w'),
        compressed: args.has('c') || args.has('w'),
        raw: args.has('w'),
        replicate,
        props: args.has('p'),
        backup: args.has('b'),
        holds: args.has('h'),
        skip_missing: args.has('s'),
        redact: args.value('d').map(|mark| mark.rsplit('#').next().unwrap_or_default().to_owned()),
        saved: args.has('S'),
        excluded: args.values('X').flat_map(|list| list.split(',')).map(str::to_owned).collect(),
    };
    if call.skip_missing {
        let tosnap = snapshot.split('@').nth(1).unwrap_or_default();
        for name in session.ask(&DatasetSendSkipped { send: call.clone() })? {
            eprintln!("WARNING: skipping dataset {name} and its children: snapshot {tosnap} does not exist");
        }
    }
    if call.redact.is_some() && !snapshot.contains('@') {
        let line = format!("warning: cannot send '{snapshot}': cannot do a redacted send to a filesystem");
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    match token {
        Some(token) => tell_token(session, args, token)?,
        None => drop(open(session, snapshot, Kinds::DATASETS)?),
    }
    send(session, args, &call)
}

/// What was received in part goes as it is.
fn check_saved(args: &Args, dataset: &str) -> Result<(), Stop> {
    if !args.has('S') {
        return Ok(());
    }
    if ['i', 'I', 'R', 'p', 'b', 'h', 'L', 'e', 'c', 'w', 'd'].into_iter().any(|flag| args.has(flag)) {
        return usage("incompatible flags combined with saved send flag");
    }
    if dataset.contains('@') {
        return usage("saved send must specify the dataset with partially-received state");
    }
    Ok(())
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

/// What a token says, where it is to be told what is sent.
fn tell_token(session: &mut Session, args: &Args, token: &str) -> Result<(), Stop> {
    let list = stream::token_list(token)
        .map_err(|error| Failure::new(FailureKind::Invalid, format!("cannot resume send: {error}")))?;
    if !args.has('v') && !args.has('P') {
        return Ok(());
    }
    let mut text = "resume token contents:\nnvlist version: 0\n".to_owned();
    for (name, value) in list.iter() {
        let value = match value {
            NvValue::U64(number) => format!("{number:#x}"),
            NvValue::Str(text) => text.clone(),
            _ => "1".to_owned(),
        };
        text.push_str(&format!("\t{name} = {value}\n"));
    }
    if args.has('n') {
        write!(session.out(), "{text}")?
    } else {
        eprint!("{text}")
    }
    Ok(())
}

fn send(session: &mut Session, args: &Args, call: &DatasetSend) -> Outcome {
    let (dry_run, parsable) = (args.has('n'), args.has('P'));
    let mut sent = None;
    if dry_run || parsable || args.has('v') {
        let sizes = session.ask(&DatasetSendSize { send: call.clone() })?;
        sent = sizes.first().filter(|_| call.token.is_some()).map(|size| size.snapshot.clone());
        let short = call.all || call.replicate;
        let lines = if parsable || args.has('v') { told(&sizes, parsable, short) } else { Vec::new() };
        for line in lines {
            // What is sent has standard output to itself.
            if dry_run { writeln!(session.out(), "{line}")? } else { eprintln!("{line}") }
        }
    }
    if dry_run {
        return Ok(0);
    }
    let snapshot = sent.as_deref().unwrap_or(&call.snapshot);
    let (is_shown, is_titled) = (args.has('v'), args.has('V'));
    let mut progress =
        Progress { snapshot, parsable, is_shown, is_titled, sent_bytes: 0, told: Instant::now() };
    if args.has('v') && !parsable {
        eprintln!("TIME        SENT   SNAPSHOT {snapshot}");
    }
    let cannot = |error: &io::Error| {
        let line = format!("warning: cannot send '{snapshot}': {}", refusal::words(error));
        Failure::new(FailureKind::Other, line)
    };
    let mut watch = |bytes: usize| {
        if is_shown || is_titled {
            progress.note(bytes);
        }
    };
    session.pass_on(call, &mut watch, cannot)?;
    Ok(0)
}

/// What is to be sent, in lines. `short`: of several, what one starts from is told without its dataset, and nothing where that
/// is another one.
fn told(sizes: &[SendSize], parsable: bool, short: bool) -> Vec<String> {
    let shown = |size: &SendSize| {
        let from = size.from.clone()?;
        match from.split_once('@') {
            Some((head, snap)) if short => (head == names::head_of(&size.snapshot))
                .then(|| format!("{}{snap}", if parsable { "" } else { "@" })),
            _ => Some(from),
        }
    };
    let line = |size: &SendSize| match (shown(size), parsable) {
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
    /// On standard error.
    is_shown: bool,
    /// In the name of the process, as `ps -o comm` shows it.
    is_titled: bool,
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
        if self.is_titled {
            // Of the name of a process, the kernel keeps 15 bytes.
            _ = std::fs::write("/proc/self/comm", format!("zfs send {}", nice::bytes(self.sent_bytes)));
        }
        if !self.is_shown {
            return;
        }
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
            told(&sizes, false, false),
            [
                "full send of p@1 estimated size is 1.50K",
                "send from p@1 to p@2 estimated size is 512B",
                "total estimated size is 2K"
            ]
        );
        assert_eq!(
            told(&sizes, true, false),
            ["full\tp@1\t1536", "incremental\tp@1\tp@2\t512", "size\t2048"]
        );
        assert_eq!(told(&sizes, true, true)[1], "incremental\t1\tp@2\t512");
        assert_eq!(told(&sizes, false, true)[1], "send from @1 to p@2 estimated size is 512B");
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
