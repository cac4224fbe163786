//! `zpool status`.

use super::pools::select_with_absent;
use super::repeat::{Repeat, stamp};
use super::scripts::Scripts;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::json::{Json, document};
use crate::view::json_pool::{self, JsonStyle};
use crate::view::names::NameStyle;
use crate::view::scripts::ScriptColumns;
use crate::view::status::{StatusStyle, is_healthy, status};
use control::PoolInfo;

const FLAT: &str = "json-flat-vdevs";
const AS_INT: &str = "json-int";
const KEY_GUID: &str = "json-pool-key-guid";

pub const COMMAND: Command = Command::new(
    Spec {
        name: "status",
        alias: None,
        about: "shows the health of pools and all their devices",
        flags: &[
            Flag::switch('d', "errors of direct operations, too: there are none"),
            Flag::switch('D', "the tables of deduplicated blocks, too"),
            Flag::switch('e', "only devices that ail"),
            Flag::switch('g', "guids instead of names"),
            Flag::switch('i', "how far devices are initialized"),
            Flag::switch('L', "what links point to"),
            Flag::switch('p', "exact numbers"),
            Flag::switch('P', "full paths"),
            Flag::switch('s', "slow operations, too"),
            Flag::switch('t', "how far devices are trimmed"),
            Flag::switch('v', "list damaged files"),
            Flag::switch('x', "only pools that ail"),
            Flag::switch('j', "as JSON").or("json"),
            Flag::long(AS_INT, "with -j: numbers as numbers"),
            Flag::long(FLAT, "with -j: all vdevs in one object"),
            Flag::long(KEY_GUID, "with -j: pools by guid"),
            Flag::value(
                'c',
                "script[,script]...",
                "what these scripts say of devices; alone: which there are",
            )
            .or_alone(),
            Flag::value('T', "d|u", "a date or Unix time before each round"),
        ],
        operands: "[pool] ... [interval [count]]",
    },
    run,
);

/// JSON flags that mean nothing without `-j`.
pub fn check_json(args: &Args, longs: &[&str]) -> Result<(), Stop> {
    let json = args.has('j');
    match longs.iter().find(|long| args.has_long(long) && !json) {
        Some(long) => usage(format!("'--{long}' only works with '-j' option")),
        None => Ok(()),
    }
}

/// How vdevs are named, by `-g`, `-L` and `-P`.
pub fn names(args: &Args) -> NameStyle {
    NameStyle { guids: args.has('g'), full_paths: args.has('P'), follow_links: args.has('L') }
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    check_json(args, &[FLAT, AS_INT, KEY_GUID])?;
    let mut operands = args.operands.clone();
    let repeat = Repeat::take(&mut operands)?;
    let mut code = 0;
    let scripts = Scripts::take(session, args, "status")?;
    if matches!(scripts, Scripts::Listed) {
        return Ok(0);
    }
    repeat.run(|round| {
        if round > 0 {
            writeln!(session.out())?;
        }
        if let Some(stamp) = stamp(args.value('T'))? {
            session.out().write_all(stamp.as_bytes())?;
        }
        code = once(session, args, &operands, &scripts)?;
        Ok(session.out().flush()?)
    })?;
    Ok(code)
}

fn once(session: &mut Session, args: &Args, names_given: &[String], scripts: &Scripts) -> Outcome {
    let (pools, code) = select_with_absent(session, names_given)?;
    let scripts = scripts.columns(&pools.iter().collect::<Vec<_>>(), &|_| true);
    if args.has('j') {
        print_json(session, args, &pools, scripts.as_ref())?;
        return Ok(code);
    }
    if pools.is_empty() {
        if names_given.is_empty() {
            session.out().flush()?;
            eprintln!("no pools available");
        }
        return Ok(code);
    }
    print_text(session, args, &pools, names_given, scripts.as_ref())?;
    Ok(code)
}

fn print_text(
    session: &mut Session,
    args: &Args,
    pools: &[PoolInfo],
    names_given: &[String],
    scripts: Option<&ScriptColumns>,
) -> Result<(), Stop> {
    let style = StatusStyle {
        names: names(args),
        exact: args.has('p'),
        verbose: args.has('v'),
        slow: args.has('s'),
        direct: args.has('d'),
        only_ailing: args.has('e'),
        initialized: args.has('i'),
        trimmed: args.has('t'),
        dedup: args.has('D'),
        scripts,
    };
    let brief = args.has('x');
    if brief && names_given.is_empty() && pools.iter().all(is_healthy) {
        return Ok(writeln!(session.out(), "all pools are healthy")?);
    }
    let mut first = true;
    for pool in pools {
        if brief && is_healthy(pool) {
            if !names_given.is_empty() {
                writeln!(session.out(), "pool '{}' is healthy", pool.name)?;
            }
            continue;
        }
        if !std::mem::take(&mut first) {
            writeln!(session.out())?;
        }
        session.out().write_all(status(pool, style).as_bytes())?;
    }
    Ok(())
}

fn print_json(
    session: &mut Session,
    args: &Args,
    pools: &[PoolInfo],
    scripts: Option<&ScriptColumns>,
) -> Result<(), Stop> {
    let style = JsonStyle {
        as_int: args.has_long(AS_INT),
        exact: args.has('p'),
        flat: args.has_long(FLAT),
        key_by_guid: args.has_long(KEY_GUID),
        names: names(args),
        initialized: args.has('i'),
        trimmed: args.has('t'),
        scripts,
    };
    let mut all = Json::object();
    for pool in pools.iter().filter(|pool| !args.has('x') || !is_healthy(pool)) {
        all.put(&style.key(pool), json_pool::status(pool, style));
    }
    Ok(writeln!(session.out(), "{}", document("zpool status").with("pools", all))?)
}
