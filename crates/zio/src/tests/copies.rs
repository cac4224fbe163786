//! Runs copied from a vdev that is being removed, and blocks freed there.

use std::sync::Arc;

use env::IoBuf;
use futures::executor::block_on;
use metaslab::{Class, Hint};
use ondisk::indirect::Entry;
use ondisk::{Blkptr, Dva};
use units::{ObjectId, Psize, Txg, VdevId, VdevOffset};
use vdev::{Leaving, Run};

use super::world::World;
use crate::{Bookmark, RunCopy, WritePolicy, Zio, ZioError};

const TXG: Txg = Txg::new(10);
const OLD: VdevId = VdevId::new(1);
const LEN: u64 = 16 << 10;

/// A block on the vdev that is to go.
fn block(zio: &Zio) -> Blkptr {
    zio.use_vdev(OLD);
    zio.rest_vdev(VdevId::new(0));
    let bytes: Vec<u8> = (0..LEN).map(|at| ((at * at) >> 7) as u8).collect();
    let data = Arc::new(IoBuf::copy_of(&bytes));
    let bp = block_on(zio.write(TXG, &Bookmark::default(), data, &WritePolicy::default())).expect("room");
    zio.use_vdev(VdevId::new(0));
    zio.rest_vdev(OLD);
    assert_eq!((bp.dva(0).vdev, bp.dva(0).asize.get()), (OLD, LEN));
    bp
}

/// Room for some bytes of it on the other.
fn room(zio: &Zio, txg: Txg, bytes: u64) -> Dva {
    let place = zio.with_allocator(|a| a.allocate(Class::Normal, Psize::new(bytes), 1, txg, Hint::default()));
    place.expect("room")[0]
}

fn run(dva: &Dva, len: u64) -> Run {
    Run { vdev: dva.vdev, offset: dva.offset, len }
}

/// The old vdev is being removed, and this was copied.
fn note(zio: &Zio, entries: &[Entry]) {
    let top = zio.vdevs().top(OLD).expect("it is there");
    let (mapping, births) = (ObjectId::new(7), ObjectId::new(8));
    top.set_config(|config| config.leaving = Some(Leaving { mapping, births }));
    top.change_copied(|copied| copied.extend(entries.iter().copied()));
}

fn allocated(zio: &Zio) -> [u64; 2] {
    [0, 1].map(|vdev| {
        zio.with_allocator(|a| a.vdev_space(VdevId::new(vdev))).expect("it is there").allocated.get()
    })
}

#[test]
fn a_copy_that_a_device_may_have_lost_is_made_again() {
    let (world, zio) = World::pool(&["a", "b"]);
    let bp = block(&zio);
    let to = room(&zio, TXG, LEN);
    // The middle of it counts for nothing.
    let live = vec![0..4096, 8192..LEN as usize];
    let copy = RunCopy { from: run(&bp.dva(0), LEN), to: run(&to, LEN), live };
    block_on(zio.copy_run(&copy)).expect("both devices work");
    assert!(zio.take_unflushed().contains(&to.vdev));
    let want = world.bytes("b", bp.dva(0), LEN as usize);
    assert!(world.bytes("a", to, LEN as usize)[..] == want[..]);
    let gap = Dva { offset: VdevOffset::new(to.offset.get() + 4096), ..to };
    world.spoil("a", to);
    world.spoil("a", gap);
    block_on(zio.write_lost_again()).expect("nothing is to be done");
    assert_eq!(world.bytes("a", to, 512)[..], [0xee; 512], "nobody looked");
    zio.copies.doubt();
    block_on(zio.write_lost_again()).expect("both devices work");
    assert!(world.bytes("a", to, 4096)[..] == want[..4096]);
    assert_eq!(world.bytes("a", gap, 512)[..], [0xee; 512], "that is somebody else's by now");
    assert!(zio.take_unflushed().contains(&to.vdev));
    world.spoil("a", to);
    zio.forget_unstable();
    zio.copies.doubt();
    block_on(zio.write_lost_again()).expect("nothing is to be done");
    assert_eq!(world.bytes("a", to, 512)[..], [0xee; 512], "it is stable");
}

#[test]
fn a_block_that_was_copied_is_free_in_both_places_and_what_was_not_in_one() {
    for copied in [0, 4096, LEN] {
        let (_world, zio) = World::pool(&["a", "b"]);
        let (bp, other) = (block(&zio), block(&zio));
        zio.with_allocator(|allocator| {
            allocator.take_changes(TXG);
            allocator.sync_done(TXG);
        });
        let later = TXG.next();
        let mut entries = Vec::new();
        if copied > 0 {
            entries.push(Entry { source: bp.dva(0).offset, target: room(&zio, later, copied) });
        }
        note(&zio, &entries);
        assert_eq!(allocated(&zio), [copied, 2 * LEN]);
        block_on(zio.free(later, &bp)).expect("it is allocated");
        assert_eq!(allocated(&zio), [0, LEN], "{copied} bytes were copied");
        let passed = (copied > 0).then(|| run(&bp.dva(0), copied));
        assert_eq!(zio.take_obsolete(later), passed.into_iter().collect::<Vec<_>>());
        let twice = block_on(zio.free(later, &bp));
        assert!(matches!(twice, Err(ZioError::Space { .. })), "{twice:?}");
        // What lies behind what was copied was not.
        block_on(zio.free(later, &other)).expect("it is allocated");
        assert_eq!(allocated(&zio), [0, 0]);
        assert!(zio.take_obsolete(later).is_empty());
    }
}

#[test]
fn a_hole_in_what_was_copied_is_an_error_and_frees_nothing() {
    let (_world, zio) = World::pool(&["a", "b"]);
    let bp = block(&zio);
    let behind = VdevOffset::new(bp.dva(0).offset.get() + LEN);
    note(&zio, &[Entry { source: behind, target: room(&zio, TXG, 4096) }]);
    let before = allocated(&zio);
    let freed = block_on(zio.free(TXG, &bp));
    assert!(matches!(freed, Err(ZioError::Removed { .. })), "{freed:?}");
    assert_eq!(allocated(&zio), before);
}

#[test]
fn nothing_is_claimed_on_a_vdev_that_is_being_removed() {
    let (_world, zio) = World::pool(&["a", "b"]);
    let bp = block(&zio);
    zio.unalloc(TXG, &bp);
    note(&zio, &[]);
    assert!(matches!(block_on(zio.claim(TXG, &bp)), Err(ZioError::Removed { .. })));
}

#[test]
fn runs_are_freed_all_or_none() {
    let (_world, zio) = World::pool(&["a"]);
    let place = room(&zio, TXG, LEN);
    let behind = Run { offset: VdevOffset::new(place.offset.get() + LEN), ..run(&place, 4096) };
    assert!(zio.free_runs(TXG, &[run(&place, LEN), behind]).is_err());
    zio.free_runs(TXG, &[run(&place, LEN)]).expect("it is allocated");
    assert!(zio.free_runs(TXG, &[run(&place, LEN)]).is_err());
}
