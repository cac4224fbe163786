use proptest::prelude::*;
use units::{Level, Lsize, Txg};

use super::*;

fn blkptr() -> impl Strategy<Value = Blkptr> {
    (1_u64..65536, any::<u64>()).prop_map(|(sectors, txg)| {
        Blkptr::hole_with(Lsize::new(sectors * 512), ObjectType::SA, Level::new(0), Txg::new(txg))
    })
}

/// What a tree of 1,024 pointers a block can hold, within 2^63 bytes.
fn blocks_max(levels: u8, sectors: u16, nblkptr: usize) -> u64 {
    let below = 1_u64.checked_shl(10 * (u32::from(levels) - 1)).unwrap_or(u64::MAX);
    below.saturating_mul(nblkptr as u64).min((1 << 63) / (512 * u64::from(sectors)))
}

fn image() -> impl Strategy<Value = DnodeImage> {
    let shape = (0_u8..32, 1_usize..=3, any::<bool>());
    shape.prop_flat_map(|(extra_slots, nblkptr, has_spill)| {
        let spill = if has_spill { BLKPTR_BYTES } else { 0 };
        let taken = (nblkptr - 1) * BLKPTR_BYTES + spill;
        let room = bonus_capacity(usize::from(extra_slots) + 1).saturating_sub(taken);
        let fits = (nblkptr - 1) * BLKPTR_BYTES + spill <= bonus_capacity(usize::from(extra_slots) + 1);
        let spill = if has_spill && fits { blkptr().prop_map(Some).boxed() } else { Just(None).boxed() };
        let blkptrs = proptest::collection::vec(blkptr(), if fits { nblkptr } else { 1 });
        let bonus = proptest::collection::vec(any::<u8>(), 0..=room);
        let numbers = (1_u8..54, 1_u8..=12, any::<u8>(), 1_u16.., any::<u64>(), any::<u64>());
        (Just(extra_slots), blkptrs, bonus, spill, numbers).prop_map(
            |(extra_slots, blkptrs, bonus, spill, n)| {
                let spill_flag = if spill.is_some() { flags::SPILL_BLKPTR } else { 0 };
                DnodeImage {
                    object_type: ObjectType::new(n.0),
                    indirect_shift: 17,
                    levels: n.1,
                    bonus_type: ObjectType::new(n.2),
                    checksum: ChecksumKind::Sha256,
                    compression: CompressionKind::Zstd,
                    flags: flags::USED_BYTES | spill_flag,
                    data_block_sectors: n.3,
                    extra_slots,
                    max_block_id: BlockId::new(n.4 % blocks_max(n.1, n.3, blkptrs.len())),
                    used_bytes: n.5,
                    blkptrs,
                    bonus,
                    spill,
                }
            },
        )
    })
}

proptest! {
    #[test]
    fn a_dnode_survives_encoding(image in image()) {
        let mut slots = vec![0xee; image.slots() * DNODE_SLOT_BYTES];
        image.encode(&mut slots);
        prop_assert_eq!(DnodeImage::decode(&slots), Ok(image));
    }

    #[test]
    fn any_bytes_decode_or_are_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..2048), fix: bool) {
        if fix && bytes.len() > 16 {
            // Headers that get further: small numbers of everything.
            for (byte, most) in bytes.iter_mut().zip([60_u8, 20, 4, 4, 60, 15, 17, 255, 255, 255, 255, 2, 4]) {
                *byte %= most;
            }
        }
        let _ = DnodeImage::decode(&bytes);
        for (index, slots) in dnodes_of_block(&bytes) {
            prop_assert!((index + 1) * DNODE_SLOT_BYTES <= bytes.len() + DNODE_SLOT_BYTES);
            let _ = DnodeImage::decode(slots);
        }
    }
}

#[test]
fn a_block_of_dnodes_is_walked_over_large_ones() {
    let mut block = vec![0; DNODE_BLOCK_BYTES];
    let mut large = DnodeImage::new(ObjectType::PLAIN_FILE_CONTENTS, 1, 1);
    large.extra_slots = 2;
    large.bonus = vec![0x11; large.bonus_capacity()]; // would look like allocated dnodes
    large.encode(&mut block[1024..1024 + 3 * 512]);
    DnodeImage::new(ObjectType::OBJECT_ARRAY, 1, 3).encode(&mut block[5 * 512..6 * 512]);
    let found: Vec<_> = dnodes_of_block(&block).map(|(index, slots)| (index, slots.len())).collect();
    assert_eq!(found, [(2, 1536), (5, 512)]);
}

#[test]
fn a_dnode_that_reaches_past_its_block_is_an_error() {
    let mut block = vec![0; DNODE_BLOCK_BYTES];
    let last = DNODE_BLOCK_BYTES - DNODE_SLOT_BYTES;
    DnodeImage::new(ObjectType::OBJECT_ARRAY, 1, 1).encode(&mut block[last..]);
    block[last + 12] = 1;
    let found: Vec<_> = dnodes_of_block(&block).map(|(_, slots)| DnodeImage::decode(slots)).collect();
    assert!(matches!(found[..], [Err(OndiskError::Short { .. })]));
}

#[test]
fn fields_that_cannot_be_are_errors() {
    let mut slot = vec![0; DNODE_SLOT_BYTES];
    let good = DnodeImage::new(ObjectType::OBJECT_ARRAY, 1, 3);
    for (offset, value) in
        [(0, 0), (0, 54), (2, 0), (2, 13), (3, 0), (3, 4), (5, 15), (6, 17), (10, 65), (12, 32)]
    {
        good.encode(&mut slot);
        assert!(DnodeImage::decode(&slot).is_ok());
        slot[offset] = value;
        assert!(DnodeImage::decode(&slot).is_err(), "{value} at {offset}");
    }
}

#[test]
fn a_tree_that_cannot_hold_its_blocks_is_an_error() {
    for (levels, last) in [(1, 2), (2, 3 * 1024 - 1), (12, (1 << 50) - 1)] {
        let mut image = DnodeImage { levels, ..DnodeImage::new(ObjectType::PLAIN_FILE_CONTENTS, 16, 3) };
        for (block, is_good) in [(last, true), (last + 1, false), (u64::MAX, false)] {
            image.max_block_id = BlockId::new(block);
            let mut bytes = vec![0; DNODE_SLOT_BYTES];
            image.encode(&mut bytes);
            assert_eq!(DnodeImage::decode(&bytes).is_ok(), is_good, "block {block} of {levels} levels");
        }
    }
}

#[test]
fn sectors_of_old_pools_become_bytes() {
    let mut slot = vec![0; DNODE_SLOT_BYTES];
    let image = DnodeImage { used_bytes: 3, ..DnodeImage::new(ObjectType::OBJECT_ARRAY, 1, 1) };
    image.encode(&mut slot);
    slot[7] = 0;
    assert_eq!(DnodeImage::decode(&slot).map(|image| image.used_bytes), Ok(3 * 512));
}

#[test]
#[should_panic(expected = "the bonus fits")]
fn a_bonus_over_a_spill_blkptr_is_asserted() {
    let mut image = DnodeImage::new(ObjectType::OBJECT_ARRAY, 1, 1);
    image.spill = Some(Blkptr::HOLE);
    image.bonus = vec![0; 193];
    image.encode(&mut [0; DNODE_SLOT_BYTES]);
}
