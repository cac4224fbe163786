//! The logs of a device: what tells a later import which blocks are there.

use std::collections::VecDeque;
use std::ops::Range;

use ondisk::l2arc::{EntryPhys, LOG_BYTES, LOG_ENTRIES_MAX, Log, LogPointerPhys};
use ondisk::{ChecksumKind, CompressionKind};
use units::Ashift;

use crate::ring::meets;

/// A block is 16 MiB at most, and a log with all its blocks has to fit the device.
const BLOCK_MAX_SHIFT: u32 = 24;

/// Entries of each log on a device with so many bytes of room, as OpenZFS has them; it keeps no logs on devices of less
/// than 1 GiB, and takes those for new that have some.
pub(crate) fn entries_per_log(room: u64) -> usize {
    usize::try_from(room >> BLOCK_MAX_SHIFT).unwrap_or(LOG_ENTRIES_MAX).clamp(1, LOG_ENTRIES_MAX)
}

/// Those of one device.
pub(crate) struct Logs {
    entries_per_log: usize,
    /// What the next one will name.
    open: Vec<EntryPhys>,
    payload_start: u64,
    payload_bytes: u64,
    /// Those that lie there whole, with their blocks, oldest first.
    kept: VecDeque<LogPointerPhys>,
    newest: [LogPointerPhys; 2],
}

impl Logs {
    pub(crate) fn new(entries_per_log: usize) -> Self {
        Self {
            entries_per_log,
            open: Vec::new(),
            payload_start: 0,
            payload_bytes: 0,
            kept: VecDeque::new(),
            newest: Default::default(),
        }
    }

    /// As they were found, newest first.
    pub(crate) fn resumed(
        entries_per_log: usize,
        newest: [LogPointerPhys; 2],
        found: Vec<LogPointerPhys>,
    ) -> Self {
        let kept = found.into_iter().rev().collect();
        Self { kept, newest, ..Self::new(entries_per_log) }
    }

    pub(crate) fn entries_per_log(&self) -> usize {
        self.entries_per_log
    }

    pub(crate) fn newest(&self) -> [LogPointerPhys; 2] {
        self.newest
    }

    /// How many lie there, and their bytes.
    pub(crate) fn kept(&self) -> (u64, u64) {
        let bytes = self.kept.iter().map(LogPointerPhys::stored_bytes).sum();
        (self.kept.len() as u64, bytes)
    }

    /// How many are finished when so many blocks come, at most.
    pub(crate) fn finished_by(&self, blocks: usize) -> usize {
        (self.open.len() + blocks) / self.entries_per_log
    }

    /// Whether blocks wait for a log to name them.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Notes a block of `asize` bytes at `offset`; whether the log is full.
    pub(crate) fn add(&mut self, entry: EntryPhys, offset: u64, asize: u64) -> bool {
        if self.open.is_empty() {
            (self.payload_start, self.payload_bytes) = (offset, 0);
        }
        self.payload_bytes += asize;
        self.open.push(entry);
        self.open.len() == self.entries_per_log
    }

    /// Ends the log, which is to lie at `offset`; gives its bytes, whole sectors. A log that is not full names its last
    /// block again and again: whoever reads it takes all its entries for blocks, and one that he knows for known.
    pub(crate) fn finish(&mut self, offset: u64, ashift: Ashift) -> Vec<u8> {
        let mut entries = std::mem::take(&mut self.open);
        if let Some(last) = entries.last().copied() {
            entries.resize(self.entries_per_log, last);
        }
        let (bytes, kind) = packed(Log { before: self.newest[1], entries }.encode(), ashift);
        let checksum =
            codec::checksum(ChecksumKind::Fletcher4, &bytes, None).expect("fletcher4 needs no salt");
        let payload = (self.payload_start, self.payload_bytes);
        let pointer = LogPointerPhys::new(offset, &bytes, kind, checksum, payload);
        self.newest = [pointer, self.newest[0]];
        self.kept.push_back(pointer);
        bytes
    }

    /// Forgets those that lie within `range`, or whose blocks do.
    pub(crate) fn forget_range(&mut self, range: &Range<u64>) {
        let is_hit = |log: &LogPointerPhys| meets(log.payload_start.get(), log.end(), range);
        while self.kept.front().is_some_and(is_hit) {
            self.kept.pop_front();
        }
    }
}

/// Compressed if that saves a sector, and padded to whole ones.
fn packed(bytes: Vec<u8>, ashift: Ashift) -> (Vec<u8>, CompressionKind) {
    let sector = usize::try_from(ashift.round_up(1)).unwrap_or(LOG_BYTES);
    let most = LOG_BYTES.saturating_sub(sector);
    match codec::compress(CompressionKind::Lz4, &bytes, most) {
        Some(mut compressed) => {
            compressed.resize(compressed.len().next_multiple_of(sector), 0);
            (compressed, CompressionKind::Lz4)
        }
        None => (bytes, CompressionKind::Off),
    }
}
