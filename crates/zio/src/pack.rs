//! Packing a block for the disk, and unpacking it.
//!
//! Compressed bytes are padded with zeros to whole sectors of the pool's smallest kind. A block
//! stays as it is when compression saves less than an eighth, or nothing after padding.

use std::sync::Arc;

use codec::CodecError;
use device::IoBuf;
use ondisk::{Blkptr, Compression, CompressionKind};
use units::Ashift;

/// A block as it goes to the disk.
pub(crate) struct Packed {
    pub(crate) bytes: Arc<IoBuf>,
    pub(crate) compression: CompressionKind,
}

impl Packed {
    /// Padded to the room of the block that it may be written over: compressed data that shrank
    /// between two passes of a sync need no other place. Who decompresses stops at their end.
    pub(crate) fn padded_for(self, old: Option<&Blkptr>) -> Self {
        let room = old.map_or(0, |bp| bp.psize().get() as usize);
        if self.compression == CompressionKind::Off || self.bytes.len() >= room {
            return self;
        }
        Self { bytes: Arc::new(self.bytes.resized(room)), ..self }
    }
}

/// Packs `data`.
pub(crate) fn pack(data: &Arc<IoBuf>, wish: Compression, sector: Ashift) -> Packed {
    try_compress(data, wish, sector)
        .unwrap_or_else(|| Packed { bytes: data.clone(), compression: CompressionKind::Off })
}

fn try_compress(data: &IoBuf, wish: Compression, sector: Ashift) -> Option<Packed> {
    if wish.kind == CompressionKind::Off {
        return None;
    }
    let mut out = IoBuf::zeroed(data.len());
    let most = codec::worthwhile_limit(data.len());
    let len = codec::compress_into(wish, data, &mut out[..most])?;
    let padded = usize::try_from(sector.round_up(len as u64)).ok()?;
    if padded >= data.len() {
        return None;
    }
    out[len..padded].fill(0);
    out.truncate(padded);
    Some(Packed { bytes: Arc::new(out), compression: wish.kind })
}

/// Unpacks what was read to `lsize` bytes.
///
/// # Errors
/// When the bytes are not what the codec makes.
pub(crate) fn unpack(bytes: IoBuf, kind: CompressionKind, lsize: usize) -> Result<IoBuf, CodecError> {
    if kind == CompressionKind::Off {
        return Ok(if bytes.len() == lsize { bytes } else { bytes.resized(lsize) });
    }
    let mut out = IoBuf::zeroed(lsize);
    codec::decompress_into(kind, &bytes, &mut out)?;
    Ok(out)
}
