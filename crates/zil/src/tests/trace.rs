//! What a recording tells.

use std::time::Duration;

use units::{ObjectId, Txg, VdevId};

use super::world::World;
use crate::{CommitTrace, Recording, WaitedFor};

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn batch_of(commit: &CommitTrace) -> u64 {
    let WaitedFor::Batch(id) = commit.waited_for else { panic!("it waited for a batch: {commit:?}") };
    id
}

/// Two commits: the second waits while the first one's block is written, and its own is two blocks with a flush.
fn two_commits(world: &mut World) {
    world.write(1, 5, 4096);
    world.commit(Some(5));
    world.tasks.run();
    world.clock.pass(us(10));
    world.write(2, 6, 100 << 10);
    world.write(3, 6, 100 << 10);
    world.commit(Some(6));
    world.tasks.run();
    loop {
        let next = world.inner().pending().first().copied();
        let Some(id) = next else { return };
        world.clock.pass(us(100));
        world.complete(id);
    }
}

#[test]
fn a_recording_tells_of_each_commit_what_it_waited_for() {
    let mut world = World::primed(&[64, 64]);
    let session = world.store.1.begin(Duration::ZERO, 100).expect("nobody else records");
    assert!(world.store.1.begin(Duration::ZERO, 100).is_none(), "one at a time");
    two_commits(&mut world);
    let Recording { commits, batches, left_out } = session.end();
    assert_eq!((commits.len(), left_out), (2, 0));
    let [first, second] = commits.as_slice() else { panic!("two: {commits:?}") };
    assert_eq!((first.object, first.records, first.bytes), (Some(ObjectId::new(5)), 1, 4096));
    assert_eq!((second.object, second.records, second.bytes), (Some(ObjectId::new(6)), 2, 200 << 10));
    let batch = |commit| batches.iter().find(|batch| batch.id == batch_of(commit)).expect("it is recorded");
    let (one, two) = (batch(first), batch(second));
    assert_eq!(one.ended - first.began, us(110), "10 until the other came, 100 of its write");
    assert_eq!((one.writes.len(), one.flushes.len(), one.records), (1, 0, 1));
    assert_eq!((one.writes[0].bytes, one.writes[0].took, one.writes[0].is_ok), (8192, us(110), true));
    assert_eq!(two.begun - second.began, us(100), "while the first was under way");
    assert_eq!((two.flushes.len(), two.records, two.came), (1, 2, Some(second.began)));
    assert_eq!(two.flushes[0].took, us(100));
    assert_eq!(
        two.writes.iter().map(|write| write.took).max().map(|longest| two.sent + longest + us(100)),
        Some(two.ended)
    );
    assert!(second.returned >= two.ended);
    let stats = world.log.stats();
    let times = &stats.homes[&VdevId::new(0)].writes;
    assert_eq!(
        times.total(),
        (one.writes.len() + two.writes.len()) as u64,
        "the counters have each of them, too"
    );
    assert_eq!(times.percentile(0.0), Duration::from_nanos(1 << 17), "none took less than 100 µs");
}

#[test]
fn who_waits_for_a_txg_and_who_for_nothing_is_told_apart() {
    let mut world = World::new(&[64]);
    let session = world.store.1.begin(Duration::ZERO, 100).expect("nobody else records");
    world.write(1, 5, 512);
    world.commit(Some(5));
    world.settle();
    world.sync();
    world.commit(Some(5));
    world.settle();
    let commits = session.end().commits;
    let waited: Vec<_> = commits.iter().map(|commit| commit.waited_for).collect();
    assert!(
        matches!(waited.as_slice(), [WaitedFor::Txg(txg), WaitedFor::Nothing] if *txg > Txg::ZERO),
        "{waited:?}"
    );
}

#[test]
fn a_recorder_that_is_off_keeps_nothing_and_one_that_is_full_counts() {
    let mut world = World::primed(&[64, 64]);
    drop(world.store.1.begin(Duration::ZERO, 100).expect("nobody else records"));
    two_commits(&mut world);
    let session = world.store.1.begin(Duration::ZERO, 1).expect("the other has ended");
    two_commits(&mut world);
    let recording = session.end();
    assert_eq!((recording.commits.len(), recording.left_out), (1, 1));
}

#[test]
fn what_was_asked_for_before_it_began_is_left_out() {
    let mut world = World::primed(&[64, 64]);
    let active = world.store.1.begin(us(5), 100).expect("nobody else records");
    two_commits(&mut world);
    assert_eq!(active.from(), us(5));
    let recording = active.end();
    let began: Vec<_> = recording.commits.iter().map(|commit| commit.began).collect();
    assert_eq!((began, recording.left_out), (vec![us(10)], 0));
}
