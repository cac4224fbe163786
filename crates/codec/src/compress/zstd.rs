//! Zstandard: an 8-byte header, then a frame without its magic number.
//!
//! ```text
//! 0 length of the frame (big-endian u32)   4 level (u8)   5 version of the library (big-endian u24)   8 frame
//! ```
//! OpenZFS wrote the second word as a bit field of the writer's machine, so its halves stand
//! the other way round in pools from big-endian machines. Both are for show: a frame describes itself.

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

use super::Reason;

const HEADER_BYTES: usize = 8;
/// What `compression=zstd` means.
pub(super) const LEVEL_DEFAULT: u8 = 3;

pub(super) fn compress(block: &[u8], out: &mut [u8], level: u8) -> Option<usize> {
    let (header, frame) = out.split_first_chunk_mut::<HEADER_BYTES>()?;
    let mut zstd = CCtx::try_create()?;
    zstd.set_parameter(CParameter::Format(FrameFormat::Magicless)).ok()?;
    zstd.set_parameter(CParameter::CompressionLevel(i32::from(level))).ok()?;
    zstd.set_parameter(CParameter::ContentSizeFlag(false)).ok()?;
    let len = zstd.compress2(frame, block).ok()?;
    let version = zstd_safe::version_number().to_be_bytes();
    header[..4].copy_from_slice(&u32::try_from(len).ok()?.to_be_bytes());
    header[4] = level;
    header[5..].copy_from_slice(&version[1..]);
    Some(HEADER_BYTES + len)
}

pub(super) fn decompress(stored: &[u8], block: &mut [u8]) -> Result<(), Reason> {
    let (header, rest) = stored.split_first_chunk::<HEADER_BYTES>().ok_or("no room for a header")?;
    let (length, _) = header.split_first_chunk::<4>().ok_or("no room for a header")?;
    let len = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| "a length beyond this machine")?;
    let frame = rest.get(..len).ok_or("a length beyond the data")?;
    let mut zstd = DCtx::try_create().ok_or("no memory for a decompressor")?;
    zstd.set_parameter(DParameter::Format(FrameFormat::Magicless)).map_err(|_| "no magicless frames")?;
    let written = zstd.decompress(block, frame).map_err(|_| "not a zstd frame")?;
    if written == block.len() { Ok(()) } else { Err("a shorter block") }
}
