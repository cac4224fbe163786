//! Buffers of blocks that have been written, for the blocks to come.
//!
//! A commit's block is page-aligned memory, asked for and given back within microseconds; the
//! allocator's bookkeeping for that cost more than anything else but the copy and the hash.

//!
//! A log that nobody uses keeps none: there may be ten thousand of them.

use env::IoBuf;
use parking_lot::Mutex;

/// Buffers kept at most.
const DEPTH: usize = 8;

#[derive(Debug, Default)]
pub struct Shelf(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    bufs: Vec<IoBuf>,
    /// One was asked for since the last [`Shelf::tidy`].
    used: bool,
}

impl Shelf {
    /// A buffer of `len` bytes, with anything in it.
    pub fn take(&self, len: usize) -> IoBuf {
        let mut kept = self.0.lock();
        kept.used = true;
        match kept.bufs.iter().rposition(|buf| buf.len() == len) {
            Some(at) => kept.bufs.swap_remove(at),
            None => IoBuf::zeroed(len),
        }
    }

    /// Keeps a buffer; the one kept longest goes, when there are too many.
    pub fn give(&self, buf: IoBuf) {
        let mut kept = self.0.lock();
        if kept.bufs.len() == DEPTH {
            kept.bufs.remove(0);
        }
        kept.bufs.push(buf);
    }

    /// Whether it keeps nothing.
    pub fn is_empty(&self) -> bool {
        self.0.lock().bufs.is_empty()
    }

    /// Lets all go if none was asked for since the last call: once a txg.
    pub fn tidy(&self) {
        let mut kept = self.0.lock();
        if !std::mem::take(&mut kept.used) {
            kept.bufs = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_log_keeps_no_buffers() {
        let shelf = Shelf::default();
        let count = || shelf.0.lock().bufs.len();
        let buf = shelf.take(4096);
        shelf.give(buf);
        shelf.tidy();
        assert_eq!(count(), 1, "it was used in this group");
        shelf.tidy();
        assert_eq!(count(), 0);
    }
}
