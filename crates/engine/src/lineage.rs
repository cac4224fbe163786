//! What of a pool's datasets descends from what: the tree of names, snapshots by age, and clones.
//!
//! ```text
//!  p/a ── @1 ── @2 ── @3        p/a/b is below p/a
//!                └─► p/c        p/c is a clone of p/a@2: it goes before p/a@2 can go
//! ```

use crate::names;
use std::collections::{BTreeMap, BTreeSet};

/// File systems and volumes of a pool with their snapshots and origins.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    heads: BTreeMap<String, Head>,
    /// Clones by the snapshot that they are of.
    clones: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Default)]
struct Head {
    origin: Option<String>,
    /// The oldest first.
    snapshots: Vec<Snapshot>,
}

/// A snapshot, or a bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Full name.
    pub name: String,
    /// Transaction group that it was made in.
    pub createtxg: u64,
}

impl Lineage {
    /// Takes in a file system or volume; `origin` is the snapshot that it is a clone of.
    pub fn add_head(&mut self, name: &str, origin: Option<&str>) {
        if let Some(origin) = origin {
            self.clones.entry(origin.to_owned()).or_default().push(name.to_owned());
        }
        self.heads.entry(name.to_owned()).or_default().origin = origin.map(str::to_owned);
    }

    /// Takes in a snapshot.
    pub fn add_snapshot(&mut self, name: &str, createtxg: u64) {
        let snapshots = &mut self.heads.entry(names::head_of(name).to_owned()).or_default().snapshots;
        let place = snapshots.partition_point(|other| other.createtxg <= createtxg);
        snapshots.insert(place, Snapshot { name: name.to_owned(), createtxg });
    }

    /// Whether there is a file system, volume or snapshot of this name.
    pub fn has(&self, name: &str) -> bool {
        match name.contains('@') {
            true => self.snapshot(name).is_some(),
            false => self.heads.contains_key(name),
        }
    }

    /// The snapshot of this name.
    pub fn snapshot(&self, name: &str) -> Option<&Snapshot> {
        self.snapshots_of(names::head_of(name)).iter().find(|snapshot| snapshot.name == name)
    }

    /// Snapshots of a file system or volume, the oldest first.
    pub fn snapshots_of(&self, head: &str) -> &[Snapshot] {
        self.heads.get(head).map_or(&[], |head| &head.snapshots)
    }

    /// A file system or volume and, where `recursive`, all below it; by name.
    pub fn heads(&self, root: &str, recursive: bool) -> Vec<&str> {
        let itself = self.heads.get_key_value(root).into_iter();
        let below = format!("{root}/");
        let later = self.heads.range(below.clone()..).take_while(|(name, _)| name.starts_with(&below));
        itself.chain(later.filter(|_| recursive)).map(|(name, _)| name.as_str()).collect()
    }

    /// Of a snapshot and, where `recursive`, of those of the same name of all datasets below its own: what
    /// is there.
    pub fn namesakes(&self, snapshot: &str, recursive: bool) -> Vec<String> {
        let (root, last) = snapshot.split_once('@').unwrap_or((snapshot, ""));
        let names = self.heads(root, recursive).into_iter().map(|head| format!("{head}@{last}"));
        names.filter(|name| self.has(name)).collect()
    }

    /// Snapshots of the same dataset that are newer than this one, the oldest first.
    pub fn newer_than(&self, snapshot: &Snapshot) -> Vec<&Snapshot> {
        let all = self.snapshots_of(names::head_of(&snapshot.name)).iter();
        all.filter(|other| other.createtxg > snapshot.createtxg).collect()
    }

    /// The snapshot that a dataset is a clone of.
    pub fn origin_of(&self, head: &str) -> Option<&Snapshot> {
        self.snapshot(self.heads.get(head)?.origin.as_deref()?)
    }

    /// All that has to go before a dataset or a snapshot can go, in the order in which it can: children,
    /// snapshots, clones of these, and what is below the clones.
    pub fn dependents(&self, root: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::from([root.to_owned()]);
        let mut open = vec![(root.to_owned(), self.next_to(root).into_iter())];
        while let Some((_, rest)) = open.last_mut() {
            match rest.next() {
                Some(next) if seen.insert(next.clone()) => {
                    let below = self.next_to(&next).into_iter();
                    open.push((next, below));
                }
                Some(_) => {}
                None => found.extend(open.pop().map(|(name, _)| name)),
            }
        }
        found.pop();
        found
    }

    /// Clones of a snapshot; children and snapshots of anything else.
    fn next_to(&self, name: &str) -> Vec<String> {
        if name.contains('@') {
            return self.clones.get(name).cloned().unwrap_or_default();
        }
        let is_child = |child: &&str| names::parent_of(child) == Some(name);
        let children = self.heads(name, true).into_iter().filter(is_child).map(str::to_owned);
        let snapshots = self.snapshots_of(name).iter().map(|snapshot| snapshot.name.clone());
        children.chain(snapshots).collect()
    }

    /// The snapshot that a clone would take over from its origin's dataset and that has the name of one of its
    /// own: what stands behind the `@`, of the newest such.
    pub fn promotion_conflict(&self, clone: &str) -> Option<String> {
        let origin = self.origin_of(clone)?;
        let last = |snapshot: &Snapshot| snapshot.name.split('@').nth(1).unwrap_or_default().to_owned();
        let own: BTreeSet<String> = self.snapshots_of(clone).iter().map(last).collect();
        let shared = self.snapshots_of(names::head_of(&origin.name)).iter().rev();
        let shared = shared.filter(|snapshot| snapshot.createtxg <= origin.createtxg);
        shared.map(last).find(|name| own.contains(name))
    }

    /// Whether what a dataset was in transaction group `txg` is a part of the history of `head`: it is the same
    /// dataset, or one that `head` was cloned from later.
    pub fn is_history_of(&self, head: &str, dataset: &str, txg: u64) -> bool {
        let (mut at, mut until) = (head, u64::MAX);
        let mut seen = BTreeSet::new();
        while seen.insert(at) {
            if at == dataset {
                return txg <= until;
            }
            let Some(origin) = self.origin_of(at) else { return false };
            (at, until) = (names::head_of(&origin.name), origin.createtxg);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// p/a with @1 to @3 and p/a/b with @2; p/c is a clone of p/a@2 and has p/c@9 and p/c/d; p/a/e of p/a@3.
    fn family() -> Lineage {
        let mut family = Lineage::default();
        for name in ["p", "p/a", "p/a-b", "p/a/b", "p/c/d"] {
            family.add_head(name, None);
        }
        family.add_head("p/c", Some("p/a@2"));
        family.add_head("p/a/e", Some("p/a@3"));
        for (name, txg) in
            [("p/a@3", 30), ("p/a@1", 10), ("p/a@2", 20), ("p/a/b@2", 20), ("p/c@9", 40), ("p/c@1", 41)]
        {
            family.add_snapshot(name, txg);
        }
        family
    }

    fn names(snapshots: &[Snapshot]) -> Vec<&str> {
        snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect()
    }

    #[test]
    fn snapshots_are_in_order_of_age_and_heads_in_order_of_name() {
        let family = family();
        assert_eq!(names(family.snapshots_of("p/a")), ["p/a@1", "p/a@2", "p/a@3"]);
        assert_eq!(family.heads("p/a", true), ["p/a", "p/a/b", "p/a/e"]);
        assert_eq!(family.heads("p/a", false), ["p/a"]);
        assert_eq!(family.namesakes("p/a@2", true), ["p/a@2", "p/a/b@2"]);
        assert_eq!(family.namesakes("p/a@2", false), ["p/a@2"]);
        assert_eq!(family.namesakes("p@2", true), ["p/a@2", "p/a/b@2"]);
        assert!(family.has("p/a@1") && !family.has("p/a@9") && !family.has("p/x"));
    }

    #[test]
    fn what_goes_first_comes_first_and_nothing_comes_twice() {
        let family = family();
        assert_eq!(family.dependents("p/a@1"), [""; 0]);
        assert_eq!(family.dependents("p/a@2"), ["p/c/d", "p/c@9", "p/c@1", "p/c"]);
        assert_eq!(
            family.dependents("p/a"),
            ["p/a/b@2", "p/a/b", "p/a/e", "p/a@1", "p/c/d", "p/c@9", "p/c@1", "p/c", "p/a@2", "p/a@3"]
        );
    }

    #[test]
    fn a_circle_of_clones_has_an_end() {
        let mut family = Lineage::default();
        family.add_head("p/a", Some("p/b@1"));
        family.add_head("p/b", Some("p/a@1"));
        family.add_snapshot("p/a@1", 1);
        family.add_snapshot("p/b@1", 1);
        assert_eq!(family.dependents("p/a"), ["p/b@1", "p/b", "p/a@1"]);
        assert!(!family.is_history_of("p/a", "p/c", 0));
    }

    #[test]
    fn only_what_a_clone_takes_over_conflicts_with_its_own() {
        assert_eq!(family().promotion_conflict("p/c").as_deref(), Some("1"));
        let mut family = family();
        family.add_snapshot("p/a/e@9", 50);
        assert_eq!(family.promotion_conflict("p/a/e"), None);
        assert_eq!(family.promotion_conflict("p/a"), None);
    }

    #[test]
    fn history_goes_back_through_origins_to_the_time_of_each() {
        let family = family();
        assert!(family.is_history_of("p/c", "p/c", 40));
        assert!(family.is_history_of("p/c", "p/a", 20));
        assert!(!family.is_history_of("p/c", "p/a", 30));
        assert!(!family.is_history_of("p/a", "p/c", 40));
    }
}
