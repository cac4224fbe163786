//! `zpool attach` and `zpool replace`.

use super::create::{check_ashift, pool_property};
use super::devices::resolve;
use super::pools::find;
use super::wait::{Activity, wait};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use crate::view::names::find_vdev;
use control::PoolAttach;

const FLAGS: &[Flag] = &[
    Flag::switch('f', "take a device that looks used"),
    Flag::switch('s', "for mirrors: as without it, for every block is checked as it is copied"),
    Flag::switch('w', "wait until the new device has everything"),
    Flag::value('o', "property=value", "a property of the new device: ashift").repeated(),
];

pub const ATTACH: Command = Command::new(
    Spec {
        name: "attach",
        alias: None,
        about: "makes a device a mirror, or a mirror one wider",
        flags: FLAGS,
        operands: "<pool> <vdev> <new-device>",
    },
    |session, args| run(session, args, false),
);

pub const REPLACE: Command = Command::new(
    Spec {
        name: "replace",
        alias: None,
        about: "puts a new device in the place of one",
        flags: FLAGS,
        operands: "<pool> <device> [new-device]",
    },
    |session, args| run(session, args, true),
);

fn run(session: &mut Session, args: &Args, replace: bool) -> Outcome {
    let mut call =
        PoolAttach { replace, force: args.has('f'), sequential: args.has('s'), ..PoolAttach::default() };
    for text in args.values('o') {
        let (name, value) = pool_property(text, 'o')?;
        if name != "ashift" {
            return usage(format!("property '{name}' is not one of a device"));
        }
        call.props.push((name, value));
    }
    (call.pool, call.device, call.new_device) = match (replace, args.operands.as_slice()) {
        (_, []) => return usage("missing pool name argument"),
        (_, [_]) => return usage("missing <device> specification"),
        (false, [_, _]) => return usage("missing <new_device> specification"),
        (true, [pool, device]) => (pool.clone(), device.clone(), device.clone()),
        (_, [pool, device, new]) => (pool.clone(), device.clone(), new.clone()),
        _ => return usage("too many arguments"),
    };
    let pool = find(session, &call.pool)?;
    check_ashift(&call.props)?;
    call.path = resolve(&call.new_device)?;
    call.vdev = find_vdev(&pool, &call.device).map(|vdev| vdev.guid);
    session.ask(&call)?;
    if args.has('w') {
        let activity = if replace { Activity::Replace } else { Activity::Resilver };
        wait(session, &[pool], &[activity])?;
    }
    Ok(0)
}
