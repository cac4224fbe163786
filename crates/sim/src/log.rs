//! The history in the making.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::DiskSpec;
use crate::history::{DiskId, Event, Mark};
use crate::ledger::Ledger;
use crate::pages::Pages;
use crate::recording::Recording;

#[derive(Default)]
struct Inner {
    cards: Vec<DiskCard>,
    /// What was, where the recording begins.
    base: Ledger,
    base_marks: Vec<Mark>,
    is_recording: bool,
    events: Vec<Event>,
    marks: Vec<Mark>,
    /// What is.
    ledger: Ledger,
}

/// What is known of a disk for good.
#[derive(Clone)]
pub(crate) struct DiskCard {
    pub(crate) path: std::path::PathBuf,
    pub(crate) spec: DiskSpec,
}

/// Shared by the world and its disks.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Inner>>);

impl Log {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Inner { is_recording: true, ..Inner::default() })))
    }

    pub(crate) fn add_disk(&self, card: DiskCard, content: Pages) -> DiskId {
        let mut inner = self.0.lock();
        inner.cards.push(card);
        inner.base.add_disk(content.clone());
        inner.ledger.add_disk(content);
        inner.cards.len() - 1
    }

    pub(crate) fn add(&self, event: Event) {
        let mut inner = self.0.lock();
        inner.ledger.apply(&event);
        if let Event::Marked(mark) = &event {
            inner.marks.push(mark.clone());
        }
        if inner.is_recording {
            inner.events.push(event);
        }
    }
}

impl Log {
    /// Forgets what was recorded; from now on records, or does not.
    pub(crate) fn restart(&self, records: bool) {
        let mut inner = self.0.lock();
        let inner = &mut *inner;
        inner.is_recording = records;
        inner.events.clear();
        inner.base = inner.ledger.clone();
        inner.base_marks = inner.marks.clone();
    }

    pub(crate) fn recording(&self, seed: u64) -> Recording {
        let inner = self.0.lock();
        Recording {
            seed,
            cards: inner.cards.clone().into(),
            base: inner.base.clone(),
            base_marks: inner.base_marks.clone(),
            events: inner.events.clone(),
        }
    }

    pub(crate) fn marks(&self) -> Vec<Mark> {
        self.0.lock().marks.clone()
    }

    /// The present without a past: its one cut is now.
    pub(crate) fn present(&self, seed: u64) -> Recording {
        let inner = self.0.lock();
        Recording {
            seed,
            cards: inner.cards.clone().into(),
            base: inner.ledger.clone(),
            base_marks: inner.marks.clone(),
            events: Vec::new(),
        }
    }

    /// Returns the writes of that disk that are done but not stable.
    pub(crate) fn cached(&self, disk: DiskId) -> Vec<u64> {
        self.0.lock().ledger.disk(disk).cached()
    }

    /// Returns the contents that reads of that disk find.
    pub(crate) fn content(&self, disk: DiskId) -> Pages {
        self.0.lock().ledger.disk(disk).content()
    }

    /// How many writes of that disk a power cut now could take back.
    pub(crate) fn at_risk(&self, disk: DiskId) -> usize {
        self.0.lock().ledger.disk(disk).at_risk().len()
    }
}
