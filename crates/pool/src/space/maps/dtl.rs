//! The DTLs of leaves as space maps: one object for each leaf that missed something.
//!
//! ```text
//!  leaf's configuration ─ "DTL" ─► space map: each entry a range of txgs (start 0, unit 1)
//! ```
//! The map of a txg is part of that txg: an uberblock that a leaf misses leads to a map that
//! says so. (test: `a_returned_device_is_resilvered_and_holds_all`)

use dmu::Tx;
use dsl::Dsl;
use dsl::features::SPACEMAP_V2;
use ondisk::space_map::{MapType, Run};
use units::{ObjectId, Txg};
use vdev::{Dtl, Leaf, VdevTree};

use super::object;
use crate::PoolError;
use crate::config::{self, Config};

/// Data block of such a map: it is hardly ever longer.
const BLOCK_BYTES: u32 = 4 << 10;

/// Reads leaves' DTLs.
pub(crate) async fn load(dsl: &Dsl, vdevs: &VdevTree) -> Result<(), PoolError> {
    for leaf in vdevs.leaves().into_iter().filter(|leaf| leaf.config().dtl_object != 0) {
        let dnode = dsl.mos().hold(ObjectId::new(leaf.config().dtl_object)).await?;
        let mut dtl = Dtl::default();
        for run in object::read(&dnode).await? {
            let end = run.offset.checked_add(run.length).filter(|_| run.map_type == MapType::Alloc);
            let what = || "txgs that a device missed".to_owned();
            let end = end.ok_or_else(|| PoolError::Damaged { object: dnode.object(), what: what() })?;
            dtl.add(Txg::new(run.offset)..=Txg::new(end).prev());
        }
        leaf.load_dtl(dtl);
    }
    Ok(())
}

/// Records leaves' DTLs up to the txg that is being written, where they changed.
pub(crate) async fn record(dsl: &Dsl, tx: &Tx, config: &Config, vdevs: &VdevTree) -> Result<(), PoolError> {
    vdevs.note_dtls(tx.txg());
    let mut moved = false;
    for leaf in vdevs.leaves() {
        let Some(dtl) = leaf.take_unrecorded() else { continue };
        let before = leaf.config().dtl_object;
        let object = store(dsl, tx, before, &dtl).await?;
        if object != before {
            leaf.set_config(|config| config.dtl_object = object);
            vdevs.top(leaf.vdev())?.set_config(|_| {});
            moved = true;
        }
    }
    if moved {
        config::store(dsl, tx, config, vdevs).await?;
    }
    Ok(())
}

/// Takes away the map of a leaf that leaves the pool.
pub(crate) async fn forget(dsl: &Dsl, tx: &Tx, leaf: &Leaf) -> Result<(), PoolError> {
    let object = leaf.config().dtl_object;
    leaf.set_config(|config| config.dtl_object = 0);
    _ = store(dsl, tx, object, &Dtl::default()).await?;
    Ok(())
}

/// Writes one leaf's map anew; 0 when there is nothing to be said, and no map.
async fn store(dsl: &Dsl, tx: &Tx, object: u64, dtl: &Dtl) -> Result<u64, PoolError> {
    if dtl.is_empty() {
        if object != 0 {
            object::remove(dsl, tx, ObjectId::new(object)).await?;
        }
        return Ok(0);
    }
    let dnode = match object {
        0 => object::create(dsl, tx, BLOCK_BYTES).await?,
        known => dsl.mos().hold(ObjectId::new(known)).await?,
    };
    let length = |range: &std::ops::RangeInclusive<Txg>| range.end().next().get() - range.start().get();
    let run = |range: std::ops::RangeInclusive<Txg>| Run {
        map_type: MapType::Alloc,
        offset: range.start().get(),
        length: length(&range),
        vdev: None,
    };
    let runs: Vec<Run> = dtl.iter().map(run).collect();
    let two_words = dsl.feature_count(&SPACEMAP_V2).await?.is_some();
    object::rewrite(tx, &dnode, &runs, two_words).await?;
    Ok(dnode.object().get())
}
