//! Replays are told of in the daemon's log: that they have ended, and of long ones before that how far they are
//! and how long they will go on.

use env::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;
use units::ObjsetId;
use zil::{ReplayProgress, ReplayWatch};

/// A replay under way is told of so often.
const EVERY: Duration = Duration::from_secs(5);

/// Tells of the replays of one pool.
#[derive(Debug, Default)]
pub struct ReplayTeller {
    /// For how long each had gone on when it was last told of.
    told: Mutex<BTreeMap<ObjsetId, Duration>>,
}

impl ReplayTeller {
    /// What is to be told now, if anything.
    fn line(&self, objset: ObjsetId, progress: ReplayProgress) -> Option<String> {
        let mut told = self.told.lock();
        let last = told.entry(objset).or_default();
        // A replay that was tried again begins with nothing.
        *last = if progress.elapsed < *last { Duration::ZERO } else { *last };
        if progress.records == progress.records_total {
            let seconds = progress.elapsed.as_secs_f64();
            return Some(format!("all of {} records replayed in {seconds:.1} s", progress.records));
        }
        if progress.elapsed < *last + EVERY {
            return None;
        }
        *last = progress.elapsed;
        let left = progress.left().map_or(0, |left| left.as_secs());
        Some(format!("{} of {} records replayed, {left} s to go", progress.records, progress.records_total))
    }
}

impl ReplayWatch for ReplayTeller {
    fn replayed(&self, objset: ObjsetId, progress: ReplayProgress) -> BoxFuture<'_, ()> {
        if let Some(line) = self.line(objset, progress) {
            tracing::info!(%objset, "{line}");
        }
        Box::pin(std::future::ready(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_replay_is_told_of_every_few_seconds_and_every_one_at_its_end() {
        let teller = ReplayTeller::default();
        let at = |objset: u64, secs: u64, records: u64| {
            let elapsed = Duration::from_secs(secs);
            let progress =
                ReplayProgress { records, records_total: 1000, elapsed, ..ReplayProgress::default() };
            teller.line(ObjsetId::new(objset), progress)
        };
        assert_eq!(at(54, 0, 1), None);
        assert_eq!(at(54, 4, 150), None);
        assert_eq!(at(54, 6, 200).as_deref(), Some("200 of 1000 records replayed, 24 s to go"));
        assert_eq!(at(54, 7, 210), None);
        assert_eq!(at(60, 8, 500).as_deref(), Some("500 of 1000 records replayed, 8 s to go"));
        assert_eq!(at(54, 12, 600).as_deref(), Some("600 of 1000 records replayed, 8 s to go"));
        // Tried again.
        assert_eq!(at(54, 1, 650), None);
        assert_eq!(at(54, 5, 700).as_deref(), Some("700 of 1000 records replayed, 2 s to go"));
        assert_eq!(at(54, 6, 1000).as_deref(), Some("all of 1000 records replayed in 6.0 s"));
        assert_eq!(at(66, 0, 1000).as_deref(), Some("all of 1000 records replayed in 0.0 s"));
    }
}
