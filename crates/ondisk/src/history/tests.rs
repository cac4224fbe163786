use proptest::prelude::*;

use super::*;

fn record() -> NvList {
    let mut record = NvList::new();
    record
        .add_u64(names::TIME, 1_700_000_000)
        .add_str(names::COMMAND, "zpool create tank a")
        .add_u64(names::WHO, 0);
    record
}

#[test]
fn a_record_survives_behind_its_length() {
    let bytes = encode_record(&record());
    let mut more = bytes.clone();
    more.extend_from_slice(b"the next record");
    assert_eq!(decode_record(&more), Ok((record(), bytes.len())));
    assert!(decode_record(&bytes[..bytes.len() - 1]).is_err());
}

proptest! {
    #[test]
    fn offsets_stay_in_the_ring(create in 0_u64..1 << 20, ring in 1_u64..1 << 30, offset in any::<u64>()) {
        let phys = HistoryPhys { create_len: create.into(), phys_max_off: (create + ring).into(), ..HistoryPhys::default() };
        match phys.to_phys(offset) {
            Some(at) => prop_assert!((create..create + ring).contains(&at) && (offset - at) % ring == 0),
            None => prop_assert!(offset < create),
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100), len in 0_u64..100) {
        let _ = (HistoryPhys::decode(&bytes), decode_record(&bytes));
        let mut framed = len.to_le_bytes().to_vec();
        framed.extend_from_slice(&bytes);
        let _ = decode_record(&framed);
    }
}

#[test]
fn a_ring_that_is_empty_or_inside_out_is_an_error() {
    let good =
        HistoryPhys { phys_max_off: 100.into(), bof: 10.into(), eof: 50.into(), ..HistoryPhys::default() };
    assert!(HistoryPhys::decode(good.as_bytes()).is_ok());
    for bad in [
        HistoryPhys { create_len: 100.into(), ..good },
        HistoryPhys { bof: 51.into(), ..good },
        HistoryPhys { eof: 111.into(), ..good },
    ] {
        assert!(HistoryPhys::decode(bad.as_bytes()).is_err());
    }
}
