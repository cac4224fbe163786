//! LZ4, the default: a big-endian 32-bit length, then that many bytes of a bare LZ4 block.

use std::cell::RefCell;

use super::Reason;

/// Bytes of the length in front.
const LENGTH_BYTES: usize = 4;

thread_local! {
    /// The compressor insists on room for the worst case. One such buffer for each thread, as large as
    /// the largest block seen, saves clearing or faulting in fresh memory for every block.
    static WORST_CASE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn compress(block: &[u8], out: &mut [u8]) -> Option<usize> {
    let (length, data) = out.split_at_mut_checked(LENGTH_BYTES)?;
    let worst = lz4_flex::block::get_maximum_output_size(block.len());
    let len = if data.len() >= worst {
        lz4_flex::block::compress_into(block, data).ok()?
    } else {
        WORST_CASE.with_borrow_mut(|buffer| {
            if buffer.len() < worst {
                buffer.resize(worst, 0);
            }
            let len = lz4_flex::block::compress_into(block, buffer).ok()?;
            data.get_mut(..len)?.copy_from_slice(&buffer[..len]);
            Some(len)
        })?
    };
    length.copy_from_slice(&u32::try_from(len).ok()?.to_be_bytes());
    Some(LENGTH_BYTES + len)
}

pub(super) fn decompress(stored: &[u8], block: &mut [u8]) -> Result<(), Reason> {
    let (length, rest) = stored.split_first_chunk::<LENGTH_BYTES>().ok_or("no room for a length")?;
    let len = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| "a length beyond this machine")?;
    let data = rest.get(..len).ok_or("a length beyond the data")?;
    let written = lz4_flex::block::decompress_into(data, block).map_err(|_| "not an LZ4 block")?;
    if written == block.len() { Ok(()) } else { Err("a shorter block") }
}
