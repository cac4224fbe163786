//! Data vdevs that are taken out of a pool in use: their space is copied to others, and a mapping stays.
//!
//! ```text
//!  admitted ─► no block goes there ─► logs leave it ─► begun ─► copied, txg by txg ─► indirect ─► stable ─► labels
//!              (at once)               (`crate::remove`) │                             │                     wiped
//!                                                        ├─ cancel, an I/O error, no room: what was copied is freed
//!                                                        └─ export, crash: the next import goes on
//! ```
//! What is copied, where to, and what is left on disk is `evacuation`'s. Here is who may go, when a txg copies, and what else
//! a pool does with a vdev that leaves. All of it is done in syncs: so nothing is freed while it is copied, and each txg is
//! whole. A txg copies for a fifth of a second at most, so that nobody waits much longer for it than ever; and when others
//! have I/O under way the next one comes as much later.
//!
//! Blocks are read where they were until the vdev is gone, and are freed in both places ([`zio::Zio::free`]).
//!
//! **Logs.** A block of an intent log is written some time after its place was taken, so none may be in a place that is
//! copied. All chains leave the vdev before the removal begins, as they leave a log that is removed; what was claimed and not
//! replayed is replayed first, whether or not anybody uses its dataset. Then every block on the vdev is of a txg that is stable, and none
//! is written again but by a repair, which writes what was there.
//!
//! **Room.** From the first moment the vdev counts for nothing of what datasets may take: what is overwritten there goes elsewhere.
//!
//! **Devices that miss what is copied.** A mirror's child that is away while something is copied to its vdev misses that txg, as any
//! other. But blocks that were copied are older than the txg, and as long as they are read from the old vdev no scan looks at the
//! copies. So a resilver that may meet such blocks is of all txgs, and no device is whole before the removal has ended.
//!
//! Invariants
//! - A crash leaves a pool that goes on with the removal, and nothing promised is lost.
//!   (test: `a_power_cut_while_a_vdev_is_emptied_leaves_every_promise_and_goes_on`)
//! - An error while copying ends the removal, and leaves the pool as it was.
//!   (tests: `an_error_while_a_vdev_is_emptied_ends_that_and_leaks_nothing`, `a_removal_that_is_given_up_leaves_no_trace`)
//! - A device that missed a copy gets it. (test: `a_device_that_missed_copies_is_whole_after_the_removal`)

mod admit;
mod begin;
mod end;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dmu::Tx;
use dsl::Dsl;
use env::boxed;
use evacuation::BatchLimits;
use event_listener::Event;
use ondisk::indirect::RemovingPhys;
use parking_lot::Mutex;
use units::{Txg, VdevId};
use vdev::{Mapping, Top};

use crate::{BackgroundWork, Pool, PoolError, RemovalRefusal};

/// Once a txg has copied for that long it copies no more.
const BATCH_TIME: Duration = Duration::from_millis(200);

/// The last or running removal of a data vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvacuationReport {
    /// The state on disk.
    pub phys: RemovingPhys,
    /// What the mappings of all removed vdevs take in memory, in bytes.
    pub mapping_bytes: u64,
}

/// The removal of a data vdev from one pool.
#[derive(Default)]
pub(crate) struct Evacuation {
    /// As the meta-objset has it, with what the txg that is being synced has changed.
    phys: Mutex<Option<RemovingPhys>>,
    /// As it is stable: what others are told.
    stable: Mutex<Option<RemovingPhys>>,
    running: AtomicBool,
    halting: AtomicBool,
    halted: Event,
}

impl Evacuation {
    /// Takes up what the meta-objset tells.
    #[boxed]
    pub async fn load(dsl: &Dsl) -> Result<Self, PoolError> {
        let phys = evacuation::state(dsl).await?;
        Ok(Self { phys: Mutex::new(phys), stable: Mutex::new(phys), ..Self::default() })
    }

    /// The last change is stable.
    fn tell(&self) {
        *self.stable.lock() = self.phys();
    }

    fn phys(&self) -> Option<RemovingPhys> {
        *self.phys.lock()
    }

    /// Whether a vdev is being emptied.
    pub fn is_under_way(&self) -> bool {
        self.phys().is_some_and(|phys| phys.is_under_way())
    }
}

impl Pool {
    /// The last or running removal of a data vdev; none if there never was one.
    #[must_use]
    pub fn evacuation(&self) -> Option<EvacuationReport> {
        let phys = (*self.evacuation.stable.lock())?;
        let bytes = |top: Arc<Top>| top.removed().and_then(|removed| removed.mapping().map(Mapping::bytes));
        let mapping_bytes = self.vdevs.removed_tops().into_iter().filter_map(bytes).sum();
        Some(EvacuationReport { phys, mapping_bytes })
    }

    /// How much memory the mapping of a vdev would take, in bytes.
    #[must_use]
    pub fn evacuation_cost(&self, vdev: VdevId) -> u64 {
        self.zio.with_allocator(|allocator| {
            let ms_shift = allocator.vdev_config(vdev).map_or(0, |config| config.ms_shift);
            evacuation::mapping_bytes(allocator.left_on(vdev, 0, u64::MAX), ms_shift)
        })
    }

    /// Refuses what cannot be done while a vdev is being emptied.
    ///
    /// # Errors
    /// [`RemovalRefusal::InProgress`].
    pub(crate) fn check_no_evacuation(&self) -> Result<(), RemovalRefusal> {
        if self.evacuation.is_under_way() { Err(RemovalRefusal::InProgress) } else { Ok(()) }
    }

    /// The vdev that is being emptied.
    fn leaving_top(&self) -> Option<Arc<Top>> {
        let phys = self.evacuation.phys().filter(RemovingPhys::is_under_way)?;
        let id = u32::try_from(phys.vdev.get()).ok().map(VdevId::new)?;
        self.vdevs.top(id).ok().filter(|top| top.config().leaving.is_some())
    }

    /// Whether anything was copied from a vdev that was removed, or is being removed, in `txg` or since.
    pub(crate) async fn has_copied_since(&self, txg: Txg) -> Result<bool, PoolError> {
        for top in self.vdevs.tops() {
            let removed = top.removed().map(|removed| removed.config().births);
            let Some(births) = removed.or(top.config().leaving.map(|leaving| leaving.births)) else {
                continue;
            };
            if evacuation::last_birth(&self.dsl, births).await?.is_some_and(|last| last >= txg) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on with a removal that an import found, or that was halted.
    pub(crate) fn resume_evacuation(self: &Arc<Self>) {
        if !self.read_only && self.evacuation.is_under_way() && self.stopped().is_none() {
            self.run_evacuation();
        }
    }

    fn run_evacuation(self: &Arc<Self>) {
        if self.evacuation.running.swap(true, Ordering::AcqRel) {
            return;
        }
        self.evacuation.halting.store(false, Ordering::Release);
        let pool = Arc::clone(self);
        let work = async move {
            match pool.empty_vdev().await {
                Ok(()) => {}
                Err(PoolError::Evacuation(error)) if error.is_of_copying() => {
                    let cause = error.source().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(%error, cause, "the removal is given up");
                    if let Err(error) = pool.give_up_and_use().await {
                        tracing::error!(%error, "the removal stops");
                    }
                }
                Err(error) => tracing::error!(%error, "the removal stops"),
            }
            pool.evacuation.running.store(false, Ordering::Release);
            pool.evacuation.halted.notify(usize::MAX);
            if !pool.evacuation.is_under_way()
                && let Err(error) = pool.resilver().await
            {
                tracing::warn!(%error, "devices that missed something are not brought up to date");
            }
        };
        self.env.spawn("evacuation", Box::pin(work));
    }

    /// Works until the vdev is gone, or until told to halt.
    async fn empty_vdev(self: &Arc<Self>) -> Result<(), PoolError> {
        while !self.evacuation.halting.load(Ordering::Acquire) {
            if self.is_held_back(BackgroundWork::Removals).await {
                continue;
            }
            let started = self.env.now();
            let goes_on = self.in_sync(|pool, tx| async move { pool.empty_some(&tx).await }).await?;
            self.evacuation.tell();
            if !goes_on {
                return Ok(());
            }
            self.rest_if_others_wait(&self.vdevs.leaves(), started, 1).await;
        }
        Ok(())
    }

    /// Stops the work; the removal stays under way.
    pub(crate) async fn halt_evacuation(&self) {
        self.evacuation.halting.store(true, Ordering::Release);
        loop {
            let halted = self.evacuation.halted.listen();
            if !self.evacuation.running.load(Ordering::Acquire) {
                return;
            }
            halted.await;
        }
    }

    /// What one txg does of a removal; false when nothing is left to be done.
    async fn empty_some(self: &Arc<Self>, tx: &Tx) -> Result<bool, PoolError> {
        let Some(top) = self.leaving_top() else { return Ok(false) };
        let Some(leaving) = top.config().leaving else { return Ok(false) };
        let limits = BatchLimits { bytes: self.tuning.copy_bytes, time: BATCH_TIME };
        let batch = evacuation::copy_some(&self.zio, &top, tx.txg(), limits).await?;
        if batch.entries.is_empty() {
            self.end_evacuation(tx, &top).await?;
            return Ok(false);
        }
        // From here on it is whole or never stable: room was taken for what was copied.
        tx.note_change();
        evacuation::append(&self.dsl, tx, leaving, &batch).await?;
        top.change_copied(|copied| copied.extend(batch.entries.iter().map(|(entry, _)| *entry)));
        let left = self
            .zio
            .with_allocator(|allocator| allocator.bytes_left_on(top.id(), top.with_copied(Mapping::end)));
        self.note_evacuation(tx, |phys| phys.copied.set(phys.to_copy.get().saturating_sub(left))).await?;
        Ok(true)
    }

    /// Changes what is known of the removal, here and in the meta-objset.
    async fn note_evacuation(
        &self,
        tx: &Tx,
        change: impl FnOnce(&mut RemovingPhys),
    ) -> Result<(), PoolError> {
        let mut phys = self.evacuation.phys().unwrap_or(RemovingPhys {
            last_removed: RemovingPhys::NO_VDEV.into(),
            ..RemovingPhys::default()
        });
        change(&mut phys);
        evacuation::store(&self.dsl, tx, &phys).await?;
        *self.evacuation.phys.lock() = Some(phys);
        Ok(())
    }

    /// Writes a configuration that says how a vdev stands by now, with the features that it takes to read the pool.
    async fn store_leaving(&self, tx: &Tx) -> Result<(), PoolError> {
        let needed_to_read = self.dsl.label_features().await?;
        self.config.lock().set_features(&needed_to_read);
        self.vdevs.mark_all_changed();
        self.store_config(tx).await
    }
}

/// How histories name a vdev that is one device.
fn path_of(top: &Top) -> String {
    match top.node() {
        vdev::Node::Leaf(leaf) => leaf.path().display().to_string(),
        _ => "-".to_owned(),
    }
}
