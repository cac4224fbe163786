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
fn the_open_quiescing_and_syncing_groups_never_share_a_slot() {
    for raw in 4..100 {
        let open = Txg::new(raw);
        assert_ne!(open.slot(), open.prev().slot());
        assert_ne!(open.slot(), open.prev().prev().slot());
    }
}
