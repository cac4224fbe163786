//! Devices whose work is done are let go of: old ones that were replaced, spares whose devices are back.
//!
//! ```text
//!  resilver ends ─► DTL empty ─► taken out of the vdev ─► configuration ─► stable ─► label wiped, closed
//!                   └──────────── one txg ─────────────────────────────┘
//! ```
//! The end of the resilver, the empty DTL and the vdev without the old device are of one txg: a crash before it
//! is stable leaves a device that is being replaced, and the resilver is done again; a crash after it, one
//! that was replaced. The old device's label is wiped last. A crash before that leaves a device whose
//! label says that it is of the pool, and a pool that knows of no such device.
//!
//! Invariants
//! - A crash at any flush of a resilver and its end leaves a pool that imports and goes on with it.
//!   (test: `a_crash_anywhere_in_a_replace_leaves_a_pool_that_goes_on`)

use dmu::Tx;
use vdev::retire_label;

use crate::space::maps::forget_dtl;
use crate::{Pool, PoolError, config};

impl Pool {
    /// Takes all leaves out of their vdevs that are not needed any more; see [`vdev::VdevTree::finished`].
    pub(crate) async fn detach_finished(&self, tx: &Tx) -> Result<(), PoolError> {
        let mut is_any = false;
        while let Some(leaf) = self.vdevs.finished() {
            config::forget_leaf_zap(&self.dsl, tx, &leaf).await?;
            forget_dtl(&self.dsl, tx, &leaf).await?;
            self.vdevs.take_out(leaf.guid())?;
            for back in
                self.vdevs.leaves().iter().filter(|back| back.vdev() == leaf.vdev() && !back.is_stale())
            {
                back.set_config(|config| config.unspare = false);
            }
            tracing::info!(guid = leaf.guid().get(), path = %leaf.path().display(), "detached");
            self.detached.lock().push(leaf);
            is_any = true;
        }
        if !is_any {
            return Ok(());
        }
        let config = self.config.lock().clone();
        config::store(&self.dsl, tx, &config, &self.vdevs).await
    }

    /// The txg is stable in which leaves were detached: nothing leads to them any more.
    pub(crate) async fn let_go_of_detached(&self) {
        let detached = std::mem::take(&mut *self.detached.lock());
        let (guid, pool) = (self.guid(), self.config.lock().at(self.gate.synced_txg()));
        for leaf in detached {
            if let Err(error) = retire_label(guid, &leaf, &pool).await {
                tracing::warn!(%error, "a detached device keeps its label");
            }
            leaf.close();
        }
    }
}
