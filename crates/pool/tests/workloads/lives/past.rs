//! What is kept of datasets, and going back to it: snapshots, holds, bookmarks, rollbacks.

use std::collections::BTreeSet;

use dsl::DslError;
use pool::{PoolError, ZvolError};

use super::Lives;
use super::model::Snapshot;

/// Holds are under one of these.
const TAGS: [&str; 2] = ["one", "two"];

impl Lives {
    /// One snapshot of each, of the same moment and name.
    pub(super) async fn snapshot(&mut self, of: &[String]) {
        let last = self.name();
        let names: Vec<String> = of.iter().map(|head| format!("{head}@{last}")).collect();
        self.pool.snapshot(names.clone(), Vec::new()).await.unwrap();
        let mut moments = BTreeSet::new();
        for (head, name) in of.iter().zip(&names) {
            moments.insert(self.know_snapshot(head, name).await);
        }
        assert_eq!(moments.len(), 1, "all are of one txg");
    }

    /// Adds a new snapshot to the model, which has what its head has; gives its txg.
    pub(super) async fn know_snapshot(&mut self, head: &str, name: &str) -> u64 {
        let object = self.pool.dsl().resolve(name).await.unwrap().dataset;
        let phys = self.pool.dsl().dataset(object).await.unwrap();
        let head = self.model.heads.get_mut(head).expect("every head has a model");
        let made = phys.creation_txg.get();
        head.snapshots.push(Snapshot {
            name: name.split('@').nth(1).expect("a snapshot's name").to_owned(),
            object,
            guid: phys.guid.get(),
            made,
            contents: head.contents.clone(),
            holds: BTreeSet::new(),
            is_deferred: false,
        });
        made
    }

    /// To its latest snapshot; not past a bookmark.
    pub(super) async fn roll_back(&mut self, name: &str) {
        let head = &self.model.heads[name];
        let Some(latest) = head.snapshots.last() else { return };
        let is_marked = head.bookmarks.values().any(|made| *made > latest.made);
        let (to, contents) = (format!("{name}@{}", latest.name), latest.contents.clone());
        let before = match contents.is_files() {
            true => None,
            false => Some(self.pool.open_volume(name).await.unwrap()),
        };
        let done = self.pool.rollback(name.to_owned(), to).await;
        if is_marked {
            assert!(matches!(done, Err(PoolError::Dsl(DslError::NotLatest { .. }))), "{done:?}");
            return;
        }
        done.unwrap();
        if let Some(volume) = before {
            let closed = volume.write(0, &[1], false).await;
            assert!(matches!(closed, Err(ZvolError::Closed)), "{closed:?}");
        }
        self.model.heads.get_mut(name).expect("every head has a model").contents = contents;
    }

    /// To an older one, once all that is newer is gone.
    pub(super) async fn roll_far_back(&mut self, name: &str) {
        let head = &self.model.heads[name];
        if head.snapshots.len() < 2 {
            return;
        }
        let at = self.dice.below(head.snapshots.len() as u64 - 1) as usize;
        let made = head.snapshots[at].made;
        let older = format!("{name}@{}", head.snapshots[at].name);
        let refused = self.pool.rollback(name.to_owned(), older).await;
        assert!(matches!(refused, Err(PoolError::Dsl(DslError::NotLatest { .. }))), "{refused:?}");
        let newer: Vec<String> =
            head.bookmarks.iter().filter(|mark| *mark.1 > made).map(|mark| mark.0.clone()).collect();
        self.destroy_range(name, at + 1, head.snapshots.len(), false).await;
        if self.model.heads[name].snapshots.len() == at + 1 {
            for mark in newer {
                self.lose_bookmark(name, &mark).await;
            }
            self.roll_back(name).await;
        }
    }

    /// One, or a range of one dataset's, at once or as soon as nothing keeps them.
    pub(super) async fn destroy_snapshots(&mut self, name: &str) {
        let count = self.model.heads[name].snapshots.len() as u64;
        if count > 0 {
            let first = self.dice.below(count) as usize;
            let len = if self.dice.below(2) == 0 { 1 } else { 1 + self.dice.below(count) as usize };
            let later = self.dice.below(2) == 0;
            self.destroy_range(name, first, (first + len).min(count as usize), later).await;
        }
    }

    /// All of them, or none if one cannot go and need not go later.
    async fn destroy_range(&mut self, name: &str, first: usize, end: usize, later: bool) {
        let going: Vec<Snapshot> = self.model.heads[name].snapshots[first..end].to_vec();
        let names = going.iter().map(|snapshot| format!("{name}@{}", snapshot.name)).collect();
        let done = self.pool.destroy_snapshots(names, later).await;
        let is_kept = |of: &Snapshot| !of.holds.is_empty() || self.model.has_clones(of.object);
        if !later && going.iter().any(is_kept) {
            let refused =
                matches!(done, Err(PoolError::Dsl(DslError::HasClones { .. } | DslError::HasHolds { .. })));
            assert!(refused, "{done:?}");
            return;
        }
        done.unwrap();
        for snapshot in going {
            let head = self.model.heads.get_mut(name).expect("every head has a model");
            let of = head.snapshots.iter_mut().find(|of| of.object == snapshot.object);
            of.expect("it was there").is_deferred = true;
            self.model.reap(snapshot.object);
        }
    }

    /// Wherever there are snapshots of that name.
    pub(super) async fn rename_snapshots(&mut self) {
        let all = self.model.snapshots();
        if all.is_empty() {
            return;
        }
        let (of, at) = &all[self.dice.below(all.len() as u64) as usize];
        let (old, new) = (self.model.heads[of].snapshots[*at].name.clone(), self.name());
        let mut pairs = Vec::new();
        for (name, head) in &mut self.model.heads {
            if let Some(snapshot) = head.snapshots.iter_mut().find(|of| of.name == old) {
                snapshot.name.clone_from(&new);
                pairs.push((format!("{name}@{old}"), format!("{name}@{new}")));
            }
        }
        self.pool.rename_snapshots(pairs).await.unwrap();
    }

    fn some_snapshot(&mut self) -> Option<(String, &mut Snapshot)> {
        let all = self.model.snapshots();
        let at = self.dice.below(all.len().max(1) as u64) as usize;
        let (head, at) = all.get(at)?;
        let snapshot = &mut self.model.heads.get_mut(head)?.snapshots[*at];
        Some((format!("{head}@{}", snapshot.name), snapshot))
    }

    pub(super) async fn hold(&mut self) {
        let tag = TAGS[self.dice.below(2) as usize];
        let pool = std::sync::Arc::clone(&self.pool);
        let Some((name, snapshot)) = self.some_snapshot() else { return };
        let done = pool.hold(tag.to_owned(), vec![name]).await;
        match snapshot.holds.insert(tag.to_owned()) {
            true => done.unwrap(),
            false => assert!(matches!(done, Err(PoolError::Dsl(DslError::TagExists { .. }))), "{done:?}"),
        }
    }

    pub(super) async fn release(&mut self) {
        let held = self.model.snapshots().into_iter().filter_map(|(head, at)| {
            let snapshot = &self.model.heads[&head].snapshots[at];
            let tag = snapshot.holds.first()?.clone();
            Some((head, at, tag))
        });
        let held: Vec<_> = held.collect();
        let which = self.dice.below(held.len().max(1) as u64) as usize;
        let Some((head, at, tag)) = held.get(which) else { return };
        let snapshot = &mut self.model.heads.get_mut(head).expect("it is there").snapshots[*at];
        let (name, object) = (format!("{head}@{}", snapshot.name), snapshot.object);
        snapshot.holds.remove(tag);
        self.pool.release(tag.clone(), vec![name]).await.unwrap();
        self.model.reap(object);
    }

    pub(super) async fn bookmark(&mut self) {
        let mark = self.name();
        let pool = std::sync::Arc::clone(&self.pool);
        let Some((of, snapshot)) = self.some_snapshot() else { return };
        let (head, made) = (of.split('@').next().expect("a head's name").to_owned(), snapshot.made);
        pool.bookmark(of, format!("{head}#{mark}")).await.unwrap();
        self.model.heads.get_mut(&head).expect("it is there").bookmarks.insert(mark, made);
    }

    pub(super) async fn destroy_bookmark(&mut self, name: &str) {
        let mark = self.model.heads[name].bookmarks.keys().next().cloned();
        if let Some(mark) = mark {
            self.lose_bookmark(name, &mark).await;
        }
    }

    async fn lose_bookmark(&mut self, name: &str, mark: &str) {
        self.pool.destroy_bookmark(format!("{name}#{mark}")).await.unwrap();
        self.model.heads.get_mut(name).expect("it is there").bookmarks.remove(mark);
    }
}
