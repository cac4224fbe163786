//! `zpool upgrade`.

use super::pools::{all, select};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{PoolInfo, PoolMissing, PoolUpgrade};
use dsl::NEW_POOL_FEATURES;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "upgrade",
        alias: None,
        about: "shows which features pools could have, or enables them",
        flags: &[Flag::switch('a', "enable them in all pools"), Flag::switch('v', "show what there is")],
        operands: "[pool] ...",
    },
    run,
);

const HEAD: &str = "This system supports ZFS pool feature flags.\n\n";
const ALL_HAVE_VERSION: &str = "All pools are formatted using feature flags.\n\n";
const ALL_HAVE_ALL: &str = "Every feature flags pool has all supported and requested features enabled.\n";
const ALREADY: &str = "All pools are already formatted using feature flags.\n\n\
     Every feature flags pool already has all supported and requested features enabled.\n";
const SOME_LACK: &str = "\nSome supported features are not enabled on the following pools. Once a\n\
     feature is enabled the pool may become incompatible with software\n\
     that does not support the feature. See zpool-features(7) for details.\n\n\
     Note that the pool 'compatibility' feature can be used to inhibit\n\
     feature upgrades.\n\n\
     POOL  FEATURE\n\
     ---------------\n";
const OLD_ONES: &str = "The following pools are formatted with legacy version numbers and can\n\
     be upgraded to use feature flags.  After being upgraded, these pools\n\
     will no longer be accessible by software that does not support feature\n\
     flags.\n\n\
     Note that setting a pool's 'compatibility' feature to 'legacy' will\n\
     inhibit upgrades.\n\n\
     VER  POOL\n\
     ---  ------------\n";
const VERSION_FEATURES: u64 = 5000;

fn run(session: &mut Session, args: &Args) -> Outcome {
    match (args.has('v'), args.has('a'), args.operands.is_empty()) {
        (true, true, _) | (true, _, false) => usage("-v option is incompatible with other arguments"),
        (_, true, false) => usage("-a option should not be used along with a pool name"),
        (true, ..) => show_features(session),
        (_, true, _) => upgrade_all(session),
        (_, _, true) => show_pools(session),
        _ => upgrade_named(session, &args.operands),
    }
}

fn show_features(session: &mut Session) -> Outcome {
    let out = session.out();
    write!(out, "{HEAD}The following features are supported:\n\nFEAT DESCRIPTION\n{}\n", "-".repeat(61))?;
    for feature in NEW_POOL_FEATURES {
        let how = if feature.write_only { " (read-only compatible)" } else { "" };
        writeln!(out, "{:<37}{how}\n     {}", feature.name, feature.description)?;
    }
    writeln!(out)?;
    Ok(0)
}

fn show_pools(session: &mut Session) -> Outcome {
    let pools = all(session)?;
    write!(session.out(), "{HEAD}")?;
    let old: Vec<&PoolInfo> = pools.iter().filter(|pool| pool.version < VERSION_FEATURES).collect();
    let head = if old.is_empty() { ALL_HAVE_VERSION } else { OLD_ONES };
    write!(session.out(), "{head}")?;
    for pool in old {
        writeln!(session.out(), "{:2}   {}", pool.version, pool.name)?;
    }
    let mut is_first = true;
    for pool in pools.iter().filter(|pool| pool.version >= VERSION_FEATURES) {
        let missing = session.ask(&PoolMissing { pool: pool.name.clone() })?;
        if missing.is_empty() {
            continue;
        }
        if std::mem::take(&mut is_first) {
            write!(session.out(), "{SOME_LACK}")?;
        }
        writeln!(session.out(), "{}", pool.name)?;
        for feature in missing {
            writeln!(session.out(), "      {feature}")?;
        }
    }
    write!(session.out(), "{}", if is_first { ALL_HAVE_ALL } else { "\n" })?;
    Ok(0)
}

/// Upgrades a pool; whether it had to be.
fn upgrade(session: &mut Session, pool: &str) -> Result<bool, Stop> {
    let enabled = session.ask_unnoted(&PoolUpgrade { pool: pool.to_owned() })?;
    if enabled.is_empty() {
        return Ok(false);
    }
    session.note(pool);
    writeln!(session.out(), "Enabled the following features on '{pool}':")?;
    for feature in enabled {
        writeln!(session.out(), "  {feature}")?;
    }
    writeln!(session.out())?;
    Ok(true)
}

fn upgrade_all(session: &mut Session) -> Outcome {
    write!(session.out(), "{HEAD}")?;
    let mut any = false;
    for pool in all(session)? {
        any |= upgrade(session, &pool.name)?;
    }
    if !any {
        write!(session.out(), "{ALREADY}")?;
    }
    Ok(0)
}

fn upgrade_named(session: &mut Session, names: &[String]) -> Outcome {
    let (pools, mut code) = select(session, names)?;
    write!(session.out(), "{HEAD}")?;
    for pool in pools {
        match upgrade(session, &pool.name) {
            Ok(true) => {}
            Ok(false) => {
                let name = &pool.name;
                writeln!(
                    session.out(),
                    "Pool '{name}' already has all supported and requested features enabled."
                )?;
            }
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            Err(stop) => return Err(stop),
        }
    }
    Ok(code)
}
