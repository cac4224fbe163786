use proptest::prelude::*;
use units::{Asize, Level, Lsize, Psize, Txg, VdevId, VdevOffset};
use zerocopy::IntoBytes;

use super::embedded::{EmbeddedParts, PAYLOAD_MAX_BYTES};
use super::*;

fn dva() -> impl Strategy<Value = Dva> {
    (0_u32..1 << 24, 0_u64..1 << 50, 1_u64..1 << 24, any::<bool>()).prop_map(|(vdev, offset, asize, gang)| {
        Dva {
            vdev: VdevId::new(vdev),
            offset: VdevOffset::new(offset * 512),
            asize: Asize::new(asize * 512),
            gang,
        }
    })
}

fn parts() -> impl Strategy<Value = BlkptrParts> {
    let dvas = (dva(), proptest::option::of(dva()), proptest::option::of(dva()));
    let sizes = (1_u64..=65536, 1_u64..=65536, 0_usize..17, 0_usize..15, any::<u8>(), 0_u8..32);
    let rest = (any::<u64>(), any::<u64>(), any::<u64>(), any::<[u64; 4]>(), any::<bool>(), any::<bool>());
    (dvas, sizes, rest).prop_map(|(dvas, sizes, rest)| BlkptrParts {
        dvas: [dvas.0, dvas.1.unwrap_or_default(), dvas.2.unwrap_or_default()],
        lsize: Lsize::new(sizes.0 * 512),
        psize: Psize::new(sizes.1 * 512),
        compression: CompressionKind::ALL[sizes.2],
        checksum_kind: ChecksumKind::ALL[sizes.3],
        object_type: ObjectType::new(sizes.4),
        level: Level::new(sizes.5),
        birth: Txg::new(rest.0),
        physical_birth: Txg::new(rest.1.max(1)),
        fill: rest.2,
        checksum: rest.3,
        dedup: rest.4,
        rewritten: rest.5,
    })
}

proptest! {
    #[test]
    fn parts_survive_the_way_through_a_blkptr(parts in parts()) {
        let bp = parts.to_blkptr();
        prop_assert_eq!(BlkptrParts::try_from(&bp), Ok(parts));
        prop_assert!(!bp.is_hole() && !bp.is_embedded());
        prop_assert_eq!(bp.byte_order(), ByteOrder::Little);
        let dvas: Vec<_> = parts.dvas.into_iter().filter(Dva::is_valid).collect();
        prop_assert_eq!(bp.dvas().collect::<Vec<_>>(), dvas);
    }

    #[test]
    fn a_blkptr_of_any_bytes_is_written_back_unchanged(bytes in any::<[u8; 32]>(), more in any::<[[u8; 32]; 3]>()) {
        let all = [bytes, more[0], more[1], more[2]].concat();
        let bp = Blkptr::decode(&all).expect("128 bytes are a blkptr");
        prop_assert_eq!(bp.as_bytes(), &all[..]);
        // Every question has an answer.
        let _ = (bp.check(), bp.fill(), bp.physical_birth(), bp.asize_total(), bp.lsize(), bp.psize());
        let _ = (bp.embedded_payload(), bp.checksum_kind(), bp.compression(), format!("{bp:?}"), bp.dva(7));
    }

    #[test]
    fn embedded_data_survive(payload in proptest::collection::vec(any::<u8>(), 1..=PAYLOAD_MAX_BYTES),
                             lsize in 1_u64..1 << 25, birth in any::<u64>(), level in 0_u8..32) {
        let parts = EmbeddedParts {
            lsize_bytes: lsize,
            compression: CompressionKind::Lz4,
            object_type: ObjectType::PLAIN_FILE_CONTENTS,
            level,
            birth: Txg::new(birth),
        };
        let bp = Blkptr::embed(&parts, &payload);
        prop_assert_eq!(bp.embedded_payload(), Ok(payload));
        prop_assert_eq!((bp.lsize().get(), bp.psize().get()), (lsize, 0));
        prop_assert_eq!((bp.birth(), bp.level().get(), bp.fill()), (Txg::new(birth), level, 1));
        prop_assert!(bp.is_embedded() && !bp.is_hole() && !bp.is_gang());
        prop_assert_eq!(bp.check(), Ok(()));
        prop_assert_eq!(bp.dvas().count(), 0);
    }
}

#[test]
fn an_all_zero_blkptr_is_a_hole_and_the_default() {
    assert_eq!(Blkptr::default(), Blkptr::HOLE);
    assert!(Blkptr::HOLE.is_hole());
    assert_eq!(Blkptr::HOLE.as_bytes(), [0; BLKPTR_BYTES]);
    assert_eq!(Blkptr::HOLE.check(), Ok(()));
}

#[test]
fn a_punched_hole_keeps_size_type_level_and_birth() {
    let hole = Blkptr::hole_with(Lsize::new(131_072), ObjectType::DNODE, Level::new(1), Txg::new(9));
    assert!(hole.is_hole());
    assert_eq!((hole.lsize().get(), hole.object_type()), (131_072, ObjectType::DNODE));
    assert_eq!((hole.level().get(), hole.birth().get()), (1, 9));
}

#[test]
fn the_physical_birth_is_stored_only_when_it_differs() {
    let bp = BlkptrParts::default().to_blkptr();
    let same = bp.with_births(Txg::new(7), Txg::new(7));
    assert_eq!(same.as_bytes()[72..80], [0; 8]);
    assert_eq!(same.physical_birth(), Txg::new(7));
    assert_eq!(bp.with_births(Txg::new(7), Txg::new(5)).physical_birth(), Txg::new(5));
}

#[test]
fn the_words_lie_where_the_format_says() {
    let first =
        Dva { vdev: VdevId::new(3), offset: VdevOffset::new(0x1000), asize: Asize::new(0x600), gang: true };
    let bp = BlkptrParts {
        dvas: [first, Dva::EMPTY, Dva::EMPTY],
        lsize: Lsize::new(0x2000),
        psize: Psize::new(0x400),
        compression: CompressionKind::Lz4,
        checksum_kind: ChecksumKind::Fletcher4,
        object_type: ObjectType::OBJSET,
        level: Level::new(2),
        birth: Txg::new(0x55),
        physical_birth: Txg::new(0x55),
        ..BlkptrParts::default()
    }
    .to_blkptr();
    let words: Vec<u64> =
        bp.as_bytes().chunks(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes"))).collect();
    assert_eq!(words[0], 3 << 32 | 3);
    assert_eq!(words[1], 1 << 63 | 8);
    assert_eq!(words[6], 1 << 63 | 2 << 56 | 11 << 48 | 7 << 40 | 15 << 32 | 1 << 16 | 15);
    assert_eq!((words[9], words[10]), (0, 0x55));
}

#[test]
fn a_blkptr_that_claims_too_much_payload_is_an_error() {
    let parts = EmbeddedParts {
        lsize_bytes: 512,
        compression: CompressionKind::Off,
        object_type: ObjectType::NONE,
        level: 0,
        birth: Txg::ZERO,
    };
    let mut bytes = Blkptr::embed(&parts, &[1]).as_bytes().to_vec();
    bytes[51] |= 0xfe; // psize lies in the top 7 bits of the low half of prop
    let bp = Blkptr::decode(&bytes).expect("128 bytes");
    assert!(bp.embedded_payload().is_err());
    assert!(bp.check().is_err());
}

#[test]
#[should_panic(expected = "no block has")]
fn a_size_that_is_not_whole_sectors_is_asserted() {
    let _ = BlkptrParts { lsize: Lsize::new(513), ..BlkptrParts::default() }.to_blkptr();
}

#[test]
fn encrypted_blocks_have_two_dvas_and_half_a_fill() {
    let mut bytes = BlkptrParts {
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        fill: u64::MAX,
        ..BlkptrParts::default()
    }
    .to_blkptr()
    .as_bytes()
    .to_vec();
    bytes[32..48].fill(0xab); // salt and IV
    bytes[55] |= 0x20; // the crypt bit
    let bp = Blkptr::decode(&bytes).expect("128 bytes");
    assert!(bp.is_encrypted());
    assert_eq!(bp.dva(2), Dva::EMPTY);
    assert_eq!(bp.fill(), u64::from(u32::MAX));
    assert!(BlkptrParts::try_from(&bp).is_err());
}
