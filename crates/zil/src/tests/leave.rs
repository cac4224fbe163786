//! Chains that leave a vdev: with and without commits, and whether the vdev works or not.

use units::VdevId;

use super::world::{OpKind, World};
use crate::Leaving;

const OLD: VdevId = VdevId::new(0);
const NEW: VdevId = VdevId::new(1);

/// Two logs, the chain on the first of them.
fn world() -> World {
    let mut world = World::primed(&[600, 600, 64]);
    world.name(1);
    let commit = world.commit(None);
    world.settle();
    assert!(world.tasks.is_done(commit));
    world
}

/// The task that leaves the first log.
fn leave(world: &mut World, how: Leaving) -> usize {
    let log = world.log.handle();
    world.tasks.spawn(async move { log.evacuate(OLD, how).await.expect("txgs go on") })
}

/// Whether all that the log has is on other vdevs than the old one.
fn has_left(world: &World) -> bool {
    let blocks = world.log.handle().blocks();
    assert_eq!(blocks.len(), world.store.owned().len(), "held and allocated");
    !blocks.iter().any(|bp| bp.dva(0).vdev == OLD)
}

/// Writes to the old vdev, of those that the world has begun from `first` on.
fn writes_there(world: &World, first: u64) -> usize {
    let inner = world.inner();
    let is_there =
        |id: &u64| matches!(inner.pending_kind(*id), OpKind::Write { bp, .. } if bp.dva(0).vdev == OLD);
    (first..=inner.ops_begun()).filter(is_there).count()
}

#[test]
fn an_idle_chain_moves_and_goes_on() {
    for how in [Leaving::AfterItsTail, Leaving::AtOnce] {
        let mut world = world();
        let left = leave(&mut world, how);
        world.settle();
        assert!(world.tasks.is_done(left) && has_left(&world), "{how:?}");
        world.check_promises();
        world.check_space();
        world.name(2);
        world.commit(None);
        world.settle();
        assert!(world.is_promised(2) && has_left(&world), "{how:?}");
        world.check_promises();
        world.check_space();
    }
}

#[test]
fn a_chain_leaves_a_vdev_that_works_and_no_commit_waits_for_a_txg() {
    // The commit comes before the move, or is there after so many steps of it.
    for step in 0..6 {
        let mut world = world();
        let left = leave(&mut world, Leaving::AfterItsTail);
        let (mut commit, mut done) = (None, false);
        for at in 0..40 {
            if at == step {
                world.name(2);
                commit = Some(world.commit(None));
            }
            world.tasks.run();
            world.check_promises();
            world.check_space();
            let first = world.inner().pending().first().copied();
            match first {
                Some(id) => world.complete(id),
                None if at > step => break,
                None => {}
            }
            done |= world.tasks.is_done(left);
        }
        assert!(done && has_left(&world), "the commit at step {step}");
        assert!(commit.is_some_and(|commit| world.tasks.is_done(commit)), "the commit at step {step}");
        let stats = world.log.stats();
        assert_eq!((stats.fallbacks, stats.chains), (0, 1), "the commit at step {step}");
    }
}

#[test]
fn a_chain_leaves_though_commits_never_end() {
    let mut world = world();
    let left = leave(&mut world, Leaving::AfterItsTail);
    for tag in 2..60 {
        world.name(tag);
        world.commit(None);
        world.tasks.run();
        // There is always one more on its way.
        let first = world.inner().pending().first().copied().expect("a write under way");
        world.complete(first);
        if world.tasks.is_done(left) {
            assert!(has_left(&world) && tag < 12, "after {tag} commits");
            assert_eq!(world.log.stats().chains, 1);
            return;
        }
    }
    panic!("it waits for the end of all commits");
}

#[test]
fn a_vdev_that_does_not_work_is_left_without_a_write_to_it() {
    let mut world = world();
    world.inner().dead.insert(OLD);
    let first = world.inner().ops_begun() + 1;
    let left = leave(&mut world, Leaving::AtOnce);
    world.settle();
    assert!(world.tasks.is_done(left) && has_left(&world));
    assert_eq!(writes_there(&world, first), 0);
    world.check_space();
}

#[test]
fn a_vdev_that_fails_while_its_last_block_is_written_is_left_and_loses_nothing() {
    let mut world = world();
    world.inner().dead.insert(OLD);
    world.name(2);
    let commit = world.commit(None);
    let left = leave(&mut world, Leaving::AfterItsTail);
    world.settle();
    assert!(world.tasks.is_done(left) && world.tasks.is_done(commit) && has_left(&world));
    assert!(world.is_promised(2));
    world.check_promises();
    world.check_space();
}

#[test]
fn without_room_elsewhere_the_chain_ends_and_its_records_wait_for_their_txg() {
    let mut world = World::primed(&[600, 0]);
    world.name(1);
    let commit = world.commit(None);
    let left = leave(&mut world, Leaving::AfterItsTail);
    world.settle();
    assert!(world.tasks.is_done(left) && world.tasks.is_done(commit));
    assert!(world.store.owned().is_empty());
    world.check_promises();
}

#[test]
fn a_chain_moves_to_a_log_that_was_added() {
    // The first log has no room yet: the chain lies in the main pool.
    let mut world = World::primed(&[0, 600]);
    world.inner().grow(OLD, 600);
    let log = world.log.handle();
    let moved = world.tasks.spawn(async move { log.move_on(|vdev| vdev == OLD).await });
    world.settle();
    assert!(world.tasks.is_done(moved));
    let blocks = world.log.handle().blocks();
    assert_eq!(blocks.iter().map(|bp| bp.dva(0).vdev).collect::<Vec<_>>(), [NEW, OLD]);
    world.name(1);
    let commit = world.commit(None);
    world.settle();
    assert!(world.tasks.is_done(commit));
    world.check_promises();
    world.check_space();
    let stats = world.log.stats();
    assert_eq!((stats.fallbacks, stats.chains), (0, 1));
}
