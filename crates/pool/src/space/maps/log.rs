//! Logs of space maps: one map for all metaslabs and vdevs in each txg.
//!
//! A txg changes a few bytes in a great many metaslabs. Writing each one's own map costs some
//! blocks for each; one log costs a block or two. So a txg writes all its changes to a log of
//! its own, and brings the own maps of a few metaslabs, in turn, up to date ("flushes" them).
//!
//! ```text
//!  MOS directory ─ "com.delphix:log_spacemap_zap" ─► txg ─► log: entries that name vdevs
//!  a vdev's ZAP  ─ "com.delphix:ms_unflushed_phys_txgs" ─► for each metaslab: `since`, a txg
//!
//!  truth of a metaslab = its own map + its entries in the logs of `since` and all later txgs
//! ```
//! 0 says that no log counts. A flush in txg *t* brings a map up to the end of *t* − 1, for it
//! comes first in the txg: `since` becomes *t*. Logs older than every `since` go. A metaslab of
//! which the logs say nothing new is moved on without a flush.
//!
//! Invariants
//! - There is a log for every txg that is some metaslab's `since`. (OpenZFS refuses the pool otherwise.)
//! - Each metaslab is flushed within [`ROUND_TXGS`] txgs after its first change: so
//!   many logs are kept at most, and so much is in memory and read at import.
//!   (test: `logs_are_few_and_an_export_leaves_hardly_any`)
//! - The log entries of a metaslab whose own map is lost are carried over from log to log.
//! - At any crash, own maps and logs tell the truth. (tests: `crash`, all shapes)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dmu::Dnode;
use dmu::zap::{Zap, ZapSpec, int_name};
use dsl::features::LOG_SPACEMAP;
use env::boxed;
use metaslab::{Changes, Unflushed};
use ondisk::ObjectType;
use ondisk::mos::directory::LOG_SPACEMAP_ZAP;
use units::{Ashift, ObjectId, Txg, VdevId};

use super::object::{self, Region};
use super::{At, Place, SpaceMaps};
use crate::PoolError;

/// Txgs in which every metaslab that changes is flushed once.
const ROUND_TXGS: usize = 32;
/// Runs in memory from which on more is flushed in each txg.
const RUNS_MAX: usize = 1 << 20;
/// Data block of a log.
const LOG_BLOCK_BYTES: u32 = 1 << ondisk::space_map::SPACE_MAP_BLOCK_SHIFT;
/// Units of entries in logs, whatever the sectors of the vdev: 512 bytes.
const LOG_SHIFT: Ashift = Ashift::new(9);

/// A metaslab of which logs may have something to say.
#[derive(Default)]
struct Tracked {
    since: Txg,
    /// The newest txg whose log has something of it.
    logged: Txg,
    unflushed: Unflushed,
}

/// The logs there are, and what they say that own maps do not.
#[derive(Default)]
pub(super) struct Logs {
    by_txg: BTreeMap<Txg, ObjectId>,
    metaslabs: BTreeMap<Place, Tracked>,
    /// The same metaslabs, those longest not flushed first.
    order: BTreeSet<(Txg, Place)>,
}

impl Logs {
    /// What is not in a metaslab's own map.
    pub fn unflushed(&self, place: Place) -> Option<&Unflushed> {
        self.metaslabs.get(&place).map(|tracked| &tracked.unflushed)
    }

    /// Takes up a metaslab as the vdev's ZAP tells of it.
    pub fn track(&mut self, place: Place, since: Txg) {
        if let Some(before) = self.metaslabs.get(&place) {
            self.order.remove(&(before.since, place));
        }
        self.order.insert((since, place));
        self.metaslabs.entry(place).or_default().since = since;
    }

    /// Forgets the metaslabs of a vdev that is removed.
    pub fn forget(&mut self, vdev: VdevId) {
        self.metaslabs.retain(|place, _| place.0 != vdev);
        self.order.retain(|(_, place)| place.0 != vdev);
    }

    /// Reads all logs; every metaslab is tracked already.
    #[boxed]
    pub async fn read(&mut self, dsl: &dsl::Dsl, maps: &SpaceMaps) -> Result<(), PoolError> {
        let Some(zap) = log_zap(dsl).await? else { return Ok(()) };
        for entry in zap.all().await? {
            let name = std::str::from_utf8(&entry.name).ok();
            let txg = name.and_then(|name| u64::from_str_radix(name, 16).ok());
            let (Some(txg), Some(log)) = (txg, entry.value.as_u64()) else {
                return Err(damaged(zap.object(), "a log of space maps under no number"));
            };
            self.by_txg.insert(Txg::new(txg), ObjectId::new(log));
        }
        if let Some((since, _)) = self.order.iter().find(|(since, _)| !self.by_txg.contains_key(since)) {
            return Err(damaged(zap.object(), &format!("no log of space maps for txg {since}")));
        }
        for (txg, log) in self.by_txg.clone() {
            let dnode = dsl.mos().hold(log).await?;
            self.replay(txg, &dnode, maps).await?;
        }
        Ok(())
    }

    async fn replay(&mut self, txg: Txg, log: &Dnode, maps: &SpaceMaps) -> Result<(), PoolError> {
        let region = Region { start: 0, ashift: LOG_SHIFT, named: None };
        for run in object::read(log).await? {
            let change = region.change(&run).zip(run.vdev);
            let Some((change, vdev)) = change else {
                return Err(damaged(log.object(), "an entry without vdev or out of range"));
            };
            // Vdevs that are gone have left their entries behind.
            let Some(metaslab) = maps.metaslab_at(vdev, change.offset) else { continue };
            let tracked = self.metaslabs.get_mut(&(vdev, metaslab)).filter(|tracked| tracked.since <= txg);
            if let Some(tracked) = tracked
                && !tracked.unflushed.apply(&change)
            {
                return Err(damaged(log.object(), "entries contradict each other"));
            }
        }
        Ok(())
    }

    /// Writes what the txg changed to its log.
    #[boxed]
    pub async fn append(
        &mut self,
        at: &At<'_>,
        maps: &SpaceMaps,
        changes: &Changes,
    ) -> Result<(), PoolError> {
        let log = self.log_of(at).await?;
        let mut allocated_bytes = 0;
        for (&place, changes) in changes {
            self.enter(at, maps, place).await?;
            let tracked = self.metaslabs.get_mut(&place).expect("entered just now");
            let before = tracked.unflushed.allocated_bytes();
            for change in changes {
                if !tracked.unflushed.apply(change) {
                    let what = format!("{change:?} of {place:?} contradicts the logs");
                    return Err(damaged(log.object(), &what));
                }
            }
            tracked.logged = at.tx.txg();
            allocated_bytes += tracked.unflushed.allocated_bytes() - before;
        }
        let mut runs = Vec::new();
        for (&(vdev, _), changes) in changes {
            let region = Region { start: 0, ashift: LOG_SHIFT, named: Some(vdev) };
            runs.extend(changes.iter().map(|change| region.run(change)));
        }
        object::append_runs(at.tx, &log, &runs, true, allocated_bytes).await
    }

    /// From this txg on the metaslab has something in the logs, if it had nothing before. One of
    /// which this txg's log tells already is left as it is, though the logs' entries may have come to
    /// nothing by now: half of those may be in an older log.
    /// (test: `changes_that_cancel_out_in_one_pass_leave_older_logs_in_use_for_the_next`)
    async fn enter(&mut self, at: &At<'_>, maps: &SpaceMaps, place: Place) -> Result<(), PoolError> {
        let txg = at.tx.txg();
        let has_nothing =
            |tracked: &Tracked| tracked.unflushed.is_empty() && tracked.since != txg && tracked.logged != txg;
        if self.metaslabs.get(&place).is_none_or(has_nothing) {
            self.track(place, txg);
            maps.set_unflushed_since(at, place).await?;
        }
        Ok(())
    }

    /// Brings the own maps of some metaslabs up to date, or of all; then drops the logs that
    /// nobody needs any more. To be done before the txg's own changes are taken.
    #[boxed]
    pub async fn flush(&mut self, at: &At<'_>, maps: &SpaceMaps, all: bool) -> Result<(), PoolError> {
        let txg = at.tx.txg();
        let mut budget = if all { usize::MAX } else { self.share_of_a_group() };
        while let Some(&(since, place)) = self.order.first() {
            if since == txg || budget == 0 {
                break;
            }
            if maps.is_sealed(place) {
                self.carry_over(at, place).await?;
                maps.set_unflushed_since(at, place).await?;
                budget -= 1;
                continue;
            }
            let tracked = self.metaslabs.get_mut(&place).expect("the order is of those tracked");
            let unflushed = std::mem::take(&mut tracked.unflushed);
            if !unflushed.is_empty() {
                maps.append(at, place, &unflushed.changes().collect::<Vec<_>>()).await?;
                budget -= 1;
            }
            self.track(place, txg);
            maps.set_unflushed_since(at, place).await?;
        }
        self.drop_old(at).await
    }

    /// Copies the entries of a metaslab from older logs to the log of this txg. The metaslab's own
    /// map is lost, and cannot be brought up to date.
    async fn carry_over(&mut self, at: &At<'_>, place: Place) -> Result<(), PoolError> {
        let log = self.log_of(at).await?;
        let tracked = self.metaslabs.get_mut(&place).expect("the order is of those tracked");
        let region = Region { start: 0, ashift: LOG_SHIFT, named: Some(place.0) };
        let runs: Vec<_> = tracked.unflushed.changes().map(|change| region.run(&change)).collect();
        let allocated_bytes = tracked.unflushed.allocated_bytes();
        tracked.logged = at.tx.txg();
        self.track(place, at.tx.txg());
        object::append_runs(at.tx, &log, &runs, true, allocated_bytes).await
    }

    fn share_of_a_group(&self) -> usize {
        let dirty = self.metaslabs.values().filter(|tracked| !tracked.unflushed.is_empty());
        let (count, runs) = dirty.fold((0, 0), |(count, runs): (usize, usize), tracked| {
            (count + 1, runs + tracked.unflushed.runs())
        });
        let rounds = if runs > RUNS_MAX { ROUND_TXGS / 8 } else { ROUND_TXGS };
        count.div_ceil(rounds).max(1)
    }

    async fn drop_old(&mut self, at: &At<'_>) -> Result<(), PoolError> {
        // A metaslab just flushed needs the log of this txg, though that may stay empty.
        if self.order.iter().next_back().is_some_and(|&(since, _)| since == at.tx.txg()) {
            self.log_of(at).await?;
        }
        let Some(&(oldest, _)) = self.order.first() else { return Ok(()) };
        let kept = self.by_txg.split_off(&oldest);
        let old = std::mem::replace(&mut self.by_txg, kept);
        if old.is_empty() {
            return Ok(());
        }
        let zap = log_zap(at.dsl).await?.expect("there are logs");
        for (txg, log) in old {
            object::remove(at.dsl, at.tx, log).await?;
            zap.remove(at.tx, int_name(txg.get()).as_bytes()).await?;
        }
        Ok(())
    }

    /// The log of the txg, made if need be.
    async fn log_of(&mut self, at: &At<'_>) -> Result<Arc<Dnode>, PoolError> {
        let txg = at.tx.txg();
        if let Some(&log) = self.by_txg.get(&txg) {
            return Ok(at.dsl.mos().hold(log).await?);
        }
        let log = object::create(at.dsl, at.tx, LOG_BLOCK_BYTES).await?;
        let zap = match log_zap(at.dsl).await? {
            Some(zap) => zap,
            None => create_log_zap(at).await?,
        };
        zap.add_u64(at.tx, int_name(txg.get()).as_bytes(), log.object().get()).await?;
        self.by_txg.insert(txg, log.object());
        Ok(log)
    }
}

async fn log_zap(dsl: &dsl::Dsl) -> Result<Option<Zap>, PoolError> {
    match dsl.directory().lookup_u64(LOG_SPACEMAP_ZAP.as_bytes()).await? {
        Some(object) => Ok(Some(Zap::hold(dsl.mos(), ObjectId::new(object)).await?)),
        None => Ok(None),
    }
}

async fn create_log_zap(at: &At<'_>) -> Result<Zap, PoolError> {
    let zap = Zap::create(at.dsl.mos(), at.tx, &ZapSpec::new(ObjectType::OTN_ZAP_METADATA)).await?;
    at.dsl.directory().add_u64(at.tx, LOG_SPACEMAP_ZAP.as_bytes(), zap.object().get()).await?;
    at.dsl.count_feature(at.tx, &LOG_SPACEMAP, 1).await?;
    Ok(zap)
}

fn damaged(object: ObjectId, what: &str) -> PoolError {
    PoolError::Damaged { object, what: what.into() }
}

#[cfg(test)]
mod tests;
