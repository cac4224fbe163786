//! Attributes against bytes that OpenZFS 2.3.2 wrote, and against hostile ones.

use ondisk::{ByteOrder, ObjectType};

use super::*;
use crate::mode::FileKind;
use crate::new_object::{NewAttributes, bonus_capacity, new_attributes};
use crate::time::Timestamp;
use ondisk::sa::{SA_MAGIC, SaAttr, SaByteSwap};
use units::ObjectId;

/// Bonus of the root directory (object 34) of `whirl/fs` in the golden pool g03-mirror-log.
const GOLDEN_ROOT: &str = "5a502f0002041800ed410000000000001200000000000000080000000000000000000000000000000000\
000000000000220000000000000044010000088400003de9016b00000000cd9d781f0000000034e9016b00000000385d11320000000034e9\
016b00000000385d11320000000026e9016b000000008a169222000000000300000000000000000000000000000003000000000000000000\
0010ff011e0000004020a900120000000040a9001200";

/// Bonus of an empty file of mode 0644 (object 2) there.
const GOLDEN_FILE: &str = "5a502f0002041800a48100000000000000000000000000000a0000000000000000000000000000000000\
000000000000220000000000000004000000088400003de9016b00000000c987ab250000000026e9016b000000007a767539000000002\
6e9016b000000007a7675390000000026e9016b000000007a7675390000000001000000000000000000000000000000030000000000000\
0000000109f011e0000004020890012000000004089001200";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What the golden dataset's registry and layout objects hold.
fn golden_tables() -> SaTables {
    let fresh = SaTables::new(&[], &[]);
    let registry: Vec<(String, SaAttr)> =
        fresh.unregistered().into_iter().map(|(attr, info)| (attr.name().to_owned(), info)).collect();
    let layouts = [
        (2, vec![5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19]),
        (3, vec![5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19]),
        (4, vec![5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 16, 19, 17]),
        (5, vec![5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19, 20]),
        (6, vec![20]),
        (7, vec![20, 22]),
        (8, vec![5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19, 20, 22]),
    ];
    let mut registry = registry;
    registry
        .push(("TEST_FOREIGN".to_owned(), SaAttr { number: 22, length: 8, byte_swap: SaByteSwap::Uint64 }));
    SaTables::new(&registry, &layouts)
}

fn parse(hex: &str) -> SaImage {
    SaImage::parse(&golden_tables(), ObjectType::SA, bytes(hex), None).unwrap()
}

fn ready(attrs: &SaAttrs, capacity: usize) -> (Vec<u8>, Option<Vec<u8>>) {
    match attrs.build(&golden_tables(), capacity).unwrap() {
        Built::Ready { bonus, spill } => (bonus, spill),
        Built::NeedsLayouts(missing) => panic!("no layout {missing:?}"),
    }
}

#[test]
fn numbers_and_lengths_are_allotted_as_openzfs_does() {
    let tables = SaTables::new(&[], &[]);
    let word = |attr| tables.unregistered().iter().find(|(a, _)| *a == attr).map(|(_, i)| i.to_word());
    for (attr, golden) in [
        (ZplAttr::Gen, 0x0800_0004),
        (ZplAttr::DaclAces, 0x0004_0013),
        (ZplAttr::Atime, 0x1000_0000),
        (ZplAttr::ZnodeAcl, 0x5803_000f),
        (ZplAttr::Pad, 0x2000_000e),
        (ZplAttr::Projid, 0x0800_0015),
        (ZplAttr::Dxattr, 0x0003_0014),
        (ZplAttr::Symlink, 0x0003_0011),
        (ZplAttr::Scanstamp, 0x2003_0012),
        (ZplAttr::DaclCount, 0x0800_0010),
    ] {
        assert_eq!(word(attr), Some(golden), "{}", attr.name());
        assert_eq!(SaAttr::from_word(golden).unwrap().to_word(), golden);
    }
    assert_eq!(tables.next_layout(), Some(2), "0 and 1 are built in");
}

#[test]
fn golden_attributes_read_as_zdb_shows_them() {
    let root = parse(GOLDEN_ROOT);
    assert_eq!(root.word(ZplAttr::Mode), 0o40755);
    assert_eq!(root.word(ZplAttr::Size), 18);
    assert_eq!(root.word(ZplAttr::Gen), 8);
    assert_eq!(root.word(ZplAttr::Parent), 34);
    assert_eq!(root.word(ZplAttr::Links), 3);
    assert_eq!(root.word(ZplAttr::Flags), 0x8408_0000_0144);
    assert_eq!(root.word(ZplAttr::DaclCount), 3);
    assert_eq!(root.time(ZplAttr::Crtime), Timestamp { secs: 0x6b01_e926, nanos: 0x2292_168a });
    root.check_complete().unwrap();
}

#[test]
fn new_objects_get_the_bytes_that_openzfs_gives_them() {
    for (golden, kind, permissions) in
        [(GOLDEN_ROOT, FileKind::Directory, 0o755), (GOLDEN_FILE, FileKind::File, 0o644)]
    {
        let old = parse(golden);
        let tables = golden_tables();
        let new = NewAttributes {
            kind,
            permissions,
            uid: 0,
            gid: 0,
            generation: old.word(ZplAttr::Gen),
            parent: ObjectId::new(34),
            born: old.time(ZplAttr::Crtime),
            device: None,
            target: None,
            project: Some(0),
            flags: 0,
            acl: None,
        };
        let (bonus, spill) = ready(&new_attributes(&tables, &new), bonus_capacity(1));
        assert_eq!(spill, None);
        let mut image = SaImage::parse(&tables, ObjectType::SA, bonus, None).unwrap();
        for attr in [ZplAttr::Atime, ZplAttr::Mtime, ZplAttr::Ctime] {
            image.set_time(attr, old.time(attr));
        }
        image.set_word(ZplAttr::Size, old.word(ZplAttr::Size));
        image.set_word(ZplAttr::Links, old.word(ZplAttr::Links));
        assert_eq!(image.bonus(), bytes(golden));
    }
}

#[test]
fn attributes_that_outgrow_the_bonus_go_to_a_spill_block() {
    let tables = golden_tables();
    let mut attrs = parse(GOLDEN_FILE).to_attrs(&tables).unwrap();
    // 184 bytes of header and values are there already with a second variable length.
    for (len, spills) in [(136, false), (137, true), (3000, true)] {
        let value: Vec<u8> = (0..len).map(|i| i as u8).collect();
        attrs.set_known(&tables, ZplAttr::Dxattr, &value);
        let (bonus, spill) = ready(&attrs, bonus_capacity(1));
        assert_eq!(spill.is_some(), spills, "{len}");
        assert!(bonus.len() <= if spills { 320 - 128 } else { 320 });
        if let Some(spill) = &spill {
            assert!(spill.len().is_multiple_of(512));
        }
        let image = SaImage::parse(&tables, ObjectType::SA, bonus, spill).unwrap();
        assert_eq!(image.get(ZplAttr::Dxattr), Some(value.as_slice()));
        assert_eq!(image.word(ZplAttr::Mode), 0o100_644);
    }
    attrs.set_known(&tables, ZplAttr::Dxattr, &vec![0; 60_000]);
    assert!(attrs.build(&tables, 320).is_ok());
}

#[test]
fn foreign_attributes_survive_a_rebuild() {
    let tables = golden_tables();
    let mut attrs = parse(GOLDEN_FILE).to_attrs(&tables).unwrap();
    attrs.set_known(&tables, ZplAttr::Dxattr, b"x");
    attrs.set(22, &77u64.to_le_bytes());
    let (bonus, spill) = ready(&attrs, 320);
    let mut attrs = SaImage::parse(&tables, ObjectType::SA, bonus, spill).unwrap().to_attrs(&tables).unwrap();
    attrs.set_known(&tables, ZplAttr::Dxattr, &[5; 500]);
    let (bonus, spill) = ready(&attrs, 320);
    let attrs = SaImage::parse(&tables, ObjectType::SA, bonus, spill).unwrap().to_attrs(&tables).unwrap();
    assert_eq!(attrs.get(22), Some(77u64.to_le_bytes().as_slice()));
}

#[test]
fn an_unknown_layout_is_asked_for() {
    let tables = golden_tables();
    let mut attrs = parse(GOLDEN_FILE).to_attrs(&tables).unwrap();
    attrs.set_word(&tables, ZplAttr::Rdev, 1);
    let Built::NeedsLayouts(missing) = attrs.build(&tables, 320).unwrap() else { panic!("must be missing") };
    assert_eq!(missing.len(), 1);
    let mut tables = tables;
    let number = tables.next_layout().unwrap();
    tables.add_layout(number, missing[0].clone());
    let Built::Ready { bonus, .. } = attrs.build(&tables, 320).unwrap() else { panic!("layout was added") };
    let image = SaImage::parse(&tables, ObjectType::SA, bonus, None).unwrap();
    assert_eq!(image.word(ZplAttr::Rdev), 1);
}

#[test]
fn old_znodes_are_read_from_their_fixed_places() {
    let mut bonus = vec![0; 264];
    bonus[72..80].copy_from_slice(&0o100_600u64.to_le_bytes());
    bonus[80..88].copy_from_slice(&5u64.to_le_bytes());
    bonus[136..144].copy_from_slice(&9u64.to_le_bytes());
    let image = SaImage::parse(&golden_tables(), ObjectType::ZNODE, bonus, None).unwrap();
    assert_eq!(image.word(ZplAttr::Mode), 0o100_600);
    assert_eq!(image.word(ZplAttr::Size), 5);
    assert_eq!(image.word(ZplAttr::Gid), 9);
}

#[test]
fn damaged_attributes_are_errors_and_never_panics() {
    let tables = golden_tables();
    let good = bytes(GOLDEN_FILE);
    for cut in 0..good.len() {
        assert!(SaImage::parse(&tables, ObjectType::SA, good[..cut].to_vec(), None).is_err(), "{cut}");
    }
    for at in 0..8 {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            // A changed length may still fit; anything else in the header must be noticed.
            let parsed = SaImage::parse(&tables, ObjectType::SA, bad, None);
            assert!(parsed.is_err() || at >= 4, "{at}.{bit}");
        }
    }
    assert!(SaImage::parse(&tables, ObjectType::SA, good.clone(), Some(vec![0; 512])).is_err());
    assert!(SaImage::parse(&tables, ObjectType::NONE, good, None).is_err());
}

#[test]
fn attributes_of_a_big_endian_machine_read_as_ours() {
    let tables = golden_tables();
    let mut attrs = parse(GOLDEN_FILE).to_attrs(&tables).unwrap();
    let value = b"bytes have no order".repeat(20);
    attrs.set_known(&tables, ZplAttr::Dxattr, &value);
    attrs.set_known(&tables, ZplAttr::Scanstamp, &[7; 32]);
    let mut more = tables.clone();
    if let Built::NeedsLayouts(missing) = attrs.build(&more, 320).unwrap() {
        missing.into_iter().zip(100..).for_each(|(layout, number)| more.add_layout(number, layout));
    }
    let Built::Ready { bonus: ours, spill: Some(ours_spilled) } = attrs.build(&more, 320).unwrap() else {
        panic!("it spills")
    };
    let (mut theirs, mut spilled) = (ours.clone(), ours_spilled.clone());
    more.turn(&mut theirs, ByteOrder::Little).unwrap();
    more.turn(&mut spilled, ByteOrder::Little).unwrap();
    assert_eq!(theirs[..4], SA_MAGIC.to_be_bytes());
    assert_ne!(theirs, ours);
    let image = SaImage::parse(&more, ObjectType::SA, theirs, Some(spilled)).unwrap();
    assert_eq!((image.bonus(), image.spill()), (&ours[..], Some(&ours_spilled[..])));
    assert_eq!(image.word(ZplAttr::Mode), 0o100_644);
    assert_eq!(image.get(ZplAttr::Dxattr), Some(&value[..]));
}

#[test]
fn damaged_attributes_of_a_big_endian_machine_are_errors_and_never_panics() {
    let tables = golden_tables();
    let mut good = bytes(GOLDEN_FILE);
    tables.turn(&mut good, ByteOrder::Little).unwrap();
    for cut in 4..good.len() {
        assert!(SaImage::parse(&tables, ObjectType::SA, good[..cut].to_vec(), None).is_err(), "{cut}");
    }
    for at in 0..8 {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let _ = SaImage::parse(&tables, ObjectType::SA, bad, None);
        }
    }
}

#[test]
fn a_value_is_as_long_as_a_header_can_say() {
    let tables = golden_tables();
    let with = |len: usize| {
        let mut attrs = SaAttrs::default();
        attrs.set_known(&tables, crate::sa::ZplAttr::Dxattr, &vec![1; len]);
        attrs.build(&tables, bonus_capacity(1))
    };
    for len in [0, 1, 65_534, 65_535] {
        assert!(with(len).is_ok(), "{len}");
    }
    for len in [65_536, 65_537, 131_072] {
        assert!(matches!(with(len), Err(crate::ZplError::TooBig)), "{len}");
    }
}

#[test]
fn an_old_znode_becomes_system_attributes_and_an_old_znode_again() {
    let tables = golden_tables();
    let new = NewAttributes {
        kind: FileKind::Symlink,
        permissions: 0o777,
        uid: 5,
        gid: 6,
        generation: 9,
        parent: ObjectId::new(34),
        born: Timestamp { secs: 1, nanos: 2 },
        device: None,
        target: Some(b"text of a link"),
        project: None,
        flags: 0,
        acl: None,
    };
    let attrs = new_attributes(&tables, &new);
    for version in [ondisk::acl::ACL_VERSION_INITIAL, ondisk::acl::ACL_VERSION_FUID] {
        let old = attrs.build_old(&tables, version).unwrap();
        assert_eq!(old[264..], *b"text of a link");
        let image = SaImage::parse(&tables, ObjectType::ZNODE, old.clone(), None).unwrap();
        let again = image.to_attrs(&tables).unwrap();
        assert_eq!(again, attrs);
        assert_eq!(again.build_old(&tables, version).unwrap(), old);
    }
    let mut attrs = attrs;
    attrs.set_known(&tables, ZplAttr::Dxattr, b"no place");
    assert!(matches!(attrs.build_old(&tables, 1), Err(crate::ZplError::Unsupported(_))));
}
