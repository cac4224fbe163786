//! Chains that move: off a vdev that is to be removed, or onto a log vdev that was added.
//!
//! ```text
//!  header ─► block ─► block ─► tail              all of it on the vdev to be left
//!  header ─► block ─► block ─► block ─► tail     the old tail is written, the new one is elsewhere: the chain has hopped
//!  header ───────────────────────────► tail      the txgs of the blocks' records have synced
//! ```
//! Once nothing is allocated on a vdev any more, the tail is the only block that has still to be written there. A commit
//! writes it with its records in it; when no commit is there, a block without records is written. So nobody who commits
//! waits for a txg because the chain moves.
//!
//! Where a vdev does not work any more, nothing is written to it: the chain retires, and commits wait for the txg whose
//! header names the next one. The same happens when there is no room for a tail elsewhere.
//!
//! Invariants
//! - No commit waits for a txg because its chain leaves a vdev that works.
//!   (test: `a_chain_leaves_a_vdev_that_works_and_no_commit_waits_for_a_txg`)
//! - Nothing is written to a vdev that is left at once.
//!   (test: `a_vdev_that_does_not_work_is_left_without_a_write_to_it`)
//! - Leaving ends though commits never do. (test: `a_chain_leaves_though_commits_never_end`)

use std::sync::Arc;
use std::task::Waker;

use env::Shared;
use ondisk::Blkptr;
use units::VdevId;

use crate::ZilError;
use crate::log::Core;

/// How a chain leaves a vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The vdev works: the block that the chain has reserved there is written yet.
    AfterItsTail,
    /// It does not: nothing is written there any more.
    AtOnce,
}

impl Core {
    /// See [`crate::LogHandle::evacuate`].
    pub(crate) async fn evacuate(self: &Arc<Self>, vdev: VdevId, how: Leaving) -> Result<(), ZilError> {
        let is_there = |bp: &Blkptr| bp.dvas().any(|dva| dva.vdev == vdev);
        if how == Leaving::AfterItsTail {
            self.hop(&is_there).await;
        }
        self.retire_if(&is_there).await;
        while self.state.lock().places().any(|bp| is_there(&bp)) {
            self.catch_up();
            self.prime().await;
            let txg = self.store.open_txg();
            self.store.wait_synced(txg).await?;
            self.clean(txg);
        }
        Ok(())
    }

    /// Has the chain's tail written, and so the next one allocated, if it lies where it should not. A log without a
    /// chain, or one that is closing, has nothing to move.
    pub(crate) async fn hop(self: &Arc<Self>, should_move: &(dyn Fn(&Blkptr) -> bool + Sync)) {
        self.finish_stage().await;
        let (step, has_rested) = {
            let mut state = self.state.lock();
            let tail = state.chain.as_ref().and_then(|chain| chain.tail);
            if state.closing || !tail.is_some_and(|tail| should_move(&tail)) {
                return;
            }
            let has_rested = self.awaken();
            let under_way = state.stage.as_ref().map(|stage| stage.step.clone());
            let step = under_way.unwrap_or_else(|| {
                let step = Shared::new(self.hopper(&mut state));
                state.start(step.clone(), None);
                step
            });
            (step, has_rested)
        };
        if has_rested {
            self.catch_up();
        }
        step.await;
        // Nobody else may be there to see the write to its end.
        let newest = self.state.lock().flights.back().map(|flight| flight.io.clone());
        if let Some(flight) = newest {
            flight.await;
        }
    }

    /// Ends a chain that cannot leave in any other way.
    async fn retire_if(&self, is_there: &(dyn Fn(&Blkptr) -> bool + Sync)) {
        self.finish_stage().await;
        let mut wakers = Vec::new();
        {
            let mut state = self.state.lock();
            let has_to = state.chain.as_ref().is_some_and(|chain| match chain.tail {
                Some(tail) => is_there(&tail),
                None => chain.places().any(|bp| is_there(&bp)),
            });
            if has_to {
                state.retire();
                state.delegate(&mut wakers);
                self.awaken();
            }
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for what is being put into blocks: it may have reserved places that its log does not know of yet.
    async fn finish_stage(&self) {
        let stage = self.state.lock().stage.as_ref().map(|stage| stage.step.clone());
        if let Some(stage) = stage {
            stage.await;
        }
    }
}
