//! The datasets of one owner: names, snapshots, origins and contents.

use std::collections::BTreeMap;

use crate::contents::{FileChanges, FileVersions, FilesByName};

/// A snapshot that its owner has made.
#[derive(Clone, Debug)]
pub struct OwnedSnapshot {
    pub name: String,
    pub tree: FilesByName,
}

/// A file system with its own snapshots, oldest first.
#[derive(Clone, Debug, Default)]
pub struct FileSystemModel {
    pub contents: FileVersions,
    pub snapshots: Vec<OwnedSnapshot>,
    /// The file system and the snapshot that this file system is a clone of.
    pub origin: Option<(String, String)>,
}

/// All file systems of an owner, by the last component of their names.
#[derive(Clone, Debug, Default)]
pub struct DatasetFamily {
    pub members: BTreeMap<String, FileSystemModel>,
}

/// The step that was under way when the daemon was killed.
#[derive(Debug)]
pub enum PendingStep {
    /// Changes of the files of one file system. One of them was made, or none.
    Files { member: String, changes: Vec<FileChanges> },
    /// A command on datasets: the family is as before, or as one of these.
    Families(Vec<DatasetFamily>),
}

impl DatasetFamily {
    /// Lists the members that are clones of a snapshot of `name`, with that snapshot.
    pub fn clones_of(&self, name: &str) -> impl Iterator<Item = (&String, &String)> {
        self.members.iter().filter_map(move |(clone, member)| {
            let (origin, snapshot) = member.origin.as_ref()?;
            (origin == name).then_some((clone, snapshot))
        })
    }

    /// The family after `zfs snapshot name@snapshot`.
    pub fn with_snapshot(&self, name: &str, snapshot: &str) -> Self {
        let mut after = self.clone();
        if let Some(member) = after.members.get_mut(name) {
            let tree = member.contents.newest();
            // The txg of the snapshot includes all changes that had returned.
            member.contents.promise_all();
            member.snapshots.push(OwnedSnapshot { name: snapshot.to_owned(), tree });
        }
        after
    }

    /// The family without one snapshot.
    pub fn without_snapshot(&self, name: &str, snapshot: &str) -> Self {
        let mut after = self.clone();
        if let Some(member) = after.members.get_mut(name) {
            member.snapshots.retain(|other| other.name != snapshot);
        }
        after
    }

    /// Returns the families that an interrupted `zfs destroy -r name` may leave. In the last one,
    /// the member is gone. Snapshots are destroyed before their file system, in any order.
    pub fn without(&self, name: &str) -> Vec<Self> {
        let count = self.members.get(name).map_or(0, |member| member.snapshots.len());
        let mut families: Vec<Self> =
            (1..1_u32 << count).map(|gone| self.with_some_gone(name, gone)).collect();
        let mut after = self.clone();
        after.members.remove(name);
        families.push(after);
        families
    }

    fn with_some_gone(&self, name: &str, gone: u32) -> Self {
        let mut after = self.clone();
        if let Some(member) = after.members.get_mut(name) {
            let mut at = 0;
            member.snapshots.retain(|_| {
                at += 1;
                gone & (1 << (at - 1)) == 0
            });
        }
        after
    }

    /// The family after `zfs clone name@snapshot clone`.
    pub fn with_clone(&self, name: &str, snapshot: &str, clone: &str) -> Self {
        let mut after = self.clone();
        let member = FileSystemModel {
            contents: FileVersions::stable(&self.tree_of(name, snapshot)),
            snapshots: Vec::new(),
            origin: Some((name.to_owned(), snapshot.to_owned())),
        };
        after.members.insert(clone.to_owned(), member);
        after
    }

    /// Returns the family after `zfs promote clone`: the clone gets the origin's snapshots up to
    /// its own origin, with their clones, and the origin becomes a clone.
    pub fn promoted(&self, clone: &str) -> Self {
        let mut after = self.clone();
        let Some((origin, snapshot)) = self.members.get(clone).and_then(|it| it.origin.clone()) else {
            return after;
        };
        let (Some(mut from), Some(mut to)) = (after.members.remove(&origin), after.members.remove(clone))
        else {
            return after;
        };
        let count = from.snapshots.iter().position(|it| it.name == snapshot).map_or(0, |at| at + 1);
        let moved: Vec<OwnedSnapshot> = from.snapshots.drain(..count).collect();
        to.origin = from.origin.replace((clone.to_owned(), snapshot));
        for member in after.members.values_mut() {
            if let Some((of, at)) = &mut member.origin
                && *of == origin
                && moved.iter().any(|it| it.name == *at)
            {
                *of = clone.to_owned();
            }
        }
        to.snapshots.splice(..0, moved);
        after.members.extend([(origin, from), (clone.to_owned(), to)]);
        after
    }

    /// The family after `zfs rename old new`.
    pub fn renamed(&self, old: &str, new: &str) -> Self {
        let mut after = self.clone();
        if let Some(member) = after.members.remove(old) {
            after.members.insert(new.to_owned(), member);
        }
        for member in after.members.values_mut() {
            if let Some((of, _)) = &mut member.origin
                && *of == old
            {
                *of = new.to_owned();
            }
        }
        after
    }

    /// The family after a rollback of a member to its newest snapshot.
    pub fn rolled_back(&self, name: &str) -> Self {
        let mut after = self.clone();
        if let Some(member) = after.members.get_mut(name)
            && let Some(newest) = member.snapshots.last()
        {
            member.contents = FileVersions::stable(&newest.tree);
        }
        after
    }

    /// The family after one snapshot was sent and received as a new member.
    pub fn with_copy(&self, name: &str, snapshot: &str, copy: &str) -> Self {
        let mut after = self.clone();
        let tree = self.tree_of(name, snapshot);
        let contents = FileVersions::stable(&tree);
        let snapshots = vec![OwnedSnapshot { name: snapshot.to_owned(), tree }];
        after.members.insert(copy.to_owned(), FileSystemModel { contents, snapshots, origin: None });
        after
    }

    fn tree_of(&self, name: &str, snapshot: &str) -> FilesByName {
        let member = self.members.get(name);
        let snapshot = member.and_then(|member| member.snapshots.iter().find(|it| it.name == snapshot));
        snapshot.map(|it| it.tree.clone()).unwrap_or_default()
    }
}
