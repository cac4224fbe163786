//! Logs that txgs pass by, and what brings them back.

use std::sync::Arc;

use units::VdevId;

use super::world::World;
use crate::Leaving;

/// A log that was used, and then left alone until it came to rest.
fn at_rest() -> World {
    let mut world = World::primed(&[600, 64]);
    world.inner().automatic = true;
    world.name(1);
    world.write(2, 5, 9000);
    world.commit(Some(5));
    world.tasks.run();
    let groups = (1..9).find(|_| {
        assert!(world.store.is_attended(), "records and blocks are left");
        world.sync();
        !world.store.is_attended()
    });
    assert!(groups.is_some(), "an idle log comes to rest");
    world.check_space();
    world
}

#[test]
fn an_idle_log_comes_to_rest_and_wakes() {
    let mut world = at_rest();
    let header = world.crash(false).header();
    for _ in 0..3 {
        world.sync();
    }
    assert!(!world.store.is_attended());
    assert_eq!(world.crash(false).header(), header);
    world.name(3);
    assert!(world.store.is_attended(), "there is a record to drop");
    world.commit(None);
    world.tasks.run();
    assert!(world.is_promised(3));
    assert_eq!(world.log.stats().fallbacks, 0, "it knows that its header is stable");
    world.check_promises();
    world.sync();
    world.check_space();
    world.check_promises();
}

#[test]
fn a_record_that_nobody_asked_for_is_dropped_before_the_log_rests_again() {
    let mut world = at_rest();
    world.write(3, 5, 100);
    while world.store.is_attended() {
        world.sync();
    }
    let commit = world.commit(Some(5));
    world.tasks.run();
    assert!(world.tasks.is_done(commit));
    assert_eq!(world.log.stats().itxs, 2, "its group made it stable");
}

/// A txg becomes stable while the next one has a record: its log has something to do then.
#[test]
fn a_log_with_a_record_of_the_open_group_does_not_rest() {
    let mut world = at_rest();
    world.write(3, 5, 100);
    world.log.handle().rest();
    assert!(world.store.is_attended());
    let commit = world.commit(Some(5));
    world.tasks.run();
    assert!(world.tasks.is_done(commit));
    world.log.handle().rest();
    assert!(world.store.is_attended(), "its block is not freed yet");
    world.check_promises();
}

#[test]
fn a_log_at_rest_is_closed_and_leaves_a_vdev() {
    for evacuates in [false, true] {
        let mut world = at_rest();
        let log = Arc::clone(&world.log);
        let left = world.tasks.spawn(async move {
            if evacuates {
                log.handle().evacuate(VdevId::new(0), Leaving::AfterItsTail).await.expect("txgs go on");
            } else {
                log.close().await.expect("txgs go on");
            }
        });
        world.tasks.run();
        assert!(world.tasks.is_done(left), "evacuates: {evacuates}");
        assert_eq!(world.log.handle().blocks().is_empty(), !evacuates);
        world.check_space();
    }
}
