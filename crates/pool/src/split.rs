//! A pool is split: one device of each mirror leaves for a pool of its own, which is what this one was.
//!
//! ```text
//!  no log block goes to a log vdev ─► a txg: all that was promised, and who is to leave (`splitcfg`)     T
//!    ─► they are out of use here, and closed
//!    ─► opened as the other pool, at T: its own guid and name, no logs, spares or caches
//!         its first txg: even labels ─► uberblock ─► odd labels                                          the split
//!                        └ before that the devices are this pool's, and lack what it wrote since T
//!    ─► a txg of this pool: without them; logs are used again
//! ```
//! The uberblock of the other pool's first txg decides, on whichever of the devices it is first. Until it is there, labels
//! of the other pool are younger than every uberblock beside them, and do not count: an import of this pool finds its
//! devices, and resilvers them from T on. Once it is there, the devices are the other pool's, whose labels say that it was split
//! off this one (`split_guid`): an import of this pool leaves them alone and takes them out, also one by OpenZFS. So at no moment two
//! pools have the same device, and this pool has everything at all times.
//!
//! The other pool writes where this one had nothing at T. What lies there on its devices is of no use to this pool, should it
//! get them back.
//!
//! *Intent logs.* What was acknowledged before the command is in T. Chains go on in the main pool meanwhile, so that the other
//! pool finds at T what any import after a crash would: it claims what it has of them, and needs no log that stays behind.
//!
//! Invariants
//! - Whenever the power is cut there is this pool with everything, and the other one or not; no device is of both.
//!   (test: `a_power_cut_while_a_pool_is_split_leaves_every_device_to_one_pool`)
//! - Both pools are sound: nothing is leaked, no object is nobody's. (test: `both_halves_of_a_split_are_sound`)

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use env::boxed;
use units::{Guid, VdevId};
use vdev::{Leaf, Node, NodeKind, SplitNote, Top, VdevAux, VdevState};

use crate::import::split::{Halving, open_split};
use crate::remove::TXGS_MAX;
use crate::space::maps::forget_dtl;
use crate::{Pool, PoolError, RemovalRefusal, Tuning, config, find_pools};

/// Why a pool is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitRefusal {
    /// Blocks on a vdev that is no mirror are nowhere else.
    #[error("Source pool must be composed only of mirrors\n")]
    NotMirrors,
    /// Two of the devices are of one mirror, or one is of none.
    #[error("Device list must include at most one disk from each mirror")]
    NotOneOfEach,
    /// A device is not well, or is being replaced.
    #[error("invalid argument for this pool operation")]
    Unfit,
    /// A device lacks something, or is the only one that has it.
    #[error("pool is busy")]
    Busy,
}

impl Pool {
    /// The leaves that would leave: of each mirror the one that is named, else its last.
    ///
    /// # Errors
    /// [`SplitRefusal::NotMirrors`], [`SplitRefusal::NotOneOfEach`], [`SplitRefusal::Unfit`] where it is no leaf.
    pub fn plan_split(&self, named: &[Guid]) -> Result<BTreeMap<VdevId, Guid>, PoolError> {
        let mut leaves = BTreeMap::new();
        let mut found = 0;
        for top in self.vdevs.tops_with_devices().iter().filter(|top| !top.is_log()) {
            let is_named = |child: &&Node| matches!(child, Node::Leaf(leaf) if named.contains(&leaf.guid()));
            let children = match top.kind() {
                NodeKind::Mirror => top.node().children(),
                _ => return Err(SplitRefusal::NotMirrors.into()),
            };
            let child = children.iter().find(is_named);
            found += usize::from(child.is_some());
            match child.or(children.last()) {
                Some(Node::Leaf(leaf)) => _ = leaves.insert(top.id(), leaf.guid()),
                _ => return Err(SplitRefusal::Unfit.into()),
            }
        }
        if found == named.len() { Ok(leaves) } else { Err(SplitRefusal::NotOneOfEach.into()) }
    }

    /// Splits off a pool that is called `name`, of the leaves that are named and the last ones of the other mirrors. The other pool is
    /// returned open, and says on disk that it is exported: whoever gets it closes it so.
    ///
    /// # Errors
    /// [`SplitRefusal`], [`PoolError::Checkpoint`], [`RemovalRefusal`]: nothing has changed. Those of the devices: the
    /// leaves are back then, or the other pool is there and closed.
    #[boxed]
    pub async fn split(
        self: &Arc<Self>,
        name: &str,
        named: &[Guid],
        tuning: Tuning,
    ) -> Result<Arc<Self>, PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        let leaves = self.check_split(named)?;
        let logs: Vec<_> = self.vdevs.tops().into_iter().filter(|top| top.is_log()).collect();
        logs.iter().for_each(|log| self.zio.rest_vdev(log.id()));
        let split = match self.leave_logs(&logs).await {
            Ok(()) => self.halve(name, named, leaves, tuning).await,
            Err(error) => Err(error),
        };
        logs.iter().for_each(|log| self.zio.use_vdev(log.id()));
        self.trust_with_logs(&logs.iter().map(|log| log.id()).collect());
        self.move_logs_on().await;
        split
    }

    /// The leaves that leave, if nothing is in the way.
    fn check_split(&self, named: &[Guid]) -> Result<BTreeMap<VdevId, Guid>, PoolError> {
        self.check_no_checkpoint()?;
        self.check_no_evacuation()?;
        let leaves = self.plan_split(named)?;
        for guid in leaves.values() {
            let leaf = self.vdevs.leaf(*guid)?;
            if leaf.state().0 != VdevState::Online || leaf.config().is_spare {
                return Err(SplitRefusal::Unfit.into());
            }
            if leaf.is_stale() || leaf.is_suspect() || !self.vdevs.can_do_without(&leaf) {
                return Err(SplitRefusal::Busy.into());
            }
        }
        Ok(leaves)
    }

    /// Has no chain anything on a log vdev.
    async fn leave_logs(self: &Arc<Self>, logs: &[Arc<Top>]) -> Result<(), PoolError> {
        for _ in 0..TXGS_MAX {
            for log in logs {
                for dataset in self.open_datasets() {
                    self.leave_with_log(&dataset, log).await?;
                }
            }
            self.sync_now().await?;
            if !logs.iter().any(|log| self.has_log_on(log.id())) {
                return Ok(());
            }
        }
        Err(RemovalRefusal::InUse.into())
    }

    async fn halve(
        self: &Arc<Self>,
        name: &str,
        named: &[Guid],
        leaves: BTreeMap<VdevId, Guid>,
        tuning: Tuning,
    ) -> Result<Arc<Self>, PoolError> {
        let named: Vec<_> = named.to_vec();
        let (wanted, note) = (leaves.clone(), self.note_of(&leaves));
        self.in_sync(move |pool, tx| async move {
            // It may be another one meanwhile.
            if pool.check_split(&named)? != wanted {
                return Err(SplitRefusal::Busy.into());
            }
            tx.note_change();
            pool.config.lock().set_split(Some(note));
            pool.vdevs.mark_all_changed();
            pool.store_config(&tx).await
        })
        .await?;
        let going = leaves.values().map(|guid| self.vdevs.leaf(*guid)).collect::<Result<Vec<_>, _>>()?;
        let halving = Halving {
            name: name.to_owned(),
            guid: Guid::new(self.env.random_u64().max(1)),
            from: self.guid(),
            from_name: self.name(),
            vdev_tree: self.vdevs.split_tree(&leaves)?,
            paths: going.iter().map(|leaf| (leaf.guid(), leaf.path())).collect(),
            pool: self.config.lock().at(self.gate.synced_txg()),
        };
        let opened = match self.cut_off(&going).await {
            Ok(()) => open_split(&self.env, &halving, tuning).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok(other) => match self.let_leave(&going).await {
                Ok(()) => Ok(other),
                Err(error) => {
                    other.abandon().await;
                    Err(error)
                }
            },
            Err(error) => {
                tracing::error!(%error, "not split");
                self.settle_split(&going, halving.guid).await?;
                Err(error)
            }
        }
    }

    /// What the configuration says of who leaves.
    fn note_of(&self, leaves: &BTreeMap<VdevId, Guid>) -> SplitNote {
        let last = leaves.keys().next_back().map_or(0, |last| last.get() as usize + 1);
        let tops = self.vdevs.all_tops().into_iter().take(last);
        SplitNote::Leaving(tops.map(|top| leaves.get(&top.id()).copied().unwrap_or(Guid::new(0))).collect())
    }

    /// Takes the leaves out of use, and lets go of their devices. What they miss from here on is noted by each txg.
    async fn cut_off(self: &Arc<Self>, going: &[Arc<Leaf>]) -> Result<(), PoolError> {
        for leaf in going {
            self.end_sweeps_of(leaf).await;
        }
        for leaf in going {
            leaf.set_away_for_now(true);
            self.vdevs.offline(leaf.guid()).map_err(|_| SplitRefusal::Busy)?;
            leaf.take_out_of_use(VdevState::Offline, VdevAux::None);
        }
        Ok(())
    }

    /// The leaves are another pool's: takes them out of their mirrors.
    async fn let_leave(self: &Arc<Self>, gone: &[Arc<Leaf>]) -> Result<(), PoolError> {
        let gone = gone.to_vec();
        self.in_sync(move |pool, tx| async move {
            // Its sibling may have failed meanwhile: then the next import asks again.
            if !gone.iter().all(|leaf| pool.vdevs.can_do_without(leaf)) {
                return Err(SplitRefusal::Busy.into());
            }
            tx.note_change();
            for leaf in &gone {
                pool.vdevs.take_out(leaf.guid())?;
                config::forget_leaf_zap(&pool.dsl, &tx, leaf).await?;
                forget_dtl(&pool.dsl, &tx, leaf).await?;
                pool.note_event(&tx, "detach", None, &format!("vdev={}", leaf.path().display())).await?;
                tracing::info!(guid = leaf.guid().get(), path = %leaf.path().display(), "split off");
            }
            pool.config.lock().set_split(None);
            pool.store_config(&tx).await
        })
        .await
    }

    /// The other pool could not be opened, or written to: it is there all the same, or the leaves come back.
    async fn settle_split(self: &Arc<Self>, going: &[Arc<Leaf>], other: Guid) -> Result<(), PoolError> {
        let paths: Vec<PathBuf> = going.iter().map(|leaf| leaf.path()).collect();
        if find_pools(&self.env, &paths).await.iter().any(|found| found.guid == other) {
            return self.let_leave(going).await;
        }
        for leaf in going.iter().filter(|leaf| !leaf.is_usable()) {
            self.open_again(leaf).await?;
        }
        self.forget_split_if_back(going).await
    }

    async fn forget_split_if_back(self: &Arc<Self>, going: &[Arc<Leaf>]) -> Result<(), PoolError> {
        // One that cannot be opened may be found to be the other pool's by an import.
        if !going.iter().all(|leaf| leaf.is_usable()) {
            return Ok(());
        }
        self.in_sync(|pool, tx| async move {
            tx.note_change();
            pool.config.lock().set_split(None);
            pool.store_config(&tx).await
        })
        .await
    }

    /// After an import: a split that was cut short is brought to its end, or is none.
    pub(crate) async fn finish_split(self: &Arc<Self>) -> Result<(), PoolError> {
        let Some(SplitNote::Leaving(guids)) = self.config.lock().split() else { return Ok(()) };
        let going: Vec<_> = guids.iter().filter_map(|guid| self.vdevs.leaf(*guid).ok()).collect();
        let is_elsewhere = |leaf: &Arc<Leaf>| {
            let (state, aux) = leaf.state();
            state == VdevState::Unavail
                && matches!(aux, VdevAux::SplitPool | VdevAux::BadLabel | VdevAux::Elsewhere)
        };
        if !going.iter().any(is_elsewhere) {
            return self.forget_split_if_back(&going).await;
        }
        let gone: Vec<_> = going.into_iter().filter(|leaf| !leaf.is_usable()).collect();
        self.let_leave(&gone).await
    }
}
