//! Which kinds of blocks a sync wrote.

use ondisk::{Blkptr, ChecksumKind, CompressionKind};

/// Checksums, compressions and sizes of blocks and dnodes: some may be in a pool only once a feature says so, and the
/// dataset that has such blocks notes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockKinds {
    /// A bit for each by its number.
    checksums: u32,
    compressions: u32,
    /// Blocks above 128 KiB.
    large_blocks: bool,
    /// Dnodes of several slots.
    large_dnodes: bool,
}

/// The largest block that needs no feature.
const OLD_BLOCK_BYTES_MAX: u64 = 128 << 10;

impl BlockKinds {
    /// Counts a block in; holes, and kinds beyond the format, say nothing.
    pub fn note(&mut self, bp: &Blkptr) {
        if bp.is_hole() {
            return;
        }
        self.large_blocks |= bp.lsize().get() > OLD_BLOCK_BYTES_MAX;
        if let (false, Ok(kind)) = (bp.is_embedded(), bp.checksum_kind()) {
            self.checksums |= 1 << kind.raw();
        }
        if let Ok(kind) = bp.compression() {
            self.compressions |= 1 << kind.raw();
        }
    }

    /// Counts a dnode of so many slots in.
    pub(crate) fn note_dnode(&mut self, slots: usize) {
        self.large_dnodes |= slots > 1;
    }

    /// All of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            checksums: self.checksums | other.checksums,
            compressions: self.compressions | other.compressions,
            large_blocks: self.large_blocks | other.large_blocks,
            large_dnodes: self.large_dnodes | other.large_dnodes,
        }
    }

    /// Whether there are blocks above 128 KiB.
    #[must_use]
    pub fn large_blocks(self) -> bool {
        self.large_blocks
    }

    /// Whether there are dnodes of several slots.
    #[must_use]
    pub fn large_dnodes(self) -> bool {
        self.large_dnodes
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
