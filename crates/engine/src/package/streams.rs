//! Chooses the streams of a package: which snapshots are sent, in which order, and from which
//! snapshot each stream starts.
//!
//! A receiver accepts a stream if it has the parent dataset and the snapshot from which the stream
//! starts. So a dataset is sent after its parent and after the dataset that has its origin. If a
//! clone below its origin was promoted, the two datasets wait for each other:
//!
//! ```text
//!  here                              sent as                      promoted by the receiver
//!  t       ── @2, clone of t/c@1     t       ── @1 ── @2          t       ── @2, clone of t/c@1
//!  └ t/c   ── @1 ── @2               └ t/c   ── @2, clone of t@1  └ t/c   ── @1 ── @2
//! ```
//! Such datasets are sent as they were before the promotion. The list of the package has the guids
//! of the snapshots of each dataset. Our receiver promotes the clone after all streams were
//! received, and libzfs promotes it with the next incremental package.
//! (test: `a_promoted_clone_below_its_origin_is_sent_as_it_was_before`)
//!
//! Invariant: every dataset of the package that is not left out has a stream of the last snapshot,
//! or an error names the dataset.

use super::{Member, Package};

/// A stream of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageStream {
    /// The full local name of the snapshot.
    pub snapshot: String,
    /// The full name of the snapshot in the stream.
    pub sent_as: String,
    /// The guid of the snapshot.
    pub guid: u64,
    /// The full local name and the guid of the snapshot from which the stream starts.
    pub from: Option<(String, u64)>,
    /// True if the receiver has that snapshot in another dataset and creates a clone of it.
    pub is_of_clone: bool,
}

/// Why a package cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// A dataset would have two snapshots with the same name.
    #[error(
        "'{dataset}' is a clone of a dataset below it, and both have a snapshot '{snap}': rename one of the two snapshots"
    )]
    NameTaken {
        /// The dataset that is sent as it was before a promotion.
        dataset: String,
        /// The part after the `@`.
        snap: String,
    },
    /// Every dataset is left out.
    #[error("all datasets are excluded")]
    Empty,
    /// A dataset has no stream of the last snapshot.
    #[error("dataset '{dataset}' would be left out")]
    LeftOut {
        /// The full name of the dataset.
        dataset: String,
    },
}

/// A snapshot of a [`Branch`].
#[derive(Clone, Copy, Debug)]
struct SentSnapshot<'a> {
    /// The full local name of the dataset that has it.
    owner: &'a str,
    last: &'a str,
    guid: u64,
}

impl SentSnapshot<'_> {
    fn full(&self) -> String {
        format!("{}@{}", self.owner, self.last)
    }
}

/// A dataset with the snapshots that are sent as its own.
#[derive(Debug)]
struct Branch<'a> {
    member: &'a Member,
    /// The oldest first.
    kept: Vec<SentSnapshot<'a>>,
    /// The full local name and the guid of the snapshot that the dataset is sent as a clone of.
    origin: Option<(String, u64)>,
    is_sent: bool,
}

impl<'a> Branch<'a> {
    fn of(member: &'a Member) -> Self {
        let kept =
            member.snaps.iter().map(|(last, guid)| SentSnapshot { owner: &member.name, last, guid: *guid });
        Self {
            member,
            kept: kept.collect(),
            origin: member.origin_name.clone().zip(member.origin),
            // A dataset without a stream does not hold up other datasets.
            is_sent: member.is_left_out,
        }
    }

    fn place_of(&self, snapshot: &str) -> Option<usize> {
        self.kept.iter().position(|kept| kept.full() == snapshot)
    }

    fn has(&self, last: &str) -> bool {
        self.kept.iter().any(|kept| kept.last == last)
    }
}

/// The datasets of a package while their order is determined.
struct Branches<'a>(Vec<Branch<'a>>);

impl Branches<'_> {
    fn waits_for_parent(&self, at: usize) -> bool {
        let parent = crate::names::parent_of(&self.0[at].member.name);
        self.0.iter().any(|branch| !branch.is_sent && Some(branch.member.name.as_str()) == parent)
    }

    /// Returns the dataset that has the origin of another dataset, and the index of the origin
    /// among its snapshots.
    fn owner_of_origin(&self, at: usize) -> Option<(usize, usize)> {
        let (origin, _) = self.0[at].origin.as_ref()?;
        self.0.iter().enumerate().find_map(|(owner, branch)| Some((owner, branch.place_of(origin)?)))
    }

    fn waits_for_origin(&self, at: usize) -> bool {
        self.owner_of_origin(at).is_some_and(|(owner, _)| !self.0[owner].is_sent)
    }

    fn unsent(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|&at| !self.0[at].is_sent)
    }

    /// Sends a dataset with the snapshots up to its origin. The former owner of the origin is then
    /// sent as a clone of it.
    fn take_over_from_origin(&mut self, at: usize) -> Result<(), PackageError> {
        let Some((owner, place)) = self.owner_of_origin(at) else { return Ok(()) };
        let taken: Vec<_> = self.0[owner].kept.drain(..=place).collect();
        if let Some(twice) = taken.iter().find(|kept| self.0[at].has(kept.last)) {
            let dataset = self.0[at].member.name.clone();
            return Err(PackageError::NameTaken { dataset, snap: twice.last.to_owned() });
        }
        let origin = self.0[at].origin.take();
        self.0[at].origin = std::mem::replace(&mut self.0[owner].origin, origin);
        self.0[at].kept.splice(..0, taken);
        Ok(())
    }

    /// Sends a dataset that the receiver has in the receiver's state: with the snapshots that a
    /// clone has taken over since then. The receiver does not have the clone, which is sent as a
    /// clone.
    fn as_received(&mut self, from: &str) -> Result<(), PackageError> {
        for at in 0..self.0.len() {
            while self.0[at].has(from)
                && let Some((owner, _)) = self.owner_of_origin(at)
                && !self.0[owner].has(from)
            {
                self.take_over_from_origin(at)?;
            }
        }
        Ok(())
    }

    /// Returns the indices of the datasets in the order of sending. `from` is the part after the
    /// `@` of the snapshot that the receiver has.
    fn order(&mut self, from: Option<&str>) -> Result<Vec<usize>, PackageError> {
        let mut order = Vec::new();
        from.map_or(Ok(()), |from| self.as_received(from))?;
        loop {
            let before = order.len();
            for at in 0..self.0.len() {
                if !self.0[at].is_sent && !self.waits_for_parent(at) && !self.waits_for_origin(at) {
                    self.0[at].is_sent = true;
                    order.push(at);
                }
            }
            if order.len() > before {
                continue;
            }
            // A dataset that the receiver already has need not wait.
            let there = self.unsent().find(|&at| from.is_some_and(|from| self.0[at].has(from)));
            if let Some(at) = there {
                self.0[at].is_sent = true;
                order.push(at);
                continue;
            }
            let stuck = self.unsent().find(|&at| !self.waits_for_parent(at));
            let Some(at) = stuck else { return Ok(order) };
            self.take_over_from_origin(at)?;
        }
    }

    /// Returns the full name in the streams of a local snapshot.
    fn sent_as(&self, snapshot: &str) -> String {
        let owner = self.0.iter().find_map(|branch| Some((branch, branch.place_of(snapshot)?)));
        owner.map_or_else(
            || snapshot.to_owned(),
            |(branch, place)| format!("{}@{}", branch.member.name, branch.kept[place].last),
        )
    }
}

impl Package {
    /// Returns the streams in order. With `all`, the snapshots between the first and the last have
    /// streams too.
    ///
    /// # Errors
    /// When a dataset cannot be sent.
    pub fn streams(&self, all: bool) -> Result<Vec<PackageStream>, PackageError> {
        let mut branches = Branches(self.members.iter().map(Branch::of).collect());
        let order = branches.order(self.fromsnap.as_deref())?;
        let mut streams = Vec::new();
        for &at in &order {
            streams.extend(self.streams_of(&branches, &branches.0[at], all)?);
        }
        let is_sent = |at: &usize| order.contains(at) || self.members[*at].is_left_out;
        match (0..self.members.len()).find(|at| !is_sent(at)) {
            Some(at) => Err(PackageError::LeftOut { dataset: self.members[at].name.clone() }),
            None if streams.is_empty() => Err(PackageError::Empty),
            None => Ok(streams),
        }
    }

    fn streams_of(
        &self,
        branches: &Branches<'_>,
        branch: &Branch<'_>,
        all: bool,
    ) -> Result<Vec<PackageStream>, PackageError> {
        let from = self.fromsnap.as_deref();
        let from = branch.kept.iter().position(|kept| Some(kept.last) == from);
        let is_origin = |name: &str| {
            branches.0.iter().any(|other| other.origin.as_ref().is_some_and(|(of, _)| of == name))
        };
        let mut before = match from {
            Some(at) => Some((branch.kept[at].full(), branch.kept[at].guid)),
            None => branch.origin.clone(),
        };
        let mut streams: Vec<PackageStream> = Vec::new();
        for kept in &branch.kept[from.map_or(0, |at| at + 1)..] {
            let (snapshot, is_last) = (kept.full(), kept.last == self.tosnap);
            if all || is_last || is_origin(&snapshot) {
                let sent_as = format!("{}@{}", branch.member.name, kept.last);
                let from = before.replace((snapshot.clone(), kept.guid));
                let head = |name: &str| crate::names::head_of(name).to_owned();
                let is_of_clone = from
                    .as_ref()
                    .is_some_and(|(from, _)| head(&branches.sent_as(from)) != branch.member.name);
                streams.push(PackageStream { snapshot, sent_as, guid: kept.guid, from, is_of_clone });
            }
            if is_last {
                return Ok(streams);
            }
        }
        Err(PackageError::LeftOut { dataset: branch.member.name.clone() })
    }
}

#[cfg(test)]
mod tests;
