//! Room on log vdevs that nobody holds: a crash can leave such, and an import gives it back.
//!
//! ```text
//!  allocated on a log vdev    ▓▓▓▓▓░░▓▓▓▓▓▓░░▓▓
//!  held by claimed logs       ▓▓    ░▓▓    ░░▓▓
//!  freed in the first txg       ▓▓▓     ▓▓▓▓
//! ```
//! A log block is allocated before the block that names it is written. If that write fails, and the power goes
//! when the allocation is stable and the chain is not yet given back, no log leads to the block any more.
//! In the main pool it is one of many, and lost. On log vdevs there is nothing but blocks of logs, so that
//! whatever no log holds is nobody's.
//!
//! That needs every log to be known to its end. Nothing is freed, and another import may do it, when
//! - the import does without logs, or a log vdev has no device to read from: chains go on behind what is not there;
//! - a metaslab of a log vdev is out of use because its space map is lost;
//! - a log does not read to the end that an earlier import noted;
//! - the state is a checkpoint, or a checkpoint exists: other states have other logs (a rewind
//!   gives up all other states);
//! - datasets are being destroyed, or hidden ones are there: nobody has looked at their logs;
//! - some log holds what is not allocated: then something here is not as it is believed to be.
//!
//! What the last txg freed is on a list until the next one has freed it in truth. It counts as held.
//!
//! Invariants
//! - After an import, what is allocated on log vdevs is what logs hold.
//!   (test: `what_a_failed_write_left_on_a_log_is_given_back_by_the_next_import`)
//! - What may be somebody's is not freed. (tests: `nothing_is_freed_that_some_log_may_hold`,
//!   `what_is_held_is_left_and_what_does_not_fit_forbids_all`)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use metaslab::{RangeTree, Segment};
use ondisk::{Blkptr, Dva};
use units::{Asize, VdevId, VdevOffset};
use vdev::Top;

use crate::{Pool, PoolError};

/// Where somebody holds room: offset and size.
type Held = BTreeSet<(u64, u64)>;

impl Pool {
    /// Frees on log vdevs what no log holds, once all logs are claimed and before anything is allocated. An import does as
    /// well without.
    pub(crate) async fn free_leaked(self: &Arc<Self>) {
        match self.leaked().await {
            Ok(leaked) if leaked.is_empty() => {}
            Ok(leaked) => self.give_back(&leaked),
            Err(error) => tracing::warn!(%error, "logs are not known to their ends"),
        }
    }

    fn give_back(&self, leaked: &[Dva]) {
        let first = self.gate.open_txg();
        let bytes: u64 = leaked.iter().map(|dva| dva.asize.get()).sum();
        tracing::warn!(bytes, "room on log devices that no log holds is given back");
        self.zio.with_allocator(|allocator| leaked.iter().for_each(|dva| allocator.free(first, dva)));
        // The space maps have to be told though no object changed.
        self.gate.add_dirty(first, 1);
    }

    /// What is allocated on log vdevs and surely nobody's.
    async fn leaked(&self) -> Result<Vec<Dva>, PoolError> {
        let taken = self.taken_on_logs();
        if taken.values().all(Vec::is_empty) || !self.knows_all_logs().await? {
            return Ok(Vec::new());
        }
        let Some(held) = self.held_on(taken.keys()).await? else { return Ok(Vec::new()) };
        let unheld = |(&vdev, runs): (&VdevId, &Vec<Segment>)| {
            let found = unheld(runs, &held[&vdev])?.into_iter();
            Some(found.map(move |run| place_of(vdev, run)).collect::<Vec<_>>())
        };
        let leaked: Option<Vec<_>> = taken.iter().map(unheld).collect();
        if leaked.is_none() {
            tracing::warn!("a log holds what is not allocated");
        }
        Ok(leaked.unwrap_or_default().concat())
    }

    /// What is allocated on each log vdev; no run leaves its metaslab.
    fn taken_on_logs(&self) -> BTreeMap<VdevId, Vec<Segment>> {
        let logs = self.vdevs.tops().into_iter().filter(|top| top.is_log());
        self.zio.with_allocator(|allocator| {
            logs.map(|top| (top.id(), allocator.left_on(top.id(), 0, u64::MAX))).collect()
        })
    }

    /// Whether everything that can hold room on log vdevs has been claimed.
    async fn knows_all_logs(&self) -> Result<bool, PoolError> {
        // A rewind has abandoned the later states, and their logs with them.
        let is_newest = self.gate.open_txg() == self.opened_txg.next() || self.rewound_to.is_some();
        let is_newest = is_newest && self.returned_to.is_none();
        let is_only_state = is_newest && self.check_no_checkpoint().is_ok();
        let mut logs = self.vdevs.tops().into_iter().filter(|top| top.is_log());
        let is_sealed = |vdev| self.zio.with_allocator(|allocator| allocator.has_sealed(vdev));
        let is_known = |top: &Top| top.is_usable() && top.config().leaving.is_none() && !is_sealed(top.id());
        let are_there = logs.all(|top| is_known(&top));
        Ok(is_only_state
            && are_there
            && !self.dsl.has_destroyed().await?
            && !self.dsl.has_temporary(&self.name()).await?)
    }

    /// Where logs hold room on these vdevs, and the list of what the next txg frees; `None` when that is not to be told.
    async fn held_on(
        &self,
        vdevs: impl Iterator<Item = &VdevId>,
    ) -> Result<Option<BTreeMap<VdevId, Held>>, PoolError> {
        let mut places = Vec::new();
        for open in self.with_claimed_logs() {
            let Some(log) = open.take_claimed() else { continue };
            let held = log.held().await;
            open.set_claimed(log);
            places.extend(held?);
        }
        self.deferred.for_each(&mut |bps| places.extend(bps.iter().flat_map(Blkptr::dvas))).await?;
        let mut held: BTreeMap<VdevId, Held> = vdevs.map(|&vdev| (vdev, Held::new())).collect();
        for dva in places {
            let Some(held) = held.get_mut(&dva.vdev) else { continue };
            // Its size tells of its members, which lie elsewhere.
            if dva.gang {
                return Ok(None);
            }
            held.insert((dva.offset.get(), dva.asize.get()));
        }
        Ok(Some(held))
    }
}

/// What of the allocated `runs` nobody holds; `None` when something is held that is in none of them, or twice.
fn unheld(runs: &[Segment], held: &Held) -> Option<Vec<Segment>> {
    let (mut unheld, mut seen) = (Vec::new(), 0);
    for &run in runs {
        let mut rest = RangeTree::from_iter([run]);
        for &(start, len) in held.range((run.start, 0)..(run.end, 0)) {
            let place = Segment::new(start, len).filter(|&place| rest.covers(place))?;
            rest.remove(place);
            seen += 1;
        }
        unheld.extend(rest.iter());
    }
    (seen == held.len()).then_some(unheld)
}

fn place_of(vdev: VdevId, run: Segment) -> Dva {
    Dva { vdev, offset: VdevOffset::new(run.start), asize: Asize::new(run.len()), gang: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, end: u64) -> Segment {
        Segment { start, end }
    }

    #[test]
    fn what_is_held_is_left_and_what_does_not_fit_forbids_all() {
        let runs = [run(0, 10), run(10, 20), run(30, 40)];
        let left = |held: &[(u64, u64)]| unheld(&runs, &held.iter().copied().collect());
        assert_eq!(left(&[]), Some(runs.to_vec()));
        assert_eq!(left(&[(0, 10), (10, 4), (32, 2)]), Some(vec![run(14, 20), run(30, 32), run(34, 40)]));
        for (held, why) in [
            (&[(20, 4)][..], "free"),
            (&[(18, 4)], "allocated in part"),
            (&[(8, 4)], "in two metaslabs"),
            (&[(0, 4), (2, 4)], "held twice"),
            (&[(0, 4), (0, 6)], "held twice from its start"),
            (&[(0, 0)], "nothing"),
            (&[(4, u64::MAX)], "beyond all"),
        ] {
            assert_eq!(left(held), None, "{why}");
        }
    }
}
