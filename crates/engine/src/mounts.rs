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
    Front, LetGo, MountFlags, MountOptions, Mounted, PlaceChoice, Shown, Snapdir, Suspended, SyncingThread,
    UserIds,
};
use crate::mount_options::Given;
use crate::names;
use crate::refusal;
use control::{Failure, FailureKind, MountInfo};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::ObjsetId;

/// What is mounted, in order of mounting.
pub struct MountTable {
    front: Option<Arc<dyn Front>>,
    mounted: Mutex<Vec<Arc<Entry>>>,
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
        Self { front, mounted: Mutex::default() }
    }

    /// What is mounted, but for what others have unmounted.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        self.all().into_iter().filter(|entry| !entry.mounted.is_ending()).collect()
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
        if self.is_in_the_way(dataset) {
            return Err(Failure::cannot(FailureKind::Busy, "mount", dataset, "filesystem already mounted"));
        }
        let path = Path::new(mountpoint);
        let Some(front) = &self.front else { return Ok(()) };
        let objset = shown.zfs.objset().id();
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

    /// Whether a dataset is mounted, even after it was unmounted by others just now: that ends when its
    /// data are stable.
    fn is_in_the_way(&self, dataset: &str) -> bool {
        let found = self.all().into_iter().find(|entry| entry.is_of(dataset));
        found.is_some_and(|entry| !entry.mounted.ends_soon())
    }

    /// Takes over what the kernel still has to be written to a dataset and those below it.
    pub async fn write_back_below(&self, root: &str) {
        for entry in self.all().iter().filter(|entry| names::is_within(&entry.dataset(), root)) {
            if let Err(error) = entry.mounted.write_back().await {
                tracing::warn!(mountpoint = entry.mountpoint, %error, "what the kernel keeps may not be written");
            }
        }
    }

    /// Unmounts a dataset and all below it, the deepest first.
    pub fn unmount_below(&self, root: &str, force: bool) -> Result<(), Failure> {
        self.unmount_those(|entry| names::is_within(&entry.dataset(), root), force).map(|_| ())
    }

    /// Unmounts these datasets, wherever they are mounted.
    pub fn unmount_each(&self, datasets: &[String], force: bool) -> Result<(), Failure> {
        self.unmount_those(|entry| datasets.contains(&entry.dataset()), force).map(|_| ())
    }

    /// Unmounts everything.
    pub fn unmount_all(&self, force: bool) -> Result<(), Failure> {
        self.unmount_those(|_| true, force).map(|_| ())
    }

    /// Unmounts one, by dataset or mount point; whether it was there.
    pub fn unmount_one(&self, target: &str, force: bool) -> Result<bool, Failure> {
        self.unmount_those(|entry| entry.is_called(target), force)
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

    /// In the reverse order of mounting; whether there was anything. What refuses stays, and is told.
    fn unmount_those(&self, meant: impl Fn(&Entry) -> bool, force: bool) -> Result<bool, Failure> {
        let those: Vec<_> = self.all().into_iter().rev().filter(|entry| meant(entry)).collect();
        for entry in &those {
            self.unmount_entry(entry, force)?;
        }
        Ok(!those.is_empty())
    }

    /// Unmounts one of the entries.
    pub fn unmount_entry(&self, entry: &Arc<Entry>, force: bool) -> Result<(), Failure> {
        let unmounted = entry.mounted.unmount(force);
        unmounted.map_err(|e| refusal::mount("unmount", &entry.mountpoint, &e))?;
        self.mounted.lock().retain(|other| !Arc::ptr_eq(other, entry));
        Ok(())
    }

    /// Returns the entry of the dataset with this name, or at this mount point.
    pub fn entry_of(&self, target: &str) -> Option<Arc<Entry>> {
        self.all().into_iter().rev().find(|entry| entry.is_called(target))
    }
}

impl Entry {
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
