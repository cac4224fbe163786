//! What was measured: since the pool was opened, or between two looks.

use control::{LeafOps, LogFacts, LogLeafInfo, LogPeakInfo, LogVdevInfo, TxgLogInfo};
use std::time::Duration;
use units::Latencies;

/// Counters of a stretch of time.
#[derive(Clone, Debug)]
pub struct Measured {
    /// How long it was.
    pub span: Duration,
    /// It began when the pool was opened.
    pub is_since_import: bool,
    /// Txgs went by that nobody saw.
    pub has_gaps: bool,
    /// What was counted in that time, and the most there was.
    pub facts: LogFacts,
    /// What vdevs have counted since the pool was opened: for what they are, and not what they did.
    pub vdevs_since_import: Vec<LogVdevInfo>,
}

impl Measured {
    /// Since the pool was opened.
    #[must_use]
    pub fn since_import(facts: LogFacts) -> Self {
        let span = Duration::from_nanos(facts.open_nanos);
        let vdevs_since_import = facts.vdevs.clone();
        Self { span, is_since_import: true, has_gaps: false, facts, vdevs_since_import }
    }

    /// Between two looks; none when the pool was opened anew meanwhile, so that its counters are others.
    #[must_use]
    pub fn between(early: LogFacts, late: LogFacts) -> Option<Self> {
        let mut watch = Watch::begin(early);
        watch.look(late).then(|| watch.measured())
    }

    /// Times of commits that had something to do. The others are counted with them and are the quickest of all, for
    /// they look and return: as many are left out from below.
    #[must_use]
    pub fn commit_times(&self) -> Latencies {
        worked(&self.facts.latency, self.facts.commits_empty)
    }
}

/// Times of commits, but for so many of the quickest, which had nothing to do.
#[must_use]
pub fn worked(latency: &[u64], mut empty: u64) -> Latencies {
    let mut times = Latencies::from_counts(latency);
    for count in &mut times.counts {
        let gone = empty.min(*count);
        *count -= gone;
        empty -= gone;
    }
    times
}

/// Somebody who looks again and again.
#[derive(Clone, Debug)]
pub struct Watch {
    first: LogFacts,
    last: LogFacts,
    txgs: Vec<TxgLogInfo>,
    has_gaps: bool,
}

impl Watch {
    /// The first look: what happens from here on counts.
    #[must_use]
    pub fn begin(facts: LogFacts) -> Self {
        Self { last: facts.clone(), first: facts, txgs: Vec::new(), has_gaps: false }
    }

    /// Another look; false when the pool was opened anew meanwhile, so that its counters are others.
    #[must_use]
    pub fn look(&mut self, facts: LogFacts) -> bool {
        if facts.open_nanos < self.last.open_nanos {
            return false;
        }
        let seen = self.txgs.last().or(self.last.txgs.last()).map_or(0, |txg| txg.txg);
        let news: Vec<TxgLogInfo> = facts.txgs.iter().filter(|txg| txg.txg > seen).copied().collect();
        self.has_gaps |= seen > 0 && news.first().is_some_and(|txg| txg.txg > seen + 1);
        self.txgs.extend(news);
        self.last = facts;
        true
    }

    /// What was measured so far.
    #[must_use]
    pub fn measured(self) -> Measured {
        let Self { first, last, mut txgs, has_gaps } = self;
        txgs.push(last.open);
        let span = Duration::from_nanos(last.open_nanos.saturating_sub(first.open_nanos));
        let peak = peak(&txgs, last.live_txgs);
        let vdevs_since_import = last.vdevs.clone();
        let facts = LogFacts { txgs, peak, ..since(last, &first) };
        Measured { span, is_since_import: false, has_gaps, facts, vdevs_since_import }
    }
}

/// The most in txgs, oldest first, of which `live` have log blocks at a time.
fn peak(txgs: &[TxgLogInfo], live: u64) -> LogPeakInfo {
    let mut most = LogPeakInfo::default();
    for (at, txg) in txgs.iter().enumerate() {
        let window = txgs[..=at].iter().rev().take_while(|other| other.txg + live > txg.txg);
        most.txg_bytes = most.txg_bytes.max(txg.bytes);
        most.live_bytes = most.live_bytes.max(window.map(|txg| txg.bytes).sum());
        most.held_bytes = most.held_bytes.max(txg.held_bytes);
    }
    most
}

/// What was counted since `early`. A counter that went back, as that of a device that was opened anew does, counts as new.
fn since(late: LogFacts, early: &LogFacts) -> LogFacts {
    let vdevs = late.vdevs.into_iter().map(|vdev| {
        match early.vdevs.iter().find(|other| other.id == vdev.id && other.class == vdev.class) {
            Some(before) => vdev_since(vdev, before),
            None => vdev,
        }
    });
    LogFacts {
        commits: more(late.commits, early.commits),
        commits_empty: more(late.commits_empty, early.commits_empty),
        batches: more(late.batches, early.batches),
        records: more(late.records, early.records),
        data_bytes: more(late.data_bytes, early.data_bytes),
        beside_bytes: more(late.beside_bytes, early.beside_bytes),
        record_bytes: more(late.record_bytes, early.record_bytes),
        written_bytes: more(late.written_bytes, early.written_bytes),
        allocated_bytes: more(late.allocated_bytes, early.allocated_bytes),
        errors: more(late.errors, early.errors),
        fallbacks: more(late.fallbacks, early.fallbacks),
        latency: counts(&late.latency, &early.latency),
        queue: counts(&late.queue, &early.queue),
        assemble: counts(&late.assemble, &early.assemble),
        write: counts(&late.write, &early.write),
        flush: counts(&late.flush, &early.flush),
        wake: counts(&late.wake, &early.wake),
        parts_nanos: counts(&late.parts_nanos, &early.parts_nanos),
        block_sizes: counts(&late.block_sizes, &early.block_sizes),
        hurried_txgs: more(late.hurried_txgs, early.hurried_txgs),
        blocks_past_logs: more(late.blocks_past_logs, early.blocks_past_logs),
        vdevs: vdevs.collect(),
        ..late
    }
}

/// What a counter counted since it stood at `early`; one that went back counts as new.
#[must_use]
pub fn more(late: u64, early: u64) -> u64 {
    late.checked_sub(early).unwrap_or(late)
}

/// The same of several.
#[must_use]
pub fn counts(late: &[u64], early: &[u64]) -> Vec<u64> {
    let before = early.iter().copied().chain(std::iter::repeat(0));
    late.iter().zip(before).map(|(late, early)| more(*late, early)).collect()
}

fn vdev_since(late: LogVdevInfo, early: &LogVdevInfo) -> LogVdevInfo {
    let leaves =
        late.leaves.into_iter().map(|leaf| match early.leaves.iter().find(|other| other.guid == leaf.guid) {
            Some(before) => leaf_since(leaf, before),
            None => leaf,
        });
    LogVdevInfo {
        blocks: more(late.blocks, early.blocks),
        block_bytes: more(late.block_bytes, early.block_bytes),
        writes: counts(&late.writes, &early.writes),
        flushes: counts(&late.flushes, &early.flushes),
        leaves: leaves.collect(),
        ..late
    }
}

fn leaf_since(late: LogLeafInfo, early: &LogLeafInfo) -> LogLeafInfo {
    LogLeafInfo {
        reads: ops_since(late.reads, early.reads),
        writes: ops_since(late.writes, early.writes),
        flushes: ops_since(late.flushes, early.flushes),
        flush_times: counts(&late.flush_times, &early.flush_times),
        ..late
    }
}

fn ops_since(late: LeafOps, early: LeafOps) -> LeafOps {
    LeafOps {
        ops: more(late.ops, early.ops),
        bytes: more(late.bytes, early.bytes),
        nanos: more(late.nanos, early.nanos),
    }
}
