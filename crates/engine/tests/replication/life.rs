//! Random events in the tree and in its replica, between two packages.

use crate::site::{EXCLUDED, Packaging, REPLICA, Site, TREE};
use control::{
    DatasetClone, DatasetCreate, DatasetDestroy, DatasetInherit, DatasetPromote, DatasetRename,
    DatasetRollback, DatasetSet, Failure, Service, SnapshotCreate, SnapshotDestroy, SnapshotHold,
    SnapshotRelease,
};

/// The last components of names. They are few, so that names are reused.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// The snapshots other than those of packages.
const SNAPS: [&str; 3] = ["s", "u", "v"];
/// The number of events in a chapter.
const EVENTS: u64 = 9;

pub struct TreeLife {
    state: u64,
    /// True in half of the lives: a dataset is excluded.
    has_excluded: bool,
    /// True if an event changed the replica in this chapter.
    is_changed: bool,
    told: Vec<String>,
}

/// Runs an operation of the engine. True if it succeeded.
macro_rules! tries {
    ($site:expr, $method:ident, $call:expr) => {{
        let call = $call;
        $site.does(|engine| async move { engine.$method(call).await.is_ok() }).await
    }};
}

impl TreeLife {
    pub async fn new(seed: u64, site: &Site) -> Self {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut life =
            Self { state, has_excluded: seed.is_multiple_of(2), is_changed: false, told: Vec::new() };
        for name in ["p/t", "p/t/a", "p/t/b", "p/t/a/c"] {
            life.create(site, name).await;
        }
        if life.has_excluded {
            life.create(site, EXCLUDED).await;
        }
        life
    }

    /// Returns the events so far.
    pub fn told(&self) -> String {
        self.told.join("\n")
    }

    pub fn excludes(&self) -> Option<&'static str> {
        self.has_excluded.then_some(EXCLUDED)
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.draw(count) == 0
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.draw(all.len().max(1) as u64);
        all.get(at as usize).cloned()
    }

    fn note(&mut self, is_done: bool, what: String) {
        if is_done {
            self.told.push(format!("zfs {what}"));
        }
    }

    async fn create(&mut self, site: &Site, name: &str) {
        let call = DatasetCreate { name: name.to_owned(), ..DatasetCreate::default() };
        let done = tries!(site, dataset_create, call);
        self.note(done, format!("create {name}"));
        self.write(site, name).await;
    }

    async fn write(&mut self, site: &Site, dataset: &str) {
        let (name, byte, len) =
            (format!("file{}", self.draw(3)), self.draw(256) as u8, self.draw(40_000) as usize);
        site.write(dataset, name, vec![byte; len + 1]).await;
    }

    /// Returns the names of the datasets and of the snapshots of a tree.
    async fn names(site: &Site, root: &str) -> (Vec<String>, Vec<String>) {
        let all = site.list(root).await.into_iter().map(|info| info.name);
        let all = all.filter(|name| !name.starts_with(EXCLUDED));
        let (snapshots, heads): (Vec<_>, Vec<_>) = all.partition(|name| name.contains('@'));
        (heads, snapshots)
    }

    /// Some events in the tree, and perhaps one in the replica.
    pub async fn chapter(&mut self, site: &Site) {
        self.told.push("---".to_owned());
        for _ in 0..=self.draw(EVENTS) {
            let (heads, snapshots) = Self::names(site, TREE).await;
            self.event(site, TREE, &heads, &snapshots).await;
        }
        self.is_changed = false;
        if self.one_in(3) {
            let (heads, snapshots) = Self::names(site, REPLICA).await;
            if heads.len() > 1 {
                self.is_changed = true;
                self.event(site, REPLICA, &heads, &snapshots).await;
            }
        }
    }

    async fn event(&mut self, site: &Site, root: &str, heads: &[String], snapshots: &[String]) {
        let below: Vec<String> = heads.iter().filter(|name| *name != root).cloned().collect();
        // The snapshots from which packages start are kept.
        let others: Vec<String> = snapshots.iter().filter(|name| !name.contains("@r")).cloned().collect();
        let (Some(head), Some(parent)) = (self.one_of(&below), self.one_of(heads)) else {
            return self.create(site, &format!("{root}/a")).await;
        };
        let name = format!("{parent}/{}", NAMES[self.draw(4) as usize]);
        let snap = SNAPS[self.draw(3) as usize];
        let place = if name.matches('/').count() > 5 { format!("{root}/a") } else { name };
        match self.draw(16) {
            0 | 1 => self.create(site, &place).await,
            2..=4 => {
                let Some(snapshot) = self.one_of(snapshots) else { return };
                let call = DatasetClone {
                    snapshot: snapshot.clone(),
                    name: place.clone(),
                    ..DatasetClone::default()
                };
                let done = tries!(site, dataset_clone, call);
                self.note(done, format!("clone {snapshot} {place}"));
                self.write(site, &place).await;
            }
            5..=7 => {
                let clones: Vec<String> = below;
                for _ in 0..3 {
                    let Some(name) = self.one_of(&clones) else { return };
                    let done = tries!(site, dataset_promote, DatasetPromote { name: name.clone() });
                    self.note(done, format!("promote {name}"));
                    if done {
                        return;
                    }
                }
            }
            8 | 9 => {
                let call =
                    DatasetRename { name: head.clone(), new_name: place.clone(), ..DatasetRename::default() };
                let done = tries!(site, dataset_rename, call);
                self.note(done, format!("rename {head} {place}"));
            }
            10 => {
                let call =
                    DatasetDestroy { name: head.clone(), recursive: true, ..DatasetDestroy::default() };
                let done = tries!(site, dataset_destroy, call);
                self.note(done, format!("destroy -r {head}"));
            }
            11 => {
                let snapshot = format!("{head}@{snap}");
                let call = SnapshotCreate {
                    pool: crate::site::TREE[..1].to_owned(),
                    names: vec![snapshot.clone()],
                    ..SnapshotCreate::default()
                };
                let call = SnapshotCreate { pool: root[..1].to_owned(), ..call };
                let done = tries!(site, snapshot_create, call);
                self.note(done, format!("snapshot {snapshot}"));
            }
            // A snapshot that a replica has lost is not sent again.
            12 if root == TREE => {
                let Some(snapshot) = self.one_of(&others) else { return };
                if self.one_in(2) {
                    let call = DatasetRollback { snapshot: snapshot.clone(), ..DatasetRollback::default() };
                    let done = tries!(site, dataset_rollback, call);
                    self.note(done, format!("rollback {snapshot}"));
                } else {
                    let (dataset, snapshots) = snapshot.split_once('@').expect("a snapshot");
                    let call = SnapshotDestroy {
                        dataset: dataset.to_owned(),
                        snapshots: snapshots.to_owned(),
                        ..SnapshotDestroy::default()
                    };
                    let done = tries!(site, snapshot_destroy, call);
                    self.note(done, format!("destroy {snapshot}"));
                }
            }
            13 => {
                let Some(snapshot) = self.one_of(&others) else { return };
                let new_name = format!("{}@{snap}", snapshot.split('@').next().expect("a dataset"));
                let call = DatasetRename {
                    name: snapshot.clone(),
                    new_name: new_name.clone(),
                    ..DatasetRename::default()
                };
                let done = tries!(site, dataset_rename, call);
                self.note(done, format!("rename {snapshot} {new_name}"));
            }
            14 if root == TREE => self.prop(site, &parent).await,
            _ if root == TREE && self.one_in(3) => self.hold(site, snapshots).await,
            _ => self.write(site, &head).await,
        }
    }

    async fn prop(&mut self, site: &Site, name: &str) {
        let prop = ["org:by", "recordsize", "compression"][self.draw(3) as usize];
        if self.one_in(3) {
            let call = DatasetInherit {
                name: name.to_owned(),
                property: prop.to_owned(),
                ..DatasetInherit::default()
            };
            let done = tries!(site, dataset_inherit, call);
            return self.note(done, format!("inherit {prop} {name}"));
        }
        let value = match prop {
            "recordsize" => ["4K", "16K", "128K"][self.draw(3) as usize],
            "compression" => ["off", "lz4", "gzip"][self.draw(3) as usize],
            _ => ["me", "you", "they"][self.draw(3) as usize],
        };
        let props = vec![(prop.to_owned(), value.to_owned())];
        let done =
            tries!(site, dataset_set, DatasetSet { name: name.to_owned(), props, ..DatasetSet::default() });
        self.note(done, format!("set {prop}={value} {name}"));
    }

    async fn hold(&mut self, site: &Site, snapshots: &[String]) {
        let Some(name) = self.one_of(snapshots) else { return };
        let tag = "keep".to_owned();
        if self.one_in(2) {
            let call = SnapshotHold { name: name.clone(), tag, recursive: false };
            let done = tries!(site, snapshot_hold, call);
            return self.note(done, format!("hold keep {name}"));
        }
        let done =
            tries!(site, snapshot_release, SnapshotRelease { name: name.clone(), tag, recursive: false });
        self.note(done, format!("release keep {name}"));
    }

    /// True if a package may fail with this error.
    pub async fn expected(
        &self,
        site: &Site,
        packaging: &Packaging,
        failure: &Failure,
    ) -> Result<(), String> {
        let said = failure.stderr.join("\n");
        let is_held = !said.is_empty()
            && said.contains("is not as it is at the sender's")
            && self.has_holds(site).await;
        let known = [
            // A clone and its origin have snapshots with the same name.
            "rename one of the two snapshots",
            // A clone has taken over the snapshot from which the stream of the topmost dataset
            // starts.
            "cannot open 'p/t@r",
        ];
        // A change of the replica may affect the snapshot from which a stream starts.
        let lost = ["destination does not exist", "does not match incremental source", "does not exist"];
        let is_lost = self.is_changed && lost.iter().any(|known| said.contains(known));
        // A clone of a snapshot in between, which an earlier package left out.
        let is_left_out = !packaging.all && said.contains("local origin for clone");
        match is_held || is_lost || is_left_out || known.iter().any(|known| said.contains(known)) {
            true => Ok(()),
            false => Err(said),
        }
    }

    /// True if snapshots of the replica have holds, which prevent their destruction.
    async fn has_holds(&self, site: &Site) -> bool {
        for snapshot in Self::names(site, REPLICA).await.1 {
            if !site.holds(&snapshot).await.is_empty() {
                return true;
            }
        }
        false
    }
}
