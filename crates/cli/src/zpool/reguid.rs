//! `zpool reguid`.

use super::pools::find;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use control::PoolReguid;
use std::num::ParseIntError;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "reguid",
        alias: None,
        about: "gives a pool another guid",
        flags: &[Flag::value('g', "guid", "this one, which no pool has; otherwise one is drawn")],
        operands: "<pool>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let guid = match args.value('g').map(parse_guid) {
        Some(Err(_)) => return usage(format!("invalid GUID: {}", args.value('g').unwrap_or_default())),
        Some(Ok(guid)) => Some(guid),
        None => None,
    };
    let pool = match args.operands.as_slice() {
        [] => return usage("missing pool name"),
        [pool] => find(session, pool)?.name,
        _ => return usage("too many arguments"),
    };
    session.ask(&PoolReguid { pool, guid })?;
    Ok(0)
}

/// Reads a guid. A negative number counts down from 2^64, as in strtoull(3).
fn parse_guid(word: &str) -> Result<u64, ParseIntError> {
    word.parse().or_else(|error| word.parse().map(i64::cast_unsigned).map_err(|_| error))
}
