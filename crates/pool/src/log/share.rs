//! How much of the room for log blocks the open txg has taken.
//!
//! A log block is free again with the txg that holds its records, and in use again two txgs
//! later: four txgs have some at a time. A txg that took more than its share is
//! synced early, so that the next ones still find room on the log vdevs; the share is of what nobody
//! has, and so becomes smaller while txgs take longer than expected.
//! (test: `a_busy_log_has_groups_synced_before_it_is_full`)

use parking_lot::Mutex;
use units::Txg;

/// The open txg's part of the room.
#[derive(Debug)]
pub(crate) struct LogShare {
    percent: u64,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    txg: Txg,
    bytes: u64,
    limit: u64,
}

impl LogShare {
    /// Of txgs that may take so much of the room each.
    pub fn new(percent: u64) -> Self {
        Self { percent, taken: Mutex::default() }
    }

    /// Notes a block of `txg`; `room` tells how many bytes such blocks could have, and is asked once
    /// a txg. Whether the txg should be synced now: said once.
    pub fn take(&self, txg: Txg, bytes: u64, room: impl FnOnce() -> u64) -> bool {
        let mut taken = self.taken.lock();
        if taken.txg < txg {
            *taken =
                Taken { txg, bytes: 0, limit: (u128::from(room()) * u128::from(self.percent) / 100) as u64 };
        }
        if txg < taken.txg {
            return false;
        }
        let before = taken.bytes;
        taken.bytes += bytes;
        before <= taken.limit && taken.bytes > taken.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_called_once_when_it_has_its_share() {
        let share = LogShare::new(10);
        let take = |txg, bytes| share.take(Txg::new(txg), bytes, || 1000);
        assert_eq!([take(5, 60), take(5, 40), take(5, 1), take(5, 500)], [false, false, true, false]);
        assert_eq!([take(6, 100), take(5, 1), take(6, 1)], [false, false, true]);
    }
}
