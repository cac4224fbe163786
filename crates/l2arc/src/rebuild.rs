//! What is on a device that was in use before: its logs, read from the newest to the oldest that still counts.

use codec::{checksum, decompress};
use env::boxed;
use ondisk::l2arc::{
    EntryPhys, FLAG_FIRST_LAP, HEADER_OFFSET, HeaderPhys, LOG_BYTES, LOG_ENTRIES_MAX, Log, LogPointerPhys,
};
use ondisk::label::label_verifier;
use ondisk::{ChecksumKind, CompressionKind};
use units::LeafOffset;
use vdev::label::verify_part;

use crate::CacheDevice;
use crate::index::{Name, Place};
use crate::logs::Logs;
use crate::ring::Ring;
use crate::stats::count;

/// A header that is one of ours.
struct Found {
    ring: Ring,
    log_entries: usize,
    newest: [LogPointerPhys; 2],
}

impl CacheDevice {
    /// Finds what an earlier import has left there; where nothing can be made of it the device is made as new. Blocks can be
    /// read as soon as they are found.
    #[boxed]
    pub async fn rebuild(&self) {
        let mut tape = self.tape.lock().await;
        let Some(found) = self.find(&tape.ring).await else {
            drop(tape);
            if self.is_writable()
                && let Err(error) = self.start_anew().await
            {
                tracing::warn!(path = %self.leaf.path().display(), %error, "no header written");
            }
            return;
        };
        let (logs, blocks) = self.take_up(&found).await;
        count(&self.counters.rebuilt, blocks);
        // Without logs to go on from, the next one names none before it.
        let newest = if logs.is_empty() { Default::default() } else { found.newest };
        tape.logs = Logs::resumed(found.log_entries, newest, logs);
        tape.ring = found.ring;
        tracing::info!(path = %self.leaf.path().display(), blocks, "cache device read");
    }

    /// The header, if it is of this device and pool.
    async fn find(&self, ring: &Ring) -> Option<Found> {
        let sector = self.leaf.read(HEADER_OFFSET, self.header_len()).await.ok()?;
        let header = HeaderPhys::decode(&sector).ok()?;
        let is_ours = verify_part(&sector, label_verifier(HEADER_OFFSET))
            && header.pool.get() == self.pool.get()
            && header.device.get() == self.leaf.guid().get()
            && (header.start.get(), header.end.get()) == (ring.start(), ring.end());
        let log_entries = usize::try_from(header.log_entries.get()).ok()?;
        if !is_ours || !(1..=LOG_ENTRIES_MAX).contains(&log_entries) {
            return None;
        }
        let newest = header.newest;
        let hand = if newest[0].is_some() { newest[0].end() } else { ring.start() };
        let is_first_lap = header.flags.get() & FLAG_FIRST_LAP != 0;
        let ring = Ring::resumed(ring.start(), ring.end(), hand, header.evict.get(), is_first_lap)?;
        Some(Found { ring, log_entries, newest })
    }

    /// Reads the logs and notes their blocks; gives the logs, newest first, and how many blocks there are.
    async fn take_up(&self, found: &Found) -> (Vec<LogPointerPhys>, u64) {
        let (mut logs, mut blocks) = (Vec::new(), 0);
        let [mut this, mut next] = found.newest;
        let mut age = 0;
        while self.is_open() && this.is_some() && is_whole(&found.ring, &this, age) {
            let Some(log) = self.read_log(&this, found.log_entries).await else { break };
            age = behind(&found.ring, this.payload_start.get());
            blocks = self.note_blocks(&found.ring, &this, &log);
            logs.push(this);
            (this, next) = (next, log.before);
        }
        (logs, blocks)
    }

    /// Notes the blocks of a log; gives how many there are by now.
    fn note_blocks(&self, ring: &Ring, pointer: &LogPointerPhys, log: &Log) -> u64 {
        let mut index = self.index.lock();
        for entry in log.entries.iter().rev() {
            if let Some((name, place)) = self.place(ring, pointer, entry) {
                index.add_oldest(name, place);
            }
        }
        index.blocks() as u64
    }

    async fn read_log(&self, pointer: &LogPointerPhys, entries: usize) -> Option<Log> {
        let len = usize::try_from(pointer.stored_bytes()).ok().filter(|&len| len <= LOG_BYTES)?;
        let bytes = self.leaf.read(LeafOffset::new(pointer.offset.get()), len).await.ok()?;
        if checksum(ChecksumKind::Fletcher4, &bytes, None).ok()? != pointer.checksum() {
            return None;
        }
        match pointer.compression()? {
            CompressionKind::Off => Log::decode(&bytes, entries).ok(),
            kind => Log::decode(&decompress(kind, &bytes, LOG_BYTES).ok()?, entries).ok(),
        }
    }

    /// The name and place of a block that lies where its log says.
    fn place(&self, ring: &Ring, log: &LogPointerPhys, entry: &EntryPhys) -> Option<(Name, Place)> {
        let (offset, psize) = (entry.offset.get(), entry.psize());
        let end = offset.checked_add(self.ashift.round_up(psize))?;
        let is_its = offset >= ring.start()
            && end <= ring.end()
            && offset.is_multiple_of(self.ashift.round_up(1))
            && behind(ring, offset) <= behind(ring, log.payload_start.get())
            && behind(ring, offset) > behind(ring, log.offset.get())
            && ring.holds(offset, end);
        let name = Name { dva: entry.dva, birth: entry.birth.get() };
        is_its.then_some((name, Place { offset, psize: u32::try_from(psize).ok()? }))
    }
}

/// How far behind the hand a place is, backwards round the ring.
fn behind(ring: &Ring, at: u64) -> u64 {
    match ring.hand().checked_sub(at) {
        Some(distance) => distance,
        None => ring.bytes() - at.min(ring.end()).saturating_sub(ring.hand()),
    }
}

/// Whether a log and its blocks are there, and older than what is `age` bytes behind the hand.
fn is_whole(ring: &Ring, log: &LogPointerPhys, age: u64) -> bool {
    let (start, end) = (log.payload_start.get(), log.end());
    ring.holds(start, end)
        && (ring.start()..=ring.end()).contains(&log.offset.get())
        && behind(ring, start) > behind(ring, end)
        && behind(ring, end) >= age
}
