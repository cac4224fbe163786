//! Keys that are arrays of words, and hashes that collide.

use futures::executor::block_on;

use super::memory::{Memory, TX};
use crate::zap::{ZAP_FLAG_HASH64, ZAP_FLAG_PRE_HASHED_KEY, ZAP_FLAG_UINT64_KEY, Zap, ZapError, ZapValue};

async fn word_zap(flags: u64) -> Zap<Memory> {
    Zap::format(Memory::new(4096), &TX, 3, 0, flags | ZAP_FLAG_UINT64_KEY).await.unwrap()
}

#[test]
fn word_keys_are_kept_apart_and_given_back() {
    block_on(async {
        let zap = word_zap(ZAP_FLAG_HASH64).await;
        for word in 0..2000_u64 {
            zap.update_words(&TX, &[word, !word], &ZapValue::from(word)).await.unwrap();
        }
        for word in 0..2000_u64 {
            assert_eq!(zap.lookup_words(&[word, !word]).await.unwrap(), Some(ZapValue::from(word)));
            assert_eq!(zap.lookup_words(&[word]).await.unwrap(), None);
        }
        let all = zap.all().await.unwrap();
        let first = all.iter().find(|entry| entry.value.as_u64() == Some(5)).unwrap();
        assert_eq!(first.name, [5_u64.to_be_bytes(), (!5_u64).to_be_bytes()].concat());
        zap.remove_words(&TX, &[5, !5]).await.unwrap();
        assert_eq!(zap.count().await.unwrap(), 1999);
        assert!(matches!(zap.lookup(b"name").await, Err(ZapError::BadName { .. })));
    });
}

#[test]
fn keys_of_one_hash_live_together_until_their_leaf_is_full() {
    block_on(async {
        let zap = word_zap(ZAP_FLAG_PRE_HASHED_KEY).await;
        let hash = 0xabcd_ef12_0000_0000;
        let mut added = 0;
        let full = loop {
            match zap.update_words(&TX, &[hash, added], &ZapValue::from(added)).await {
                Ok(()) => added += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, ZapError::Full { .. }), "{full:?}");
        assert_eq!(added, 158 / 3);
        zap.remove_words(&TX, &[hash, 10]).await.unwrap();
        zap.update_words(&TX, &[hash, added], &ZapValue::from(added)).await.unwrap();
        let mut values: Vec<_> = zap.all().await.unwrap().iter().map(|e| e.value.as_u64().unwrap()).collect();
        // The new key took the differentiator that was free, and so its place in the order.
        assert_eq!(values[10], added);
        values.sort_unstable();
        assert!(values.into_iter().eq((0..=added).filter(|&word| word != 10)));
        zap.update_words(&TX, &[!hash, 0], &ZapValue::from(77)).await.unwrap();
    });
}
