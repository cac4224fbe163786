//! Headers and blocks over txgs: nothing leaks, nothing is freed that a crash would need.

use std::sync::Arc;

use super::world::World;

#[test]
fn every_block_is_in_the_chain_or_freed_once() {
    let mut world = World::primed(&[600, 64]);
    for tag in 1..60 {
        world.write(tag, tag, 1 + 2000 * (tag % 7));
        world.name(1000 + tag);
        world.commit(Some(tag));
        world.settle();
        if tag % 5 == 0 {
            world.sync();
        }
        let held = world.log.handle().blocks().len();
        assert_eq!(held, world.store.owned().len(), "held and allocated differ at {tag}");
        world.check_space();
        world.check_promises();
    }
}

#[test]
fn a_synced_txg_frees_the_blocks_that_held_it() {
    let mut world = World::primed(&[600, 64]);
    world.inner().automatic = true;
    for tag in 1..20 {
        world.name(tag);
        world.commit(None);
        world.tasks.run();
    }
    assert_eq!(world.log.handle().blocks().len(), 20);
    world.sync();
    assert_eq!(world.log.handle().blocks().len(), 1, "only the tail is left");
    world.sync();
    assert_eq!(world.log.handle().blocks().len(), 1);
    world.check_space();
}

#[test]
fn a_txg_waits_for_writes_that_name_its_blocks() {
    let mut world = World::primed(&[600, 64]);
    world.name(1);
    world.commit(None);
    world.tasks.run();
    assert!(!world.try_sync());
    world.check_space();
    world.settle();
    let synced = world.inner().synced;
    let open = world.open();
    assert_eq!(synced.next(), open);
    world.check_space();
}

#[test]
fn records_of_an_open_txg_survive_the_sync_of_the_one_before() {
    let mut world = World::primed(&[600, 64]);
    world.name(1);
    world.commit(None);
    world.tasks.run();
    // The sync begins, is held up by the write, and the next txg fills meanwhile.
    assert!(!world.try_sync());
    world.name(2);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(2));
    world.check_promises();
    world.check_space();
}

#[test]
fn closing_leaves_no_block_and_an_empty_header() {
    let mut world = World::primed(&[600, 64]);
    world.inner().automatic = true;
    for tag in 1..10 {
        world.write(tag, tag, 5000);
        world.commit(Some(tag));
    }
    world.write(100, 100, 10);
    let log = Arc::clone(&world.log);
    let close = world.tasks.spawn(async move { log.close().await.expect("txgs go on") });
    world.tasks.run();
    assert!(world.tasks.is_done(close));
    assert!(world.store.owned().is_empty());
    assert!(world.store.header().log.is_hole());
    world.check_promises();
    world.check_space();
    world.name(200);
    let late = world.commit(None);
    world.tasks.run();
    assert!(world.tasks.is_done(late), "a commit after the end goes through its txg");
    assert!(world.store.owned().is_empty());
}
