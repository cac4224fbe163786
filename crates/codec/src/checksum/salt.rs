//! The pool's salt, as keyed checksums use it.

use super::{edonr, skein};

/// 32 bytes of the pool that nobody could foretell, and the states that keyed functions make of
/// them before the first byte of a block. Whoever plans blocks with equal checksums would have
/// to know the pool first.
#[derive(Clone, Copy)]
pub struct Salt {
    pub(super) bytes: [u8; 32],
    pub(super) skein: [u64; skein::WORDS],
    pub(super) edonr: edonr::Pipe,
}

impl Salt {
    /// Prepares the functions.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self { bytes, skein: skein::keyed(&bytes), edonr: edonr::keyed(&bytes) }
    }

    /// As the pool stores it.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
}

impl std::fmt::Debug for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Salt({:02x?})", self.bytes)
    }
}
