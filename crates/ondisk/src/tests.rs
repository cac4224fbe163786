//! Tests of the small modules: numbers, names and bit fields.

use std::collections::BTreeSet;

use proptest::prelude::*;
use units::{Asize, ObjectId, Txg, VdevId, VdevOffset};
use zerocopy::IntoBytes;

use crate::config::PoolState;
use crate::gang::{GANG_HEADER_BYTES, GangHeaderPhys, gang_verifier};
use crate::{
    Blkptr, BlkptrParts, ByteSwap, ChecksumKind, CompressionKind, Dirent, Dva, ObjectType, bits, bptree,
};

#[test]
fn numbers_of_functions_are_their_places() {
    for (raw, kind) in (0..).zip(ChecksumKind::ALL) {
        assert_eq!((kind.raw(), ChecksumKind::from_raw(raw)), (raw, Ok(kind)));
    }
    for (raw, kind) in (0..).zip(CompressionKind::ALL) {
        assert_eq!((kind.raw(), CompressionKind::from_raw(raw)), (raw, Ok(kind)));
    }
    assert!(ChecksumKind::from_raw(15).is_err() && CompressionKind::from_raw(17).is_err());
    let levels: Vec<_> = CompressionKind::ALL.into_iter().filter_map(CompressionKind::gzip_level).collect();
    assert_eq!(levels, (1..=9).collect::<Vec<_>>());
}

#[test]
fn names_of_functions_are_unique() {
    let checksums: BTreeSet<_> = ChecksumKind::ALL.iter().map(|kind| kind.name()).collect();
    let compressions: BTreeSet<_> = CompressionKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!((checksums.len(), compressions.len()), (15, 17));
}

#[test]
fn only_strong_checksums_let_blocks_be_called_equal() {
    use ChecksumKind::{Blake3, Edonr, Fletcher2, Fletcher4, Sha256, Skein};
    assert!(Sha256.is_dedup_grade() && Skein.is_dedup_grade() && Blake3.is_dedup_grade());
    assert!(Edonr.is_nopwrite_grade() && !Edonr.is_dedup_grade());
    assert!(Fletcher4.is_metadata_grade() && !Fletcher4.is_dedup_grade());
    assert!(!Fletcher2.is_metadata_grade());
    assert!(ChecksumKind::ALL.into_iter().all(|kind| !kind.is_salted() || kind.is_nopwrite_grade()));
}

#[test]
fn object_types_have_the_formats_numbers_and_names() {
    for (kind, raw, name) in [
        (ObjectType::NONE, 0, "unallocated"),
        (ObjectType::DNODE, 10, "DMU dnode"),
        (ObjectType::OBJSET, 11, "DMU objset"),
        (ObjectType::PLAIN_FILE_CONTENTS, 19, "ZFS plain file"),
        (ObjectType::SA, 44, "System attributes"),
        (ObjectType::BPOBJ_SUBOBJ, 53, "bpobj subobj"),
        (ObjectType::OTN_ZAP_METADATA, 196, "zap metadata"),
        (ObjectType::OTN_UINT64_METADATA, 195, "uint64 metadata"),
    ] {
        assert_eq!((kind.raw(), kind.props().map(|props| props.name)), (raw, Some(name)));
    }
}

#[test]
fn every_byte_is_an_object_type_or_refused() {
    for raw in 0..=u8::MAX {
        let kind = ObjectType::new(raw);
        let expected = raw < 54 || (raw >= 0x80 && raw & 0x1f < 10);
        assert_eq!(kind.is_valid(), expected, "{raw:#x}");
        assert!(!format!("{kind:?}").is_empty());
        assert!(kind.is_valid() || kind.is_metadata());
    }
    assert!(!ObjectType::PLAIN_FILE_CONTENTS.is_metadata() && ObjectType::DIRECTORY_CONTENTS.is_metadata());
    assert_eq!(ObjectType::OTN_ZAP_DATA.props().map(|props| props.byte_swap), Some(ByteSwap::Zap));
}

proptest! {
    #[test]
    fn bit_fields_do_not_touch_their_neighbours(word in any::<u64>(), low in 0_u32..64, len in 1_u32..=64, value in any::<u64>()) {
        let len = len.min(64 - low);
        let value = value >> (64 - len);
        let set = bits::set(word, low, len, value);
        prop_assert_eq!(bits::get(set, low, len), value);
        let others = !((u64::MAX >> (64 - len)) << low);
        prop_assert_eq!(set & others, word & others);
    }

    #[test]
    fn directory_entries_survive(object in 0_u64..1 << 48, file_type in 0_u8..16) {
        let entry = Dirent { object: ObjectId::new(object), file_type };
        prop_assert_eq!(Dirent::from_word(entry.to_word()), entry);
    }

    #[test]
    fn any_gang_header_decodes_or_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = GangHeaderPhys::decode(&bytes).map(|header| header.members().count());
        prop_assert_eq!(bptree::entries(&bytes).count(), bytes.len() / 168);
        let _ = bptree::BptreePhys::decode(&bytes);
    }
}

#[test]
#[should_panic(expected = "does not fit")]
fn a_value_too_large_for_its_bits_is_asserted() {
    let _ = bits::set(0, 8, 4, 16);
}

#[test]
fn a_directory_entry_has_the_type_of_the_mode() {
    let of = |mode| Dirent::of_mode(ObjectId::new(7), mode).file_type;
    assert_eq!((of(0o100_644), of(0o040_755), of(0o120_777)), (8, 4, 10));
    assert_eq!(Dirent::of_mode(ObjectId::new(7), 0o040_755).to_word(), 4 << 60 | 7);
}

#[test]
fn a_gang_header_is_seeded_with_its_place_and_birth() {
    let dva =
        Dva { vdev: VdevId::new(2), offset: VdevOffset::new(0x4000), asize: Asize::new(0x600), gang: true };
    let bp = BlkptrParts {
        dvas: [dva, Dva::EMPTY, Dva::EMPTY],
        birth: Txg::new(90),
        physical_birth: Txg::new(88),
        ..BlkptrParts::default()
    }
    .to_blkptr();
    assert!(bp.is_gang());
    let verifier = gang_verifier(&bp);
    assert_eq!(verifier, [2, 0x4000, 88, 0]);
    let header = GangHeaderPhys::new([bp, Blkptr::HOLE, Blkptr::HOLE], verifier);
    let decoded = GangHeaderPhys::decode(header.as_bytes()).expect("our own header");
    assert_eq!((decoded, decoded.members().count()), (header, 1));
    assert!(GangHeaderPhys::decode(&[0; GANG_HEADER_BYTES]).is_err());
}

#[test]
fn states_of_pools_have_the_formats_numbers() {
    for raw in 0..5 {
        assert_eq!(PoolState::from_raw(raw).map(PoolState::raw), Some(raw));
    }
    assert_eq!(PoolState::from_raw(5), None);
}
