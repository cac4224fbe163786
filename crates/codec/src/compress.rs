//! Compression of blocks.
//!
//! A compressed block is padded with zeros to whole sectors and its real length is not in the
//! block pointer, so every format must know by itself where it ends: lz4 and zstd blocks start with
//! their length, a zlib stream ends itself, zle and lzjb stop when the block is full.

mod gzip;
mod lz4;
mod lzjb;
mod zle;
mod zstd;

use ondisk::{Compression, CompressionKind};

pub use zstd::zstd_level;

use crate::{error::CodecError, zero::is_all_zero};

/// The most that a block of `lsize` bytes may take compressed: compression that does not
/// save an eighth is not worth undoing at every read, and the block is stored as it is.
#[must_use]
pub const fn worthwhile_limit(lsize: usize) -> usize {
    lsize - (lsize >> 3)
}

/// Compresses a block into `out`, and says how many bytes that took; `None` if it does not fit,
/// or the kind is a property value and no function.
///
/// `Off` copies; `Empty` succeeds on zeros alone, and takes no bytes.
pub fn compress_into(how: impl Into<Compression>, block: &[u8], out: &mut [u8]) -> Option<usize> {
    let Compression { kind, level } = how.into();
    match kind {
        CompressionKind::Off => {
            out.get_mut(..block.len())?.copy_from_slice(block);
            Some(block.len())
        }
        CompressionKind::Empty => is_all_zero(block).then_some(0),
        CompressionKind::Lzjb => lzjb::compress(block, out),
        CompressionKind::Zle => zle::compress(block, out),
        CompressionKind::Lz4 => lz4::compress(block, out),
        CompressionKind::Zstd => zstd::compress(block, out, level),
        CompressionKind::Inherit | CompressionKind::On => None,
        gzip => gzip::compress(block, out, gzip.gzip_level()?),
    }
}

/// The same into new bytes, `max_out` of them at most: usually [`worthwhile_limit`].
#[must_use]
pub fn compress(how: impl Into<Compression>, block: &[u8], max_out: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; max_out];
    let len = compress_into(how, block, &mut out)?;
    out.truncate(len);
    Some(out)
}

/// Decompresses what is stored to a block that fills `block` exactly. Bytes behind the compressed
/// data do not matter. After an error `block` holds anything.
///
/// # Errors
/// If the bytes are damaged, are not of this kind, or make a block of another size; and for property
/// values.
pub fn decompress_into(kind: CompressionKind, stored: &[u8], block: &mut [u8]) -> Result<(), CodecError> {
    let done = match kind {
        CompressionKind::Off => copy(stored, block),
        CompressionKind::Empty => {
            block.fill(0);
            Ok(())
        }
        CompressionKind::Lzjb => lzjb::decompress(stored, block),
        CompressionKind::Zle => zle::decompress(stored, block),
        CompressionKind::Lz4 => lz4::decompress(stored, block),
        CompressionKind::Zstd => zstd::decompress(stored, block),
        CompressionKind::Inherit | CompressionKind::On => {
            return Err(CodecError::UnsupportedCompression(kind));
        }
        _ => gzip::decompress(stored, block),
    };
    let (psize, lsize) = (stored.len(), block.len());
    done.map_err(|reason| CodecError::Corrupt { kind, psize, lsize, reason })
}

/// The same into new bytes. `lsize` is what the block pointer says: bounded by the caller.
///
/// # Errors
/// As [`decompress_into`].
pub fn decompress(kind: CompressionKind, stored: &[u8], lsize: usize) -> Result<Vec<u8>, CodecError> {
    let mut block = vec![0; lsize];
    decompress_into(kind, stored, &mut block)?;
    Ok(block)
}

/// Why a format's own decompressor gives up.
type Reason = &'static str;

fn copy(stored: &[u8], block: &mut [u8]) -> Result<(), Reason> {
    let stored = stored.get(..block.len()).ok_or("shorter than the block")?;
    block.copy_from_slice(stored);
    Ok(())
}
