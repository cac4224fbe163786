//! Scrub, clear and checkpoint, and what they leave to tell.

use crate::attach::{IS_SPARE, Meant, meant};
use crate::{Held, Holder, refusal};
use control::{
    ErrorScrubInfo, Failure, FailureKind, PoolCheckpoint, PoolClear, PoolInfo, PoolPrefetch, PoolScrub,
    RemovalInfo, ScanFunction, ScanInfo, ScanState, ScrubHow, SharedTable,
};
use env::boxed;
use ondisk::dsl::scan::{func, state};
use ondisk::indirect::RemovingPhys;
use pool::{DamagedObject, ErrorScrubReport, EvacuationReport, PoolError, ScanReport};
use std::collections::{BTreeMap, BTreeSet};
use units::{Guid, VdevId};
use vdev::Leaf;

impl Holder {
    pub(super) async fn scrub(&self, call: PoolScrub) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let (verb, done) = match call.how {
            ScrubHow::Start => ("scrub", held.pool.scrub().await),
            ScrubHow::StartSinceLast => ("scrub", held.pool.scrub_since_last().await),
            ScrubHow::StartErrors => ("scrub", held.pool.scrub_errors().await),
            ScrubHow::Resilver => ("restart resilver", held.pool.resilver().await),
            ScrubHow::Pause => ("pause scrubbing", held.pool.pause_scrub().await),
            ScrubHow::Stop => ("cancel scrubbing", held.pool.cancel_scrub().await),
        };
        match done {
            // These messages have no quotes.
            Err(error) => {
                let reason = refusal::reason(&error);
                Err(Failure::new(FailureKind::Busy, format!("cannot {verb} {}: {reason}", call.pool)))
            }
            Ok(()) => {
                tracing::info!(pool = call.pool, "{verb}");
                Ok(())
            }
        }
    }

    /// Reads tables of shared blocks ahead.
    pub(super) async fn prefetch(&self, call: PoolPrefetch) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let done = match call.table {
            SharedTable::Ddt => held.pool.prefetch_ddt().await,
            SharedTable::Brt => held.pool.prefetch_brt().await,
        };
        done.map_err(|error| refusal::pool("prefetch", &call.pool, &error))
    }

    /// Keeps the pool's state, or begins to give up the one that is kept.
    pub(super) async fn checkpoint(&self, call: PoolCheckpoint) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let (verb, done) = match call.discard {
            false => ("checkpoint", held.pool.make_checkpoint().await),
            true => ("discard checkpoint in", held.pool.discard_checkpoint().await),
        };
        done.map_err(|error| refusal::pool(verb, &call.pool, &error))?;
        tracing::info!(pool = call.pool, "{verb}");
        Ok(())
    }

    /// Counters back to zero; devices that failed are tried again, and what waits for them.
    pub(super) async fn clear(&self, call: PoolClear) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        // These messages have no quotes.
        let refuse = |reason: &str| {
            let line = format!("cannot clear errors for {}: {reason}", call.pool);
            Err(Failure::new(FailureKind::Unavailable, line))
        };
        if held.pool.stopped().is_some() {
            return refuse("the pool has stopped; run 'zpool export -f' and import it again");
        }
        if held.pool.is_read_only() {
            return refuse("pool is read-only");
        }
        if call.vdev.is_some_and(|guid| matches!(meant(&held, Guid::new(guid)), Meant::Spare)) {
            let line = format!("cannot clear errors for {}: {IS_SPARE}", call.device);
            return Err(Failure::new(FailureKind::Invalid, line));
        }
        let is_meant = |guid: Guid| call.vdev.is_none_or(|wanted| wanted == guid.get());
        let tops = held.pool.vdevs().tops().into_iter().filter(|top| is_meant(top.guid()));
        let whole: BTreeSet<VdevId> =
            tops.inspect(|top| top.stats().clear_errors()).map(|top| top.id()).collect();
        let is_leaf_meant = |leaf: &Leaf| whole.contains(&leaf.vdev()) || is_meant(leaf.guid());
        match held.pool.clear(&is_leaf_meant).await {
            Ok(()) => Ok(()),
            Err(PoolError::ActiveElsewhere { .. }) => refuse("pool is imported on a different host"),
            Err(error) => refuse(&refusal::reason(&error)),
        }
    }
}

/// What is told of a pool's scan, of a removal, and of its damage.
#[boxed]
pub async fn put(info: &mut PoolInfo, held: &Held, mounted: &BTreeMap<String, String>, now_secs: u64) {
    info.removal = held.pool.evacuation().and_then(|report| removal_info(&report, now_secs));
    info.scan = held.pool.scan().and_then(|report| scan_info(&report, now_secs));
    info.error_scrub = held.pool.error_scrub().and_then(|report| error_scrub_info(&report));
    let damaged = held.pool.damaged_objects().await;
    info.error_count = held.pool.data_errors().await.len() as u64;
    info.error_files = damaged.iter().map(|object| name_of(object, mounted)).collect();
}

fn removal_info(report: &EvacuationReport, now_secs: u64) -> Option<RemovalInfo> {
    let phys = &report.phys;
    let state = match phys.state.get() {
        RemovingPhys::UNDER_WAY => ScanState::Scanning,
        RemovingPhys::FINISHED => ScanState::Finished,
        RemovingPhys::CANCELED => ScanState::Canceled,
        _ => return None,
    };
    Some(RemovalInfo {
        vdev: phys.vdev.get(),
        state,
        start_secs: phys.start_secs.get(),
        end_secs: phys.end_secs.get(),
        elapsed_secs: now_secs.saturating_sub(phys.start_secs.get()),
        to_copy_bytes: phys.to_copy.get(),
        copied_bytes: phys.copied.get(),
        mapping_bytes: report.mapping_bytes,
    })
}

fn scan_info(report: &ScanReport, now_secs: u64) -> Option<ScanInfo> {
    let phys = &report.phys;
    let function = match phys.func.get() {
        func::SCRUB => ScanFunction::Scrub,
        func::RESILVER => ScanFunction::Resilver,
        _ => return None,
    };
    let state = match phys.state.get() {
        state::SCANNING => ScanState::Scanning,
        state::FINISHED => ScanState::Finished,
        state::CANCELED => ScanState::Canceled,
        _ => return None,
    };
    Some(ScanInfo {
        function,
        state,
        start_secs: phys.start_time.get(),
        end_secs: phys.end_time.get(),
        repaired_bytes: phys.processed.get(),
        errors: phys.errors.get(),
        issued_bytes: phys.examined.get(),
        total_bytes: phys.to_examine.get().saturating_sub(phys.skipped.get()),
        paused_secs: report.paused_at,
        pass_bytes: report.pass.examined,
        pass_start_secs: report.pass.start,
        pass_secs: now_secs.saturating_sub(report.pass.start),
    })
}

fn error_scrub_info(report: &ErrorScrubReport) -> Option<ErrorScrubInfo> {
    let phys = &report.phys;
    let state = match phys.state.get() {
        state::ERROR_SCRUBBING => ScanState::Scanning,
        state::FINISHED => ScanState::Finished,
        state::CANCELED => ScanState::Canceled,
        _ => return None,
    };
    Some(ErrorScrubInfo {
        state,
        start_secs: phys.start_time.get(),
        end_secs: phys.end_time.get(),
        paused_secs: report.paused_at,
        examined_blocks: phys.examined.get(),
        left_blocks: phys.to_examine.get(),
    })
}

/// As `zpool status -v` names a damaged object: a full path where it is mounted.
fn name_of(damaged: &DamagedObject, mounted: &BTreeMap<String, String>) -> String {
    let object = damaged.object.get();
    match (&damaged.dataset, &damaged.path) {
        _ if damaged.objset == units::ObjsetId::MOS => format!("<metadata>:<0x{object:x}>"),
        (None, _) => format!("<0x{:x}>:<0x{object:x}>", damaged.objset.get()),
        (Some(dataset), None) => format!("{dataset}:<0x{object:x}>"),
        (Some(dataset), Some(path)) => match mounted.get(dataset) {
            Some(place) => format!("{}{path}", place.trim_end_matches('/')),
            None => format!("{dataset}:{path}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{ObjectId, ObjsetId};

    #[test]
    fn damaged_objects_are_named_as_far_as_they_are_known() {
        let mounted = BTreeMap::from([("p/m".to_owned(), "/mnt/m".to_owned())]);
        let name = |objset, dataset: Option<&str>, path: Option<&str>| {
            let (dataset, path) = (dataset.map(str::to_owned), path.map(str::to_owned));
            let objset = ObjsetId::new(objset);
            name_of(&DamagedObject { objset, object: ObjectId::new(0x1f), dataset, path }, &mounted)
        };
        assert_eq!(name(0, None, None), "<metadata>:<0x1f>");
        assert_eq!(name(0x36, None, None), "<0x36>:<0x1f>");
        assert_eq!(name(0x36, Some("p"), None), "p:<0x1f>");
        assert_eq!(name(0x36, Some("p"), Some("/a/b")), "p:/a/b");
        assert_eq!(name(0x36, Some("p/m"), Some("/a/b")), "/mnt/m/a/b");
    }
}
