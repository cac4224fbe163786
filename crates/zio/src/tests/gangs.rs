//! Blocks that find no room in one piece.

use std::sync::Arc;

use env::{FaultOp, IoBuf};
use futures::executor::block_on;
use metaslab::Class;
use ondisk::{Blkptr, CompressionKind, ObjectType};
use units::{Ashift, Txg};

use super::blocks::{NAME, noise, read};
use super::world::World;
use crate::*;

const FIRST: Txg = Txg::new(5);

fn policy(copies: u8) -> WritePolicy {
    WritePolicy { object_type: ObjectType::PLAIN_FILE_CONTENTS, copies, ..WritePolicy::default() }
}

fn write(zio: &Zio, txg: Txg, data: &Arc<IoBuf>, policy: &WritePolicy) -> Result<Blkptr, ZioError> {
    block_on(zio.write(txg, &NAME, data.clone(), policy))
}

fn allocated(zio: &Zio) -> u64 {
    zio.with_allocator(|allocator| allocator.space(Class::Normal).allocated.get())
}

/// Ends some txgs, so that what was freed can be used again.
fn rest(zio: &Zio, from: Txg) -> Txg {
    let mut txg = from;
    for _ in 0..4 {
        zio.with_allocator(|allocator| {
            allocator.take_changes(txg);
            allocator.sync_done(txg);
        });
        txg = txg.next();
    }
    txg
}

/// Fills the pool with small blocks.
fn fill(zio: &Zio, bytes: usize) -> Vec<Blkptr> {
    let data = noise(bytes, 1);
    std::iter::from_fn(|| write(zio, FIRST, &data, &policy(1)).ok()).collect()
}

fn becomes_a_gang(ashift: Ashift, hole_bytes: usize) {
    let (_, zio) = World::pool_at(&["a"], Some(ashift));
    let small = fill(&zio, hole_bytes);
    for bp in small.iter().step_by(2) {
        block_on(zio.free(FIRST, bp)).expect("allocated");
    }
    let txg = rest(&zio, FIRST);
    let before = allocated(&zio);
    let data = noise(128 << 10, 2);
    let bp = write(&zio, txg, &data, &policy(1)).expect("in pieces");
    assert!(bp.is_gang() && bp.dvas().count() == 2, "{bp:?}");
    assert_eq!(bp.check(), Ok(()));
    assert_eq!(bp.asize_total().get(), allocated(&zio) - before, "the DVAs count all there is");
    assert!(zio.stats().gang_blocks > 1, "gangs of gangs");
    assert_eq!(read(&zio, &bp).expect("a gang")[..], data[..]);
    let small = write(&zio, txg, &noise(hole_bytes, 3), &policy(1)).expect("a hole");
    assert!(!small.is_gang(), "what fits is in one piece");
    block_on(zio.free(txg, &small)).expect("allocated");
    block_on(zio.free(txg, &bp)).expect("all of it");
    rest(&zio, txg);
    assert_eq!(allocated(&zio), before);
    assert!(block_on(zio.free(Txg::new(20), &bp)).is_err(), "not twice");
}

#[test]
fn a_block_that_finds_no_run_becomes_a_gang() {
    becomes_a_gang(Ashift::new(9), 4096);
    becomes_a_gang(Ashift::new(12), 8192);
}

#[test]
fn a_gang_that_finds_no_room_takes_nothing() {
    let (_, zio) = World::pool(&["a"]);
    let small = fill(&zio, 4096);
    // As much as the block has, and nothing for the headers.
    for bp in small.iter().step_by(2).take(32) {
        block_on(zio.free(FIRST, bp)).expect("allocated");
    }
    let txg = rest(&zio, FIRST);
    let before = allocated(&zio);
    let refused = write(&zio, txg, &noise(128 << 10, 2), &policy(1));
    assert!(matches!(refused, Err(ZioError::NoSpace { .. })), "{refused:?}");
    assert_eq!(allocated(&zio), before);
}

#[test]
fn copies_of_a_gang_lie_apart_and_are_repaired_with_its_headers() {
    let (world, zio) = World::pool(&["a", "b"]);
    zio.set_longest_run(8192);
    let compressible = WritePolicy { compression: CompressionKind::Lz4.into(), ..policy(2) };
    let data = noise(64 << 10, 4);
    let bp = write(&zio, FIRST, &data, &compressible).expect("room");
    assert!(bp.is_gang() && bp.dva(0).vdev != bp.dva(1).vdev);
    assert_eq!(bp.asize_total().get(), allocated(&zio));
    let gang = block_on(zio.read_gang_header(&bp, &NAME)).expect("whole");
    let path = |dva: ondisk::Dva| if dva.vdev.get() == 0 { "a" } else { "b" };
    world.spoil(path(bp.dva(0)), bp.dva(0));
    let member = gang.members.iter().find(|member| !member.is_gang());
    let plain = member.copied().or_else(|| {
        let inner = block_on(zio.read_gang_header(&gang.members[0], &NAME)).expect("whole");
        inner.members.first().copied()
    });
    let plain = plain.expect("a member");
    world.spoil(path(plain.dva(1)), plain.dva(1));
    assert_eq!(read(&zio, &bp).expect("the other copies")[..], data[..]);
    assert!(zio.has_damaged());
    assert_eq!(block_on(zio.scrub(&bp, &NAME)).expect("one of each is good").bad_copies, 2);
    assert_eq!(block_on(zio.scrub(&bp, &NAME)).expect("both are").bad_copies, 0);
    block_on(zio.free(FIRST, &bp)).expect("all of it");
}

#[test]
fn a_gang_goes_elsewhere_when_a_vdev_fails() {
    for nth in 1..12 {
        let (world, zio) = World::pool(&["a", "b"]);
        zio.set_longest_run(4096);
        world.faults("a").fail_nth(FaultOp::Write, nth);
        let data = noise(64 << 10, nth);
        let bp = write(&zio, FIRST, &data, &policy(1)).expect("b is well");
        assert_eq!(read(&zio, &bp).expect("written")[..], data[..]);
        assert_eq!(bp.asize_total().get(), allocated(&zio), "failure {nth}");
    }
}

#[test]
fn a_gang_is_written_over_in_its_own_txg() {
    for copies in [1, 2, 3] {
        let (_, zio) = World::pool(&["a", "b", "c"]);
        zio.set_longest_run(4096);
        zio.set_cache_limit(0);
        let policy = WritePolicy { object_type: ObjectType::DNODE, ..policy(copies) };
        let (data, newer) = (noise(64 << 10, 1), noise(64 << 10, 2));
        let old = write(&zio, FIRST, &data, &policy).expect("room");
        let before = allocated(&zio);
        let new =
            write(&zio, FIRST, &newer, &WritePolicy { rewrite: Some(old), ..policy }).expect("in place");
        assert!(new.is_gang() && new.dvas().eq(old.dvas()), "{new:?}");
        assert_eq!(allocated(&zio), before);
        assert_eq!(block_on(zio.read(&old, &NAME)).expect("in memory")[..], data[..]);
        zio.forget_unstable();
        assert_eq!(read(&zio, &new).expect("on the disks")[..], newer[..]);
        assert_eq!(block_on(zio.scrub(&new, &NAME)).expect("whole").bad_copies, 0);
        // Of another length it goes elsewhere.
        let policy = WritePolicy { rewrite: Some(new), ..policy };
        let longer = write(&zio, FIRST, &noise(96 << 10, 3), &policy).expect("room");
        assert_ne!(longer.dva(0), new.dva(0));
        block_on(zio.free(FIRST, &new)).expect("the caller frees what was replaced");
        block_on(zio.free(FIRST, &longer)).expect("all of it");
        assert_eq!(allocated(&zio), 0);
    }
}

#[test]
fn a_gang_that_cannot_be_written_over_goes_elsewhere_and_can_be_freed() {
    for nth in 1..30 {
        let (world, zio) = World::pool(&["a", "b"]);
        zio.set_longest_run(4096);
        let policy = WritePolicy { object_type: ObjectType::DNODE, ..policy(1) };
        let old = write(&zio, FIRST, &noise(64 << 10, 1), &policy).expect("room");
        world.faults("a").fail_nth(FaultOp::Write, nth);
        let data = noise(64 << 10, 2);
        let new = write(&zio, FIRST, &data, &WritePolicy { rewrite: Some(old), ..policy }).expect("room");
        assert_eq!(read(&zio, &new).expect("written")[..], data[..], "failure {nth}");
        if new.dva(0) != old.dva(0) {
            block_on(zio.free(FIRST, &old)).expect("its places are known");
        }
        assert_eq!(new.asize_total().get(), allocated(&zio), "failure {nth}");
    }
}

#[test]
fn a_gang_is_claimed_with_all_its_members() {
    let (_, zio) = World::pool(&["a"]);
    zio.set_longest_run(4096);
    let bp = write(&zio, FIRST, &noise(64 << 10, 1), &policy(1)).expect("room");
    assert!(block_on(zio.claim(FIRST, &bp)).is_err(), "it is allocated");
    block_on(zio.free(FIRST, &bp)).expect("all of it");
    let txg = rest(&zio, FIRST);
    block_on(zio.claim(txg, &bp)).expect("free again");
    assert_eq!(allocated(&zio), bp.asize_total().get());
}
