//! What a power cut could leave of each disk, kept up to date event by event.
//!
//! ```text
//!   begun ──► in flight ──ended──► in the cache ──flush, FUA──► durable
//!                 └────────── at risk ──────────┘               one content only
//! ```
//! A write at risk may be there after a cut, or not, or in part. A durable write hides the
//! older ones at risk below it: a cache holds one content per sector, and newer than that
//! is on the medium. (test: `a_durable_write_is_not_undone_by_an_older_one_at_risk`)

use std::ops::Range;
use std::sync::Arc;

use crate::history::{DiskId, Event, FlushResult};
use crate::pages::Pages;

/// A write that a power cut could take back.
#[derive(Clone)]
pub(crate) struct AtRisk {
    pub(crate) write: u64,
    pub(crate) offset: u64,
    pub(crate) data: Arc<[u8]>,
    /// What no later durable write hides, in bytes from the start of the disk.
    visible: Vec<Range<u64>>,
    /// Position in the order in which writes ended; `None` in flight.
    ended: Option<u64>,
    /// A flush that should have saved it failed: no later one does.
    is_forsaken: bool,
}

impl AtRisk {
    fn len(&self) -> u64 {
        self.data.len() as u64
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

/// One disk's durable content and the writes at risk.
#[derive(Clone, Default)]
pub(crate) struct DiskLedger {
    durable: Pages,
    at_risk: Vec<AtRisk>,
    ended: u64,
    /// Flushes under way, with how many writes had ended when they began.
    flushes: Vec<(u64, u64)>,
}

impl DiskLedger {
    pub(crate) fn with_content(content: Pages) -> Self {
        Self { durable: content, ..Self::default() }
    }

    /// The writes at risk, in the order in which they would lie over one another.
    pub(crate) fn at_risk(&self) -> &[AtRisk] {
        &self.at_risk
    }

    /// The content after a cut: one fate for each write of [`DiskLedger::at_risk`].
    pub(crate) fn image(&self, fates: &[Fate]) -> Pages {
        assert_eq!(fates.len(), self.at_risk.len());
        let mut pages = self.durable.clone();
        for (write, fate) in self.at_risk.iter().zip(fates) {
            let (start, end) = (write.offset, write.offset + write.len());
            match *fate {
                Fate::Lost => {}
                Fate::Kept => write.put(&mut pages, start..end),
                Fate::Head(bytes) => write.put(&mut pages, start..start + bytes),
                Fate::Tail(bytes) => write.put(&mut pages, start + bytes..end),
            }
        }
        pages
    }

    fn begin(&mut self, write: u64, offset: u64, data: &Arc<[u8]>) {
        let all = offset..offset + data.len() as u64;
        self.at_risk.push(AtRisk {
            write,
            offset,
            data: Arc::clone(data),
            visible: vec![all],
            ended: None,
            is_forsaken: false,
        });
    }

    fn end(&mut self, write: u64, durable: bool) {
        self.ended += 1;
        // Those in flight come last.
        let at = self.at_risk.iter().rposition(|other| other.write == write);
        let mut write = self.at_risk.remove(at.expect("a write that ends has begun"));
        write.ended = Some(self.ended);
        if durable {
            self.save(&write);
        } else {
            let in_flight = self.at_risk.partition_point(|other| other.ended.is_some());
            self.at_risk.insert(in_flight, write);
        }
    }

    /// Puts `write` on the medium. It hides what ended before it.
    fn save(&mut self, write: &AtRisk) {
        let all = write.offset..write.offset + write.len();
        write.put(&mut self.durable, all.clone());
        for older in
            self.at_risk.iter_mut().filter(|other| other.ended.is_some_and(|n| Some(n) < write.ended))
        {
            for range in &write.visible {
                older.hide(range);
            }
        }
        self.at_risk.retain(|other| !other.visible.is_empty() || other.ended.is_none());
    }

    fn end_flush(&mut self, flush: u64, result: FlushResult) {
        let at = self.flushes.iter().position(|&(other, _)| other == flush);
        let (_, covers) = self.flushes.remove(at.expect("a flush that ends has begun"));
        let is_covered = |write: &AtRisk| write.ended.is_some_and(|n| n <= covers);
        match result {
            FlushResult::Lie => {}
            FlushResult::Failed => {
                for write in self.at_risk.iter_mut().filter(|write| is_covered(write)) {
                    write.is_forsaken = true;
                }
            }
            FlushResult::Honest => {
                let (saved, rest) = std::mem::take(&mut self.at_risk)
                    .into_iter()
                    .partition(|write| is_covered(write) && !write.is_forsaken);
                self.at_risk = rest;
                let saved: Vec<AtRisk> = saved;
                for write in &saved {
                    self.save(write);
                }
            }
        }
    }

    fn rot(&mut self, offset: u64, data: &[u8]) {
        self.durable.write(offset, data);
        let range = offset..offset + data.len() as u64;
        // What is still under way comes after this.
        for write in self.at_risk.iter_mut().filter(|write| write.ended.is_some()) {
            write.hide(&range);
        }
    }
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
            Event::WriteBegun { disk, write, offset, data, .. } => {
                self.disks[*disk].begin(*write, *offset, data);
            }
            Event::WriteEnded { disk, write, durable } => self.disks[*disk].end(*write, *durable),
            Event::FlushBegun { disk, flush } => {
                let disk = &mut self.disks[*disk];
                disk.flushes.push((*flush, disk.ended));
            }
            Event::FlushEnded { disk, flush, result } => self.disks[*disk].end_flush(*flush, *result),
            Event::Rotted { disk, offset, data } => self.disks[*disk].rot(*offset, data),
            Event::Marked(_) => {}
        }
    }
}
