//! One space map object: its entries, and the header in its bonus.

use std::ops::Range;
use std::sync::Arc;

use dmu::{Dnode, DnodeSpec, Tx};
use dsl::Dsl;
use dsl::features::{SPACEMAP_HISTOGRAM, SPACEMAP_V2};
use metaslab::{Allocator, Change, ChangeKind, MetaslabId};
use ondisk::ObjectType;
use ondisk::space_map::{self, Encoder, MapType, Run, SPACE_MAP_BYTES_V0, SpaceMapEntry, SpaceMapPhys};
use units::{Ashift, Asize, ObjectId, VdevId, VdevOffset};
use zerocopy::IntoBytes;

use crate::PoolError;

/// A map is condensed when it is so many times longer than it would be then …
const CONDENSE_FACTOR: u64 = 4;
/// … and longer than so many bytes.
const CONDENSE_MIN_BYTES: u64 = 32 << 10;
/// Bytes of an entry of one word.
const ENTRY_BYTES: u64 = 8;

/// What a space map's entries are about: they count from `start`, in units of `ashift`.
#[derive(Clone, Copy)]
pub(in crate::space) struct Region {
    pub start: u64,
    pub ashift: Ashift,
    /// Each entry names the vdev that this region is of: as in maps over all vdevs.
    pub named: Option<VdevId>,
}

impl Region {
    pub fn run(self, change: &Change) -> Run {
        Run {
            map_type: match change.kind {
                ChangeKind::Alloc => MapType::Alloc,
                ChangeKind::Free => MapType::Free,
            },
            offset: (change.offset.get() - self.start) >> self.ashift.get(),
            length: change.len.get() >> self.ashift.get(),
            vdev: self.named,
        }
    }

    pub fn change(self, run: &Run) -> Option<Change> {
        let bytes = |units: u64| units.checked_mul(self.ashift.sector_bytes());
        Some(Change {
            kind: match run.map_type {
                MapType::Alloc => ChangeKind::Alloc,
                MapType::Free => ChangeKind::Free,
            },
            offset: VdevOffset::new(self.start.checked_add(bytes(run.offset)?)?),
            len: Asize::new(bytes(run.length)?),
        })
    }
}

/// What a metaslab's space map has to say once the changes taken so far are in it.
pub(super) struct Figures {
    allocated: Asize,
    histogram: [u64; metaslab::HISTOGRAM_BUCKETS],
    /// The whole map written anew, when that is worth it.
    condensed: Option<Vec<Change>>,
}

impl Figures {
    pub fn of(allocator: &Allocator, vdev: VdevId, metaslab: MetaslabId, map_bytes: u64) -> Self {
        let metaslab = allocator.metaslab(vdev, metaslab).expect("a metaslab that changed is there");
        let shortest_bytes = metaslab.condensed_estimate() as u64 * ENTRY_BYTES;
        let condense = map_bytes > CONDENSE_MIN_BYTES.max(shortest_bytes.saturating_mul(CONDENSE_FACTOR));
        Self {
            allocated: metaslab.recorded_allocated(),
            histogram: metaslab.space_map_histogram(),
            condensed: condense.then(|| metaslab.condensed()),
        }
    }
}

/// A new, empty map.
pub(in crate::space) async fn create(dsl: &Dsl, tx: &Tx, block_bytes: u32) -> Result<Arc<Dnode>, PoolError> {
    let counted = dsl.feature_count(&SPACEMAP_HISTOGRAM).await?.is_some();
    let bonus_bytes = if counted { size_of::<SpaceMapPhys>() } else { SPACE_MAP_BYTES_V0 };
    let spec = DnodeSpec::new(ObjectType::SPACE_MAP, block_bytes)
        .with_bonus(ObjectType::SPACE_MAP_HEADER, bonus_bytes as u16);
    let dnode = dsl.mos().allocate(tx, &spec).await?;
    if counted {
        dsl.count_feature(tx, &SPACEMAP_HISTOGRAM, 1).await?;
    }
    Ok(dnode)
}

/// Takes a map away.
pub(crate) async fn remove(dsl: &Dsl, tx: &Tx, object: ObjectId) -> Result<(), PoolError> {
    let counted = dsl.mos().hold(object).await?.bonus().len() >= size_of::<SpaceMapPhys>();
    if counted && dsl.feature_count(&SPACEMAP_HISTOGRAM).await?.is_some() {
        dsl.count_feature(tx, &SPACEMAP_HISTOGRAM, -1).await?;
    }
    Ok(dsl.mos().free_object(tx, object).await?)
}

/// The header of a map.
pub(super) fn header(dnode: &Dnode) -> Result<SpaceMapPhys, PoolError> {
    SpaceMapPhys::decode(&dnode.bonus())
        .map_err(|e| PoolError::Damaged { object: dnode.object(), what: e.to_string() })
}

/// All runs of a map, in order.
pub(super) async fn read(dnode: &Dnode) -> Result<Vec<Run>, PoolError> {
    runs_of(dnode, 0..header(dnode)?.length.get()).await
}

/// The runs in the last block of a map, and where it begins.
pub(super) async fn read_last_block(dnode: &Dnode) -> Result<(u64, Vec<Run>), PoolError> {
    let (end, block) = (header(dnode)?.length.get(), u64::from(dnode.block_bytes()));
    let start = end.saturating_sub(1) / block * block;
    Ok((start, runs_of(dnode, start..end).await?))
}

/// The runs in some bytes of a map, which begin where a block does.
async fn runs_of(dnode: &Dnode, part: Range<u64>) -> Result<Vec<Run>, PoolError> {
    let damaged = |what: String| PoolError::Damaged { object: dnode.object(), what };
    let bytes = dnode.read_part(part).await?;
    let mut runs = Vec::new();
    for entry in space_map::decode(&bytes) {
        if let SpaceMapEntry::Run(run) = entry.map_err(|e| damaged(e.to_string()))? {
            runs.push(run);
        }
    }
    Ok(runs)
}

/// Appends changes to a metaslab's map, or rewrites it when that has become much shorter.
pub(super) async fn append(
    dsl: &Dsl,
    tx: &Tx,
    dnode: &Dnode,
    region: Region,
    changes: &[Change],
    figures: &Figures,
) -> Result<(), PoolError> {
    let mut phys = header(dnode)?;
    let start = if figures.condensed.is_some() { 0 } else { phys.length.get() };
    let entries = figures.condensed.as_deref().unwrap_or(changes);
    if figures.condensed.is_some() {
        dnode.free_range(tx, 0, u64::MAX).await?;
    }
    let two_words = dsl.feature_count(&SPACEMAP_V2).await?.is_some();
    let runs: Vec<Run> = entries.iter().map(|change| region.run(change)).collect();
    phys.length.set(start + write_runs(tx, dnode, start, two_words, &runs).await?);
    phys.allocated.set(figures.allocated.get() as i64);
    for (bucket, count) in phys.histogram.iter_mut().zip(figures.histogram) {
        bucket.set(count);
    }
    set_header(tx, dnode, phys)
}

/// Appends changes to a map whose contents are unknown.
pub(super) async fn append_changes(
    dsl: &Dsl,
    tx: &Tx,
    dnode: &Dnode,
    region: Region,
    changes: &[Change],
) -> Result<(), PoolError> {
    let two_words = dsl.feature_count(&SPACEMAP_V2).await?.is_some();
    let runs: Vec<Run> = changes.iter().map(|change| region.run(change)).collect();
    let signed = |change: &Change| match change.kind {
        ChangeKind::Alloc => change.len.get() as i64,
        ChangeKind::Free => -(change.len.get() as i64),
    };
    append_runs(tx, dnode, &runs, two_words, changes.iter().map(signed).sum()).await
}

/// Appends runs to a map that is no metaslab's: a log over all vdevs, or what is obsolete of a removed one.
pub(in crate::space) async fn append_runs(
    tx: &Tx,
    dnode: &Dnode,
    runs: &[Run],
    two_words: bool,
    allocated_bytes: i64,
) -> Result<(), PoolError> {
    let mut phys = header(dnode)?;
    let start = phys.length.get();
    phys.length.set(start + write_runs(tx, dnode, start, two_words, runs).await?);
    phys.allocated.set(phys.allocated.get().wrapping_add(allocated_bytes));
    set_header(tx, dnode, phys)
}

/// Appends frees to a map that has nothing but frees: its sum goes below zero.
pub(super) async fn append_frees(
    dsl: &Dsl,
    tx: &Tx,
    dnode: &Dnode,
    region: Region,
    frees: &[Change],
) -> Result<(), PoolError> {
    let mut phys = header(dnode)?;
    let start = phys.length.get();
    let two_words = dsl.feature_count(&SPACEMAP_V2).await?.is_some();
    let runs: Vec<Run> = frees.iter().map(|free| region.run(free)).collect();
    phys.length.set(start + write_runs(tx, dnode, start, two_words, &runs).await?);
    phys.allocated.set(phys.allocated.get().wrapping_sub(sum(frees)));
    set_header(tx, dnode, phys)
}

/// Takes the last entries from such a map: `frees`, which begin at byte `start`, where a block begins.
pub(super) async fn truncate_frees(
    tx: &Tx,
    dnode: &Dnode,
    start: u64,
    frees: &[Change],
) -> Result<(), PoolError> {
    let mut phys = header(dnode)?;
    dnode.free_range(tx, start, u64::MAX).await?;
    phys.length.set(start);
    phys.allocated.set(phys.allocated.get().wrapping_add(sum(frees)));
    set_header(tx, dnode, phys)
}

fn sum(changes: &[Change]) -> i64 {
    changes.iter().map(|change| change.len.get() as i64).sum()
}

/// Replaces all that a map says.
pub(super) async fn rewrite(tx: &Tx, dnode: &Dnode, runs: &[Run], two_words: bool) -> Result<(), PoolError> {
    let mut phys = header(dnode)?;
    dnode.free_range(tx, 0, u64::MAX).await?;
    phys.length.set(write_runs(tx, dnode, 0, two_words, runs).await?);
    phys.allocated.set(runs.iter().map(|run| run.length as i64).sum());
    set_header(tx, dnode, phys)
}

/// Appends runs, and says of which txg they are: `zdb -y` goes by that. Of which pass of the sync nobody asks.
async fn write_runs(
    tx: &Tx,
    dnode: &Dnode,
    start: u64,
    two_words: bool,
    runs: &[Run],
) -> Result<u64, PoolError> {
    let mut encoder = Encoder::new(start, u64::from(dnode.block_bytes()), two_words);
    if let Some(first) = runs.first() {
        encoder.debug(first.map_type, 1, tx.txg());
    }
    runs.iter().for_each(|run| encoder.run(run));
    let bytes = encoder.finish();
    dnode.write(tx, start, &bytes).await?;
    Ok(bytes.len() as u64)
}

fn set_header(tx: &Tx, dnode: &Dnode, mut phys: SpaceMapPhys) -> Result<(), PoolError> {
    phys.object.set(dnode.object().get());
    let bonus_bytes = dnode.bonus().len().min(size_of::<SpaceMapPhys>());
    Ok(dnode.set_bonus(tx, ObjectType::SPACE_MAP_HEADER, &phys.as_bytes()[..bonus_bytes])?)
}
