//! What a pool's datasets should be: names, what each holds, and what was kept of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dsl::{Counted, DatasetName};
use ondisk::dsl::dataset_flags;
use pool::Pool;
use units::ObjectId;
use zpl::{QUOTA_KINDS, QuotaKind, Zfs};

use super::{ROOT, bytes, space};
use crate::tree::Tree;

/// What a dataset holds.
#[derive(Clone)]
pub enum Contents {
    Files { tree: Tree, quotas: BTreeMap<(QuotaKind, u64), u64> },
    Volume { block_bytes: u32, bytes: Vec<u8> },
}

impl Contents {
    pub const fn of(tree: Tree) -> Self {
        Self::Files { tree, quotas: BTreeMap::new() }
    }

    pub const fn is_files(&self) -> bool {
        matches!(self, Self::Files { .. })
    }

    /// 0: none any more.
    pub fn set_quota(&mut self, kind: QuotaKind, id: u64, limit: u64) {
        let Self::Files { quotas, .. } = self else { panic!("a volume is nobody's") };
        match limit {
            0 => drop(quotas.remove(&(kind, id))),
            limit => drop(quotas.insert((kind, id), limit)),
        }
    }

    async fn check(&self, pool: &Arc<Pool>, name: &str) {
        let is_snapshot = name.contains('@');
        match self {
            Self::Files { tree, quotas } => {
                let fs = match is_snapshot {
                    true => pool.snapshot_filesystem(name).await.unwrap(),
                    false => pool.filesystem(name).await.unwrap(),
                };
                tree.check(&fs.zfs).await;
                assert_eq!(found_quotas(&fs.zfs), *quotas, "{name}");
            }
            Self::Volume { block_bytes, bytes } => {
                let found = match is_snapshot {
                    true => bytes::contents(&pool.volume(name).await.unwrap()).await,
                    false => {
                        let volume = pool.open_volume(name).await.unwrap();
                        assert_eq!(volume.block_bytes(), *block_bytes);
                        bytes::contents(&volume).await
                    }
                };
                assert!(found == *bytes, "{name}");
            }
        }
    }
}

fn found_quotas(zfs: &Zfs) -> BTreeMap<(QuotaKind, u64), u64> {
    let of = |kind| zfs.quotas_of(kind).into_iter().map(move |(id, limit)| ((kind, id), limit));
    QUOTA_KINDS.into_iter().flat_map(of).collect()
}

#[derive(Clone)]
pub struct Snapshot {
    /// What follows the `@`.
    pub name: String,
    pub object: ObjectId,
    /// A copy that was received has the same.
    pub guid: u64,
    /// The txg that it is of.
    pub made: u64,
    pub contents: Contents,
    pub holds: BTreeSet<String>,
    /// It goes with its last hold or clone.
    pub is_deferred: bool,
}

#[derive(Clone)]
pub struct Head {
    pub object: ObjectId,
    pub contents: Contents,
    /// The snapshot that it is a clone of.
    pub origin: Option<ObjectId>,
    /// Oldest first.
    pub snapshots: Vec<Snapshot>,
    /// The txgs that they are of, by what follows the `#`.
    pub bookmarks: BTreeMap<String, u64>,
    /// `refreservation`.
    pub reserved_bytes: u64,
    /// All below it is counted.
    pub is_counted: bool,
}

impl Head {
    pub const fn new(object: ObjectId, contents: Contents) -> Self {
        Self {
            object,
            contents,
            origin: None,
            snapshots: Vec::new(),
            bookmarks: BTreeMap::new(),
            reserved_bytes: 0,
            is_counted: false,
        }
    }
}

/// All heads, by name.
#[derive(Clone, Default)]
pub struct Model {
    pub heads: BTreeMap<String, Head>,
}

/// Whether a dataset is below another.
pub fn is_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

impl Model {
    /// Head and number of a snapshot.
    pub fn find(&self, snapshot: ObjectId) -> Option<(&str, usize)> {
        self.heads.iter().find_map(|(name, head)| {
            let at = head.snapshots.iter().position(|of| of.object == snapshot)?;
            Some((name.as_str(), at))
        })
    }

    /// Names of all snapshots.
    pub fn snapshots(&self) -> Vec<(String, usize)> {
        let of = |(name, head): (&String, &Head)| {
            let name = name.clone();
            (0..head.snapshots.len()).map(move |at| (name.clone(), at))
        };
        self.heads.iter().flat_map(of).collect()
    }

    pub fn has_clones(&self, snapshot: ObjectId) -> bool {
        self.heads.values().any(|head| head.origin == Some(snapshot))
    }

    /// What only waited for its last hold or clone goes.
    pub fn reap(&mut self, snapshot: ObjectId) {
        let has_clones = self.has_clones(snapshot);
        for head in self.heads.values_mut() {
            let goes =
                |of: &Snapshot| of.object == snapshot && of.is_deferred && of.holds.is_empty() && !has_clones;
            head.snapshots.retain(|of| !goes(of));
        }
    }

    /// The pool is what the model is.
    pub async fn check(&self, pool: &Arc<Pool>) {
        pool.sync_now().await.unwrap();
        let listed = pool.dsl().list(ROOT).await.unwrap();
        let names: BTreeSet<&str> = listed.iter().map(|head| head.name.as_str()).collect();
        assert!(names.iter().copied().eq(self.heads.keys().map(String::as_str)), "{names:?}");
        for found in &listed {
            let head = &self.heads[&found.name];
            assert_eq!(found.dataset, head.object, "{}", found.name);
            self.check_line(pool, found, head).await;
            self.check_counts(pool, found, head).await;
            head.contents.check(pool, &found.name).await;
            for snapshot in &head.snapshots {
                snapshot.contents.check(pool, &format!("{}@{}", found.name, snapshot.name)).await;
            }
        }
        space::check(pool, self).await;
    }

    /// Snapshots, each before the next, what they are held by, and bookmarks.
    async fn check_line(&self, pool: &Arc<Pool>, found: &DatasetName, head: &Head) {
        let (dsl, name) = (pool.dsl(), &found.name);
        let dir = dsl.dir(found.dir).await.unwrap();
        let origin = head.origin.map(|origin| {
            let (of, at) = self.find(origin).expect("origins stay");
            format!("{of}@{}", self.heads[of].snapshots[at].name)
        });
        assert_eq!(dsl.origin_name(&dir, ROOT).await.unwrap(), origin, "{name}");
        let mut named: BTreeMap<ObjectId, String> = BTreeMap::new();
        for snapshot in dsl.snapshots(found).await.unwrap() {
            named.insert(snapshot.dataset, snapshot.name);
        }
        assert_eq!(named.len(), head.snapshots.len(), "{name}: {named:?}");
        let mut newer = dsl.dataset(found.dataset).await.unwrap();
        for snapshot in head.snapshots.iter().rev() {
            assert_eq!(newer.prev_snapshot.get(), snapshot.object.get(), "{name}: before {}", snapshot.name);
            newer = dsl.dataset(snapshot.object).await.unwrap();
            let full = format!("{name}@{}", snapshot.name);
            assert_eq!(named[&snapshot.object], full);
            assert_eq!(
                (newer.guid.get(), newer.creation_txg.get()),
                (snapshot.guid, snapshot.made),
                "{full}"
            );
            let is_deferred = newer.flags.get() & dataset_flags::DEFER_DESTROY != 0;
            assert_eq!(is_deferred, snapshot.is_deferred, "{full}");
            let holds: BTreeSet<String> =
                pool.holds(&full).await.unwrap().into_iter().map(|hold| hold.0).collect();
            assert_eq!(holds, snapshot.holds, "{full}");
        }
        let marks: Vec<String> =
            pool.bookmarks(name).await.unwrap().into_iter().map(|mark| mark.name).collect();
        assert!(
            marks.iter().eq(head
                .bookmarks
                .keys()
                .map(|mark| format!("{name}#{mark}"))
                .collect::<Vec<_>>()
                .iter()),
            "{marks:?}"
        );
    }

    async fn check_counts(&self, pool: &Arc<Pool>, found: &DatasetName, head: &Head) {
        let below = || self.heads.iter().filter(|(name, _)| is_below(name, &found.name));
        let snapshots = head.snapshots.len() + below().map(|(_, head)| head.snapshots.len()).sum::<usize>();
        let is_counted = head.is_counted
            || self.heads.iter().any(|(above, head)| head.is_counted && is_below(&found.name, above));
        for (what, count) in [(Counted::Filesystems, below().count()), (Counted::Snapshots, snapshots)] {
            match pool.dsl().counted(found.dir, what).await.unwrap() {
                None => assert!(!is_counted, "{what:?} below {} are counted", found.name),
                Some(counted) => assert_eq!(counted, count as u64, "{what:?} below {}", found.name),
            }
        }
    }
}
