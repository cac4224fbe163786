//! Commits on devices that work: what is written, when, and who is told.

use std::sync::Arc;
use std::time::Duration;

use env::{BoxFuture, BufSlice, IoBuf};
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrSetSaXattr;
use units::{ObjectId, Txg, VdevId};

use super::world::{OpKind, World, pattern};
use crate::{Fetched, Leaving, LoggedWrite, Record, Scope, WriteData, WriteSource, ZilError};

#[test]
fn a_lone_commit_is_one_stable_write() {
    let mut world = World::primed(&[64, 64]);
    world.write(1, 5, 4096);
    let commit = world.commit(Some(5));
    world.tasks.run();
    let pending = world.inner().pending();
    assert_eq!(pending.len(), 1);
    let OpKind::Write { bytes, stable, .. } = world.inner().pending_kind(pending[0]) else {
        panic!("a flush")
    };
    assert!(stable);
    assert_eq!(bytes.len(), 8192, "4 KiB of data take 8 KiB of log");
    assert!(!world.tasks.is_done(commit));
    world.complete(pending[0]);
    assert!(world.tasks.is_done(commit));
    world.check_promises();
}

#[test]
fn commits_that_come_while_a_block_is_written_share_the_next() {
    let mut world = World::primed(&[64, 64]);
    world.name(1);
    world.commit(None);
    world.tasks.run();
    for tag in 2..10 {
        world.write(tag, tag, 500);
        world.commit(Some(tag));
        world.tasks.run();
    }
    assert_eq!(world.inner().pending().len(), 1, "one block at a time");
    world.settle();
    assert_eq!(world.log.stats().batches, 2);
    assert!((1..10).all(|tag| world.is_promised(tag)));
    world.check_promises();
}

#[test]
fn commits_of_tasks_that_are_ready_share_the_first_block() {
    for (ready, batches) in [(true, 1), (false, 2)] {
        let mut world = World::primed(&[64, 64]);
        world.others.are_ready(ready);
        for tag in 1..10 {
            world.write(tag, tag, 500);
            world.commit(Some(tag));
        }
        world.settle();
        assert_eq!(world.log.stats().batches, batches, "others are ready: {ready}");
        assert!((1..10).all(|tag| world.is_promised(tag)));
    }
}

#[test]
fn what_was_gathered_for_a_chain_that_ends_meanwhile_is_not_lost() {
    let mut world = World::primed(&[64, 64]);
    world.others.are_ready(true);
    world.write(1, 1, 500);
    world.commit(Some(1));
    let handle = world.log.handle();
    let leave = async move { handle.evacuate(VdevId::new(0), Leaving::AtOnce).await.expect("txgs go on") };
    world.tasks.spawn(leave);
    world.settle();
    assert!(world.is_promised(1));
    world.check_promises();
}

#[test]
fn a_batch_without_a_driver_is_driven_while_another_is_gathered() {
    let mut world = World::primed(&[64, 64, 64]);
    world.inner().lanes = 2;
    world.write(1, 1, 500);
    let first = world.commit(Some(1));
    world.tasks.run();
    // Its batch is under way, and nobody drives it.
    world.tasks.cancel(first);
    world.others.are_ready(true);
    for tag in 2..5 {
        world.write(tag, tag, 500);
        world.commit(Some(tag));
    }
    world.tasks.run();
    world.settle();
    assert!((2..5).all(|tag| world.is_promised(tag)));
    world.check_promises();
}

#[test]
fn a_commit_writes_no_other_objects_data() {
    let mut world = World::primed(&[64, 64]);
    world.inner().automatic = true;
    world.write(1, 5, 100);
    world.write(2, 6, 100);
    world.name(3);
    world.commit(Some(5));
    world.tasks.run();
    let found: Vec<u64> = world.crash(false).recover().into_iter().map(|(tag, _)| tag.0).collect();
    assert_eq!(found, [1, 3]);
    world.commit(None);
    world.tasks.run();
    let found: Vec<u64> = world.crash(false).recover().into_iter().map(|(tag, _)| tag.0).collect();
    assert_eq!(found, [1, 3, 2]);
}

#[test]
fn a_commit_with_nothing_to_write_returns_at_once() {
    let mut world = World::primed(&[64, 64]);
    world.write(1, 5, 100);
    let commit = world.commit(Some(6));
    world.tasks.run();
    assert!(world.tasks.is_done(commit));
    assert_eq!(world.inner().pending().len(), 0);
}

#[test]
fn a_commit_waits_for_what_another_commit_took() {
    let mut world = World::primed(&[64, 64]);
    world.write(1, 5, 100);
    let first = world.commit(Some(5));
    let second = world.commit(Some(5));
    let unrelated = world.commit(Some(6));
    world.tasks.run();
    assert!(!world.tasks.is_done(first) && !world.tasks.is_done(second));
    assert!(world.tasks.is_done(unrelated));
    world.settle();
    assert!(world.tasks.is_done(second));
}

#[test]
fn large_writes_are_split_over_blocks_and_flushed_once() {
    let mut world = World::primed(&[600, 64]);
    world.write(1, 5, 300_000);
    world.commit(Some(5));
    world.tasks.run();
    let writes = world.inner().pending();
    assert!(writes.len() > 2, "blocks of a batch are written together");
    for id in writes {
        world.complete(id);
    }
    let flushes = world.inner().pending();
    assert_eq!(flushes.len(), 1);
    assert!(!world.is_promised(1));
    world.complete(flushes[0]);
    assert!(world.is_promised(1));
    assert_eq!(world.crash(false).written_lengths()[&1], 300_000);
    world.check_promises();
}

#[test]
fn a_commit_is_answered_by_its_txg_when_that_is_faster() {
    let mut world = World::primed(&[64, 64]);
    world.sync();
    world.name(1);
    let commit = world.commit(None);
    world.tasks.run();
    // The write names a block of this txg, so the sync waits for it; a txg later it would not.
    assert!(!world.try_sync());
    world.settle();
    assert!(world.tasks.is_done(commit));
    world.check_promises();
}

#[test]
fn the_first_commit_of_a_dataset_waits_for_one_txg_and_the_next_for_none() {
    let mut world = World::new(&[64, 64]);
    world.name(1);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(1));
    assert_eq!(world.log.stats().fallbacks, 1);
    world.check_promises();
    let synced = world.inner().synced;
    world.name(2);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(2));
    assert_eq!(world.inner().synced, synced, "no txg was needed");
    world.check_promises();
}

/// Runs `scene` with every sequence of choices it asks for.
fn for_all_choices(mut scene: impl FnMut(&mut dyn FnMut(usize) -> usize)) -> usize {
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut runs = 0;
    loop {
        let mut at = 0;
        scene(&mut |options| {
            if at == path.len() {
                path.push((0, options));
            }
            assert_eq!(path[at].1, options, "the scene is deterministic");
            at += 1;
            path[at - 1].0
        });
        runs += 1;
        while path.last().is_some_and(|&(chosen, options)| chosen + 1 == options) {
            path.pop();
        }
        match path.last_mut() {
            Some((chosen, _)) => *chosen += 1,
            None => return runs,
        }
    }
}

#[test]
fn no_order_of_completion_acknowledges_early() {
    let runs = for_all_choices(|choose| {
        let mut world = World::primed(&[600, 600, 64]);
        world.inner().lanes = 3;
        for (tag, length) in [(1, 100), (2, 140_000), (3, 100), (4, 5000)] {
            world.write(tag, tag, length);
            world.commit(Some(tag));
            world.tasks.run();
        }
        let mut synced = false;
        loop {
            let pending = world.inner().pending();
            if pending.is_empty() {
                break;
            }
            // One choice more than there are operations: a txg syncs now.
            let chosen = choose(pending.len() + usize::from(!synced));
            match pending.get(chosen) {
                Some(&id) => world.complete(id),
                None => {
                    synced = true;
                    world.try_sync();
                }
            }
            world.check_promises();
        }
        assert!((1..=4).all(|tag| world.is_promised(tag)));
    });
    assert!(runs > 100, "{runs} orders");
}

#[test]
fn cancelling_any_commit_wedges_nobody() {
    for cancelled in 0..4 {
        for steps in 0..4 {
            let mut world = World::primed(&[64, 64]);
            let mut commits = Vec::new();
            for tag in 1..=4 {
                world.write(tag, tag, 3000);
                commits.push(world.commit(Some(tag)));
                world.tasks.run();
            }
            for _ in 0..steps {
                let pending = world.inner().pending();
                if let Some(&id) = pending.first() {
                    world.complete(id);
                }
            }
            world.tasks.cancel(commits[cancelled]);
            world.settle();
            for (i, &commit) in commits.iter().enumerate() {
                assert!(i == cancelled || world.tasks.is_done(commit), "commit {i} hangs");
            }
            world.check_promises();
            world.name(9);
            world.commit(None);
            world.settle();
            assert!(world.is_promised(9));
        }
    }
}

#[test]
fn every_stage_of_a_commit_is_timed() {
    let mut world = World::primed(&[64, 64]);
    for tag in 1..=9 {
        world.write(tag, tag, 100);
        world.commit(Some(tag));
        world.tasks.run();
    }
    world.settle();
    // Two blocks on one vdev: written together, then flushed.
    world.write(10, 10, 60_000);
    world.write(11, 11, 120_000);
    world.commit(None);
    world.settle();
    let stats = world.log.stats();
    let stages = [
        &stats.stages.queue,
        &stats.stages.assemble,
        &stats.stages.write,
        &stats.stages.flush,
        &stats.stages.wake,
    ];
    assert_eq!(stages.map(|stage| stage.total()), [3, 3, 3, 1, 10]);
    assert_eq!(stats.latency.total(), 10);
    let home = &stats.homes[&VdevId::new(0)];
    assert_eq!((home.writes.total(), home.flushes.total()), (home.blocks, 1));
    assert_eq!((stats.copied, stats.fetched, stats.indirect), (11, 0, 0));
    // What ties a block to the next counts as used; all else is padding.
    let tied = home.blocks * ondisk::zil::ZIL_CHAIN_BYTES as u64;
    assert_eq!(home.used_bytes, stats.record_bytes + tied);
    assert_eq!((home.bytes, home.allocated_bytes), (stats.written_bytes, stats.allocated_bytes));
}

/// How many batches are under way once many commit, after one batch took so long.
fn batches_at_once_after(took: Duration) -> usize {
    let mut world = World::primed(&[64, 64, 64]);
    world.inner().lanes = 2;
    world.write(1, 1, 100);
    world.commit(Some(1));
    world.tasks.run();
    world.clock.pass(took);
    world.settle();
    for tag in 2..=4 {
        world.write(tag, tag, 100);
        world.commit(Some(tag));
        world.tasks.run();
    }
    let under_way = world.inner().pending().len();
    world.settle();
    assert!((1..=4).all(|tag| world.is_promised(tag)));
    world.check_promises();
    under_way
}

#[test]
fn devices_that_are_quicker_than_a_wake_get_one_batch_at_a_time() {
    assert_eq!(batches_at_once_after(Duration::ZERO), 2, "nothing is known");
    assert_eq!(batches_at_once_after(Duration::from_micros(6)), 1);
    assert_eq!(batches_at_once_after(Duration::from_micros(90)), 2);
}

#[test]
fn followers_are_woken_once() {
    let mut world = World::primed(&[64, 64]);
    let mut commits = Vec::new();
    for tag in 1..20 {
        world.write(tag, tag, 8);
        commits.push(world.commit(Some(tag)));
        world.tasks.run();
    }
    world.settle();
    assert_eq!(world.log.stats().batches, 2);
    let polls: Vec<usize> = commits.iter().map(|&commit| world.tasks.polls(commit)).collect();
    assert_eq!(polls[0], 2, "the first drove its own block");
    assert_eq!(polls[1], 3, "the second was roused to write for all others");
    assert!(polls[2..].iter().all(|&polls| polls == 2), "{polls:?}");
}

#[test]
fn a_log_that_all_commits_have_left_goes_on() {
    let mut world = World::primed(&[64, 64]);
    world.write(1, 1, 3000);
    let commit = world.commit(Some(1));
    world.tasks.run();
    world.tasks.cancel(commit);
    world.write(2, 2, 3000);
    world.commit(Some(2));
    world.settle();
    assert!(world.is_promised(2));
    world.check_promises();
}

/// Has the data of the write with this tag; or does not.
struct Later {
    tag: u64,
    answer: fn(Vec<BufSlice>) -> Result<Fetched, ZilError>,
}

impl WriteSource for Later {
    fn fetch(
        &self,
        _object: ObjectId,
        _offset: u64,
        length: u64,
        _txg: Txg,
    ) -> BoxFuture<'_, Result<Fetched, ZilError>> {
        let bytes: Vec<u8> = (0..length).map(|i| pattern(self.tag, i)).collect();
        let whole = Arc::new(IoBuf::copy_of(&bytes));
        let middle = bytes.len() / 3;
        let slices =
            vec![BufSlice::new(Arc::clone(&whole), 0..middle), BufSlice::new(whole, middle..bytes.len())];
        Box::pin(std::future::ready((self.answer)(slices)))
    }
}

fn write_later(
    world: &mut World,
    tag: u64,
    length: u64,
    answer: fn(Vec<BufSlice>) -> Result<Fetched, ZilError>,
) {
    let object = ObjectId::new(5);
    let data = WriteData::Later(Arc::new(Later { tag, answer }));
    let write = LoggedWrite { object, offset: tag << 32, length, data };
    world.assign(tag, Scope::Object(object), Record::Write(write));
}

#[test]
fn data_left_out_are_fetched_when_somebody_asks() {
    let mut world = World::primed(&[600, 64]);
    write_later(&mut world, 1, 200_001, |slices| Ok(Fetched::Slices(slices)));
    world.commit(Some(5));
    world.settle();
    assert!(world.is_promised(1));
    world.check_promises();
    assert_eq!(world.crash(false).written_lengths()[&1], 200_001);
    let stats = world.log.stats();
    assert_eq!((stats.fetched, stats.fetched_bytes), (1, 200_001), "one record, though of several pieces");
    assert_eq!((stats.copied, stats.copied_bytes), (0, 0), "counted once");
}

#[test]
fn a_write_whose_object_is_gone_leaves_no_record_and_holds_nobody_up() {
    let mut world = World::primed(&[600, 64]);
    write_later(&mut world, 1, 10, |_| Ok(Fetched::Gone));
    let alone = world.commit(Some(5));
    world.settle();
    assert!(world.tasks.is_done(alone));
    write_later(&mut world, 2, 10, |_| Ok(Fetched::Gone));
    world.name(3);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(3));
    let found: Vec<u64> = world.crash(false).recover().into_iter().map(|(tag, _)| tag.0).collect();
    assert_eq!(found, [3]);
}

/// What cannot be logged takes a txg, and everything after it waits for the same: a log with a gap
/// would be replayed wrongly.
fn check_waits_for_txg(world: &mut World) {
    let txg = world.open();
    world.name(2);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(1) && world.is_promised(2));
    assert!(world.inner().synced >= txg);
    assert_eq!(world.log.stats().fallbacks, 1);
    world.check_promises();
    world.name(3);
    world.commit(None);
    world.settle();
    assert_eq!(world.log.stats().fallbacks, 1, "the log is in use again");
    world.check_promises();
}

#[test]
fn data_that_cannot_be_fetched_wait_for_their_txg() {
    let mut world = World::primed(&[600, 64]);
    write_later(&mut world, 1, 10, |_| Err(ZilError::NoSpace { bytes: 0 }));
    check_waits_for_txg(&mut world);
}

#[test]
fn fetched_data_of_another_length_are_not_logged() {
    let mut world = World::primed(&[600, 64]);
    write_later(&mut world, 1, 10, |slices| Ok(Fetched::Slices(slices[..1].to_vec())));
    check_waits_for_txg(&mut world);
}

#[test]
fn a_record_that_no_block_holds_waits_for_its_txg() {
    let mut world = World::primed(&[600, 64]);
    let object = ObjectId::new(5);
    let record = LrSetSaXattr { object, name: b"user.big".to_vec(), value: vec![1; 200_000] };
    world.assign(1, Scope::Object(object), Record::Plain(LogRecord::SetSaXattr(record)));
    check_waits_for_txg(&mut world);
}
