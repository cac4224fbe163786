//! Plans the steps that align a local tree of datasets with the sender's tree. Pure: names and
//! guids in, steps out.
//!
//! ```text
//!  a local dataset ─► its newest snapshot that the sender has too
//!    ─► the sender's dataset that has this snapshot: the counterpart
//!
//!  the counterpart's origin is older ─► promote     no counterpart     ─► destroy, with force
//!  the counterpart is elsewhere      ─► rename      its place is taken ─► other waits as `recv-N`
//! ```
//! Steps are listed in the order in which they should be tried. After a step has succeeded, the
//! tree has changed and is planned again.

use crate::names;
use crate::package::{Member, Package};
use std::collections::BTreeSet;

/// A change of the local tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlignStep {
    /// A clone takes over the snapshots up to its origin.
    Promote(String),
    /// Snapshots that the sender does not have.
    DestroySnapshots(Vec<String>),
    /// The full names of a snapshot, before and after.
    RenameSnapshot(String, String),
    /// The names of a dataset, before and after.
    Rename(String, String),
    /// A dataset that the sender does not have.
    Destroy(String),
}

impl AlignStep {
    /// True if the step changes neither the names of other datasets nor the origins of clones, so
    /// that the steps planned with it still apply.
    pub fn leaves_others(&self) -> bool {
        matches!(self, Self::DestroySnapshots(_) | Self::RenameSnapshot(..) | Self::Destroy(_))
    }
}

/// A local tree, and the sender's tree that it is aligned with.
pub struct Alignment<'a> {
    /// The local datasets, topmost first.
    pub local: &'a [Member],
    pub theirs: &'a Package,
    /// The local names of the sender's datasets, in the order of the package.
    pub wanted: &'a [String],
    /// The name of the topmost local dataset.
    pub root: &'a str,
    /// True if datasets and snapshots that the sender does not have are destroyed.
    pub force: bool,
}

impl Alignment<'_> {
    /// True if the topmost local dataset and the sender's tree have a snapshot in common.
    pub fn has_root(&self) -> bool {
        let root = self.local.iter().find(|member| member.name == self.root);
        root.is_some_and(|root| self.has_common(root))
    }

    /// Returns the possible next steps, best first.
    pub fn steps(&self) -> Vec<AlignStep> {
        let counterparts = self.counterparts();
        let mut steps = Vec::new();
        let pairs = || self.local.iter().zip(&counterparts);
        for (local, theirs) in pairs() {
            if theirs.is_some_and(|at| self.is_behind(local, &self.theirs.members[at])) {
                steps.push(AlignStep::Promote(local.name.clone()));
            }
        }
        pairs().for_each(|(local, theirs)| self.snapshot_steps(local, *theirs, &mut steps));
        for (local, theirs) in pairs() {
            let wanted = theirs.map(|at| &self.wanted[at]);
            if let Some(wanted) = wanted.filter(|wanted| self.can_move(local, wanted, &counterparts)) {
                steps.push(AlignStep::Rename(local.name.clone(), wanted.clone()));
            }
        }
        let gone = |local: &Member, theirs: &Option<usize>| theirs.is_none() && self.is_gone(local);
        for (local, theirs) in pairs() {
            if self.force && gone(local, theirs) && !self.has_children(local) {
                steps.push(AlignStep::Destroy(local.name.clone()));
            }
        }
        for (local, theirs) in pairs() {
            // The owner of its origin cannot be destroyed before this dataset, and this dataset not
            // before its children.
            let owner = local.origin_name.as_deref().map(names::head_of);
            if self.force && gone(local, theirs) && self.has_children(local) {
                let owner = pairs().find(|(other, _)| Some(other.name.as_str()) == owner);
                if owner.is_some_and(|(owner, theirs)| gone(owner, theirs) && !self.has_children(owner)) {
                    steps.push(AlignStep::Promote(local.name.clone()));
                }
            }
        }
        for (local, theirs) in pairs() {
            let is_in_place = theirs.is_some_and(|at| self.wanted[at] == local.name);
            let may_wait = theirs.is_some() || self.force && gone(local, theirs);
            if may_wait && !is_in_place && local.name != self.root && self.wanted.contains(&local.name) {
                steps.push(AlignStep::Rename(local.name.clone(), self.free_name(self.root)));
            }
        }
        steps
    }

    /// Lists the differences from the sender's tree. `came` has the guids of the snapshots whose
    /// streams were received.
    pub fn differences(&self, came: &BTreeSet<u64>) -> Vec<String> {
        let mut told = Vec::new();
        let counterparts = self.counterparts();
        for (local, theirs) in self.local.iter().zip(&counterparts) {
            let name = &local.name;
            match theirs {
                Some(at) if self.wanted[*at] != *name => {
                    told.push(format!("'{name}' belongs at '{}'", self.wanted[*at]));
                }
                Some(at) => {
                    let theirs = &self.theirs.members[*at];
                    let has_come = theirs.snaps.iter().any(|(_, guid)| came.contains(guid));
                    if has_come && local.origin != theirs.origin {
                        told.push(format!("'{name}' has another origin than '{}'", theirs.name));
                    }
                }
                None if self.force && local.name != self.root => {
                    told.push(format!("'{name}' is not at the sender's any more"));
                }
                None => {}
            }
            for (snap, guid) in &local.snaps {
                match self.their_name(*theirs, *guid) {
                    None if self.force => {
                        told.push(format!("'{name}@{snap}' is not at the sender's any more"))
                    }
                    Some(theirs) if theirs != snap => {
                        told.push(format!("'{name}@{snap}' is called '@{theirs}' at the sender's"));
                    }
                    _ => {}
                }
            }
        }
        for (theirs, wanted) in self.theirs.members.iter().zip(self.wanted) {
            let local = self.local.iter().find(|local| local.name == *wanted);
            let lacks = |guid: u64| !local.is_some_and(|local| local.snaps.iter().any(|snap| snap.1 == guid));
            let lacking = theirs.snaps.iter().filter(|(_, guid)| came.contains(guid) && lacks(*guid));
            told.extend(lacking.map(|(snap, _)| format!("'{wanted}' has not the snapshot '@{snap}'")));
        }
        told
    }

    /// Returns the step before the first stream of the sender's dataset `sent_as` is received as
    /// `name`. If that dataset exists elsewhere here, it moves to `name`. A local dataset at `name`
    /// makes room if it belongs elsewhere, or is not at the sender any more, or is a clone without
    /// snapshots of its own, or lacks the snapshot with the guid `origin`, from which the new
    /// dataset is cloned.
    pub fn step_before(&self, name: &str, sent_as: &str, origin: u64) -> Option<AlignStep> {
        let counterparts = self.counterparts();
        let Some((at, local)) = self.local.iter().enumerate().find(|(_, local)| local.name == name) else {
            return self.move_to(name, sent_as, &counterparts);
        };
        let is_bare = local.snaps.is_empty() && local.origin.is_some();
        let lacks_origin = origin != 0 && local.name_of(origin).is_none();
        let is_sent = |theirs: usize| self.theirs.members[theirs].name == sent_as;
        let belongs_here = counterparts[at].map_or(!self.is_gone(local), is_sent);
        if name == self.root || belongs_here && !is_bare && !lacks_origin {
            return None;
        }
        match is_bare && !self.has_children(local) {
            true => Some(AlignStep::Destroy(name.to_owned())),
            false => Some(AlignStep::Rename(name.to_owned(), self.free_name(self.root))),
        }
    }

    /// Returns the step that moves the counterpart of the sender's dataset `sent_as` to `name`,
    /// which is free.
    fn move_to(&self, name: &str, sent_as: &str, counterparts: &[Option<usize>]) -> Option<AlignStep> {
        let theirs = self.theirs.members.iter().position(|member| member.name == sent_as)?;
        let local = self.local.iter().zip(counterparts).find(|(_, of)| **of == Some(theirs));
        let (local, _) = local.filter(|(local, _)| self.can_move(local, name, counterparts))?;
        (self.wanted[theirs] == name).then(|| AlignStep::Rename(local.name.clone(), name.to_owned()))
    }

    /// Returns a name below a dataset that no dataset has or will get.
    fn free_name(&self, below: &str) -> String {
        let is_taken =
            |name: &String| self.local.iter().any(|local| local.name == *name) || self.wanted.contains(name);
        let mut names = (1u64..).map(|number| format!("{below}/recv-{number}"));
        names.find(|name| !is_taken(name)).unwrap_or_default()
    }

    /// Returns, for each local dataset, the index of its counterpart at the sender.
    fn counterparts(&self) -> Vec<Option<usize>> {
        let mut found: Vec<Option<(usize, usize)>> =
            self.local.iter().map(|local| self.owner_of_newest(local)).collect();
        for at in 0..found.len() {
            let Some((theirs, place)) = found[at] else { continue };
            // Snapshots of one dataset at the sender may still belong to several datasets here.
            let is_newer = |other: &Option<(usize, usize)>| {
                other.is_some_and(|(of, newer)| of == theirs && newer > place)
            };
            if found.iter().any(is_newer) {
                found[at] = None;
            }
        }
        let mut counterparts: Vec<Option<usize>> =
            found.into_iter().map(|found| found.map(|(theirs, _)| theirs)).collect();
        for (at, local) in self.local.iter().enumerate() {
            if counterparts[at].is_none() && local.origin.is_some() && !self.has_common(local) {
                let is_namesake = |theirs: &usize| {
                    self.wanted[*theirs] == local.name
                        && self.theirs.members[*theirs].origin == local.origin
                        && !counterparts.contains(&Some(*theirs))
                };
                counterparts[at] = (0..self.wanted.len()).find(is_namesake);
            }
        }
        counterparts
    }

    /// Returns the sender's dataset that has the newest common snapshot, and the index of that
    /// snapshot in it.
    fn owner_of_newest(&self, local: &Member) -> Option<(usize, usize)> {
        let newest = local.snaps.iter().rev().map(|(_, guid)| *guid);
        let mut owners = newest.filter_map(|guid| {
            let place = |theirs: &Member| theirs.snaps.iter().position(|snap| snap.1 == guid);
            let owners = self.theirs.members.iter().enumerate();
            let owners: Vec<_> = owners.filter_map(|(at, theirs)| Some((at, place(theirs)?))).collect();
            let in_place = owners.iter().find(|(at, _)| self.wanted[*at] == local.name);
            in_place.or(owners.first()).copied()
        });
        owners.next()
    }

    fn has_common(&self, local: &Member) -> bool {
        local.snaps.iter().any(|(_, guid)| self.theirs.owner_of(*guid).is_some())
    }

    /// True if the dataset and the sender's tree have no snapshot in common.
    fn is_gone(&self, local: &Member) -> bool {
        local.name != self.root && !self.has_common(local)
    }

    fn has_children(&self, of: &Member) -> bool {
        self.local.iter().any(|local| names::parent_of(&local.name) == Some(&of.name))
    }

    /// True if a local clone must take over snapshots of its origin, because its counterpart
    /// already has them: the counterpart is no clone, or is a clone of an older snapshot.
    fn is_behind(&self, local: &Member, theirs: &Member) -> bool {
        let Some(older) = self.before_origin(local).filter(|_| local.origin != theirs.origin) else {
            return false;
        };
        theirs.origin.is_none_or(|origin| older.contains(&origin))
    }

    /// Returns the guids of the snapshots before the origin of a dataset, through all its origins.
    /// `None` if the first origin is outside of the tree.
    fn before_origin(&self, local: &Member) -> Option<BTreeSet<u64>> {
        let place = |origin: &str| {
            let (head, snap) = origin.split_once('@')?;
            let owner = self.local.iter().find(|owner| owner.name == head)?;
            Some((owner, owner.snaps.iter().position(|(name, _)| name == snap)?))
        };
        let (mut owner, mut end) = place(local.origin_name.as_deref()?)?;
        let mut older = BTreeSet::new();
        loop {
            let guids = owner.snaps[..end].iter().map(|(_, guid)| *guid);
            let before = older.len();
            older.extend(guids.chain(owner.origin));
            let Some(next) = owner.origin_name.as_deref().and_then(place) else { return Some(older) };
            if older.len() == before {
                return Some(older);
            }
            (owner, end) = next;
        }
    }

    /// Returns the sender's name for a snapshot. The counterpart comes first, because a dataset
    /// that was received from another one has snapshots with the same guids.
    fn their_name(&self, counterpart: Option<usize>, guid: u64) -> Option<&str> {
        let members = counterpart.map(|at| &self.theirs.members[at]).into_iter().chain(&self.theirs.members);
        let mut snaps = members.flat_map(|member| &member.snaps);
        snaps.find(|(_, other)| *other == guid).map(|(name, _)| name.as_str())
    }

    fn snapshot_steps(&self, local: &Member, theirs: Option<usize>, steps: &mut Vec<AlignStep>) {
        let full = |snap: &str| format!("{}@{snap}", local.name);
        let (mut going, mut renamed) = (Vec::new(), Vec::new());
        for (snap, guid) in &local.snaps {
            match self.their_name(theirs, *guid) {
                None if self.force => going.push(full(snap)),
                Some(theirs) if theirs != snap => renamed.push((snap, theirs)),
                _ => {}
            }
        }
        if !going.is_empty() {
            steps.push(AlignStep::DestroySnapshots(going));
        }
        let is_taken = |name: &str| local.snaps.iter().any(|(snap, _)| snap == name);
        let free = renamed.iter().filter(|(_, theirs)| !is_taken(theirs));
        steps.extend(free.map(|(snap, theirs)| AlignStep::RenameSnapshot(full(snap), full(theirs))));
        // Snapshots exchange their names, so one gets a temporary name.
        if let Some((snap, _)) =
            renamed.first().filter(|_| renamed.iter().all(|(_, theirs)| is_taken(theirs)))
        {
            let names = (1u64..).map(|number| format!("recv-{number}"));
            let other = names.clone().find(|name| !is_taken(name)).unwrap_or_default();
            steps.push(AlignStep::RenameSnapshot(full(snap), full(&other)));
        }
    }

    /// True if a dataset that belongs elsewhere can be renamed to its place now.
    fn can_move(&self, local: &Member, wanted: &str, counterparts: &[Option<usize>]) -> bool {
        let is_there = |name: &str| self.local.iter().position(|local| local.name == name);
        let Some(parent) = names::parent_of(wanted) else { return false };
        let has_parent = match (is_there(parent), self.wanted.iter().position(|name| name == parent)) {
            // The local parent must be the counterpart of the sender's parent.
            (Some(at), Some(theirs)) => counterparts[at] == Some(theirs),
            (Some(_), None) => true,
            (None, _) => !names::is_within(parent, self.root),
        };
        let is_free = is_there(wanted).is_none() && !names::is_within(wanted, &local.name);
        local.name != self.root && local.name != wanted && has_parent && is_free
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
