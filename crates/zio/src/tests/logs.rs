use env::{BufSlice, Durability, FaultOp, IoBuf};
use futures::executor::block_on;
use metaslab::Class;
use ondisk::zil::{ChainSeed, ZilChain};
use ondisk::{Blkptr, ChecksumKind, ObjectType};
use units::{ObjsetId, Txg, VdevId, ZilSeq};
use zerocopy::IntoBytes;

use super::world::World;
use crate::embedded::seal_log_block;
use crate::*;

const TXG: Txg = Txg::new(5);

fn allocate(zio: &Zio, hint: &LogHint<'_>) -> Blkptr {
    zio.allocate_log(TXG, 32 << 10, hint).expect("room")
}

fn seeded(bp: Blkptr, seq: u64) -> Blkptr {
    let seed = ChainSeed { guid: [11, 12], objset: ObjsetId::new(54), seq: ZilSeq::new(seq) };
    bp.with_checksum(seed.words())
}

fn log_block(bp: &Blkptr) -> IoBuf {
    let mut block = IoBuf::zeroed(4096);
    block[..size_of::<ZilChain>()]
        .copy_from_slice(ZilChain::new(Blkptr::HOLE, 2000, bp.checksum()).as_bytes());
    block[1000..1100].fill(9);
    seal_log_block(&mut block, bp);
    block
}

#[test]
fn a_log_blkptr_is_as_openzfs_makes_it() {
    let (_, zio) = World::pool(&["a", "log:l"]);
    let bp = zio.allocate_log(TXG, 5000, &LogHint::default()).expect("room");
    assert_eq!((bp.lsize().get(), bp.psize().get()), (8192, 8192));
    assert_eq!(bp.object_type(), ObjectType::INTENT_LOG);
    assert_eq!(bp.checksum_kind(), Ok(ChecksumKind::Zilog2));
    assert_eq!((bp.birth(), bp.level().get(), bp.fill(), bp.dvas().count()), (TXG, 0, 0, 1));
    assert_eq!(bp.checksum(), [0; 4]);
}

#[test]
fn log_blocks_go_to_log_vdevs_first_and_to_the_main_pool_when_those_are_full() {
    let (_, zio) = World::pool(&["a", "log:l"]);
    let mut on_log = 0;
    let bp = loop {
        let bp = zio.allocate_log(TXG, 1 << 20, &LogHint::default()).expect("room somewhere");
        if bp.dva(0).vdev.get() != 1 {
            break bp;
        }
        on_log += 1;
    };
    assert!(on_log >= 40, "{on_log} MiB on the log");
    assert_eq!(bp.dva(0).vdev, VdevId::new(0));
    assert_eq!(zio.stats().log_blocks_in_main, 1);
    zio.unalloc(TXG, &bp);
    assert_eq!(zio.with_allocator(|a| a.space(Class::Normal).allocated.get()), 0);
}

#[test]
fn a_failed_log_vdev_is_left_out() {
    let (world, zio) = World::pool(&["a", "log:l", "log:m"]);
    for _ in 0..4 {
        let hint = LogHint { avoid: &[VdevId::new(1)], prefer: None };
        assert_eq!(allocate(&zio, &hint).dva(0).vdev, VdevId::new(2));
    }
    let both = LogHint { avoid: &[VdevId::new(1), VdevId::new(2)], prefer: None };
    assert_eq!(allocate(&zio, &both).dva(0).vdev, VdevId::new(0));
    let all = LogHint { avoid: &[VdevId::new(0), VdevId::new(1), VdevId::new(2)], prefer: None };
    assert_eq!(allocate(&zio, &all).dva(0).vdev, VdevId::new(0), "the last resort");
    world.faults("l").fail_nth(FaultOp::Flush, 1);
    assert!(block_on(zio.flush(&[VdevId::new(1)])).is_err());
    for _ in 0..4 {
        assert_eq!(allocate(&zio, &LogHint::default()).dva(0).vdev, VdevId::new(2), "l is out of use");
    }
    for _ in 0..4 {
        let hint = LogHint { avoid: &[], prefer: Some(VdevId::new(2)) };
        assert_eq!(allocate(&zio, &hint).dva(0).vdev, VdevId::new(2));
    }
}

#[test]
fn a_log_block_is_read_from_the_copy_that_is_one() {
    let (world, zio) = World::pool(&["a", "log:l m"]);
    let bp = seeded(allocate(&zio, &LogHint::default()), 1);
    let block = log_block(&bp);
    let slices = vec![BufSlice::from(block.clone())];
    block_on(zio.write_log(&bp, slices, Durability::Stable)).expect("written");
    assert!(zio.take_unflushed().is_empty(), "stable already");
    for path in ["l", "m"] {
        world.spoil(path, bp.dva(0));
        let read = block_on(zio.read_log(&bp)).expect("the other copy");
        assert_eq!(read.len(), 32 << 10);
        assert_eq!(read[..4096], block[..]);
    }
    // The end of a chain: nobody's block, and nobody's fault.
    let next = seeded(allocate(&zio, &LogHint::default()), 2);
    assert_eq!(block_on(zio.read_log(&next)).expect("garbage is no error")[..16], [0; 16]);
    let errors = |zio: &Zio| -> u64 {
        zio.vdevs().leaves().iter().map(|leaf| leaf.stats().snapshot().checksum_errors).sum()
    };
    assert!(errors(&zio) <= 2);
    world.faults("l").disappear();
    world.faults("m").disappear();
    assert!(matches!(block_on(zio.read_log(&bp)), Err(ZioError::Log { .. })));
}

#[test]
fn a_cached_log_write_is_known_as_unflushed() {
    let (world, zio) = World::pool(&["a", "log:l"]);
    let bp = seeded(allocate(&zio, &LogHint::default()), 1);
    let write = |durability| block_on(zio.write_log(&bp, vec![BufSlice::from(log_block(&bp))], durability));
    write(Durability::Cached).expect("written");
    assert_eq!(zio.take_unflushed(), [VdevId::new(1)].into());
    world.faults("l").fail_all(FaultOp::Write);
    assert!(matches!(write(Durability::Stable), Err(ZioError::Log { .. })));
}

#[test]
fn claimed_log_blocks_are_never_handed_out_again() {
    let (_, zio) = World::pool(&["a", "log:l"]);
    let bp = allocate(&zio, &LogHint::default());
    let (_, imported) = World::pool(&["a", "log:l"]);
    block_on(imported.claim(TXG, &bp)).expect("free so far");
    assert!(matches!(block_on(imported.claim(TXG, &bp)), Err(ZioError::Space { .. })), "not twice");
    let place = |bp: &Blkptr| (bp.dva(0).offset.get(), bp.dva(0).offset.get() + bp.dva(0).asize.get());
    for _ in 0..100 {
        let other = allocate(&imported, &LogHint::default());
        assert!(place(&other).0 >= place(&bp).1 || place(&other).1 <= place(&bp).0);
    }
}
