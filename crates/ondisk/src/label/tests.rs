use proptest::prelude::*;

use super::*;

#[test]
fn labels_lie_at_both_ends_and_never_overlap() {
    // The last size is not whole labels: the rest at the end stays unused.
    for bytes in [64 << 20, 128 << 20, (64 << 20) + 100_000] {
        let offsets: Vec<_> =
            (0..LABELS).map(|i| label_offset(bytes, i).expect("large enough").get()).collect();
        assert_eq!(offsets[..2], [0, LABEL_BYTES]);
        assert!(offsets.is_sorted_by(|a, b| a + LABEL_BYTES <= *b));
        assert!(offsets[3] + LABEL_BYTES <= bytes);
        assert!(offsets.iter().all(|offset| offset % LABEL_BYTES == 0));
    }
    assert_eq!(label_offset(4 << 20, 0), None);
    assert_eq!(label_offset(64 << 20, 4), None);
}

#[test]
fn the_ring_is_filled_exactly_by_its_slots() {
    for (ashift, bytes, slots) in
        [(9, 1024, 128), (10, 1024, 128), (12, 4096, 32), (13, 8192, 16), (16, 8192, 16)]
    {
        let ashift = Ashift::new(ashift);
        assert_eq!((uberblock_slot_bytes(ashift), uberblock_slots(ashift)), (bytes, slots));
        assert_eq!(uberblock_slot_offset(ashift, slots), LABEL_BYTES);
    }
}

#[test]
fn a_configuration_survives_its_part() {
    let mut config = NvList::new();
    config.add_str("name", "tank").add_u64("txg", 4);
    let part = VdevPhys::encode(&config, label_verifier(LeafOffset::new(16 << 10))).expect("fits");
    assert_eq!(part.len(), CONFIG_BYTES);
    assert_eq!(VdevPhys::decode(&part), Ok(config));
    assert_eq!(ZioEck::of(&part).map(|eck| eck.words()), Ok([16 << 10, 0, 0, 0]));
}

#[test]
fn a_configuration_that_does_not_fit_is_refused() {
    let mut config = NvList::new();
    config.add_bytes("x", vec![0; CONFIG_NVLIST_BYTES]);
    assert!(VdevPhys::encode(&config, [0; 4]).is_err());
}

#[test]
fn an_empty_boot_environment_is_raw_text() {
    let part = empty_boot_env(label_verifier(LeafOffset::new(8 << 10)));
    assert_eq!(part.len(), BOOT_ENV_BYTES);
    assert_eq!(boot_env_version(&part), Ok(BootEnvVersion::Raw));
    assert!(ZioEck::of(&part).is_ok());
}

#[test]
fn a_trailer_reads_the_same_in_both_byte_orders() {
    let mut part = empty_boot_env([0; 4]);
    let eck = ZioEck::seeded([1, 2, 3, 4]);
    for order in [ByteOrder::Little, ByteOrder::Big] {
        eck.put_in(order, &mut part);
        assert_eq!((ZioEck::order(&part), ZioEck::of(&part)), (Ok(order), Ok(eck)));
    }
    assert_eq!(part[part.len() - 8..], 4_u64.to_be_bytes());
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (ZioEck::of(&bytes), VdevPhys::decode(&bytes), boot_env_version(&bytes));
        let mut sealed = bytes;
        sealed.resize(400, 0);
        ZioEck::seeded([1, 2, 3, 4]).put(&mut sealed);
        let _ = VdevPhys::decode(&sealed);
    }
}
