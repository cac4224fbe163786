//! The log in use, and its other face, which the txg engine sees.

use std::sync::Arc;

use env::{Env, boxed};
use ondisk::zil::ZilHeader;
use units::{ObjectId, ObjsetId, Txg, VdevId};

use crate::ZilError;
use crate::chain::HeaderState;
use crate::chain::leave::Leaving;
use crate::itx::Itx;
use crate::log::Core;
use crate::replay::meter::ReplayProgress;
use crate::stats::{LogBytes, ZilStats, bump};
use crate::store::LogStore;

/// One dataset's log, moving one way only: found, claimed, live. `Found` has no `replay`: until
/// claim has marked its blocks allocated, the import's first txg could reuse them.
#[derive(Debug)]
pub struct IntentLog<S> {
    pub(crate) core: Arc<Core>,
    pub(crate) state: S,
}

/// State of a log that takes records.
#[derive(Debug)]
pub struct Live;

impl IntentLog<Live> {
    /// The log of a dataset that has none on disk yet.
    #[must_use]
    pub fn empty(objset: ObjsetId, store: Arc<dyn LogStore>, env: Arc<dyn Env>) -> Self {
        Self { core: Core::new(objset, ZilHeader::default(), store, env), state: Live }
    }

    /// Remembers an operation until its txg has synced, should anybody ask for it before. The
    /// caller holds `txg` open, and the locks that order this operation among those it touches.
    pub fn assign(&self, txg: Txg, itx: Itx) {
        bump(&self.core.stats.itxs_assigned, 1);
        self.core.pending.lock().assign(txg, itx);
        if self.core.awaken() {
            self.core.catch_up();
        }
    }

    /// Forgets what only commits of `object` would write: it was removed for good. To be called
    /// before the removal is assigned, so that a new object of the same number inherits nothing.
    pub fn forget(&self, object: ObjectId) {
        self.core.pending.lock().forget(object);
    }

    /// Returns once everything assigned before the call is stable: the namespace's records and
    /// those of `object`, or of all objects. Stable means in the log, with all that comes before
    /// it there, or in a txg that has synced. May be cancelled at any point.
    ///
    /// # Errors
    /// Only when neither the log nor a txg could do it ([`ZilError::TxgStopped`]).
    pub async fn commit(&self, object: Option<ObjectId>) -> Result<(), ZilError> {
        self.core.commit(object).await
    }

    /// Allocates the first block of a chain, unless there is one, so that the next txg's header
    /// names it. Without this the first commit does it and waits for that txg.
    #[boxed]
    pub async fn prime(&self) {
        self.core.prime().await;
    }

    /// Stops using the log: waits until all records are stable through their txgs, frees every
    /// block, leaves an empty header. Later commits wait for txgs.
    ///
    /// # Errors
    /// [`ZilError::TxgStopped`].
    #[boxed]
    pub async fn close(&self) -> Result<(), ZilError> {
        self.core.close().await
    }

    /// Whether log devices are there to take data, whatever their size.
    #[must_use]
    pub fn has_log_devices(&self) -> bool {
        self.core.store.has_log_devices()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> ZilStats {
        self.core.stats.snapshot()
    }
}

/// What the txg engine calls. Outlives the states of the log.
#[derive(Clone, Debug)]
pub struct LogHandle(pub(crate) Arc<Core>);

impl LogHandle {
    /// Brings the log up to the syncing txg: frees what that txg makes needless and returns the
    /// header to be stored with it, when it changed. To be called once for each txg, in order,
    /// for every open log that is not at rest, before the objset is written; frees are handed to the
    /// store at once.
    ///
    /// # Panics
    /// When called for a txg twice, or out of order.
    #[boxed]
    pub async fn sync(&self, txg: Txg) -> Option<ZilHeader> {
        self.0.sync(txg).await
    }

    /// `txg` is stable: records of it are dropped, and who waits for it is answered.
    pub fn clean(&self, txg: Txg) {
        self.0.clean(txg);
    }

    /// Lets the log come to rest, if nothing is left to do for it: [`LogStore::leave`] is called then,
    /// and [`LogStore::attend`] as soon as there is. For the sync loop alone, once a txg is stable.
    pub fn rest(&self) {
        self.0.rest();
    }

    /// No more log blocks to `vdev`: it is suspect, or about to leave. What the chain has there
    /// already stays needed until its txgs have synced: see [`LogHandle::evacuate`].
    pub fn avoid(&self, vdev: VdevId) {
        let mut state = self.0.state.lock();
        if !state.avoid.contains(&vdev) {
            state.avoid.push(vdev);
        }
    }

    /// `vdev` does not answer, and nobody can write to it until it has: batches that are on their way to it alone count
    /// as failed, so that only a thread that is held in a system call waits for them. No more log blocks go to it.
    pub fn give_up(&self, vdev: VdevId) {
        self.avoid(vdev);
        self.0.give_up(vdev);
    }

    /// `vdev` was reopened and is trusted again.
    pub fn trust(&self, vdev: VdevId) {
        self.0.state.lock().avoid.retain(|&avoided| avoided != vdev);
    }

    /// Leaves `vdev`, and returns once no block of the log is there. It is avoided until it is trusted again.
    ///
    /// # Errors
    /// [`ZilError::TxgStopped`].
    #[boxed]
    pub async fn evacuate(&self, vdev: VdevId, how: Leaving) -> Result<(), ZilError> {
        self.avoid(vdev);
        self.0.evacuate(vdev, how).await
    }

    /// Has the chain go on elsewhere if its next block is to lie on a vdev that is not one of the `good` ones: where the
    /// store allocates now, a log vdev that was just added perhaps.
    pub async fn move_on(&self, good: impl Fn(VdevId) -> bool + Sync) {
        self.0.hop(&|tail| !good(tail.dva(0).vdev)).await;
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> ZilStats {
        self.0.stats.snapshot()
    }

    /// What it has written.
    #[must_use]
    pub fn bytes(&self) -> LogBytes {
        self.0.stats.bytes()
    }

    /// How far the replay of the log has got, if one is under way.
    #[must_use]
    pub fn replay_progress(&self) -> Option<ReplayProgress> {
        self.0.meter.progress(self.0.env.now())
    }

    /// Blocks that the log holds: those of the chain, and those waiting to be freed.
    #[must_use]
    pub fn blocks(&self) -> Vec<ondisk::Blkptr> {
        self.0.state.lock().places().collect()
    }

    /// Whether commits go through a chain now, rather than through txgs.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        let state = self.0.state.lock();
        state.chain.as_ref().is_some_and(|chain| match chain.header {
            HeaderState::Published(txg) => txg <= state.synced && chain.tail.is_some(),
            HeaderState::Unpublished => false,
        })
    }
}
