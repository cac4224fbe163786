//! `zpool set`.

use crate::args::{Args, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use crate::view::get::property_help;
use crate::view::names::find_vdev;
use control::{Failure, FailureKind, PoolSet};
use engine::props::POOL_PROPS;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "set",
        alias: None,
        about: "sets a property of a pool or vdev",
        flags: &[],
        operands: "<property=value> <pool> [vdev]",
    },
    run,
)
.telling(|| property_help(POOL_PROPS));

/// The exit code for a device that the pool does not have (EINVAL).
const NOT_IN_POOL: u8 = 22;

fn run(session: &mut Session, args: &Args) -> Outcome {
    let (assignment, pool, vdev) = match args.operands.as_slice() {
        [] => return usage("missing property=value argument"),
        [_] => return usage("missing pool name"),
        [assignment, pool] => (assignment, pool, None),
        [assignment, pool, vdev] => (assignment, pool, Some(vdev.clone())),
        _ => return usage("too many pool names"),
    };
    let Some((name, value)) = assignment.split_once('=') else {
        return usage("missing value in property=value argument");
    };
    let known = super::pools::find(session, pool)?;
    let mut call =
        PoolSet { pool: pool.clone(), name: name.to_owned(), value: value.to_owned(), ..PoolSet::default() };
    if let Some(word) = vdev {
        let vdev = if word == "root" { Some(&known.root) } else { find_vdev(&known, &word) };
        let Some(vdev) = vdev else {
            let line = format!("cannot find '{word}' in '{pool}': device not in pool");
            return Err(Failure::new(FailureKind::Invalid, line).exits(NOT_IN_POOL).into());
        };
        (call.vdev_guid, call.vdev) = (vdev.guid, Some(word));
    }
    session.ask(&call)?;
    Ok(0)
}
