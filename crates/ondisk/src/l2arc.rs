//! What a cache device holds, beside its labels: the L2ARC in the form that outlives an import.
//!
//! ```text
//!  labels │ header │ block block … │ log │ block … │ log │ …            │ labels
//!         4 MiB    start            └──┬──┘◄────────┘                   end
//!                                      │  each log names the entries before it, and the second log before it
//!  header: 0 magic  8 version  16 pool  24 device  32 entries a log  40 evict  48 flags  56 start  64 end
//!          72 newest log (64)  136 the one before (64)  200 bytes of logs  208 logs  216 trim time, state  232 pad
//!  pointer: 0 offset  8 payload bytes  16 payload start  24 properties  32 checksum (4 words)  64 end
//!  log:    0 magic  8 pointer (64)  72 pad  128 entries of 64 bytes each, 1022 at most  64 KiB end
//!  entry:  0 DVA  16 birth  24 properties  32 offset  40 compression level  48 pad  64 end
//! ```
//! The header takes one sector of the device, and ends in the checksum of a label part. Offsets are those of the
//! device. Between `hand`, which is the end of the newest log, and `evict` lies what may have been overwritten since the
//! header was written; on the first lap (a flag) everything behind the hand is yet to be written.
//! (`include/sys/arc_impl.h`: `l2arc_dev_hdr_phys_t`, `l2arc_log_blkptr_t`, `l2arc_log_blk_phys_t`,
//! `l2arc_log_ent_phys_t`, the `L2BLK_` fields.)

#![expect(
    clippy::arithmetic_side_effects,
    reason = "sizes are fields of 16 bits, and sizes that were asserted"
)]

use units::{LABEL_START_BYTES, LeafOffset, SECTOR_BYTES};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::OndiskError;
use crate::{ChecksumKind, CompressionKind, DvaPhys, ECK_BYTES, bits, reader};

/// Where the header lies: behind the labels and the boot area.
pub const HEADER_OFFSET: LeafOffset = LeafOffset::new(LABEL_START_BYTES);
/// "ZFSCACHE".
pub const HEADER_MAGIC: u64 = 0x5a46_5343_4143_4845;
/// "LOGBLKHD".
pub const LOG_MAGIC: u64 = 0x4c4f_4742_4c4b_4844;
/// The only version there is.
pub const VERSION: u64 = 1;
/// Size of a log before it is compressed.
pub const LOG_BYTES: usize = 64 << 10;
/// Most entries of a log.
pub const LOG_ENTRIES_MAX: usize = 1022;
/// The first lap over the device is under way.
pub const FLAG_FIRST_LAP: u64 = 1;

/// The properties: lengths in sectors less one, kinds, flags.
const LSIZE_LOW: u32 = 0;
const PSIZE_LOW: u32 = 16;
const SIZE_BITS: u32 = 16;
const COMPRESS_LOW: u32 = 32;
const COMPRESS_BITS: u32 = 7;
const CHECKSUM_LOW: u32 = 40;
const TYPE_LOW: u32 = 48;
const BYTE_BITS: u32 = 8;
const STATE_LOW: u32 = 57;
const STATE_BITS: u32 = 4;
/// What an entry's block is: `ARC_BUFC_DATA` and `ARC_BUFC_METADATA`, which are kept with one added.
const TYPE_DATA: u64 = 1;
const TYPE_METADATA: u64 = 2;
/// The list of OpenZFS's cache that the block was on (`ARC_STATE_MRU`): figures only.
const STATE_RECENT: u64 = 1;

/// Names a log.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct LogPointerPhys {
    /// Where it is; 0 in a pointer that names none.
    pub offset: U64,
    /// Bytes of the blocks that its entries are of, in whole sectors.
    pub payload_bytes: U64,
    /// Where the first of them is.
    pub payload_start: U64,
    properties: U64,
    checksum: [U64; 4],
}
const _: () = assert!(size_of::<LogPointerPhys>() == 64);

impl LogPointerPhys {
    /// The pointer to a log that lies at `offset` as `stored`, whole sectors with this fletcher4 sum, and whose
    /// `payload` begins at one place and has so many bytes.
    ///
    /// # Panics
    /// When `stored` is no whole number of sectors, or more than 32 MiB.
    #[must_use]
    pub fn new(
        offset: u64,
        stored: &[u8],
        compression: CompressionKind,
        checksum: [u64; 4],
        payload: (u64, u64),
    ) -> Self {
        let properties = set_size(set_size(0, LSIZE_LOW, LOG_BYTES as u64), PSIZE_LOW, stored.len() as u64);
        let properties = bits::set(properties, COMPRESS_LOW, COMPRESS_BITS, compression.raw().into());
        let properties = bits::set(properties, CHECKSUM_LOW, BYTE_BITS, ChecksumKind::Fletcher4.raw().into());
        let (start, bytes) = payload;
        Self {
            offset: U64::new(offset),
            payload_bytes: U64::new(bytes),
            payload_start: U64::new(start),
            properties: U64::new(properties),
            checksum: checksum.map(U64::new),
        }
    }

    /// The fletcher4 sum of the log as it lies there.
    #[must_use]
    pub fn checksum(&self) -> [u64; 4] {
        self.checksum.map(U64::get)
    }

    /// Where it ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.get().saturating_add(self.stored_bytes())
    }

    /// Whether it names a log.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.offset.get() != 0
    }

    /// Bytes on the device.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        get_size(self.properties.get(), PSIZE_LOW)
    }

    /// How it is compressed; `None` for a kind that is not known.
    #[must_use]
    pub fn compression(&self) -> Option<CompressionKind> {
        compression(self.properties.get())
    }
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct HeaderPhys {
    /// [`HEADER_MAGIC`].
    pub magic: U64,
    /// [`VERSION`].
    pub version: U64,
    /// The guid of the pool that it caches.
    pub pool: U64,
    /// The guid of the device.
    pub device: U64,
    /// Entries of each log; 0 where none are kept.
    pub log_entries: U64,
    /// Up to where what lies behind the hand is forgotten.
    pub evict: U64,
    /// [`FLAG_FIRST_LAP`].
    pub flags: U64,
    /// Where blocks begin.
    pub start: U64,
    /// Where they end.
    pub end: U64,
    /// The newest log, and the one before it.
    pub newest: [LogPointerPhys; 2],
    /// Bytes of all logs that count.
    pub logs_bytes: U64,
    /// How many they are.
    pub logs: U64,
    /// When the device was trimmed as a whole, and how that stands.
    pub trim: [U64; 2],
    /// Zeros.
    pub pad: [U64; 30],
    /// The checksum, where a sector has 512 bytes; it is at the end of a larger one.
    pub tail: [U64; ECK_BYTES / 8],
}
const _: () = assert!(size_of::<HeaderPhys>() == SECTOR_BYTES as usize);

impl Default for HeaderPhys {
    fn default() -> Self {
        zerocopy::FromZeros::new_zeroed()
    }
}

impl HeaderPhys {
    /// Reads the header at the start of a sector.
    ///
    /// # Errors
    /// When it is none, or one of a machine of the other byte order, or a later version.
    pub fn decode(sector: &[u8]) -> Result<Self, OndiskError> {
        let header: Self = reader::prefix("L2ARC header", sector)?;
        let found = header.magic.get();
        if found != HEADER_MAGIC {
            return Err(OndiskError::BadMagic { what: "L2ARC header", expected: HEADER_MAGIC, found });
        }
        if header.version.get() != VERSION {
            return Err(OndiskError::Unsupported { what: "L2ARC header", detail: "another version" });
        }
        Ok(header)
    }

    /// Writes it to the start of a sector; the checksum at the sector's end is the caller's care.
    ///
    /// # Panics
    /// When the sector has fewer than 512 bytes.
    pub fn encode(&self, sector: &mut [u8]) {
        self.write_to_prefix(sector).expect("a sector has 512 bytes at least");
    }
}

/// A block on the device.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EntryPhys {
    /// The first DVA of the block in the pool.
    pub dva: DvaPhys,
    /// The txg in which it was written there.
    pub birth: U64,
    properties: U64,
    /// Where it is on the device.
    pub offset: U64,
    compression_level: U64,
    pad: [U64; 2],
}
const _: () = assert!(size_of::<EntryPhys>() == 64);
const _: () = assert!(128 + LOG_ENTRIES_MAX * size_of::<EntryPhys>() == LOG_BYTES);

/// What an entry says of a block beside its name and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryParts {
    /// Its bytes when it is in use: whole sectors.
    pub lsize: u64,
    /// Its bytes as they are stored: whole sectors.
    pub psize: u64,
    /// How it is compressed.
    pub compression: CompressionKind,
    /// Not file data.
    pub is_metadata: bool,
}

impl EntryPhys {
    /// The entry of a block at `offset`.
    ///
    /// # Panics
    /// When a size is 0, no whole number of sectors, or more than 32 MiB.
    #[must_use]
    pub fn new(dva: DvaPhys, birth: u64, offset: u64, parts: &EntryParts) -> Self {
        let properties = set_size(set_size(0, LSIZE_LOW, parts.lsize), PSIZE_LOW, parts.psize);
        let properties = bits::set(properties, COMPRESS_LOW, COMPRESS_BITS, parts.compression.raw().into());
        let kind = if parts.is_metadata { TYPE_METADATA } else { TYPE_DATA };
        let properties = bits::set(properties, TYPE_LOW, BYTE_BITS, kind);
        let properties = bits::set(properties, STATE_LOW, STATE_BITS, STATE_RECENT);
        Self {
            dva,
            birth: U64::new(birth),
            properties: U64::new(properties),
            offset: U64::new(offset),
            ..Self::default()
        }
    }

    /// Bytes of the block as it lies there.
    #[must_use]
    pub fn psize(&self) -> u64 {
        get_size(self.properties.get(), PSIZE_LOW)
    }

    /// What else it says; `None` when the compression is not known.
    #[must_use]
    pub fn parts(&self) -> Option<EntryParts> {
        let properties = self.properties.get();
        Some(EntryParts {
            lsize: get_size(properties, LSIZE_LOW),
            psize: self.psize(),
            compression: compression(properties)?,
            is_metadata: bits::get(properties, TYPE_LOW, BYTE_BITS) == TYPE_METADATA,
        })
    }
}

/// A log: entries, and the second log before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The second log before this one: two chains are read in turn, one ahead of the other.
    pub before: LogPointerPhys,
    /// The entries, oldest first.
    pub entries: Vec<EntryPhys>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LogHead {
    magic: U64,
    before: LogPointerPhys,
    pad: [U64; 7],
}
const _: () = assert!(size_of::<LogHead>() == 128);

impl Log {
    /// The first `entries` entries of a log.
    ///
    /// # Errors
    /// When it is none, or shorter.
    pub fn decode(bytes: &[u8], entries: usize) -> Result<Self, OndiskError> {
        let mut reader = reader::Reader::new("L2ARC log", bytes);
        let head: LogHead = reader.read()?;
        let found = head.magic.get();
        if found != LOG_MAGIC {
            return Err(OndiskError::BadMagic { what: "L2ARC log", expected: LOG_MAGIC, found });
        }
        let entries = (0..entries.min(LOG_ENTRIES_MAX)).map(|_| reader.read());
        Ok(Self { before: head.before, entries: entries.collect::<Result<_, _>>()? })
    }

    /// Its 64 KiB.
    ///
    /// # Panics
    /// When there are more than [`LOG_ENTRIES_MAX`] entries.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.entries.len() <= LOG_ENTRIES_MAX, "{} entries", self.entries.len());
        let head = LogHead { magic: U64::new(LOG_MAGIC), before: self.before, pad: Default::default() };
        let mut bytes = Vec::with_capacity(LOG_BYTES);
        bytes.extend_from_slice(head.as_bytes());
        self.entries.iter().for_each(|entry| bytes.extend_from_slice(entry.as_bytes()));
        bytes.resize(LOG_BYTES, 0);
        bytes
    }
}

fn get_size(properties: u64, low: u32) -> u64 {
    (bits::get(properties, low, SIZE_BITS) + 1) * SECTOR_BYTES
}

fn set_size(properties: u64, low: u32, bytes: u64) -> u64 {
    assert!(bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES), "{bytes} bytes are no whole sectors");
    bits::set(properties, low, SIZE_BITS, bytes / SECTOR_BYTES - 1)
}

fn compression(properties: u64) -> Option<CompressionKind> {
    CompressionKind::from_raw(u8::try_from(bits::get(properties, COMPRESS_LOW, COMPRESS_BITS)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dva;
    use units::{Asize, VdevId, VdevOffset};

    fn dva(offset: u64) -> DvaPhys {
        let (vdev, offset) = (VdevId::new(3), VdevOffset::new(offset));
        Dva { vdev, offset, asize: Asize::new(8192), gang: false }.encode()
    }

    const PARTS: EntryParts =
        EntryParts { lsize: 16 << 20, psize: 512, compression: CompressionKind::Lz4, is_metadata: true };

    #[test]
    fn a_log_comes_back_as_it_was() {
        let entries = (1..=7).map(|n| EntryPhys::new(dva(n << 20), n, n << 12, &PARTS)).collect();
        let before =
            LogPointerPhys::new(1 << 30, &[1; 1536], CompressionKind::Lz4, [1, 2, 3, 4], (5 << 20, 3 << 20));
        let log = Log { before, entries };
        let bytes = log.encode();
        assert_eq!(bytes.len(), LOG_BYTES);
        assert_eq!(Log::decode(&bytes, 7).unwrap(), log);
        assert_eq!(log.entries[6].parts(), Some(PARTS));
        assert_eq!((before.stored_bytes(), before.compression()), (1536, Some(CompressionKind::Lz4)));
        assert_eq!((before.end(), before.checksum()), ((1 << 30) + 1536, [1, 2, 3, 4]));
        assert!(Log::decode(&bytes[1..], 7).is_err());
    }

    #[test]
    fn no_bytes_panic_a_header_or_a_log() {
        for byte in 0..=u8::MAX {
            let bytes = vec![byte; LOG_BYTES];
            assert!(HeaderPhys::decode(&bytes).is_err());
            assert!(Log::decode(&bytes, LOG_ENTRIES_MAX).is_err());
            let (entry, _) = EntryPhys::read_from_prefix(&bytes).unwrap();
            assert!(entry.psize() > 0);
            assert_eq!(entry.parts().is_some(), compression(entry.properties.get()).is_some());
        }
    }
}
