//! One look at a pool's counters, and what was added from one to the next.

use control::{DeviceIo, IoCounters, PoolInfo, PoolIoInfo, VdevInfo};

/// One look at a pool.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The pool.
    pub pool: PoolInfo,
    /// What the queues before its devices counted, where somebody wants to know.
    pub io: Option<PoolIoInfo>,
}

/// What was done between two looks, or since the pool was opened.
pub struct Span<'a> {
    now: &'a Sample,
    earlier: Option<&'a Sample>,
}

impl<'a> Span<'a> {
    pub fn new(now: &'a Sample, earlier: Option<&'a Sample>) -> Self {
        Self { now, earlier }
    }

    /// The pool as it is now.
    pub fn pool(&self) -> &'a PoolInfo {
        &self.now.pool
    }

    /// Operations and bytes per second.
    pub fn rates(&self, vdev: &VdevInfo) -> IoCounters {
        let before = self.earlier.and_then(|sample| sample.find(vdev.guid));
        let io = vdev.stats.io.since(before.map_or_else(IoCounters::default, |before| before.stats.io));
        let nanos = nanos_since(self.now.pool.open_nanos, self.earlier.map(|sample| sample.pool.open_nanos));
        let seconds = if nanos == 0 { 1.0 } else { nanos as f64 / 1e9 };
        let rate = |count: u64| (count as f64 / seconds) as u64;
        IoCounters {
            reads: rate(io.reads),
            writes: rate(io.writes),
            read_bytes: rate(io.read_bytes),
            written_bytes: rate(io.written_bytes),
        }
    }

    /// What a vdev's devices did together.
    pub fn io(&self, vdev: &VdevInfo) -> DeviceIo {
        let now = self.now.io.as_ref().map(|io| io.below(vdev)).unwrap_or_default();
        match self.earlier.and_then(|sample| sample.io.as_ref()) {
            Some(earlier) => now.since(&earlier.below(vdev)),
            None => now,
        }
    }

    /// What counts of a histogram are multiplied by: they are those of a second, but all of them at the first look.
    pub fn histogram_scale(&self) -> f64 {
        let nanos = |sample: &Sample| sample.io.as_ref().map_or(0, |io| io.open_nanos);
        let Some(earlier) = self.earlier else { return 1.0 };
        match nanos_since(nanos(self.now), Some(nanos(earlier))) {
            0 => 1.0,
            nanos => 1e9 / nanos as f64,
        }
    }
}

fn nanos_since(now: u64, earlier: Option<u64>) -> u64 {
    now.saturating_sub(earlier.unwrap_or(0))
}

impl Sample {
    fn find(&self, guid: u64) -> Option<&VdevInfo> {
        let pool = &self.pool;
        pool.root.walk().chain(&pool.caches).chain(&pool.spares).find(|vdev| vdev.guid == guid)
    }
}
