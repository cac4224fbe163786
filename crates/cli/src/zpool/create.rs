//! `zpool create`.

use super::devices::parse_spec;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::layout::layout;
use crate::view::names::NameStyle;
use control::{Failure, FailureKind, PoolCreate};
use engine::props::{is_feature, is_user_prop, pool_prop};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "create",
        alias: None,
        about: "makes a pool of devices or files, and mounts it",
        flags: &[
            Flag::switch('f', "take devices that look used, and vdevs of mixed redundancy"),
            Flag::switch('n', "show what would be made, make nothing"),
            Flag::switch('d', "enable no feature but those given with -o feature@name=enabled"),
            Flag::value('o', "property=value", "a property of the pool").repeated(),
            Flag::value('O', "file-system-property=value", "a property of its root file system").repeated(),
            Flag::value('m', "mountpoint", "where it is mounted: a path, 'legacy' or 'none'"),
            Flag::value('R', "root", "a directory that all mount points are under, until export"),
            Flag::value(
                't',
                "tname",
                "the name of the pool here, until export; <pool> is the name on its devices",
            ),
        ],
        operands: "<pool> <vdev> ...",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let call = read(args)?;
    if call.dry_run {
        session.ask_unnoted(&call)?;
        let tree = layout(&call.name, None, &call.vdevs, NameStyle::default());
        write!(session.out(), "would create '{}' with the following layout:\n\n{tree}", call.name)?;
    } else {
        session.ask(&call)?;
    }
    Ok(0)
}

fn read(args: &Args) -> Result<PoolCreate, Stop> {
    let mut call = PoolCreate {
        force: args.has('f'),
        dry_run: args.has('n'),
        no_features: args.has('d'),
        mountpoint: args.value('m').map(str::to_owned),
        altroot: args.value('R').map(str::to_owned),
        ..PoolCreate::default()
    };
    for (flag, text) in args.in_order() {
        match flag {
            'o' => call.props.push(pool_property(text, flag)?),
            'O' => call.fs_props.push(split(text, flag)?),
            _ => {}
        }
    }
    let mut operands = args.operands.iter();
    let Some(name) = operands.next() else { return usage("missing pool name argument") };
    call.name = args.value('t').unwrap_or(name).to_owned();
    call.stored_name = args.value('t').map(|_| name.clone());
    if operands.len() == 0 {
        return usage("missing vdev specification");
    }
    if name.contains('/') {
        let reason = "invalid character '/' in pool name";
        let failure = Failure::cannot(FailureKind::Invalid, "create", name, reason);
        return Err(failure.and("use 'zfs create' to create a dataset").into());
    }
    check_ashift(&call.props)?;
    call.vdevs = parse_spec(&args.operands[1..])?;
    if let Some(root) = call.altroot.as_deref().filter(|root| !root.starts_with('/')) {
        let line = format!("invalid alternate root '{root}': must be an absolute path");
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    Ok(call)
}

/// `NAME=VALUE`.
pub fn split(text: &str, flag: char) -> Result<(String, String), Stop> {
    match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => usage(format!("missing '=' for -{flag} option")),
    }
}

/// `NAME=VALUE` of a pool's property that exists.
pub fn pool_property(text: &str, flag: char) -> Result<(String, String), Stop> {
    let (name, value) = split(text, flag)?;
    let feature = name.strip_prefix("feature@").is_some_and(is_feature);
    if feature || is_user_prop(&name) || pool_prop(&name).is_some() {
        return Ok((name, value));
    }
    let line = format!("property '{name}' is not a valid pool or vdev property");
    Err(Failure::new(FailureKind::Invalid, line).into())
}

/// A bad ashift is told while vdevs are made, before anything else about them.
pub fn check_ashift(props: &[(String, String)]) -> Result<(), Stop> {
    let Some((_, text)) = props.iter().rev().find(|(name, _)| name == "ashift") else { return Ok(()) };
    let line = match engine::nice::parse(text) {
        Ok(0 | 9..=16) => return Ok(()),
        Ok(value) => {
            format!("invalid 'ashift={value}' property: only values between 9 and 16 are allowed.")
        }
        Err(_) => "ashift must be a number.".to_owned(),
    };
    Err(Failure::new(FailureKind::Invalid, line).into())
}
