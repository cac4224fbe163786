//! Making a transaction group stable.
//!
//! ```text
//!  0 early tasks  a checkpoint made, or given up
//!  1 datasets   log headers, objects, trees     ─► roots, blocks let go
//!  2 tasks      datasets made, properties set … ─► meta-objset
//!  3 passes     what leaves missed, space maps ─► meta-objset ─► allocations ─► space maps …  until nothing is new
//!  4 labels     flush, even labels, uberblock, odd labels
//! ```
//! Space maps are objects of the meta-objset, and writing it allocates: the knot of the format.
//! It is untied by rewriting. From the second pass on a block born in this txg is written
//! again in place, and blocks of older txgs are not freed but put on a list (`sync_bplist`)
//! that the next txg's first pass frees; so each pass changes less than the one before.
//!
//! Invariants
//! - Nothing of the last stable txg is overwritten or reused before this one is stable.
//! - A request that its devices do not do waits, and is done again when they work: see [`zio::Suspension`].
//!   (test: `a_txg_whose_devices_fail_at_any_request_is_complete_once_they_work`)
//! - An uberblock is of the txg after the last stable one, and its root of no later one: asserted before labels are written.
//! - A crash anywhere here leaves the last stable txg; after step 4, this one.

use std::collections::BTreeSet;
use std::sync::Arc;

use dmu::{Quiet, SpaceDelta, SyncRead, Tx};
use env::impatient;
use futures::future::{join, try_join_all};
use ondisk::{Blkptr, UberblockPhys};
use units::{Txg, VdevId};
use vdev::{LabelSync, VdevError};
use zerocopy::FromZeros;

use crate::log::store::LoggedClones;
use crate::space::maps::{At, record_dtls};
use crate::space::removed;
use crate::txg::tasks::TaskQueue;
use crate::{Pool, PoolError};

/// More passes than this mean that the sync does not converge: a bug.
const PASSES_MAX: usize = 50;

impl Pool {
    /// Makes a txg that nobody is in any more stable.
    pub(crate) async fn sync(self: &Arc<Self>, quiet: Quiet) -> Result<(), PoolError> {
        let txg = quiet.txg();
        self.note_log_load(txg);
        let ((), written) = join(self.trim(txg), self.write_txg(quiet.tx())).await;
        written?;
        self.zio.with_allocator(|allocator| allocator.sync_done(txg));
        self.use_joined();
        impatient(self.let_go_of_detached()).await;
        // Who waits for the txg sees its space when told.
        self.space.outdate();
        self.gate.finish(quiet);
        self.zio.make_room_for(self.gate.dirty_bytes());
        for dataset in self.open_ones(&self.log_store.awake()) {
            dataset.synced(txg);
        }
        Ok(())
    }

    async fn write_txg(self: &Arc<Self>, tx: Tx) -> Result<(), PoolError> {
        let txg = tx.txg();
        self.run_tasks(&self.early_tasks, &tx).await;
        // What a txg does beside its own work is not worth waiting for a bad place to become good.
        impatient(self.heal()).await;
        self.sync_logs(&tx).await;
        self.log_store.check_frees()?;
        self.sync_datasets(&tx).await?;
        self.run_tasks(&self.tasks, &tx).await;
        if let Some(failed) = self.gate.failed().filter(|&failed| failed <= txg) {
            return Err(PoolError::Suspended { txg: failed });
        }
        impatient(self.store_errors(&tx)).await;
        // A task may have made a dataset, or changed one's objset.
        self.sync_datasets(&tx).await?;
        for bp in self.dsl.take_obsolete() {
            self.zio.note_obsolete(txg, &bp)?;
        }
        match impatient(self.free_some(&tx)).await {
            // The list of blocks to free is lost. Its blocks are leaked, and the txg continues.
            Err(error) if error.is_loss() && SyncRead::FreeList.goes_on() => self.stop_freeing(&error),
            freed => freed?,
        }
        self.discard_some(&tx).await?;
        self.sync_mos(&tx).await?;
        self.sync_labels(txg).await
    }

    /// A task that cannot do its work is refused until it has changed something; then the txg needs it as it needs all else.
    async fn run_tasks(self: &Arc<Self>, tasks: &TaskQueue, tx: &Tx) {
        for task in tasks.take(tx.txg()) {
            let tx = tx.again();
            let _nobody_views = self.views.keep_out().await;
            tx.footprint().patient_once_there(task(Arc::clone(self), tx)).await;
        }
    }

    /// Every log that is not at rest says, once a txg, from where its chain is still needed.
    async fn sync_logs(&self, tx: &Tx) {
        for dataset in self.open_ones(&self.log_store.awake()) {
            if let Some(header) = dataset.sync_log(tx.txg()).await {
                dataset.objset.set_zil_header(tx.txg(), header);
            }
        }
    }

    async fn sync_datasets(&self, tx: &Tx) -> Result<(), PoolError> {
        // The meta-objset is on the list too, and comes last.
        let datasets = self.open_ones(&self.gate.take_changed(tx.txg()));
        let mut synced = try_join_all(datasets.iter().map(|dataset| dataset.objset.sync(tx.txg()))).await?;
        let LoggedClones { claimed: mut cloned, freed } = self.log_store.take_clones();
        for synced in synced.iter_mut().flatten() {
            cloned.append(&mut synced.cloned);
        }
        self.count_clones(tx, &cloned).await?;
        for (dataset, synced) in datasets.iter().zip(synced) {
            if let Some(point) = dataset.take_received(tx.txg()) {
                self.dsl.note_received(tx, dataset.object(), point).await?;
            }
            let Some(synced) = synced else { continue };
            let dmu::SyncedObjset { root, delta, killed, unused, born, births, leaks, .. } = synced;
            for bp in self.dsl.apply_sync(tx, dataset.object(), root, delta, killed, births).await? {
                self.free_block(tx, &bp).await?;
            }
            for leak in leaks {
                self.lose_blocks(tx, dataset.object(), leak).await?;
            }
            // Nobody but the log ever referred to these.
            for bp in unused {
                self.zio.free(tx.txg(), &bp).await?;
            }
            if dataset.has_new_kinds(born) {
                self.dsl.note_blocks(tx, dataset.object(), born).await?;
            }
        }
        for bp in freed {
            self.free_block(tx, &bp).await?;
        }
        Ok(())
    }

    /// Repeats what the meta-objset and the space maps do to each other until both are still.
    async fn sync_mos(&self, tx: &Tx) -> Result<(), PoolError> {
        self.deferred.free_all(tx, &self.zio).await?;
        self.take_in_leaks(tx).await?;
        self.brt.sync(&self.dsl, tx).await?;
        self.ddt.sync(&self.dsl, tx).await?;
        self.space.set_shared(self.brt.space().await.saved_bytes + self.ddt.space().await.saved_bytes);
        let carried = std::mem::take(&mut *self.mos_delta.lock());
        if carried != SpaceDelta::default() {
            self.dsl.add_mos_space(tx, carried).await?;
        }
        let at = At { dsl: &self.dsl, tx, zio: &self.zio, vdevs: &self.vdevs };
        for pass in 1..=PASSES_MAX {
            let config = self.config.lock().clone();
            record_dtls(&self.dsl, tx, &config, &self.vdevs).await?;
            removed::record(&self.dsl, tx, &self.zio, &self.vdevs).await?;
            self.space_maps.record(&at, pass).await?;
            let Some(synced) = self.mos.sync(tx.txg()).await? else { return Ok(()) };
            assert_eq!(
                self.mos.root().birth(),
                tx.txg(),
                "the root of a meta-objset that has changed is of its txg"
            );
            let mut delta = synced.delta;
            for leak in synced.leaks {
                delta.used -= i64::try_from(leak.bytes).unwrap_or(0);
                // The next txg counts the leak.
                self.zio.note_leak(leak);
            }
            *self.mos_delta.lock() += delta;
            self.let_go(tx, pass, &synced.killed).await?;
        }
        panic!("txg {} does not converge in {PASSES_MAX} passes", tx.txg());
    }

    /// Frees blocks of the meta-objset; late in a txg, older ones are put off to the next.
    async fn let_go(&self, tx: &Tx, pass: usize, killed: &[Blkptr]) -> Result<(), PoolError> {
        let (now, later): (Vec<&Blkptr>, Vec<&Blkptr>) =
            killed.iter().partition(|bp| pass == 1 || bp.birth() == tx.txg());
        for bp in now {
            self.zio.free(tx.txg(), bp).await?;
        }
        if later.is_empty() {
            return Ok(());
        }
        // What lies in a pointer has nothing to free.
        let later: Vec<Blkptr> = later.into_iter().filter(|bp| !bp.is_embedded()).copied().collect();
        self.deferred.append(&self.dsl, tx, &later).await
    }

    async fn sync_labels(&self, txg: Txg) -> Result<(), PoolError> {
        let root = self.mos.root();
        let last = self.gate.synced_txg();
        assert_eq!(txg, last.next(), "txgs become stable one after the other");
        assert!(root.birth() <= txg, "a root of txg {} in the uberblock of txg {txg}", root.birth());
        let mut uberblock = UberblockPhys::new_zeroed();
        uberblock.magic.set(ondisk::UBERBLOCK_MAGIC);
        let version = self.config.lock().version();
        uberblock.version.set(version);
        uberblock.txg.set(txg.get());
        uberblock.guid_sum.set(self.vdevs.guid_sum());
        uberblock.timestamp.set(self.env.wall_clock().as_secs());
        uberblock.rootbp = root;
        self.multihost.mark(&mut uberblock);
        uberblock.software_version.set(crate::config::POOL_VERSION);
        self.make_stable(&uberblock).await?;
        *self.last_uberblock.lock() = Some(uberblock);
        self.zio.forget_unstable();
        Ok(())
    }

    /// Flushes what the txg wrote, and writes its labels; the same again until devices have done all of it.
    /// A flush says nothing of what a device was given before it was opened anew, so that a try
    /// counts only if none was meanwhile.
    pub(crate) async fn make_stable(&self, uberblock: &UberblockPhys) -> Result<(), PoolError> {
        let (mut written, mut dirty) = (BTreeSet::new(), BTreeSet::new());
        let mut tries = self.suspension().tries();
        loop {
            let reopened = self.vdevs.reopened();
            match self.try_to_make_stable(uberblock, &mut written, &mut dirty).await {
                Ok(()) if self.vdevs.reopened() == reopened => {
                    if !dirty.is_empty() {
                        self.tell_done("config_sync", None);
                    }
                    return Ok(());
                }
                Ok(()) => {}
                Err(error) if tries.next(&error).await => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn try_to_make_stable(
        &self,
        uberblock: &UberblockPhys,
        written: &mut BTreeSet<VdevId>,
        dirty: &mut BTreeSet<VdevId>,
    ) -> Result<(), VdevError> {
        self.zio.write_lost_again().await?;
        written.append(&mut self.zio.take_unflushed());
        dirty.append(&mut self.vdevs.take_changed());
        let pool = self.config.lock().at(uberblock.txg());
        let multihost = self.multihost.is_on();
        let sync = LabelSync { uberblock, pool: &pool, dirty, written, multihost };
        self.multihost.syncing(uberblock);
        let begun = self.env.now();
        self.vdevs.sync_labels(&sync).await?;
        self.multihost.synced(uberblock, begun, self.env.now());
        Ok(())
    }
}
