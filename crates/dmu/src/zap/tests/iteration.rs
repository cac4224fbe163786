//! Cursors.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use proptest::prelude::*;

use super::memory::{TX, micro};
use crate::zap::Cursor;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn iteration_meets_every_lasting_entry_once_while_others_come_and_go(
        lasting in 1_u32..3000,
        batch in 1_usize..200,
        churn in 0_u32..60,
    ) {
        block_on(async {
            let zap = micro().await;
            let mut expected = BTreeSet::new();
            for number in 0..lasting {
                let name = format!("stays {number}");
                zap.add_u64(&TX, name.as_bytes(), 1).await.unwrap();
                expected.insert(name.into_bytes());
            }
            let mut met: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            let mut cursor = Cursor::START;
            let mut round = 0;
            loop {
                let entries = zap.entries(Cursor::from_raw(cursor.raw()), batch).await.unwrap();
                let Some(last) = entries.last() else { break };
                cursor = last.next;
                for entry in &entries {
                    *met.entry(entry.name.clone()).or_default() += 1;
                }
                for step in 0..churn {
                    let fresh = format!("comes and goes {round} {step}");
                    zap.add_u64(&TX, fresh.as_bytes(), 2).await.unwrap();
                    if round > 0 {
                        let old = format!("comes and goes {} {step}", round - 1);
                        zap.remove(&TX, old.as_bytes()).await.unwrap();
                    }
                }
                round += 1;
            }
            assert!(expected.iter().all(|name| met.get(name) == Some(&1)));
            assert!(met.values().all(|&times| times == 1));
        });
    }
}

#[test]
fn a_place_in_a_micro_zap_is_the_same_place_once_it_is_fat() {
    block_on(async {
        let zap = micro().await;
        for number in 0..200 {
            zap.add_u64(&TX, format!("{number}").as_bytes(), number).await.unwrap();
        }
        let before = zap.all().await.unwrap();
        let place = before[99].next;
        zap.add(&TX, &[b'x'; 200], &crate::zap::ZapValue::text("long")).await.unwrap();
        zap.remove(&TX, &[b'x'; 200]).await.unwrap();
        assert_eq!(zap.blocks().blocks().len(), 2);
        assert_eq!(zap.all().await.unwrap(), before);
        assert_eq!(zap.entries(place, usize::MAX).await.unwrap(), before[100..]);
    });
}

#[test]
fn past_the_last_entry_there_is_nothing() {
    block_on(async {
        let zap = micro().await;
        zap.add_u64(&TX, b"one", 1).await.unwrap();
        let entries = zap.all().await.unwrap();
        assert!(zap.entries(entries[0].next, 9).await.unwrap().is_empty());
        assert!(zap.entries(Cursor::END, 9).await.unwrap().is_empty());
    });
}
