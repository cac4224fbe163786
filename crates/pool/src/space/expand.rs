//! Devices that have become larger: the property `autoexpand`.
//!
//! ```text
//!   import, the property set, `online -e`, `reopen`, a device back, a smaller device removed:
//!     devices are larger ─► a txg records the new size (configuration, labels) ─► more metaslabs
//! ```
//! Devices may become larger while they are in use. Once that is known, labels are written at their new ends; until the txg that
//! does so is stable the first two of each device's four lead to the pool. (test of `cli`: `a_device_that_grows_in_use_is_expanded_when_asked`)
//!
//! Space is handed out only once the txg that tells of it is stable: a log block there would
//! otherwise lie outside of its vdev after a crash. New metaslabs are all free, and have no space
//! map until something is allocated in them. (tests: `a_pool_grows_with_its_devices`,
//! `a_vdev_grows_once_the_last_small_device_is_replaced`)

use std::sync::Arc;
use std::sync::atomic::Ordering;

use env::boxed;
use units::{Asize, Guid};

use crate::{Pool, PoolError, config};

/// The property's name.
pub(crate) const AUTOEXPAND: &str = "autoexpand";

impl Pool {
    /// True if devices are used to their end, wherever the end is by now.
    pub(crate) async fn autoexpands(&self) -> Result<bool, PoolError> {
        self.is_prop_on(AUTOEXPAND).await
    }

    /// Called after a txg in which a device was removed or returned. With `autoexpand=on`, its vdev
    /// grows to the new size of its devices.
    pub(crate) fn grow_if_wanted(self: &Arc<Self>) {
        if !self.may_grow.swap(false, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::clone(self);
        let work = async move {
            let _alone = pool.adding.lock().await;
            let grown = match pool.autoexpands().await {
                Ok(true) => pool.expand().await.map(drop),
                other => other.map(drop),
            };
            if let Err(error) = grown {
                tracing::warn!(%error, "vdevs do not use the whole size of their devices");
            }
        };
        self.env.spawn("autoexpand", Box::pin(work));
    }

    /// Takes into use what all devices have become larger by; says by how many bytes vdevs grew.
    ///
    /// # Errors
    /// When it cannot be made stable.
    #[boxed]
    pub async fn expand(self: &Arc<Self>) -> Result<u64, PoolError> {
        self.expand_some(&self.vdevs.tops()).await
    }

    /// The same for the top-level vdev that a leaf is part of.
    ///
    /// # Errors
    /// [`crate::DeviceRefusal::NoSuchDevice`]; when it cannot be made stable.
    #[boxed]
    pub async fn expand_beside(self: &Arc<Self>, leaf: Guid) -> Result<u64, PoolError> {
        self.check_writable()?;
        let top = self.vdevs.top(self.standing(leaf)?.leaf.vdev())?;
        self.expand_some(&[top]).await
    }

    /// Looks at the sizes of all devices. With `autoexpand=on`, vdevs grow to them.
    ///
    /// # Errors
    /// When it cannot be made stable.
    pub(crate) async fn look_at_sizes(self: &Arc<Self>) -> Result<(), PoolError> {
        let _alone = self.adding.lock().await;
        if self.autoexpands().await? {
            return self.expand().await.map(drop);
        }
        match self.find_ends(&self.vdevs.tops()) {
            true => self.in_sync(|pool, tx| async move { pool.store_config(&tx).await }).await,
            false => Ok(()),
        }
    }

    /// Finds out where devices end now. Returns whether one ends elsewhere than before.
    fn find_ends(&self, tops: &[Arc<vdev::Top>]) -> bool {
        let mut has_moved_ends = false;
        for top in tops {
            for leaf in top.leaves() {
                let before = leaf.psize();
                leaf.look_again();
                if leaf.psize() != before {
                    self.vdevs.mark_changed(top.id());
                    has_moved_ends = true;
                }
            }
        }
        has_moved_ends
    }

    async fn expand_some(self: &Arc<Self>, tops: &[Arc<vdev::Top>]) -> Result<u64, PoolError> {
        let has_moved_ends = self.find_ends(tops);
        let larger = |top: &Arc<vdev::Top>| {
            let stays = top.config().leaving.is_none();
            top.possible_asize().filter(|asize| stays && *asize > top.config().asize)
        };
        let grown: Vec<_> =
            tops.iter().filter_map(|top| larger(top).map(|asize| (Arc::clone(top), asize))).collect();
        if grown.is_empty() && !has_moved_ends {
            return Ok(0);
        }
        let more = grown.iter().map(|(top, asize)| asize - top.config().asize).sum();
        let told = grown.clone();
        self.in_sync(move |pool, tx| async move {
            for (top, asize) in told {
                top.set_config(|config| config.asize = asize);
            }
            let config = pool.config.lock().clone();
            config::store(&pool.dsl, &tx, &config, &pool.vdevs).await
        })
        .await?;
        for (top, asize) in grown {
            tracing::info!(vdev = %top.id(), asize, "has become larger");
            self.space_maps.grow(&top);
            self.zio.with_allocator(|allocator| allocator.grow_vdev(top.id(), Asize::new(asize)))?;
        }
        Ok(more)
    }
}
