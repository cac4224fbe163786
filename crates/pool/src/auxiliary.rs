//! Hot spares and cache devices: what the meta-objset lists of them.
//!
//! ```text
//!  directory ─ "spares"  ─► packed list ─ "spares":  [ {type, guid, path, …}, … ]
//!            ─ "l2cache" ─► packed list ─ "l2cache": [ {type, guid, path, …}, … ]
//! ```
//! They are in no vdev, and their labels name no pool, so that several pools may share a spare. A spare
//! that is at work is a leaf of a vdev besides, with the same guid ([`crate::spares`]); how a cache device is used is told in
//! [`crate::caches`]. A pool that OpenZFS made keeps its own (test: `a_pool_with_a_spare_at_work_is_worked_on`), until they are
//! removed (test: `a_spare_is_removed_unless_it_is_at_work`).

use std::path::PathBuf;
use std::sync::Arc;

use dmu::{DnodeSpec, Tx};
use env::boxed;
use events::names::VDEV_GUID;
use ondisk::config::{GUID, L2CACHE, OFFLINE, PATH, SPARES, TYPE, WHOLE_DISK, vdev_type};
use ondisk::{NvList, ObjectType, mos};
use units::{Guid, ObjectId};
use vdev::{Candidate, VdevError};

use crate::caches::Cache;
use crate::{Pool, PoolError, RemovalRefusal, config};

/// A device that is listed beside the vdevs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auxiliary {
    /// Its guid; that of a leaf, too, while it is at work.
    pub guid: Guid,
    /// Where it was found when the pool was imported, else where it was last seen.
    pub path: PathBuf,
    /// A block device, and no plain file.
    pub is_disk: bool,
    /// Whether the pool has the disk to itself.
    pub whole_disk: bool,
    /// Whether it was there at the last look: when the pool was imported, or when its devices were opened anew.
    pub is_there: bool,
    /// Spare room of a draid, and no device.
    pub is_draid_room: bool,
}

/// Both lists of a pool.
#[derive(Clone, Default)]
pub(crate) struct Auxiliaries {
    pub(crate) spares: Vec<Auxiliary>,
    pub(crate) caches: Vec<Cache>,
}

impl Pool {
    /// The hot spares, in their order.
    #[must_use]
    pub fn spares(&self) -> Vec<Auxiliary> {
        self.auxiliaries.lock().spares.clone()
    }

    /// The cache devices, in their order.
    #[must_use]
    pub fn caches(&self) -> Vec<Auxiliary> {
        self.auxiliaries.lock().caches.iter().map(Cache::auxiliary).collect()
    }

    /// Reads both lists. A pool is sound without them, so that one that cannot be read is told of in the log.
    pub(crate) async fn load_auxiliaries(&self, candidate: &Candidate) {
        let load = async |object: &str, list: &str| -> Vec<NvList> {
            let listed = self.auxiliary_list(object, list).await;
            listed.inspect_err(|error| tracing::warn!(list, %error, "not read")).unwrap_or_default()
        };
        let find = |from: &NvList| Some(found(parse(from)?, candidate));
        let spares = load(mos::directory::SPARES, SPARES).await.iter().filter_map(find).collect();
        let caches = load(mos::directory::L2CACHE, L2CACHE).await;
        let listed = |from: &NvList| Some(self.listed_cache(find(from)?, from.get_u64(OFFLINE) == Some(1)));
        let caches = caches.iter().filter_map(listed).collect();
        *self.auxiliaries.lock() = Auxiliaries { spares, caches };
    }

    pub(crate) async fn auxiliary_list(&self, object: &str, list: &str) -> Result<Vec<NvList>, PoolError> {
        let object = self.dsl.directory().lookup_u64(object.as_bytes()).await?;
        let Some(object) = object.filter(|&object| object != 0) else { return Ok(Vec::new()) };
        let listed = config::load_packed(&self.dsl, ObjectId::new(object)).await?;
        Ok(listed.get_nvlist_array(list).unwrap_or_default().to_vec())
    }
}

impl Pool {
    /// Adds entries to a list, which is made if there is none yet.
    pub(crate) async fn list_more(
        &self,
        tx: &Tx,
        object: &str,
        list: &str,
        entries: Vec<NvList>,
    ) -> Result<(), PoolError> {
        let mut listed = self.auxiliary_list(object, list).await?;
        listed.extend(entries);
        let known = self.dsl.directory().lookup_u64(object.as_bytes()).await?;
        if known.is_none_or(|object| object == 0) {
            let spec = DnodeSpec::new(ObjectType::PACKED_NVLIST, config::CONFIG_BLOCK_BYTES)
                .with_bonus(ObjectType::PACKED_NVLIST_SIZE, 8);
            let dnode = self.dsl.mos().allocate(tx, &spec).await?;
            self.dsl.directory().update_u64(tx, object.as_bytes(), dnode.object().get()).await?;
        }
        self.store_list(tx, object, list, listed).await
    }

    async fn store_list(
        &self,
        tx: &Tx,
        object: &str,
        list: &str,
        entries: Vec<NvList>,
    ) -> Result<(), PoolError> {
        let mut packed = NvList::new();
        packed.add_nvlist_array(list, entries);
        let dnode = self.dsl.mos().hold(self.dsl.directory_object(object).await?).await?;
        config::store_packed(&dnode, tx, &packed).await
    }

    /// Takes a whole list away.
    pub(crate) async fn forget_auxiliary_list(&self, tx: &Tx, object: &str) -> Result<(), PoolError> {
        let Some(list) = self.dsl.directory().lookup_u64(object.as_bytes()).await? else { return Ok(()) };
        self.dsl.directory().remove(tx, object.as_bytes()).await?;
        if list != 0 {
            self.dsl.mos().free_object(tx, ObjectId::new(list)).await?;
        }
        Ok(())
    }

    /// Changes what the list says of a cache device.
    pub(crate) async fn change_listed_cache(
        &self,
        tx: &Tx,
        guid: Guid,
        change: impl Fn(&mut NvList),
    ) -> Result<(), PoolError> {
        let object = mos::directory::L2CACHE;
        let mut listed = self.auxiliary_list(object, L2CACHE).await?;
        listed.iter_mut().filter(|entry| entry.get_u64(GUID) == Some(guid.get())).for_each(change);
        self.store_list(tx, object, L2CACHE, listed).await
    }

    /// Strikes a spare or cache device off its list. Its label stays, which names no pool.
    ///
    /// # Errors
    /// [`RemovalRefusal::InUse`] for a spare that is at work; [`VdevError::NoSuchLeaf`]; when it cannot be made stable.
    #[boxed]
    pub async fn remove_auxiliary(self: &Arc<Self>, guid: Guid) -> Result<(), PoolError> {
        self.check_writable()?;
        self.check_no_checkpoint()?;
        if self.vdevs.leaves().iter().any(|leaf| leaf.guid() == guid) {
            return Err(RemovalRefusal::InUse.into());
        }
        self.in_sync(move |pool, tx| async move { pool.strike_auxiliary(&tx, guid).await }).await?;
        self.drop_cache(guid).await;
        self.tell_done_with("vdev_remove_aux", None, |payload| _ = payload.add_u64(VDEV_GUID, guid.get()));
        Ok(())
    }

    pub(crate) async fn strike_auxiliary(&self, tx: &Tx, guid: Guid) -> Result<(), PoolError> {
        let mut is_any = false;
        for (object, list) in [(mos::directory::SPARES, SPARES), (mos::directory::L2CACHE, L2CACHE)] {
            let listed = self.auxiliary_list(object, list).await?;
            let is_meant = |entry: &NvList| entry.get_u64(GUID) == Some(guid.get());
            if !listed.iter().any(is_meant) {
                continue;
            }
            let kept = listed.into_iter().filter(|entry| !is_meant(entry)).collect();
            self.store_list(tx, object, list, kept).await?;
            is_any = true;
        }
        if !is_any {
            return Err(VdevError::NoSuchLeaf { guid }.into());
        }
        let mut auxiliaries = self.auxiliaries.lock();
        auxiliaries.spares.retain(|spare| spare.guid != guid);
        auxiliaries.caches.retain(|cache| cache.leaf.guid() != guid);
        drop(auxiliaries);
        self.held_spares.retain(|held| held != guid);
        Ok(())
    }
}

fn parse(from: &NvList) -> Option<Auxiliary> {
    let is_draid_room = from.get_str(TYPE) == Some(vdev_type::DRAID_SPARE);
    Some(Auxiliary {
        guid: Guid::new(from.get_u64(GUID)?),
        path: PathBuf::from(from.get_str(PATH)?),
        is_disk: from.get_str(TYPE) == Some(vdev_type::DISK),
        whole_disk: from.get_u64(WHOLE_DISK) == Some(1),
        is_there: is_draid_room,
        is_draid_room,
    })
}

/// The same where the search for the pool found it: as a spare or cache, or at work as a leaf.
fn found(listed: Auxiliary, candidate: &Candidate) -> Auxiliary {
    let places = [&candidate.auxiliaries, &candidate.paths];
    match places.iter().find_map(|paths| paths.get(&listed.guid)) {
        Some(path) => Auxiliary { path: path.clone(), is_there: true, ..listed },
        None => listed,
    }
}
