//! `zpool offline`, `zpool online` and `zpool reopen`.

use super::pools::{find, select};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::names::find_vdev;
use control::{Failure, FailureKind, PoolInfo, PoolOffline, PoolOnline, PoolReopen, VdevInfo, VdevState};

pub const OFFLINE: Command = Command::new(
    Spec {
        name: "offline",
        alias: None,
        about: "takes devices out of use",
        flags: &[
            Flag::switch('f', "as if they had failed"),
            Flag::switch('t', "until the next import at most"),
        ],
        operands: "<pool> <device> ...",
    },
    offline,
);

pub const ONLINE: Command = Command::new(
    Spec {
        name: "online",
        alias: None,
        about: "brings devices back into use",
        flags: &[Flag::switch('e', "use all of a device that has become larger")],
        operands: "<pool> <device> ...",
    },
    online,
);

pub const REOPEN: Command = Command::new(
    Spec {
        name: "reopen",
        alias: None,
        about: "looks for all devices of pools again",
        flags: &[Flag::switch('n', "begin no scrub anew: none ever is")],
        operands: "[pool] ...",
    },
    reopen,
);

/// The pool, and the words for devices.
fn read<'a>(session: &Session, args: &'a Args) -> Result<(PoolInfo, &'a [String]), Stop> {
    match args.operands.as_slice() {
        [] => usage("missing pool name"),
        [_] => usage("missing device name"),
        [pool, devices @ ..] => Ok((find(session, pool)?, devices)),
    }
}

fn offline(session: &mut Session, args: &Args) -> Outcome {
    let (pool, devices) = read(session, args)?;
    let mut code = 0;
    for device in devices {
        let vdev = find_vdev(&pool, device).map(|vdev| vdev.guid);
        let call = PoolOffline {
            pool: pool.name.clone(),
            device: device.clone(),
            vdev,
            fault: args.has('f'),
            temporary: args.has('t'),
        };
        match session.ask(&call) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            done => done?,
        }
    }
    Ok(code)
}

fn online(session: &mut Session, args: &Args) -> Outcome {
    let (pool, devices) = read(session, args)?;
    let mut code = 0;
    for device in devices {
        let Some(guid) = find_vdev(&pool, device).map(|vdev| vdev.guid) else {
            let line = format!("couldn't find device \"{device}\" in pool \"{}\"", pool.name);
            code = session.complain(&Failure::new(FailureKind::Invalid, line));
            continue;
        };
        let (name, expand) = (pool.name.clone(), args.has('e'));
        let call = PoolOnline { pool: name, device: device.clone(), vdev: Some(guid), expand };
        match session.ask(&call) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            Err(stop) => return Err(stop),
            Ok(now) => {
                warn(session, device, now.state)?;
                if args.has('e') && now.state != VdevState::Online {
                    let was_in_use = pool.root.walk().find(|vdev| vdev.guid == guid).is_some_and(is_in_use);
                    let word = if was_in_use { "error" } else { "warning" };
                    let what = "failed to expand usable space on unhealthy device";
                    writeln!(session.out(), "{word}: {what} '{device}'")?;
                    if was_in_use {
                        return Ok(1);
                    }
                }
            }
        }
    }
    Ok(code)
}

fn is_in_use(vdev: &VdevInfo) -> bool {
    matches!(vdev.state, VdevState::Online | VdevState::Degraded)
}

/// That a device is not there is no failure of the command.
fn warn(session: &mut Session, device: &str, state: VdevState) -> Result<(), Stop> {
    if state == VdevState::Online {
        return Ok(());
    }
    writeln!(session.out(), "warning: device '{device}' onlined, but remains in faulted state")?;
    let hint = match state {
        VdevState::Faulted => "use 'zpool clear' to restore a faulted device",
        _ => "use 'zpool replace' to replace devices that are no longer present",
    };
    Ok(writeln!(session.out(), "{hint}")?)
}

fn reopen(session: &mut Session, args: &Args) -> Outcome {
    let (pools, mut code) = select(session, &args.operands)?;
    for pool in pools {
        match session.ask(&PoolReopen { pool: pool.name }) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            done => done?,
        }
    }
    Ok(code)
}
