//! `zpool detach`.

use super::pools::find;
use crate::args::{Args, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use crate::view::names::find_vdev;
use control::PoolDetach;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "detach",
        alias: None,
        about: "lets go of a device that others are copies of",
        flags: &[],
        operands: "<pool> <device>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let (pool, device) = match args.operands.as_slice() {
        [] => return usage("missing pool name argument"),
        [_] => return usage("missing <device> specification"),
        [pool, device, ..] => (pool, device),
    };
    let vdev = find_vdev(&find(session, pool)?, device).map(|vdev| vdev.guid);
    session.ask(&PoolDetach { pool: pool.clone(), device: device.clone(), vdev })?;
    Ok(0)
}
