use std::collections::BTreeSet;

use proptest::prelude::*;
use units::Ashift;

use crate::{Histogram, RangeTree, Segment, free_space::FreeSpace};

fn seg(start: u64, len: u64) -> Segment {
    Segment::new(start, len).unwrap()
}

proptest! {
    #[test]
    fn a_range_tree_equals_a_plain_set_of_sectors(
        ops in prop::collection::vec((any::<bool>(), 0u64..60, 1u64..9), 0..80)
    ) {
        let (mut tree, mut set) = (RangeTree::new(), BTreeSet::new());
        for (add, start, len) in ops {
            let segment = seg(start, len);
            let sectors = start..start + len;
            prop_assert_eq!(tree.overlaps(segment), sectors.clone().any(|s| set.contains(&s)));
            prop_assert_eq!(tree.covers(segment), sectors.clone().all(|s| set.contains(&s)));
            if add && !tree.overlaps(segment) {
                tree.add(segment);
                set.extend(sectors);
            } else if !add && tree.covers(segment) {
                tree.remove(segment);
                sectors.for_each(|s| { set.remove(&s); });
            }
            prop_assert_eq!(tree.bytes(), set.len() as u64);
            let runs: Vec<_> = tree.iter().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "merged, in order");
            prop_assert!(runs.iter().flat_map(|run| run.start..run.end).eq(set.iter().copied()));
            prop_assert_eq!(tree.iter_from(start).next(), runs.into_iter().find(|run| run.end > start));
        }
    }

    #[test]
    fn free_space_finds_the_best_fit_and_the_longest_run(
        ops in prop::collection::vec((0u64..60, 1u64..9), 0..40), len in 1u64..12
    ) {
        let mut free = FreeSpace::default();
        for (start, run) in ops {
            let segment = seg(start, run);
            if free.tree().covers(segment) {
                free.remove(segment);
            } else if !free.tree().overlaps(segment) {
                free.add(segment);
            }
        }
        let rebuilt = FreeSpace::from(free.tree().clone());
        prop_assert_eq!(free.histogram(), rebuilt.histogram());
        let longest = free.tree().iter().map(Segment::len).max().unwrap_or(0);
        prop_assert_eq!((free.longest_bytes(), rebuilt.longest_bytes()), (longest, longest));
        prop_assert_eq!(free.longest().map_or(0, Segment::len), longest);
        let best = free.tree().iter().filter(|run| run.len() >= len).min_by_key(|run| (run.len(), run.start));
        prop_assert_eq!((free.best_fit(len), rebuilt.best_fit(len)), (best, best));
    }
}

#[test]
fn absorbing_joins_two_sets() {
    let mut tree = RangeTree::from_iter([seg(0, 4), seg(8, 4)]);
    let mut other = RangeTree::from_iter([seg(4, 4), seg(20, 1)]);
    tree.absorb(&mut other);
    assert!(other.is_empty());
    assert_eq!(tree, RangeTree::from_iter([seg(0, 12), seg(20, 1)]));
}

#[test]
#[should_panic(expected = "is there already")]
fn adding_bytes_twice_panics() {
    RangeTree::from_iter([seg(0, 4), seg(3, 2)]);
}

#[test]
#[should_panic(expected = "not all of which is there")]
fn removing_absent_bytes_panics() {
    RangeTree::from_iter([seg(0, 4)]).remove(seg(2, 4));
}

#[test]
fn no_segment_is_empty_or_passes_the_end_of_the_numbers() {
    assert_eq!(Segment::new(5, 0), None);
    assert_eq!(Segment::new(u64::MAX, 1), None);
    assert!(seg(u64::MAX - 1, 1).covers(seg(u64::MAX - 1, 1)));
}

#[test]
fn a_run_beyond_the_last_bucket_counts_there_many_times() {
    let mut histogram = Histogram::default();
    histogram.add(seg(0, 512));
    histogram.add(seg(4096, 1023));
    histogram.add(seg(0, 1 << 44));
    let buckets = histogram.on_disk(Ashift::new(9));
    assert_eq!(buckets[0], 2);
    assert_eq!(buckets[31], 1 << (44 - 31 - 9), "16 TiB are sixteen times the last bucket's 1 TiB");
    assert_eq!(buckets.iter().sum::<u64>(), 18);
}

#[test]
fn fragmentation_goes_from_single_sectors_to_half_gigabytes() {
    let percent = |runs: &[u64]| {
        let mut histogram = Histogram::default();
        runs.iter().for_each(|&len| histogram.add(seg(0, len)));
        histogram.fragmentation_percent()
    };
    assert_eq!(percent(&[]), 0);
    assert_eq!(percent(&[512; 9]), 100);
    assert_eq!(percent(&[128 << 10]), 64);
    assert_eq!(percent(&[512 << 20]), 0);
    assert_eq!(percent(&[1 << 40]), 0);
    assert_eq!(percent(&[16 << 20, 16 << 20]), 17);
    assert_eq!(percent(&[4096, 4096, 8192]), (93 + 88) / 2);
}
