//! Who may go to the device now, who waits, and which of those who wait go together.

use std::collections::BTreeMap;
use std::time::Duration;

use units::LeafOffset;

use super::IoClass;
use super::meter::{InQueue, IoOp, Priority};
use crate::{BufSlice, Durability};

/// Bytes that one merged read moves at most, gaps included.
pub(super) const MERGED_MAX_BYTES: u64 = 1 << 20;
/// Bytes that one merged write moves at most: larger ones go no faster, and the device has less to do
/// while the end of one is awaited.
pub(super) const MERGED_WRITE_MAX_BYTES: u64 = 256 << 10;
/// Reads of more than this are not merged: their bytes would have to be copied apart, which costs
/// more than the system call that is saved.
pub(super) const MERGED_READ_MAX_BYTES: u64 = 64 << 10;
/// Bytes between two reads that are rather read than skipped.
pub(super) const READ_GAP_MAX_BYTES: u64 = 16 << 10;
/// Slices of one merged write, well below what one system call takes.
const SLICES_MAX: usize = 256;

/// How many I/Os of a class a device is given at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// So many always may go, so that no class starves.
    pub min: usize,
    /// So many while there is nothing in flight that is more urgent than transaction groups.
    pub max: usize,
    /// So many while there is, or lately was.
    pub max_beside_sync: usize,
}

/// How many I/Os a device is given at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Of all classes together, beside each one's minimum.
    pub total: usize,
    /// Of each class, in the order of [`IoClass::ALL`].
    pub classes: [Bound; 4],
}

impl Default for Bounds {
    /// Estimates, see `docs/decisions/2026-11-22-device-queue.md`.
    fn default() -> Self {
        Self {
            total: 64,
            classes: [
                Bound { min: 32, max: 64, max_beside_sync: 64 },
                Bound { min: 2, max: 32, max_beside_sync: 4 },
                Bound { min: 1, max: 8, max_beside_sync: 4 },
                Bound { min: 1, max: 4, max_beside_sync: 1 },
            ],
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// Read so many bytes.
    Read(u64),
    /// Forget so many bytes.
    Discard(u64),
    /// Write these.
    Write(Vec<BufSlice>, Durability),
}

/// One I/O that waits.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub offset: LeafOffset,
    pub job: Job,
    /// When it was asked for.
    pub came: Duration,
}

impl Request {
    pub fn len(&self) -> u64 {
        match &self.job {
            Job::Read(len) | Job::Discard(len) => *len,
            Job::Write(slices, _) => slices.iter().map(|slice| slice.bytes().len() as u64).sum(),
        }
    }

    pub fn end(&self) -> u64 {
        self.offset.get().saturating_add(self.len())
    }

    pub fn op(&self) -> IoOp {
        match self.job {
            Job::Read(_) => IoOp::Read,
            Job::Write(..) => IoOp::Write,
            Job::Discard(_) => IoOp::Discard,
        }
    }

    /// Only what is of one kind goes together.
    fn kind(&self) -> u8 {
        match &self.job {
            Job::Read(_) => 0,
            Job::Write(_, Durability::Cached) => 1,
            Job::Write(_, Durability::Stable) => 2,
            Job::Discard(_) => 3,
        }
    }

    fn slices(&self) -> usize {
        match &self.job {
            Job::Read(_) | Job::Discard(_) => 1,
            Job::Write(slices, _) => slices.len(),
        }
    }

    /// Bytes of an I/O that it is merged into, at most.
    fn merged_max_bytes(&self) -> u64 {
        if matches!(self.job, Job::Write(..)) { MERGED_WRITE_MAX_BYTES } else { MERGED_MAX_BYTES }
    }

    fn may_merge(&self) -> bool {
        match self.job {
            Job::Write(..) => true,
            Job::Read(len) => len <= MERGED_READ_MAX_BYTES,
            Job::Discard(_) => false,
        }
    }

    /// Whether `next` may follow this one in the same I/O.
    fn joins(&self, next: &Self) -> bool {
        let Some(gap) = next.offset.get().checked_sub(self.end()) else { return false };
        let gap_max = if matches!(self.job, Job::Read(_)) { READ_GAP_MAX_BYTES } else { 0 };
        self.kind() == next.kind() && gap <= gap_max && next.may_merge()
    }
}

/// Kind, offset, and a number that tells equals apart and says who came first.
type Key = (u8, u64, u64);

/// One class's share of a device. `T` is whom to tell when a request's turn has come.
struct Lane<T> {
    /// By [`IoOp`].
    in_flight: [usize; 3],
    by_place: BTreeMap<Key, (Request, T)>,
    by_age: BTreeMap<u64, Key>,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { in_flight: [0; 3], by_place: BTreeMap::new(), by_age: BTreeMap::new() }
    }
}

impl<T> Lane<T> {
    fn in_flight(&self) -> usize {
        self.in_flight.iter().sum()
    }

    fn take(&mut self, serial: u64) -> Option<(Request, T)> {
        let key = self.by_age.remove(&serial)?;
        self.by_place.remove(&key)
    }

    /// Who has waited longest, and the neighbours of that one in order of place.
    fn take_oldest_with_neighbours(&mut self) -> Vec<(Request, T)> {
        let Some((_, &oldest)) = self.by_age.first_key_value() else { return Vec::new() };
        let run = self.run_around(oldest);
        run.into_iter().filter_map(|(.., serial)| self.take(serial)).collect()
    }

    fn run_around(&self, oldest: Key) -> Vec<Key> {
        let mut run = vec![oldest];
        let first = &self.by_place[&oldest].0;
        if !first.may_merge() {
            return run;
        }
        let most = first.merged_max_bytes();
        let (mut start, mut end, mut slices) = (first.offset.get(), first.end(), first.slices());
        let mut last = first;
        for (key, (next, _)) in self.by_place.range((oldest.0, oldest.1, oldest.2 + 1)..(oldest.0 + 1, 0, 0))
        {
            slices += next.slices();
            if !last.joins(next) || next.end() - start > most || slices > SLICES_MAX {
                break;
            }
            run.push(*key);
            end = next.end();
            last = next;
        }
        let mut last = first;
        for (key, (before, _)) in self.by_place.range((oldest.0, 0, 0)..oldest).rev() {
            slices += before.slices();
            let fits = end - before.offset.get() <= most && slices <= SLICES_MAX;
            if !before.may_merge() || !before.joins(last) || !fits {
                break;
            }
            run.insert(0, *key);
            start = before.offset.get();
            last = before;
        }
        debug_assert!(start <= oldest.1);
        run
    }
}

/// A device has been left alone by who is urgent once it has done so many I/Os of other classes since. Whoever waits for log
/// blocks asks for the next ones a moment after the last are done: if the device were filled up in that moment, they would
/// wait for all of it.
const CALM: usize = 32;

/// The state of one device's queue.
pub(super) struct Lanes<T> {
    bounds: Bounds,
    lanes: [Lane<T>; 4],
    total: usize,
    serial: u64,
    /// I/Os of other classes that were done since the last synchronous one began, up to [`CALM`].
    calm: usize,
}

impl<T> Lanes<T> {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, lanes: std::array::from_fn(|_| Lane::default()), total: 0, serial: 0, calm: CALM }
    }

    fn may_start(&self, class: IoClass) -> bool {
        let (bound, flying) = (self.bounds.classes[class as usize], self.lanes[class as usize].in_flight());
        let is_calm = self.calm >= CALM && self.lanes[IoClass::Sync as usize].in_flight() == 0;
        let beside_sync = class != IoClass::Sync && !is_calm;
        let max = if beside_sync { bound.max_beside_sync } else { bound.max };
        flying < bound.min || (flying < max && self.total < self.bounds.total)
    }

    /// Takes a place at the device if there is one and nobody of the class waits for it.
    pub fn try_start(&mut self, class: IoClass, op: IoOp) -> bool {
        let goes = self.lanes[class as usize].by_age.is_empty() && self.may_start(class);
        if goes {
            self.started(class, op);
        }
        goes
    }

    fn started(&mut self, class: IoClass, op: IoOp) {
        self.lanes[class as usize].in_flight[op as usize] += 1;
        self.total += 1;
        if class == IoClass::Sync {
            self.calm = 0;
        }
    }

    /// Gives a place back.
    pub fn ended(&mut self, class: IoClass, op: IoOp) {
        self.lanes[class as usize].in_flight[op as usize] -= 1;
        self.total -= 1;
        if class != IoClass::Sync {
            self.calm = CALM.min(self.calm + 1);
        }
    }

    /// Lets a request wait; gives the number it is known by.
    pub fn wait(&mut self, class: IoClass, request: Request, whom: T) -> u64 {
        self.serial += 1;
        let key = (request.kind(), request.offset.get(), self.serial);
        let lane = &mut self.lanes[class as usize];
        lane.by_age.insert(self.serial, key);
        lane.by_place.insert(key, (request, whom));
        self.serial
    }

    /// Forgets a request that nobody wants any more.
    pub fn forget(&mut self, class: IoClass, serial: u64) {
        self.lanes[class as usize].take(serial);
    }

    /// Whose turn it is: requests of one class that go as one I/O, with its place taken.
    pub fn next(&mut self) -> Option<(IoClass, Vec<(Request, T)>)> {
        let waits = |class: &IoClass| !self.lanes[*class as usize].by_age.is_empty();
        let class = IoClass::ALL.into_iter().find(|class| waits(class) && self.may_start(*class))?;
        let group = self.lanes[class as usize].take_oldest_with_neighbours();
        self.started(class, group[0].0.op());
        Some((class, group))
    }

    /// How many of each priority there are, in the order of [`Priority::ALL`].
    pub fn now(&self) -> [InQueue; 6] {
        let mut now = [InQueue::default(); 6];
        for (lane, class) in self.lanes.iter().zip(IoClass::ALL) {
            for op in [IoOp::Read, IoOp::Write, IoOp::Discard] {
                now[Priority::of(class, op) as usize].active += lane.in_flight[op as usize] as u64;
            }
            for (request, _) in lane.by_place.values() {
                now[Priority::of(class, request.op()) as usize].pending += 1;
            }
        }
        now
    }

    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.by_age.len()).sum()
    }
}
