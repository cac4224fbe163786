//! Micro, fat, and the way from one to the other.

use futures::executor::block_on;

use super::memory::{Memory, TX, micro};
use crate::zap::bytes::{put_u64, u64_at};
use crate::zap::{Blocks, NORM_TOUPPER, Zap, ZapError, ZapValue};

#[test]
fn a_micro_zap_grows_by_sectors_to_128_kib_and_then_turns_fat() {
    block_on(async {
        let zap = micro().await;
        let mut sizes = vec![512];
        for number in 0..2048_u64 {
            zap.add_u64(&TX, format!("{number}").as_bytes(), number).await.unwrap();
            let bytes = zap.blocks().block_bytes(None);
            if bytes != sizes[sizes.len() - 1] {
                sizes.push(bytes);
            }
        }
        let expected: Vec<u32> = (1..=256).map(|sectors| 512 * sectors).chain([16 << 10]).collect();
        assert_eq!(sizes, expected);
        assert_eq!(zap.count().await.unwrap(), 2048);
        for number in 0..2048_u64 {
            assert_eq!(zap.lookup_u64(format!("{number}").as_bytes()).await.unwrap(), Some(number));
        }
    });
}

#[test]
fn slots_of_removed_names_are_used_again() {
    block_on(async {
        let zap = micro().await;
        for number in 0..7_000_u64 {
            zap.add_u64(&TX, format!("{number}").as_bytes(), number).await.unwrap();
            if number >= 7 {
                zap.remove(&TX, format!("{}", number - 7).as_bytes()).await.unwrap();
            }
        }
        assert_eq!(zap.blocks().block_bytes(None), 1024);
        assert_eq!(zap.count().await.unwrap(), 7);
    });
}

#[test]
fn a_name_of_fifty_bytes_or_an_odd_value_turns_a_micro_zap_fat() {
    block_on(async {
        let stays = micro().await;
        stays.add_u64(&TX, &[b'x'; 49], 1).await.unwrap();
        assert_eq!(stays.blocks().block_bytes(None), 512);
        for (name, value) in [(&[b'x'; 50][..], ZapValue::from(1)), (b"two", ZapValue::U64(vec![1, 2]))] {
            let turns = micro().await;
            turns.add_u64(&TX, b"before", 5).await.unwrap();
            turns.add(&TX, name, &value).await.unwrap();
            assert_eq!(turns.blocks().block_bytes(None), 16 << 10);
            assert_eq!(turns.lookup(name).await.unwrap(), Some(value));
            assert_eq!(turns.lookup_u64(b"before").await.unwrap(), Some(5));
        }
    });
}

#[test]
fn names_that_cannot_be_and_values_too_large_are_refused() {
    block_on(async {
        let zap = micro().await;
        for name in [&b""[..], b"a\0b", &[b'x'; 1024]] {
            assert!(matches!(zap.add_u64(&TX, name, 1).await, Err(ZapError::BadName { .. })));
        }
        let large = ZapValue::U8(vec![1; 8193]);
        assert!(matches!(zap.add(&TX, b"large", &large).await, Err(ZapError::ValueTooLarge { .. })));
        zap.add(&TX, &[b'x'; 1023], &ZapValue::U8(vec![1; 8192])).await.unwrap();
        assert!(matches!(zap.lookup_u64(&[b'x'; 1023]).await, Err(ZapError::NotU64 { .. })));
    });
}

#[test]
fn names_in_a_case_folding_zap_hash_alike_and_still_differ() {
    block_on(async {
        let zap = Zap::format(Memory::new(512), &TX, 5, NORM_TOUPPER, 0).await.unwrap();
        zap.add_u64(&TX, b"Name", 1).await.unwrap();
        zap.add_u64(&TX, b"name", 2).await.unwrap();
        let entries = zap.all().await.unwrap();
        assert_eq!(entries[0].next.raw() & 0xfff_ffff, entries[1].next.raw() & 0xfff_ffff);
        assert_eq!(zap.lookup_u64(b"name").await.unwrap(), Some(2));
        assert_eq!(zap.lookup_u64(b"NAME").await.unwrap(), None);
        assert!(matches!(zap.lookup("ä".as_bytes()).await, Err(ZapError::Unsupported { .. })));
    });
}

#[test]
fn all_handles_of_an_object_see_each_others_changes() {
    block_on(async {
        let one = micro().await;
        let other = Zap::open(std::sync::Arc::clone(one.blocks())).await.unwrap();
        one.add_u64(&TX, b"a", 1).await.unwrap();
        other.add_u64(&TX, b"b", 2).await.unwrap();
        one.remove(&TX, b"a").await.unwrap();
        assert_eq!(other.lookup_u64(b"a").await.unwrap(), None);
        assert_eq!(one.lookup_u64(b"b").await.unwrap(), Some(2));
    });
}

/// OpenZFS grows a pointer table block by block and may stop, and be exported, half way.
#[test]
fn a_pointer_table_found_half_grown_is_completed() {
    block_on(async {
        let zap = Zap::format(Memory::new(512), &TX, 5, 0, crate::zap::ZAP_FLAG_HASH64).await.unwrap();
        for number in 0..900_u64 {
            zap.add_u64(&TX, format!("{number}").as_bytes(), number).await.unwrap();
        }
        let mut blocks = zap.blocks().blocks();
        let (table, count, free) = (u64_at(&blocks[0], 16), u64_at(&blocks[0], 24), u64_at(&blocks[0], 56));
        assert!(count >= 4);
        // Copy the first block of the table as OpenZFS would, and leave the rest to whoever comes.
        blocks.resize((free + 2 * count) as usize, vec![0; 512]);
        for index in 0..64 {
            let pointer = u64_at(&blocks[table as usize], 8 * index);
            for twin in [2 * index, 2 * index + 1] {
                put_u64(&mut blocks[free as usize + twin / 64], 8 * (twin % 64), pointer);
            }
        }
        for (at, word) in [(40, free), (48, 1), (56, free + 2 * count)] {
            put_u64(&mut blocks[0], at, word);
        }
        let again = Zap::open(Memory::of_blocks(&blocks)).await.unwrap();
        for number in 900..1200_u64 {
            again.add_u64(&TX, format!("{number}").as_bytes(), number).await.unwrap();
        }
        for number in 0..1200_u64 {
            assert_eq!(again.lookup_u64(format!("{number}").as_bytes()).await.unwrap(), Some(number));
        }
        let header = &again.blocks().blocks()[0];
        assert_eq!((u64_at(header, 40), u64_at(header, 48)), (0, 0));
        assert!(u64_at(header, 24) >= 2 * count);
    });
}
