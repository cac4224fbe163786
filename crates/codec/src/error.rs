//! What the codec cannot do, or cannot undo.

use ondisk::{ChecksumKind, CompressionKind};

/// A block that cannot be checked or decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A property value that no block carries.
    #[error("checksum {} is not supported", .0.name())]
    UnsupportedChecksum(ChecksumKind),
    /// The checksum is keyed with the pool's salt, and none was given.
    #[error("checksum {} needs the pool's salt", .0.name())]
    SaltMissing(ChecksumKind),
    /// A property value that no block carries.
    #[error("compression {} is not supported", .0.name())]
    UnsupportedCompression(CompressionKind),
    /// The bytes are not what this compression writes for a block of `lsize` bytes.
    #[error("{} data of {psize} bytes does not decompress to {lsize}: {reason}", .kind.name())]
    Corrupt {
        /// The compression.
        kind: CompressionKind,
        /// Bytes given.
        psize: usize,
        /// Bytes wanted.
        lsize: usize,
        /// What was wrong.
        reason: &'static str,
    },
}
