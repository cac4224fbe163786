//! What became of the last transaction groups: the figures of OpenZFS's kstat `txgs`.
//!
//! ```text
//!  open ──────────► quiescing ──────────────► syncing ─────────────────────► committed
//!       a sync is due         its last Hold is gone      its uberblock is stable
//! ```
//! The loop that turns txgs notes the stages. Changes know nothing of them.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use units::Txg;

use crate::Pool;

/// Txgs that are remembered: as many as OpenZFS keeps (`zfs_txg_history`).
const TXGS_KEPT: usize = 100;

/// How far a txg is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TxgStage {
    /// New changes join it.
    #[default]
    Open,
    /// Changes that are in it come to their end.
    Quiescing,
    /// It is being written.
    Syncing,
    /// It is stable.
    Committed,
}

/// What a pool's devices did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTotals {
    /// Reads.
    pub reads: u64,
    /// Bytes of those.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of those.
    pub written_bytes: u64,
}

impl DeviceTotals {
    fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

/// One txg. Times are those of the pool's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxgRecord {
    /// Which.
    pub txg: Txg,
    /// How far it is.
    pub stage: TxgStage,
    /// When changes could join it first.
    pub birth: Duration,
    /// Bytes that were dirty when its last change had ended.
    pub dirty_bytes: u64,
    /// What the devices did while it was written, for whomever.
    pub devices: DeviceTotals,
    /// How long changes could join it.
    pub open: Duration,
    /// How long its last changes took to end.
    pub quiesce: Duration,
    /// How long it was written.
    pub sync: Duration,
}

/// The last txgs of a pool, oldest first; the last one is open.
#[derive(Debug, Default)]
pub(crate) struct TxgRecords(Mutex<VecDeque<TxgRecord>>);

impl TxgRecords {
    /// Changes can join `txg` from `now` on.
    fn begin(&self, txg: Txg, now: Duration) {
        let mut kept = self.0.lock();
        if kept.len() == TXGS_KEPT {
            kept.pop_front();
        }
        kept.push_back(TxgRecord { txg, birth: now, ..TxgRecord::default() });
    }

    fn change(&self, txg: Txg, change: impl FnOnce(&mut TxgRecord)) {
        let mut kept = self.0.lock();
        if let Some(record) = kept.iter_mut().rev().find(|record| record.txg == txg) {
            change(record);
        }
    }
}

/// A txg whose stages are being noted.
pub(crate) struct TxgWatch {
    txg: Txg,
    /// When its present stage began.
    since: Duration,
    before: DeviceTotals,
}

impl Pool {
    /// Notes that the first txg of this import is open.
    pub(crate) fn watch_first_txg(&self) {
        self.txg_records.begin(self.gate.open_txg(), self.env.now());
    }

    /// Notes that the open txg is about to be synced, so that changes join the next one.
    pub(crate) fn watch_quiescing(&self) -> TxgWatch {
        let (txg, now) = (self.gate.open_txg(), self.env.now());
        self.txg_records.change(txg, |record| {
            record.stage = TxgStage::Quiescing;
            record.open = now.saturating_sub(record.birth);
        });
        self.txg_records.begin(txg.next(), now);
        TxgWatch { txg, since: now, before: DeviceTotals::default() }
    }

    /// Notes that no change is in the txg any more.
    pub(crate) fn watch_syncing(&self, watch: TxgWatch) -> TxgWatch {
        let now = self.env.now();
        let dirty_bytes = self.gate.dirty_bytes_of(watch.txg);
        self.txg_records.change(watch.txg, |record| {
            record.stage = TxgStage::Syncing;
            record.dirty_bytes = dirty_bytes;
            record.quiesce = now.saturating_sub(watch.since);
        });
        TxgWatch { since: now, before: self.device_totals(), ..watch }
    }

    /// Notes that the txg is stable.
    pub(crate) fn watch_committed(&self, watch: &TxgWatch) {
        let (now, devices) = (self.env.now(), self.device_totals().since(watch.before));
        self.txg_records.change(watch.txg, |record| {
            record.stage = TxgStage::Committed;
            record.devices = devices;
            record.sync = now.saturating_sub(watch.since);
        });
    }

    /// The last txgs, oldest first.
    #[must_use]
    pub fn txg_records(&self) -> Vec<TxgRecord> {
        self.txg_records.0.lock().iter().copied().collect()
    }

    /// What its devices did since it was opened, cache devices left out.
    #[must_use]
    pub fn device_totals(&self) -> DeviceTotals {
        let mut sum = DeviceTotals::default();
        for leaf in self.vdevs.leaves() {
            let (read, write) = leaf.stats().reads_and_writes();
            sum.reads += read.ops;
            sum.read_bytes += read.bytes;
            sum.writes += write.ops;
            sum.written_bytes += write.bytes;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_txgs_are_remembered_and_only_their_own_record_changes() {
        let records = TxgRecords::default();
        let at = |n: u64| (Txg::new(n), Duration::from_secs(n));
        for n in 1..=250 {
            let (txg, now) = at(n);
            records.begin(txg, now);
        }
        records.change(Txg::new(250), |record| record.stage = TxgStage::Quiescing);
        records.change(Txg::new(3), |_| panic!("forgotten"));
        let kept = records.0.lock();
        assert_eq!((kept.len(), kept[0].txg, kept[0].birth), (TXGS_KEPT, at(151).0, at(151).1));
        assert_eq!(kept.iter().filter(|record| record.stage == TxgStage::Open).count(), TXGS_KEPT - 1);
    }
}
