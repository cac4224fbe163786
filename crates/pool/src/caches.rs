//! Cache devices: how they come, are used, fail and go.
//!
//! ```text
//!   add ──► labels, header, on the list ──► in use: fed with what leaves memory, asked before the pool
//!                                             ▲   │ write error, or no answer within log_deadman      │ offline
//!   import: listed and found ──its logs read──┘   ▼                                                    ▼
//!                                           FAULTED: nothing is asked of it ──clear, online, by itself──► in use, its logs read
//! ```
//! Nothing waits for a cache device but who closes the pool: what is there is in the pool, too ([`l2arc`]). Pools opened for
//! reading only read theirs, and leave them as they are.
//!
//! Invariants
//! - Whatever becomes of a cache device, every read gives what was written, in good time.
//!   (test: `a_cache_device_may_fail_lie_or_hang`)
//! - What is there is found again at the next import. (test: `what_fell_out_of_memory_is_read_from_the_cache_device`)

use std::path::PathBuf;
use std::sync::Arc;

use env::boxed;
use l2arc::{CacheDevice, CacheDeviceStats};
use ondisk::config::{ASHIFT, GUID, L2CACHE, OFFLINE, PATH, TYPE};
use ondisk::{NvList, mos};
use units::{Ashift, Guid};
use vdev::{CacheConfig, Leaf, LeafKind, LeafWatch, VdevAux, VdevState, listed_cache, make_cache};
use zio::Zio;

use crate::{Absence, Auxiliary, Pool, PoolError};

/// A cache device that the pool lists.
#[derive(Clone)]
pub(crate) struct Cache {
    pub(crate) leaf: Arc<Leaf>,
    whole_disk: bool,
}

impl Cache {
    pub(crate) fn auxiliary(&self) -> Auxiliary {
        Auxiliary {
            guid: self.leaf.guid(),
            path: self.leaf.path(),
            is_disk: self.leaf.kind() == LeafKind::Disk,
            whole_disk: self.whole_disk,
            is_there: self.leaf.is_usable(),
            is_draid_room: false,
        }
    }
}

/// What is on a device that comes into use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// Nothing that counts.
    None,
    /// Perhaps what an earlier import left.
    Left,
}

impl Pool {
    /// Adds cache devices to the pool's list, and takes them into use; with sectors of this size, or what suits each.
    ///
    /// # Errors
    /// When a device cannot be opened or written to, is too small, or cannot have the sector size; when it cannot be made
    /// stable.
    #[boxed]
    pub async fn add_caches(
        self: &Arc<Self>,
        paths: &[PathBuf],
        ashift: Option<Ashift>,
    ) -> Result<(), PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        let mut made = Vec::with_capacity(paths.len());
        for path in paths {
            made.push(make_cache(&self.env, path, ashift, self.version()).await?);
        }
        let new = made.clone();
        self.in_sync(move |pool, tx| async move {
            let entries = new.iter().map(|(leaf, ashift)| entry(leaf, *ashift)).collect();
            pool.list_more(&tx, mos::directory::L2CACHE, L2CACHE, entries).await?;
            let caches = new.into_iter().map(|(leaf, _)| Cache { leaf, whole_disk: false });
            pool.auxiliaries.lock().caches.extend(caches);
            Ok(())
        })
        .await?;
        for (leaf, ashift) in made {
            self.use_cache(&leaf, ashift, Contents::None);
        }
        Ok(())
    }

    /// A cache device of the list that was read, closed.
    pub(crate) fn listed_cache(&self, listed: Auxiliary, is_offline: bool) -> Cache {
        let kind = if listed.is_disk { LeafKind::Disk } else { LeafKind::File };
        let config = CacheConfig { path: listed.path, guid: listed.guid, kind, is_offline };
        Cache { leaf: listed_cache(&self.env, &config), whole_disk: listed.whole_disk }
    }

    /// Takes all cache devices of the list into use that are there, and that nobody took out.
    pub(crate) async fn open_caches(self: &Arc<Self>) {
        for leaf in self.cache_leaves() {
            if leaf.state().0 == VdevState::Closed {
                self.open_cache(&leaf).await;
            }
        }
    }

    /// The cache devices as leaves: how they are, and what they did.
    #[must_use]
    pub fn cache_leaves(&self) -> Vec<Arc<Leaf>> {
        self.auxiliaries.lock().caches.iter().map(|cache| Arc::clone(&cache.leaf)).collect()
    }

    pub(crate) fn cache_leaf(&self, guid: Guid) -> Option<Arc<Leaf>> {
        self.cache_leaves().into_iter().find(|leaf| leaf.guid() == guid)
    }

    /// Bytes that a cache device has room for, and bytes of blocks there; `None` of one that is not in use.
    #[must_use]
    pub fn cache_room(&self, guid: Guid) -> Option<(u64, u64)> {
        self.cache_device(guid).map(|device| device.room())
    }

    fn cache_device(&self, guid: Guid) -> Option<Arc<CacheDevice>> {
        self.zio.second().devices().into_iter().find(|device| device.leaf().guid() == guid)
    }

    /// What the cache devices did since the pool was opened.
    #[must_use]
    pub fn cache_device_stats(&self) -> CacheDeviceStats {
        self.zio.second().stats()
    }

    async fn open_cache(&self, leaf: &Arc<Leaf>) {
        match leaf.open_cache(self.vdevs.mode()).await {
            Ok(ashift) => self.use_cache(leaf, ashift, Contents::Left),
            Err(error) => {
                tracing::warn!(path = %leaf.path().display(), %error, "cache device not opened");
            }
        }
    }

    fn use_cache(&self, leaf: &Arc<Leaf>, ashift: Ashift, contents: Contents) {
        leaf.have_watched(&(Arc::clone(&self.events) as Arc<dyn LeafWatch>));
        let (env, mode) = (Arc::clone(&self.env), self.vdevs.mode());
        let device = CacheDevice::new(env, Arc::clone(leaf), mode, ashift, self.guid());
        self.zio.second().add(Arc::clone(&device));
        let zio = Arc::clone(&self.zio);
        self.env.spawn("l2arc_feed", Box::pin(serve(zio, device, contents)));
    }

    /// Lets go of a device that may be in use.
    pub(crate) async fn drop_cache(&self, guid: Guid) {
        if let Some(device) = self.zio.second().remove(guid) {
            device.close().await;
        }
    }

    /// Lets go of all.
    pub(crate) async fn close_caches(&self) {
        for device in self.zio.second().devices() {
            self.drop_cache(device.leaf().guid()).await;
        }
    }

    /// Takes a cache device out of use; `for_now` until the next import at most.
    pub(crate) async fn take_cache_offline(
        self: &Arc<Self>,
        leaf: &Arc<Leaf>,
        absence: Absence,
        for_now: bool,
    ) -> Result<(), PoolError> {
        let guid = leaf.guid();
        if absence == Absence::Offline && !for_now {
            self.note_cache_offline(guid, true).await?;
        }
        self.drop_cache(guid).await;
        match absence {
            Absence::Offline => leaf.take_out_of_use(VdevState::Offline, VdevAux::None),
            Absence::Faulted => leaf.take_out_of_use(VdevState::Faulted, VdevAux::External),
        }
        Ok(())
    }

    /// Opens a cache device anew that was out of use.
    pub(crate) async fn bring_cache_online(self: &Arc<Self>, leaf: &Arc<Leaf>) -> Result<(), PoolError> {
        if leaf.is_usable() && self.cache_device(leaf.guid()).is_some() {
            return Ok(());
        }
        self.drop_cache(leaf.guid()).await;
        self.note_cache_offline(leaf.guid(), false).await?;
        self.open_cache(leaf).await;
        Ok(())
    }

    async fn note_cache_offline(self: &Arc<Self>, guid: Guid, is_offline: bool) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let note = |entry: &mut NvList| match is_offline {
                true => _ = entry.add_u64(OFFLINE, 1),
                false => _ = entry.remove(OFFLINE),
            };
            pool.change_listed_cache(&tx, guid, note).await
        })
        .await
    }

    /// Forgets errors of those that are meant, and opens those anew that have failed.
    pub(crate) async fn clear_caches(self: &Arc<Self>, is_meant: &(dyn Fn(&Leaf) -> bool + Sync)) {
        for leaf in self.cache_leaves().into_iter().filter(|leaf| is_meant(leaf)) {
            let (has_failed, was_degraded) = (leaf.has_failed(), leaf.forgive());
            if has_failed && !self.read_only {
                self.drop_cache(leaf.guid()).await;
                self.open_cache(&leaf).await;
            }
            if has_failed || was_degraded {
                self.tell_done("vdev_clear", Some(&leaf));
            }
        }
    }

    /// Gives those up that do not answer; gives their guids.
    pub(crate) fn give_up_overdue_caches(&self) -> Vec<Guid> {
        let (now, limit) = (self.env.now(), self.tuning.log_deadman);
        let mut lost = Vec::new();
        for leaf in self.cache_leaves() {
            if leaf.give_up_if_overdue(now, limit) {
                tracing::warn!(path = %leaf.path().display(), ?limit, "cache device has not answered");
                self.cache_device(leaf.guid()).into_iter().for_each(|device| device.give_up());
                lost.push(leaf.guid());
            }
        }
        lost
    }
}

/// Reads or makes what tells what is on a device, then feeds it until it is closed or fails.
async fn serve(zio: Arc<Zio>, device: Arc<CacheDevice>, contents: Contents) {
    let begun = match contents {
        Contents::None => device.start_anew().await,
        Contents::Left => {
            device.rebuild().await;
            Ok(())
        }
    };
    let served = match begun {
        Ok(()) if device.is_writable() => zio.feed(&device).await,
        begun => begun,
    };
    if let Err(error) = served {
        device.fail(&error);
    }
}

/// As the list has it.
fn entry(leaf: &Leaf, ashift: Ashift) -> NvList {
    let mut entry = NvList::new();
    entry.add_str(TYPE, leaf.kind().name()).add_u64(GUID, leaf.guid().get());
    entry.add_str(PATH, leaf.path().to_string_lossy()).add_u64(ASHIFT, u64::from(ashift.get()));
    entry
}
