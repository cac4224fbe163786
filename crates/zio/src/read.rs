//! The way of a block from the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::Salt;
use env::{IoBuf, IoClass, boxed, impatient};
use ondisk::{Blkptr, ByteOrder, ChecksumKind, CompressionKind, ObjectType, OndiskError, swap::swap_block};
use units::{LABEL_START_BYTES, LeafOffset};
use vdev::{Address, VdevError};

use crate::cache::{Found, LookupOutcome};
use crate::pack::unpack;
use crate::stats::one_more;
use crate::suspension::is_of_devices;
use crate::unstable::Kept;
use crate::{Ahead, Bookmark, Keep, Zio, ZioError};

/// Most that is read ahead at a time, in the whole pool.
const AHEAD_MAX_BYTES: u64 = 64 << 20;
/// And no larger part of the cache.
const AHEAD_FRACTION: u64 = 8;

/// A checksum to be met.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    kind: ChecksumKind,
    order: ByteOrder,
    salt: Option<Salt>,
    words: [u64; 4],
    /// Of an encrypted dataset: the last two words are its MAC.
    has_mac: bool,
}

impl Check {
    /// Whether these are the bytes.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        if matches!(self.kind, ChecksumKind::Off | ChecksumKind::Noparity) {
            return true;
        }
        let words = codec::checksum_of(self.order, self.kind, bytes, self.salt.as_ref());
        match (words, self.has_mac) {
            (Ok(words), false) => words == self.words,
            (Ok(words), true) => self.halved(words) == self.words[..2],
            (Err(_), _) => false,
        }
    }

    /// What is left of a checksum beside a MAC. Weak ones are folded, for their bits are not equally good (`zio_checksum.c`).
    fn halved(&self, [a, b, c, d]: [u64; 4]) -> [u64; 2] {
        if self.kind.is_dedup_grade() { [a, b] } else { [a ^ c, b ^ d] }
    }
}

impl Zio {
    /// The contents of a block: `bp.lsize()` bytes that the blkptr vouches for.
    ///
    /// # Errors
    /// [`ZioError::Hole`] for holes; [`ZioError::Checksum`] and [`ZioError::Read`] when no copy
    /// will do; [`ZioError::BadBlkptr`], [`ZioError::Decompress`] and [`ZioError::Unsupported`]
    /// for what was written wrongly, or newer than this code. Of encrypted dnodes the bonuses stay encrypted.
    pub async fn read(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Arc<IoBuf>, ZioError> {
        self.read_as(bp, bookmark, Keep::Yes).await
    }

    /// The same, and says whether the block is to stay in the cache.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn read_as(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        keep: Keep,
    ) -> Result<Arc<IoBuf>, ZioError> {
        bp.check().map_err(|source| ZioError::BadBlkptr { bookmark: *bookmark, source })?;
        if bp.is_hole() {
            return Err(ZioError::Hole { bookmark: *bookmark });
        }
        if bp.is_embedded() {
            return self.read_embedded(bp, bookmark).map(Arc::new);
        }
        let found_as = match self.flights.end_of(bp) {
            Some((ahead, landing)) => {
                landing.await;
                LookupOutcome::Joined(ahead)
            }
            None => LookupOutcome::Hit,
        };
        if let Some(cached) = self.cached(bp, bookmark, found_as)? {
            return Ok(cached);
        }
        if bp.is_encrypted() && bp.object_type() != ObjectType::DNODE {
            return Err(ZioError::Unsupported { bookmark: *bookmark, what: "encryption" });
        }
        if let Some(kept) = self.unstable.find(bp) {
            self.cache.count(bp, LookupOutcome::Hit);
            return self.unstable_data(kept, bp, bookmark, keep);
        }
        self.cache.count(bp, LookupOutcome::Miss);
        let read = self.fetch(bp, bookmark, keep).await;
        if let Err(error) = &read {
            self.note_lost(error, bp, bookmark);
        }
        read
    }

    /// A block as it is stored: `bp.psize()` bytes that the blkptr vouches for, compressed or encrypted as it
    /// says. They are taken from the cache where that has them so, and are not put there.
    ///
    /// # Errors
    /// As [`Self::read`], but for [`ZioError::Decompress`]; holes and embedded blocks are stored nowhere.
    #[boxed]
    pub async fn read_stored(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Arc<IoBuf>, ZioError> {
        bp.check().map_err(|source| ZioError::BadBlkptr { bookmark: *bookmark, source })?;
        if bp.is_hole() || bp.is_embedded() {
            return Err(ZioError::Hole { bookmark: *bookmark });
        }
        match self.cache.get(bp) {
            // What was written lately may lie there without the zeros that fill its last sector.
            Some(Found::Packed(packed)) if packed.len() as u64 == bp.psize().get() => return Ok(packed),
            _ => {}
        }
        let read = self.read_packed(bp, bookmark).await;
        if let Err(error) = &read {
            self.note_lost(error, bp, bookmark);
        }
        read.map(Arc::new)
    }

    /// Notes that no copy of a block would do.
    fn note_lost(&self, error: &ZioError, bp: &Blkptr, bookmark: &Bookmark) {
        one_more(&self.counters.lost_reads);
        // What a device that is out cannot tell is not lost.
        let is_out = matches!(error, ZioError::Read { source, .. } if source.is_absence());
        if matches!(error, ZioError::Checksum { .. } | ZioError::Read { .. }) && !is_out {
            self.lost.note(bp, bookmark);
        }
    }

    /// Reads a block into the cache, where somebody will want it soon and then waits for it. To be
    /// called from a task of its own. Does nothing when the block is there, or much is being read
    /// ahead already.
    #[boxed]
    pub async fn read_ahead(&self, bp: &Blkptr, bookmark: &Bookmark, keep: Keep, ahead: Ahead) {
        let is_plain = bp.check().is_ok() && !bp.is_hole() && !bp.is_embedded() && !bp.is_encrypted();
        if !is_plain {
            return;
        }
        if self.cache.has(bp) || self.unstable.has(bp) {
            self.cache.count_ahead(bp, ahead, LookupOutcome::Hit);
            return;
        }
        let bytes = bp.lsize().get();
        let most = AHEAD_MAX_BYTES.min(self.cache.limit_bytes() / AHEAD_FRACTION);
        if self.ahead_bytes.fetch_add(bytes, Relaxed) + bytes <= most {
            if let Some(_flight) = self.flights.begin(bp, ahead) {
                self.cache.count_ahead(bp, ahead, LookupOutcome::Miss);
                // Whoever reads the block will hear of what is wrong.
                let read = impatient(self.fetch(bp, bookmark, keep)).await;
                if read.is_ok() {
                    self.cache.note_ahead(bp, ahead);
                }
            } else {
                self.cache.count_ahead(bp, ahead, LookupOutcome::Joined(ahead));
            }
        }
        self.ahead_bytes.fetch_sub(bytes, Relaxed);
    }

    /// The block from memory, which is counted as told.
    fn cached(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        found_as: LookupOutcome,
    ) -> Result<Option<Arc<IoBuf>>, ZioError> {
        match self.cache.find(bp, found_as) {
            None => Ok(None),
            Some(Found::Unpacked(data)) => Ok(Some(data)),
            Some(Found::Packed(packed)) => {
                let data = Arc::new(self.unpacked(&packed, bp, bookmark)?);
                // Whether it may go to a cache device is known already.
                self.cache.insert(bp, Keep::InMemory, &data, Some(&packed));
                Ok(Some(data))
            }
        }
    }

    /// The block from a cache device, or from disk.
    #[boxed]
    async fn fetch(&self, bp: &Blkptr, bookmark: &Bookmark, keep: Keep) -> Result<Arc<IoBuf>, ZioError> {
        let packed = match self.read_second(bp, bookmark).await {
            Some(packed) => packed,
            None => self.read_packed(bp, bookmark).await?,
        };
        self.taken_in(Arc::new(packed), bp, bookmark, keep)
    }

    /// A block of the txg being synced.
    fn unstable_data(
        &self,
        kept: Kept,
        bp: &Blkptr,
        bookmark: &Bookmark,
        keep: Keep,
    ) -> Result<Arc<IoBuf>, ZioError> {
        match kept {
            Kept::Source(job) => Ok(Arc::clone(&job.data)),
            Kept::Stored(packed) => self.taken_in(packed, bp, bookmark, keep),
        }
    }

    /// The contents of a block that is stored so.
    fn taken_in(
        &self,
        packed: Arc<IoBuf>,
        bp: &Blkptr,
        bookmark: &Bookmark,
        keep: Keep,
    ) -> Result<Arc<IoBuf>, ZioError> {
        let is_packed = bp.compression() != Ok(CompressionKind::Off);
        let is_ours = bp.byte_order() == ByteOrder::Little;
        let is_whole = is_ours && !is_packed && packed.len() as u64 == bp.lsize().get();
        let data = if is_whole { packed.clone() } else { Arc::new(self.unpacked(&packed, bp, bookmark)?) };
        self.cache.insert(bp, keep, &data, is_packed.then_some(&packed));
        Ok(data)
    }

    fn read_embedded(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<IoBuf, ZioError> {
        let payload =
            bp.embedded_payload().map_err(|source| ZioError::BadBlkptr { bookmark: *bookmark, source })?;
        self.unpacked(&payload, bp, bookmark)
    }

    fn unpacked(&self, packed: &[u8], bp: &Blkptr, bookmark: &Bookmark) -> Result<IoBuf, ZioError> {
        let bad = |source| ZioError::BadBlkptr { bookmark: *bookmark, source };
        let kind = bp.compression().map_err(bad)?;
        let lsize = usize::try_from(bp.lsize().get())
            .map_err(|_| bad(OndiskError::Unsupported { what: "blkptr", detail: "a size beyond memory" }))?;
        let mut data = unpack(packed, kind, lsize)
            .map_err(|source| ZioError::Decompress { bookmark: *bookmark, source })?;
        if bp.byte_order() == ByteOrder::Big {
            swap_block(bp.object_type(), bp.level(), &mut data).map_err(bad)?;
        }
        Ok(data)
    }

    /// The bytes of a block as they lie on disk, verified.
    #[boxed]
    pub(crate) async fn read_packed(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<IoBuf, ZioError> {
        self.counters.block_was_read(bp.psize().get());
        if bp.is_gang() {
            return self.read_gang(bp, bookmark).await;
        }
        let check = self.check_of(bp, bookmark)?;
        let is_whole = self.is_spared(bookmark)?;
        self.read_copies(bp, bookmark, bp.psize().get(), &|bytes| is_whole && check.holds(bytes)).await
    }

    /// How the bytes of a block are told from others.
    pub(crate) fn check_of(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Check, ZioError> {
        let kind =
            bp.checksum_kind().map_err(|source| ZioError::BadBlkptr { bookmark: *bookmark, source })?;
        if kind.is_embedded() {
            return Err(ZioError::Unsupported { bookmark: *bookmark, what: "this checksum on a block" });
        }
        let salt = *self.salt.lock();
        codec::checksum(kind, &[], salt.as_ref())
            .map_err(|source| ZioError::UnknownChecksum { bookmark: *bookmark, source })?;
        let has_mac = bp.uses_crypt() && bp.object_type() != ObjectType::OBJSET;
        Ok(Check { kind, order: bp.byte_order(), salt, words: bp.checksum(), has_mac })
    }

    /// The first of a block's copies that satisfies `verify`; waits for vdevs that are out, where there
    /// is none.
    pub(crate) async fn read_copies(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        len: u64,
        verify: &(dyn Fn(&[u8]) -> bool + Send + Sync),
    ) -> Result<IoBuf, ZioError> {
        let mut tries = self.suspension.tries();
        loop {
            let error = match self.try_copies(bp, bookmark, len, verify).await {
                Err(error) if is_of_devices(&error) || self.is_unreadable(&error, bp).await => error,
                read => return read,
            };
            if !tries.next(&error).await {
                return Err(error);
            }
        }
    }

    /// Called when a txg cannot read a block. True if a device with a copy reads nothing at all, so
    /// that the block may be readable when the device works again. False if only bad sectors are to
    /// blame. To distinguish them, reads the bytes before the first block of each device with a
    /// copy; these belong to no block.
    async fn is_unreadable(&self, error: &ZioError, bp: &Blkptr) -> bool {
        let is_read = matches!(error, ZioError::Read { source, .. } if !source.is_absence());
        if !is_read || IoClass::current() != IoClass::Async {
            return false;
        }
        for dva in bp.dvas() {
            let Ok(top) = self.vdevs.top(dva.vdev) else { continue };
            let len = top.ashift().sector_bytes();
            let place = LeafOffset::new(LABEL_START_BYTES.saturating_sub(len));
            let mut reads = false;
            for leaf in top.leaves() {
                reads |= leaf.read(place, len as usize).await.is_ok();
            }
            if !reads && !top.leaves().is_empty() {
                return true;
            }
        }
        false
    }

    async fn try_copies(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        len: u64,
        verify: &(dyn Fn(&[u8]) -> bool + Send + Sync),
    ) -> Result<IoBuf, ZioError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut is_damaged = false;
        let mut last: Option<VdevError> = None;
        for dva in bp.dvas() {
            match self.vdevs.read(Address::of(&dva, bp.physical_birth()), len, verify).await {
                Ok(buf) => {
                    if last.is_some() {
                        self.damage.note(bp, bookmark);
                    }
                    return Ok(buf);
                }
                Err(error) => {
                    is_damaged |= matches!(error, VdevError::Checksum { .. });
                    last = Some(error);
                }
            }
        }
        match last {
            Some(source) if !is_damaged => Err(ZioError::Read { bookmark: *bookmark, source }),
            _ => Err(ZioError::Checksum { bookmark: *bookmark }),
        }
    }
}
