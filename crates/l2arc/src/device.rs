//! A cache device in use: blocks go there in a row, and come back by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use env::{BufSlice, Durability, Env, IoBuf, OpenMode, boxed};
use event_listener::{Event, EventListener};
use futures::future::{Either, select};
use ondisk::Blkptr;
use ondisk::l2arc::{
    EntryParts, EntryPhys, FLAG_FIRST_LAP, HEADER_MAGIC, HEADER_OFFSET, HeaderPhys, LOG_BYTES, VERSION,
};
use ondisk::label::label_verifier;
use parking_lot::Mutex;
use units::{Ashift, Guid, LABEL_START_BYTES, LeafOffset};
use vdev::label::seal_part;
use vdev::{Leaf, VdevAux, VdevError, VdevState, leaf_asize};

use crate::index::{Index, Name, Place};
use crate::logs::{Logs, entries_per_log};
use crate::ring::Ring;
use crate::stats::{Counters, count};

/// A block goes there if it takes no more than this part of the device.
const BLOCK_FRACTION: u64 = 8;
/// What comes next is forgotten in such parts of the device at a time, for the header has to say so first.
const AHEAD_FRACTION: u64 = 64;
/// A device that takes longer than this for a block is not waited for: the pool has it, too.
const PATIENCE: Duration = Duration::from_millis(100);
/// And is left alone for so long then.
const REST: Duration = Duration::from_secs(1);

/// A device that fails so many reads in a row is of no use. (ZFS's fault management gives a device up after ten errors.)
const FAILURES_MAX: u32 = 10;

/// A block to be written: the bytes that the pool stores it as.
#[derive(Clone, Debug)]
pub struct Stored {
    /// What it is.
    pub bp: Blkptr,
    /// Its `bp.psize()` bytes.
    pub bytes: Arc<IoBuf>,
}

/// Where the next block goes, and what names those that are there. Who has it is the only one who writes.
pub(crate) struct Tape {
    pub(crate) ring: Ring,
    pub(crate) logs: Logs,
}

/// A cache device.
pub struct CacheDevice {
    env: Arc<dyn Env>,
    pub(crate) leaf: Arc<Leaf>,
    pub(crate) ashift: Ashift,
    pub(crate) pool: Guid,
    mode: OpenMode,
    pub(crate) index: Mutex<Index>,
    pub(crate) tape: async_lock::Mutex<Tape>,
    room_bytes: u64,
    is_first_lap: AtomicBool,
    is_closing: AtomicBool,
    closing: Event,
    /// Nothing is read there before this time (ns of [`Env::now`]).
    rests_until: AtomicU64,
    /// Reads that failed since one did not.
    failures: AtomicU32,
    pub(crate) counters: Arc<Counters>,
}

impl CacheDevice {
    /// A device that is open as `leaf` in this mode, with sectors of this size, for blocks of this pool. Nothing is there until
    /// [`Self::rebuild`] or [`Self::start_anew`].
    #[must_use]
    pub fn new(env: Arc<dyn Env>, leaf: Arc<Leaf>, mode: OpenMode, ashift: Ashift, pool: Guid) -> Arc<Self> {
        let start = LABEL_START_BYTES + ashift.round_up(1);
        let sectors = leaf_asize(leaf.psize()) >> ashift.get() << ashift.get();
        let ring = Ring::new(start, (LABEL_START_BYTES + sectors).max(start + 1));
        let logs = Logs::new(entries_per_log(ring.bytes()));
        Arc::new(Self {
            env,
            leaf,
            ashift,
            pool,
            mode,
            index: Mutex::default(),
            room_bytes: ring.bytes(),
            tape: async_lock::Mutex::new(Tape { ring, logs }),
            is_first_lap: AtomicBool::new(true),
            is_closing: AtomicBool::new(false),
            closing: Event::new(),
            rests_until: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            counters: Arc::default(),
        })
    }

    /// The device as a part of the pool.
    #[must_use]
    pub fn leaf(&self) -> &Arc<Leaf> {
        &self.leaf
    }

    /// Bytes there are for blocks, and bytes of those that are there.
    #[must_use]
    pub fn room(&self) -> (u64, u64) {
        (self.room_bytes, self.index.lock().bytes())
    }

    /// Whether it can be written to.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.mode == OpenMode::ReadWrite
    }

    pub(crate) fn env(&self) -> &Arc<dyn Env> {
        &self.env
    }

    /// Whether there has not been so much yet that something had to go for it.
    pub(crate) fn is_filling(&self) -> bool {
        self.is_first_lap.load(Relaxed)
    }

    /// Whether blocks may go there.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closing.load(Relaxed) && self.leaf.is_usable()
    }

    /// Its end, which ends who feeds it.
    pub(crate) fn closing(&self) -> EventListener {
        self.closing.listen()
    }

    pub(crate) fn has(&self, name: &Name) -> bool {
        self.index.lock().get(name).is_some()
    }

    /// Bytes that a block takes there.
    fn asize(&self, psize: u64) -> u64 {
        self.ashift.round_up(psize)
    }

    /// Forgets what was there, on the device too.
    ///
    /// # Errors
    /// Those of the device.
    #[boxed]
    pub async fn start_anew(&self) -> Result<(), VdevError> {
        let mut tape = self.tape.lock().await;
        let (ring, entries) = (tape.ring, tape.logs.entries_per_log());
        *tape = Tape { ring: Ring::new(ring.start(), ring.end()), logs: Logs::new(entries) };
        self.index.lock().clear();
        self.put_header(&tape).await
    }

    /// Writes blocks in a row.
    ///
    /// # Errors
    /// Those of the device: it is of no use then.
    ///
    /// # Panics
    /// When `bytes` of a block are not as many as its pointer says.
    #[boxed]
    pub async fn write(&self, blocks: &[Stored]) -> Result<(), VdevError> {
        let mut tape = self.tape.lock().await;
        for run in self.runs(blocks) {
            self.write_run(&mut tape, run).await?;
        }
        Ok(())
    }

    /// Blocks that go there together; those that are too long for the device are left out.
    fn runs<'a>(&self, blocks: &'a [Stored]) -> Vec<&'a [Stored]> {
        let most = self.room_bytes / BLOCK_FRACTION;
        let is_short = |block: &Stored| self.asize(block.bp.psize().get()) <= most;
        let mut runs = Vec::new();
        for mut short in blocks.split(|block| !is_short(block)) {
            while !short.is_empty() {
                let fits = (1..=short.len())
                    .rev()
                    .find(|&count| count == 1 || self.bytes_of(&short[..count]) <= most);
                let (run, rest) = short.split_at(fits.unwrap_or(1));
                runs.push(run);
                short = rest;
            }
        }
        runs
    }

    /// Bytes that blocks take there.
    fn bytes_of(&self, blocks: &[Stored]) -> u64 {
        blocks.iter().map(|block| self.asize(block.bp.psize().get())).sum()
    }

    /// Writes what fits the device several times over.
    async fn write_run(&self, tape: &mut Tape, blocks: &[Stored]) -> Result<(), VdevError> {
        let logs = tape.logs.finished_by(blocks.len());
        let most = self.bytes_of(blocks) + (logs * LOG_BYTES) as u64;
        self.make_room(tape, most).await?;
        let start = tape.ring.hand();
        let mut out = IoBuf::zeroed(usize::try_from(most).unwrap_or(usize::MAX));
        let mut at = 0;
        let mut put = |at: &mut usize, bytes: &[u8], len: u64| {
            out[*at..*at + bytes.len()].copy_from_slice(bytes);
            *at += usize::try_from(len).unwrap_or(usize::MAX);
        };
        let mut places = Vec::with_capacity(blocks.len());
        for block in blocks {
            let psize = block.bp.psize().get();
            assert_eq!(block.bytes.len() as u64, psize, "a block as it is stored");
            let (name, offset, asize) = (Name::of(&block.bp), start + at as u64, self.asize(psize));
            put(&mut at, &block.bytes, asize);
            places.push((name, Place { offset, psize: u32::try_from(psize).unwrap_or(u32::MAX) }));
            if tape.logs.add(entry(block, name, offset), offset, asize) {
                let log = tape.logs.finish(start + at as u64, self.ashift);
                put(&mut at, &log, log.len() as u64);
            }
        }
        out.truncate(at);
        self.put(start, out).await?;
        tape.ring.advance(at as u64);
        self.note(places);
        count(&self.counters.written, blocks.len() as u64);
        count(&self.counters.written_bytes, blocks.iter().map(|block| block.bytes.len() as u64).sum());
        if logs > 0 { self.put_header(tape).await } else { Ok(()) }
    }

    fn note(&self, places: Vec<(Name, Place)>) {
        let mut index = self.index.lock();
        places.into_iter().for_each(|(name, place)| index.add_newest(name, place));
    }

    /// Makes room at the hand. What has to go for it is forgotten here first, then in the header, and then overwritten.
    async fn make_room(&self, tape: &mut Tape, bytes: u64) -> Result<(), VdevError> {
        let ahead = self.ashift.round_up(self.room_bytes / AHEAD_FRACTION);
        let (forgotten, _) = tape.ring.make_room(bytes, ahead);
        self.is_first_lap.store(tape.ring.is_first_lap(), Relaxed);
        if forgotten.is_empty() {
            return Ok(());
        }
        for range in &forgotten {
            self.index.lock().forget_range(range);
            tape.logs.forget_range(range);
        }
        self.put_header(tape).await
    }

    async fn put_header(&self, tape: &Tape) -> Result<(), VdevError> {
        let (ring, (logs, logs_bytes)) = (&tape.ring, tape.logs.kept());
        let header = HeaderPhys {
            magic: HEADER_MAGIC.into(),
            version: VERSION.into(),
            pool: self.pool.get().into(),
            device: self.leaf.guid().get().into(),
            log_entries: (tape.logs.entries_per_log() as u64).into(),
            evict: ring.evict().into(),
            flags: if ring.is_first_lap() { FLAG_FIRST_LAP } else { 0 }.into(),
            start: ring.start().into(),
            end: ring.end().into(),
            newest: tape.logs.newest(),
            logs_bytes: logs_bytes.into(),
            logs: logs.into(),
            ..HeaderPhys::default()
        };
        let mut sector = IoBuf::zeroed(self.header_len());
        header.encode(&mut sector);
        seal_part(&mut sector, label_verifier(HEADER_OFFSET));
        self.put(HEADER_OFFSET.get(), sector).await
    }

    pub(crate) fn header_len(&self) -> usize {
        usize::try_from(self.ashift.round_up(1)).unwrap_or(usize::MAX)
    }

    async fn put(&self, offset: u64, bytes: IoBuf) -> Result<(), VdevError> {
        self.leaf.write(LeafOffset::new(offset), vec![BufSlice::from(bytes)], Durability::Cached).await
    }

    /// The bytes of a block that satisfy `holds`, if they are there and come in time.
    pub(crate) async fn read(&self, bp: &Blkptr, holds: &(dyn Fn(&[u8]) -> bool + Sync)) -> Option<IoBuf> {
        let name = Name::of(bp);
        let place = self.index.lock().get(&name)?;
        let psize = bp.psize().get();
        let is_it = u64::from(place.psize) == psize && self.is_awake() && self.leaf.is_usable();
        if !is_it {
            return None;
        }
        let len = usize::try_from(self.asize(psize)).ok()?;
        let read = Box::pin(self.leaf.read(LeafOffset::new(place.offset), len));
        let mut bytes = match select(read, self.env.sleep(PATIENCE)).await {
            Either::Left((Ok(bytes), _)) => bytes,
            Either::Left((Err(error), _)) => return self.note_failure(&error),
            Either::Right(_) => {
                self.rest();
                count(&self.counters.failed_reads, 1);
                return None;
            }
        };
        self.failures.store(0, Relaxed);
        bytes.truncate(usize::try_from(psize).ok()?);
        if holds(&bytes) {
            count(&self.counters.hits, 1);
            count(&self.counters.read_bytes, psize);
            return Some(bytes);
        }
        // Either it was overwritten while it was read, or it is not what was written: an older import's, perhaps.
        let mut index = self.index.lock();
        if index.get(&name) == Some(place) {
            index.forget(&name);
            count(&self.counters.wrong_bytes, 1);
        }
        None
    }

    fn note_failure<T>(&self, error: &VdevError) -> Option<T> {
        count(&self.counters.failed_reads, 1);
        if self.failures.fetch_add(1, Relaxed) + 1 >= FAILURES_MAX {
            self.fail(error);
        }
        None
    }

    fn is_awake(&self) -> bool {
        nanos(self.env.now()) >= self.rests_until.load(Relaxed)
    }

    fn rest(&self) {
        self.rests_until.store(nanos(self.env.now() + REST), Relaxed);
        tracing::debug!(path = %self.leaf.path().display(), "cache device does not answer in time");
    }

    /// Ends its use: nothing is read or written there any more, and what is there is found again at the next import, if
    /// the device can be written to. Waits for what is being written.
    #[boxed]
    pub async fn close(&self) {
        self.end_feeding();
        let mut tape = self.tape.lock().await;
        if self.is_writable()
            && self.leaf.is_usable()
            && let Err(error) = self.finish(&mut tape).await
        {
            tracing::warn!(path = %self.leaf.path().display(), %error, "cache device not closed well");
        }
        self.forget_all();
        self.leaf.close();
    }

    /// Nothing is found there any more, and nobody feeds it.
    pub fn give_up(&self) {
        self.end_feeding();
        self.forget_all();
    }

    /// The same because of what it did: its leaf is out of use until somebody opens it anew.
    pub fn fail(&self, error: &VdevError) {
        self.give_up();
        if self.leaf.is_usable() {
            tracing::warn!(path = %self.leaf.path().display(), %error, "cache device not used any more");
            self.leaf.take_out_of_use(VdevState::Faulted, VdevAux::IoFailure);
        }
    }

    fn end_feeding(&self) {
        self.is_closing.store(true, Relaxed);
        self.closing.notify(usize::MAX);
    }

    fn forget_all(&self) {
        self.index.lock().clear();
    }

    /// Names all blocks in a log that have none yet.
    async fn finish(&self, tape: &mut Tape) -> Result<(), VdevError> {
        if tape.logs.has_open() {
            let room = LOG_BYTES as u64;
            self.make_room(tape, room).await?;
            let start = tape.ring.hand();
            let log = tape.logs.finish(start, self.ashift);
            let len = log.len() as u64;
            self.put(start, IoBuf::copy_of(&log)).await?;
            tape.ring.advance(len);
            self.put_header(tape).await?;
        }
        self.leaf.flush().await
    }
}

fn entry(block: &Stored, name: Name, offset: u64) -> EntryPhys {
    let bp = &block.bp;
    let parts = EntryParts {
        lsize: bp.lsize().get(),
        psize: bp.psize().get(),
        compression: bp.compression().expect("a block that was read has a known compression"),
        is_metadata: bp.level().get() > 0 || bp.object_type().is_metadata(),
    };
    EntryPhys::new(name.dva, name.birth, offset, &parts)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
