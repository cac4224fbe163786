//! `zpool list`.

use super::pools::select_with_absent;
use super::repeat::{Repeat, stamp};
use super::status::{check_json, names};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop};
use crate::view::json::{Json, document};
use crate::view::json_pool::JsonStyle;
use crate::view::list::{DEFAULT_COLUMNS, ListStyle, Pick, json, list, parse_columns};
use control::PoolInfo;

const AS_INT: &str = "json-int";
const KEY_GUID: &str = "json-pool-key-guid";

pub const COMMAND: Command = Command::new(
    Spec {
        name: "list",
        alias: None,
        about: "lists pools with their space and health",
        flags: &[
            Flag::switch('g', "guids instead of names"),
            Flag::switch('H', "for programs: no heading, tabs"),
            Flag::switch('L', "what links point to"),
            Flag::switch('p', "exact numbers"),
            Flag::switch('P', "full paths"),
            Flag::switch('v', "vdevs, too"),
            Flag::value('o', "property[,...]", "these columns"),
            Flag::switch('j', "as JSON").or("json"),
            Flag::long(AS_INT, "with -j: numbers as numbers"),
            Flag::long(KEY_GUID, "with -j: pools by guid"),
            Flag::value('T', "d|u", "a date or Unix time before each round"),
        ],
        operands: "[pool] ... [interval [count]]",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    check_json(args, &[AS_INT, KEY_GUID])?;
    let columns = args.value('o').unwrap_or(DEFAULT_COLUMNS);
    let picks = parse_columns(columns).map_err(Stop::Usage)?;
    let mut operands = args.operands.clone();
    let repeat = Repeat::take(&mut operands)?;
    let exact = args.has('p');
    let style = ListStyle {
        scripted: args.has('H'),
        exact,
        verbose: args.has('v'),
        json: JsonStyle {
            as_int: args.has_long(AS_INT),
            exact,
            flat: false,
            key_by_guid: args.has_long(KEY_GUID),
            names: names(args),
            ..JsonStyle::default()
        },
    };
    let mut code = 0;
    repeat.run(|_| {
        if let Some(stamp) = stamp(args.value('T'))? {
            session.out().write_all(stamp.as_bytes())?;
        }
        let (pools, found) = select_with_absent(session, &operands)?;
        code = found;
        print(session, &pools, &picks, style, args.has('j'), operands.is_empty())?;
        Ok(session.out().flush()?)
    })?;
    Ok(code)
}

fn print(
    session: &mut Session,
    pools: &[PoolInfo],
    picks: &[Pick],
    style: ListStyle,
    as_json: bool,
    all: bool,
) -> Result<(), Stop> {
    if as_json {
        let mut object = Json::object();
        for pool in pools {
            object.put(&style.json.key(pool), json(pool, picks, style));
        }
        return Ok(writeln!(session.out(), "{}", document("zpool list").with("pools", object))?);
    }
    if pools.is_empty() {
        if all && !style.scripted {
            writeln!(session.out(), "no pools available")?;
        }
        return Ok(());
    }
    let pools: Vec<&PoolInfo> = pools.iter().collect();
    Ok(session.out().write_all(list(&pools, picks, style).as_bytes())?)
}
