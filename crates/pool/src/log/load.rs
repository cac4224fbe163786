//! How much of a pool's intent logs each txg made: what says how large a log device has to be.
//!
//! Looked at once a txg, as its sync begins and before it frees anything; commits know nothing of it. What was
//! written until then since the last look is that txg's.
//! (test: `what_txgs_leave_in_the_log_is_counted_by_txg`)

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use metaslab::Class;
use parking_lot::Mutex;
use units::{ObjsetId, TXG_DEFER, Txg};
use zil::{LogBytes, ZilStats};

use crate::Pool;

/// So many txgs have log blocks at a time: the open one, the one that is synced, and those whose freed
/// blocks rest.
pub const LIVE_TXGS: u64 = 2 + TXG_DEFER;

/// Txgs that are remembered one by one.
const TXGS_KEPT: usize = 256;
/// Minutes of which the peaks are remembered.
const MINUTES_KEPT: u64 = 60;

/// What one txg left in the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxgLog {
    /// Which.
    pub txg: Txg,
    /// When its sync began, since the pool's clock did.
    pub at: Duration,
    /// What was allocated to log blocks, and the data that lie beside the log because there is no log
    /// device: bytes that a log device would have held.
    pub bytes: u64,
    /// What was taken of the log vdevs then, blocks that rest included.
    pub held_bytes: u64,
}

/// The most there was, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPeak {
    /// Of one txg.
    pub txg_bytes: u64,
    /// Of [`LIVE_TXGS`] txgs one after another.
    pub live_bytes: u64,
    /// Taken of the log vdevs.
    pub held_bytes: u64,
}

impl LogPeak {
    fn raise(&mut self, other: Self) {
        self.txg_bytes = self.txg_bytes.max(other.txg_bytes);
        self.live_bytes = self.live_bytes.max(other.live_bytes);
        self.held_bytes = self.held_bytes.max(other.held_bytes);
    }
}

/// What is known of a pool's logs since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLoadReport {
    /// The counters of its datasets' logs together.
    pub stats: ZilStats,
    /// The last txgs whose sync has begun, oldest first.
    pub txgs: Vec<TxgLog>,
    /// The open one, as far as it is.
    pub open: TxgLog,
    /// The most since it was opened.
    pub peak: LogPeak,
    /// The most in the last hour, or since it was opened if that is less.
    pub hour: LogPeak,
    /// Txgs that were synced early because their log blocks had taken their share of the room: without
    /// that they would have been larger.
    pub hurried_txgs: u64,
    /// Log blocks that went to the main pool because no log vdev could take them.
    pub blocks_past_logs: u64,
    /// A txg is synced early once its log blocks have taken so much of the room for them, in percent.
    pub share_percent: u64,
    /// After so long at the latest a txg is synced.
    pub txg_timeout: Duration,
}

/// The record of a pool.
#[derive(Debug, Default)]
pub(crate) struct LogLoad(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// What each log had written when it was last looked at.
    seen: BTreeMap<ObjsetId, LogBytes>,
    txgs: VecDeque<TxgLog>,
    peak: LogPeak,
    /// Peaks by minute of the pool's clock, oldest first.
    minutes: VecDeque<(u64, LogPeak)>,
}

impl Kept {
    /// What a log has written since it was last noted; one that begins anew counts from nothing.
    fn news(&self, objset: ObjsetId, now: LogBytes) -> u64 {
        let before = self.seen.get(&objset).copied().unwrap_or_default();
        let more = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        more(now.allocated, before.allocated) + more(now.beside, before.beside)
    }

    /// How high a txg goes that is the next one to be noted.
    fn height(&self, log: &TxgLog) -> LogPeak {
        let is_live = |other: &&TxgLog| other.txg.get() + LIVE_TXGS > log.txg.get();
        let before: u64 = self.txgs.iter().rev().take_while(is_live).map(|txg| txg.bytes).sum();
        LogPeak { txg_bytes: log.bytes, live_bytes: before + log.bytes, held_bytes: log.held_bytes }
    }

    fn note(&mut self, log: TxgLog) {
        let peak = self.height(&log);
        self.peak.raise(peak);
        if self.txgs.len() == TXGS_KEPT {
            self.txgs.pop_front();
        }
        self.txgs.push_back(log);
        let minute = minute(log.at);
        match self.minutes.back_mut() {
            Some((last, most)) if *last == minute => most.raise(peak),
            _ => self.minutes.push_back((minute, peak)),
        }
        self.forget_before(minute);
    }

    fn forget_before(&mut self, now: u64) {
        while self.minutes.front().is_some_and(|(minute, _)| minute + MINUTES_KEPT <= now) {
            self.minutes.pop_front();
        }
    }

    fn hour(&mut self, now: Duration) -> LogPeak {
        self.forget_before(minute(now));
        let mut most = LogPeak::default();
        self.minutes.iter().for_each(|(_, peak)| most.raise(*peak));
        most
    }
}

fn minute(at: Duration) -> u64 {
    at.as_secs() / 60
}

impl Pool {
    /// Notes what `txg`, whose sync begins, has left in the logs.
    pub(crate) fn note_log_load(&self, txg: Txg) {
        let logs = self.written_to_logs();
        let mut kept = self.log_load.0.lock();
        let log = self.txg_log(txg, &kept, &logs);
        kept.note(log);
        kept.seen.extend(logs);
    }

    /// What the logs that are not at rest have written.
    fn written_to_logs(&self) -> Vec<(ObjsetId, LogBytes)> {
        let awake = self.log_store.awake();
        let open = self.datasets.read();
        let log = |objset: &ObjsetId| Some((*objset, open.get(objset)?.log()?.bytes()));
        awake.iter().filter_map(log).collect()
    }

    /// What `txg` has, the first that is not noted yet.
    fn txg_log(&self, txg: Txg, kept: &Kept, logs: &[(ObjsetId, LogBytes)]) -> TxgLog {
        let held = self.zio.with_allocator(|allocator| allocator.space(Class::Log));
        let held_bytes = held.allocated.get() + held.resting.get();
        let bytes = logs.iter().map(|(objset, now)| kept.news(*objset, *now)).sum();
        TxgLog { txg, at: self.env.now(), bytes, held_bytes }
    }

    /// What its logs had to do since it was opened.
    #[must_use]
    pub fn log_load(&self) -> LogLoadReport {
        let mut stats = ZilStats::default();
        self.dataset_logs().into_iter().for_each(|log| stats += log.stats);
        let logs = self.written_to_logs();
        let mut kept = self.log_load.0.lock();
        let open = self.txg_log(self.gate.open_txg(), &kept, &logs);
        let (mut peak, mut hour) = (kept.peak, kept.hour(open.at));
        let height = kept.height(&open);
        [&mut peak, &mut hour].into_iter().for_each(|most| most.raise(height));
        LogLoadReport {
            stats,
            txgs: kept.txgs.iter().copied().collect(),
            open,
            peak,
            hour,
            hurried_txgs: self.log_store.hurried(),
            blocks_past_logs: self.zio.stats().log_blocks_in_main,
            share_percent: self.tuning.log_share_percent,
            txg_timeout: self.tuning.txg_timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn txg(txg: u64, at: Duration, bytes: u64) -> TxgLog {
        TxgLog { txg: Txg::new(txg), at, bytes, held_bytes: bytes + 1 }
    }

    #[test]
    fn four_txgs_have_log_blocks_at_a_time() {
        let mut kept = Kept::default();
        for (number, bytes) in [(1, 10), (2, 20), (3, 5), (4, 7), (5, 1), (6, 30)] {
            kept.note(txg(number, Duration::ZERO, bytes));
        }
        // 6, 5, 4 and 3: 43; 1 to 4: 42.
        assert_eq!(kept.peak, LogPeak { txg_bytes: 30, live_bytes: 43, held_bytes: 31 });
        // A txg that had nothing to do with the log was not the pool's last.
        kept.note(txg(20, Duration::ZERO, 40));
        assert_eq!(kept.peak.live_bytes, 43);
    }

    #[test]
    fn a_peak_is_forgotten_after_an_hour_and_not_by_the_pool() {
        let mut kept = Kept::default();
        kept.note(txg(1, MINUTE * 2, 50));
        kept.note(txg(2, MINUTE * 30, 9));
        assert_eq!(kept.hour(MINUTE * 61).txg_bytes, 50);
        assert_eq!(kept.hour(MINUTE * 62).txg_bytes, 9);
        assert_eq!(kept.hour(MINUTE * 90), LogPeak::default());
        assert_eq!(kept.peak.txg_bytes, 50);
    }

    #[test]
    fn the_last_txgs_are_kept_and_a_log_that_begins_anew_counts_from_nothing() {
        let mut kept = Kept::default();
        let log = ObjsetId::new(7);
        let bytes = |allocated, beside| LogBytes { allocated, beside };
        for (written, news) in [(bytes(100, 5), 105), (bytes(130, 5), 30), (bytes(20, 0), 20)] {
            assert_eq!(kept.news(log, written), news);
            kept.seen.insert(log, written);
        }
        (0..1000).for_each(|number| kept.note(txg(number, Duration::ZERO, 1)));
        assert_eq!((kept.txgs.len(), kept.txgs[0].txg.get()), (TXGS_KEPT, 1000 - TXGS_KEPT as u64));
    }
}
