use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

use super::*;

#[test]
fn leaves_of_16_kib_have_the_formats_numbers() {
    let layout = LeafLayout::new(14).expect("16 KiB");
    assert_eq!((layout.hash_entries(), layout.chunks()), (512, 638));
    assert_eq!((layout.hash_offset(0), layout.chunk_offset(0)), (48, 1072));
    assert!(layout.chunk_offset(layout.chunks()) <= layout.block_bytes());
    assert!(LeafLayout::new(8).is_err() && LeafLayout::new(21).is_err());
}

#[test]
fn chunks_of_any_leaf_lie_in_the_block() {
    for shift in 9..=20 {
        let layout = LeafLayout::new(shift).expect("in range");
        let block = vec![CHUNK_FREE; layout.block_bytes()];
        let last = u16::try_from(layout.chunks() - 1).expect("chunk numbers have 16 bits");
        assert_eq!(layout.chunk(&block, last).map(<[u8]>::len), Some(CHUNK_BYTES));
        assert_eq!(layout.chunk(&block, last + 1), None);
        assert_eq!(layout.chunk(&block[..100], last), None);
    }
}

#[test]
fn a_micro_entry_lies_as_the_format_says() {
    let entry = MzapEntryPhys::new(b"root_dataset", 32, 1);
    let bytes = entry.as_bytes();
    assert_eq!((bytes[0], bytes[8], &bytes[14..27]), (32, 1, &b"root_dataset\0"[..]));
    assert_eq!(entry.name(), b"root_dataset");
    assert!(entry.is_used() && !MzapEntryPhys::FREE.is_used());
    let longest = [b'x'; MZAP_NAME_BYTES - 1];
    assert_eq!(MzapEntryPhys::new(&longest, 0, 0).name(), longest);
}

#[test]
fn a_name_without_a_nul_ends_with_its_room() {
    let entry = MzapEntryPhys { name: [b'x'; MZAP_NAME_BYTES], ..MzapEntryPhys::FREE };
    assert_eq!(entry.name().len(), MZAP_NAME_BYTES);
}

#[test]
fn the_kind_is_told_by_the_first_word() {
    assert_eq!(ZapKind::of(&BLOCK_MICRO.to_le_bytes()), Ok(ZapKind::Micro));
    assert_eq!(ZapKind::of(&BLOCK_HEADER.to_le_bytes()), Ok(ZapKind::Fat));
    assert!(ZapKind::of(&BLOCK_LEAF.to_le_bytes()).is_err());
    assert!(ZapKind::of(&[]).is_err());
}

#[test]
fn a_fat_header_checks_magic_and_table() {
    let mut header = ZapHeaderPhys {
        block_type: BLOCK_HEADER.into(),
        magic: ZAP_MAGIC.into(),
        table: ZapTablePhys { shift: 10.into(), ..ZapTablePhys::default() },
        ..ZapHeaderPhys::default()
    };
    assert_eq!(ZapHeaderPhys::decode(header.as_bytes()), Ok(header));
    assert!(header.is_embedded());
    assert_eq!(embedded_table_entries(14), 10);
    header.table.shift = 49.into();
    assert!(ZapHeaderPhys::decode(header.as_bytes()).is_err());
    header.magic = 0.into();
    assert!(matches!(ZapHeaderPhys::decode(header.as_bytes()), Err(crate::OndiskError::BadMagic { .. })));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 512), kind in 248_u8.., forge: bool) {
        if forge {
            bytes[..8].copy_from_slice(&BLOCK_LEAF.to_le_bytes());
            bytes[24..28].copy_from_slice(&ZAP_LEAF_MAGIC.to_le_bytes());
        }
        let layout = LeafLayout::new(9).expect("512 bytes");
        let _ = (ZapKind::of(&bytes), ZapHeaderPhys::decode(&bytes), LeafHeaderPhys::decode(&bytes, layout));
        prop_assert_eq!(entries(&bytes).count(), 7);
        bytes[0] = kind;
        for len in [0, 1, 23, 24, 25] {
            let _ = LeafChunk::decode(&bytes[..len]);
        }
    }

    #[test]
    fn chunks_survive(bytes in any::<[u8; CHUNK_BYTES]>(), kind in CHUNK_ARRAY..=CHUNK_FREE) {
        let mut bytes = bytes;
        bytes[0] = kind;
        let back = match LeafChunk::decode(&bytes).expect("a kind of chunk") {
            LeafChunk::Entry(chunk) => chunk.as_bytes().to_vec(),
            LeafChunk::Array(chunk) => chunk.as_bytes().to_vec(),
            LeafChunk::Free(chunk) => chunk.as_bytes().to_vec(),
        };
        prop_assert_eq!(&back[..], &bytes[..]);
        prop_assert_eq!(LeafEntryPhys::read_from_bytes(&bytes).expect("24 bytes").chunk_type, kind);
    }
}
