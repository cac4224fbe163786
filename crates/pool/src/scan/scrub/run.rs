//! The work of a scrub, in small batches.
//!
//! ```text
//!   join a txg ─► down from the root to the place ─► 64 blocks ─► scrub ─► leave ─► rest
//! ```
//! A pointer may be trusted for as long as its block lives. Pointers are looked up anew in each
//! batch while it takes part in the open txg: until that txg has synced nothing that was
//! freed is used again. Blocks younger than the scrub's beginning are left alone, for the sync
//! loop may write those of its own txg again in place.
//!
//! After each batch the scrub rests if others wait ([`Pool::rest_if_others_wait`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dmu::{DmuError, Lost, Objset, Place, Reach, Visited};
use dsl::DslError;
use env::{IoClass, in_class};
use futures::future::join_all;
use ondisk::Blkptr;
use ondisk::dsl::scan::{ScanPhys, func, state};
use units::{ObjectId, ObjsetId, Txg};
use vdev::Dtl;
use zio::{Bookmark, Scrubbed, ZioError};

use super::{Dtls, STORE_EVERY, max_txg};
use crate::{BackgroundWork, Pool, PoolError};

/// Blocks looked up at a time.
const BATCH_BLOCKS: usize = 64;
/// Blocks read at a time.
const AT_ONCE: usize = 8;
/// A young block that cannot be read may just be written: so many more txgs are waited for.
const PATIENCE: u32 = 3;
/// What the format's bookmark names when no dataset is under way.
pub(super) const NO_DATASET: u64 = u64::MAX;

/// What is visited now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Mos,
    Dataset(ObjectId),
    Between,
}

struct Work {
    stage: Stage,
    place: Place,
    visited: BTreeSet<ObjectId>,
    /// How often the place was tried without success.
    tries: u32,
}

impl Pool {
    /// Reads the blocks until the last block, or until the work is halted.
    pub(super) async fn work_through(self: &Arc<Self>) -> Result<(), PoolError> {
        let mut work = self.taken_up().await?;
        let mut stored_at = self.env.now();
        while !self.scrubs.halting.load(Ordering::Acquire) {
            if self.is_held_back(BackgroundWork::Scans).await {
                continue;
            }
            if work.stage == Stage::Between && !self.next_dataset(&mut work).await? {
                return self
                    .in_sync(|pool, tx| async move { pool.end_scan(&tx, state::FINISHED).await })
                    .await;
            }
            let started = self.env.now();
            self.batch(&mut work).await?;
            self.note_place(&work);
            self.rest_if_others_wait(&self.vdevs.leaves(), started, 1).await;
            if self.env.now().saturating_sub(stored_at) >= STORE_EVERY {
                self.in_sync(|pool, tx| async move { pool.store_scan(&tx).await }).await?;
                stored_at = self.env.now();
            }
        }
        Ok(())
    }

    async fn taken_up(&self) -> Result<Work, PoolError> {
        let (words, ready) = {
            let now = self.scrubs.now.lock();
            (now.phys.bookmark.map(|word| word.get()), now.ready.clone())
        };
        let place = Place::from_words([words[1], words[2], words[3]]);
        let mut work = Work { stage: Stage::Mos, place, visited: BTreeSet::new(), tries: 0 };
        if words[0] == 0 {
            let ready = self.first_datasets().await?;
            self.scrubs.now.lock().ready = ready;
            return Ok(work);
        }
        work.visited = self.ancestors(&ready).await;
        work.stage =
            if words[0] == NO_DATASET { Stage::Between } else { Stage::Dataset(ObjectId::new(words[0])) };
        Ok(work)
    }

    fn note_place(&self, work: &Work) {
        let mut now = self.scrubs.now.lock();
        let objset = match work.stage {
            Stage::Mos => 0,
            Stage::Dataset(object) => object.get(),
            Stage::Between => NO_DATASET,
        };
        let [object, level, block] = work.place.to_words();
        for (to, word) in now.phys.bookmark.iter_mut().zip([objset, object, level, block]) {
            to.set(word);
        }
    }

    /// Chooses the dataset to go on with; false when all are done.
    async fn next_dataset(&self, work: &mut Work) -> Result<bool, PoolError> {
        loop {
            let next = self.scrubs.now.lock().ready.pop_first();
            let Some(next) = next else {
                // What was created or destroyed meanwhile is not in the queue.
                let missed = self.unvisited(&work.visited).await?;
                if missed.is_empty() {
                    return Ok(false);
                }
                self.scrubs.now.lock().ready = missed;
                continue;
            };
            if work.visited.contains(&next) || self.dsl.dataset(next).await.is_err() {
                continue;
            }
            (work.stage, work.place) = (Stage::Dataset(next), Place::START);
            return Ok(true);
        }
    }

    async fn batch(&self, work: &mut Work) -> Result<(), PoolError> {
        let alive = self.gate.join()?;
        let (id, root, born_after) = match self.root_of(work.stage).await {
            Ok(found) => found,
            // Destroyed meanwhile.
            Err(_) if work.stage != Stage::Mos => return self.stage_done(work).await,
            Err(error) => return Err(error),
        };
        let phys = self.scrubs.now.lock().phys;
        let dtls = self.dtls_by_vdev(&phys);
        let born_after = born_after.max(Txg::new(phys.min_txg.get()));
        let reach = Reach { from: work.place, born_after, limit: BATCH_BLOCKS };
        let Visited { blocks, lost, next } = Objset::visit(&self.zio, id, &root, reach).await;
        let max = max_txg(&phys);
        if work.tries < PATIENCE && lost.iter().any(|lost| lost.birth > max) {
            drop(alive);
            work.tries += 1;
            return Ok(self.gate.wait_synced(self.gate.open_txg()).await?);
        }
        work.tries = 0;
        lost.iter().for_each(|lost| self.count_lost(lost));
        let is_missed = |by: &Dtls, bp: &Blkptr| is_missed(bp, by) || self.was_copied(bp);
        let is_due = |bp: &Blkptr| bp.birth() <= max && dtls.as_ref().is_none_or(|by| is_missed(by, bp));
        let due: Vec<_> = blocks.into_iter().filter(|(_, bp)| is_due(bp)).collect();
        for some in due.chunks(AT_ONCE) {
            let reads = join_all(some.iter().map(|(bookmark, bp)| self.zio.scrub(bp, bookmark)));
            let scrubbed = in_class(IoClass::Scrub, reads).await;
            let absent = scrubbed.iter().find_map(|result| result.as_ref().err().filter(|e| is_absence(e)));
            if let Some(error) = absent
                && self.suspension().tries().next(error).await
            {
                // The whole batch again, with pointers looked up anew.
                return Ok(());
            }
            for ((bookmark, bp), result) in some.iter().zip(scrubbed) {
                self.count(bookmark, bp, result);
            }
        }
        drop(alive);
        match next {
            Some(next) => work.place = next,
            None => self.stage_done(work).await?,
        }
        Ok(())
    }

    /// What a resilver is for; `None` for a scrub, which is for everything.
    fn dtls_by_vdev(&self, phys: &ScanPhys) -> Option<Dtls> {
        if phys.func.get() != func::RESILVER {
            return None;
        }
        let mut dtls = Dtls::new();
        for leaf in self.behind() {
            dtls.entry(leaf.vdev()).or_default().push(leaf.dtl());
        }
        Some(dtls)
    }

    async fn root_of(&self, stage: Stage) -> Result<(ObjsetId, Blkptr, Txg), PoolError> {
        match stage {
            Stage::Dataset(object) => {
                let phys = self.dsl.dataset(object).await?;
                Ok((ObjsetId::new(object.get()), phys.bp, Txg::new(phys.prev_snapshot_txg.get())))
            }
            Stage::Mos | Stage::Between => Ok((ObjsetId::MOS, self.mos.root(), Txg::ZERO)),
        }
    }

    async fn stage_done(&self, work: &mut Work) -> Result<(), PoolError> {
        if let Stage::Dataset(object) = work.stage {
            work.visited.insert(object);
            match self.dsl.dataset(object).await {
                Ok(phys) => {
                    let next = self.successors(&phys).await?;
                    self.scrubs.now.lock().ready.extend(next);
                }
                Err(DslError::Dmu(DmuError::Suspended { txg })) => return Err(PoolError::Suspended { txg }),
                Err(_) => {}
            }
        }
        (work.stage, work.place) = (Stage::Between, Place::START);
        Ok(())
    }

    fn count(&self, bookmark: &Bookmark, bp: &Blkptr, result: Result<Scrubbed, ZioError>) {
        let bytes = bp.asize_total().get();
        let mut now = self.scrubs.now.lock();
        now.pass.examined += bytes;
        let examined = now.phys.examined.get() + bytes;
        now.phys.examined.set(examined);
        match result {
            Ok(scrubbed) => {
                let repaired = bp.psize().get() * scrubbed.bad_copies as u64;
                let processed = now.phys.processed.get() + repaired;
                now.phys.processed.set(processed);
            }
            Err(ZioError::Unsupported { what, .. }) => tracing::debug!(%bookmark, what, "not scrubbed"),
            Err(error) => {
                tracing::warn!(%error, "found by the scrub");
                let errors = now.phys.errors.get() + 1;
                now.phys.errors.set(errors);
                self.errors.note(*bookmark, bp.birth());
            }
        }
    }

    /// A block whose bytes are right but make no sense is no copy's fault, and no less lost.
    fn count_lost(&self, lost: &Lost) {
        if matches!(lost.error, DmuError::Damaged { .. }) && self.errors.note(lost.bookmark, lost.birth) {
            tracing::warn!(error = %lost.error, "found by the scrub");
            let mut now = self.scrubs.now.lock();
            let errors = now.phys.errors.get() + 1;
            now.phys.errors.set(errors);
        }
    }

    /// Whether a copy of a block was copied to where it is when its vdev was removed: in a txg that nothing here tells.
    fn was_copied(&self, bp: &Blkptr) -> bool {
        bp.dvas().any(|dva| self.vdevs.top(dva.vdev).is_ok_and(|top| top.is_removed()))
    }
}

/// Whether a block is not damaged, but on devices that are not there: these are waited for.
fn is_absence(error: &ZioError) -> bool {
    matches!(error, ZioError::Read { source, .. } if source.is_absence())
}

/// Whether some leaf of a vdev where the block lies missed the txg in which it was written. A gang's
/// members may lie anywhere.
fn is_missed(bp: &Blkptr, dtls: &Dtls) -> bool {
    let born = bp.physical_birth();
    let any = |some: &Vec<Dtl>| some.iter().any(|dtl| dtl.contains(born));
    match bp.is_gang() {
        true => dtls.values().any(any),
        false => bp.dvas().any(|dva| dtls.get(&dva.vdev).is_some_and(any)),
    }
}
