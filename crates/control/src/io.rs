//! What the queues before a pool's devices have counted: how long I/Os took and waited, how large they were, and how many
//! there are now. `zpool iostat -l -q -r -w` prints it; rows of groups are the sums of their leaves'
//! ([`PoolIoInfo::below`]).

use std::ops::AddAssign;

use crate::call::{Call, calls};
use crate::{PoolInfo, VdevInfo};
use serde::{Deserialize, Serialize};

calls! {
    /// What the queues before a pool's devices have counted.
    show PoolIo at "/v1/pool/io" gives PoolIoInfo {
        /// Pool.
        pool: String,
    }
}

/// How often something was so large: number `i` counts values below 2^i that are not in number `i - 1`, unless said
/// otherwise. Zeros at the end are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counts(pub Vec<u64>);

impl Counts {
    /// Of all counts there are.
    #[must_use]
    pub fn new(counts: &[u64]) -> Self {
        let end = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        Self(counts[..end].to_vec())
    }

    /// Those of a number; 0 where there are none.
    #[must_use]
    pub fn at(&self, number: usize) -> u64 {
        self.0.get(number).copied().unwrap_or(0)
    }

    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// What was added since `earlier`; counts that went back are none.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let more = self.0.iter().enumerate().map(|(i, count)| count.saturating_sub(earlier.at(i)));
        Self(more.collect())
    }
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count += more);
    }
}

/// What a pool's devices did since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolIoInfo {
    /// How long the pool has been open, in nanoseconds.
    pub open_nanos: u64,
    /// Its devices: data, logs and cache.
    pub devices: Vec<DeviceIo>,
}

impl PoolIoInfo {
    /// What the devices of a vdev did together.
    #[must_use]
    pub fn below(&self, vdev: &VdevInfo) -> DeviceIo {
        let mut sum = DeviceIo { guid: vdev.guid, ..DeviceIo::default() };
        for leaf in vdev.leaves() {
            if let Some(device) = self.devices.iter().find(|device| device.guid == leaf.guid) {
                sum += device;
            }
        }
        sum
    }

    /// What the devices of a pool did together; its cache devices are not among them, as nowhere in its figures.
    #[must_use]
    pub fn of(&self, pool: &PoolInfo) -> DeviceIo {
        self.below(&pool.root)
    }
}

/// How long I/Os took: nanoseconds by powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoTimes {
    /// From the request to the answer.
    pub total: Counts,
    /// At the device alone, without what they waited in its queue.
    pub disk: Counts,
}

/// What was done at one of OpenZFS's priorities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PriorityIo {
    /// How long I/Os waited for a place at the device: nanoseconds by powers of two. Number 0 are those that did not.
    pub waits: Counts,
    /// Sizes of those that went as they were asked for: number `i` counts from 2^(9 + i) bytes to below twice that.
    pub individual: Counts,
    /// Sizes of those that several requests were joined to.
    pub aggregate: Counts,
    /// Requests that wait now.
    pub pending: u64,
    /// I/Os that the device has now.
    pub active: u64,
}

/// What one device did, by OpenZFS's priorities: see `env::Priority` for what counts as which. Of a group, the sum of
/// its leaves'.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceIo {
    /// Its lasting name.
    pub guid: u64,
    /// How long reads took.
    pub read: IoTimes,
    /// How long writes took.
    pub write: IoTimes,
    /// How long flushes took: nanoseconds by powers of two. They wait in no queue.
    pub flush: Counts,
    /// Reads that somebody waits for.
    pub sync_read: PriorityIo,
    /// Writes that somebody waits for.
    pub sync_write: PriorityIo,
    /// Reads for transaction groups, and ahead of who may want them.
    pub async_read: PriorityIo,
    /// Writes of transaction groups.
    pub async_write: PriorityIo,
    /// Reads of scrub and resilver.
    pub scrub: PriorityIo,
    /// What it was told to forget.
    pub trim: PriorityIo,
}

impl DeviceIo {
    /// All priorities, in OpenZFS's order.
    #[must_use]
    pub fn priorities(&self) -> [&PriorityIo; 6] {
        [&self.sync_read, &self.sync_write, &self.async_read, &self.async_write, &self.scrub, &self.trim]
    }

    /// What was added since `earlier`; how many there are now stays as it is.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            guid: self.guid,
            read: self.read.since(&earlier.read),
            write: self.write.since(&earlier.write),
            flush: self.flush.since(&earlier.flush),
            sync_read: self.sync_read.since(&earlier.sync_read),
            sync_write: self.sync_write.since(&earlier.sync_write),
            async_read: self.async_read.since(&earlier.async_read),
            async_write: self.async_write.since(&earlier.async_write),
            scrub: self.scrub.since(&earlier.scrub),
            trim: self.trim.since(&earlier.trim),
        }
    }
}

impl IoTimes {
    fn since(&self, earlier: &Self) -> Self {
        Self { total: self.total.since(&earlier.total), disk: self.disk.since(&earlier.disk) }
    }
}

impl PriorityIo {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            waits: self.waits.since(&earlier.waits),
            individual: self.individual.since(&earlier.individual),
            aggregate: self.aggregate.since(&earlier.aggregate),
            pending: self.pending,
            active: self.active,
        }
    }
}

impl AddAssign<&Self> for DeviceIo {
    fn add_assign(&mut self, other: &Self) {
        self.read += &other.read;
        self.write += &other.write;
        self.flush += &other.flush;
        self.sync_read += &other.sync_read;
        self.sync_write += &other.sync_write;
        self.async_read += &other.async_read;
        self.async_write += &other.async_write;
        self.scrub += &other.scrub;
        self.trim += &other.trim;
    }
}

impl AddAssign<&Self> for IoTimes {
    fn add_assign(&mut self, other: &Self) {
        self.total += &other.total;
        self.disk += &other.disk;
    }
}

impl AddAssign<&Self> for PriorityIo {
    fn add_assign(&mut self, other: &Self) {
        self.waits += &other.waits;
        self.individual += &other.individual;
        self.aggregate += &other.aggregate;
        self.pending += other.pending;
        self.active += other.active;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{VdevClass, VdevKind};

    #[test]
    fn counts_leave_out_zeros_at_the_end_and_are_added_at_any_length() {
        let mut counts = Counts::new(&[0, 3, 0, 1, 0, 0]);
        assert_eq!((counts.0.len(), counts.at(3), counts.at(9), counts.total()), (4, 1, 0, 4));
        assert_eq!(Counts::new(&[0, 0]), Counts::default());
        counts += &Counts(vec![1, 1, 1, 1, 1, 2]);
        assert_eq!(counts.0, [1, 4, 1, 2, 1, 2]);
        assert_eq!(counts.since(&Counts(vec![1, 1, 9])).0, [0, 3, 0, 2, 1, 2]);
    }

    #[test]
    fn a_group_did_what_its_leaves_did_and_one_that_is_unknown_did_nothing() {
        let device = |guid, size, pending| {
            let sync_write =
                PriorityIo { individual: Counts(vec![0, size]), pending, ..PriorityIo::default() };
            DeviceIo { guid, sync_write, flush: Counts(vec![1]), ..DeviceIo::default() }
        };
        let io =
            PoolIoInfo { open_nanos: 1, devices: vec![device(1, 5, 2), device(2, 7, 1), device(9, 50, 50)] };
        let mut mirror = VdevInfo::new(VdevKind::Mirror, 0, 3, VdevClass::Log);
        mirror.children =
            [1, 2, 4].map(|guid| VdevInfo::new(VdevKind::File, 0, guid, VdevClass::Log)).to_vec();
        let both = io.below(&mirror);
        assert_eq!((both.guid, both.sync_write.individual.at(1), both.sync_write.pending), (3, 12, 3));
        assert_eq!((both.flush.total(), both.async_write.clone()), (2, PriorityIo::default()));
        let later = both.since(&device(1, 5, 2));
        assert_eq!((later.sync_write.individual.at(1), later.sync_write.pending), (7, 3));
    }
}
