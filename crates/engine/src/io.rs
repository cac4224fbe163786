//! What the queues before a pool's devices have counted, as commands see it.

use crate::Holder;
use control::{Counts, DeviceIo, Failure, IoTimes, PoolIo, PoolIoInfo, PriorityIo};
use env::{InQueue, Priority, PrioritySnapshot, Times};
use pool::Pool;
use vdev::Leaf;

impl Holder {
    /// What the devices of a pool did.
    pub(super) fn pool_io(&self, call: &PoolIo) -> Result<PoolIoInfo, Failure> {
        let held = self.pool(&call.pool)?;
        Ok(io_of(&held.pool))
    }
}

fn io_of(pool: &Pool) -> PoolIoInfo {
    let leaves = pool.vdevs().leaves().into_iter().chain(pool.cache_leaves());
    PoolIoInfo {
        open_nanos: u64::try_from(pool.open_for().as_nanos()).unwrap_or(u64::MAX),
        devices: leaves.map(|leaf| device_io(&leaf)).collect(),
    }
}

fn device_io(leaf: &Leaf) -> DeviceIo {
    let (counted, now) = (leaf.queue_stats(), leaf.queue_now());
    let of = |priority: Priority| priority_io(&counted.priorities[priority as usize], now[priority as usize]);
    DeviceIo {
        guid: leaf.guid().get(),
        read: times(&counted.read),
        write: times(&counted.write),
        flush: Counts::new(&leaf.stats().snapshot().flush_times.counts),
        sync_read: of(Priority::SyncRead),
        sync_write: of(Priority::SyncWrite),
        async_read: of(Priority::AsyncRead),
        async_write: of(Priority::AsyncWrite),
        scrub: of(Priority::Scrub),
        trim: of(Priority::Trim),
    }
}

fn times(times: &Times) -> IoTimes {
    IoTimes { total: Counts::new(&times.total.counts), disk: Counts::new(&times.device.counts) }
}

fn priority_io(counted: &PrioritySnapshot, now: InQueue) -> PriorityIo {
    PriorityIo {
        waits: Counts::new(&counted.waits.counts),
        individual: Counts::new(&counted.alone.counts),
        aggregate: Counts::new(&counted.joined.counts),
        pending: now.pending,
        active: now.active,
    }
}
