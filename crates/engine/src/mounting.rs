//! Mounting and unmounting file systems as their properties say.

use crate::create::VERSION;
use crate::ctldir::ShownSnapshots;
use crate::front::{MountOptions, OrphanMount, Shown, UnmountReach};
use crate::mount_options::{Given, is_on, number, snapdir};
use crate::mounts::Entry;
use crate::props::Value;
use crate::taken::{self, TakenMount};
use crate::{Held, Holder, names, refusal};
use control::{DatasetInfo, DatasetKind, DueMount, Failure, FailureKind, Mount, MountPlacer, UnmountScope};

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How mounting was asked for.
#[derive(Clone, Copy)]
struct Asked {
    /// By its name; otherwise it is mounted along with something else, if its properties ask for it.
    by_name: bool,
    /// `-o`.
    given: Given,
    /// `-O`.
    overlay: bool,
    /// `-f`: what was received redacted, too.
    force: bool,
}

impl Asked {
    /// With something else, as its properties say.
    fn along() -> Self {
        Self { by_name: false, given: Given::default(), overlay: false, force: false }
    }

    fn read(call: &Mount, by_name: bool) -> Result<Self, Failure> {
        let given = Given::parse(&call.options).map_err(|word| {
            let line = format!("mount option '{word}' is not supported");
            Failure::new(FailureKind::Unsupported, line)
        })?;
        Ok(Self { by_name, given, overlay: call.overlay, force: call.force })
    }
}

/// The number of `canmount=noauto`.
const NOAUTO: u64 = 2;

impl Holder {
    pub(super) async fn mount(&self, dataset: &str, call: &Mount) -> Result<(), Failure> {
        let asked = Asked::read(call, !call.recursive)?;
        let held = self.pool_of(dataset)?;
        if let Some(at) = &call.at {
            return self.mount_at(&held, dataset, at, call.placer, asked).await;
        }
        match call.recursive {
            true => self.mount_each(&held, dataset, asked).await,
            false => self.mount_one(&held, dataset, asked).await,
        }
    }

    /// Makes a mount of [`Self::due_mounts`], if the pool of the dataset is open and nobody has
    /// made the mount meanwhile.
    pub(super) async fn mount_due(&self, call: &Mount) -> Result<(), Failure> {
        let dataset = call.dataset.as_deref().unwrap_or_default();
        match self.pool_of(dataset) {
            Ok(_) if self.mounts.place_of(dataset).is_none() => self.mount(dataset, call).await,
            _ => Ok(()),
        }
    }

    /// Lists the mounts of a pool that are to be made: the mounts that the properties ask for, and
    /// the mounts whose server was killed. Returns the first failure of the listing, too.
    pub(super) async fn due_mounts(&self, pool: &str, call: &Mount) -> (Vec<DueMount>, Result<(), Failure>) {
        let asked = match Asked::read(call, false) {
            Ok(asked) => asked,
            Err(failure) => return (Vec::new(), Err(failure)),
        };
        match self.pool(pool) {
            Ok(held) if self.mounts.has_front() => {
                let mut due = self.orphans(&held).await;
                self.replay_before(&held).await;
                let (others, found) = self.due_below(&held, pool, asked).await;
                for (place, dataset) in others {
                    if due.iter().all(|due| due.mount.dataset.as_ref() != Some(&dataset)) {
                        let place = place.to_string_lossy().into_owned();
                        let mount = Mount { dataset: Some(dataset), recursive: false, ..call.clone() };
                        due.push(DueMount { place, mount });
                    }
                }
                (due, found)
            }
            _ => (Vec::new(), Ok(())),
        }
    }

    /// Lists the mounts of a pool whose server was killed. Of each dataset, the list has one mount,
    /// at its former place and with its former flags, also if mount(8) or `zfs mount` made the
    /// mount.
    async fn orphans(&self, held: &Held) -> Vec<DueMount> {
        let mut due: Vec<DueMount> = Vec::new();
        for OrphanMount { dataset, place, flags } in self.mounts.orphans(&held.pool.name()) {
            let is_known = due.iter().any(|due| due.mount.dataset.as_ref() == Some(&dataset));
            let (Some(place), None, false) = (place.to_str(), self.mounts.place_of(&dataset), is_known)
            else {
                continue;
            };
            // A dataset that was destroyed, or got another name, is not mounted again.
            let Ok(info) = self.dataset_info(held, &dataset).await else { continue };
            let placer = if is_legacy(&info) { MountPlacer::Legacy } else { MountPlacer::Former };
            // The pool may have got an altroot since then.
            let is_outside =
                held.altroot.as_deref().is_some_and(|altroot| !Path::new(place).starts_with(altroot));
            if is_outside && placer == MountPlacer::Former {
                continue;
            }
            let options = Given::words_for(flags, &info.props, held.pool.is_read_only());
            tracing::info!(dataset, place, "is to be mounted again, because its server was killed");
            let mount = Mount {
                dataset: Some(dataset),
                options,
                at: Some(place.to_owned()),
                placer,
                ..Mount::default()
            };
            due.push(DueMount { place: place.to_owned(), mount });
        }
        due
    }

    /// Unmounts the dataset with a name or a mount point, and by the scope the datasets below, wherever
    /// their mount points are: all of the datasets or none. Bind mounts and other mount namespaces go on
    /// to show the datasets, unless `force` is set.
    pub(super) async fn unmount(
        &self,
        target: &str,
        force: bool,
        scope: UnmountScope,
    ) -> Result<(), Failure> {
        let entry = self.mounts.entry_of(target).filter(|entry| force || !entry.is_elsewhere());
        let Some(entry) = entry else {
            let reason = match (scope, target.starts_with('/')) {
                // Another request has unmounted the dataset.
                (UnmountScope::OfAll, _) => return Ok(()),
                (_, true) => "not a ZFS filesystem",
                (_, false) => "not currently mounted",
            };
            return Err(Failure::cannot(FailureKind::Invalid, "unmount", target, reason));
        };
        let root = entry.dataset();
        if scope == UnmountScope::OfAll && (entry.given.is_placed() || self.is_noauto(&root).await?) {
            return Ok(());
        }
        if entry.given.is_placed() {
            return Err(legacy("unmount", target, "umount"));
        }
        let is_below = |other: &Arc<Entry>| {
            scope == UnmountScope::WithDescendants
                && names::is_within(&other.dataset(), &root)
                && !Arc::ptr_eq(other, &entry)
        };
        let mut those: Vec<_> = self.mounts.entries().into_iter().filter(is_below).collect();
        those.insert(0, Arc::clone(&entry));
        self.take_here(&those, force).await
    }

    /// Returns true if a file system is mounted by name only. Of a suspended pool, nothing is read.
    async fn is_noauto(&self, dataset: &str) -> Result<bool, Failure> {
        let held = self.pool_of(dataset)?;
        if held.pool.suspended().is_some() {
            return Ok(false);
        }
        let info = self.dataset_info(&held, dataset).await?;
        Ok(number(&info.props, "canmount") == NOAUTO)
    }

    /// Unmounts all of these entries, or none of them. When it returns, what was written is stable.
    async fn take_here(&self, those: &[Arc<Entry>], force: bool) -> Result<(), Failure> {
        let reach = if force { UnmountReach::ByForce } else { UnmountReach::Here };
        self.take(those, reach).await?;
        for left in those.iter().filter(|entry| entry.is_elsewhere()) {
            let dataset = left.dataset();
            self.mounts.write_back_below(&dataset).await;
            let held = self.pool_of(&dataset)?;
            held.pool.sync_now().await.map_err(|e| refusal::pool("sync", &dataset, &e))?;
        }
        Ok(())
    }

    /// Makes the mounts of [`Self::due_mounts`] of a pool that was brought back. Returns the first
    /// failure; the other mounts are still made.
    pub(super) async fn mount_restored(&self, held: &Held) -> Result<(), Failure> {
        let (mut due, mut outcome) = self.due_mounts(&held.pool.name(), &Mount::default()).await;
        due.sort_by(|a, b| a.order().cmp(&b.order()));
        for due in due {
            outcome = outcome.and(self.mount_due(&due.mount).await);
        }
        outcome
    }

    /// Mounts every file system of a pool that is to be mounted automatically, in the order of
    /// mount points. Returns the first failure; the others are still mounted.
    pub(super) async fn mount_automatic(&self, held: &Held) -> Result<(), Failure> {
        self.mount_each(held, &held.pool.name(), Asked::along()).await
    }

    /// The same of a dataset and all below it.
    async fn mount_each(&self, held: &Held, root: &str, asked: Asked) -> Result<(), Failure> {
        if !self.mounts.has_front() {
            return Ok(());
        }
        self.replay_before(held).await;
        let (mut due, mut outcome) = self.due_below(held, root, asked).await;
        due.sort();
        for (_, dataset) in due {
            let mounted = self.mount_one(held, &dataset, asked).await;
            outcome = outcome.and(mounted);
        }
        outcome
    }

    /// Replays logs in parallel before their datasets are mounted one by one. The mount of a
    /// dataset reports the failure of its log.
    pub(super) async fn replay_before(&self, held: &Held) {
        if let Err(error) = held.pool.replay_logs().await {
            tracing::warn!(%error, "a log was not replayed");
        }
    }

    /// Lists a dataset and the datasets below it that are to be mounted, with their mount points;
    /// and returns the first failure of the listing.
    async fn due_below(
        &self,
        held: &Held,
        root: &str,
        asked: Asked,
    ) -> (Vec<(PathBuf, String)>, Result<(), Failure>) {
        let names = match self.dataset_names(held, root).await {
            Ok(names) => names,
            Err(failure) => return (Vec::new(), Err(failure)),
        };
        let (mut due, mut outcome) = (Vec::new(), Ok(()));
        for dataset in names {
            let is_sealed = held.pool.sealed(&dataset).await.is_ok_and(|sealed| sealed.is_some());
            if is_sealed || self.mounts.place_of(&dataset).is_some() {
                continue;
            }
            match self.dataset_info(held, &dataset).await.and_then(|info| place(&info, asked)) {
                Ok(path) => due.extend(path.map(|path| (PathBuf::from(path), dataset))),
                Err(failure) => outcome = outcome.and(Err(failure)),
            }
        }
        (due, outcome)
    }

    /// Mounts one along with something else, if its properties ask for it.
    pub(super) async fn mount_along(&self, held: &Held, dataset: &str) -> Result<(), Failure> {
        self.mount_one(held, dataset, Asked::along()).await
    }

    /// Returns the place where a dataset that was unmounted a moment ago is to be mounted now.
    /// `None` if its properties forbid a mount. What mount(8) has mounted stays at its former place.
    pub(super) fn place_again(&self, info: &DatasetInfo, former: Option<&TakenMount>) -> Option<String> {
        if let Some(former) = former.filter(|former| former.given.is_placed() && is_legacy(info)) {
            return Some(former.mountpoint.clone());
        }
        place(info, Asked { by_name: true, force: true, ..Asked::along() }).ok().flatten()
    }

    /// Mounts a dataset again that was unmounted for a change, with the options of its former
    /// mount.
    pub(super) async fn show_again(&self, held: &Held, taken: &TakenMount) -> Result<(), Failure> {
        let info = self.dataset_info(held, &taken.dataset).await?;
        let (given, overlay) = (taken.given, !taken.is_moved);
        let asked = Asked { by_name: true, given, overlay, force: true };
        self.show(held, &info, &taken.mountpoint, asked).await
    }

    /// Lists a dataset and the datasets below it that inherit its mount point, are to be mounted
    /// automatically, and are not mounted.
    pub(super) async fn due_at_place_of(&self, held: &Held, root: &str) -> Result<Vec<String>, Failure> {
        let Some(place) = self.mountpoint(held, root).await? else { return Ok(Vec::new()) };
        let (due, found) = self.due_below(held, root, Asked::along()).await;
        let follows = |(path, dataset): &(PathBuf, String)| {
            let rest = dataset.strip_prefix(root);
            rest.is_some_and(|rest| taken::is_joined(&path.to_string_lossy(), &place, rest))
        };
        found.map(|()| due.into_iter().filter(follows).map(|(_, dataset)| dataset).collect())
    }

    /// After a property has changed: what is mounted of a dataset and those below it is to allow what
    /// the properties say now.
    pub(super) async fn allow_below(&self, held: &Held, root: &str) -> Result<(), Failure> {
        for entry in self.mounts.entries() {
            let dataset = entry.dataset();
            if names::is_within(&dataset, root) {
                let info = self.dataset_info(held, &dataset).await?;
                entry.allow(entry.given.flags(&info.props, held.pool.is_read_only()))?;
            }
        }
        Ok(())
    }

    /// After `snapdir` has changed: the same of the control directory.
    pub(super) async fn show_ctldir_below(&self, held: &Held, root: &str) -> Result<(), Failure> {
        for entry in self.mounts.entries() {
            let dataset = entry.dataset();
            if names::is_within(&dataset, root) {
                let info = self.dataset_info(held, &dataset).await?;
                entry.set_snapdir(snapdir(&info.props));
            }
        }
        Ok(())
    }

    /// Whether its properties ask for a file system to be mounted along with something else.
    pub(super) async fn is_to_be_mounted(&self, held: &Held, dataset: &str) -> Result<bool, Failure> {
        Ok(place(&self.dataset_info(held, dataset).await?, Asked::along())?.is_some())
    }

    async fn mount_one(&self, held: &Held, dataset: &str, asked: Asked) -> Result<(), Failure> {
        if !self.mounts.has_front() {
            return Ok(());
        }
        let info = self.dataset_info(held, dataset).await?;
        let Some(mountpoint) = place(&info, asked)? else { return Ok(()) };
        let lifted = self.lift(dataset, &mountpoint).await?;
        let mounted = self.show(held, &info, &mountpoint, asked).await;
        mounted.and(self.put_back(&lifted.taken).await)
    }

    /// Mounts a dataset at a directory that the properties do not name. What is in the directory is hidden, as mount(8)
    /// does it.
    async fn mount_at(
        &self,
        held: &Held,
        dataset: &str,
        at: &str,
        placer: MountPlacer,
        asked: Asked,
    ) -> Result<(), Failure> {
        let info = self.dataset_info(held, dataset).await?;
        if !has_files(&info) || !at.starts_with('/') {
            return Err(Failure::cannot(
                FailureKind::Invalid,
                "mount",
                dataset,
                "not a file system, or not a directory",
            ));
        }
        check_placer(&info, at, placer)?;
        let given = if placer == MountPlacer::Legacy { asked.given.placed() } else { asked.given };
        let lifted = self.lift(dataset, at).await?;
        let mounted = self.show(held, &info, at, Asked { given, overlay: true, ..asked }).await;
        mounted.and(self.put_back(&lifted.taken).await)
    }

    /// Mounts a file system at a place below which nothing is mounted.
    async fn show(
        &self,
        held: &Held,
        info: &DatasetInfo,
        mountpoint: &str,
        asked: Asked,
    ) -> Result<(), Failure> {
        let dataset = info.name.as_str();
        check_name(dataset)?;
        let fs = held.pool.filesystem(dataset).await.map_err(|e| refusal::pool("mount", dataset, &e))?;
        let Asked { given, overlay, .. } = asked;
        // A caller may ask for a place elsewhere (`mount -t zfs`).
        let altroot =
            held.altroot.as_deref().map(Path::new).filter(|root| Path::new(mountpoint).starts_with(root));
        let options = MountOptions {
            source: dataset.to_owned(),
            flags: given.flags(&info.props, held.pool.is_read_only()),
            writeback: given.writeback(&info.props),
            snapdir: snapdir(&info.props),
            overlay: overlay || is_on(&info.props, "overlay"),
            altroot: altroot.map(Path::to_owned),
        };
        let snapshots = Arc::new(ShownSnapshots::of(self, held, &fs));
        let shown = Shown { zfs: Arc::clone(&fs.zfs), snapshots };
        self.mounts.mount(shown, mountpoint, given, &options)
    }

    /// Where a file system is to be mounted: a path below the altroot, `legacy` or `none`.
    pub(super) async fn mountpoint(&self, held: &Held, dataset: &str) -> Result<Option<String>, Failure> {
        let info = self.dataset_info(held, dataset).await?;
        match info.props.get("mountpoint").map(|prop| &prop.value) {
            Some(Value::Text(path)) => Ok(Some(path.clone())),
            _ => Ok(None),
        }
    }
}

/// Checks the name of a dataset that is to be mounted. An image may have any names, and the name becomes part
/// of the path and an option of the mount.
fn check_name(dataset: &str) -> Result<(), Failure> {
    let cannot =
        |error: names::NameError| Failure::cannot(FailureKind::Invalid, "mount", dataset, &error.to_string());
    names::check_dataset(dataset).map_err(cannot)
}

/// Leaves a file system to a program of the system, in the words of OpenZFS.
fn legacy(verb: &str, what: &str, program: &str) -> Failure {
    let refused = Failure::cannot(FailureKind::Invalid, verb, what, "legacy mountpoint");
    refused.and(format!("use {program}(8) to {verb} this filesystem"))
}

/// True if mount(8) chooses the directory of a file system.
fn is_legacy(info: &DatasetInfo) -> bool {
    let place = info.props.get("mountpoint").map(|prop| &prop.value);
    matches!(place, Some(Value::Text(path)) if path == "legacy")
}

/// Refuses a mount by the command that is not meant for the file system, in the words of OpenZFS's mount.zfs(8).
fn check_placer(info: &DatasetInfo, at: &str, placer: MountPlacer) -> Result<(), Failure> {
    let name = &info.name;
    let lines = match (placer, is_legacy(info)) {
        (MountPlacer::Legacy, false) => [
            format!("filesystem '{name}' cannot be mounted using 'mount'."),
            format!("Use 'zfs set mountpoint=legacy' or 'zfs mount {name}'."),
        ],
        (MountPlacer::Zfsutil, true) => [
            format!("filesystem '{name}' cannot be mounted using 'zfs mount'."),
            format!("Use 'zfs set mountpoint={at}' or 'mount -t zfs {name} {at}'."),
        ],
        _ => return Ok(()),
    };
    let [first, second] = lines;
    Err(Failure::new(FailureKind::Invalid, first).and(second).and("See zfs(8) for more information."))
}

/// Where a file system is to be mounted now; `None` where it is not, and nobody asked for it by name.
fn place(info: &DatasetInfo, asked: Asked) -> Result<Option<String>, Failure> {
    let refuse = |reason: &str| Err(Failure::cannot(FailureKind::Invalid, "mount", &info.name, reason));
    let path = match info.props.get("mountpoint").map(|prop| &prop.value) {
        Some(Value::Text(path)) => path.as_str(),
        _ => "none",
    };
    let is_redacted = info.props.contains_key(crate::redact::SNAPS) && !asked.force;
    match (asked.by_name, number(&info.props, "canmount"), path) {
        (false, ..) if is_redacted || !has_files(info) => Ok(None),
        (false, 1, path) if path.starts_with('/') => Ok(Some(path.to_owned())),
        (false, ..) => Ok(None),
        (true, 0, _) => refuse("'canmount' property is set to 'off'"),
        (true, _, "legacy") => Err(legacy("mount", &info.name, "mount")),
        (true, _, path) if is_redacted && path.starts_with('/') => {
            refuse("Dataset is not complete, was created by receiving a redacted zfs send stream.")
        }
        (true, _, path) if path.starts_with('/') => Ok(Some(path.to_owned())),
        (true, ..) => refuse("no mountpoint set"),
    }
}

/// True if the dataset has files to mount. A volume has none, and neither has a file system before
/// its first stream is completely received.
fn has_files(info: &DatasetInfo) -> bool {
    let is_whole = info.props.get(VERSION).is_none_or(|version| version.value != Value::Absent);
    info.kind == DatasetKind::Filesystem && is_whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_dataset_may_have_is_mounted_nowhere() {
        assert!(check_name("tank/a b/c-d_e.f:g").is_ok());
        for (name, reason) in [
            ("tank/a,suid", "invalid character ',' in name"),
            ("tank/a\n", "invalid character '\n' in name"),
            ("tank/..", "parent reference, '..' is found in name"),
            ("tank//etc", "empty component or misplaced '@' or '#' delimiter in name"),
        ] {
            let refused = check_name(name).expect_err(name);
            assert_eq!(refused.stderr, [format!("cannot mount '{name}': {reason}")]);
        }
    }
}
