//! Mounting and unmounting file systems as their properties say.

use crate::ctldir::ShownSnapshots;
use crate::front::{MountOptions, Shown};
use crate::mount_options::{Given, is_on, number, snapdir};
use crate::names;
use crate::props::Value;
use crate::{Held, Holder, refusal};
use control::{DatasetInfo, Failure, FailureKind, Mount};
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

impl Holder {
    pub(super) async fn mount(&self, dataset: &str, call: &Mount) -> Result<(), Failure> {
        let asked = Asked::read(call, !call.recursive)?;
        let held = self.pool_of(dataset)?;
        match call.recursive {
            true => self.mount_each(&held, dataset, asked).await,
            false => self.mount_one(&held, dataset, asked).await,
        }
    }

    /// Mounts all of a pool that is to be mounted by itself, if the pool is open, with these options.
    pub(super) async fn mount_all_of(&self, pool: &str, call: &Mount) -> Result<(), Failure> {
        let asked = Asked::read(call, false)?;
        match self.pool(pool) {
            Ok(held) => self.mount_each(&held, pool, asked).await,
            Err(_) => Ok(()),
        }
    }

    /// Unmounts a dataset, by its name or by where it is mounted.
    pub(super) fn unmount(&self, target: &str, force: bool) -> Result<(), Failure> {
        if self.mounts.unmount_one(target, force)? {
            return Ok(());
        }
        let reason = if target.starts_with('/') { "not a ZFS filesystem" } else { "not currently mounted" };
        Err(Failure::cannot(FailureKind::Invalid, "unmount", target, reason))
    }

    /// Mounts every file system of a pool that is to be mounted by itself, parents first.
    /// The first that fails is told; others are still mounted.
    pub(super) async fn mount_automatic(&self, held: &Held) -> Result<(), Failure> {
        self.mount_each(held, &held.pool.name(), Asked::along()).await
    }

    /// The same of a dataset and all below it.
    async fn mount_each(&self, held: &Held, root: &str, asked: Asked) -> Result<(), Failure> {
        if !self.mounts.has_front() {
            return Ok(());
        }
        // Side by side, before they are mounted one by one. A log that fails is told of by its mount.
        if let Err(error) = held.pool.replay_logs().await {
            tracing::warn!(%error, "a log was not replayed");
        }
        let mut outcome = Ok(());
        for dataset in self.dataset_names(held, root).await? {
            let is_sealed = held.pool.sealed(&dataset).await.is_ok_and(|sealed| sealed.is_some());
            if is_sealed || self.mounts.place_of(&dataset).is_some() {
                continue;
            }
            let mounted = self.mount_one(held, &dataset, asked).await;
            outcome = outcome.and(mounted);
        }
        outcome
    }

    /// Mounts one along with something else, if its properties ask for it.
    pub(super) async fn mount_along(&self, held: &Held, dataset: &str) -> Result<(), Failure> {
        self.mount_one(held, dataset, Asked::along()).await
    }

    /// Mounts what was mounted a moment ago, with what was said then.
    pub(super) async fn mount_as_before(
        &self,
        held: &Held,
        dataset: &str,
        given: Given,
    ) -> Result<(), Failure> {
        self.mount_one(held, dataset, Asked { by_name: true, given, overlay: true, force: true }).await
    }

    /// The same again at another place, after its mount point has changed.
    pub(super) async fn remount_below(&self, held: &Held, root: &str) -> Result<(), Failure> {
        let was: Vec<String> = self.mounts.list().into_iter().map(|m| m.dataset).collect();
        for dataset in self.dataset_names(held, root).await? {
            let place = self.mounts.place_of(&dataset);
            let wanted = self.mountpoint(held, &dataset).await?.filter(|path| path.starts_with('/'));
            if place.is_none() && (wanted.is_none() || was.contains(&dataset)) || place == wanted {
                continue;
            }
            if place.is_some() {
                self.mounts.unmount_below(&dataset, false)?;
            }
            self.mount_one(held, &dataset, Asked::along()).await?;
        }
        Ok(())
    }

    /// After a property has changed: what is mounted of a dataset and those below it is to allow what
    /// the properties say now.
    pub(super) async fn allow_below(&self, held: &Held, root: &str) -> Result<(), Failure> {
        for entry in self.mounts.entries() {
            if names::is_within(&entry.dataset, root) {
                let info = self.dataset_info(held, &entry.dataset).await?;
                entry.allow(entry.given.flags(&info.props, held.pool.is_read_only()))?;
            }
        }
        Ok(())
    }

    /// After `snapdir` has changed: the same of the control directory.
    pub(super) async fn show_ctldir_below(&self, held: &Held, root: &str) -> Result<(), Failure> {
        for entry in self.mounts.entries() {
            if names::is_within(&entry.dataset, root) {
                let info = self.dataset_info(held, &entry.dataset).await?;
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
        let fs = held.pool.filesystem(dataset).await.map_err(|e| refusal::pool("mount", dataset, &e))?;
        let Asked { given, overlay, .. } = asked;
        let options = MountOptions {
            source: dataset.to_owned(),
            flags: given.flags(&info.props, held.pool.is_read_only()),
            writeback: given.writeback(&info.props),
            snapdir: snapdir(&info.props),
            overlay: overlay || is_on(&info.props, "overlay"),
        };
        let snapshots = Arc::new(ShownSnapshots::of(self, held, &fs));
        let shown = Shown { zfs: Arc::clone(&fs.zfs), snapshots };
        self.mounts.mount(shown, &mountpoint, given, &options)
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

/// Where a file system is to be mounted now; `None` where it is not, and nobody asked for it by name.
fn place(info: &DatasetInfo, asked: Asked) -> Result<Option<String>, Failure> {
    let refuse = |reason: &str| Err(Failure::cannot(FailureKind::Invalid, "mount", &info.name, reason));
    let path = match info.props.get("mountpoint").map(|prop| &prop.value) {
        Some(Value::Text(path)) => path.as_str(),
        _ => "none",
    };
    let is_redacted = info.props.contains_key(crate::redact::SNAPS) && !asked.force;
    match (asked.by_name, number(&info.props, "canmount"), path) {
        (false, ..) if is_redacted => Ok(None),
        (false, 1, path) if path.starts_with('/') => Ok(Some(path.to_owned())),
        (false, ..) => Ok(None),
        (true, 0, _) => refuse("'canmount' property is set to 'off'"),
        (true, _, "legacy") => refuse("legacy mountpoint"),
        (true, _, path) if is_redacted && path.starts_with('/') => {
            refuse("Dataset is not complete, was created by receiving a redacted zfs send stream.")
        }
        (true, _, path) if path.starts_with('/') => Ok(Some(path.to_owned())),
        (true, ..) => refuse("no mountpoint set"),
    }
}
