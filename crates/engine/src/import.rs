//! Opening pools: by command, and again when the daemon starts.

use crate::candidates::missing_log_lines;
use crate::held::Held;
use crate::names::NameError;
use crate::obstacle;
use crate::props::{Occasion, ctime};
use crate::replay::ReplayTeller;
use crate::settings::Settings;
use crate::{Holder, refusal};
use control::{Failure, FailureKind, Imported, PoolImport};
use env::{DeviceError, OpenMode};
use pool::{ImportSpec, OtherCopy, Pool, PoolError, Rewind, find_pools};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use units::{Guid, Txg};
use zil::LogEvent;

/// Why a pool is not imported whose devices take no writes.
const READ_ONLY: &str = "one or more devices is read only";
/// The hint for a pool that cannot be imported under the name in its labels.
const NEW_NAME: &str = "use the form 'zpool import <pool | id> <newpool>' to give it a new name";

impl Holder {
    /// Opens a pool that will be called `new`, if it is found.
    pub(super) async fn import(&self, call: PoolImport, new: Option<String>) -> Result<Imported, Failure> {
        let name = call.pool.as_str();
        let refuse = |kind, reason: &str| Failure::cannot(kind, "import", name, reason);
        if let Some(new) = &call.new_name {
            crate::names::check_new_pool(new).map_err(|e| refuse(FailureKind::Invalid, &e.to_string()))?;
        }
        let cannot = |reason: &str| refuse(FailureKind::Invalid, reason);
        let settings = Settings::read(&call.props, Occasion::Import, &cannot)?;
        settings.check_host(self.host().id).map_err(cannot)?;
        let mut spec = spec_of(&call, &settings, self.paths(&call.search));
        if let Some(name) = &new {
            let bad = |error: NameError| refuse(FailureKind::Invalid, &error.to_string()).and(NEW_NAME);
            crate::names::check_pool(name).map_err(bad)?;
        }
        self.check_name_is_free(new)?;
        spec.read_only |= call.dry_run;
        let newest = self.newest_state(&spec).await;
        let imported = Pool::import(Arc::clone(&self.env), &spec, self.tuning()).await;
        let pool = match imported {
            Ok(pool) => pool,
            Err(error) => return Err(self.explain(name, &spec, &error).await),
        };
        let rewound = newest.filter(|(txg, _)| *txg > pool.opened_txg().get());
        let rewound = rewound.map(|(_, newest_secs)| (pool.opened_state_secs(), newest_secs));
        if call.dry_run {
            let name = pool.name();
            pool.leave().await.map_err(|e| refusal::pool("import", &name, &e))?;
            return Ok(Imported { name, rewound, lost: Vec::new() });
        }
        let altroot = call.altroot.or(settings.altroot.clone());
        let cache_file = settings.cache_file_for(altroot.is_none() && !call.temporary);
        let held = self.take_in(Held::new(pool, altroot, cache_file, self.env.random_u64()));
        if !settings.read_only {
            settings.keep(&held).await?;
        }
        tracing::info!(pool = held.pool.name(), "imported");
        if !call.no_mount
            && let Err(failure) = self.mount_automatic(&held).await
        {
            // The pool is imported, so the cost of a rewind is reported even if mounts have failed.
            let name = held.pool.name();
            return Err(match rewound {
                Some(rewound) => failure.telling(rewind_lines(&name, rewound, false)),
                None => failure,
            });
        }
        let mut lost = losses(&held.pool).await;
        lost.extend(held.pool.other_copies().iter().map(copy_line));
        Ok(Imported { name: held.pool.name(), rewound, lost })
    }

    /// The group of the newest state of the pool that is meant, and when it was made.
    async fn newest_state(&self, spec: &ImportSpec) -> Option<(u64, u64)> {
        let found =
            if spec.rewind != Rewind::Never { find_pools(&self.env, &spec.paths).await } else { Vec::new() };
        let is_meant = |c: &pool::Candidate| match &spec.guid {
            Some(guid) => c.guid == *guid,
            None => spec.name.as_ref() == Some(&c.pool.name),
        };
        let uberblock = found.into_iter().find(is_meant)?.uberblock?;
        Some((uberblock.txg().get(), uberblock.timestamp.get()))
    }

    /// What a pool that is to be imported will be called: as asked for, or as its labels say. `None` where
    /// it is not found.
    pub(super) async fn name_to_be(&self, call: &PoolImport) -> Option<String> {
        match (&call.new_name, guid_of(call)) {
            (Some(name), _) => Some(name.clone()),
            (None, None) => Some(call.pool.clone()),
            (None, Some(guid)) => {
                let found = find_pools(&self.env, &self.paths(&call.search)).await;
                found.into_iter().find(|c| c.guid == guid).map(|c| c.pool.name)
            }
        }
    }

    /// A pool imported by guid may have the name of one that is open.
    fn check_name_is_free(&self, name: Option<String>) -> Result<(), Failure> {
        let is_taken = |name: &String| self.pools.read().contains_key(name) || self.siblings.has_name(name);
        let Some(name) = name.filter(is_taken) else { return Ok(()) };
        let reason = "a pool with that name already exists";
        Err(Failure::cannot(FailureKind::Exists, "import", &name, reason).and(NEW_NAME))
    }

    /// The words for an import that failed, with the logs that are missing.
    pub(super) async fn explain(&self, name: &str, spec: &ImportSpec, error: &PoolError) -> Failure {
        let failure = refusal::pool("import", name, error);
        match error {
            PoolError::MissingVdev { .. } => {
                let found = find_pools(&self.env, &spec.paths).await;
                let meant = |c: &&pool::Candidate| is_meant(spec, c);
                let guid = found.iter().find(meant).map(|c| c.guid);
                let missing = match guid {
                    Some(guid) => self.missing_logs(&spec.paths, guid).await,
                    None => Vec::new(),
                };
                let holders = found.iter().find(meant).map(|found| self.holders(found)).unwrap_or_default();
                if !holders.is_empty() {
                    let failure = refuse_held(name);
                    return holders.into_iter().fold(failure, Failure::and);
                }
                let read_only = self.read_only_devices(found.iter().find(meant)).await;
                if !read_only.is_empty() && missing.is_empty() {
                    let failure = Failure::cannot(FailureKind::Unavailable, "import", name, READ_ONLY);
                    let failure = read_only.into_iter().fold(failure, Failure::and);
                    return failure.and("The pool can be imported using '-o readonly=on'.");
                }
                let lines = missing.iter().flat_map(missing_log_lines).collect::<Vec<_>>();
                if lines.is_empty() {
                    return failure;
                }
                let head = "The devices below are missing or corrupted, use '-m' to import the pool anyway:";
                let told = [head.to_owned()].into_iter().chain(lines).chain([String::new()]);
                failure.telling(told.collect())
            }
            PoolError::Ambiguous => failure.and("import by numeric ID instead"),
            PoolError::TwoHistories { devices } => {
                let reason = "its devices hold different histories of the pool";
                let failure = Failure::cannot(FailureKind::Busy, "import", name, reason);
                let told = devices.iter().map(history_line).fold(failure, Failure::and);
                told.and("Choose the devices of one history with 'zpool import -d DEVICE'. Give the others up with")
                    .and("'zpool labelclear -f DEVICE' then, and use 'zpool replace'.")
            }
            PoolError::ForeignHost { hostname, hostid, last_secs } => {
                let found = find_pools(&self.env, &spec.paths).await;
                let found = found.iter().find(|candidate| is_meant(spec, candidate));
                let holders = found.map(|found| self.holders(found)).unwrap_or_default();
                if !holders.is_empty() {
                    return holders.into_iter().fold(refuse_held(name), Failure::and);
                }
                let reason = "pool was previously in use from another system.";
                Failure::cannot(FailureKind::Busy, "import", name, reason)
                    .and(format!("Last accessed by {hostname} (hostid={hostid:x}) at {}", ctime(*last_secs)))
                    .and("The pool can be imported, use 'zpool import -f' to import the pool.")
            }
            PoolError::ActiveElsewhere { .. } => {
                failure.and("Export the pool on the other system, then run 'zpool import'.")
            }
            PoolError::NoHostId => {
                let reason = "pool has the multihost property on and the";
                Failure::cannot(FailureKind::Invalid, "import", name, reason)
                    .and("system's hostid is not set. Set a unique hostid with the zgenhostid(8) command.")
            }
            PoolError::LeftAlone(pool::LeftAlone::Older) => {
                failure.and("The pool can be imported, use 'zpool import' to import the pool.")
            }
            PoolError::UnsupportedFeatures { features, readable } => {
                let features: Vec<String> = features.iter().map(ToString::to_string).collect();
                failure.telling(unsupported_lines(&features, *readable))
            }
            error => match obstacle::obstacle(error) {
                Some(feature) => failure.telling(unsupported_lines(&[feature], false)),
                None => failure,
            },
        }
    }

    /// The devices of a pool that can be read and not written, a line for each device.
    async fn read_only_devices(&self, candidate: Option<&pool::Candidate>) -> Vec<String> {
        let mut lines = Vec::new();
        for path in candidate.iter().flat_map(|candidate| candidate.paths.values()) {
            let refused = match self.env.open(path, OpenMode::ReadWrite).await {
                Err(DeviceError::Open { errno, .. }) => Some(std::io::Error::from_raw_os_error(errno)),
                _ => None,
            };
            let is_refused = refused.as_ref().is_some_and(|error| {
                [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied].contains(&error.kind())
            });
            if is_refused && self.env.open(path, OpenMode::ReadOnly).await.is_ok() {
                lines.push(format!("{} can be read, and not written", path.display()));
            }
        }
        lines
    }

    /// Who holds devices of a pool, a line for each device.
    pub(super) fn holders(&self, candidate: &pool::Candidate) -> Vec<String> {
        let line = |path: &PathBuf| {
            let (process, program) = self.machine.held_by(path)?;
            Some(format!("{} is held by process {process} ({program})", path.display()))
        };
        candidate.paths.values().filter_map(line).collect()
    }
}

/// True if an import means this pool.
fn is_meant(spec: &ImportSpec, candidate: &pool::Candidate) -> bool {
    spec.guid.is_none_or(|guid| guid == candidate.guid)
        && spec.name.as_ref().is_none_or(|name| *name == candidate.pool.name)
}

/// Describes a device that has another history than the pool.
fn history_line(device: &OtherCopy) -> String {
    let OtherCopy { path, txg, kept, kept_txg, .. } = device;
    let (path, kept) = (path.display(), kept.display());
    format!("{path} (transaction group {txg}) and {kept} ({kept_txg}) were written apart from each other")
}

/// Describes a device that is not used, because another device is a newer copy of the same leaf.
fn copy_line(device: &OtherCopy) -> String {
    let OtherCopy { path, txg, kept, kept_txg, .. } = device;
    let (path, kept) = (path.display(), kept.display());
    format!("{path} (transaction group {txg}) is an older copy of {kept} ({kept_txg}) and is not used")
}

fn refuse_held(name: &str) -> Failure {
    Failure::cannot(FailureKind::Busy, "import", name, "one or more devices is in use")
}

/// What goes to standard output when features are missing.
fn unsupported_lines(features: &[String], readable: bool) -> Vec<String> {
    let mut lines = vec!["This pool uses the following feature(s) not supported by this system:".to_owned()];
    lines.extend(features.iter().map(|feature| format!("\t{feature}")));
    if readable {
        lines.push("All unsupported features are only required for writing to the pool.".to_owned());
        lines.push("The pool can be imported using '-o readonly=on'.".to_owned());
    }
    lines
}

/// Describes, in OpenZFS's words, what returning to an older state has cost or would cost. The two
/// times are those of the chosen state and of the newest state.
#[must_use]
pub fn rewind_lines(name: &str, (then, newest): (u64, u64), dry_run: bool) -> Vec<String> {
    let (head, lost) = match dry_run {
        true => {
            (format!("Would be able to return {name} to its state as of {}.", ctime(then)), "Would discard")
        }
        false => (format!("Pool {name} returned to its state as of {}.", ctime(then)), "Discarded"),
    };
    let cost = match newest.saturating_sub(then) {
        0 => None,
        secs if secs > 120 => {
            Some(format!("{lost} approximately {} minutes of transactions.", (secs + 30) / 60))
        }
        secs => Some(format!("{lost} approximately {secs} seconds of transactions.")),
    };
    [Some(head), cost].into_iter().flatten().collect()
}

/// What the pool's logs seem to have lost, by dataset.
async fn losses(pool: &Pool) -> Vec<String> {
    let datasets = pool.dsl().list(&pool.name()).await.unwrap_or_default();
    let name = |objset| {
        let known = datasets.iter().find(|dataset| dataset.objset() == objset);
        known.map_or_else(|| format!("objset {objset}"), |dataset| dataset.name.clone())
    };
    let events = pool.log_events().into_iter();
    let damaged = events.filter_map(|event| match event {
        LogEvent::Damaged { objset, loss } => Some(format!("{}: {loss}", name(objset))),
        _ => None,
    });
    damaged.collect()
}

fn guid_of(call: &PoolImport) -> Option<Guid> {
    call.guid.or_else(|| call.pool.parse().ok()).map(Guid::new)
}

fn spec_of(call: &PoolImport, settings: &Settings, paths: Vec<PathBuf>) -> ImportSpec {
    let guid = guid_of(call);
    ImportSpec {
        paths,
        own_paths: call.search.is_empty(),
        name: if guid.is_none() { Some(call.pool.clone()) } else { None },
        guid,
        new_name: call.new_name.clone(),
        is_name_temporary: call.temporary,
        to_checkpoint: call.to_checkpoint,
        rewind: match (call.rewind_to, call.rewind, call.extreme) {
            (Some(txg), ..) => Rewind::UpTo(Txg::new(txg)),
            (None, true, true) => Rewind::Any,
            (None, true, false) => Rewind::Recent,
            (None, false, _) => Rewind::Never,
        },
        force: call.force,
        left: None,
        read_only: settings.read_only,
        without_logs: call.allow_missing_log,
        destroyed: call.destroyed,
        replay_watch: Some(Arc::new(ReplayTeller::default())),
    }
}
