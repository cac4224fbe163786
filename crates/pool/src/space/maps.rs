//! Space maps on disk: one object for each metaslab that was ever used.
//!
//! A space map is a log of what was allocated and freed. Each txg appends what it changed;
//! when the log has grown far beyond what it says, it is written anew (condensed). A pool with the
//! feature `log_spacemap` does so for a few metaslabs in each txg only, see [`log`].
//!
//! ```text
//!  vdev config ─► metaslab_array: object numbers, 0 where nothing was allocated yet
//!                      └─► space map: entries; bonus: length, bytes allocated, histogram
//! ```
//! A metaslab whose map cannot be read is taken out of use ([`metaslab::Allocator::seal`]). Nothing
//! is allocated there, and its map is not rewritten, because its contents are unknown. If the pool
//! has space map logs, the logs keep the frees until the map can be read again.
//! (test: `a_damaged_space_map_takes_its_metaslab_out_of_use`)

mod dtl;
mod kept;
mod log;
pub(super) mod object;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dmu::zap::Zap;
use dmu::{Dnode, DnodeSpec, Objset, SyncRead, Tx};
use dsl::Dsl;
use dsl::features::LOG_SPACEMAP;
use env::{boxed, impatient};
use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use metaslab::{Change, MetaslabId};
use ondisk::ObjectType;
use ondisk::mos::vdev_zap::MS_UNFLUSHED_PHYS_TXGS;
use parking_lot::Mutex;
use units::{Ashift, ObjectId, SECTOR_BYTES, Txg, VdevId, VdevOffset};
use vdev::{Top, VdevTree};
use zio::Zio;

use crate::PoolError;
pub(crate) use dtl::{forget as forget_dtl, load as load_dtls, record as record_dtls};
pub(crate) use object::remove as forget_map;

use log::Logs;
use object::{Figures, Region};

/// Data block of a space map object. Small, because a sync rewrites the last one.
const BLOCK_BYTES: u32 = 16 << 10;

/// Metaslabs of one vdev whose maps are read at a time.
const LOADS_IN_FLIGHT: usize = 8;

/// One metaslab of the pool.
type Place = (VdevId, MetaslabId);

/// Where the space maps of one top-level vdev are.
struct VdevMaps {
    array: Arc<Dnode>,
    ashift: Ashift,
    /// What all places on the vdev are multiples of.
    unit_bytes: u64,
    ms_shift: u32,
    count: u64,
    objects: BTreeMap<MetaslabId, ObjectId>,
    /// For each metaslab, since when the logs have something to say of it.
    unflushed: Option<Arc<Dnode>>,
    /// What the pool's checkpoint needs, if there is any of that.
    kept: Option<Arc<Dnode>>,
}

/// What a sync works with.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub dsl: &'a Dsl,
    pub tx: &'a Tx,
    pub zio: &'a Zio,
    pub vdevs: &'a VdevTree,
}

/// The space maps of all vdevs.
#[derive(Default)]
pub(crate) struct SpaceMaps {
    vdevs: Mutex<BTreeMap<VdevId, VdevMaps>>,
    logs: async_lock::Mutex<Logs>,
    /// The next txg leaves nothing in the logs.
    flush_all: AtomicBool,
    /// Metaslabs that are out of use because their maps are lost.
    sealed: Mutex<BTreeSet<Place>>,
}

impl SpaceMaps {
    /// Makes the metaslab array of a new vdev; its number belongs in the vdev's configuration.
    #[boxed]
    pub async fn format(&self, mos: &Arc<Objset>, tx: &Tx, top: &Top) -> Result<ObjectId, PoolError> {
        let array = mos.allocate(tx, &DnodeSpec::new(ObjectType::OBJECT_ARRAY, SECTOR_BYTES as u32)).await?;
        let object = array.object();
        self.insert(top, array, BTreeMap::new(), None);
        Ok(object)
    }

    fn insert(
        &self,
        top: &Top,
        array: Arc<Dnode>,
        objects: BTreeMap<MetaslabId, ObjectId>,
        unflushed: Option<Arc<Dnode>>,
    ) {
        let config = top.config();
        let maps = VdevMaps {
            array,
            ashift: top.ashift(),
            unit_bytes: top.spread().unit_bytes(top.ashift()),
            ms_shift: config.metaslab_shift as u32,
            count: config.asize >> config.metaslab_shift,
            objects,
            unflushed,
            kept: None,
        };
        self.vdevs.lock().insert(top.id(), maps);
    }

    /// Takes away all maps of a vdev that goes, and what logs have to say of it. If another vdev may get its number the txg
    /// is to leave nothing in older logs, whose entries name it ([`Self::flush_all_next`]).
    #[boxed]
    pub async fn forget(&self, dsl: &Dsl, tx: &Tx, vdev: VdevId) -> Result<(), PoolError> {
        let mut logs = self.logs.lock().await;
        let maps = self.vdevs.lock().remove(&vdev).expect("a vdev that allocates has its maps");
        logs.forget(vdev);
        for &object in maps.objects.values() {
            object::remove(dsl, tx, object).await?;
        }
        if let Some(kept) = maps.kept {
            object::remove(dsl, tx, kept.object()).await?;
        }
        for array in maps.unflushed.iter().chain([&maps.array]) {
            dsl.mos().free_object(tx, array.object()).await?;
        }
        Ok(())
    }

    /// Takes note that a vdev has more metaslabs.
    pub fn grow(&self, top: &Top) {
        let config = top.config();
        self.with_vdev(top.id(), |maps| maps.count = config.asize >> config.metaslab_shift);
    }

    /// Loads the maps of a pool that is opened read-only. A lost map makes the figures of free
    /// space wrong, and has no other effect.
    #[boxed]
    pub async fn load_to_look(&self, dsl: &Dsl, zio: &Zio, tops: &[Arc<Top>]) {
        if let Err(error) = self.load(dsl, zio, tops).await {
            tracing::warn!(%error, "space maps cannot be read: figures of free space are wrong");
        }
    }

    /// Returns the metaslabs that are out of use because their maps are lost.
    pub fn sealed(&self) -> Vec<(VdevId, MetaslabId)> {
        self.sealed.lock().iter().copied().collect()
    }

    pub(in crate::space::maps) fn is_sealed(&self, place: Place) -> bool {
        self.sealed.lock().contains(&place)
    }

    /// Reads all space maps of these vdevs into the allocator, and what the logs add.
    #[boxed]
    pub async fn load(&self, dsl: &Dsl, zio: &Zio, tops: &[Arc<Top>]) -> Result<(), PoolError> {
        let mut logs = self.logs.lock().await;
        for top in tops {
            self.find(dsl, top, &mut logs).await?;
        }
        logs.read(dsl, self).await?;
        try_join_all(tops.iter().map(|top| self.load_vdev(dsl, zio, top, &logs))).await?;
        Ok(())
    }

    /// Notes where a vdev's maps are.
    async fn find(&self, dsl: &Dsl, top: &Top, logs: &mut Logs) -> Result<(), PoolError> {
        let config = top.config();
        let array = dsl.mos().hold(ObjectId::new(config.metaslab_array)).await?;
        let count = config.asize >> config.metaslab_shift;
        let mut objects = BTreeMap::new();
        for (metaslab, object) in words(&array, count).await? {
            objects.insert(metaslab, ObjectId::new(object));
        }
        let unflushed = match unflushed_array(dsl, config.top_zap).await? {
            Some(object) => Some(dsl.mos().hold(object).await?),
            None => None,
        };
        if let Some(unflushed) = &unflushed {
            for (metaslab, since) in words(unflushed, count).await? {
                logs.track((top.id(), metaslab), Txg::new(since));
            }
        }
        self.insert(top, array, objects, unflushed);
        Ok(())
    }

    async fn load_vdev(&self, dsl: &Dsl, zio: &Zio, top: &Top, logs: &Logs) -> Result<(), PoolError> {
        let vdev = top.id();
        let count = self.vdevs.lock().get(&vdev).map_or(0, |maps| maps.count);
        let places = (0..count).map(|index| (vdev, MetaslabId::new(index as u32)));
        let loads = places.map(|place| self.load_metaslab(dsl, zio, place, logs));
        stream::iter(loads).buffer_unordered(LOADS_IN_FLIGHT).try_collect::<()>().await?;
        self.load_kept(dsl, zio, top).await
    }

    async fn load_metaslab(&self, dsl: &Dsl, zio: &Zio, place: Place, logs: &Logs) -> Result<(), PoolError> {
        match self.read_metaslab(dsl, zio, place, logs).await {
            Err(error) if error.is_loss() => {
                let ((vdev, metaslab), cause) = (place, &error);
                tracing::error!(%vdev, metaslab = metaslab.get(), %cause, "a metaslab is out of use: its space map is lost");
                self.sealed.lock().insert(place);
                let sealed = zio.with_allocator(|allocator| allocator.seal(vdev, metaslab));
                sealed.map_err(|source| PoolError::SpaceMap { vdev, source })
            }
            loaded => loaded,
        }
    }

    async fn read_metaslab(&self, dsl: &Dsl, zio: &Zio, place: Place, logs: &Logs) -> Result<(), PoolError> {
        let (region, object) = self.place(place);
        let mut entries = match object {
            Some(object) => read_map(&*dsl.mos().hold(object).await?, region).await?,
            None => Vec::new(),
        };
        entries.extend(logs.unflushed(place).into_iter().flat_map(|unflushed| unflushed.changes()));
        if object.is_none() && entries.is_empty() {
            return Ok(());
        }
        zio.with_allocator(|allocator| allocator.load(place.0, place.1, entries))
            .map_err(|source| PoolError::SpaceMap { vdev: place.0, source })
    }

    /// Records what the txg changed since this was last called; in the first pass of a sync
    /// also what older txgs left in the logs only, in part.
    #[boxed]
    pub async fn record(&self, at: &At<'_>, pass: usize) -> Result<(), PoolError> {
        let mut logs = self.logs.lock().await;
        let logging = at.dsl.feature_count(&LOG_SPACEMAP).await?.is_some();
        if pass == 1 && logging {
            let all = self.flush_all.swap(false, Ordering::Relaxed);
            if all || at.zio.with_allocator(|allocator| allocator.has_changes(at.tx.txg())) {
                logs.flush(at, self, all).await?;
            }
        }
        self.record_kept(at).await?;
        let changes = at.zio.with_allocator(|allocator| allocator.take_changes(at.tx.txg()));
        if changes.is_empty() {
            return Ok(());
        }
        for &place in changes.keys() {
            self.make_object(at, place).await?;
        }
        if logging {
            return logs.append(at, self, &changes).await;
        }
        for (&place, changes) in &changes {
            self.append(at, place, changes).await?;
        }
        Ok(())
    }

    /// Has the next txg leave nothing in the logs, so that the next import has little to read.
    pub fn flush_all_next(&self) {
        self.flush_all.store(true, Ordering::Relaxed);
    }

    /// Appends to a metaslab's own map.
    async fn append(&self, at: &At<'_>, place: Place, changes: &[Change]) -> Result<(), PoolError> {
        let (region, object) = self.place(place);
        let object = object.expect("a metaslab that changed has its map");
        if self.is_sealed(place) {
            return self.append_to_lost(at, object, region, changes).await;
        }
        let dnode = at.dsl.mos().hold(object).await?;
        let length = object::header(&dnode)?.length.get();
        let figures =
            |length| at.zio.with_allocator(|allocator| Figures::of(allocator, place.0, place.1, length));
        let usual = figures(length);
        let append = object::append(at.dsl, at.tx, &dnode, region, changes, &usual);
        match impatient(append).await {
            Err(error) if error.is_loss() && SyncRead::SpaceMap.goes_on() => {
                tracing::error!(%error, "a damaged space map is written again");
                let anew = figures(u64::MAX);
                object::append(at.dsl, at.tx, &dnode, region, changes, &anew).await
            }
            appended => appended,
        }
    }

    /// Appends to the map of a metaslab that is out of use, in a pool without space map logs. If
    /// the append fails, the freed space stays allocated.
    async fn append_to_lost(
        &self,
        at: &At<'_>,
        object: ObjectId,
        region: Region,
        changes: &[Change],
    ) -> Result<(), PoolError> {
        let append = async {
            let dnode = at.dsl.mos().hold(object).await?;
            object::append_changes(at.dsl, at.tx, &dnode, region, changes).await
        };
        match impatient(append).await {
            Err(error) if error.is_loss() => {
                tracing::error!(%error, "frees in a metaslab that is out of use are leaked");
                Ok(())
            }
            appended => appended,
        }
    }

    /// What a metaslab's own map is about, and its object if there is one.
    fn place(&self, (vdev, metaslab): Place) -> (Region, Option<ObjectId>) {
        let maps = self.vdevs.lock();
        let maps = maps.get(&vdev).expect("a vdev that allocates has its maps");
        let start = (u64::from(metaslab.get()) << maps.ms_shift).next_multiple_of(maps.unit_bytes);
        (Region { start, ashift: maps.ashift, named: None }, maps.objects.get(&metaslab).copied())
    }

    /// In which metaslab a place of a vdev is; `None` if there is no such vdev or metaslab.
    fn metaslab_at(&self, vdev: VdevId, offset: VdevOffset) -> Option<MetaslabId> {
        let maps = self.vdevs.lock();
        let maps = maps.get(&vdev)?;
        let index = offset.get() >> maps.ms_shift;
        (index < maps.count).then(|| MetaslabId::new(index as u32))
    }

    async fn make_object(&self, at: &At<'_>, place: Place) -> Result<(), PoolError> {
        if self.place(place).1.is_some() {
            return Ok(());
        }
        let object = object::create(at.dsl, at.tx, BLOCK_BYTES).await?.object();
        let array = self.with_vdev(place.0, |maps| {
            maps.objects.insert(place.1, object);
            Arc::clone(&maps.array)
        });
        Ok(array.write(at.tx, u64::from(place.1.get()) * 8, &object.get().to_le_bytes()).await?)
    }

    /// From this txg on the logs tell of a metaslab what its own map does not.
    async fn set_unflushed_since(&self, at: &At<'_>, place: Place) -> Result<(), PoolError> {
        let known = self.with_vdev(place.0, |maps| maps.unflushed.clone());
        let array = match known {
            Some(array) => array,
            None => self.make_unflushed_array(at, place.0).await?,
        };
        let word = at.tx.txg().get().to_le_bytes();
        Ok(array.write(at.tx, u64::from(place.1.get()) * 8, &word).await?)
    }

    async fn make_unflushed_array(&self, at: &At<'_>, vdev: VdevId) -> Result<Arc<Dnode>, PoolError> {
        let zap = ObjectId::new(at.vdevs.top(vdev)?.config().top_zap);
        let spec = DnodeSpec::new(ObjectType::OTN_UINT64_METADATA, BLOCK_BYTES);
        let array = at.dsl.mos().allocate(at.tx, &spec).await?;
        let zap = Zap::hold(at.dsl.mos(), zap).await?;
        zap.add_u64(at.tx, MS_UNFLUSHED_PHYS_TXGS.as_bytes(), array.object().get()).await?;
        self.with_vdev(vdev, |maps| maps.unflushed = Some(Arc::clone(&array)));
        Ok(array)
    }

    fn with_vdev<R>(&self, vdev: VdevId, look: impl FnOnce(&mut VdevMaps) -> R) -> R {
        look(self.vdevs.lock().get_mut(&vdev).expect("a vdev that allocates has its maps"))
    }
}

/// Takes away the maps of a vdev that is no part of the pool, whose own properties are in `zap`.
pub(crate) async fn forget_maps_of(
    dsl: &Dsl,
    tx: &Tx,
    array: ObjectId,
    metaslabs: u64,
    zap: u64,
) -> Result<(), PoolError> {
    if array == ObjectId::new(0) {
        return Ok(());
    }
    for (_, map) in words(&*dsl.mos().hold(array).await?, metaslabs).await? {
        object::remove(dsl, tx, ObjectId::new(map)).await?;
    }
    if let Some(unflushed) = unflushed_array(dsl, zap).await? {
        dsl.mos().free_object(tx, unflushed).await?;
    }
    Ok(dsl.mos().free_object(tx, array).await?)
}

async fn unflushed_array(dsl: &Dsl, top_zap: u64) -> Result<Option<ObjectId>, PoolError> {
    if top_zap == 0 {
        return Ok(None);
    }
    let zap = Zap::hold(dsl.mos(), ObjectId::new(top_zap)).await?;
    Ok(zap.lookup_u64(MS_UNFLUSHED_PHYS_TXGS.as_bytes()).await?.map(ObjectId::new))
}

/// The words of an array that are not 0, by metaslab.
async fn words(array: &Dnode, count: u64) -> Result<Vec<(MetaslabId, u64)>, PoolError> {
    let mut bytes = vec![0; count as usize * 8];
    array.read(0, &mut bytes).await?;
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let numbered = words.enumerate().filter(|&(_, word)| word != 0);
    Ok(numbered.map(|(index, word)| (MetaslabId::new(index as u32), word)).collect())
}

async fn read_map(dnode: &Dnode, region: Region) -> Result<Vec<Change>, PoolError> {
    let out_of_range = || PoolError::Damaged { object: dnode.object(), what: "entry out of range".into() };
    let runs = object::read(dnode).await?;
    runs.iter().map(|run| region.change(run).ok_or_else(out_of_range)).collect()
}
