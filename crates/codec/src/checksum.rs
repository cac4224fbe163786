//! Checksums: 256 bits, as the four words that a block pointer holds.
//!
//! Values are those of a block written on a little-endian machine, unless [`checksum_of`] is asked for
//! the other order.

mod edonr;
mod fletcher2;
pub(crate) mod fletcher4;
mod salt;
mod skein;

use ondisk::{ByteOrder, ChecksumKind};
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

/// The checksum of a block that a machine of this byte order wrote. Fletcher's sums are over
/// words as that machine reads them; digests but SHA-256's are words as it stores them.
///
/// # Errors
/// As [`checksum`].
pub fn checksum_of(
    order: ByteOrder,
    kind: ChecksumKind,
    bytes: &[u8],
    salt: Option<&Salt>,
) -> Result<[u64; 4], CodecError> {
    if order == ByteOrder::Little {
        return checksum(kind, bytes, salt);
    }
    match kind {
        ChecksumKind::Fletcher2 | ChecksumKind::Zilog => checksum(kind, &turned::<8>(bytes), salt),
        ChecksumKind::Fletcher4 | ChecksumKind::Zilog2 => checksum(kind, &turned::<4>(bytes), salt),
        ChecksumKind::Sha512 | ChecksumKind::Skein | ChecksumKind::Edonr | ChecksumKind::Blake3 => {
            Ok(checksum(kind, bytes, salt)?.map(u64::swap_bytes))
        }
        _ => checksum(kind, bytes, salt),
    }
}

/// The bytes with each word of `N` turned around.
fn turned<const N: usize>(bytes: &[u8]) -> Vec<u8> {
    let mut turned = bytes.to_vec();
    turned.as_chunks_mut::<N>().0.iter_mut().for_each(|word| word.reverse());
    turned
}

/// A digest as words. SHA-256 alone is read as big-endian on every machine.
fn words(digest: &[u8; 32], word: fn([u8; 8]) -> u64) -> [u64; 4] {
    let (bytes, _) = digest.as_chunks::<8>();
    std::array::from_fn(|at| word(bytes[at]))
}
