//! "gzip": in truth a zlib stream (RFC 1950), at the level that the kind names.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::Reason;

pub(super) fn compress(block: &[u8], out: &mut [u8], level: u8) -> Option<usize> {
    let mut zlib = Compress::new(Compression::new(u32::from(level)), true);
    let status = zlib.compress(block, out, FlushCompress::Finish).ok()?;
    (status == Status::StreamEnd).then(|| usize::try_from(zlib.total_out()).ok())?
}

pub(super) fn decompress(stored: &[u8], block: &mut [u8]) -> Result<(), Reason> {
    let mut zlib = Decompress::new(true);
    let status = zlib.decompress(stored, block, FlushDecompress::Finish).map_err(|_| "not a zlib stream")?;
    match status {
        Status::StreamEnd if zlib.total_out() == block.len() as u64 => Ok(()),
        Status::StreamEnd => Err("a shorter block"),
        _ => Err("the stream does not end where the block does"),
    }
}
