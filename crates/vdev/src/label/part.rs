//! The checksum at the end of a label part, of a gang header, and of anything else that nothing
//! points at with a checksum.
//!
//! The writer puts the *verifier* where the checksum will be, hashes the whole part with SHA-256,
//! and puts the hash in its place. A reader who expects another verifier, because the part is
//! another's or lies elsewhere, computes another hash.

use ondisk::ChecksumKind;
use ondisk::label::ZioEck;

/// Puts magic number and checksum into the last 40 bytes of `part`.
///
/// # Panics
/// When `part` is shorter.
pub fn seal_part(part: &mut [u8], verifier: [u64; 4]) {
    ZioEck::seeded(verifier).put(part);
    ZioEck::seeded(hash(part)).put(part);
}

/// Whether `part` ends in the checksum that `verifier` asks for, in either byte order.
#[must_use]
pub fn verify_part(part: &[u8], verifier: [u64; 4]) -> bool {
    let (Ok(stored), Ok(order)) = (ZioEck::of(part), ZioEck::order(part)) else { return false };
    let mut seeded = part.to_vec();
    ZioEck::seeded(verifier).put_in(order, &mut seeded);
    hash(&seeded) == stored.words()
}

fn hash(part: &[u8]) -> [u64; 4] {
    codec::checksum(ChecksumKind::Label, part, None).expect("SHA-256 is always there")
}
