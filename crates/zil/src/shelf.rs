//! Buffers of blocks that have been written, for the blocks to come.
//!
//! A commit's block is page-aligned memory, asked for and given back within microseconds; the
//! allocator's bookkeeping for that cost more than anything else but the copy and the hash.

use device::IoBuf;
use parking_lot::Mutex;

/// Buffers kept at most.
const DEPTH: usize = 8;

#[derive(Debug, Default)]
pub struct Shelf(Mutex<Vec<IoBuf>>);

impl Shelf {
    /// A buffer of `len` bytes, with anything in it.
    pub fn take(&self, len: usize) -> IoBuf {
        let mut kept = self.0.lock();
        match kept.iter().rposition(|buf| buf.len() == len) {
            Some(at) => kept.swap_remove(at),
            None => IoBuf::zeroed(len),
        }
    }

    /// Keeps a buffer; the one kept longest goes, when there are too many.
    pub fn give(&self, buf: IoBuf) {
        let mut kept = self.0.lock();
        if kept.len() == DEPTH {
            kept.remove(0);
        }
        kept.push(buf);
    }
}
