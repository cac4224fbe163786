//! ZAPs against plain maps.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use futures::executor::block_on;
use proptest::prelude::*;

use super::memory::{Memory, TX, micro};
use crate::zap::{Zap, ZapError, ZapValue};

#[derive(Clone, Debug)]
enum Op {
    Add(String, ZapValue),
    Update(String, ZapValue),
    Remove(String),
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-c]{1,2}", 2 => "n[0-9]{1,3}", 1 => "[x]{48,52}", 1 => "y{100,255}"]
}

fn value() -> impl Strategy<Value = ZapValue> {
    prop_oneof![
        8 => any::<u64>().prop_map(ZapValue::from),
        1 => proptest::collection::vec(any::<u64>(), 0..30).prop_map(ZapValue::U64),
        1 => proptest::collection::vec(any::<u32>(), 0..9).prop_map(ZapValue::U32),
        1 => proptest::collection::vec(any::<u16>(), 0..9).prop_map(ZapValue::U16),
        1 => proptest::collection::vec(any::<u8>(), 0..3000).prop_map(ZapValue::U8),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (name(), value()).prop_map(|(name, value)| Op::Add(name, value)),
        2 => (name(), value()).prop_map(|(name, value)| Op::Update(name, value)),
        2 => name().prop_map(Op::Remove),
    ]
}

async fn apply(zap: &Zap<Memory>, model: &mut BTreeMap<String, ZapValue>, op: Op) {
    match op {
        Op::Add(name, value) => {
            let result = zap.add(&TX, name.as_bytes(), &value).await;
            if let Entry::Vacant(vacant) = model.entry(name) {
                result.unwrap();
                vacant.insert(value);
            } else {
                assert!(matches!(result, Err(ZapError::Exists { .. })), "{result:?}");
            }
        }
        Op::Update(name, value) => {
            zap.update(&TX, name.as_bytes(), &value).await.unwrap();
            model.insert(name, value);
        }
        Op::Remove(name) => {
            let result = zap.remove(&TX, name.as_bytes()).await;
            if model.remove(&name).is_none() {
                assert!(matches!(result, Err(ZapError::NotFound { .. })), "{result:?}");
            } else {
                result.unwrap();
            }
        }
    }
}

async fn contents(zap: &Zap<Memory>) -> BTreeMap<String, ZapValue> {
    let entries = zap.all().await.unwrap();
    assert_eq!(entries.len() as u64, zap.count().await.unwrap());
    entries.into_iter().map(|entry| (String::from_utf8(entry.name).unwrap(), entry.value)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_zap_behaves_as_a_map_of_names(ops in proptest::collection::vec(op(), 1..250)) {
        block_on(async {
            let zap = micro().await;
            let mut model = BTreeMap::new();
            for op in ops {
                apply(&zap, &mut model, op).await;
            }
            for (name, value) in &model {
                assert_eq!(zap.lookup(name.as_bytes()).await.unwrap().as_ref(), Some(value));
            }
            assert_eq!(zap.lookup(b"never there").await.unwrap(), None);
            assert_eq!(contents(&zap).await, model);
            let again = Zap::open(zap.blocks().reopened()).await.unwrap();
            assert_eq!(contents(&again).await, model);
        });
    }
}

#[test]
fn a_hundred_thousand_names_are_all_found_again() {
    const NAMES: u64 = 100_000;
    let name = |number: u64| format!("file-{number:08}.dat");
    block_on(async {
        let zap = micro().await;
        for number in 0..NAMES {
            zap.add_u64(&TX, name(number).as_bytes(), number).await.unwrap();
        }
        assert_eq!(zap.count().await.unwrap(), NAMES);
        // Leaf and header per entry, and the splits: nothing that grows with the directory.
        assert!(zap.blocks().changes() < NAMES * 5 / 2);
        for number in 0..NAMES {
            assert_eq!(zap.lookup_u64(name(number).as_bytes()).await.unwrap(), Some(number));
        }
        for number in (0..NAMES).step_by(2) {
            zap.remove(&TX, name(number).as_bytes()).await.unwrap();
        }
        let mut left: Vec<u64> =
            zap.all().await.unwrap().iter().map(|entry| entry.value.as_u64().unwrap()).collect();
        left.sort_unstable();
        assert!(left.into_iter().eq((1..NAMES).step_by(2)));
    });
}
