use ondisk::Blkptr;

use super::*;
use crate::FoundUberblock;

const DESCENTS: [Descent; 6] =
    [Descent::Blank, Descent::Newest, Descent::Earlier, Descent::Forgotten, Descent::Later, Descent::Parted];

/// All combinations of facts.
fn every_fact() -> impl Iterator<Item = CopyFacts> {
    DESCENTS.into_iter().flat_map(|descent| {
        (0..16_u8).map(move |bits| CopyFacts {
            descent,
            is_noted_missing: bits & 1 != 0,
            is_in_use: bits & 2 != 0,
            is_behind: bits & 4 != 0,
            has_better_copy: bits & 8 != 0,
        })
    })
}

#[test]
fn every_combination_of_facts_has_the_verdict_of_the_table() {
    use {CopyVerdict as V, Descent as D};
    let mut seen = BTreeMap::new();
    for facts in every_fact() {
        let given = verdict(facts);
        let CopyFacts { descent, is_noted_missing: noted, is_in_use, is_behind, has_better_copy } = facts;
        // The expectation follows the meaning of the verdict, not the order of the code.
        let has_own_states = match descent {
            D::Parted => true,
            D::Later => is_in_use || is_behind,
            D::Forgotten => noted,
            D::Blank | D::Newest | D::Earlier => false,
        };
        let has_all = matches!(descent, D::Newest | D::Later) && !is_behind && !has_own_states;
        let expected = match (has_better_copy, has_own_states, has_all) {
            (true, _, _) => V::Duplicate,
            (false, true, _) => V::Foreign,
            (false, false, true) => V::Current,
            (false, false, false) => V::Stale,
        };
        assert_eq!(given, expected, "{facts:?}");
        *seen.entry(format!("{given:?}")).or_insert(0) += 1;
    }
    let counts: Vec<_> = seen.values().copied().collect();
    assert_eq!(counts, [6, 48, 18, 24], "{seen:?}");
}

fn uberblock(txg: u64, history: u64) -> UberblockPhys {
    let rootbp = Blkptr::HOLE.with_checksum([txg, history, 0, 0]);
    UberblockPhys { txg: txg.into(), timestamp: (1000 + txg).into(), rootbp, ..Default::default() }
}

/// A device that took part in these states, given as (txg, history).
fn device(states: &[(u64, u64)]) -> Past {
    let found = states.iter().map(|&(txg, history)| FoundUberblock {
        label: 0,
        slot: txg,
        uberblock: uberblock(txg, history),
    });
    Past::of(&LeafLabels { uberblocks: found.collect(), ..LeafLabels::default() })
}

#[test]
fn a_device_descends_from_the_pool_as_its_states_tell() {
    let pool = device(&[(14, 1), (15, 1), (16, 1), (18, 1)]);
    for (states, expected) in [
        (&[][..], Descent::Blank),
        (&[(17, 1), (18, 1)][..], Descent::Newest),
        (&[(14, 1), (15, 1)][..], Descent::Earlier),
        (&[(9, 1)][..], Descent::Forgotten),
        (&[(17, 1)][..], Descent::Forgotten),
        (&[(15, 1), (16, 2)][..], Descent::Parted),
        (&[(18, 1), (19, 1)][..], Descent::Later),
        (&[(16, 1), (19, 1)][..], Descent::Later),
        (&[(18, 2), (19, 2)][..], Descent::Parted),
        (&[(40, 1)][..], Descent::Parted),
    ] {
        assert_eq!(pool.descent_of(&device(states)), expected, "{states:?}");
    }
}

#[test]
fn a_pool_in_use_remembers_its_last_states_and_no_more() {
    let mut past = device(&[(1, 1)]);
    (2..=600).for_each(|txg| past.add(&uberblock(txg, 1)));
    assert_eq!((past.newest_txg(), past.roots.len()), (Some(Txg::new(600)), REMEMBERED_TXGS));
    assert_eq!(past.descent_of(&device(&[(89, 1)])), Descent::Earlier);
    assert_eq!(past.descent_of(&device(&[(88, 1)])), Descent::Forgotten);
}

#[test]
fn devices_of_one_history_know_together_what_each_knows() {
    let mut all = device(&[(14, 1), (16, 1)]);
    all.merge(&device(&[(13, 1), (15, 1)]));
    assert_eq!(all.newest_txg(), Some(Txg::new(16)));
    for txg in 13..=15 {
        assert_eq!(all.descent_of(&device(&[(txg, 1)])), Descent::Earlier);
    }
    all.merge(&device(&[(17, 1)]));
    assert_eq!(all.newest_txg(), Some(Txg::new(17)));
}

#[test]
fn a_leaf_has_the_first_txg_of_what_it_missed_and_no_later_one() {
    let mut dtl = Dtl::default();
    dtl.add(Txg::new(10)..=Txg::new(20));
    let missing: Vec<u64> = (8..24).filter(|&txg| is_noted_missing(&dtl, Txg::new(txg))).collect();
    assert_eq!(missing, (11..=20).collect::<Vec<_>>());
}

#[test]
fn of_several_copies_the_newest_counts_then_the_one_at_its_own_path_then_the_first() {
    let ranks = [None, Some((7, 0, 0)), Some((7, 1, 0)), Some((8, 0, 0))];
    let all: Vec<LeafCopy> = ranks
        .into_iter()
        .flat_map(|rank| [false, true].map(|is_at_own_path| LeafCopy { rank, is_at_own_path }))
        .collect();
    for (place, first) in all.iter().enumerate() {
        for (other, second) in all.iter().enumerate() {
            // In `all`, a better copy follows.
            let expected = usize::from(other > place);
            assert_eq!(choose_copy(&[*first, *second]), Some(expected), "{first:?} {second:?}");
        }
    }
    assert_eq!(choose_copy(&[]), None);
    assert_eq!(choose_copy(&[all[3]; 3]), Some(0), "the first of three that are alike");
}
