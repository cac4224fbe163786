//! What is mounted, and where file systems are to be mounted.

use super::{Held, Holder, refusal};
use control::props::Value;
use control::{Failure, FailureKind, Mount, MountInfo, Unmount, names};
use device::RealEnv;
use front_fuse::{MountOptions, Mounted};
use parking_lot::Mutex;
use pool::Filesystem;
use std::path::PathBuf;
use std::sync::Arc;

/// What is mounted, in order of mounting.
pub struct MountTable {
    env: Arc<RealEnv>,
    mounted: Mutex<Vec<Entry>>,
}

struct Entry {
    dataset: String,
    mountpoint: String,
    mounted: Mounted,
}

impl MountTable {
    /// Nothing yet.
    pub fn new(env: Arc<RealEnv>) -> Self {
        Self { env, mounted: Mutex::default() }
    }

    /// What is mounted.
    pub fn list(&self) -> Vec<MountInfo> {
        let one = |e: &Entry| MountInfo { dataset: e.dataset.clone(), mountpoint: e.mountpoint.clone() };
        self.mounted.lock().iter().map(one).collect()
    }

    /// Where a dataset is mounted.
    pub fn place_of(&self, dataset: &str) -> Option<String> {
        self.mounted.lock().iter().find(|e| e.dataset == dataset).map(|e| e.mountpoint.clone())
    }

    /// Mounts a file system.
    pub fn mount(&self, fs: &Filesystem, mountpoint: &str, options: &MountOptions) -> Result<(), Failure> {
        let dataset = options.source.as_str();
        if self.place_of(dataset).is_some() {
            return Err(Failure::cannot(FailureKind::Busy, "mount", dataset, "filesystem already mounted"));
        }
        let path = PathBuf::from(mountpoint);
        let mounted = front_fuse::mount(Arc::clone(&self.env), Arc::clone(&fs.zfs), &path, options)
            .map_err(|e| refusal::mount("mount", dataset, &e))?;
        let entry = Entry { dataset: dataset.to_owned(), mountpoint: mountpoint.to_owned(), mounted };
        self.mounted.lock().push(entry);
        Ok(())
    }

    /// Unmounts a dataset and all below it, the deepest first.
    pub fn unmount_below(&self, root: &str, force: bool) -> Result<(), Failure> {
        self.unmount_those(|entry| names::is_within(&entry.dataset, root), force)
    }

    /// Unmounts everything.
    pub fn unmount_all(&self, force: bool) -> Result<(), Failure> {
        self.unmount_those(|_| true, force)
    }

    /// Unmounts one, by dataset or mount point; whether it was there.
    pub fn unmount_one(&self, target: &str, force: bool) -> Result<bool, Failure> {
        let meant = |entry: &Entry| entry.dataset == target || entry.mountpoint == target;
        let found = self.mounted.lock().iter().any(meant);
        self.unmount_those(meant, force)?;
        Ok(found)
    }

    /// In the reverse order of mounting. What refuses stays, and is told.
    fn unmount_those(&self, meant: impl Fn(&Entry) -> bool, force: bool) -> Result<(), Failure> {
        let mut table = self.mounted.lock();
        let mut place = table.len();
        while place > 0 {
            place -= 1;
            if !meant(&table[place]) {
                continue;
            }
            let entry = &mut table[place];
            entry.mounted.unmount(force).map_err(|e| refusal::mount("unmount", &entry.mountpoint, &e))?;
            table.remove(place);
        }
        Ok(())
    }
}

/// How mounting was asked for.
#[derive(Clone, Copy)]
enum Asked {
    ByName {
        /// `-o ro`.
        read_only: bool,
        /// `-O`.
        overlay: bool,
    },
    /// With something else, if its properties ask for it.
    Along,
}

impl Holder {
    pub(super) async fn mount(&self, call: Mount) -> Result<(), Failure> {
        let _alone = self.changing.lock().await;
        if let Some(option) = call.options.iter().find(|o| !matches!(o.as_str(), "ro" | "rw" | "defaults")) {
            let line = format!("mount option '{option}' is not supported yet");
            return Err(Failure::new(FailureKind::Unsupported, line));
        }
        let read_only = call.options.iter().any(|option| option == "ro");
        match call.dataset {
            Some(dataset) => {
                let held = self.pool_of(&dataset)?;
                self.mount_one(&held, &dataset, Asked::ByName { read_only, overlay: call.overlay }).await
            }
            None => {
                for held in self.all() {
                    self.mount_automatic(&held).await?;
                }
                Ok(())
            }
        }
    }

    pub(super) async fn unmount(&self, call: Unmount) -> Result<(), Failure> {
        let _alone = self.changing.lock().await;
        let Some(target) = call.target else { return self.mounts.unmount_all(call.force) };
        if self.mounts.unmount_one(&target, call.force)? {
            return Ok(());
        }
        let reason = if target.starts_with('/') { "not a ZFS filesystem" } else { "not currently mounted" };
        Err(Failure::cannot(FailureKind::Invalid, "unmount", &target, reason))
    }

    /// Mounts every file system of a pool that is to be mounted by itself, parents first.
    /// The first that fails is told; others are still mounted.
    pub(super) async fn mount_automatic(&self, held: &Held) -> Result<(), Failure> {
        // Side by side, before they are mounted one by one. A log that fails is told of by its mount.
        if let Err(error) = held.pool.replay_logs().await {
            tracing::warn!(%error, "a log was not replayed");
        }
        let mut outcome = Ok(());
        for dataset in self.dataset_names(held, &held.pool.name()).await? {
            let is_sealed = held.pool.sealed(&dataset).await.is_ok_and(|sealed| sealed.is_some());
            if is_sealed || self.mounts.place_of(&dataset).is_some() {
                continue;
            }
            let mounted = self.mount_one(held, &dataset, Asked::Along).await;
            outcome = outcome.and(mounted);
        }
        outcome
    }

    /// Mounts one along with something else, if its properties ask for it.
    pub(super) async fn mount_along(&self, held: &Held, dataset: &str) -> Result<(), Failure> {
        self.mount_one(held, dataset, Asked::Along).await
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
            self.mount_one(held, &dataset, Asked::Along).await?;
        }
        Ok(())
    }

    async fn mount_one(&self, held: &Held, dataset: &str, asked: Asked) -> Result<(), Failure> {
        let refuse = |reason: &str| Err(Failure::cannot(FailureKind::Invalid, "mount", dataset, reason));
        let canmount = self.number(held, dataset, "canmount").await?;
        let mountpoint = self.mountpoint(held, dataset).await?;
        let mountpoint = match (asked, canmount, mountpoint.as_deref()) {
            (Asked::Along, 1, Some(path)) if path.starts_with('/') => path.to_owned(),
            (Asked::Along, ..) => return Ok(()),
            (Asked::ByName { .. }, 0, _) => return refuse("'canmount' property is set to 'off'"),
            (Asked::ByName { .. }, _, Some("legacy")) => return refuse("legacy mountpoint"),
            (Asked::ByName { .. }, _, Some(path)) if path.starts_with('/') => path.to_owned(),
            (Asked::ByName { .. }, ..) => return refuse("no mountpoint set"),
        };
        if self.mounts.place_of(dataset).is_some() {
            return refuse("filesystem already mounted");
        }
        let fs = held.pool.filesystem(dataset).await.map_err(|e| refusal::pool("mount", dataset, &e))?;
        let (read_only, overlay) = match asked {
            Asked::ByName { read_only, overlay } => (read_only, overlay),
            Asked::Along => (false, false),
        };
        let options = MountOptions {
            source: dataset.to_owned(),
            read_only: read_only
                || held.pool.is_read_only()
                || self.number(held, dataset, "readonly").await? == 1,
            overlay: overlay || self.number(held, dataset, "overlay").await? == 1,
        };
        self.mounts.mount(&fs, &mountpoint, &options)
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
