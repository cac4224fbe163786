//! The ring in which events are kept until they are old.

use crate::{Event, names};
use event_listener::Event as Signal;
use ondisk::{NvList, NvValue};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;

/// How many events are kept, as in OpenZFS (`zfs_zevent_len_max`).
const KEPT_MAX: usize = 512;

/// The last events of a program.
#[derive(Debug, Default)]
pub struct EventRing {
    /// Tells this ring from those of earlier runs.
    run: u64,
    kept: Mutex<Kept>,
    posted: Signal,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<NvList>,
    /// Number of the last event that was posted; 0 when none was.
    last: u64,
    /// Number of the last one that was thrown away on demand.
    cleared: u64,
}

impl Kept {
    /// The number of the oldest one, or of the next.
    fn first(&self) -> u64 {
        self.last + 1 - self.events.len() as u64
    }
}

/// How far somebody has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// In which ring; any, for who has read nothing.
    pub run: u64,
    /// Up to which event.
    pub eid: u64,
}

/// What somebody reads at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The events, oldest first.
    pub events: Vec<NvList>,
    /// How many went before they were read.
    pub dropped: u64,
    /// Up to where it goes.
    pub seen: Seen,
}

impl EventRing {
    /// An empty ring; `run` differs from those of all other runs of the program.
    #[must_use]
    pub fn of_run(run: u64) -> Self {
        Self { run, ..Self::default() }
    }

    /// Takes an event in, which happened at `at` since 1970.
    pub fn post(&self, at: Duration, event: Event) {
        let mut payload = event.into_payload();
        let secs = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
        payload.add(names::TIME, NvValue::I64Array(vec![secs, i64::from(at.subsec_nanos())]));
        self.take_over(payload);
    }

    /// Takes an event of another ring over, under a number of this ring.
    pub fn take_over(&self, mut payload: NvList) {
        let mut kept = self.kept.lock();
        kept.last += 1;
        payload.remove(names::EID);
        payload.add_u64(names::EID, kept.last);
        kept.events.push_back(payload);
        if kept.events.len() > KEPT_MAX {
            kept.events.pop_front();
        }
        assert!(kept.events.len() <= KEPT_MAX, "a ring has no more than its bound");
        drop(kept);
        self.posted.notify(usize::MAX);
    }

    /// All events after those that somebody has seen.
    #[must_use]
    pub fn after(&self, seen: Seen) -> Page {
        let kept = self.kept.lock();
        let from = self.place(seen);
        let unread = kept.first().saturating_sub(from.max(kept.cleared) + 1);
        let dropped = if from == 0 { 0 } else { unread };
        let skipped = usize::try_from((from + 1).saturating_sub(kept.first())).unwrap_or(usize::MAX);
        Page {
            events: kept.events.iter().skip(skipped).cloned().collect(),
            dropped,
            seen: Seen { run: self.run, eid: kept.last },
        }
    }

    /// Until there is an event that somebody has not seen.
    pub async fn until_after(&self, seen: Seen) {
        loop {
            let posted = self.posted.listen();
            let last = self.kept.lock().last;
            if last > self.place(seen) && self.kept.lock().cleared < last {
                return;
            }
            posted.await;
        }
    }

    /// Throws all events away; says how many there were.
    pub fn clear(&self) -> u64 {
        let mut kept = self.kept.lock();
        kept.cleared = kept.last;
        std::mem::take(&mut kept.events).len() as u64
    }

    /// The last event of this ring that was seen.
    fn place(&self, seen: Seen) -> u64 {
        if seen.run == self.run { seen.eid } else { 0 }
    }
}

#[cfg(test)]
mod tests;
