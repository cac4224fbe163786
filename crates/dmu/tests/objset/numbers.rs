//! Which numbers new objects get, and what it costs to find one.

use std::collections::BTreeSet;
use std::sync::Arc;

use dmu::{DmuError, Objset};
use units::ObjectId;

use super::world::{World, file};

/// Numbers from 1 on.
async fn make(world: &World, count: u64) {
    for first in (0..count).step_by(10_000) {
        let tx = world.objset.txgs().forming();
        for _ in first..count.min(first + 10_000) {
            world.objset.allocate(&tx, &file(512)).await.unwrap();
        }
        drop(tx);
        world.sync().await;
    }
}

async fn remove(world: &World, numbers: impl IntoIterator<Item = u64>) {
    let tx = world.objset.txgs().forming();
    for number in numbers {
        world.objset.free_object(&tx, ObjectId::new(number)).await.unwrap();
    }
    drop(tx);
    world.sync().await;
}

async fn take(objset: &Arc<Objset>, count: usize) -> Vec<u64> {
    let tx = objset.txgs().forming();
    let mut numbers = Vec::new();
    let mut held = Vec::new();
    for _ in 0..count {
        let dnode = objset.allocate(&tx, &file(512)).await.unwrap();
        numbers.push(dnode.object().get());
        held.push(dnode);
    }
    numbers
}

#[test]
fn the_first_new_object_after_a_mount_reads_a_few_blocks_only() {
    let world = World::new();
    world.env.block_on(async {
        make(&world, 50_000).await;
        let objset = world.reopened().await;
        let before = world.reads();
        assert_eq!(take(&objset, 1).await, [50_001]);
        let reads = world.reads() - before;
        assert!(reads <= 10, "{reads} reads");
        // Everything is full: what the pointers count says so, and no block of dnodes is read.
        let before = world.reads();
        take(&objset, 3200).await;
        let reads = world.reads() - before;
        assert!(reads <= 3200 * 4, "{reads} reads");
    });
}

#[test]
fn gaps_that_an_earlier_mount_left_are_filled_in_passing() {
    let world = World::new();
    world.env.block_on(async {
        make(&world, 5000).await;
        let gone: BTreeSet<u64> = (1000..3000).chain([3200, 3201, 4000]).collect();
        remove(&world, gone.iter().copied()).await;
        let objset = world.reopened().await;
        let taken: BTreeSet<u64> = take(&objset, 5000).await.into_iter().collect();
        assert_eq!(taken.len(), 5000, "none twice");
        assert!(taken.is_disjoint(&(1..=5000).filter(|n| !gone.contains(n)).collect()), "none in use");
        let filled = taken.intersection(&gone).count();
        assert!(filled >= 1984, "{filled} of {} filled", gone.len());
    });
}

#[test]
fn many_numbers_that_were_given_back_are_found_again() {
    let world = World::new();
    world.env.block_on(async {
        make(&world, 80_000).await;
        remove(&world, 1..=80_000).await;
        let tx = world.objset.txgs().forming();
        let mut taken = BTreeSet::new();
        for _ in 0..80_000 {
            taken.insert(world.objset.allocate(&tx, &file(512)).await.unwrap().object().get());
        }
        assert_eq!(taken.len(), 80_000);
        assert!(*taken.last().unwrap() < 100_000, "{:?}", taken.last());
    });
}

#[test]
fn removed_objects_are_passed_without_a_read() {
    let world = World::new();
    world.env.block_on(async {
        make(&world, 60_000).await;
        remove(&world, (1..60_000).filter(|n| n % 20_000 != 0)).await;
        let objset = world.reopened().await;
        let before = world.reads();
        let (mut at, mut found) = (ObjectId::new(0), Vec::new());
        while let Some(next) = objset.next_object(at).await.unwrap() {
            at = next;
            found.push(next.get());
        }
        assert_eq!(found, [20_000, 40_000, 60_000]);
        let reads = world.reads() - before;
        assert!(reads <= 300, "{reads} reads");
    });
}

#[test]
fn objects_that_nobody_holds_take_little_memory() {
    let world = World::new();
    world.env.block_on(async {
        make(&world, 50_000).await;
        assert!(world.objset.objects_known() <= 25_000, "{} known", world.objset.objects_known());
    });
}

#[test]
fn slots_of_large_new_objects_are_nobody_elses() {
    let world = World::new();
    world.env.block_on(async {
        let tx = world.objset.txgs().forming();
        let mut held = Vec::new();
        let mut slots = BTreeSet::new();
        for turn in 0..2000 {
            let wide = if turn % 3 == 0 { 4 } else { 1 };
            let spec = dmu::DnodeSpec { slots: wide, ..file(512) };
            let dnode = world.objset.allocate(&tx, &spec).await.unwrap();
            let first = dnode.object().get();
            assert!((first..first + u64::from(wide)).all(|slot| slots.insert(slot)), "{first} is taken");
            held.push(dnode);
        }
        // Nor to be had by asking for one of them.
        let inside = ObjectId::new(held[0].object().get() + 2);
        assert!(world.objset.allocate_at(&tx, inside, &file(512)).await.is_err());
        drop(tx);
    });
}

/// What a stream asks for, or a damaged log.
#[test]
fn slots_of_objects_on_disk_are_nobody_elses() {
    let world = World::new();
    let wide = |slots| dmu::DnodeSpec { slots, ..file(512) };
    world.env.block_on(async {
        let tx = world.objset.txgs().forming();
        world.objset.allocate_at(&tx, ObjectId::new(40), &wide(4)).await.unwrap();
        world.sync().await;
        let objset = world.reopened().await;
        let tx = objset.txgs().forming();
        for (first, slots) in [(38, 3), (40, 1), (41, 1), (43, 2)] {
            let taken = objset.allocate_at(&tx, ObjectId::new(first), &wide(slots)).await.map(drop);
            assert!(matches!(taken, Err(DmuError::ObjectExists { .. })), "{slots} from {first}: {taken:?}");
        }
        let astride = objset.allocate_at(&tx, ObjectId::new(63), &wide(2)).await.map(drop);
        assert!(matches!(astride, Err(DmuError::Invalid { .. })), "{astride:?}");
        for (first, slots) in [(39, 1), (44, 20)] {
            objset.allocate_at(&tx, ObjectId::new(first), &wide(slots)).await.unwrap();
        }
    });
}
