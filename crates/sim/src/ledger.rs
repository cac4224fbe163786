//! What a power cut could leave of each disk, kept up to date event by event.
//!
//! ```text
//!   begun ──► in flight ──ended──► in the cache ──flush, FUA──► durable
//!                 └────────── at risk ──────────┘               one content only
//! ```
//! A discard is a write of whatever the disk makes of the range, and at risk like one.
//! A write at risk may be there after a cut, or not, or in part. A durable write hides the
//! older ones at risk below it: a cache holds one content per sector, and newer than that
//! is on the medium. (test: `a_durable_write_is_not_undone_by_an_older_one_at_risk`)

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::history::{DiskId, Event, FlushResult};
use crate::pages::Pages;

/// A write that a power cut could take back.
#[derive(Clone)]
pub(crate) struct AtRisk {
    pub(crate) offset: u64,
    pub(crate) data: Arc<[u8]>,
    /// What no later durable write hides, in bytes from the start of the disk.
    visible: Vec<Range<u64>>,
    /// True if no later flush makes the write stable, because a flush failed or a part of the cache
    /// was lost.
    is_forsaken: bool,
}

impl AtRisk {
    fn all(&self) -> Range<u64> {
        self.offset..self.offset + self.data.len() as u64
    }

    /// Puts the bytes of `part` (from the start of the disk) on `pages`, where not hidden.
    fn put(&self, pages: &mut Pages, part: Range<u64>) {
        for range in &self.visible {
            let range = range.start.max(part.start)..range.end.min(part.end);
            if range.start < range.end {
                let inside = (range.start - self.offset) as usize..(range.end - self.offset) as usize;
                pages.write(range.start, &self.data[inside]);
            }
        }
    }

    fn hide(&mut self, by: &Range<u64>) {
        let old = std::mem::take(&mut self.visible);
        for range in old {
            for rest in [range.start..range.end.min(by.start), range.start.max(by.end)..range.end] {
                if rest.start < rest.end {
                    self.visible.push(rest);
                }
            }
        }
    }
}

/// What becomes of a write at risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Lost,
    Kept,
    /// Only the first that many bytes.
    Head(u64),
    /// All but the first that many bytes.
    Tail(u64),
}

/// Where a write lies among those at risk: when it ended, or [`IN_FLIGHT`]; and its number.
type Place = (u64, u64);

/// Later than all that have ended.
const IN_FLIGHT: u64 = u64::MAX;
/// Stretches of the disk by which writes are found again.
const STRETCH_BYTES: u64 = 256 << 10;

/// One disk's durable content and the writes at risk.
#[derive(Clone, Default)]
pub(crate) struct DiskLedger {
    durable: Pages,
    /// In the order in which they would lie over one another.
    at_risk: BTreeMap<Place, AtRisk>,
    /// Which writes at risk touch a stretch of the disk.
    touching: BTreeMap<u64, BTreeSet<Place>>,
    ended: u64,
    /// Flushes under way, with how many writes had ended when they began.
    flushes: BTreeMap<u64, u64>,
}

impl DiskLedger {
    pub(crate) fn with_content(content: Pages) -> Self {
        Self { durable: content, ..Self::default() }
    }

    /// The writes at risk, in the order in which they would lie over one another.
    pub(crate) fn at_risk(&self) -> impl ExactSizeIterator<Item = &AtRisk> {
        self.at_risk.values()
    }

    /// The content after a cut: one fate for each write of [`DiskLedger::at_risk`].
    pub(crate) fn image(&self, fates: &[Fate]) -> Pages {
        assert_eq!(fates.len(), self.at_risk.len());
        let mut pages = self.durable.clone();
        for (write, fate) in self.at_risk().zip(fates) {
            let Range { start, end } = write.all();
            match *fate {
                Fate::Lost => {}
                Fate::Kept => write.put(&mut pages, start..end),
                Fate::Head(bytes) => write.put(&mut pages, start..start + bytes),
                Fate::Tail(bytes) => write.put(&mut pages, start + bytes..end),
            }
        }
        pages
    }

    /// Returns the contents that reads find: all completed writes, stable or not.
    pub(crate) fn content(&self) -> Pages {
        let mut pages = self.durable.clone();
        for (_, write) in self.at_risk.range(..(IN_FLIGHT, 0)) {
            write.put(&mut pages, write.all());
        }
        pages
    }

    /// Returns the numbers of the writes that are done but not stable.
    pub(crate) fn cached(&self) -> Vec<u64> {
        self.at_risk.range(..(IN_FLIGHT, 0)).map(|((_, write), _)| *write).collect()
    }

    /// Forgets these writes, which are done but not stable. No flush makes the other cached writes
    /// stable.
    fn lose(&mut self, writes: &[u64]) {
        let cached: Vec<Place> = self.at_risk.range(..(IN_FLIGHT, 0)).map(|(place, _)| *place).collect();
        for place in cached {
            if writes.contains(&place.1) {
                self.remove(place);
            } else if let Some(left) = self.at_risk.get_mut(&place) {
                left.is_forsaken = true;
            }
        }
    }

    fn insert(&mut self, place: Place, write: AtRisk) {
        for stretch in stretches(&write.all()) {
            self.touching.entry(stretch).or_default().insert(place);
        }
        self.at_risk.insert(place, write);
    }

    fn remove(&mut self, place: Place) -> AtRisk {
        let write = self.at_risk.remove(&place).expect("a write that ends has begun");
        for stretch in stretches(&write.all()) {
            let places = self.touching.get_mut(&stretch).expect("it was noted there");
            places.remove(&place);
            if places.is_empty() {
                self.touching.remove(&stretch);
            }
        }
        write
    }

    fn begin(&mut self, write: u64, offset: u64, data: &Arc<[u8]>) {
        let all = offset..offset + data.len() as u64;
        let at_risk = AtRisk { offset, data: Arc::clone(data), visible: vec![all], is_forsaken: false };
        self.insert((IN_FLIGHT, write), at_risk);
    }

    fn end(&mut self, number: u64, durable: bool) {
        self.ended += 1;
        let write = self.remove((IN_FLIGHT, number));
        let place = (self.ended, number);
        if durable {
            self.save(place, &write);
        } else {
            self.insert(place, write);
        }
    }

    /// Puts `write` on the medium. It hides what ended before it.
    fn save(&mut self, place: Place, write: &AtRisk) {
        write.put(&mut self.durable, write.all());
        for range in &write.visible {
            self.hide(range, place);
        }
    }

    /// Hides `range` of all writes that come before `before`; forgets those of which
    /// nothing is left.
    fn hide(&mut self, range: &Range<u64>, before: Place) {
        let earlier = stretches(range).filter_map(|stretch| self.touching.get(&stretch));
        let earlier: BTreeSet<Place> = earlier.flat_map(|places| places.range(..before)).copied().collect();
        for place in earlier {
            let write = self.at_risk.get_mut(&place).expect("noted places hold writes");
            write.hide(range);
            if write.visible.is_empty() {
                self.remove(place);
            }
        }
    }

    fn end_flush(&mut self, flush: u64, result: FlushResult) {
        let covers = self.flushes.remove(&flush).expect("a flush that ends has begun");
        let covered = self.at_risk.range_mut(..(covers + 1, 0));
        match result {
            FlushResult::Lie => {}
            FlushResult::Failed => covered.for_each(|(_, write)| write.is_forsaken = true),
            FlushResult::Honest => {
                let saved: Vec<Place> =
                    covered.filter(|(_, write)| !write.is_forsaken).map(|(&place, _)| place).collect();
                for place in saved {
                    let write = self.remove(place);
                    self.save(place, &write);
                }
            }
        }
    }

    fn rot(&mut self, offset: u64, data: &[u8]) {
        self.durable.write(offset, data);
        // What is still under way comes after this.
        self.hide(&(offset..offset + data.len() as u64), (IN_FLIGHT, 0));
    }
}

/// The numbers of the stretches that `range` touches.
fn stretches(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    range.start / STRETCH_BYTES..range.end.div_ceil(STRETCH_BYTES)
}

/// All disks of a world.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    disks: Vec<DiskLedger>,
}

impl Ledger {
    pub(crate) fn add_disk(&mut self, content: Pages) {
        self.disks.push(DiskLedger::with_content(content));
    }

    pub(crate) fn disks(&self) -> &[DiskLedger] {
        &self.disks
    }

    pub(crate) fn disk(&self, disk: DiskId) -> &DiskLedger {
        &self.disks[disk]
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::WriteBegun { disk, write, offset, data, .. }
            | Event::DiscardBegun { disk, write, offset, data } => {
                self.disks[*disk].begin(*write, *offset, data);
            }
            Event::WriteEnded { disk, write, durable } => self.disks[*disk].end(*write, *durable),
            Event::FlushBegun { disk, flush } => {
                let disk = &mut self.disks[*disk];
                disk.flushes.insert(*flush, disk.ended);
            }
            Event::FlushEnded { disk, flush, result } => self.disks[*disk].end_flush(*flush, *result),
            Event::Rotted { disk, offset, data } => self.disks[*disk].rot(*offset, data),
            Event::CacheLost { disk, writes } => self.disks[*disk].lose(writes),
            Event::Marked(_) => {}
        }
    }
}
