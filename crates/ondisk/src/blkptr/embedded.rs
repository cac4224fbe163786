//! Blkptrs that hold their data: up to 112 bytes in all words but `prop` and the logical birth.
//!
//! ```text
//!   0..48 data   48..56 prop   56..80 data   80..88 logical birth   88..128 data
//!  prop: |BDX|lvl| type  | etype |1| comp | psize - 1 (7) | lsize - 1 (25) |   sizes in bytes
//! ```
//! Data lie in word order, each word little-endian: on our disks simply the bytes in order.

use units::Txg;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use super::{Blkptr, prop, put};
use crate::bits;
use crate::compression_kind::CompressionKind;
use crate::error::{OndiskError, bad};
use crate::object_type::ObjectType;

/// Most bytes that fit.
pub const PAYLOAD_MAX_BYTES: usize = 112;
/// `etype`: the payload is the block's data.
pub const TYPE_DATA: u8 = 0;
/// `etype`: the block was left out of a redacted send.
pub const TYPE_REDACTED: u8 = 2;

/// The parts of a blkptr's bytes that hold payload, in order.
const RUNS: [std::ops::Range<usize>; 3] = [0..48, 56..80, 88..128];

/// What goes into an embedded blkptr besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedParts {
    /// Size after decompression, in bytes; at most 32 MiB.
    pub lsize_bytes: u64,
    /// How the payload is compressed.
    pub compression: CompressionKind,
    /// What the block holds; never one that counts its fill.
    pub object_type: ObjectType,
    /// Height in the object's tree.
    pub level: u8,
    /// Logical birth.
    pub birth: Txg,
}

impl Blkptr {
    /// Packs `payload` (compressed as `parts` says) into a blkptr.
    ///
    /// # Panics
    /// When the payload is empty or longer than [`PAYLOAD_MAX_BYTES`].
    #[must_use]
    pub fn embed(parts: &EmbeddedParts, payload: &[u8]) -> Self {
        assert!((1..=PAYLOAD_MAX_BYTES).contains(&payload.len()), "no room for {} bytes", payload.len());
        assert!(!parts.object_type.counts_fill(), "an embedded blkptr has no fill count");
        let mut bytes = [0_u8; super::BLKPTR_BYTES];
        let mut rest = payload;
        for run in RUNS {
            let (head, tail) = rest.split_at(rest.len().min(run.len()));
            let room = bytes.get_mut(run).and_then(|room| room.get_mut(..head.len()));
            room.expect("runs lie in the blkptr").copy_from_slice(head);
            rest = tail;
        }
        let mut bp = Self::read_from_bytes(&bytes).expect("128 bytes are a blkptr");
        bp.prop = U64::new(prop_word(parts, payload.len()));
        bp.birth = U64::new(parts.birth.get());
        bp
    }

    /// How to read the embedded bytes: [`TYPE_DATA`] or [`TYPE_REDACTED`].
    #[must_use]
    pub fn embedded_type(&self) -> u8 {
        self.byte(prop::CHECKSUM)
    }

    /// The embedded bytes, still compressed as [`Blkptr::compression`] says.
    ///
    /// # Errors
    /// When the blkptr is not embedded, is no data, or claims more than fits.
    pub fn embedded_payload(&self) -> Result<Vec<u8>, OndiskError> {
        if !self.is_embedded() || self.embedded_type() != TYPE_DATA {
            return Err(bad("embedded blkptr", "etype", self.embedded_type()));
        }
        let stored = self.field(prop::EMBEDDED_PSIZE);
        let psize = usize::try_from(stored.saturating_add(1)).unwrap_or(usize::MAX);
        let mut payload: Vec<u8> = Vec::with_capacity(PAYLOAD_MAX_BYTES);
        let bytes = self.as_bytes();
        for run in RUNS {
            payload.extend_from_slice(bytes.get(run).unwrap_or_default());
        }
        if psize > payload.len() {
            return Err(bad("embedded blkptr", "psize", stored));
        }
        payload.truncate(psize);
        Ok(payload)
    }
}

fn prop_word(parts: &EmbeddedParts, psize: usize) -> u64 {
    let less_one = |bytes: u64| bytes.checked_sub(1).expect("not empty");
    let mut word = bits::with_flag(0, prop::LITTLE_ENDIAN, true);
    word = bits::with_flag(word, prop::EMBEDDED, true);
    word = put(word, prop::EMBEDDED_LSIZE, less_one(parts.lsize_bytes));
    word = put(word, prop::EMBEDDED_PSIZE, less_one(psize as u64));
    word = put(word, prop::COMPRESSION, parts.compression.raw().into());
    word = put(word, prop::CHECKSUM, TYPE_DATA.into());
    word = put(word, prop::TYPE, parts.object_type.raw().into());
    put(word, prop::LEVEL, parts.level.into())
}
