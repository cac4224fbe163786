//! Finding pools to import, and telling what is wrong with them.

use crate::obstacle;
use crate::{Holder, info};
use control::{
    Failure, ImportCandidate, ImportScan, InUse, PoolHealth, PoolInfo, VdevAux, VdevClass, VdevInfo,
    VdevKind, VdevState,
};
use env::Machine;
use futures::future::join_all;
use pool::{Candidate, ImportSpec, Pool, PoolError, find_pools};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vdev::PoolState;

/// Where block devices are listed.
const BLOCK_DEVICES: &str = "/sys/class/block";

/// The devices to look at: what was given, and what directories among it hold; else all
/// block devices.
pub fn paths(machine: &dyn Machine, search: &[String]) -> Vec<PathBuf> {
    let names_in = |directory: &Path| names_in(machine, directory).into_iter();
    let given: Vec<PathBuf> = match search {
        [] => names_in(Path::new(BLOCK_DEVICES)).map(|name| Path::new("/dev").join(name)).collect(),
        _ => search.iter().map(PathBuf::from).collect(),
    };
    let mut all = Vec::new();
    for path in given {
        if machine.is_directory(&path) {
            all.extend(names_in(&path).map(|name| path.join(name)).filter(|p| !machine.is_directory(p)));
        } else {
            all.push(path);
        }
    }
    all.sort();
    all.dedup();
    all
}

fn names_in(machine: &dyn Machine, directory: &Path) -> Vec<OsString> {
    let listed = machine.names_in(directory);
    let listed = listed
        .inspect_err(|error| tracing::warn!(directory = %directory.display(), %error, "not looked through"));
    listed.unwrap_or_default()
}

impl Holder {
    /// The devices that a search is about.
    pub(super) fn paths(&self, search: &[String]) -> Vec<PathBuf> {
        paths(&*self.machine, search)
    }

    pub(super) async fn scan(&self, call: ImportScan) -> Result<Vec<ImportCandidate>, Failure> {
        let paths = self.paths(&call.search);
        let mut open: BTreeSet<u64> = self.all().iter().map(|held| held.pool.guid().get()).collect();
        open.extend(self.siblings.guids());
        let is_meant = |candidate: &Candidate| {
            let destroyed = candidate.pool.state == PoolState::Destroyed;
            destroyed == call.destroyed && !open.contains(&candidate.guid.get())
        };
        let mut meant = find_pools(&self.env, &paths).await;
        meant.retain(is_meant);
        // All at once: a pool with a living owner, or one that died, takes its time.
        let tuning = self.tuning();
        let watched = meant.iter().map(|candidate| pool::watch_for_owner(&self.env, candidate, &tuning));
        let watched = join_all(watched).await;
        let mut found = Vec::new();
        for (candidate, watched) in meant.iter().zip(watched) {
            let is_active = candidate.pool.state == PoolState::Active;
            let holders = if is_active { self.holders(candidate) } else { Vec::new() };
            let held = Some(InUse::Held(holders)).filter(|held| *held != InUse::Held(Vec::new()));
            let spec = ImportSpec { own_paths: call.search.is_empty(), ..look_at(candidate, &paths) };
            found.push(self.examine(candidate, &spec, watched.err().and_then(in_use).or(held)).await);
        }
        Ok(found)
    }

    /// Opens a pool for reading, to see what an import would find; what labels tell must do
    /// where that fails.
    async fn examine(
        &self,
        candidate: &Candidate,
        spec: &ImportSpec,
        in_use: Option<InUse>,
    ) -> ImportCandidate {
        let destroyed = candidate.pool.state == PoolState::Destroyed;
        let mut obstacle = None;
        let (mut pool, missing, readable) = match self.try_import(spec).await {
            Ok(pool) => {
                let against = pool.features_against_writing().await.unwrap_or_default();
                (by_path(info::bare(&pool).await), against, true)
            }
            Err(PoolError::UnsupportedFeatures { features, readable }) => {
                (from_labels(candidate), features, readable)
            }
            Err(error) => {
                obstacle = obstacle::obstacle(&error);
                (from_labels(candidate), Vec::new(), false)
            }
        };
        if !missing.is_empty() || obstacle.is_some() {
            pool.health = PoolHealth::Unavail;
            (pool.root.state, pool.root.aux) = (VdevState::CantOpen, VdevAux::UnsupFeature);
        }
        let mut unsupported_features: Vec<String> = missing.iter().map(ToString::to_string).collect();
        unsupported_features.extend(obstacle);
        let other_host = candidate.pool.hostid != 0 && candidate.pool.hostid != self.host().id;
        let foreign = candidate.pool.state == PoolState::Active && other_host;
        if in_use.is_some() {
            pool.health = PoolHealth::Unavail;
            (pool.root.state, pool.root.aux) = (VdevState::CantOpen, VdevAux::Active);
        }
        ImportCandidate { pool, destroyed, foreign, in_use, unsupported_features, readable }
    }

    async fn try_import(&self, spec: &ImportSpec) -> Result<Arc<Pool>, PoolError> {
        Pool::import(Arc::clone(&self.env), spec, self.tuning()).await
    }

    /// The logs that a pool cannot be imported without.
    pub(super) async fn missing_logs(&self, paths: &[PathBuf], guid: units::Guid) -> Vec<VdevInfo> {
        let found = find_pools(&self.env, paths).await.into_iter().find(|c| c.guid == guid);
        let Some(candidate) = found else { return Vec::new() };
        let Ok(pool) = self.try_import(&look_at(&candidate, paths)).await else { return Vec::new() };
        let pool = info::bare(&pool).await;
        pool.tops(VdevClass::Log).filter(|top| !top.state.is_readable()).cloned().collect()
    }
}

/// Returns how a pool is opened for inspection.
fn look_at(candidate: &Candidate, paths: &[PathBuf]) -> ImportSpec {
    ImportSpec {
        paths: paths.to_vec(),
        guid: Some(candidate.guid),
        force: true,
        read_only: true,
        without_logs: true,
        destroyed: candidate.pool.state == PoolState::Destroyed,
        ..ImportSpec::default()
    }
}

fn in_use(error: PoolError) -> Option<InUse> {
    match error {
        PoolError::ActiveElsewhere { hostname, hostid } => Some(InUse::On { hostname, hostid }),
        PoolError::NoHostId => Some(InUse::NoHostId),
        _ => None,
    }
}

/// Before an import, a device that is missing is still called by its path.
fn by_path(mut pool: PoolInfo) -> PoolInfo {
    fn visit(vdev: &mut VdevInfo) {
        vdev.not_present = false;
        vdev.children.iter_mut().for_each(visit);
    }
    visit(&mut pool.root);
    pool
}

/// Lines that name a missing log: `mirror-1 [log]` and its leaves, or its path.
pub fn missing_log_lines(log: &VdevInfo) -> Vec<String> {
    let path = |leaf: &VdevInfo| leaf.path.clone().unwrap_or_else(|| leaf.guid.to_string());
    if log.kind.is_leaf() {
        return vec![format!("\t    {} [log]", path(log))];
    }
    let head = format!("\t    {}-{} [log]", log.kind.word(), log.id);
    let leaves = log.leaves().map(|leaf| format!("\t      {}", path(leaf)));
    std::iter::once(head).chain(leaves).collect()
}

/// A pool that cannot be opened, as far as its labels know it.
fn from_labels(candidate: &Candidate) -> PoolInfo {
    let mut root = VdevInfo::new(VdevKind::Root, 0, candidate.guid.get(), VdevClass::Normal);
    (root.state, root.aux) = (VdevState::CantOpen, VdevAux::CorruptData);
    let tree = candidate.vdev_tree.get_nvlist_array("children").unwrap_or_default();
    root.children = tree.iter().map(|vdev| label_vdev(vdev, candidate)).collect();
    PoolInfo {
        health: PoolHealth::Unavail,
        txg: candidate.pool.txg.get(),
        version: candidate.pool.version,
        ..PoolInfo::new(candidate.pool.name.clone(), root)
    }
}

fn label_vdev(vdev: &ondisk::NvList, candidate: &Candidate) -> VdevInfo {
    let small = |name| vdev.get_u64(name).and_then(|number| u8::try_from(number).ok());
    let kind = match vdev.get_str("type") {
        Some("mirror") => VdevKind::Mirror,
        Some("raidz") => VdevKind::Raidz { parity: small("nparity").unwrap_or(1) },
        Some("draid") => {
            let children = vdev.get_nvlist_array("children").map_or(0, <[_]>::len);
            VdevKind::Draid {
                parity: small("nparity").unwrap_or(1),
                data: small("draid_ndata").unwrap_or(0),
                children: u8::try_from(children).unwrap_or(u8::MAX),
                spares: small("draid_nspares").unwrap_or(0),
            }
        }
        Some("file") => VdevKind::File,
        Some("disk") => VdevKind::Disk,
        Some("replacing") => VdevKind::Replacing,
        Some("spare") => VdevKind::Spare,
        Some("indirect") => VdevKind::Indirect,
        Some("hole") if vdev.get_u64("guid") != Some(0) => VdevKind::Hole,
        _ => VdevKind::Missing,
    };
    let class = if vdev.get_u64("is_log") == Some(1) { VdevClass::Log } else { VdevClass::Normal };
    let guid = vdev.get_u64("guid").unwrap_or(0);
    let mut info = VdevInfo::new(kind, vdev.get_u64("id").unwrap_or(0), guid, class);
    info.path = vdev.get_str("path").map(str::to_owned);
    let missing = kind.is_leaf() && candidate.missing_leaves.iter().any(|leaf| leaf.get() == guid);
    if missing || kind == VdevKind::Missing {
        (info.state, info.aux) = (VdevState::CantOpen, VdevAux::OpenFailed);
    }
    if kind.is_leaf() && candidate.foreign().any(|other| other.leaf.get() == guid) {
        (info.state, info.aux) = (VdevState::CantOpen, VdevAux::Elsewhere);
    }
    let children = vdev.get_nvlist_array("children").unwrap_or_default();
    info.children = children.iter().map(|child| VdevInfo { class, ..label_vdev(child, candidate) }).collect();
    info
}
