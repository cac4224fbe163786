//! Where blocks come to lie.

use super::*;

#[test]
fn blocks_of_one_size_follow_each_other() {
    let mut space = normal(1, 64 * MIB, 24);
    for bytes in [4 * KIB, 16 * KIB, 128 * KIB] {
        let mut last = space.one(10, bytes);
        for _ in 0..20 {
            let next = space.one(10, bytes);
            assert_eq!(next.offset.get(), last.offset.get() + bytes);
            last = next;
        }
    }
}

#[test]
fn small_and_large_blocks_do_not_interleave() {
    let mut space = normal(1, 64 * MIB, 24);
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        small.push(space.one(10, 2 * KIB).offset.get());
        large.push(space.one(10, 128 * KIB).offset.get());
    }
    let follow = |offsets: &[u64], len| offsets.windows(2).all(|pair| pair[1] == pair[0] + len);
    assert!(follow(&small, 2 * KIB), "{small:?}");
    assert!(follow(&large, 128 * KIB), "{large:?}");
    assert!(small[0].abs_diff(large[0]) >= 4 * MIB);
}

#[test]
fn log_blocks_of_all_sizes_are_one_stream() {
    let mut space = Allocator::new();
    space.add_vdev(vdev(0, Class::Log, 64 * MIB, 24)).unwrap();
    let mut expected = 0;
    for bytes in [4 * KIB, 128 * KIB, 12 * KIB, 64 * KIB, 512] {
        let dvas = space.allocate(Class::Log, Psize::new(bytes), 1, txg(10), Hint::default()).unwrap();
        assert_eq!(dvas[0].offset.get(), expected);
        expected += bytes;
    }
}

#[test]
fn a_vdev_fills_one_metaslab_after_the_other() {
    let mut space = normal(1, 8 * MIB, 20);
    let mut order: Vec<u64> = (0..8 * 8).map(|_| space.one(10, 96 * KIB).offset.get() >> 20).collect();
    order.dedup();
    assert_eq!(order[..8], [0, 1, 2, 3, 4, 5, 6, 7], "and only then what is left in each: {order:?}");
}

#[test]
fn copies_within_one_vdev_lie_far_apart() {
    let mut space = normal(1, 64 * MIB, 22);
    for _ in 0..100 {
        let dvas = space.allocate(Class::Normal, Psize::new(16 * KIB), 3, txg(10), Hint::default()).unwrap();
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let (a, b) = (dvas[a].offset.get(), dvas[b].offset.get());
            assert!(a.abs_diff(b) >= 8 * MIB, "{dvas:?}");
        }
    }
}

#[test]
fn copies_on_a_vdev_with_one_metaslab_still_do_not_overlap() {
    let mut space = normal(1, 64 * KIB, 16);
    let dvas = space.allocate(Class::Normal, Psize::new(4 * KIB), 3, txg(10), Hint::default()).unwrap();
    assert!(!overlap(&dvas[0], &dvas[1]) && !overlap(&dvas[0], &dvas[2]) && !overlap(&dvas[1], &dvas[2]));
}

#[test]
fn a_fragmented_metaslab_keeps_its_long_runs() {
    let mut space = normal(1, 256 * KIB, 18);
    let blocks: Vec<_> = (0..512).map(|_| space.one(10, 512)).collect();
    space.finish(10);
    // Nearly full: two short runs and one of 4 KiB.
    let freed = [10, 11, 100, 300, 301, 302, 303, 304, 305, 306, 307];
    freed.iter().for_each(|&at: &usize| space.free(txg(11), &blocks[at]));
    (11..14).for_each(|at| space.finish(at));
    assert_eq!(space.one(14, 512), blocks[100], "the run that fits exactly");
    assert_eq!(space.one(14, 1024).offset, blocks[10].offset);
    assert_eq!(space.one(14, 4096).offset, blocks[300].offset);
    assert!(space.try_one(14, 512).is_err());
}
