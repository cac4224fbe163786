use ondisk::zil::{ChainForm, ChainSeed, ZilChain};
use ondisk::{Blkptr, BlkptrParts};
use units::{Lsize, ObjsetId, Psize, ZilSeq};
use zerocopy::IntoBytes;

use super::*;

const BLOCK: usize = 16 << 10;

fn log_bp(form: ChainForm, seq: u64) -> Blkptr {
    let seed = ChainSeed { guid: [1, 2], objset: ObjsetId::new(54), seq: ZilSeq::new(seq) };
    BlkptrParts {
        checksum_kind: form.checksum_kind(),
        lsize: Lsize::new(BLOCK as u64),
        psize: Psize::new(BLOCK as u64),
        checksum: seed.words(),
        ..BlkptrParts::default()
    }
    .to_blkptr()
}

fn sealed(form: ChainForm, used: u64, bp: &Blkptr) -> Vec<u8> {
    let mut block = vec![0x33; BLOCK];
    let chain = ZilChain::new(Blkptr::HOLE, used, bp.checksum());
    let at = if form == ChainForm::Slim { 0 } else { BLOCK - size_of::<ZilChain>() };
    block[at..at + size_of::<ZilChain>()].copy_from_slice(chain.as_bytes());
    seal_log_block(&mut block, bp);
    block
}

#[test]
fn a_log_block_verifies_only_with_its_own_seed() {
    for form in [ChainForm::Slim, ChainForm::Trailer] {
        let bp = log_bp(form, 7);
        let block = sealed(form, 1000, &bp);
        assert!(verify_log_block(&block, &bp), "{form:?}");
        assert!(!verify_log_block(&block, &log_bp(form, 8)), "another sequence number");
        let other = if form == ChainForm::Slim { ChainForm::Trailer } else { ChainForm::Slim };
        assert!(!verify_log_block(&block, &log_bp(other, 7)), "another form");
        for len in [0, 100, ZIL_CHAIN_BYTES, BLOCK - 1] {
            let is_prefix_enough = form == ChainForm::Slim && len >= 4096;
            assert_eq!(verify_log_block(&block[..len], &bp), is_prefix_enough, "{len} bytes");
        }
    }
}

#[test]
fn only_the_used_part_of_a_slim_log_block_counts() {
    let bp = log_bp(ChainForm::Slim, 1);
    let block = sealed(ChainForm::Slim, 5000, &bp);
    for at in [0, 8, 136, 183, 184, 4095, 4096, 8191] {
        let mut bad = block.clone();
        bad[at] ^= 1;
        assert!(!verify_log_block(&bad, &bp), "byte {at} counts");
    }
    for at in [8192, BLOCK - 1] {
        let mut same = block.clone();
        same[at] ^= 1;
        assert!(verify_log_block(&same, &bp), "byte {at} was never written");
    }
}

#[test]
fn a_chain_that_claims_more_than_its_block_does_not_verify() {
    let bp = log_bp(ChainForm::Slim, 1);
    let mut block = sealed(ChainForm::Slim, 5000, &bp);
    for used in [BLOCK as u64 + 1, u64::MAX, u64::MAX - 4000, 0] {
        block[136..144].copy_from_slice(&used.to_le_bytes());
        assert!(!verify_log_block(&block, &bp));
    }
}
