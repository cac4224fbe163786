//! The running checksum of a stream.

use codec::Fletcher4;
use ondisk::ByteOrder;

/// Bytes swapped at a time.
const PIECE_BYTES: usize = 4096;

/// Fletcher4 of a substream so far, as its sender computes it: over words in the order of that machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningSum {
    order: ByteOrder,
    sum: Fletcher4,
}

impl RunningSum {
    pub fn new(order: ByteOrder) -> Self {
        Self { order, sum: Fletcher4::new() }
    }

    /// Appends whole words of 32 bits.
    pub fn update(&mut self, bytes: &[u8]) {
        if self.order == ByteOrder::Little {
            return self.sum.update(bytes);
        }
        for piece in bytes.chunks(PIECE_BYTES) {
            let mut swapped = [0; PIECE_BYTES];
            let swapped = &mut swapped[..piece.len()];
            swapped.copy_from_slice(piece);
            swapped.as_chunks_mut::<4>().0.iter_mut().for_each(|word| word.reverse());
            self.sum.update(swapped);
        }
    }

    pub fn words(&self) -> [u64; 4] {
        self.sum.finish()
    }
}
