//! The block pointer: everything needed to find one block, check it and unpack it.
//!
//! ```text
//!     word  64      56              40      32      24      16       8       0
//!   0  00  | pad   | vdev           | (grid)  | asize, in sectors         |  DVA 0
//!   8  01  |G| offset in the vdev's allocatable space, in sectors          |
//!  16 02,03                                                                   DVA 1
//!  32 04,05                                                                   DVA 2
//!  48  06  |BDX|lvl| type  | cksum |E| comp| psize - 1     | lsize - 1     |  prop
//!  56  07  |R| zero                                                        |  prop2
//!  64  08  | zero                                                          |  pad
//!  72  09  | physical birth txg, 0 when it equals the logical one          |
//!  80  0a  | logical birth txg                                             |
//!  88  0b  | fill                                                          |
//!  96  0c..0f  checksum                                                       128 end
//! ```
//! `B` byte order (1 little-endian), `D` dedup, `X` encrypted or authenticated, `E` the blkptr
//! holds its data itself ([`embedded`]), `G` the DVA leads to a gang header, `R` rewritten at its
//! physical birth. Sizes count 512-byte sectors, less one.
//!
//! A *hole* is a blkptr without a first DVA that is not embedded. A hole that was punched keeps
//! its size, type, level and birth, so that an incremental send can tell when it came to be.
//!
//! Invariants
//! - `Blkptr` is its 128 bytes: whatever was read is written back unchanged
//!   (test: `a_blkptr_of_any_bytes_is_written_back_unchanged`).
//! - [`BlkptrParts`] and `Blkptr` say the same
//!   (test: `parts_survive_the_way_through_a_blkptr`).

mod dva;
pub mod embedded;
mod parts;
#[cfg(test)]
mod tests;

use units::{Asize, Level, Lsize, Psize, Txg};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use dva::{Dva, DvaPhys};
pub use parts::BlkptrParts;

use crate::bits;
use crate::checksum_kind::ChecksumKind;
use crate::compression_kind::CompressionKind;
use crate::error::{OndiskError, bad};
use crate::object_type::ObjectType;

/// Bytes in a blkptr.
pub const BLKPTR_BYTES: usize = 128;
/// Base-2 logarithm of [`BLKPTR_BYTES`].
pub const BLKPTR_SHIFT: u32 = 7;
/// Copies a blkptr can name.
pub const DVAS_PER_BLKPTR: usize = 3;
/// Largest lsize and psize that fit a blkptr: 32 MiB. Blocks are limited to 16 MiB.
pub const SIZE_MAX_BYTES: u64 = 512 << 16;

/// The order of the machine that wrote a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Most significant byte first: SPARC, POWER.
    Big,
    /// Least significant byte first: what we write.
    Little,
}

/// A block pointer as it lies on disk.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Blkptr {
    dva: [DvaPhys; DVAS_PER_BLKPTR],
    prop: U64,
    prop2: U64,
    pad: U64,
    physical_birth: U64,
    birth: U64,
    fill: U64,
    checksum: [U64; 4],
}
const _: () = assert!(size_of::<Blkptr>() == BLKPTR_BYTES);
const _: () = assert!(std::mem::offset_of!(Blkptr, prop) == 48);
const _: () = assert!(std::mem::offset_of!(Blkptr, birth) == 80);
const _: () = assert!(std::mem::offset_of!(Blkptr, checksum) == 96);

/// Positions of the fields of `prop`.
mod prop {
    pub const LSIZE: (u32, u32) = (0, 16);
    pub const PSIZE: (u32, u32) = (16, 16);
    pub const EMBEDDED_LSIZE: (u32, u32) = (0, 25);
    pub const EMBEDDED_PSIZE: (u32, u32) = (25, 7);
    pub const COMPRESSION: (u32, u32) = (32, 7);
    pub const EMBEDDED: u32 = 39;
    pub const CHECKSUM: (u32, u32) = (40, 8);
    pub const TYPE: (u32, u32) = (48, 8);
    pub const LEVEL: (u32, u32) = (56, 5);
    pub const CRYPT: u32 = 61;
    pub const DEDUP: u32 = 62;
    pub const LITTLE_ENDIAN: u32 = 63;
    /// In `prop2`.
    pub const REWRITE: u32 = 63;
}

impl Blkptr {
    /// The blkptr of something never written: all zero.
    pub const HOLE: Self = Self {
        dva: [DvaPhys::EMPTY; DVAS_PER_BLKPTR],
        prop: U64::ZERO,
        prop2: U64::ZERO,
        pad: U64::ZERO,
        physical_birth: U64::ZERO,
        birth: U64::ZERO,
        fill: U64::ZERO,
        checksum: [U64::ZERO; 4],
    };

    /// The hole that takes the place of a freed block; `birth` is the txg of the free.
    ///
    /// # Panics
    /// When `lsize` is no size a blkptr can hold.
    #[must_use]
    pub fn hole_with(lsize: Lsize, object_type: ObjectType, level: Level, birth: Txg) -> Self {
        let mut word = put(0, prop::LSIZE, parts::sectors_less_one(lsize.get()));
        word = put(word, prop::TYPE, object_type.raw().into());
        word = put(word, prop::LEVEL, level.get().into());
        Self { prop: U64::new(word), birth: U64::new(birth.get()), ..Self::HOLE }
    }

    /// Reads the blkptr at the start of `bytes`.
    ///
    /// # Errors
    /// When there are fewer than 128.
    pub fn decode(bytes: &[u8]) -> Result<Self, OndiskError> {
        crate::reader::prefix("blkptr", bytes)
    }

    fn field(&self, field: (u32, u32)) -> u64 {
        bits::get(self.prop.get(), field.0, field.1)
    }

    fn byte(&self, field: (u32, u32)) -> u8 {
        u8::try_from(self.field(field)).unwrap_or(u8::MAX)
    }

    /// Whether the data lie in the blkptr itself.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        bits::flag(self.prop.get(), prop::EMBEDDED)
    }

    /// Whether nothing is allocated here: reads as zeroes.
    #[must_use]
    pub fn is_hole(&self) -> bool {
        !self.is_embedded() && self.dva[0].is_empty()
    }

    /// Whether the block is scattered over smaller ones, listed in a gang header.
    #[must_use]
    pub fn is_gang(&self) -> bool {
        !self.is_embedded() && self.dva[0].decode().gang
    }

    /// Logical size. Embedded: of the data after decompression, in bytes.
    #[must_use]
    pub fn lsize(&self) -> Lsize {
        if !self.is_embedded() {
            return Lsize::new(sectors(self.field(prop::LSIZE)));
        }
        if self.embedded_type() != embedded::TYPE_DATA {
            return Lsize::new(0);
        }
        Lsize::new(self.field(prop::EMBEDDED_LSIZE).saturating_add(1))
    }

    /// Physical size; zero when embedded.
    #[must_use]
    pub fn psize(&self) -> Psize {
        Psize::new(if self.is_embedded() { 0 } else { sectors(self.field(prop::PSIZE)) })
    }

    /// Logical birth: the txg in which the contents came to be.
    #[must_use]
    pub fn birth(&self) -> Txg {
        Txg::new(self.birth.get())
    }

    /// Physical birth: the txg in which the block was written. Older than the logical one after
    /// dedup or cloning, younger after a rewrite, zero when embedded.
    #[must_use]
    pub fn physical_birth(&self) -> Txg {
        match (self.is_embedded(), self.physical_birth.get()) {
            (true, _) => Txg::ZERO,
            (false, 0) => self.birth(),
            (false, txg) => Txg::new(txg),
        }
    }

    /// The checksum function; `Off` when embedded.
    ///
    /// # Errors
    /// When the format has no such function.
    pub fn checksum_kind(&self) -> Result<ChecksumKind, OndiskError> {
        if self.is_embedded() {
            return Ok(ChecksumKind::Off);
        }
        ChecksumKind::from_raw(self.byte(prop::CHECKSUM))
    }

    /// The compression function.
    ///
    /// # Errors
    /// When the format has no such function.
    pub fn compression(&self) -> Result<CompressionKind, OndiskError> {
        CompressionKind::from_raw(self.byte(prop::COMPRESSION))
    }

    /// What the block holds (at level 0; above it are blkptrs).
    #[must_use]
    pub fn object_type(&self) -> ObjectType {
        ObjectType::new(self.byte(prop::TYPE))
    }

    /// Height in the object's tree; 0 is data.
    #[must_use]
    pub fn level(&self) -> Level {
        Level::new(self.byte(prop::LEVEL))
    }

    /// Non-hole level-0 blocks at and below this one; for dnode blocks, allocated dnodes.
    #[must_use]
    pub fn fill(&self) -> u64 {
        match (self.is_embedded(), self.is_encrypted()) {
            (true, _) => 1,
            (false, true) => bits::get(self.fill.get(), 0, 32),
            (false, false) => self.fill.get(),
        }
    }

    /// The checksum words. Of an encrypted block the last two are its MAC; of an intent-log block
    /// all four are the seed of the chain.
    #[must_use]
    pub fn checksum(&self) -> [u64; 4] {
        self.checksum.map(U64::get)
    }

    /// The `i`th DVA, valid or not; an empty one when the blkptr has no such DVA.
    #[must_use]
    pub fn dva(&self, i: usize) -> Dva {
        let has_dvas = !(self.is_embedded() || (i == 2 && self.is_encrypted()));
        let dva = self.dva.get(i).filter(|_| has_dvas);
        dva.map_or(Dva::EMPTY, DvaPhys::decode)
    }

    /// The valid DVAs: where the copies lie.
    pub fn dvas(&self) -> impl Iterator<Item = Dva> + use<> {
        [self.dva(0), self.dva(1), self.dva(2)].into_iter().filter(Dva::is_valid)
    }

    /// Space that all copies take together.
    #[must_use]
    pub fn asize_total(&self) -> Asize {
        Asize::new(self.dvas().fold(0, |sum: u64, dva| sum.saturating_add(dva.asize.get())))
    }

    /// The order of the machine that wrote the block.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        if bits::flag(self.prop.get(), prop::LITTLE_ENDIAN) { ByteOrder::Little } else { ByteOrder::Big }
    }

    /// Whether the block is in the dedup table.
    #[must_use]
    pub fn dedup(&self) -> bool {
        bits::flag(self.prop.get(), prop::DEDUP)
    }

    /// Whether the block was rewritten elsewhere at its physical birth.
    #[must_use]
    pub fn rewritten(&self) -> bool {
        !self.is_embedded() && bits::flag(self.prop2.get(), prop::REWRITE)
    }

    /// Whether keys are involved: the block is encrypted or authenticated, or carries the
    /// checksum of the MACs below it.
    #[must_use]
    pub fn uses_crypt(&self) -> bool {
        bits::flag(self.prop.get(), prop::CRYPT)
    }

    /// Whether the contents are encrypted. DVA 2 then holds salt and IV, not a place.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        let encrypts = self.object_type().props().is_some_and(|props| props.is_encrypted);
        self.uses_crypt() && self.level().get() == 0 && encrypts
    }

    /// The same blkptr with another fill count.
    #[must_use]
    pub fn with_fill(mut self, fill: u64) -> Self {
        self.fill = U64::new(fill);
        self
    }

    /// The same blkptr with other checksum words: an intent-log block's seed, or what a write
    /// computed.
    #[must_use]
    pub fn with_checksum(mut self, words: [u64; 4]) -> Self {
        self.checksum = words.map(U64::new);
        self
    }

    /// The same blkptr, born at other times.
    #[must_use]
    pub fn with_births(mut self, logical: Txg, physical: Txg) -> Self {
        self.birth = U64::new(logical.get());
        self.physical_birth = U64::new(if physical == logical { 0 } else { physical.get() });
        self
    }

    /// The same block as somebody has it who refers to it since `txg`: it came to be for him then, wherever and
    /// whenever it was written.
    #[must_use]
    pub fn shared_since(self, txg: Txg) -> Self {
        if self.is_embedded() {
            // Its data lie where others have the physical birth.
            return Self { birth: U64::new(txg.get()), ..self };
        }
        self.with_births(txg, self.physical_birth())
    }

    /// Whether both name the same data: places and births are equal.
    #[must_use]
    pub fn is_same_block(&self, other: &Self) -> bool {
        self.dva == other.dva
            && self.birth() == other.birth()
            && self.physical_birth() == other.physical_birth()
    }

    /// Checks what a reader relies on: known checksum, compression and type, sizes that make
    /// sense, at least one DVA. A hole needs only a known type.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    pub fn check(&self) -> Result<(), OndiskError> {
        if !self.object_type().is_valid() {
            return Err(bad("blkptr", "type", self.object_type().raw()));
        }
        if self.is_hole() {
            return Ok(());
        }
        self.compression()?;
        if self.is_embedded() {
            return self.embedded_payload().map(drop);
        }
        self.checksum_kind()?;
        if self.psize().get() > self.lsize().get() && !self.is_gang() {
            return Err(bad("blkptr", "psize", self.psize().get()));
        }
        if !self.dva(0).is_valid() {
            return Err(bad("blkptr", "asize", 0_u64));
        }
        Ok(())
    }
}

/// Sets a field given as (lowest bit, bits).
const fn put(word: u64, field: (u32, u32), value: u64) -> u64 {
    bits::set(word, field.0, field.1, value)
}

/// Bytes of a size stored as sectors less one.
const fn sectors(stored: u64) -> u64 {
    stored.saturating_add(1).saturating_mul(units::SECTOR_BYTES)
}

impl std::fmt::Debug for Blkptr {
    /// Close to what `zdb` prints.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (level, kind, birth) = (self.level(), self.object_type(), self.birth());
        if self.is_hole() {
            return write!(f, "HOLE [L{level} {kind:?}] size={:x}L birth={birth}L", self.lsize().get());
        }
        if self.is_embedded() {
            let size = self.lsize().get();
            return write!(f, "EMBEDDED [L{level} {kind:?}] size={size:x}L birth={birth}L");
        }
        for (i, dva) in self.dvas().enumerate() {
            write!(f, "DVA[{i}]={dva} ")?;
        }
        let (lsize, psize) = (self.lsize().get(), self.psize().get());
        write!(
            f,
            "[L{level} {kind:?}] size={lsize:x}L/{psize:x}P birth={birth}L/{}P ",
            self.physical_birth()
        )?;
        let [a, b, c, d] = self.checksum();
        write!(f, "fill={} cksum={a:x}:{b:x}:{c:x}:{d:x}", self.fill())
    }
}
