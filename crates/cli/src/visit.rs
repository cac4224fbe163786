//! `sawmill ls | cat | tree | cp`: files of pools that nobody has open, without a mount and
//! without the daemon.
//!
//! ```text
//!  POOL/DATASET[@SNAP]:PATH, -d DIR ─► labels ─► in use? refused
//!                                        │ no
//!                                        ▼
//!                 Visit: imported for reading ─► ls, cat, tree, cp out
//!                        imported for writing ─► logs replayed ─► cp in ─► exported
//! ```
//! A visit for reading changes nothing, so it replays nothing either. Of a pool that was cut off it shows the last
//! txg; where an intent log holds what came after that, standard error says so, and the exit code is 1: whoever
//! asked does not have the newest state. Snapshots are what they are.
//! (test: `what_waits_in_a_log_is_not_passed_over_in_silence`)

pub mod place;
pub mod words;

use crate::args::{Args, Flag};
use crate::program::{Kind, Program};
use crate::session::{Session, Stop};
use control::{DaemonStatusCall, Failure, FailureKind, Mounts, RunPaths};
use device::{Options, RealEnv, RealMachine};
use engine::{paths, refusal};
use env::{DeviceError, Env, OpenMode};
use place::Place;
use pool::{Candidate, ImportSpec, Pool, PoolError, Tuning, Volume, find_pools};
use sawmill::{Files, this_host};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use units::Guid;
use vdev::PoolState;

/// The commands.
pub const PROGRAM: Program = Program {
    name: "sawmill",
    about: "ZFS in user space",
    kind: Kind::Own,
    commands: &[
        crate::ls::COMMAND,
        crate::cat::COMMAND,
        crate::tree::COMMAND,
        crate::cp::COMMAND,
        crate::rescue::COMMAND,
        crate::inspect::COMMAND,
        crate::top::COMMAND,
        crate::doctor::COMMAND,
        crate::trace::WHAT_IF,
        crate::zed::COMMAND,
        crate::zinject::COMMAND,
        crate::zilstat::COMMAND,
        crate::complete::COMPLETIONS,
        crate::complete::COMPLETE,
        crate::manual::COMMAND,
    ],
};

/// Where to look for devices.
pub const SEARCH: Flag =
    Flag::value('d', "dir|file", "the pool's devices, or a directory of them; else all block devices")
        .repeated();
/// Open a pool that looks in use elsewhere.
pub const FORCE: Flag = Flag::switch('f', "even if the pool looks in use on another system");

/// Memory for blocks: a command reads most of them once.
const CACHE_BYTES: u64 = 128 << 20;

/// How often a device that is held is asked for.
const ASKED_MAX: usize = 5;
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Whether a pool is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is not.
    Read,
    /// It is.
    Write,
}

/// A pool that this command has open by itself.
pub struct Visit {
    env: Arc<RealEnv>,
    pool: Arc<Pool>,
    access: Access,
    /// Datasets that were looked at, and whether their logs hold what is newer.
    seen: RefCell<BTreeMap<String, bool>>,
}

impl Visit {
    /// Opens the pool of this name or guid.
    pub fn open(args: &Args, pool: &str, access: Access) -> Result<Self, Stop> {
        let options = Options::from_process_environment();
        let env = RealEnv::new(options.map_err(|e| Failure::new(FailureKind::Invalid, e.to_string()))?);
        let shared: Arc<dyn Env> = env.clone();
        let opened = env.block_on(open(&shared, args, pool, access))?;
        Ok(Self { env, pool: opened, access, seen: RefCell::default() })
    }

    /// Where futures run.
    pub fn env(&self) -> &RealEnv {
        &self.env
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The files of a dataset or snapshot.
    pub fn files(&self, place: &Place) -> Result<Files, Stop> {
        let opened = self.env.block_on(sawmill::Pool::new(Arc::clone(&self.pool)).filesystem(&place.dataset));
        let files = opened.map_err(|error| match error {
            sawmill::Error::Pool(error) => Stop::from(refusal::pool("open", &place.dataset, &error)),
            error => Failure::new(FailureKind::Other, refusal::chain(&error)).into(),
        })?;
        self.look_for_log(&place.dataset)?;
        Ok(files)
    }

    /// A volume, or a snapshot of one.
    pub fn volume(&self, name: &str) -> Result<Volume, Stop> {
        let volume =
            self.env.block_on(self.pool.volume(name)).map_err(|e| refusal::pool("open", name, &e))?;
        self.look_for_log(name)?;
        Ok(volume)
    }

    /// The volume that a place is, if it is the whole of one.
    pub fn volume_at(&self, place: &Place) -> Result<Option<Volume>, Stop> {
        if !place.path.is_empty() {
            return Ok(None);
        }
        match self.env.block_on(self.pool.volume(&place.dataset)) {
            Ok(_) => self.volume(&place.dataset).map(Some),
            Err(PoolError::NotVolume { .. }) => Ok(None),
            Err(error) => Err(refusal::pool("open", &place.dataset, &error).into()),
        }
    }

    /// Says once of a dataset that its log holds what is newer than what a visit for reading shows.
    fn look_for_log(&self, dataset: &str) -> Result<(), Stop> {
        if self.access == Access::Write || self.seen.borrow().contains_key(dataset) {
            return Ok(());
        }
        let waits = self.env.block_on(self.pool.log_waits(dataset));
        let waits = waits.map_err(|e| refusal::pool("open", dataset, &e))?;
        if waits {
            eprintln!(
                "{dataset}: the intent log holds newer changes, which an import replays; this is the state before them"
            );
        }
        self.seen.borrow_mut().insert(dataset.to_owned(), waits);
        Ok(())
    }

    /// The exit code of a command that would have ended with this one.
    pub fn code(&self, code: u8) -> u8 {
        code.max(u8::from(self.seen.borrow().values().any(|&waits| waits)))
    }

    /// Lets go of the pool; one that was open for writing is exported.
    pub fn finish(self) -> Result<(), Stop> {
        let name = self.pool.name();
        let closed = self.env.block_on(self.pool.close(PoolState::Exported));
        Ok(closed.map_err(|error| refusal::pool("export", &name, &error))?)
    }
}

async fn open(env: &Arc<dyn Env>, args: &Args, name: &str, access: Access) -> Result<Arc<Pool>, Failure> {
    let paths = paths(&RealMachine::default(), &crate::zpool::search(args));
    let guid = name.parse().ok().map(Guid::new);
    let meant = |c: &Candidate| c.pool.name == name || Some(c.guid) == guid;
    let mut found = find_pools(env, &paths).await;
    found.retain(|c| meant(c) && c.pool.state != PoolState::Destroyed);
    let [candidate] = found.as_slice() else {
        let reason =
            if found.is_empty() { "no such pool" } else { "more than one pool of that name: use its guid" };
        let missing = Failure::cannot(FailureKind::NoSuchPool, "open", name, reason);
        return Err(if found.is_empty() { open_in_daemon(name).unwrap_or(missing) } else { missing });
    };
    check_unused(env, candidate, name, args.has('f')).await?;
    let spec = ImportSpec {
        paths: paths.clone(),
        guid: Some(candidate.guid),
        force: true,
        read_only: access == Access::Read,
        without_logs: access == Access::Read,
        ..ImportSpec::default()
    };
    let tuning = Tuning { cache_bytes: CACHE_BYTES, host: this_host(), ..Tuning::default() };
    Pool::import(Arc::clone(env), &spec, tuning).await.map_err(|error| match error {
        PoolError::UnsupportedFeatures { .. } if access == Access::Write => {
            refusal::pool("open", name, &error).and("The pool can be read, but not changed.")
        }
        error => refusal::pool("open", name, &error),
    })
}

/// Why a pool cannot be opened that was not found, if the daemon has it open: its devices may be anywhere.
fn open_in_daemon(name: &str) -> Option<Failure> {
    let session = Session::new(RunPaths::from_env(), Box::new(std::io::sink()));
    let status = session.ask_running(&DaemonStatusCall {}).ok()?;
    if !status.pools.iter().any(|pool| pool == name) {
        return None;
    }
    let mounts = session.ask_running(&Mounts {}).unwrap_or_default();
    let place = mounts.into_iter().find(|mount| mount.dataset == name).map(|mount| mount.mountpoint);
    let busy = Failure::cannot(FailureKind::Busy, "open", name, "the daemon has the pool open");
    Some(busy.and(match place {
        Some(place) => format!("Its files are at '{place}'."),
        None => format!("Mount it ('zfs mount {name}'), or export it first."),
    }))
}

/// Refuses a pool that another system, the daemon, or another command has open. One that was
/// exported is nobody's.
async fn check_unused(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    name: &str,
    force: bool,
) -> Result<(), Failure> {
    if candidate.pool.state != PoolState::Active {
        return Ok(());
    }
    let busy = |reason: &str| Failure::cannot(FailureKind::Busy, "open", name, reason);
    for path in candidate.paths.values() {
        if is_held(env, path).await {
            return Err(busy("pool is in use").and("Its files are where it is mounted."));
        }
    }
    let hostid = candidate.pool.hostid;
    if hostid != 0 && hostid != this_host().id && !force {
        let by = format!("Last accessed by {}.", candidate.pool.hostname);
        return Err(busy("pool was previously in use from another system")
            .and(by)
            .and("Use '-f' to open it."));
    }
    Ok(())
}

/// Whether somebody has a device open for writing; not just for a moment, to ask the same.
async fn is_held(env: &Arc<dyn Env>, path: &Path) -> bool {
    for _ in 0..ASKED_MAX {
        match env.open(path, OpenMode::ReadWrite).await {
            Err(DeviceError::InUse { .. }) => env.sleep(ASKED_AGAIN_AFTER).await,
            _ => return false,
        }
    }
    true
}
