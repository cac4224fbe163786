//! `zinject`: devices (`-d`) and blocks of files (`-t`) that behave as if they were bad, for drills.
//!
//! What OpenZFS's `zinject` does to other blocks, to imports, or by panics is refused by name.

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop};
use crate::view::inject::{FAULTS, REQUESTS, added, table};
use crate::view::names::find_vdev;
use crate::zfs::dataset_at;
use crate::zpool::find_pool;
use control::{
    Failure, FailureKind, InjectAction, InjectAdd, InjectBlocks, InjectCancel, InjectFault, InjectFlush,
    InjectList, InjectOrder, InjectRequests,
};
use engine::refusal;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "zinject",
        alias: None,
        about: "has devices of a pool or blocks of files fail on order, for drills; alone: lists what is on order",
        flags: &[
            Flag::switch('a', "forgets the blocks that were read, so that reads are from devices"),
            Flag::value('A', "degrade|fault", "declares the device to be so"),
            Flag::value('c', "id|all", "takes an order back"),
            Flag::value('d', "vdev", "the device, by path or guid"),
            Flag::value('D', "latency:lanes", "requests take so many milliseconds, each lane one at a time"),
            Flag::value(
                'e',
                "io|nxio|io-prefail|noop|corrupt|checksum",
                "how requests fail; nxio: the device is gone; checksum: of blocks",
            ),
            Flag::value('f', "frequency", "so many percent of the requests only"),
            Flag::switch('F', "requests that are tried again are spared"),
            Flag::value('l', "level", "the height of the blocks in the tree of the file; 0 is data"),
            Flag::switch('m', "forgets what the kernel keeps of the file"),
            Flag::switch('q', "prints the order's number only"),
            Flag::value('r', "first[,end]", "these bytes of the file only"),
            Flag::value('t', "data|dnode", "blocks of a file, or of its dnode"),
            Flag::value('T', "read|write|flush|trim|all", "these requests only"),
        ],
        operands: "[pool | path]",
    },
    run,
);

/// What OpenZFS has besides.
const NOT_YET: [&str; 2] = ["decompress decrypt dtl", "claim free probe null"];

fn run(session: &mut Session, args: &Args) -> Outcome {
    if args.typed.is_empty() {
        return list(session);
    }
    if let Some(cancel) = args.value('c') {
        return take_back(session, args, cancel);
    }
    if args.has('a') {
        session.ask_unnoted(&InjectFlush {})?;
    }
    if let Some(kind) = args.value('t') {
        return inject_into_file(session, args, kind);
    }
    let Some(device) = args.value('d') else {
        if args.has('a') && args.typed.len() == 1 {
            return Ok(0);
        }
        return wrong("at least one of '-a', '-c', '-d' or '-t' must be specified", 2);
    };
    if ['l', 'r'].iter().any(|flag| args.has(*flag)) {
        return wrong("device (-d) incompatible with data error injection", 2);
    }
    let [name] = args.operands.as_slice() else {
        return wrong("device (-d) injection requires a single pool name", 2);
    };
    let order = order(args)?;
    let action = args.value('A').map(action).transpose()?;
    let pool = find_pool(session, name)?;
    let by_guid = device.parse().ok().filter(|guid| *guid != 0);
    let Some(vdev) = by_guid.or_else(|| find_vdev(&pool, device).map(|vdev| vdev.guid)) else {
        return refuse(format!("cannot find device '{device}' in pool '{name}'"));
    };
    if let Some(fault) = action {
        session.ask_unnoted(&InjectAction { pool: name.clone(), vdev, fault })?;
        return Ok(0);
    }
    put_on_order(session, args, &InjectAdd { pool: name.clone(), vdev, blocks: None, order })
}

fn put_on_order(session: &mut Session, args: &Args, call: &InjectAdd) -> Outcome {
    let id = session.ask_unnoted(call)?;
    let text = if args.has('q') { format!("{id}\n") } else { added(id, call) };
    session.out().write_all(text.as_bytes())?;
    Ok(0)
}

/// `-t data|dnode PATH`.
fn inject_into_file(session: &mut Session, args: &Args, kind: &str) -> Outcome {
    if args.has('d') || args.has('D') || args.has('A') {
        return wrong("device (-d) incompatible with data error injection", 2);
    }
    let is_dnode = match kind {
        "data" => false,
        "dnode" => true,
        "mos" | "mosdir" | "config" | "bpobj" | "spacemap" | "metaslab" | "errlog" => {
            return refuse(format!("type '{kind}' is not supported yet"));
        }
        _ => return wrong(format!("invalid type '{kind}'"), 1),
    };
    let [path] = args.operands.as_slice() else {
        return wrong(format!("missing argument for -t {kind}: the path of a file"), 2);
    };
    let level = args.value('l').map_or(Ok(0), level)?;
    let range = args.value('r').map(range).transpose()?;
    if range.is_some() && (is_dnode || level > 0) {
        return wrong("a range (-r) is of the data of a file: '-l' and '-t dnode' have none", 2);
    }
    let order = InjectOrder { fault: block_fault(args)?, ..order_of_reads(args)? };
    let found = File::open(path).and_then(|file| Ok((file.metadata()?.ino(), file)));
    let (object, file) = found
        .map_err(|error| Failure::cannot(FailureKind::Invalid, "open", path, &refusal::words(&error)))?;
    let dataset = dataset_at(session, path)?;
    if args.has('a') || args.has('m') {
        // Best effort: what the kernel keeps of the file is read without a device, too.
        _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    }
    let pool = dataset.split(['/', '@']).next().unwrap_or_default().to_owned();
    let blocks = Some(InjectBlocks { dataset, object, is_dnode, level, range, objset: 0 });
    put_on_order(session, args, &InjectAdd { pool, vdev: 0, blocks, order })
}

/// What becomes of the blocks: an error of the device if nothing is said.
fn block_fault(args: &Args) -> Result<InjectFault, Stop> {
    match args.value('e').map(str::to_ascii_lowercase).as_deref() {
        None | Some("io") => Ok(InjectFault::Io),
        Some("checksum") => Ok(InjectFault::Checksum),
        Some(other) if is_not_yet(other) => refuse(format!("error type '{other}' is not supported yet")),
        Some(_) => refuse("data error type must be 'checksum' or 'io'"),
    }
}

/// Only reads of blocks fail here.
fn order_of_reads(args: &Args) -> Result<InjectOrder, Stop> {
    let requests = args.value('T').map_or(Ok(InjectRequests::All), requests)?;
    if !matches!(requests, InjectRequests::Read | InjectRequests::All) {
        return refuse("data errors of requests other than reads are not supported yet");
    }
    let frequency = args.value('f').map(frequency).transpose()?.unwrap_or(u32::MAX);
    Ok(InjectOrder { requests, frequency, ..InjectOrder::default() })
}

fn level(word: &str) -> Result<u8, Stop> {
    word.parse().or_else(|_| wrong(format!("invalid level '{word}': must be an integer"), 1))
}

/// First and last byte of `first[,end]`, where `end` is behind the last byte.
fn range(word: &str) -> Result<(u64, u64), Stop> {
    let (first, end) = word.split_once(',').map_or((word, None), |(first, end)| (first, Some(end)));
    let parsed = match (first.parse(), end.map(str::parse)) {
        (Ok(first), None) => Some((first, first)),
        (Ok(first), Some(Ok(end))) if first < end => Some((first, end - 1)),
        _ => None,
    };
    parsed.map_or_else(
        || wrong(format!("invalid range '{word}': must be a numeric range of the form 'start[,end]'"), 1),
        Ok,
    )
}

fn list(session: &mut Session) -> Outcome {
    let handlers = session.ask(&InjectList {})?;
    let text = match handlers.is_empty() {
        true => "No handlers registered.\nRun 'zinject -h' for usage information.\n".to_owned(),
        false => table(&handlers),
    };
    session.out().write_all(text.as_bytes())?;
    Ok(0)
}

fn take_back(session: &mut Session, args: &Args, which: &str) -> Outcome {
    if ['a', 'A', 'd', 'D', 'e', 'f', 'l', 'm', 'r', 't', 'T'].iter().any(|flag| args.has(*flag)) {
        return wrong("cancel (-c) incompatible with any other options", 2);
    }
    if !args.operands.is_empty() {
        return wrong("extraneous argument to '-c'", 2);
    }
    let id = match (which, which.parse()) {
        ("all", _) => None,
        (_, Ok(id)) => Some(id),
        (_, Err(_)) => return wrong(format!("invalid handle id '{which}': must be an integer or 'all'"), 1),
    };
    session.ask_unnoted(&InjectCancel { id })?;
    match id {
        None => writeln!(session.out(), "removed all registered handlers")?,
        Some(id) => writeln!(session.out(), "removed handler {id}")?,
    }
    Ok(0)
}

fn order(args: &Args) -> Result<InjectOrder, Stop> {
    let requests = args.value('T').map_or(Ok(InjectRequests::All), requests)?;
    let frequency = args.value('f').map(frequency).transpose()?;
    let fault = match (args.value('D'), args.value('e')) {
        (Some(delay), _) => delayed(delay, requests)?,
        (None, Some(word)) => fault(word)?,
        (None, None) => InjectFault::Nxio,
    };
    if fault == InjectFault::Corrupt && (frequency.is_none() || requests != InjectRequests::Read) {
        return refuse("device corrupt errors require io type read and a frequency value");
    }
    Ok(InjectOrder {
        fault,
        requests,
        frequency: frequency.unwrap_or(u32::MAX),
        spares_retries: args.has('F'),
    })
}

fn delayed(word: &str, requests: InjectRequests) -> Result<InjectFault, Stop> {
    let numbers =
        word.split_once(':').and_then(|(latency, lanes)| Some((latency.parse().ok()?, lanes.parse().ok()?)));
    let Some((latency_millis @ 1.., lanes)) = numbers else {
        return wrong(format!("invalid i/o delay value: '{word}'"), 1);
    };
    match requests {
        InjectRequests::Read | InjectRequests::Write | InjectRequests::All => {
            Ok(InjectFault::Delay { latency_millis, lanes })
        }
        InjectRequests::Flush | InjectRequests::Trim => {
            wrong("I/O type for a delay must be 'read' or 'write'", 1)
        }
    }
}

fn fault(word: &str) -> Result<InjectFault, Stop> {
    let lower = word.to_ascii_lowercase();
    if let Some((fault, _)) = FAULTS.iter().find(|(_, name)| *name == lower) {
        return Ok(*fault);
    }
    match lower.as_str() {
        "checksum" => refuse("device error type must be 'io', 'nxio' or 'corrupt'"),
        other if is_not_yet(other) => refuse(format!("error type '{word}' is not supported yet")),
        _ => wrong(
            format!(
                "invalid error type '{word}': must be one of: io decompress decrypt nxio dtl corrupt noop io-prefail"
            ),
            1,
        ),
    }
}

fn requests(word: &str) -> Result<InjectRequests, Stop> {
    let lower = word.to_ascii_lowercase();
    match REQUESTS.iter().find(|(_, name)| *name == lower) {
        Some((requests, _)) => Ok(*requests),
        None if is_not_yet(&lower) => refuse(format!("I/O type '{word}' is not supported yet")),
        None => wrong(
            format!("invalid I/O type '{word}': must be 'read', 'write', 'free', 'claim', 'flush' or 'all'"),
            1,
        ),
    }
}

fn is_not_yet(word: &str) -> bool {
    NOT_YET.iter().flat_map(|words| words.split(' ')).any(|known| known == word)
}

/// Percent, as a part of 2^32-1.
fn frequency(word: &str) -> Result<u32, Stop> {
    let range = "frequency value must be in the range [0.0001, 100.0]";
    match word.parse::<f64>() {
        Ok(percent) if (0.0001..=100.0).contains(&percent) => {
            Ok((percent / 100.0 * f64::from(u32::MAX)) as u32)
        }
        Ok(_) => refuse(format!("out of range: {range}")),
        Err(_) => refuse(format!("invalid value: {range}")),
    }
}

/// Whether the device is to be faulted.
fn action(word: &str) -> Result<bool, Stop> {
    match word.to_ascii_lowercase().as_str() {
        "degrade" => Ok(false),
        "fault" => Ok(true),
        _ => wrong(format!("invalid action '{word}': must be 'degrade' or 'fault'"), 1),
    }
}

/// Wrong words, with OpenZFS's exit code of them.
fn wrong<T>(line: impl Into<String>, exit: u8) -> Result<T, Stop> {
    let usage = format!("usage:\n\t{}", COMMAND.spec.usage());
    Err(Failure::new(FailureKind::Invalid, line).telling(vec![usage]).exits(exit).into())
}

fn refuse<T>(line: impl Into<String>) -> Result<T, Stop> {
    Err(Failure::new(FailureKind::Invalid, line).into())
}
