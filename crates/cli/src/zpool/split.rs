//! `zpool split`.

use super::create::split;
use super::devices::resolve;
use super::pools::find;
use super::status::names;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::names::{NameStyle, find_vdev, vdev_name};
use control::{Failure, FailureKind, PoolImport, PoolInfo, PoolSplit, SplitOff, VdevClass};
use std::fmt::Write as _;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "split",
        alias: None,
        about: "makes a pool of its own of one device of each mirror",
        flags: &[
            Flag::switch('g', "with -n: name devices by guid"),
            Flag::switch('L', "with -n: name devices by what links point to"),
            Flag::switch('n', "show what would be made, make nothing"),
            Flag::switch('P', "with -n: name devices by full path"),
            Flag::switch('l', "with -R: load keys; datasets that need one are not mounted yet"),
            Flag::value('R', "root", "import the new pool, with all mount points under this directory"),
            Flag::value('o', "mntopts|property=value", "mount options, or a property of the new pool")
                .repeated(),
        ],
        operands: "<pool> <newpool> [<device> ...]",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let (mut call, mount_options) = read(args)?;
    let devices = &args.operands[2..];
    let pool = find(session, &call.pool)?;
    call.vdevs = devices.iter().map(|device| meant(&pool, device)).collect::<Result<_, _>>()?;
    if call.dry_run {
        let split = session.ask_unnoted(&call)?;
        let tree = tree(&call.new_name, &pool, &split, names(args));
        write!(session.out(), "would create '{}' with the following layout:\n\n{tree}", call.new_name)?;
        return Ok(0);
    }
    let split = session.ask(&call)?;
    let Some(root) = args.value('R') else { return Ok(0) };
    session.ask_unnoted(&PoolImport {
        pool: split.guid.to_string(),
        search: split.paths,
        altroot: Some(root.to_owned()),
        mount_options,
        ..PoolImport::default()
    })?;
    Ok(0)
}

fn read(args: &Args) -> Result<(PoolSplit, Vec<String>), Stop> {
    let mut call = PoolSplit { dry_run: args.has('n'), ..PoolSplit::default() };
    let mut mount_options = Vec::new();
    for text in args.values('o') {
        match text.contains('=') {
            true => call.props.push(split(text, 'o')?),
            false => mount_options.push(text.to_owned()),
        }
    }
    let is_imported = args.value('R').is_some();
    if !is_imported && !mount_options.is_empty() {
        return usage("setting mntopts is only valid when importing the pool");
    }
    if !is_imported && args.has('l') {
        return usage("loading keys is only valid when importing the pool");
    }
    if let Some(root) = args.value('R').filter(|root| !root.starts_with('/')) {
        let line = format!("invalid alternate root '{root}': must be an absolute path");
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    match args.operands.as_slice() {
        [] => return usage("Missing pool name"),
        [_] => return usage("Missing new pool name"),
        [pool, new, ..] => (call.pool, call.new_name) = (pool.clone(), new.clone()),
    }
    Ok((call, mount_options))
}

/// Words of vdev specifications that are no devices.
const GROUPS: [&str; 9] =
    ["mirror", "raidz", "raidz1", "raidz2", "raidz3", "spare", "log", "cache", "special"];

/// The vdev that a user means; 0 is no vdev's guid.
fn meant(pool: &PoolInfo, device: &str) -> Result<u64, Failure> {
    if GROUPS.contains(&device) {
        let line = format!("Cannot use '{device}' as a device for splitting");
        return Err(Failure::new(FailureKind::Invalid, line));
    }
    if let Some(vdev) = find_vdev(pool, device) {
        return Ok(vdev.guid);
    }
    let path = resolve(device)
        .map_err(|failure| failure.and("Unable to build a pool from the specified devices"))?;
    Ok(find_vdev(pool, &path).map_or(0, |vdev| vdev.guid))
}

/// The new pool's devices, as `-n` shows them.
fn tree(name: &str, pool: &PoolInfo, split: &SplitOff, style: NameStyle) -> String {
    let mut text = String::new();
    for (heading, class) in
        [(name, VdevClass::Normal), ("dedup", VdevClass::Dedup), ("special", VdevClass::Special)]
    {
        let tops: Vec<_> = pool.tops(class).collect();
        let leaves = split.vdevs.iter().filter_map(|guid| {
            tops.iter().flat_map(|top| top.walk()).find(|vdev| vdev.guid == *guid && vdev.kind.is_leaf())
        });
        let shown = if class == VdevClass::Normal { style } else { NameStyle::default() };
        let rows: Vec<_> = leaves.map(|leaf| vdev_name(leaf, shown)).collect();
        if !rows.is_empty() {
            _ = writeln!(text, "\t{heading}");
        }
        rows.iter().for_each(|row| _ = writeln!(text, "\t  {row}"));
    }
    text
}
