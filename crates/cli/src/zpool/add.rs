//! `zpool add`.

use super::create::{check_ashift, pool_property};
use super::devices::parse_spec;
use super::pools::find;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::layout::layout;
use crate::view::names::NameStyle;
use control::PoolAdd;

const ALLOW_IN_USE: &str = "allow-in-use";
const ALLOW_REPLICATION: &str = "allow-replication-mismatch";
const ALLOW_ASHIFT: &str = "allow-ashift-mismatch";

pub const COMMAND: Command = Command::new(
    Spec {
        name: "add",
        alias: None,
        about: "adds vdevs, logs among them, to a pool",
        flags: &[
            Flag::switch('f', "take devices that look used, and vdevs of other redundancy"),
            Flag::switch('g', "with -n: show guids"),
            Flag::switch('L', "with -n: show what links point to"),
            Flag::switch('n', "show what would be, change nothing"),
            Flag::switch('P', "with -n: show full paths"),
            Flag::long(ALLOW_IN_USE, "take devices that look used"),
            Flag::long(ALLOW_REPLICATION, "take vdevs of other redundancy"),
            Flag::long(ALLOW_ASHIFT, "take vdevs of other sector size"),
            Flag::value('o', "property=value", "a property of the new vdevs: ashift").repeated(),
        ],
        operands: "<pool> <vdev> ...",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let call = read(session, args)?;
    if call.dry_run {
        session.ask_unnoted(&call)?;
        let names =
            NameStyle { guids: args.has('g'), full_paths: args.has('P'), follow_links: args.has('L') };
        let pool = find(session, &call.pool)?;
        let tree = layout(&pool.name, Some(&pool), &call.vdevs, names);
        let name = &call.pool;
        write!(session.out(), "would update '{name}' to the following configuration:\n\n{tree}")?;
    } else {
        session.ask(&call)?;
    }
    Ok(0)
}

fn read(session: &Session, args: &Args) -> Result<PoolAdd, Stop> {
    let force = args.has('f');
    let allow = |long| force || args.has_long(long);
    let mut call = PoolAdd {
        allow_in_use: allow(ALLOW_IN_USE),
        allow_replication_mismatch: allow(ALLOW_REPLICATION),
        allow_ashift_mismatch: allow(ALLOW_ASHIFT),
        force,
        dry_run: args.has('n'),
        ..PoolAdd::default()
    };
    for text in args.values('o') {
        call.props.push(pool_property(text, 'o')?);
    }
    let Some((pool, words)) = args.operands.split_first() else {
        return usage("missing pool name argument");
    };
    if words.is_empty() {
        return usage("missing vdev specification");
    }
    if force && [ALLOW_IN_USE, ALLOW_REPLICATION, ALLOW_ASHIFT].iter().any(|long| args.has_long(long)) {
        return usage(format!(
            "'-f' option is not allowed with '--{ALLOW_REPLICATION}', '--{ALLOW_ASHIFT}', or '--{ALLOW_IN_USE}'"
        ));
    }
    find(session, pool)?;
    call.pool.clone_from(pool);
    check_ashift(&call.props)?;
    call.vdevs = parse_spec(words)?;
    Ok(call)
}
