//! Checksums: 256 bits, as the four words that a block pointer holds.
//!
//! All values here are those of a block written on a little-endian machine.

mod edonr;
mod fletcher2;
pub(crate) mod fletcher4;
mod salt;
mod skein;

use ondisk::ChecksumKind;
use sha2::{Digest, Sha256, Sha512_256};

use crate::error::CodecError;
pub use fletcher4::Fletcher4;
pub use salt::Salt;

/// The checksum of a block's stored bytes. For the embedded kinds this is the function alone: where
/// the checksum and its seed lie within the block is `zio`'s business.
///
/// `salt` is the pool's; only keyed kinds look at it.
///
/// # Errors
/// For the property values `inherit` and `on`, and for a keyed kind without salt.
pub fn checksum(kind: ChecksumKind, bytes: &[u8], salt: Option<&Salt>) -> Result<[u64; 4], CodecError> {
    let salt = || salt.ok_or(CodecError::SaltMissing(kind));
    match kind {
        ChecksumKind::Off | ChecksumKind::Noparity => Ok([0; 4]),
        ChecksumKind::Fletcher2 | ChecksumKind::Zilog => Ok(fletcher2::fletcher2(bytes)),
        ChecksumKind::Fletcher4 | ChecksumKind::Zilog2 => Ok(fletcher4::fletcher4(bytes)),
        ChecksumKind::Sha256 | ChecksumKind::Label | ChecksumKind::GangHeader => {
            Ok(words(&Sha256::digest(bytes).into(), u64::from_be_bytes))
        }
        ChecksumKind::Sha512 => Ok(words(&Sha512_256::digest(bytes).into(), u64::from_le_bytes)),
        ChecksumKind::Skein => Ok(skein::mac(&salt()?.skein, bytes)),
        ChecksumKind::Edonr => Ok(edonr::mac(&salt()?.edonr, bytes)),
        ChecksumKind::Blake3 => {
            Ok(words(blake3::keyed_hash(&salt()?.bytes, bytes).as_bytes(), u64::from_le_bytes))
        }
        ChecksumKind::Inherit | ChecksumKind::On => Err(CodecError::UnsupportedChecksum(kind)),
    }
}

/// A digest as words. SHA-256 alone is read as big-endian on every machine.
fn words(digest: &[u8; 32], word: fn([u8; 8]) -> u64) -> [u64; 4] {
    let (bytes, _) = digest.as_chunks::<8>();
    std::array::from_fn(|at| word(bytes[at]))
}
