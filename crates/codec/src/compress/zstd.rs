//! Zstandard: an 8-byte header, then a frame without its magic number.
//!
//! ```text
//! 0 length of the frame (big-endian u32)   4 level (u8)   5 version of the library (big-endian u24)   8 frame
//! ```
//! OpenZFS wrote the second word as a bit field of the writer's machine, so its halves stand
//! the other way round in pools from big-endian machines. Both are for show: a frame describes itself.
//! Levels are numbered as properties number them: 103 and above are the fast ones.

use std::cell::RefCell;

use ondisk::ZstdLevel;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

use super::Reason;

const HEADER_BYTES: usize = 8;
/// What the header says of the default level.
const DEFAULT_RAW: u8 = 3;

thread_local! {
    /// A compressor's tables are megabytes at high levels: made once for each thread.
    static COMPRESSOR: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

pub(super) fn compress(block: &[u8], out: &mut [u8], level: ZstdLevel) -> Option<usize> {
    let (header, frame) = out.split_first_chunk_mut::<HEADER_BYTES>()?;
    let number = level.level()?;
    let len = COMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = CCtx::try_create();
        }
        let zstd = kept.as_mut()?;
        zstd.set_parameter(CParameter::Format(FrameFormat::Magicless)).ok()?;
        zstd.set_parameter(CParameter::CompressionLevel(number)).ok()?;
        zstd.set_parameter(CParameter::ContentSizeFlag(false)).ok()?;
        zstd.compress2(frame, block).ok()
    })?;
    let version = zstd_safe::version_number().to_be_bytes();
    header[..4].copy_from_slice(&u32::try_from(len).ok()?.to_be_bytes());
    header[4] = if level == ZstdLevel::DEFAULT { DEFAULT_RAW } else { level.raw() };
    header[5..].copy_from_slice(&version[1..]);
    Some(HEADER_BYTES + len)
}

pub(super) fn decompress(stored: &[u8], block: &mut [u8]) -> Result<(), Reason> {
    let (header, rest) = stored.split_first_chunk::<HEADER_BYTES>().ok_or("no room for a header")?;
    let (length, _) = header.split_first_chunk::<4>().ok_or("no room for a header")?;
    let len = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| "a length beyond this machine")?;
    let frame = rest.get(..len).ok_or("a length beyond the data")?;
    let written = DECOMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = DCtx::try_create();
        }
        let zstd = kept.as_mut().ok_or("no memory for a decompressor")?;
        zstd.set_parameter(DParameter::Format(FrameFormat::Magicless)).map_err(|_| "no magicless frames")?;
        zstd.decompress(block, frame).map_err(|_| "not a zstd frame")
    })?;
    if written == block.len() { Ok(()) } else { Err("a shorter block") }
}

/// The level that a stored block says it was compressed at; `None` when the bytes have no header.
#[must_use]
pub fn zstd_level(stored: &[u8]) -> Option<ZstdLevel> {
    let header = stored.first_chunk::<HEADER_BYTES>()?;
    Some(ZstdLevel::new(header[4]))
}
