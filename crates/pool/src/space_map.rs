//! Space maps on disk: one object for each metaslab that was ever used.
//!
//! A space map is a log of what was allocated and freed. Each group appends what it changed;
//! when the log has grown far beyond what it says, it is written anew (condensed).
//!
//! ```text
//!  vdev config ─► metaslab_array: object numbers, 0 where nothing was allocated yet
//!                      └─► space map: entries; bonus: length, bytes allocated, histogram
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use dmu::{Dnode, DnodeSpec, Objset, Tx};
use dsl::Dsl;
use dsl::features::SPACEMAP_HISTOGRAM;
use metaslab::{Allocator, Change, ChangeKind, MetaslabId};
use ondisk::ObjectType;
use ondisk::space_map::{self, Encoder, MapType, Run, SpaceMapEntry, SpaceMapPhys};
use parking_lot::Mutex;
use units::{Ashift, Asize, ObjectId, SECTOR_BYTES, VdevId, VdevOffset};
use vdev::Top;
use zerocopy::IntoBytes;
use zio::Zio;

use crate::PoolError;

/// Data block of a space map object. Small, because a sync rewrites the last one.
const BLOCK_BYTES: u32 = 16 << 10;
/// A map is condensed when it is so many times longer than it would be then …
const CONDENSE_FACTOR: u64 = 4;
/// … and longer than so many bytes.
const CONDENSE_MIN_BYTES: u64 = 2 * BLOCK_BYTES as u64;
/// Bytes of an entry of one word.
const ENTRY_BYTES: u64 = 8;

/// Where the space maps of one top-level vdev are.
struct VdevMaps {
    array: Arc<Dnode>,
    ashift: Ashift,
    ms_shift: u32,
    objects: BTreeMap<MetaslabId, ObjectId>,
}

/// The space maps of all vdevs.
#[derive(Default)]
pub(crate) struct SpaceMaps(Mutex<BTreeMap<VdevId, VdevMaps>>);

impl SpaceMaps {
    /// Makes the metaslab array of a new vdev; its number belongs in the vdev's configuration.
    pub async fn format(&self, mos: &Arc<Objset>, tx: &Tx, top: &Top) -> Result<ObjectId, PoolError> {
        let array = mos.allocate(tx, &DnodeSpec::new(ObjectType::OBJECT_ARRAY, SECTOR_BYTES as u32)).await?;
        let object = array.object();
        self.insert(top, array, BTreeMap::new());
        Ok(object)
    }

    fn insert(&self, top: &Top, array: Arc<Dnode>, objects: BTreeMap<MetaslabId, ObjectId>) {
        let ms_shift = top.config().metaslab_shift as u32;
        self.0.lock().insert(top.id(), VdevMaps { array, ashift: top.ashift(), ms_shift, objects });
    }

    /// Reads all space maps of a vdev into the allocator.
    pub async fn load(&self, mos: &Arc<Objset>, zio: &Zio, top: &Top) -> Result<(), PoolError> {
        let config = top.config();
        let array = mos.hold(ObjectId::new(config.metaslab_array)).await?;
        let count = config.asize >> config.metaslab_shift;
        let mut objects = BTreeMap::new();
        for index in 0..count {
            let mut word = [0; 8];
            array.read(index * 8, &mut word).await?;
            let object = ObjectId::new(u64::from_le_bytes(word));
            let metaslab = MetaslabId::new(index as u32);
            if object.get() != 0 {
                let entries = read_map(mos, top, metaslab, object).await?;
                zio.with_allocator(|allocator| allocator.load(top.id(), metaslab, entries))
                    .map_err(|source| PoolError::SpaceMap { vdev: top.id(), source })?;
                objects.insert(metaslab, object);
            }
        }
        self.insert(top, array, objects);
        Ok(())
    }

    /// Appends what the group changed since this was last called.
    pub async fn record(&self, dsl: &Dsl, tx: &Tx, zio: &Zio) -> Result<(), PoolError> {
        for ((vdev, metaslab), changes) in zio.with_allocator(|allocator| allocator.take_changes(tx.txg())) {
            let (ashift, ms_shift, object) = self.place(dsl, tx, vdev, metaslab).await?;
            let region = Region { start: u64::from(metaslab.get()) << ms_shift, ashift };
            let dnode = dsl.mos().hold(object).await?;
            let phys = header(&dnode)?;
            let length = phys.length.get();
            let figures = zio.with_allocator(|allocator| Figures::of(allocator, vdev, metaslab, length));
            append(&dnode, tx, region, phys, &changes, &figures).await?;
        }
        Ok(())
    }

    async fn place(
        &self,
        dsl: &Dsl,
        tx: &Tx,
        vdev: VdevId,
        metaslab: MetaslabId,
    ) -> Result<(Ashift, u32, ObjectId), PoolError> {
        let (array, ashift, ms_shift, known) = {
            let maps = self.0.lock();
            let maps = maps.get(&vdev).expect("a vdev that allocates has its maps");
            (Arc::clone(&maps.array), maps.ashift, maps.ms_shift, maps.objects.get(&metaslab).copied())
        };
        if let Some(object) = known {
            return Ok((ashift, ms_shift, object));
        }
        let spec = DnodeSpec::new(ObjectType::SPACE_MAP, BLOCK_BYTES)
            .with_bonus(ObjectType::SPACE_MAP_HEADER, size_of::<SpaceMapPhys>() as u16);
        let object = dsl.mos().allocate(tx, &spec).await?.object();
        dsl.count_feature(tx, &SPACEMAP_HISTOGRAM, 1).await?;
        array.write(tx, u64::from(metaslab.get()) * 8, &object.get().to_le_bytes()).await?;
        let mut maps = self.0.lock();
        maps.get_mut(&vdev).expect("a vdev that allocates has its maps").objects.insert(metaslab, object);
        Ok((ashift, ms_shift, object))
    }
}

/// What a metaslab's space map has to say once the changes taken so far are in it.
struct Figures {
    allocated: Asize,
    histogram: [u64; metaslab::HISTOGRAM_BUCKETS],
    /// The whole map written anew, when that is worth it.
    condensed: Option<Vec<Change>>,
}

impl Figures {
    fn of(allocator: &Allocator, vdev: VdevId, metaslab: MetaslabId, map_bytes: u64) -> Self {
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

/// The part of a vdev that a space map is about; its entries count from there in sectors.
#[derive(Clone, Copy)]
struct Region {
    start: u64,
    ashift: Ashift,
}

impl Region {
    fn run(self, change: &Change) -> Run {
        Run {
            map_type: match change.kind {
                ChangeKind::Alloc => MapType::Alloc,
                ChangeKind::Free => MapType::Free,
            },
            offset: (change.offset.get() - self.start) >> self.ashift.get(),
            length: change.len.get() >> self.ashift.get(),
            vdev: None,
        }
    }

    fn change(self, run: &Run) -> Option<Change> {
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

async fn read_map(
    mos: &Arc<Objset>,
    top: &Top,
    metaslab: MetaslabId,
    object: ObjectId,
) -> Result<Vec<Change>, PoolError> {
    let damaged = |what: String| PoolError::Damaged { object, what };
    let dnode = mos.hold(object).await?;
    let phys = header(&dnode)?;
    let limit = (dnode.max_block().get() + 1) * u64::from(dnode.block_bytes());
    if phys.length.get() > limit {
        return Err(damaged(format!("space map of {} bytes", phys.length)));
    }
    let mut bytes = vec![0; phys.length.get() as usize];
    dnode.read(0, &mut bytes).await?;
    let region =
        Region { start: u64::from(metaslab.get()) << top.config().metaslab_shift, ashift: top.ashift() };
    let mut changes = Vec::new();
    for entry in space_map::decode(&bytes) {
        if let SpaceMapEntry::Run(run) = entry.map_err(|e| damaged(e.to_string()))? {
            changes.push(region.change(&run).ok_or_else(|| damaged("entry out of range".into()))?);
        }
    }
    Ok(changes)
}

fn header(dnode: &Dnode) -> Result<SpaceMapPhys, PoolError> {
    SpaceMapPhys::decode(&dnode.bonus())
        .map_err(|e| PoolError::Damaged { object: dnode.object(), what: e.to_string() })
}

/// Appends changes to a map, or rewrites it when that has become much shorter.
async fn append(
    dnode: &Dnode,
    tx: &Tx,
    region: Region,
    mut phys: SpaceMapPhys,
    changes: &[Change],
    figures: &Figures,
) -> Result<(), PoolError> {
    let start = if figures.condensed.is_some() { 0 } else { phys.length.get() };
    let entries = figures.condensed.as_deref().unwrap_or(changes);
    if figures.condensed.is_some() {
        dnode.free_range(tx, 0, u64::MAX).await?;
    }
    let mut encoder = Encoder::new(start, u64::from(dnode.block_bytes()), false);
    for change in entries {
        encoder.run(&region.run(change));
    }
    let bytes = encoder.finish();
    dnode.write(tx, start, &bytes).await?;
    phys.object.set(dnode.object().get());
    phys.length.set(start + bytes.len() as u64);
    phys.allocated.set(figures.allocated.get() as i64);
    for (bucket, count) in phys.histogram.iter_mut().zip(figures.histogram) {
        bucket.set(count);
    }
    let bonus_len = dnode.bonus().len();
    dnode.set_bonus(tx, ObjectType::SPACE_MAP_HEADER, &phys.as_bytes()[..bonus_len])?;
    Ok(())
}
