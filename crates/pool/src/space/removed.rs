//! Data vdevs that were removed, or are being removed: noting which of their blocks are let go.
//!
//! ```text
//!  txg       a block is freed ─► its pieces' space is free ─► its runs on removed vdevs ─► space map of each vdev
//! ```
//! A mapping shrinks when it is condensed: runs are left out of it that nothing refers to any more. That takes knowing
//! them, so every run that is freed goes into its vdev's space map of what is obsolete, whole blocks as they are
//! freed. Condensing itself is left to OpenZFS; one that it began and did not finish it takes up again, for it goes by
//! the space map as it was when it began.
//!
//! Invariants
//! - What is obsolete is just what no block refers to, at each txg's end.
//!   (test: `what_is_freed_of_a_removed_vdev_is_free_where_it_is_and_obsolete_where_it_was`)

use dmu::Tx;
use dmu::zap::Zap;
use dsl::Dsl;
use dsl::features::{OBSOLETE_COUNTS, SPACEMAP_V2};
use metaslab::{Change, ChangeKind};
use ondisk::mos::vdev_zap::INDIRECT_OBSOLETE_SM;
use units::{Ashift, Asize, ObjectId};
use vdev::{Run, Top, VdevTree};
use zio::Zio;

use super::maps::object::{self, Region};
use crate::PoolError;

/// Data block of a space map of what is obsolete. Small, because each txg rewrites the last one.
const BLOCK_BYTES: u32 = 16 << 10;

/// Such a map counts bytes, and not sectors as those of metaslabs do.
const BYTES: Ashift = Ashift::new(0);

/// Notes what was let go on removed vdevs since this was last called.
pub(crate) async fn record(dsl: &Dsl, tx: &Tx, zio: &Zio, vdevs: &VdevTree) -> Result<(), PoolError> {
    let mut runs = zio.take_obsolete(tx.txg());
    if runs.is_empty() || dsl.feature_count(&OBSOLETE_COUNTS).await?.is_none() {
        return Ok(());
    }
    runs.sort_unstable();
    for of_vdev in runs.chunk_by(|one, next| one.vdev == next.vdev) {
        record_of(dsl, tx, &*vdevs.top(of_vdev[0].vdev)?, of_vdev).await?;
    }
    Ok(())
}

async fn record_of(dsl: &Dsl, tx: &Tx, top: &Top, runs: &[Run]) -> Result<(), PoolError> {
    let dnode = dsl.mos().hold(obsolete_map(dsl, tx, top).await?).await?;
    let region = Region { start: 0, ashift: BYTES, named: None };
    let change = |run: &Run| Change { kind: ChangeKind::Alloc, offset: run.offset, len: Asize::new(run.len) };
    let entries: Vec<_> = runs.iter().map(|run| region.run(&change(run))).collect();
    let bytes: u64 = runs.iter().map(|run| run.len).sum();
    let two_words = dsl.feature_count(&SPACEMAP_V2).await?.is_some();
    object::append_runs(tx, &dnode, &entries, two_words, bytes as i64).await
}

/// The space map of what is obsolete of a vdev; a new one if there is none.
async fn obsolete_map(dsl: &Dsl, tx: &Tx, top: &Top) -> Result<ObjectId, PoolError> {
    let zap = Zap::hold(dsl.mos(), ObjectId::new(top.config().top_zap)).await?;
    if let Some(known) = zap.lookup_u64(INDIRECT_OBSOLETE_SM.as_bytes()).await? {
        return Ok(ObjectId::new(known));
    }
    let made = object::create(dsl, tx, BLOCK_BYTES).await?.object();
    zap.add_u64(tx, INDIRECT_OBSOLETE_SM.as_bytes(), made.get()).await?;
    dsl.count_feature(tx, &OBSOLETE_COUNTS, 1).await?;
    Ok(made)
}
