//! `zpool set`.

use crate::args::{Args, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use crate::view::get::property_help;
use control::PoolSet;
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
    super::pools::find(session, pool)?;
    session.ask(&PoolSet { pool: pool.clone(), vdev, name: name.to_owned(), value: value.to_owned() })?;
    Ok(0)
}
