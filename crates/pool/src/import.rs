//! Finding pools on devices, and opening them.
//!
//! ```text
//!  labels ─► candidate ─► vdevs open ─► uberblock ─► meta-objset ─► true configuration
//!    ─► features known? ─► space maps ─► logs claimed ─► leaks freed ─► first txg ─► in use
//! ```
//! Labels only lead to the uberblock; what counts is the configuration in the meta-objset it
//! points to. A log's blocks are claimed before anything is allocated: until then their space
//! looks free.

pub(crate) mod owner;
pub(crate) mod rewind;
pub(crate) mod split;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use dmu::{Objset, ObjsetContext, ObjsetProps, TxgGate};
use dsl::Dsl;
use dsl::features::BLOCK_CLONING;
use env::{Env, OpenMode, boxed};
use evacuation::EvacuationError;
use futures::stream::{self, StreamExt, TryStreamExt};
use ondisk::{ByteOrder, NvList, UberblockPhys};
use units::{Guid, ObjectId, ObjsetId, Txg};
pub use vdev::Candidate;
use vdev::{
    OpenSpec, OtherCopy, PoolConfig, PoolState, VdevAux, VdevTree, candidates, candidates_without, scan,
};
use zio::Zio;

use self::owner::{Left, LeftAlone};
use self::rewind::Rewind;
use crate::checkpoint::{self, Checkpoint};
use crate::config::{self, Config};
use crate::evacuate::Evacuation;
use crate::memory::MemoryParts;
use crate::pool::Parts;
use crate::shared::brt::Brt;
use crate::shared::ddt::{self, Ddt};
use crate::space::deferred::Deferred;
use crate::space::maps::{SpaceMaps, load_dtls};
use crate::{CheckpointRefusal, Host, MissingFeature, Pool, PoolError, Tuning};

/// Which pool to import, and how.
#[derive(Clone, Debug, Default)]
pub struct ImportSpec {
    /// Devices to look at.
    pub paths: Vec<PathBuf>,
    /// Also searches the paths below `/dev` that labels name, so that a device with several names
    /// keeps its name.
    pub own_paths: bool,
    /// By name; among several of one name the guid decides.
    pub name: Option<String>,
    /// By guid.
    pub guid: Option<Guid>,
    /// Under this name from now on.
    pub new_name: Option<String>,
    /// The new name is not written to labels: the pool has its old name again when it is closed.
    pub is_name_temporary: bool,
    /// Though another system may have it open.
    pub force: bool,
    /// This host had it open when it went down: only if it is as it was left then. `force` does not
    /// count then.
    pub left: Option<Left>,
    /// Change nothing.
    pub read_only: bool,
    /// Without a log that is missing, giving up what it holds.
    pub without_logs: bool,
    /// Also a pool that was destroyed.
    pub destroyed: bool,
    /// As the pool was when its checkpoint was made, and what came after it is given up.
    pub to_checkpoint: bool,
    /// Where the newest state cannot be opened, an older one, and what came after it is given up.
    pub rewind: Rewind,
    /// Is told of each log record that is replayed, at the import and later.
    pub replay_watch: Option<Arc<dyn zil::ReplayWatch>>,
}

/// Logs claimed at the same time.
const CLAIMS_AT_ONCE: usize = 8;

impl ImportSpec {
    /// Finds the pools that the devices belong to.
    async fn find(&self, env: &Arc<dyn Env>) -> Vec<Candidate> {
        let behind = self.left.as_ref().map(|left| left.behind.clone()).unwrap_or_default();
        let mut found = scan(env, &self.paths).await;
        if self.own_paths {
            let own: BTreeSet<_> = found.iter().filter_map(|leaf| leaf.labels.own_path()).collect();
            let is_below = |path: &Path| {
                path.starts_with("/dev") && !path.components().any(|part| part == Component::ParentDir)
            };
            let is_new = |path: &&Path| is_below(path) && !self.paths.iter().any(|known| known == path);
            let more: Vec<PathBuf> = own.into_iter().filter(is_new).map(Path::to_owned).collect();
            found.extend(scan(env, &more).await);
        }
        candidates_without(&found, &behind)
    }

    /// Returns an error if the devices have more than one history. After a restart of this host,
    /// the history that this host left counts, and devices with another history are out of use and
    /// named in `zpool status`.
    fn check_histories(&self, devices: Vec<OtherCopy>) -> Result<(), PoolError> {
        match devices.is_empty() || self.left.is_some() {
            true => Ok(()),
            false => Err(PoolError::TwoHistories { devices }),
        }
    }

    /// Refuses a pool that this host left if the devices that were complete at that time are
    /// missing.
    fn check_behind(&self, vdevs: &VdevTree) -> Result<(), PoolError> {
        match &self.left {
            Some(left) if vdevs.depends_on(&left.behind) => Err(LeftAlone::Older.into()),
            _ => Ok(()),
        }
    }

    /// The configuration of the pool to begin with.
    fn config_for(&self, candidate: &Candidate, host: &Host) -> Config {
        let stored = &candidate.pool.name;
        match &self.new_name {
            Some(name) if self.is_name_temporary => Config::new(stored, host).called(name),
            Some(name) => Config::new(name, host),
            None => Config::new(stored, host),
        }
    }
}

/// The pools that these devices are of.
#[boxed]
pub async fn find_pools(env: &Arc<dyn Env>, paths: &[PathBuf]) -> Vec<Candidate> {
    candidates(&scan(env, paths).await)
}

impl Pool {
    /// The features in use for which the pool can be read but not changed.
    ///
    /// # Errors
    /// Those of reading the meta-objset.
    #[boxed]
    pub async fn features_against_writing(&self) -> Result<Vec<MissingFeature>, PoolError> {
        described(&self.dsl, self.dsl.unsupported_features(true).await?).await
    }

    /// Imports a pool: afterwards every log is claimed, and nothing is replayed yet (that is
    /// done when a dataset is first used).
    ///
    /// # Errors
    /// When it is not found, or cannot be opened as asked.
    #[boxed]
    pub async fn import(
        env: Arc<dyn Env>,
        spec: &ImportSpec,
        tuning: Tuning,
    ) -> Result<Arc<Self>, PoolError> {
        let candidate = choose(spec.find(&env).await, spec)?;
        spec.check_histories(candidate.foreign().cloned().collect())?;
        owner::check(&env, &candidate, spec, &tuning).await?;
        let pool = open_newest(&env, &candidate, spec, &tuning).await?;
        match pool.put_in_use(&candidate, spec).await {
            Ok(()) => Ok(pool),
            Err(error) => {
                pool.abandon().await;
                Err(error)
            }
        }
    }

    /// Takes a newly opened pool into use. After an error, the caller releases all resources.
    async fn put_in_use(self: &Arc<Self>, candidate: &Candidate, spec: &ImportSpec) -> Result<(), PoolError> {
        self.load_autotrim().await?;
        self.load_auxiliaries(candidate).await;
        self.report_lost_metaslabs();
        if !self.read_only {
            self.claim_logs(spec.without_logs).await?;
            if !spec.without_logs {
                self.free_leaked().await;
            }
            self.load_multihost().await?;
            self.start();
            self.write_config().await?;
            self.finish_split().await?;
            if self.autoexpands().await? {
                self.expand().await?;
            }
            self.replay_logs_of_clones().await?;
            self.destroy_leftovers().await?;
            self.release_temporary_holds().await?;
        }
        self.open_caches().await;
        self.resume_scrub().await?;
        self.resume_sweeps().await?;
        self.resume_evacuation();
        if !self.read_only {
            self.engage_suspension().await?;
        }
        self.tell_opened("pool_import");
        Ok(())
    }

    async fn claim_logs(self: &Arc<Self>, without_missing: bool) -> Result<(), PoolError> {
        let first = self.gate.open_txg();
        self.log_store.set_counts_clones(self.is_enabled(&BLOCK_CLONING).await?);
        let datasets = self.dsl.list(&self.name()).await?;
        let claim = |dataset| async move { self.claim_log(&dataset, first, without_missing).await };
        let claims = datasets.into_iter().map(claim);
        stream::iter(claims).buffer_unordered(CLAIMS_AT_ONCE).try_collect().await
    }

    /// Writes labels and configuration that say: in use, here.
    async fn write_config(self: &Arc<Self>) -> Result<(), PoolError> {
        self.in_sync(|pool, tx| async move {
            pool.vdevs.mark_all_changed();
            config::make_vdev_zaps(&pool.dsl, &tx, &pool.vdevs).await?;
            if let (None, Some(salt)) = (pool.dsl.checksum_salt().await?, pool.zio.salt()) {
                pool.dsl.set_checksum_salt(&tx, salt).await?;
            }
            let needed_to_read = pool.dsl.label_features().await?;
            pool.config.lock().set_features(&needed_to_read);
            let config = pool.config.lock().clone();
            config::store(&pool.dsl, &tx, &config, &pool.vdevs).await?;
            pool.note_return(&tx).await?;
            pool.note_version(&tx, "import").await
        })
        .await
    }
}

fn random_salt(env: &Arc<dyn Env>) -> [u8; 32] {
    let words: [[u8; 8]; 4] = std::array::from_fn(|_| env.random_u64().to_le_bytes());
    std::array::from_fn(|at| words[at / 8][at % 8])
}

fn choose(found: Vec<Candidate>, spec: &ImportSpec) -> Result<Candidate, PoolError> {
    let wanted = |c: &Candidate| {
        spec.guid.is_none_or(|guid| guid == c.guid)
            && spec.name.as_ref().is_none_or(|name| *name == c.pool.name)
            && (spec.left.is_some() || spec.destroyed == (c.pool.state == PoolState::Destroyed))
    };
    let mut matching = found.into_iter().filter(wanted);
    let first = matching.next().ok_or(PoolError::NoSuchPool)?;
    if matching.next().is_some() { Err(PoolError::Ambiguous) } else { Ok(first) }
}

/// Opens the newest state. If that state is damaged and [`ImportSpec::rewind`] allows it, opens the
/// newest state that is not damaged: see [`rewind`].
async fn open_newest(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    spec: &ImportSpec,
    tuning: &Tuning,
) -> Result<Arc<Pool>, PoolError> {
    if spec.to_checkpoint {
        return open_checkpoint(env, candidate, spec, tuning).await;
    }
    let newest = candidate.uberblock.map(|uberblock| uberblock.txg()).ok_or(PoolError::NoUberblock)?;
    let (first, mut tried) = match spec.rewind.first() {
        Some(txg) => (PoolError::NoUberblock, txg.min(newest).next()),
        None => match open_at(env, candidate, spec, tuning, AsOf::Newest).await {
            Err(error) if spec.rewind != Rewind::Never && is_damage(&error) => (error, newest),
            opened => return opened,
        },
    };
    while spec.rewind.may_pass(tried, newest) {
        match open_older(env, candidate, spec, tuning, tried.prev(), newest).await {
            Ok(pool) => return Ok(pool),
            Err((_, PoolError::NoUberblock)) => break,
            Err((txg, error)) if is_damage(&error) => {
                tracing::warn!(%txg, %error, "an older state is damaged too");
                tried = txg;
            }
            Err((_, error)) => return Err(error),
        }
    }
    Err(first)
}

/// Opens the newest state whose txg is at most `max`, if that state can be read. Otherwise returns
/// the txg of the state with the error.
async fn open_older(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    spec: &ImportSpec,
    tuning: &Tuning,
    max: Txg,
    newest: Txg,
) -> Result<Arc<Pool>, (Txg, PoolError)> {
    let pool = match open_at(env, candidate, spec, tuning, AsOf::UpTo(max)).await {
        Ok(pool) => pool,
        Err(error) => return Err((max, error)),
    };
    let txg = pool.opened_txg;
    let verified = match pool.verify(spec.rewind.verified_since(txg, newest)).await {
        Ok(verified) if verified.is_good() => {
            tracing::warn!(from = %newest, to = %txg, ?verified, "went back to an older state");
            return Ok(pool);
        }
        verified => verified,
    };
    pool.close_devices().await;
    let damaged = |errors: u64| PoolError::Damaged {
        object: ObjectId::new(0),
        what: format!("{errors} blocks of metadata of txg {txg} cannot be read"),
    };
    Err((txg, verified.map_or_else(|error| error, |verified| damaged(verified.metadata_errors))))
}

/// Opens the state that the newest one notes as the pool's checkpoint. To be written to, the pool has it as its newest
/// state from then on, before anything is written over that the state which is given up needs.
async fn open_checkpoint(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    spec: &ImportSpec,
    tuning: &Tuning,
) -> Result<Arc<Pool>, PoolError> {
    let newest = open_mos(env, candidate, spec, tuning, AsOf::Newest).await?;
    let noted = checkpoint::uberblock(&newest.dsl).await?;
    let mut noted = noted.ok_or(PoolError::Checkpoint(CheckpointRefusal::None))?;
    let last = newest.uberblock.txg();
    if noted.txg() >= last {
        return Err(PoolError::Damaged {
            object: ObjectId::new(1),
            what: "a checkpoint of the future".into(),
        });
    }
    drop(newest);
    if !spec.read_only {
        noted.txg.set(last.next().get());
        noted.timestamp.set(env.wall_clock().as_secs());
    }
    let opened = open_mos(env, candidate, spec, tuning, AsOf::Noted(&noted)).await?;
    let pool = assemble(Arc::clone(env), opened, candidate, spec, tuning.clone()).await?;
    if !spec.read_only {
        tracing::warn!(from = %last, to = noted.checkpoint_txg.get(), "returned to the checkpoint");
        pool.vdevs.mark_all_changed();
        if let Err(error) = pool.make_stable(&noted).await {
            pool.abandon().await;
            return Err(error);
        }
    }
    Ok(pool)
}

/// What an older state may not have.
fn is_damage(error: &PoolError) -> bool {
    use PoolError as E;
    matches!(
        error,
        E::Damaged { .. }
            | E::Evacuation(_)
            | E::SpaceMap { .. }
            | E::Zio(_)
            | E::Zap(_)
            | E::Dmu(_)
            | E::Dsl(_)
            | E::Zil(_)
    )
}

/// Which of a pool's states to open.
#[derive(Clone, Copy)]
enum AsOf<'a> {
    Newest,
    /// The newest of those not after a txg.
    UpTo(Txg),
    /// That of an uberblock which labels do not have.
    Noted(&'a UberblockPhys),
}

impl AsOf<'_> {
    async fn uberblock(self, vdevs: &VdevTree) -> Option<UberblockPhys> {
        match self {
            Self::Newest => vdevs.uberblock_at_open(),
            Self::UpTo(max) => vdevs.best_uberblock(Some(max)).await,
            Self::Noted(uberblock) => Some(*uberblock),
        }
    }
}

async fn open_at(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    spec: &ImportSpec,
    tuning: &Tuning,
    as_of: AsOf<'_>,
) -> Result<Arc<Pool>, PoolError> {
    let opened = open_mos(env, candidate, spec, tuning, as_of).await?;
    assemble(Arc::clone(env), opened, candidate, spec, tuning.clone()).await
}

/// What keeps a pool of the other byte order from being changed, where features are named.
const BIG_ENDIAN: &str = "big-endian byte order";

/// Vdevs whose devices are closed when this value is dropped, unless a pool owns them by then.
/// Every step of opening a pool may fail or be dropped, and none of these steps has to close the
/// devices.
pub(crate) struct OpenVdevs(Option<Arc<VdevTree>>);

impl OpenVdevs {
    pub(crate) fn new(vdevs: &Arc<VdevTree>) -> Self {
        Self(Some(Arc::clone(vdevs)))
    }

    /// The pool is responsible for closing the vdevs from now on.
    pub(crate) fn into_pool(mut self) {
        self.0 = None;
    }
}

impl Drop for OpenVdevs {
    fn drop(&mut self) {
        self.0.iter().for_each(|vdevs| vdevs.close());
    }
}

struct Opened {
    /// Closes the vdevs, unless a pool takes them over.
    open: OpenVdevs,
    vdevs: Arc<VdevTree>,
    zio: Arc<Zio>,
    gate: Arc<TxgGate>,
    dsl: Arc<Dsl>,
    config: NvList,
    uberblock: UberblockPhys,
    /// Whether it is known where the blocks of removed vdevs are.
    mapped: Result<(), EvacuationError>,
}

impl Opened {
    fn checked(self) -> Result<Self, PoolError> {
        self.mapped.clone()?;
        Ok(self)
    }
}

/// Opens the vdevs as the labels know them, reads the configuration in the meta-objset, and
/// arranges the vdevs anew if that knows better.
async fn open_mos(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    spec: &ImportSpec,
    tuning: &Tuning,
    as_of: AsOf<'_>,
) -> Result<Opened, PoolError> {
    let first = open_tree(env, candidate, &candidate.vdev_tree, None, spec, tuning, as_of).await?;
    let Some(tree) = first.config.get_nvlist("vdev_tree").cloned() else { return first.checked() };
    if tree == candidate.vdev_tree {
        return first.checked();
    }
    open_tree(env, candidate, &tree, Some(&first.vdevs), spec, tuning, as_of).await?.checked()
}

async fn open_tree(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    vdev_tree: &NvList,
    earlier: Option<&VdevTree>,
    spec: &ImportSpec,
    tuning: &Tuning,
    as_of: AsOf<'_>,
) -> Result<Opened, PoolError> {
    let mode = if spec.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
    let paths = candidate.paths_in(vdev_tree);
    let (gone, behind) = (&candidate.gone, &candidate.behind);
    let open = OpenSpec { vdev_tree, paths: &paths, gone, behind, mode };
    let vdevs = Arc::new(match earlier {
        Some(earlier) => earlier.open_as(&open).await?,
        None => VdevTree::open(Arc::clone(env), &open).await?,
    });
    let open = OpenVdevs::new(&vdevs);
    spec.check_behind(&vdevs)?;
    let Some(uberblock) = as_of.uberblock(&vdevs).await else {
        return Err(check_vdevs(&vdevs, spec).err().unwrap_or(PoolError::NoUberblock));
    };
    let zio = Arc::new(Zio::new(Arc::clone(&vdevs), MemoryParts::of(tuning).cache_bytes));
    // Txgs go on behind the newest, also when an older one was opened: what is written now must
    // count for more than what was given up.
    let newest = vdevs.uberblock_at_open().map_or(Txg::ZERO, |newest| newest.txg());
    let last = newest.max(uberblock.txg());
    if last > TXG_MAX && !spec.read_only {
        let what = "an uberblock with a txg that no space map can have".into();
        return Err(PoolError::Damaged { object: ObjectId::new(0), what });
    }
    let gate = TxgGate::new(last, MemoryParts::of(tuning).dirty_bytes);
    let context = ObjsetContext {
        id: ObjsetId::MOS,
        zio: Arc::clone(&zio),
        gate: Arc::clone(&gate),
        props: ObjsetProps::mos(),
    };
    let dsl = match open_dsl(context, uberblock).await {
        Ok(dsl) => dsl,
        // What cannot be read may just not be there.
        Err(error) => return Err(check_vdevs(&vdevs, spec).err().unwrap_or(error)),
    };
    // Before anything is read that may lie on one of them. Labels may tell of a removal that has not begun, or is over.
    let mapped = evacuation::load(&dsl, &vdevs).await;
    // A pool of before there was a salt gets one, see `write_config`.
    let salt = dsl.checksum_salt().await?.unwrap_or_else(|| random_salt(env));
    zio.set_salt(salt);
    let config = config::load(&dsl).await?;
    Ok(Opened { open, vdevs, zio, gate, dsl, config, uberblock, mapped })
}

/// The last txg at which a pool is opened for writing. Entries of space maps have 50 bits for a txg
/// ([`ondisk::space_map::debug_word`]), which leaves 2^49 txgs: a pool that makes one each second has used them up in
/// 17 million years.
const TXG_MAX: Txg = Txg::new(1 << 49);

async fn open_dsl(context: ObjsetContext, uberblock: UberblockPhys) -> Result<Arc<Dsl>, PoolError> {
    if uberblock.rootbp.birth() > uberblock.txg() {
        return Err(PoolError::Damaged { object: ObjectId::new(0), what: "a root of a later txg".into() });
    }
    let mos = Objset::open(context, uberblock.rootbp).await?;
    Ok(Arc::new(Dsl::open(mos).await?))
}

async fn assemble(
    env: Arc<dyn Env>,
    opened: Opened,
    candidate: &Candidate,
    spec: &ImportSpec,
    tuning: Tuning,
) -> Result<Arc<Pool>, PoolError> {
    let Opened { open, vdevs, zio, gate, dsl, config: found, uberblock, .. } = opened;
    let opened_at = (uberblock.txg(), uberblock.timestamp.get());
    if uberblock.rootbp.byte_order() == ByteOrder::Big && !spec.read_only {
        // Nobody has seen us change such a pool yet.
        let features = vec![MissingFeature { guid: BIG_ENDIAN.to_owned(), description: String::new() }];
        let readable = dsl.unsupported_features(false).await?.is_empty();
        return Err(PoolError::UnsupportedFeatures { features, readable });
    }
    let guids = unsupported(&dsl, !spec.read_only).await?;
    if !guids.is_empty() {
        let readable = dsl.unsupported_features(false).await?.is_empty();
        return Err(PoolError::UnsupportedFeatures { features: described(&dsl, guids).await?, readable });
    }
    zio.set_pointer_forms(config::pointer_forms(&dsl).await?);
    check_vdevs(&vdevs, spec)?;
    let mut config = spec.config_for(candidate, &tuning.host);
    config.adopt(&PoolConfig::from_nvlist(&found)?);
    config::load_biases(&dsl, &vdevs).await?;
    let space_maps = SpaceMaps::default();
    let mut mapped = vdevs.tops_with_devices();
    for top in &mapped {
        zio.add_vdev(top)
            .map_err(|e| PoolError::Damaged { object: ObjectId::new(1), what: e.to_string() })?;
        if top.config().leaving.is_some() || top.config().non_allocating {
            zio.rest_vdev(top.id());
        }
    }
    mapped.retain(|top| !spec.read_only || top.config().metaslab_array != 0);
    match spec.read_only {
        true => space_maps.load_to_look(&dsl, &zio, &mapped).await,
        false => space_maps.load(&dsl, &zio, &mapped).await?,
    }
    load_dtls(&dsl, &vdevs).await?;
    // A vdev that can do without such a leaf continues without it. Nobody can be certain that the
    // leaf is foreign.
    let foreign = vdevs.refuse_noted_foreign();
    vdevs.forget_labels();
    if let Err(error) = check_vdevs(&vdevs, spec) {
        spec.check_histories(foreign)?;
        return Err(error);
    }
    let evacuation = Evacuation::load(&dsl).await?;
    let checkpoint = Checkpoint::load(&dsl, &zio).await?;
    let returned_to = Some(Txg::new(uberblock.checkpoint_txg.get())).filter(|&txg| txg != Txg::ZERO);
    let rewound_to = Some(uberblock.txg()).filter(|&txg| txg < gate.synced_txg());
    let deferred = Deferred::load(&dsl).await?;
    let read_only = spec.read_only;
    let brt = if read_only { Brt::default() } else { Brt::load(&dsl).await? };
    let ddt = if read_only { Ddt::default() } else { Ddt::load(&dsl).await? };
    let saved_bytes = brt.space().await.saved_bytes + ddt.space().await.saved_bytes;
    let parts = Parts {
        env,
        vdevs,
        zio,
        gate,
        dsl,
        config,
        space_maps,
        brt,
        ddt,
        deferred,
        checkpoint,
        evacuation,
        returned_to,
        rewound_to,
        tuning,
        read_only,
        opened_at,
        uberblock: Some(uberblock),
        others: candidate.others.clone(),
        replay_watch: spec.replay_watch.clone(),
    };
    let pool = Pool::assemble(parts);
    open.into_pool();
    pool.space.set_shared(saved_bytes);
    pool.tell_space();
    Ok(pool)
}

/// What the pool has that keeps it from being opened so: features in use, and some forms of tables of
/// deduplicated blocks.
async fn unsupported(dsl: &Dsl, to_write: bool) -> Result<Vec<String>, PoolError> {
    let mut found = dsl.unsupported_features(to_write).await?;
    if to_write {
        found.extend(ddt::obstacle(dsl).await?);
    }
    Ok(found)
}

async fn described(dsl: &Dsl, guids: Vec<String>) -> Result<Vec<MissingFeature>, PoolError> {
    let mut features = Vec::new();
    for guid in guids {
        let description = dsl.feature_description(&guid).await?.unwrap_or_default();
        features.push(MissingFeature { guid, description });
    }
    Ok(features)
}

fn check_vdevs(vdevs: &VdevTree, spec: &ImportSpec) -> Result<(), PoolError> {
    for top in vdevs.tops() {
        let state = top.state().0;
        // A log of which every device was taken out of use, or has failed, when the configuration was written: what it held
        // was stable with that, and nothing went there afterwards.
        let retired = top.is_log() && top.leaves().iter().all(|leaf| leaf.is_declared_out());
        let spared = top.is_log() && (spec.without_logs || retired);
        if !spared && !state.is_usable() {
            let shrunk = top.leaves().iter().find(|leaf| leaf.state().1 == VdevAux::TooSmall);
            return Err(match shrunk {
                Some(leaf) => PoolError::DeviceShrunk { path: leaf.path(), needs_bytes: top.bytes_of_leaf() },
                None => PoolError::MissingVdev { vdev: top.id() },
            });
        }
    }
    Ok(())
}
