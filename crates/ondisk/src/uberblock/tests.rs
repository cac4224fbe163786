use proptest::prelude::*;

use super::*;

fn uberblock(txg: u64, time: u64, heartbeat: Option<u16>) -> UberblockPhys {
    let mmp = MmpConfig { sequence: heartbeat, ..MmpConfig::default() };
    UberblockPhys {
        magic: U64::new(UBERBLOCK_MAGIC),
        txg: U64::new(txg),
        timestamp: U64::new(time),
        mmp_magic: U64::new(MMP_MAGIC),
        mmp_config: U64::new(mmp.to_word()),
        ..UberblockPhys::default()
    }
}

#[test]
fn of_two_uberblocks_the_later_txg_then_time_then_heartbeat_wins() {
    let ascending = [
        uberblock(4, 900, Some(9)),
        uberblock(5, 100, None),
        uberblock(5, 100, Some(1)),
        uberblock(5, 100, Some(2)),
        uberblock(5, 101, None),
        uberblock(6, 0, None),
    ];
    assert!(ascending.is_sorted_by(|a, b| a.rank() < b.rank()));
}

#[test]
fn an_uberblock_reads_in_both_byte_orders_and_an_empty_slot_is_none() {
    let mut slot = uberblock(7, 8, Some(9)).encode_slot(1024, [0; 4]);
    let ours = UberblockPhys::decode(&slot).expect("ours");
    crate::swap::words::<8>(&mut slot);
    assert_eq!(slot[..8], UBERBLOCK_MAGIC.to_be_bytes());
    assert_eq!(UberblockPhys::decode(&slot).expect("theirs").as_bytes(), ours.as_bytes());
    assert!(matches!(UberblockPhys::decode(&[0; 1024]), Err(OndiskError::BadMagic { .. })));
}

#[test]
fn a_slot_ends_in_its_checksum() {
    let slot = uberblock(7, 7, None).encode_slot(4096, [0x20000, 0, 0, 0]);
    assert_eq!(slot.len(), 4096);
    assert_eq!(ZioEck::of(&slot).map(|eck| eck.words()), Ok([0x20000, 0, 0, 0]));
}

#[test]
fn the_heartbeat_slot_is_never_a_txgs() {
    for ashift in 9..=16 {
        let ashift = Ashift::new(ashift);
        let slots = label::uberblock_slots(ashift);
        let last = slots - 1;
        let used = (0..2 * slots).map(|txg| UberblockPhys::slot_of(Txg::new(txg), ashift, true));
        assert!(used.into_iter().all(|slot| slot.expect("a slot") < last));
        assert_eq!(UberblockPhys::slot_of(Txg::new(last), ashift, false), Ok(last));
    }
}

proptest! {
    #[test]
    fn multihost_settings_survive(interval in proptest::option::of(0_u32..1 << 24), sequence: Option<u16>, fail: Option<u16>) {
        let mmp = MmpConfig { interval_ms: interval, sequence, fail_intervals: fail };
        prop_assert_eq!(MmpConfig::from_word(mmp.to_word()), mmp);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(uberblock) = UberblockPhys::decode(&bytes) {
            let _ = (uberblock.rank(), uberblock.mmp(), uberblock.rootbp.check());
        }
        let mut forged = UBERBLOCK_MAGIC.to_le_bytes().to_vec();
        forged.extend_from_slice(&bytes);
        if let Ok(uberblock) = UberblockPhys::decode(&forged) {
            let _ = (uberblock.rank(), uberblock.mmp(), format!("{uberblock:?}"));
        }
    }
}
