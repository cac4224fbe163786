use crate::*;

#[test]
fn vdev_offsets_cross_to_a_leaf_past_labels_and_boot_area() {
    assert_eq!(VdevOffset::new(0).on_leaf(), Some(LeafOffset::new(4 << 20)));
    assert_eq!(VdevOffset::new(u64::MAX).on_leaf(), None);
}

#[test]
fn sizes_round_to_whole_sectors() {
    assert_eq!(Psize::new(513).allocated_at(Ashift::new(9)).get(), 1024);
    assert_eq!(Psize::new(1).allocated_at(Ashift::new(12)).get(), 4096);
    assert_eq!(round_up(0, 512), 0);
}

#[test]
fn every_row_of_a_raidz_pays_its_parity_and_no_sector_is_left_over() {
    let sectors = |data: u64, children, parity| {
        let spread = Spread::raidz(children, parity).expect("possible");
        Psize::new(data << 12).allocated_over(Ashift::new(12), spread).get() >> 12
    };
    assert_eq!([1, 2, 3, 4, 5].map(|data| sectors(data, 3, 1)), [2, 4, 6, 6, 8]);
    assert_eq!([1, 2, 3, 4, 5].map(|data| sectors(data, 4, 2)), [3, 6, 9, 9, 12]);
    assert_eq!([1, 2, 3, 4, 32].map(|data| sectors(data, 6, 3)), [4, 8, 8, 12, 68]);
    assert_eq!(Psize::new(513).allocated_over(Ashift::new(9), Spread::PLAIN).get(), 1024);
}

#[test]
fn datasets_are_not_charged_for_the_parity_of_blocks_of_128_kib() {
    let spread = Spread::raidz(3, 1).expect("possible");
    let ashift = Ashift::new(9);
    // 341 of 512 bytes: what OpenZFS's vdev_deflate_ratio is there.
    assert_eq!(Asize::new(384 << 9).deflated_over(ashift, spread).get(), 384 * 341);
    assert_eq!(Asize::new(384 << 9).deflated_over(ashift, Spread::PLAIN).get(), 384 << 9);
}

#[test]
fn a_draid_takes_whole_rows() {
    let sectors = |data: u64, columns, parity| {
        let spread = Spread::draid(columns, parity).expect("possible");
        Psize::new(data << 12).allocated_over(Ashift::new(12), spread).get() >> 12
    };
    assert_eq!([1, 2, 3, 4, 5].map(|data| sectors(data, 2, 1)), [3, 3, 6, 6, 9]);
    assert_eq!([1, 8, 9, 32].map(|data| sectors(data, 8, 2)), [10, 10, 20, 40]);
    let unit = |spread: Spread| spread.unit_bytes(Ashift::new(12)) >> 12;
    assert_eq!(unit(Spread::draid(2, 1).expect("possible")), 3);
    assert_eq!(unit(Spread::raidz(3, 1).expect("possible")), 1);
    assert_eq!(
        [(0, 1), (4, 0), (4, 4), (255, 1)].map(|(data, parity)| Spread::draid(data, parity)),
        [None; 4]
    );
}

#[test]
fn a_widened_raidz_is_charged_as_it_was_at_first() {
    let (first, now) = (Spread::raidz(3, 1).expect("possible"), Spread::raidz(4, 1).expect("possible"));
    let widened = now.widened_from(3).expect("possible");
    let (ashift, space) = (Ashift::new(9), Asize::new(384 << 9));
    assert_eq!(space.deflated_over(ashift, widened), space.deflated_over(ashift, first));
    let block = Psize::new(128 << 10);
    assert_eq!(block.allocated_over(ashift, widened), block.allocated_over(ashift, now));
    assert_eq!(widened.first(), first);
    assert_eq!([1, 5].map(|children| now.widened_from(children)), [None; 2]);
}

#[test]
fn a_raidz_has_more_children_than_parity() {
    assert!(Spread::raidz(2, 1).is_some() && Spread::raidz(255, 3).is_some());
    for (children, parity) in [(1, 1), (2, 2), (3, 3), (5, 0), (5, 4), (256, 1)] {
        assert_eq!(Spread::raidz(children, parity), None, "{children} children, parity {parity}");
    }
}

#[test]
fn the_open_quiescing_and_syncing_groups_never_share_a_slot() {
    for raw in 4..100 {
        let open = Txg::new(raw);
        assert_ne!(open.slot(), open.prev().slot());
        assert_ne!(open.slot(), open.prev().prev().slot());
    }
}
