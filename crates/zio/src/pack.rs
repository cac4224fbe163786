//! Packing a block for the disk, and unpacking it.
//!
//! Compressed bytes are padded with zeros to whole sectors of the pool's smallest kind. A block
//! stays as it is when compression saves less than an eighth, or nothing after padding. What
//! compresses to next to nothing need not go to the disk at all: it fits the block pointer.

use std::sync::Arc;

use codec::{CodecError, Salt};
use env::IoBuf;
use ondisk::blkptr::embedded::{EmbeddedParts, PAYLOAD_MAX_BYTES};
use ondisk::{Blkptr, ChecksumKind, Compression, CompressionKind};
use units::{Ashift, Txg};

use crate::{PointerForms, WritePolicy};

/// Shorter blocks are packed in less time than it takes to tell another thread.
const LONG_BYTES: usize = 32 << 10;

/// All that packing a block asks for: it may be done anywhere.
#[derive(Clone)]
pub(crate) struct PackJob {
    pub(crate) txg: Txg,
    pub(crate) data: Arc<IoBuf>,
    pub(crate) policy: WritePolicy,
    pub(crate) forms: PointerForms,
    pub(crate) sector: Ashift,
    pub(crate) salt: Option<Salt>,
}

/// What became of a block.
pub(crate) enum Ready {
    /// It is in its pointer.
    Embedded(Blkptr),
    /// It is to be written, and has this checksum.
    Packed(Packed, [u64; 4]),
}

impl PackJob {
    /// Whether it takes long enough for another thread to be worth telling.
    pub(crate) fn is_long(&self) -> bool {
        let is_plain = self.policy.compression(self.forms).kind == CompressionKind::Off
            && matches!(
                self.policy.checksum(),
                ChecksumKind::Off
                    | ChecksumKind::Noparity
                    | ChecksumKind::Fletcher2
                    | ChecksumKind::Fletcher4
            );
        !is_plain && self.data.len() >= LONG_BYTES
    }

    /// Does it.
    ///
    /// # Errors
    /// When the checksum cannot be computed.
    pub(crate) fn run(&self) -> Result<Ready, CodecError> {
        let (data, policy) = (&self.data, &self.policy);
        let compressed = compress(data, policy.compression(self.forms));
        if policy.may_embed()
            && self.forms.embedded
            && let Some(compressed) = &compressed
            && let Some(bp) = compressed.embedded(self.txg, policy, data.len() as u64)
        {
            return Ok(Ready::Embedded(bp));
        }
        let packed = pack(data, compressed, self.sector).padded_for(policy.rewrite.as_ref());
        let checksum = codec::checksum(policy.checksum(), &packed.bytes, self.salt.as_ref())?;
        Ok(Ready::Packed(packed, checksum))
    }
}

/// A block, compressed, and not padded yet.
struct Compressed {
    bytes: IoBuf,
    kind: CompressionKind,
}

impl Compressed {
    /// The blkptr that holds the whole block, born in `txg`, if it is small enough.
    fn embedded(&self, txg: Txg, policy: &WritePolicy, lsize_bytes: u64) -> Option<Blkptr> {
        let parts = EmbeddedParts {
            lsize_bytes,
            compression: self.kind,
            object_type: policy.object_type,
            level: policy.level.get(),
            birth: txg,
        };
        (self.bytes.len() <= PAYLOAD_MAX_BYTES).then(|| Blkptr::embed(&parts, &self.bytes))
    }

    /// Padded to whole sectors, if it still saves something then.
    fn padded(mut self, data_bytes: usize, sector: Ashift) -> Option<Packed> {
        let padded = usize::try_from(sector.round_up(self.bytes.len() as u64)).ok()?;
        if padded >= data_bytes {
            return None;
        }
        self.bytes = self.bytes.resized(padded);
        Some(Packed { bytes: Arc::new(self.bytes), compression: self.kind })
    }
}

/// A block as it goes to the disk.
pub(crate) struct Packed {
    pub(crate) bytes: Arc<IoBuf>,
    pub(crate) compression: CompressionKind,
}

impl Packed {
    /// Padded to the room of the block that it may be written over: compressed data that shrank
    /// between two passes of a sync need no other place. Who decompresses stops at their end.
    fn padded_for(self, old: Option<&Blkptr>) -> Self {
        let room = old.map_or(0, |bp| bp.psize().get() as usize);
        if self.compression == CompressionKind::Off || self.bytes.len() >= room {
            return self;
        }
        Self { bytes: Arc::new(self.bytes.resized(room)), ..self }
    }
}

/// Packs `data`, which was tried to be compressed.
fn pack(data: &Arc<IoBuf>, compressed: Option<Compressed>, sector: Ashift) -> Packed {
    compressed
        .and_then(|compressed| compressed.padded(data.len(), sector))
        .unwrap_or_else(|| Packed { bytes: data.clone(), compression: CompressionKind::Off })
}

/// Compresses `data`, if that saves an eighth.
fn compress(data: &IoBuf, wish: Compression) -> Option<Compressed> {
    if wish.kind == CompressionKind::Off {
        return None;
    }
    let mut out = IoBuf::stale(data.len());
    let most = codec::worthwhile_limit(data.len());
    let len = codec::compress_into(wish, data, &mut out[..most])?;
    out.truncate(len);
    Some(Compressed { bytes: out, kind: wish.kind })
}

/// Unpacks what was read to `lsize` bytes.
///
/// # Errors
/// When the bytes are not what the codec makes.
pub(crate) fn unpack(bytes: &[u8], kind: CompressionKind, lsize: usize) -> Result<IoBuf, CodecError> {
    if kind == CompressionKind::Off {
        return Ok(IoBuf::copy_of(bytes).resized(lsize));
    }
    let mut out = IoBuf::zeroed(lsize);
    codec::decompress_into(kind, bytes, &mut out)?;
    Ok(out)
}
