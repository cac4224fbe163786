use zerocopy::IntoBytes;

use super::*;
use crate::blkptr::Blkptr;
use crate::dnode::{DNODE_BLOCK_BYTES, DnodeImage};
use crate::objset::{OBJSET_BYTES_V3, ObjsetPhys, ObjsetType};

const LEAF_DATA: Level = Level::new(0);

fn dnode_block() -> Vec<u8> {
    let mut block = vec![0; DNODE_BLOCK_BYTES];
    let mut image = DnodeImage::new(ObjectType::DSL_DIR, 1, 1);
    image.bonus_type = ObjectType::DSL_DIR;
    image.bonus = (0..256_u64).map(|n| n as u8).collect();
    image.used_bytes = 0x0102_0304;
    image.encode(&mut block[512..1024]);
    let spilled = DnodeImage {
        extra_slots: 1,
        spill: Some(Blkptr::embed(
            &crate::blkptr::embedded::EmbeddedParts {
                lsize_bytes: 512,
                compression: crate::CompressionKind::Off,
                object_type: ObjectType::SA,
                level: 0,
                birth: units::Txg::new(7),
            },
            b"spilled",
        )),
        ..DnodeImage::new(ObjectType::PLAIN_FILE_CONTENTS, 256, 1)
    };
    spilled.encode(&mut block[1024..2048]);
    block
}

fn micro_zap() -> Vec<u8> {
    let mut zap = vec![0; 512];
    zap[..8].copy_from_slice(&BLOCK_MICRO.to_le_bytes());
    zap[64..72].copy_from_slice(&0x1122_u64.to_le_bytes());
    zap[72..76].copy_from_slice(&7_u32.to_le_bytes());
    zap[78..82].copy_from_slice(b"name");
    zap
}

fn zap_leaf() -> Vec<u8> {
    let mut leaf = vec![0; 1024];
    leaf[..8].copy_from_slice(&BLOCK_LEAF.to_le_bytes());
    leaf[24..28].copy_from_slice(&crate::zap::ZAP_LEAF_MAGIC.to_le_bytes());
    let chunks = 48 + 1024 / 32 * 2;
    leaf[chunks] = CHUNK_ENTRY;
    leaf[chunks + 4..chunks + 6].copy_from_slice(&1_u16.to_le_bytes());
    leaf[chunks + 16..chunks + 24].copy_from_slice(&0x55_u64.to_le_bytes());
    leaf[chunks + 24] = CHUNK_ARRAY;
    leaf[chunks + 25..chunks + 29].copy_from_slice(b"name");
    leaf
}

#[test]
fn swapped_twice_is_as_before() {
    let objset = ObjsetPhys::new(ObjsetType::Zfs).encode(OBJSET_BYTES_V3);
    let samples: [(ObjectType, Vec<u8>); 5] = [
        (ObjectType::DNODE, dnode_block()),
        (ObjectType::OBJSET, objset.to_vec()),
        (ObjectType::OBJECT_DIRECTORY, micro_zap()),
        (ObjectType::OBJECT_DIRECTORY, zap_leaf()),
        (ObjectType::BPOBJ, (0..=255).collect()),
    ];
    for (object_type, ours) in samples {
        let mut theirs = ours.clone();
        swap_block(object_type, LEAF_DATA, &mut theirs).unwrap();
        assert_ne!(theirs, ours, "{object_type:?}");
        swap_block(object_type, LEAF_DATA, &mut theirs).unwrap();
        assert_eq!(theirs, ours, "{object_type:?}");
    }
}

#[test]
fn numbers_are_turned_and_bytes_are_not() {
    let mut zap = micro_zap();
    swap_block(ObjectType::OBJECT_DIRECTORY, LEAF_DATA, &mut zap).unwrap();
    assert_eq!(zap[..8], BLOCK_MICRO.to_be_bytes());
    assert_eq!((&zap[64..72], &zap[72..76]), (&0x1122_u64.to_be_bytes()[..], &7_u32.to_be_bytes()[..]));
    assert_eq!(zap[78..82], *b"name");
    let mut leaf = zap_leaf();
    swap_block(ObjectType::OBJECT_DIRECTORY, LEAF_DATA, &mut leaf).unwrap();
    let chunks = 48 + 1024 / 32 * 2;
    assert_eq!(leaf[chunks + 16..chunks + 24], 0x55_u64.to_be_bytes());
    assert_eq!(leaf[chunks + 25..chunks + 29], *b"name");
    let mut block = dnode_block();
    swap_block(ObjectType::DNODE, LEAF_DATA, &mut block).unwrap();
    assert_eq!(block[512 + 24..512 + 32], 0x0102_0304_u64.to_be_bytes(), "used bytes");
    assert_eq!(block[512 + 8..512 + 10], 1_u16.to_be_bytes(), "sectors of a data block");
    let mut file = *b"as it is";
    swap_block(ObjectType::PLAIN_FILE_CONTENTS, LEAF_DATA, &mut file).unwrap();
    assert_eq!(file, *b"as it is");
}

#[test]
fn an_indirect_block_is_words_whatever_its_object_is() {
    let bp = Blkptr::default();
    let mut block = bp.as_bytes().to_vec();
    block[0] = 1;
    swap_block(ObjectType::PLAIN_FILE_CONTENTS, Level::new(1), &mut block).unwrap();
    assert_eq!((block[0], block[7]), (0, 1));
}

#[test]
fn acls_turn_both_ways_entry_by_entry() {
    use crate::acl::{Ace, ace_flags, ace_type, decode, decode_logged, encode, encode_old, trivial};
    let mut aces = trivial(0o640, false);
    aces.push(Ace { ace_type: ace_type::ALLOW, flags: 0, mask: 1, who: Some(0x0102_0304), object: None });
    let object = Some(([1; 16], [2; 16]));
    let flags = ace_flags::IDENTIFIER_GROUP;
    aces.push(Ace { ace_type: ace_type::ALLOW_OBJECT, flags, mask: 2, who: Some(5), object });
    let mut new = encode(&aces);
    acl::swap(&mut new, ByteOrder::Little);
    assert_eq!(new[..4], [0, 0, 0x10, 0], "type and flags of the owner's entry");
    acl::swap(&mut new, ByteOrder::Big);
    assert_eq!(decode(&new), Ok(aces.clone()));
    let mut old = encode_old(&aces);
    acl::swap_old(&mut old, ByteOrder::Little);
    assert_eq!(old[8..12], [0x10, 0, 0, 0], "flags and type of the owner's entry");
    acl::swap_old(&mut old, ByteOrder::Big);
    assert_eq!(decode_logged(&old), Ok(aces));
}

#[test]
fn old_znodes_turn_with_either_kind_of_acl() {
    for version in [acl::ACL_VERSION_INITIAL, acl::ACL_VERSION_FUID] {
        let mut znode = crate::ZnodePhys { mode: 0o100_644.into(), ..Default::default() };
        znode.acl.version = version.into();
        let aces = acl::trivial(0o644, false);
        let bytes = if version == 0 { acl::encode_old(&aces) } else { acl::encode(&aces) };
        znode.acl.entries[..bytes.len()].copy_from_slice(&bytes);
        let mut theirs = znode.as_bytes().to_vec();
        theirs.extend(b"target");
        turn_block(ObjectType::ZNODE, LEAF_DATA, &mut theirs, ByteOrder::Little).unwrap();
        assert_eq!(theirs[72..80], 0o100_644_u64.to_be_bytes());
        assert_eq!(theirs[188..190], version.to_be_bytes());
        turn_block(ObjectType::ZNODE, LEAF_DATA, &mut theirs, ByteOrder::Big).unwrap();
        assert_eq!(theirs, [znode.as_bytes(), b"target"].concat());
    }
}

#[test]
fn what_cannot_be_swapped_is_an_error_and_no_bytes_panic() {
    assert!(swap_block(ObjectType::new(0x7f), LEAF_DATA, &mut [0; 512]).is_err());
    let mut state = 1_u64;
    for round in 0..2000_usize {
        let mut bytes = vec![0; round % 1500];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        for raw in 0..=255 {
            let _ = swap_block(ObjectType::new(raw), LEAF_DATA, &mut bytes);
        }
    }
}
