use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn a_header_survives(layout in 0_u16..1024, lengths in proptest::collection::vec(any::<u16>(), 0..200)) {
        let header = SaHeader { layout, lengths };
        let bytes = header.encode();
        prop_assert_eq!(bytes.len(), SaHeader::bytes_for(header.lengths.len()));
        let (read, size) = SaHeader::decode(&bytes).expect("our own header");
        prop_assert_eq!((read.layout, size), (layout, bytes.len()));
        prop_assert_eq!(&read.lengths[..header.lengths.len()], &header.lengths[..]);
        prop_assert!(read.lengths[header.lengths.len()..].iter().all(|pad| *pad == 0));
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..100), word in any::<u64>()) {
        let _ = SaHeader::decode(&bytes);
        let mut forged = SA_MAGIC.to_le_bytes().to_vec();
        forged.extend_from_slice(&bytes);
        if let Ok((_, size)) = SaHeader::decode(&forged) {
            prop_assert!(size <= forged.len());
        }
        if let Ok(attr) = SaAttr::from_word(word) {
            prop_assert_eq!(attr.to_word(), word & 0xff_ffff_ffff);
        }
    }
}

#[test]
fn sizes_of_headers_are_the_formats() {
    for (lengths, bytes) in [(0, 8), (1, 8), (2, 16), (5, 16), (6, 24)] {
        assert_eq!(SaHeader::bytes_for(lengths), bytes);
    }
}

#[test]
fn attributes_are_registered_in_their_order_with_names_of_their_own() {
    for (number, attr) in (0_u16..).zip(ZplAttr::ALL) {
        assert_eq!(attr.index(), usize::from(number));
        let registered = attr.registration(number + 7);
        assert_eq!((registered.number, registered.length), (number + 7, attr.length()));
        assert_eq!(SaAttr::from_word(registered.to_word()), Ok(registered));
    }
    let names: std::collections::BTreeSet<_> = ZplAttr::ALL.iter().map(|attr| attr.name()).collect();
    assert_eq!(names.len(), ZplAttr::ALL.len());
}

#[test]
fn the_legacy_layout_is_as_long_as_an_old_znode() {
    let bytes: usize =
        legacy_layout().iter().map(|number| usize::from(ZplAttr::ALL[usize::from(*number)].length())).sum();
    assert_eq!(bytes, crate::znode::ZNODE_BYTES);
}
