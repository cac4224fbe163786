//! Commands that name pools and little else: destroy, export, sync.

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{DaemonStatusCall, Failure, PoolDestroy, PoolExport, PoolInfo, PoolList, PoolSync};

pub const DESTROY: Command = Command::new(
    Spec {
        name: "destroy",
        alias: None,
        about: "unmounts and destroys a pool",
        flags: &[Flag::switch('f', "even if it is in use")],
        operands: "<pool>",
    },
    destroy,
);

pub const EXPORT: Command = Command::new(
    Spec {
        name: "export",
        alias: None,
        about: "unmounts and closes pools, so that they can be imported elsewhere",
        flags: &[Flag::switch('a', "all pools"), Flag::switch('f', "even if in use")],
        operands: "<pool> ...",
    },
    export,
);

pub const SYNC: Command = Command::new(
    Spec {
        name: "sync",
        alias: None,
        about: "waits until everything written is part of the pool's state on disk",
        flags: &[Flag::switch('f', "even where nothing was; labels are written anew")],
        operands: "[pool] ...",
    },
    sync,
);

/// All open pools.
pub fn all(session: &Session) -> Result<Vec<PoolInfo>, Stop> {
    session.ask(&PoolList::default())
}

/// All open pools, and the pools that could not be opened again after a restart of the daemon.
pub fn all_with_absent(session: &Session) -> Result<Vec<PoolInfo>, Stop> {
    session.ask(&PoolList { with_absent: true })
}

/// One pool.
pub fn find(session: &Session, name: &str) -> Result<PoolInfo, Stop> {
    let found = all(session)?.into_iter().find(|pool| pool.name == name);
    found.ok_or_else(|| Stop::Failed(no_such_pool(session, name)))
}

/// The refusal for a pool that is not open, with the reason if it was when the daemon went down.
fn no_such_pool(session: &Session, name: &str) -> Failure {
    let failed = session.ask(&DaemonStatusCall {}).map(|status| status.failed).unwrap_or_default();
    let reason = failed.into_iter().find(|(pool, _)| pool == name).map(|(_, lines)| lines);
    reason.unwrap_or_default().into_iter().fold(Failure::no_such_pool(name), Failure::and)
}

/// The pools named, or all; complains of those that are not, and gives the exit code.
pub fn select(session: &mut Session, names: &[String]) -> Result<(Vec<PoolInfo>, u8), Stop> {
    let pools = all(session)?;
    select_among(session, pools, names)
}

/// Selects as [`select`] does, and also finds pools that could not be opened again.
pub fn select_with_absent(session: &mut Session, names: &[String]) -> Result<(Vec<PoolInfo>, u8), Stop> {
    let pools = all_with_absent(session)?;
    select_among(session, pools, names)
}

fn select_among(
    session: &mut Session,
    pools: Vec<PoolInfo>,
    names: &[String],
) -> Result<(Vec<PoolInfo>, u8), Stop> {
    if names.is_empty() {
        return Ok((pools, 0));
    }
    let mut code = 0;
    for name in names.iter().filter(|name| !pools.iter().any(|p| p.name == **name)) {
        let failure = no_such_pool(session, name);
        code = session.complain(&failure);
    }
    let named = names.iter().filter_map(|name| pools.iter().find(|p| p.name == *name).cloned());
    Ok((named.collect(), code))
}

fn destroy(session: &mut Session, args: &Args) -> Outcome {
    match args.operands.as_slice() {
        [] => usage("missing pool argument"),
        [pool] if pool.contains('/') => {
            let failure = Failure::no_such_pool(pool);
            Err(failure.and("use 'zfs destroy' to destroy a dataset").into())
        }
        [pool] => {
            let said = session.said();
            session.ask(&PoolDestroy { pool: pool.clone(), force: args.has('f'), said })?;
            Ok(0)
        }
        _ => usage("too many arguments"),
    }
}

fn export(session: &mut Session, args: &Args) -> Outcome {
    let names = match (args.has('a'), args.operands.as_slice()) {
        (true, []) => all(session)?.into_iter().map(|p| p.name).collect(),
        (true, _) => return usage("too many arguments"),
        (false, []) => return usage("missing pool argument"),
        (false, names) => names.to_vec(),
    };
    let mut code = 0;
    for pool in names {
        match session.ask(&PoolExport { pool, force: args.has('f'), said: session.said() }) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            result => result?,
        }
    }
    Ok(code)
}

fn sync(session: &mut Session, args: &Args) -> Outcome {
    let (pools, code) = select(session, &args.operands)?;
    let pools = pools.into_iter().map(|pool| pool.name).collect();
    session.ask(&PoolSync { pools, force: args.has('f') })?;
    Ok(code)
}
