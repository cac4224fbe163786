//! Data vdevs that were removed: reading where their blocks are now, and noting which of these are let go.
//!
//! ```text
//!  import    com.delphix:removing ─► the vdev removed last ─► the one before … : mappings, in this order
//!  txg       a block is freed ─► its pieces' space is free ─► its runs on removed vdevs ─► space map of each vdev
//! ```
//! The mapping of a vdev is an object of the meta-objset, and may lie on a vdev that was removed later: so the latest is
//! read first. What is read before any of them OpenZFS has written anew at each removal.
//!
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
use dsl::features::{DEVICE_REMOVAL, OBSOLETE_COUNTS, SPACEMAP_V2};
use metaslab::{Change, ChangeKind};
use ondisk::indirect::{ENTRY_BYTES, MappingPhys, RemovingPhys, entries};
use ondisk::mos::directory::REMOVING;
use ondisk::mos::vdev_zap::INDIRECT_OBSOLETE_SM;
use units::{Ashift, Asize, ObjectId, SECTOR_BYTES, VdevId};
use vdev::{Mapping, Removed, Run, Top, VdevTree};
use zio::Zio;

use super::maps::object::{self, Region};
use crate::PoolError;

/// Data block of a space map of what is obsolete. Small, because each txg rewrites the last one.
const BLOCK_BYTES: u32 = 16 << 10;

/// Such a map counts bytes, and not sectors as those of metaslabs do.
const BYTES: Ashift = Ashift::new(0);

/// Reads the mappings of all vdevs that were removed.
pub(crate) async fn load(dsl: &Dsl, vdevs: &VdevTree) -> Result<(), PoolError> {
    let removed = vdevs.removed_tops();
    let mut next = if removed.is_empty() { None } else { state(dsl).await?.last() };
    for _ in &removed {
        let Some(id) = next else { break };
        let top = vdevs.top(id)?;
        let Some(removed) = top.removed().filter(|removed| removed.mapping().is_none()) else { break };
        removed.set_mapping(mapping(dsl, &top, removed).await?);
        next = removed.config().previous;
    }
    let is_read = |top: &Top| top.removed().is_some_and(|removed| removed.mapping().is_some());
    match removed.iter().find(|top| !is_read(top)) {
        Some(top) => {
            let object = dsl.directory().object();
            Err(PoolError::Damaged {
                object,
                what: format!("vdev {} is not among the removed ones", top.id()),
            })
        }
        None => Ok(()),
    }
}

/// What keeps the pool from being changed: a removal under way, for what is freed then has to be freed in two places.
pub(crate) async fn obstacle(dsl: &Dsl) -> Result<Option<String>, PoolError> {
    Ok(state(dsl).await?.is_under_way().then(|| DEVICE_REMOVAL.guid.to_owned()))
}

/// How the last removal stands.
async fn state(dsl: &Dsl) -> Result<State, PoolError> {
    let damaged = |what: String| PoolError::Damaged { object: dsl.directory().object(), what };
    let found = dsl.directory().lookup(REMOVING.as_bytes()).await?;
    let decoded = found.map(|value| RemovingPhys::decode(value.as_u64s())).transpose();
    Ok(State(decoded.map_err(|error| damaged(error.to_string()))?))
}

/// How the last removal stands, if there ever was one.
#[derive(Clone, Copy, Debug, Default)]
struct State(Option<RemovingPhys>);

impl State {
    /// The vdev whose removal finished last.
    fn last(self) -> Option<VdevId> {
        self.0.and_then(|state| u32::try_from(state.last_removed.get()).ok()).map(VdevId::new)
    }

    /// Whether blocks are being copied.
    fn is_under_way(self) -> bool {
        self.0.is_some_and(|state| state.state.get() == RemovingPhys::UNDER_WAY)
    }
}

async fn mapping(dsl: &Dsl, top: &Top, removed: &Removed) -> Result<Mapping, PoolError> {
    let object = removed.config().mapping;
    let damaged = |what: String| PoolError::Damaged { object, what };
    let dnode = dsl.mos().hold(object).await?;
    let phys = MappingPhys::decode(&dnode.bonus()).map_err(|error| damaged(error.to_string()))?;
    let asize = top.config().asize;
    let bytes = mapping_bytes(&phys, asize);
    let bytes = bytes.ok_or_else(|| damaged(format!("mapping of {} entries", phys.entries)))?;
    let packed = dnode.read_first(bytes).await?;
    let entries = entries(&packed).collect::<Result<Vec<_>, _>>().map_err(|e| damaged(e.to_string()))?;
    Mapping::new(entries, asize).ok_or_else(|| damaged("mapping out of order, or beyond its vdev".into()))
}

/// How long a mapping's entries are in bytes, if a vdev of that size can have so many.
fn mapping_bytes(phys: &MappingPhys, asize: u64) -> Option<u64> {
    let entries = Some(phys.entries.get()).filter(|entries| *entries <= asize / SECTOR_BYTES)?;
    entries.checked_mul(ENTRY_BYTES as u64)
}

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
