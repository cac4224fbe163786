//! Which kinds of blocks a sync wrote.

use ondisk::{Blkptr, ChecksumKind, CompressionKind};

/// Checksums and compressions of blocks: some may be in a pool only once a feature says so, and the
/// dataset that has such blocks notes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockKinds {
    /// A bit for each by its number.
    checksums: u32,
    compressions: u32,
}

impl BlockKinds {
    /// Counts a block in; holes, and kinds beyond the format, say nothing.
    pub fn note(&mut self, bp: &Blkptr) {
        if bp.is_hole() {
            return;
        }
        if let (false, Ok(kind)) = (bp.is_embedded(), bp.checksum_kind()) {
            self.checksums |= 1 << kind.raw();
        }
        if let Ok(kind) = bp.compression() {
            self.compressions |= 1 << kind.raw();
        }
    }

    /// All of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            checksums: self.checksums | other.checksums,
            compressions: self.compressions | other.compressions,
        }
    }

    /// The checksums.
    pub fn checksums(self) -> impl Iterator<Item = ChecksumKind> {
        ChecksumKind::ALL.into_iter().filter(move |kind| self.checksums >> kind.raw() & 1 == 1)
    }

    /// The compressions.
    pub fn compressions(self) -> impl Iterator<Item = CompressionKind> {
        CompressionKind::ALL.into_iter().filter(move |kind| self.compressions >> kind.raw() & 1 == 1)
    }
}
