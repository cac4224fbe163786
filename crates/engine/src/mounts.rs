//! What is mounted.
//!
//! The table's lock is never held while something is mounted or unmounted, which may take as long as a
//! device does: who only looks does not wait. (test: `a_slow_unmount_stops_nobody_from_looking`)
//!
//! Invariants
//! - A dataset has at most one front session at any time, whatever its name was when the session
//!   began. Two sessions would have two caches, and each would overwrite the changes of the other.
//!   This is asserted.
//!   (test: `a_data_set_that_is_renamed_in_place_keeps_its_one_mount`)
//! - No entry is mounted above the mount point of an earlier entry, unless its parent was mounted
//!   by another program.
//!   (test: `a_parent_is_never_mounted_over_its_child`)

use crate::front::{
    Front, LetGo, MountFlags, MountOptions, Mounted, OrphanMount, PlaceChoice, Shown, Snapdir, Suspended,
    SyncingThread, UnmountReach, UserIds,
};
use crate::head_sends::{HeadSend, HeadSends};
use crate::mount_options::Given;
use crate::names;
use crate::refusal;
use control::{Failure, FailureKind, MountInfo};
use env::boxed;
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::ObjsetId;

/// What is mounted, in order of mounting.
pub struct MountTable {
    front: Option<Arc<dyn Front>>,
    mounted: Mutex<Vec<Arc<Entry>>>,
    head_sends: HeadSends,
}

/// A file system that is mounted.
pub struct Entry {
    /// The name of the dataset, which a rename changes.
    dataset: Mutex<String>,
    /// The objset of the dataset in its pool, which no rename changes.
    objset: ObjsetId,
    /// Where.
    pub mountpoint: String,
    /// What was said when it was mounted.
    pub given: Given,
    flags: Mutex<MountFlags>,
    mounted: Box<dyn Mounted>,
}

impl MountTable {
    /// Nothing yet; what will be is shown by `front`.
    pub fn new(front: Option<Arc<dyn Front>>) -> Self {
        Self { front, mounted: Mutex::default(), head_sends: HeadSends::default() }
    }

    /// What is mounted, but for what others have unmounted and what only others still see.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        let is_here = |entry: &Arc<Entry>| !entry.mounted.is_ending() && !entry.mounted.is_elsewhere();
        self.all().into_iter().filter(is_here).collect()
    }

    /// What is mounted, and what was unmounted and is still being made stable.
    fn all(&self) -> Vec<Arc<Entry>> {
        let mut table = self.mounted.lock();
        table.retain(|entry| !entry.mounted.has_ended());
        table.clone()
    }

    /// What is mounted, to be shown.
    pub fn list(&self) -> Vec<MountInfo> {
        let one = |e: &Arc<Entry>| MountInfo { dataset: e.dataset(), mountpoint: e.mountpoint.clone() };
        self.entries().iter().map(one).collect()
    }

    /// Where a dataset is mounted.
    pub fn place_of(&self, dataset: &str) -> Option<String> {
        self.entries().iter().find(|e| e.is_of(dataset)).map(|e| e.mountpoint.clone())
    }

    /// Returns the options with which a dataset was mounted, or `None` if the dataset is not mounted.
    pub fn given_of(&self, dataset: &str) -> Option<Given> {
        self.entries().iter().find(|e| e.is_of(dataset)).map(|e| e.given)
    }

    /// The pool of what is mounted by this name, or at this place.
    pub fn pool_of(&self, target: &str) -> Option<String> {
        let found = self.all().into_iter().find(|entry| entry.is_called(target))?;
        Some(names::pool_of(&found.dataset()).to_owned())
    }

    /// Mounts a file system.
    pub fn mount(
        &self,
        shown: Shown,
        mountpoint: &str,
        given: Given,
        options: &MountOptions,
    ) -> Result<(), Failure> {
        let dataset = options.source.as_str();
        if let Some(reason) = self.in_the_way(dataset) {
            return Err(Failure::cannot(FailureKind::Busy, "mount", dataset, &reason));
        }
        let path = Path::new(mountpoint);
        let Some(front) = &self.front else { return Ok(()) };
        let objset = shown.zfs.objset().id();
        if self.head_sends.has(names::pool_of(dataset), objset) {
            let reason = "pool or dataset is busy: its head is being sent";
            return Err(Failure::cannot(FailureKind::Busy, "mount", dataset, reason));
        }
        self.assert_one_session(dataset, objset);
        let mounted = front.mount(shown, path, options);
        let mounted = mounted.map_err(|e| refusal::mount("mount", dataset, &e))?;
        let (dataset, mountpoint) = (Mutex::new(dataset.to_owned()), mountpoint.to_owned());
        let flags = Mutex::new(options.flags);
        self.mounted.lock().push(Arc::new(Entry { dataset, objset, mountpoint, given, flags, mounted }));
        Ok(())
    }

    /// # Panics
    /// When the dataset has a session under another name.
    fn assert_one_session(&self, dataset: &str, objset: ObjsetId) {
        let pool = names::pool_of(dataset);
        for entry in self.all().iter().filter(|entry| entry.objset == objset) {
            let known = entry.dataset();
            assert!(names::pool_of(&known) != pool, "{dataset} would have a second session beside {known}'s");
        }
    }

    /// Gives the sessions of a renamed dataset, and of those below it, their new names.
    pub fn rename_below(&self, old: &str, new: &str) {
        for entry in self.all() {
            let mut dataset = entry.dataset.lock();
            if names::is_within(&dataset, old) {
                *dataset = format!("{new}{}", &dataset[old.len()..]);
            }
        }
    }

    /// Why a dataset cannot be mounted, if it has a session. A session that others ended just now is waited for: it
    /// lasts until its data are stable.
    fn in_the_way(&self, dataset: &str) -> Option<String> {
        let found = self.all().into_iter().find(|entry| entry.is_of(dataset))?;
        if found.mounted.ends_soon() {
            return None;
        }
        Some(match found.mounted.is_elsewhere() {
            true => {
                let by = found
                    .mounted
                    .seen_elsewhere()
                    .unwrap_or_else(|| "an open file or another mount namespace".to_owned());
                format!("{by} still shows the filesystem; 'zfs unmount -f {dataset}' ends that")
            }
            false => "filesystem already mounted".to_owned(),
        })
    }

    /// Keeps a dataset from being mounted while its head is sent. Returns `None` if the dataset has
    /// a session.
    pub fn begin_head_send(&self, dataset: &str, objset: ObjsetId) -> Option<HeadSend> {
        let begun = self.head_sends.begin(names::pool_of(dataset), objset);
        let is_mounted = self.all().iter().any(|entry| entry.is_of(dataset));
        (!is_mounted).then_some(begun)
    }

    /// Returns the first of these entries that something else shows too: its mount point, and what shows it.
    pub fn seen_elsewhere(those: &[Arc<Entry>]) -> Option<(String, String)> {
        those.iter().find_map(|entry| Some((entry.mountpoint.clone(), entry.mounted.seen_elsewhere()?)))
    }

    /// Returns the sessions of a dataset and of all below it, in order of mounting.
    pub fn sessions_below(&self, root: &str) -> Vec<Arc<Entry>> {
        self.all().into_iter().filter(|entry| names::is_within(&entry.dataset(), root)).collect()
    }

    /// Returns the sessions of these datasets, in order of mounting.
    pub fn sessions_of(&self, datasets: &[String]) -> Vec<Arc<Entry>> {
        self.all().into_iter().filter(|entry| datasets.contains(&entry.dataset())).collect()
    }

    /// Takes over what the kernel still has to be written to a dataset and those below it.
    #[boxed]
    pub async fn write_back_below(&self, root: &str) {
        for entry in self.all().iter().filter(|entry| names::is_within(&entry.dataset(), root)) {
            if let Err(error) = entry.mounted.write_back().await {
                tracing::warn!(mountpoint = entry.mountpoint, %error, "what the kernel keeps may not be written");
            }
        }
    }

    /// Unmounts everything by force.
    pub fn unmount_all(&self) -> Result<(), Failure> {
        self.unmount_by_force(&self.all())
    }

    /// Unmounts these entries by force, the last mounted first.
    pub fn unmount_by_force(&self, those: &[Arc<Entry>]) -> Result<(), Failure> {
        those.iter().rev().try_for_each(|entry| self.unmount_entry(entry, UnmountReach::ByForce))
    }

    /// Takes away directories that mounting made, the deepest first. Those with something in them, or
    /// that are not there, stay as they are.
    pub fn forget(&self, places: &[PathBuf]) {
        if let Some(front) = &self.front {
            places.iter().rev().for_each(|place| front.forget(place));
        }
    }

    /// Has what is mounted of a pool let go of these snapshots, as far as no file in them is open. None of them is
    /// opened before what this gives is dropped.
    #[boxed]
    pub async fn let_go_of(&self, pool: &str, snapshots: &[ObjsetId]) -> Vec<LetGo> {
        let mut let_go = Vec::new();
        for entry in self.entries() {
            if names::pool_of(&entry.dataset()) == pool {
                let_go.push(entry.mounted.let_go_of(snapshots).await);
            }
        }
        let_go
    }

    /// Whether anything can be mounted at all.
    pub fn has_front(&self) -> bool {
        self.front.is_some()
    }

    /// Whether nothing is at a place that a mount there would hide.
    pub fn is_free(&self, place: &Path) -> bool {
        self.front.as_ref().is_none_or(|front| front.is_free(place))
    }

    /// See [`Front::orphans`].
    pub fn orphans(&self, pool: &str) -> Vec<OrphanMount> {
        self.front.as_ref().map_or_else(Vec::new, |front| front.orphans(pool))
    }

    /// See [`Front::may_claim`]. Without a front, nothing is ever mounted, and no user chooses a place.
    pub fn may_claim(
        &self,
        user: &UserIds,
        place: &Path,
        altroot: Option<&Path>,
        how: PlaceChoice,
    ) -> io::Result<bool> {
        match &self.front {
            Some(front) => front.may_claim(user, place, altroot, how),
            None => Ok(how == PlaceChoice::Inherited),
        }
    }

    /// Unmounts one of the entries. A session that something else still shows stays in the table.
    pub fn unmount_entry(&self, entry: &Arc<Entry>, reach: UnmountReach) -> Result<(), Failure> {
        let unmounted = entry.mounted.unmount(reach);
        unmounted.map_err(|e| refusal::mount("unmount", &entry.mountpoint, &e))?;
        if !entry.mounted.is_elsewhere() {
            self.mounted.lock().retain(|other| !Arc::ptr_eq(other, entry));
        }
        Ok(())
    }

    /// Returns the entry of the dataset with this name, or at this mount point.
    pub fn entry_of(&self, target: &str) -> Option<Arc<Entry>> {
        self.all().into_iter().rev().find(|entry| entry.is_called(target))
    }
}

impl Entry {
    /// True if it was unmounted, and something else still shows it.
    pub fn is_elsewhere(&self) -> bool {
        self.mounted.is_elsewhere()
    }

    /// Returns the present name of the dataset.
    pub fn dataset(&self) -> String {
        self.dataset.lock().clone()
    }

    /// True if this is a session of the given dataset.
    pub fn is_of(&self, dataset: &str) -> bool {
        *self.dataset.lock() == dataset
    }

    fn is_called(&self, target: &str) -> bool {
        self.is_of(target) || self.mountpoint == target
    }

    /// Suspends the requests. Returns `None` if the dataset must be unmounted for an exchange.
    #[boxed]
    pub async fn suspend(&self) -> Result<Option<Box<dyn Suspended>>, Failure> {
        self.mounted.suspend().await.map_err(|e| refusal::mount("suspend", &self.mountpoint, &e))
    }

    /// Threads that asked for something on it to be stable.
    pub fn syncing_threads(&self) -> Vec<SyncingThread> {
        self.mounted.syncing_threads()
    }

    /// Shows the control directory otherwise.
    pub fn set_snapdir(&self, snapdir: Snapdir) {
        self.mounted.set_snapdir(snapdir);
    }

    /// Changes what the kernel allows on it, if that is anything else.
    pub fn allow(&self, flags: MountFlags) -> Result<(), Failure> {
        if *self.flags.lock() == flags {
            return Ok(());
        }
        self.mounted.remount(flags).map_err(|e| refusal::remount(&self.dataset(), &e))?;
        *self.flags.lock() = flags;
        Ok(())
    }
}
