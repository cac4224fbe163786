//! Bytes that no ZAP ever wrote.

use futures::executor::block_on;
use proptest::prelude::*;

use super::memory::{Memory, TX, micro};
use crate::zap::{Cursor, ZAP_FLAG_HASH64, Zap, ZapError, ZapValue};

/// A ZAP of 1 KiB blocks with several leaves and an external pointer table.
async fn fat() -> Zap<Memory> {
    let zap = Zap::format(Memory::new(1024), &TX, 5, 0, ZAP_FLAG_HASH64).await.unwrap();
    for number in 0..600_u64 {
        zap.add_u64(&TX, format!("name {number}").as_bytes(), number).await.unwrap();
    }
    zap.add(&TX, b"array", &ZapValue::U8(vec![7; 300])).await.unwrap();
    zap
}

/// Does everything that can be done. Results do not matter; that there is one does.
async fn use_all(blocks: &[Vec<u8>]) -> Result<(), ZapError> {
    let zap = Zap::open(Memory::of_blocks(blocks)).await?;
    let _ = zap.count().await;
    let _ = zap.entries(Cursor::START, 2000).await;
    let _ = zap.entries(Cursor::from_raw(0x12_3456_789a), 3).await;
    for number in 0..40 {
        let name = format!("name {number}");
        let _ = zap.lookup(name.as_bytes()).await;
        let _ = zap.lookup_u64(name.as_bytes()).await;
        let _ = zap.update(&TX, name.as_bytes(), &ZapValue::U8(vec![1; 60])).await;
        let _ = zap.remove(&TX, name.as_bytes()).await;
        let _ = zap.add_u64(&TX, format!("new {number}").as_bytes(), number).await;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_blocks_give_errors_and_never_panic(
        form in 0..3_usize,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..40),
    ) {
        block_on(async {
            let mut blocks = match form {
                0 => micro().await.blocks().blocks(),
                _ => fat().await.blocks().blocks(),
            };
            // Form 1 is damaged where it hurts: header and the first words of leaves.
            for (block, at, byte) in damage {
                let block = block.index(blocks.len());
                let len = if form == 1 { 160 } else { blocks[block].len() };
                let at = at.index(len);
                blocks[block][at] = byte;
            }
            let _ = use_all(&blocks).await;
        });
    }

    #[test]
    fn blocks_of_noise_are_not_taken_for_a_zap(bytes in proptest::collection::vec(any::<u8>(), 512..2048)) {
        let refused = matches!(block_on(use_all(&[bytes])), Err(ZapError::Damaged { .. }));
        prop_assert!(refused);
    }
}

#[test]
fn every_single_byte_of_a_leaf_may_be_wrong() {
    block_on(async {
        let good = fat().await.blocks().blocks();
        let leaf = good.iter().position(|block| block[24..28] == [0xaf, 0x1e, 0xab, 0x02]).unwrap();
        for at in (0..1024).step_by(3) {
            let mut blocks = good.clone();
            blocks[leaf][at] ^= 0xff;
            let _ = use_all(&blocks).await;
        }
    });
}
