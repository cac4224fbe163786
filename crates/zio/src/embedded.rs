//! Checksums that lie inside the block they cover, over a seed that only the right reader knows.
//!
//! | kind | where | hash | over | verifier |
//! |---|---|---|---|---|
//! | label | last 40 bytes | SHA-256 | the whole part | its offset on the leaf |
//! | gang header | last 40 bytes | SHA-256 | the header | first DVA's vdev and offset, birth |
//! | zilog | last 40 bytes | fletcher2 | the whole block | the blkptr's checksum words |
//! | zilog2 | bytes 144 to 184 | fletcher4 | the used part, to 4 KiB | the blkptr's checksum words |
//!
//! The hash is taken with the verifier in the place of the checksum. So a log block of another
//! chain, or of an earlier use of the same place, does not verify.
//! (tests: `a_log_block_verifies_only_with_its_own_seed`, `only_the_used_part_of_a_slim_log_block_counts`)

use ondisk::zil::{ChainForm, ZIL_CHAIN_BYTES, ZilChain};
use ondisk::{Blkptr, ByteOrder, ECK_BYTES, ZioEck};

#[cfg(test)]
mod tests;

/// Size of a gang block's header as all pools have it; larger ones need a feature.
pub const GANG_HEADER_BYTES: usize = 512;

/// What a gang header is seeded with.
#[must_use]
pub fn gang_verifier(bp: &Blkptr) -> [u64; 4] {
    let dva = bp.dva(0);
    [dva.vdev.get().into(), dva.offset.get(), bp.physical_birth().get(), 0]
}

/// Whether `header` is the gang header that `bp` leads to.
#[must_use]
pub fn verify_gang_header(header: &[u8], bp: &Blkptr) -> bool {
    vdev::label::verify_part(header, gang_verifier(bp))
}

/// Whether `block` is the log block that `bp` leads to.
#[must_use]
pub fn verify_log_block(block: &[u8], bp: &Blkptr) -> bool {
    let Some((form, eck, hashed)) = log_layout(block, bp) else { return false };
    let stored = &block[eck..eck + ECK_BYTES];
    let (Ok(stored), Ok(order)) = (ZioEck::of(stored), ZioEck::order(stored)) else { return false };
    let mut seeded = block[..hashed].to_vec();
    ZioEck::seeded(bp.checksum()).put_in(order, &mut seeded[..eck + ECK_BYTES]);
    log_hash(form, order, &seeded) == stored.words()
}

/// Seals `block`, whose chain structure is complete but for the checksum, for the place that `bp`
/// names.
///
/// # Panics
/// When `bp` is no log block's, or the chain says that more is used than there is.
pub fn seal_log_block(block: &mut [u8], bp: &Blkptr) {
    let (form, eck, hashed) = log_layout(block, bp).expect("a log block of our own making");
    ZioEck::seeded(bp.checksum()).put(&mut block[..eck + ECK_BYTES]);
    let sum = log_hash(form, ByteOrder::Little, &block[..hashed]);
    ZioEck::seeded(sum).put(&mut block[..eck + ECK_BYTES]);
}

/// Form, place of the checksum, and how much is hashed.
fn log_layout(block: &[u8], bp: &Blkptr) -> Option<(ChainForm, usize, usize)> {
    let form = ChainForm::of(bp.checksum_kind().ok()?).ok()?;
    let chain = ZilChain::read(form, block).ok()?;
    let hashed = usize::try_from(chain.hashed_bytes(form, block.len() as u64)?).ok()?;
    let end = match form {
        ChainForm::Slim => ZIL_CHAIN_BYTES,
        ChainForm::Trailer => block.len(),
    };
    let eck = end - ECK_BYTES;
    (end <= hashed).then_some((form, eck, hashed))
}

fn log_hash(form: ChainForm, order: ByteOrder, bytes: &[u8]) -> [u64; 4] {
    codec::checksum_of(order, form.checksum_kind(), bytes, None).expect("fletcher is always there")
}
