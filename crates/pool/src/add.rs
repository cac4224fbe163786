//! Adding vdevs to a pool that is in use.
//!
//! ```text
//!   plan ─► labels of txg 0 ─► a txg's sync: metaslab array ─► in the tree ─► configuration ─► stable ─► in use
//!   └──── any failure: nothing has changed ────┘    └──── a failure: that txg never ends ────┘
//! ```
//! Nobody knows of the vdevs until their devices have taken labels. All of them join the tree in one txg's sync, which
//! writes the configuration that has them, and then labels and uberblock: after a crash the pool has all of them or none.
//!
//! Until that txg is stable no block goes to them. A log block there could be promised to a client before anybody could
//! find the vdev after a crash. Then the chains of all logs move to a log vdev at once, also those that nobody commits to
//! (test: `chains_move_to_a_log_that_is_added_within_a_second`).
//!
//! Invariants
//! - A pool is as it was when an add fails (test: `an_add_that_fails_leaves_the_pool_as_it_was`).
//! - A crash leaves all new vdevs or none, and nothing that was promised is lost
//!   (test: `a_power_cut_while_vdevs_are_added_leaves_all_of_them_or_none`).

use std::sync::Arc;

use dmu::Tx;
use dsl::PropValue;
use env::boxed;
use units::Ashift;
use vdev::{NewVdev, Top, init_labels};

use crate::create::{check_features, check_unused};
use crate::{Pool, PoolError, config};

/// The property that says which sectors new vdevs are to have; 0: their devices'.
const ASHIFT: &str = "ashift";

impl Pool {
    /// The sector size that new vdevs are to have, if that was set.
    ///
    /// # Errors
    /// Those of reading the meta-objset.
    #[boxed]
    pub async fn ashift(&self) -> Result<Option<Ashift>, PoolError> {
        let set = self.pool_props().await?.get(ASHIFT).and_then(PropValue::number);
        Ok(set.and_then(|bits| u8::try_from(bits).ok()).filter(|&bits| bits != 0).map(Ashift::new))
    }

    /// Adds vdevs to the pool; those without a sector size get the one that the pool's property says.
    ///
    /// # Errors
    /// As [`Pool::create`]; nothing has changed then.
    #[boxed]
    pub async fn add(self: &Arc<Self>, vdevs: Vec<NewVdev>, force: bool) -> Result<(), PoolError> {
        self.check_writable()?;
        check_unused(&self.env, vdevs.iter().flat_map(|vdev| &vdev.paths), force).await?;
        let enabled = self.dsl.features().await?;
        check_features(&vdevs, |feature| enabled.contains_key(feature.guid))?;
        let ashift = self.ashift().await?;
        let create_txg = self.gate.open_txg();
        let with_defaults =
            |vdev: NewVdev| NewVdev { create_txg: create_txg.get(), ashift: vdev.ashift.or(ashift), ..vdev };
        let vdevs: Vec<NewVdev> = vdevs.into_iter().map(with_defaults).collect();
        // Numbers are given to one at a time.
        let _alone = self.adding.lock().await;
        let tops = self.vdevs.plan(&vdevs).await?;
        self.check_beside_removed(&tops)?;
        let label = self.config.lock().at(create_txg);
        for top in &tops {
            init_labels(&self.vdevs, top, &label).await?;
        }
        let has_logs = tops.iter().any(|top| top.is_log());
        self.in_sync(move |pool, tx| async move { pool.join_vdevs(&tx, &tops).await }).await?;
        self.tell_done("vdev_add", None);
        if has_logs {
            self.move_logs_on().await;
        }
        Ok(())
    }

    /// The txg is stable in which vdevs joined: blocks may go there.
    pub(crate) fn use_joined(&self) {
        let joined = std::mem::take(&mut *self.joined.lock());
        for &id in &joined {
            // What was known of a vdev that had the number before is not true of this one.
            self.log_store.forget_home(id);
            self.zio.use_vdev(id);
        }
        self.trust_with_logs(&joined.into_iter().collect());
    }

    async fn join_vdevs(self: &Arc<Self>, tx: &Tx, tops: &[Arc<Top>]) -> Result<(), PoolError> {
        self.announce_vdevs(tops)?;
        // From here on it is whole or never stable: the vdevs are known to the allocator.
        tx.note_change();
        self.note_vdevs(tx, tops).await?;
        self.joined.lock().extend(tops.iter().map(|top| top.id()));
        Ok(())
    }

    /// All of them, or none.
    fn announce_vdevs(&self, tops: &[Arc<Top>]) -> Result<(), PoolError> {
        for (count, top) in tops.iter().enumerate() {
            if let Err(error) = self.zio.announce_vdev(top) {
                for top in &tops[..count] {
                    let forgotten = self.zio.with_allocator(|allocator| allocator.remove_vdev(top.id()));
                    forgotten.expect("nothing was ever there");
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    async fn note_vdevs(&self, tx: &Tx, tops: &[Arc<Top>]) -> Result<(), PoolError> {
        for top in tops {
            let array = self.space_maps.format(self.dsl.mos(), tx, top).await?;
            top.set_config(|config| config.metaslab_array = array.get());
        }
        for top in tops {
            self.vdevs.join(top);
        }
        self.vdevs.mark_all_changed();
        config::make_vdev_zaps(&self.dsl, tx, &self.vdevs).await?;
        for top in tops {
            config::note_kind(&self.dsl, tx, top).await?;
        }
        let needed_to_read = self.dsl.label_features().await?;
        self.config.lock().set_features(&needed_to_read);
        let config = self.config.lock().clone();
        config::store(&self.dsl, tx, &config, &self.vdevs).await
    }
}
