//! Hot spares: how they come, stand in for devices that failed, and stay or go back.
//!
//! ```text
//!   add ──► waits: in the list, labels of no pool ──replace, or a device failed──► at work: spare-0 of the device
//!              ▲                                                                     and the spare, a leaf like others
//!              │                                                                        │
//!              ├── the spare is detached, or the device is back and whole ──────────────┤
//!              │                                                                        │
//!           gone from the list: the spare is a device of the pool ◄── the device is detached
//! ```
//! Pools may share a spare: it is on several lists with one guid. Whoever puts it to work first has its device open,
//! and with that locked; others find it in use and look for the next. A spare that waits is held, so that no program
//! takes its block device for free ([`OpenMode::Hold`]).
//!
//! A spare is put to work by itself when a device of data has failed, whatever `autoreplace` says, which is about new
//! disks in old places. That is looked for after each txg, so that a device that comes back within one is not stood
//! in for. A device that somebody took out for a while (`offline`) is not stood in for.
//!
//! Invariants
//! - A device that failed under load is stood in for, and nothing is lost when another goes after the resilver.
//!   (test: `a_spare_stands_in_for_a_device_that_failed`)
//! - A spare at work is in one place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dmu::Tx;
use env::{Device, OpenMode, boxed};
use ondisk::config::{ASHIFT, GUID, IS_SPARE, PATH, SPARES, TYPE};
use ondisk::{NvList, mos};
use parking_lot::Mutex;
use units::Guid;
use vdev::{Leaf, LeafKind, NewLeaf, NewSpare, NodeKind, VdevAux, VdevState, make_spare};

use crate::{Auxiliary, DeviceRefusal, Pool, PoolError};

/// The devices of hot spares that wait.
#[derive(Default)]
pub(crate) struct HeldSpares {
    devices: Mutex<BTreeMap<Guid, Arc<dyn Device>>>,
    /// True while a task opens devices of spares.
    is_at_work: AtomicBool,
    /// True when the pool is being closed, and holds no more devices.
    is_over: AtomicBool,
}

impl HeldSpares {
    /// Keeps the spares for which `is_kept` is true.
    pub fn retain(&self, is_kept: impl Fn(Guid) -> bool) {
        self.devices.lock().retain(|guid, _| is_kept(*guid));
    }

    /// Ends all holds. The pool holds no device from now on.
    pub fn let_go(&self) {
        self.is_over.store(true, Ordering::Release);
        self.retain(|_| false);
    }
}

impl Pool {
    /// Holds the hot spares that wait, and ends the holds on other devices. If another pool has a spare at work, this pool
    /// tries to hold the spare again after each txg.
    pub(crate) fn hold_spares(self: &Arc<Self>) {
        let held = &self.held_spares;
        let is_idle = self.spares().is_empty() && held.devices.lock().is_empty();
        if is_idle || held.is_at_work.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::clone(self);
        let work = async move {
            for spare in pool.spares().into_iter().filter(|spare| spare.is_disk) {
                if pool.waits(spare.guid)
                    && let Ok(device) = pool.env.open(&spare.path, OpenMode::Hold).await
                {
                    pool.held_spares.devices.lock().insert(spare.guid, device);
                }
            }
            let is_over = pool.held_spares.is_over.load(Ordering::Acquire);
            pool.held_spares.retain(|guid| !is_over && pool.waits(guid));
            pool.held_spares.is_at_work.store(false, Ordering::Release);
        };
        self.env.spawn("held_spares", Box::pin(work));
    }

    /// Looks for the hot spares that wait, where the list says that each of them is.
    pub(crate) async fn look_for_spares(&self) {
        let waiting = |spare: &Auxiliary| !spare.is_draid_room && self.waits(spare.guid);
        for spare in self.spares().into_iter().filter(waiting) {
            let is_there = self.vdevs.is_labeled(&spare.path, spare.guid).await;
            let mut listed = self.auxiliaries.lock();
            if let Some(listed) = listed.spares.iter_mut().find(|listed| listed.guid == spare.guid) {
                listed.is_there = is_there;
            }
        }
    }

    /// True if the spare is on the list and not at work.
    fn waits(&self, spare: Guid) -> bool {
        self.spares().iter().any(|listed| listed.guid == spare) && self.vdevs.leaf(spare).is_err()
    }

    /// Adds hot spares to the pool's list.
    ///
    /// # Errors
    /// When a device cannot be opened or written to, or is too small; when it cannot be made stable.
    #[boxed]
    pub async fn add_spares(self: &Arc<Self>, paths: &[PathBuf]) -> Result<(), PoolError> {
        self.check_writable()?;
        let _alone = self.adding.lock().await;
        let mut spares = Vec::with_capacity(paths.len());
        for path in paths {
            spares.push(make_spare(&self.env, path, self.version()).await?);
        }
        self.in_sync(move |pool, tx| async move {
            let entries = spares.iter().map(entry).collect();
            pool.list_more(&tx, mos::directory::SPARES, SPARES, entries).await?;
            pool.auxiliaries.lock().spares.extend(spares.iter().map(waiting));
            Ok(())
        })
        .await
    }

    /// Puts a hot spare in the place of a leaf until one of the two is detached, and begins to bring it up to date.
    ///
    /// # Errors
    /// [`PoolError::Device`], as [`Self::attach`]; when another pool has the spare at work.
    #[boxed]
    pub async fn stand_in(self: &Arc<Self>, old: Guid, spare: Guid) -> Result<(), PoolError> {
        let listed = self.spares().into_iter().find(|listed| listed.guid == spare);
        let listed = listed.ok_or(DeviceRefusal::NoSuchDevice)?;
        if self.vdevs.leaf(spare).is_ok() {
            return Err(DeviceRefusal::SpareAtWork.into());
        }
        let new = NewLeaf { path: listed.path, spare: Some(spare), ..NewLeaf::default() };
        self.put_in(old, &new, NodeKind::Spare).await
    }

    /// A spare stays for good: it is a leaf like others from now on, and no pool's spare.
    pub(crate) async fn keep_spare(&self, tx: &Tx, spare: &Leaf, listed_as: Guid) -> Result<(), PoolError> {
        self.strike_auxiliary(tx, listed_as).await?;
        spare.set_config(|config| config.is_spare = false);
        Ok(())
    }

    /// A device that a spare stands in for is to be used again: the spare goes once the device is whole.
    pub(crate) fn call_back(&self, leaf: &Leaf) {
        let is_stood_in_for = self
            .standing(leaf.guid())
            .is_ok_and(|standing| standing.parent == Some(NodeKind::Spare) && !leaf.config().is_spare);
        leaf.set_config(|config| (config.unspare, config.no_spare_found) = (is_stood_in_for, false));
    }

    /// Has spares stand in for devices that failed, if there are both; one at a time.
    pub(crate) fn replace_failed(self: &Arc<Self>) {
        if self.read_only
            || self.evacuation.is_under_way()
            || self.spares().is_empty()
            || self.failed_leaf().is_none()
        {
            return;
        }
        if self.standing_in.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::clone(self);
        let work = async move {
            if let Some(failed) = pool.failed_leaf() {
                pool.stand_in_for(&failed).await;
            }
            pool.standing_in.store(false, Ordering::Release);
        };
        self.env.spawn("hot_spare", Box::pin(work));
    }

    /// The first of the spares that can.
    async fn stand_in_for(self: &Arc<Self>, failed: &Leaf) {
        for spare in self.spares().iter().filter(|spare| self.vdevs.leaf(spare.guid).is_err()) {
            match self.stand_in(failed.guid(), spare.guid).await {
                Ok(()) => {
                    let (failed, spare) = (failed.path(), spare.path.display());
                    tracing::warn!(failed = %failed.display(), %spare, "a hot spare stands in");
                    return;
                }
                Err(error) => tracing::warn!(spare = %spare.path.display(), %error, "not put to work"),
            }
        }
        // None can. Whether that has changed is looked for when the leaf fails again.
        failed.set_config(|config| config.no_spare_found = true);
    }

    /// A device of data that has failed and that nobody stands in for, or takes the place of.
    fn failed_leaf(&self) -> Option<Arc<Leaf>> {
        let is_due = |leaf: &Arc<Leaf>| {
            let (state, aux) = leaf.state();
            let has_failed = matches!(state, VdevState::Faulted | VdevState::Removed)
                || (state == VdevState::Unavail && aux != VdevAux::None);
            let is_data = self.vdevs.top(leaf.vdev()).is_ok_and(|top| !top.is_log());
            has_failed && is_data && !leaf.config().no_spare_found && self.may_be_stood_in_for(leaf.guid())
        };
        self.vdevs.leaves().into_iter().find(is_due)
    }

    fn may_be_stood_in_for(&self, leaf: Guid) -> bool {
        let of_a_mirror_or_raidz = |kind| !matches!(kind, NodeKind::Spare | NodeKind::Replacing);
        self.standing(leaf).is_ok_and(|standing| standing.parent.is_some_and(of_a_mirror_or_raidz))
    }
}

/// As the list has it.
fn entry(spare: &NewSpare) -> NvList {
    let mut entry = NvList::new();
    entry.add_str(TYPE, spare.kind.name()).add_u64(GUID, spare.guid.get());
    entry.add_str(PATH, spare.path.to_string_lossy()).add_u64(IS_SPARE, 1);
    entry.add_u64(ASHIFT, u64::from(spare.ashift.get()));
    entry
}

fn waiting(spare: &NewSpare) -> Auxiliary {
    Auxiliary {
        guid: spare.guid,
        path: spare.path.clone(),
        is_disk: spare.kind == LeafKind::Disk,
        whole_disk: false,
        is_there: true,
        is_draid_room: false,
    }
}
