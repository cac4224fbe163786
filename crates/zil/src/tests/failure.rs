//! Devices that fail, and devices that are full.

use units::VdevId;

use super::world::World;

/// A little history: writes small and large, commits, a txg in between.
fn history(world: &mut World) {
    for round in 0..6_u64 {
        for tag in [round * 10 + 1, round * 10 + 2] {
            world.write(tag, tag, if round == 2 { 200_000 } else { 900 });
            world.commit(Some(tag));
        }
        world.name(round * 10 + 3);
        world.commit(None);
        world.settle();
        world.check_promises();
        if round == 3 {
            world.sync();
            world.check_promises();
        }
    }
}

#[test]
fn a_failure_at_any_io_loses_nothing_acknowledged() {
    let total = {
        let mut world = World::primed(&[600, 600, 600]);
        history(&mut world);
        assert_eq!(world.log.stats().errors, 0);
        world.inner().ops_begun()
    };
    assert!(total > 10);
    let mut failed_flushes = 0;
    for failing in 1..=total {
        let mut world = World::primed(&[600, 600, 600]);
        world.inner().fail.insert(failing);
        history(&mut world);
        let stats = world.log.stats();
        assert_eq!(stats.errors, 1, "failure of operation {failing}");
        failed_flushes += stats.flush_errors;
        for round in 0..6 {
            assert!((1..4).all(|i| world.is_promised(round * 10 + i)), "operation {failing}, round {round}");
        }
        world.sync();
        world.check_promises();
        world.check_space();
    }
    assert!((1..total).contains(&failed_flushes), "{failed_flushes} of {total} are flushes");
}

#[test]
fn a_device_opened_anew_before_any_io_loses_nothing_acknowledged() {
    let total = {
        let mut world = World::primed(&[600, 600, 600]);
        history(&mut world);
        world.inner().ops_begun()
    };
    for before in 1..=total {
        let mut world = World::primed(&[600, 600, 600]);
        world.inner().reopen_before = Some(before);
        history(&mut world);
        for round in 0..6 {
            assert!((1..4).all(|i| world.is_promised(round * 10 + i)), "operation {before}, round {round}");
        }
        world.sync();
        world.check_promises();
        world.check_space();
    }
}

#[test]
fn after_a_failure_the_chain_goes_on_elsewhere() {
    let mut world = World::primed(&[600, 600]);
    world.inner().dead.insert(VdevId::new(0));
    world.name(1);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(1), "through its txg");
    assert_eq!(world.log.stats().fallbacks, 1);
    world.check_promises();
    world.name(2);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(2));
    let stats = world.log.stats();
    assert_eq!(stats.fallbacks, 1, "through the log again");
    assert_eq!(stats.homes[&VdevId::new(1)].blocks, 1);
    assert_eq!(stats.homes[&VdevId::new(0)].errors, 1);
    assert!(world.inner().events.iter().any(|event| event.starts_with("Failed")));
    world.check_promises();
    world.check_space();
}

#[test]
fn a_vdev_that_failed_is_avoided_until_trusted_again() {
    let mut world = World::primed(&[600, 600]);
    let home = VdevId::new(0);
    world.inner().dead.insert(home);
    world.name(1);
    world.commit(None);
    world.settle();
    assert!(world.inner().avoided.last().is_some_and(|placement| placement.avoid == [home]));
    world.inner().dead.clear();
    world.log.handle().trust(home);
    world.name(2);
    world.commit(None);
    world.settle();
    assert!(world.inner().avoided.last().is_some_and(|placement| placement.avoid.is_empty()));
}

#[test]
fn every_device_failing_leaves_commits_to_the_txg() {
    let mut world = World::primed(&[600, 600]);
    world.inner().dead.extend([VdevId::new(0), VdevId::new(1)]);
    for tag in 1..20 {
        world.name(tag);
        world.commit(None);
        world.settle();
        assert!(world.is_promised(tag));
        world.check_promises();
    }
    assert!(world.log.stats().fallbacks >= 19);
}

#[test]
fn a_full_pool_leaves_commits_to_the_txg_and_recovers() {
    let mut world = World::primed(&[2, 4]);
    for tag in 1..40 {
        world.write(tag, tag, 3000);
        world.commit(Some(tag));
        world.settle();
        assert!(world.is_promised(tag), "{tag}");
        world.check_promises();
    }
    let stats = world.log.stats();
    assert!(stats.no_space > 0 && stats.fallbacks > 0 && stats.fallbacks < 39, "{stats:?}");
    assert!(stats.batches > 10, "blocks that have room are used: {stats:?}");
    world.sync();
    world.check_space();
}

#[test]
fn a_full_log_device_spills_into_the_main_pool() {
    let mut world = World::primed(&[4, 600]);
    for tag in 1..10 {
        world.write(tag, tag, 3000);
        world.commit(Some(tag));
        world.settle();
    }
    let stats = world.log.stats();
    assert_eq!(stats.fallbacks, 0);
    assert!(stats.homes[&VdevId::new(1)].blocks > 0);
    world.check_promises();
}

#[test]
fn a_batch_larger_than_the_space_left_is_logged_as_far_as_it_goes() {
    let mut world = World::primed(&[40, 4]);
    world.write(1, 1, 400_000);
    world.write(2, 2, 100);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(1) && world.is_promised(2));
    world.check_promises();
    world.sync();
    world.check_space();
}

#[test]
fn a_vdev_that_is_given_up_holds_up_nobody_though_its_batch_is_under_way() {
    let mut world = World::primed(&[600, 600]);
    let home = VdevId::new(0);
    world.name(1);
    world.commit(None);
    world.tasks.run();
    let stuck = world.inner().pending();
    assert_eq!(stuck.len(), 1, "the batch's one write");
    world.name(2);
    world.commit(None);
    world.inner().dead.insert(home);
    world.log.handle().give_up(home);
    world.sync();
    assert!(world.is_promised(1) && world.is_promised(2), "through their txg");
    for tag in [3, 4] {
        world.name(tag);
        world.commit(None);
        world.tasks.run();
        let pending = world.inner().pending();
        pending.into_iter().filter(|id| !stuck.contains(id)).for_each(|id| world.complete(id));
        assert!(world.is_promised(tag), "{tag}");
    }
    assert_eq!(world.inner().pending(), stuck, "it has not answered yet");
    assert!(world.log.stats().homes[&VdevId::new(1)].blocks > 0, "the chain goes on elsewhere");
    world.check_promises();
    world.log.handle().trust(home);
    world.complete(stuck[0]);
    world.name(5);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(5));
    let last = world.inner().avoided.last().cloned();
    assert!(
        last.is_some_and(|placement| placement.avoid.is_empty()),
        "the late answer tells nothing of today"
    );
    world.sync();
    world.check_promises();
    world.check_space();
}
