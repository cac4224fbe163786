//! Unmounts datasets while something below them changes, and mounts them again.
//!
//! ```text
//!  mounted ─ take: the last mounted first ─► taken ─ the change ─► mounted at their present places
//!     ▲          │ one is in use               │ fails                │ one cannot be mounted
//!     └──────────┴────────── put back ─────────┴───── undone ─────────┘
//! ```
//! Invariants
//! - A change that fails leaves the same mounts at the same places, with the same options.
//!   (test: `what_is_refused_has_changed_nothing`)
//! - No dataset is mounted over mounts below its mount point.
//!   (test: `a_parent_is_never_mounted_over_its_child`)

use crate::front::UnmountReach;
use crate::mount_options::Given;
use crate::mounts::Entry;
use crate::turns::Turn;
use crate::{Held, Holder, names};
use control::{Failure, FailureKind};
use std::path::Path;
use std::sync::Arc;

/// A mount that was taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenMount {
    /// The name of the dataset.
    pub dataset: String,
    /// Its former mount point.
    pub mountpoint: String,
    /// The options of the former mount.
    pub given: Given,
    /// The dataset is to be mounted at another place than before, so that its property `overlay`
    /// counts there.
    pub is_moved: bool,
}

/// Mounts that were taken away so that another dataset can be mounted above them, and the turns of
/// their pools.
pub struct Lifted {
    /// The mounts.
    pub taken: Vec<TakenMount>,
    _turns: Vec<(String, Turn)>,
}

/// The places at which datasets that were taken away are mounted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountPlaces {
    /// The places of the mounts that were taken away.
    Former,
    /// The places of the present properties.
    Present,
}

impl TakenMount {
    fn of(entry: &Entry) -> Self {
        let (dataset, mountpoint) = (entry.dataset(), entry.mountpoint.clone());
        Self { dataset, mountpoint, given: entry.given, is_moved: false }
    }

    /// Returns this mount with its name after `old` was renamed to `new`.
    pub fn renamed(&self, old: &str, new: &str) -> Self {
        let is_below = names::is_within(&self.dataset, old);
        let dataset =
            if is_below { format!("{new}{}", &self.dataset[old.len()..]) } else { self.dataset.clone() };
        Self { dataset, ..self.clone() }
    }
}

impl Holder {
    /// Unmounts all of these entries, or none of them.
    pub(super) async fn take(
        &self,
        those: &[Arc<Entry>],
        reach: UnmountReach,
    ) -> Result<Vec<TakenMount>, Failure> {
        let mut taken: Vec<TakenMount> = Vec::new();
        for entry in those.iter().rev() {
            let one = TakenMount::of(entry);
            if let Err(in_use) = self.mounts.unmount_entry(entry, reach) {
                return Err(self.put_back_after(&taken, in_use).await);
            }
            taken.insert(0, one);
        }
        Ok(taken)
    }

    /// Mounts the datasets at their former places, with the options of their former mounts. Returns
    /// the first failure.
    pub(super) async fn put_back(&self, taken: &[TakenMount]) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for one in taken {
            let mounted = match self.pool_of(&one.dataset) {
                Ok(held) => self.show_again(&held, one).await,
                Err(failure) => Err(failure),
            };
            outcome = outcome.and(mounted);
        }
        outcome
    }

    /// As [`Self::put_back`], for the datasets that still exist.
    pub(super) async fn put_back_what_is_there(
        &self,
        held: &Held,
        taken: &[TakenMount],
    ) -> Result<(), Failure> {
        let mut there = Vec::new();
        for one in taken {
            if held.pool.dsl().resolve(&one.dataset).await.is_ok() {
                there.push(one.clone());
            }
        }
        self.put_back(&there).await
    }

    /// As [`Self::put_back`], after a failure. Returns that failure, together with the failures of
    /// the mounts.
    pub(super) async fn put_back_after(&self, taken: &[TakenMount], failure: Failure) -> Failure {
        match self.put_back(taken).await {
            Ok(()) => failure,
            Err(lost) => lost.stderr.into_iter().fold(failure, Failure::and),
        }
    }

    /// Mounts the datasets at these places. If one cannot be mounted, none is.
    pub(super) async fn mount_taken(
        &self,
        held: &Held,
        taken: &[TakenMount],
        places: MountPlaces,
    ) -> Result<(), Failure> {
        let mut coming = Vec::new();
        for one in taken {
            match places {
                MountPlaces::Former => coming.push(one.clone()),
                MountPlaces::Present => {
                    coming.extend(self.at_present_place(held, &one.dataset, Some(one)).await?);
                }
            }
        }
        coming.sort_by(|a, b| Path::new(&a.mountpoint).cmp(Path::new(&b.mountpoint)));
        let mut mounted = Vec::new();
        for one in &coming {
            if let Err(failure) = self.show_below_none(held, one).await {
                let unmount = |entry| _ = self.mounts.unmount_entry(&entry, UnmountReach::ByForce);
                mounted.into_iter().rev().for_each(unmount);
                return Err(failure);
            }
            mounted.extend(self.mounts.entry_of(&one.dataset));
        }
        Ok(())
    }

    /// Mounts a dataset, and the datasets below whose mount points are inherited, if their
    /// properties ask for a mount and they are not mounted. A dataset that cannot be mounted stays
    /// unmounted, and the log has the reason, as with OpenZFS.
    pub(super) async fn mount_others(&self, held: &Held, root: &str) -> Result<(), Failure> {
        for dataset in self.due_at_place_of(held, root).await? {
            let Some(one) = self.at_present_place(held, &dataset, None).await? else { continue };
            if let Err(failure) = self.show_below_none(held, &one).await {
                tracing::warn!(dataset, %failure, "stays unmounted");
            }
        }
        Ok(())
    }

    /// The mount of a dataset at the place of its properties; `None` if they forbid a mount.
    async fn at_present_place(
        &self,
        held: &Held,
        dataset: &str,
        former: Option<&TakenMount>,
    ) -> Result<Option<TakenMount>, Failure> {
        let place = self.place_again(&self.dataset_info(held, dataset).await?, former);
        let given = former.map(|former| former.given).unwrap_or_default();
        Ok(place.map(|mountpoint| {
            let is_moved = former.is_none_or(|former| former.mountpoint != mountpoint);
            TakenMount { dataset: dataset.to_owned(), mountpoint, given, is_moved }
        }))
    }

    async fn show_below_none(&self, held: &Held, one: &TakenMount) -> Result<(), Failure> {
        let lifted = self.lift(&one.dataset, &one.mountpoint).await?;
        let mounted = self.show_again(held, one).await;
        mounted.and(self.put_back(&lifted.taken).await)
    }

    /// Takes away the mounts below a place that a mount there would hide. Mounts of another pool
    /// are taken away only if no other command has the turn of that pool. The result holds that
    /// turn.
    pub(super) async fn lift(&self, dataset: &str, mountpoint: &str) -> Result<Lifted, Failure> {
        let place = Path::new(mountpoint);
        let is_below = |entry: &Arc<Entry>| {
            let path = Path::new(&entry.mountpoint);
            path.starts_with(place) && path != place
        };
        let those: Vec<_> = self.mounts.entries().into_iter().filter(is_below).collect();
        let mut turns = Vec::new();
        for entry in &those {
            let of = entry.dataset();
            let pool = names::pool_of(&of).to_owned();
            if pool == names::pool_of(dataset) || turns.iter().any(|(name, _)| *name == pool) {
                continue;
            }
            let turn = self.turns.try_of(&pool, "mount below another pool's");
            let turn = turn.ok_or_else(|| hides(dataset, &entry.mountpoint, "whose pool is busy"))?;
            turns.push((pool, turn));
        }
        match self.take(&those, UnmountReach::Everywhere).await {
            Ok(taken) => Ok(Lifted { taken, _turns: turns }),
            Err(in_use) => {
                let refused = hides(dataset, mountpoint, "which is in use");
                Err(in_use.stderr.into_iter().fold(refused, Failure::and))
            }
        }
    }

    /// Returns the mounts that a change of the mount point of `root` moves: its own mount, the
    /// mounts of the datasets below it that inherit its mount point `place`, and other mounts of
    /// its pool in directories of these.
    pub(super) fn moved_with(&self, root: &str, place: Option<&str>) -> Vec<Arc<Entry>> {
        self.with_what_is_inside(root, |entry| {
            let dataset = entry.dataset();
            let rest = if names::is_within(&dataset, root) { dataset.strip_prefix(root) } else { None };
            dataset == root || rest.zip(place).is_some_and(|(rest, p)| is_joined(&entry.mountpoint, p, rest))
        })
    }

    /// Returns the mounts of a dataset and of the datasets below it, and other mounts of its pool
    /// in directories of these.
    pub(super) fn named_below(&self, root: &str) -> Vec<Arc<Entry>> {
        self.with_what_is_inside(root, |entry| names::is_within(&entry.dataset(), root))
    }

    /// Returns the mounts that `meant` selects, and the mounts of the pool of `root` in directories
    /// of these, in the order of mounting.
    pub(super) fn with_what_is_inside(&self, root: &str, meant: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        let entries = self.mounts.entries();
        let meant: Vec<_> = entries.iter().filter(|entry| meant(entry)).cloned().collect();
        let is_in_one = |entry: &&Arc<Entry>| {
            let is_ours = names::pool_of(&entry.dataset()) == names::pool_of(root);
            is_ours && meant.iter().any(|one| Path::new(&entry.mountpoint).starts_with(&one.mountpoint))
        };
        entries.iter().filter(is_in_one).cloned().collect()
    }
}

/// True if a mount point is `place` joined with `rest`, the end of the name of a dataset.
pub fn is_joined(mountpoint: &str, place: &str, rest: &str) -> bool {
    Path::new(mountpoint) == Path::new(place).join(rest.trim_start_matches('/'))
}

fn hides(dataset: &str, mountpoint: &str, why: &str) -> Failure {
    let reason = format!("it would hide what is mounted below '{mountpoint}', {why}");
    Failure::cannot(FailureKind::Busy, "mount", dataset, &reason)
}
