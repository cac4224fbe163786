//! `zpool initialize` and `zpool trim`.

use super::pools::{all, find};
use super::wait::wait_while;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::names::{NameStyle, find_vdev, vdev_name};
use control::{
    Failure, FailureKind, PoolInfo, PoolInitialize, PoolTrim, SweepInfo, SweepOrder, SweepState, VdevClass,
    VdevInfo,
};
use engine::nice;

/// The exit code of commands that fail in the library: scripts expect it.
const LIBRARY_FAILED: u8 = 255;

pub const INITIALIZE: Command = Command::new(
    Spec {
        name: "initialize",
        alias: None,
        about: "writes a pattern wherever devices have nothing",
        flags: &[
            Flag::switch('a', "the devices of all pools").or("all"),
            Flag::switch('c', "end it").or("cancel"),
            Flag::switch('s', "have it wait until the next 'initialize'").or("suspend"),
            Flag::switch('u', "forget that it was done").or("uninit"),
            Flag::switch('w', "wait until it is done").or("wait"),
        ],
        operands: "<pool> [device] ...",
    },
    initialize,
);

pub const TRIM: Command = Command::new(
    Spec {
        name: "trim",
        alias: None,
        about: "tells devices to forget whatever is not needed any more",
        flags: &[
            Flag::switch('a', "the devices of all pools").or("all"),
            Flag::switch('c', "end it").or("cancel"),
            Flag::switch('d', "so that it cannot be found on the device any more").or("secure"),
            Flag::switch('s', "have it wait until the next 'trim'").or("suspend"),
            Flag::switch('w', "wait until it is done").or("wait"),
            Flag::value('r', "rate", "bytes a second of each device, at most").or("rate"),
        ],
        operands: "<pool> [device] ...",
    },
    trim,
);

/// What is done to the devices of one pool.
struct Chosen {
    pool: PoolInfo,
    devices: Vec<(u64, String)>,
    /// They were not named.
    whole_pool: bool,
}

/// A kind of sweep, as commands tell it.
#[derive(Clone, Copy)]
struct Words {
    verb: &'static str,
    of: fn(&VdevInfo) -> SweepInfo,
}

const OF_INITIALIZE: Words = Words { verb: "initialize", of: |vdev| vdev.initialize };
const OF_TRIM: Words = Words { verb: "trim", of: |vdev| vdev.trim };

fn initialize(session: &mut Session, args: &Args) -> Outcome {
    let order = order(args)?;
    check_all(args, "individual pools or vdevs")?;
    if args.has('w') && order != SweepOrder::Start {
        return usage("-w cannot be used with -c, -s or -u");
    }
    each(session, args, OF_INITIALIZE, |session, chosen| {
        let (pool, devices) = (chosen.pool.name.clone(), chosen.devices.clone());
        session.ask(&PoolInitialize { pool, devices, order })
    })
}

fn trim(session: &mut Session, args: &Args) -> Outcome {
    let (order, secure) = (order(args)?, args.has('d'));
    for (letter, is_given) in [('d', secure), ('r', args.value('r').is_some())] {
        if is_given && order != SweepOrder::Start {
            return usage(format!("-{letter} cannot be combined with the -c or -s options"));
        }
    }
    let rate = match args.value('r').map(nice::parse) {
        Some(Err(error)) => return usage(format!("invalid value for rate: {error}")),
        Some(Ok(rate)) => rate,
        None => 0,
    };
    if args.has('w') && order != SweepOrder::Start {
        return usage("-w cannot be used with -c or -s options");
    }
    check_all(args, "individual zpools or vdevs")?;
    each(session, args, OF_TRIM, |session, chosen| {
        let (pool, devices) = (chosen.pool.name.clone(), chosen.devices.clone());
        let whole_pool = chosen.whole_pool;
        session.ask(&PoolTrim { pool, devices, whole_pool, order, rate, secure })
    })
}

fn order(args: &Args) -> Result<SweepOrder, Stop> {
    let orders = [('c', SweepOrder::Cancel), ('s', SweepOrder::Suspend), ('u', SweepOrder::Forget)];
    let mut given = orders.into_iter().filter(|(letter, _)| args.has(*letter));
    let first = given.next().map_or(SweepOrder::Start, |(_, order)| order);
    match given.next() {
        Some((letter, _)) => usage(format!("-{letter} cannot be combined with other options")),
        None => Ok(first),
    }
}

fn check_all(args: &Args, others: &str) -> Result<(), Stop> {
    match (args.has('a'), args.operands.is_empty()) {
        (true, false) => usage(format!("-a cannot be combined with {others}")),
        (false, true) => usage("missing pool name argument"),
        _ => Ok(()),
    }
}

/// Asks for each pool that is meant, and waits then if that was asked for.
fn each(
    session: &mut Session,
    args: &Args,
    words: Words,
    ask: impl Fn(&Session, &Chosen) -> Result<(), Stop>,
) -> Outcome {
    let (mut code, mut asked) = (0, Vec::new());
    for chosen in chosen(session, args, words)? {
        match ask(session, &chosen) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            done => {
                done?;
                asked.push(chosen);
            }
        }
    }
    if args.has('w') {
        wait(session, &asked, words)?;
    }
    Ok(code)
}

fn chosen(session: &Session, args: &Args, words: Words) -> Result<Vec<Chosen>, Stop> {
    let Some((name, devices)) = args.operands.split_first() else {
        return Ok(all(session)?.into_iter().map(whole).collect());
    };
    let pool = find(session, name).map_err(|stop| match stop {
        Stop::Failed(failure) => Stop::Failed(failure.exits(LIBRARY_FAILED)),
        other => other,
    })?;
    Ok(vec![if devices.is_empty() { whole(pool) } else { named(pool, devices, words)? }])
}

fn whole(pool: PoolInfo) -> Chosen {
    let full = NameStyle { full_paths: true, ..NameStyle::default() };
    let leaves = pool.root.leaves().map(|leaf| (leaf.guid, vdev_name(leaf, full)));
    Chosen { devices: leaves.collect(), pool, whole_pool: true }
}

fn named(pool: PoolInfo, words: &[String], of: Words) -> Result<Chosen, Stop> {
    let (mut devices, mut refused) = (Vec::new(), Vec::new());
    for word in words {
        match target(&pool, word) {
            Ok(guid) => devices.push((guid, word.clone())),
            Err(reason) => refused.push(format!("cannot {} '{word}': {reason}", of.verb)),
        }
    }
    let mut refused = refused.into_iter();
    match refused.next() {
        None => Ok(Chosen { pool, devices, whole_pool: false }),
        Some(line) => {
            let first = Failure::new(FailureKind::Invalid, line).exits(LIBRARY_FAILED);
            Err(refused.fold(first, Failure::and).into())
        }
    }
}

fn target(pool: &PoolInfo, word: &str) -> Result<u64, &'static str> {
    match find_vdev(pool, word) {
        None => Err("no such device in pool"),
        Some(vdev) if vdev.class == VdevClass::Spare => Err("device is reserved as a hot spare"),
        Some(vdev) if vdev.class == VdevClass::Cache => Err("device is in use as a cache"),
        Some(vdev) => Ok(vdev.guid),
    }
}

fn wait(session: &Session, asked: &[Chosen], words: Words) -> Result<(), Stop> {
    let is_meant = |guid| asked.iter().any(|chosen| chosen.devices.iter().any(|(device, _)| *device == guid));
    wait_while(session, &|pool| {
        asked.iter().any(|chosen| chosen.pool.guid == pool.guid)
            && pool.root.leaves().any(|leaf| is_meant(leaf.guid) && is_active((words.of)(leaf)))
    })
}

fn is_active(sweep: SweepInfo) -> bool {
    sweep.state == SweepState::Active
}

/// Whether a device of the pool is being initialized.
pub fn is_initializing(pool: &PoolInfo) -> bool {
    pool.root.leaves().any(|leaf| is_active(leaf.initialize))
}

/// Whether a device of the pool is being trimmed.
pub fn is_trimming(pool: &PoolInfo) -> bool {
    pool.root.leaves().any(|leaf| is_active(leaf.trim))
}
