//! `zinject -d`: devices that behave as if they were bad, for drills.
//!
//! Only the part of OpenZFS's `zinject` that is about devices: what it does to blocks of files, to imports, or by
//! panics is refused by name.

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop};
use crate::view::inject::{FAULTS, REQUESTS, added, table};
use crate::view::names::find_vdev;
use crate::zpool::find_pool;
use control::{
    Failure, FailureKind, InjectAction, InjectAdd, InjectCancel, InjectFault, InjectList, InjectOrder,
    InjectRequests,
};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "zinject",
        alias: None,
        about: "has devices of a pool fail on order, for drills; alone: lists what is on order",
        flags: &[
            Flag::value('A', "degrade|fault", "declares the device to be so"),
            Flag::value('c', "id|all", "takes an order back"),
            Flag::value('d', "vdev", "the device, by path or guid"),
            Flag::value('D', "latency:lanes", "requests take so many milliseconds, each lane one at a time"),
            Flag::value(
                'e',
                "io|nxio|io-prefail|noop|corrupt",
                "how requests fail; nxio: the device is gone",
            ),
            Flag::value('f', "frequency", "so many percent of the requests only"),
            Flag::switch('F', "requests that are tried again are spared"),
            Flag::switch('q', "prints the order's number only"),
            Flag::value('T', "read|write|flush|trim|all", "these requests only"),
        ],
        operands: "[pool]",
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
    let Some(device) = args.value('d') else {
        return wrong("at least one of '-d' or '-c' must be specified", 2);
    };
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
    let call = InjectAdd { pool: name.clone(), vdev, order };
    let id = session.ask_unnoted(&call)?;
    let text = if args.has('q') { format!("{id}\n") } else { added(id, &call) };
    session.out().write_all(text.as_bytes())?;
    Ok(0)
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
    if ['A', 'd', 'D', 'e', 'f', 'T'].iter().any(|flag| args.has(*flag)) {
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
