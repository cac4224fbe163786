//! Claim and replay of what a crash leaves.

use std::collections::BTreeSet;
use std::sync::Arc;

use env::{BoxFuture, DeviceError};
use ondisk::Blkptr;
use ondisk::zil::record::{LrCloneRange, LrWrite};
use ondisk::zil::{LogRecord, flags};
use parking_lot::Mutex;
use units::{ObjectId, Txg, VdevId};

use super::tasks::Tasks;
use super::world::{MemStore, OBJSET, Tag, World, env, log_bp, now, place_of, sync_loop};
use crate::{
    Applied, Claimed, Found, IntentLog, LogStore, LoggedWrite, Record, Replay, ReplayCtx, ReplayProgress,
    ReplayRecord, ReplayWatch, Scope, WriteData, ZilError,
};

/// A file system that remembers what it was told, and in which txg; what a crash leaves of it is
/// what had synced.
#[derive(Default)]
pub(super) struct Files {
    pub done: Mutex<Vec<(Tag, Txg)>>,
    pub store: Option<MemStore>,
    /// Records that fail, and how often.
    pub fails: Mutex<Vec<(Tag, u32)>>,
    /// Records up to this tag are synced before the next is replayed.
    pub sync_until: u64,
}

fn tag_of(record: &LogRecord) -> Tag {
    match record {
        LogRecord::Remove(remove) => Tag(String::from_utf8_lossy(&remove.name).parse().expect("a tag")),
        LogRecord::Write(write) => Tag(write.offset >> 32),
        LogRecord::CloneRange(range) => Tag(range.offset),
        other => panic!("nobody logged {other:?}"),
    }
}

impl Replay for Files {
    fn apply<'a>(
        &'a self,
        record: &'a ReplayRecord,
        ctx: ReplayCtx<'a>,
    ) -> BoxFuture<'a, Result<Applied, Arc<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move {
            let tag = tag_of(&record.record);
            if let Some((_, left)) = self.fails.lock().iter_mut().find(|(of, left)| *of == tag && *left > 0) {
                *left -= 1;
                return Err(Arc::new(DeviceError::Gone) as Arc<dyn std::error::Error + Send + Sync>);
            }
            let store = self.store.as_ref().expect("a pool");
            let txg = store.open_txg();
            ctx.note(txg);
            self.done.lock().push((tag, txg));
            if tag.0 <= self.sync_until {
                store.wait_synced(txg).await.expect("txgs go on");
            }
            Ok(Applied::Done)
        })
    }
}

fn found(store: &MemStore) -> IntentLog<Found> {
    IntentLog::found(OBJSET, store.header(), Arc::new(store.clone()), env())
}

/// Claims as an import does: in the first txg, which then syncs with the header.
pub(super) fn claim(store: &MemStore) -> IntentLog<Claimed> {
    let txg = store.open_txg();
    let log = now(found(store).claim(txg)).expect("a log that can be claimed");
    store.0.lock().open = txg.next();
    store.sync_done(txg, Some(log.header()));
    log
}

/// A crashed pool with these tags in its log, in txg order.
pub(super) fn crashed(tags: u64) -> MemStore {
    let mut world = World::primed(&[600, 64]);
    for tag in 1..=tags {
        world.name(tag);
        world.commit(None);
        world.settle();
    }
    world.crash(false)
}

pub(super) fn tags(done: &Mutex<Vec<(Tag, Txg)>>) -> Vec<u64> {
    done.lock().iter().map(|(tag, _)| tag.0).collect()
}

#[test]
fn claimed_log_blocks_are_never_handed_out_again() {
    let store = crashed(5);
    let in_log: BTreeSet<_> = store.walk_blocks().iter().map(place_of).collect();
    assert!(in_log.len() > 5 && in_log.difference(&store.owned()).count() > 0);
    claim(&store);
    assert_eq!(store.owned(), in_log);
    let placement = crate::Placement::default();
    let other = now(store.allocate(4096, &placement)).expect("room");
    assert!(!in_log.contains(&place_of(&other)));
}

#[test]
fn a_claimed_log_says_how_far_it_reaches() {
    let store = crashed(5);
    let header = claim(&store).header();
    assert_eq!(header.claim_txg.get(), 11);
    assert_eq!(header.claim_blk_seq.get(), 6, "the block after the last is claimed too");
    assert_eq!(header.claim_lr_seq.get(), 5);
    assert_eq!(header.flags.get(), flags::REPLAY_NEEDED | flags::CLAIM_LR_SEQ_VALID);
}

#[test]
fn claiming_twice_changes_nothing() {
    let store = crashed(5);
    let header = claim(&store).header();
    let owned = store.owned();
    let again = claim(&store).header();
    assert_eq!(again, header);
    assert_eq!(store.owned(), owned);
}

#[test]
fn a_claimed_log_tells_all_that_it_holds() {
    let store = crashed(5);
    let places = |log: &IntentLog<Claimed>| -> BTreeSet<_> {
        let held = now(log.held()).expect("all of it reads");
        held.iter().map(|dva| (dva.vdev, dva.offset)).collect()
    };
    let in_log: BTreeSet<_> =
        store.walk_blocks().iter().map(|bp| (bp.dva(0).vdev, bp.dva(0).offset)).collect();
    assert!(in_log.len() > 5, "{in_log:?}");
    assert_eq!(places(&claim(&store)), in_log);
    assert_eq!(places(&claim(&store)), in_log, "and when an earlier import claimed it");
    store.0.lock().dead = store.walk_blocks().iter().map(|bp| bp.dva(0).vdev).collect();
    assert!(now(claim(&store).held()).is_err(), "what does not answer may hold more");
}

/// Claims what can be read, as an import without the missing logs does.
pub(super) fn claim_what_answers(store: &MemStore) -> IntentLog<Claimed> {
    let txg = store.open_txg();
    let log = now(found(store).claim_what_answers(txg)).expect("what does not answer is given up");
    store.0.lock().open = txg.next();
    store.sync_done(txg, Some(log.header()));
    log
}

#[test]
fn a_log_whose_device_is_missing_is_given_up_only_when_asked() {
    let store = crashed(5);
    let missing: BTreeSet<VdevId> = store.walk_blocks().iter().map(|bp| bp.dva(0).vdev).collect();
    store.0.lock().dead = missing;
    now(found(&store).claim(store.open_txg())).expect_err("it may hold what was promised");
    let log = claim_what_answers(&store);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    let (log, report) = now(log.replay(&files)).expect("what is left of the log replays");
    assert_eq!(report.applied, 0);
    store.0.lock().dead.clear();
    let mut world = World::over(store.clone(), log);
    world.settle();
    world.sync();
    assert!(store.owned().is_empty(), "the place of its first block is free again: {:?}", store.owned());
}

#[test]
fn a_claimed_log_whose_device_went_missing_is_given_up_when_asked() {
    let store = crashed(5);
    drop(claim(&store));
    let missing: BTreeSet<VdevId> = store.walk_blocks().iter().map(|bp| bp.dva(0).vdev).collect();
    store.0.lock().dead = missing;
    let files = Files { store: Some(store.clone()), ..Files::default() };
    now(claim(&store).replay(&files)).expect_err("it was claimed, and is not there");
    let (_, report) = now(claim_what_answers(&store).replay(&files)).expect("nothing is left of it");
    assert_eq!((report.applied, tags(&files.done)), (0, vec![]));
}

#[test]
fn an_empty_log_has_nothing_to_claim_or_replay() {
    let store = World::new(&[16, 16]).crash(false);
    let log = claim(&store);
    assert!(!log.needs_replay());
    assert_eq!(log.header(), ondisk::ZilHeader::default());
    let files = Files { store: Some(store.clone()), ..Files::default() };
    let (log, report) = now(log.replay(&files)).expect("nothing to do");
    assert_eq!((report.blocks, report.applied), (0, 0));
    let mut world = World::over(store, log);
    world.name(1);
    world.commit(None);
    world.settle();
    assert!(world.is_promised(1));
}

#[test]
fn a_log_that_was_only_begun_needs_no_replay() {
    let store = World::primed(&[600, 64]).crash(false);
    let log = claim(&store);
    assert!(!log.needs_replay());
    assert_eq!(log.header().flags.get(), flags::CLAIM_LR_SEQ_VALID);
}

#[test]
fn a_replayed_log_is_freed_and_a_new_one_begins() {
    let store = crashed(5);
    let log = claim(&store);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    let (log, report) = now(log.replay(&files)).expect("a sound log");
    assert_eq!(tags(&files.done), [1, 2, 3, 4, 5]);
    assert_eq!((report.blocks, report.applied, report.skipped), (6, 5, 0));
    let mut world = World::over(store, log);
    world.inner().automatic = false;
    world.sync();
    assert!(world.store.owned().is_empty());
    assert_eq!(world.store.header(), ondisk::ZilHeader::default());
    world.name(100);
    world.commit(None);
    world.settle();
    world.name(101);
    world.commit(None);
    world.settle();
    assert_eq!(world.crash(false).recover().len(), 1);
    world.check_promises();
    world.check_space();
}

#[derive(Debug, Default)]
struct Told(Mutex<Vec<ReplayProgress>>);

impl ReplayWatch for Told {
    fn replayed(&self, _: units::ObjsetId, progress: ReplayProgress) -> BoxFuture<'_, ()> {
        self.0.lock().push(progress);
        Box::pin(std::future::ready(()))
    }
}

#[test]
fn progress_is_told_record_by_record() {
    for was_claimed_before in [false, true] {
        let store = crashed(5);
        if was_claimed_before {
            drop(claim(&store));
        }
        let (log, told) = (claim(&store), Arc::new(Told::default()));
        log.watch(Arc::clone(&told) as Arc<dyn ReplayWatch>);
        assert_eq!(log.handle().replay_progress(), None, "none is under way");
        let files = Files { store: Some(store.clone()), ..Files::default() };
        let (log, _) = now(log.replay(&files)).expect("a sound log");
        let told = told.0.lock();
        let records = told.iter().map(|progress| (progress.records, progress.records_total));
        assert_eq!(records.collect::<Vec<_>>(), [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]);
        assert!(told.iter().all(|progress| progress.bytes_total == told[4].bytes), "{told:?}");
        assert_eq!(told[4].left(), Some(std::time::Duration::ZERO));
        assert_eq!(log.handle().replay_progress(), None, "it has ended");
    }
}

#[test]
fn a_damaged_log_is_given_up_only_when_asked() {
    let store = crashed(5);
    drop(claim(&store));
    store.write_raw(&store.walk_blocks()[2], &[0; 4096]);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    now(claim(&store).replay(&files)).expect_err("it was claimed, and is not there");
    let files = Files { store: Some(store.clone()), ..Files::default() };
    now(claim_what_answers(&store).replay(&files)).expect("what is left replays");
    assert_eq!(tags(&files.done), [1, 2]);
}

#[test]
fn a_new_chain_never_continues_an_old_one() {
    let store = crashed(3);
    let old = store.header().log.checksum();
    let log = claim(&store);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    let (log, _) = now(log.replay(&files)).expect("a sound log");
    let mut world = World::over(store, log);
    world.name(9);
    world.commit(None);
    world.settle();
    let new = world.crash(false).header().log.checksum();
    assert_eq!(new[2..], [OBJSET.get(), 1]);
    assert_ne!(new[..2], old[..2]);
}

/// Replays `log` with the txg engine running.
fn replay_in_tasks(store: &MemStore, log: IntentLog<Claimed>, files: &Arc<Files>) {
    let mut tasks = Tasks::default();
    tasks.spawn(sync_loop(store.clone(), log.handle()));
    let into = Arc::clone(files);
    let task = tasks.spawn(async move { drop(log.replay(&*into).await.expect("a sound log")) });
    tasks.run();
    assert!(tasks.is_done(task));
}

#[test]
fn replay_resumes_after_a_crash_at_each_record() {
    for sync_until in 0..=6 {
        let store = crashed(6);
        let log = claim(&store);
        let files = Arc::new(Files { store: Some(store.clone()), sync_until, ..Files::default() });
        replay_in_tasks(&store, log, &files);
        assert_eq!(tags(&files.done), [1, 2, 3, 4, 5, 6]);
        assert_eq!(store.header().replay_seq.get(), sync_until);
        let store = store.copy();
        let synced = store.synced_txg();
        let kept: Vec<u64> =
            files.done.lock().iter().filter(|(_, txg)| *txg <= synced).map(|(tag, _)| tag.0).collect();
        let second = Files { store: Some(store.clone()), ..Files::default() };
        let (log, report) = now(claim(&store).replay(&second)).expect("a sound log");
        assert_eq!(report.skipped, sync_until);
        let all: Vec<u64> = kept.into_iter().chain(tags(&second.done)).collect();
        assert_eq!(all, [1, 2, 3, 4, 5, 6], "crash after {sync_until}");
        let mut world = World::over(store, log);
        world.sync();
        assert!(world.store.owned().is_empty(), "crash after {sync_until}");
    }
}

#[test]
fn records_of_a_txg_that_had_synced_are_not_replayed() {
    let mut world = World::primed(&[600, 64]);
    world.name(1);
    world.commit(None);
    world.settle();
    world.name(2);
    assert!(world.try_sync());
    world.name(3);
    world.commit(None);
    world.settle();
    let store = world.crash(false);
    let log = claim(&store);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    now(log.replay(&files)).expect("a sound log");
    assert_eq!(tags(&files.done), [3]);
}

#[test]
fn a_torn_last_block_ends_the_log() {
    let store = crashed(5);
    let last = store.walk_blocks()[4];
    let bytes = now(store.read(&last)).expect("memory");
    for torn in [0, 512, 4095] {
        let mut cut = bytes.clone();
        cut[torn..4096].iter_mut().for_each(|byte| *byte = !*byte);
        store.write_raw(&last, &cut[..4096]);
        let copy = store.copy();
        let log = claim(&copy);
        assert_eq!(log.header().claim_lr_seq.get(), 4);
        let files = Files { store: Some(copy.clone()), ..Files::default() };
        now(log.replay(&files)).expect("a sound log");
        assert_eq!(tags(&files.done), [1, 2, 3, 4]);
    }
}

#[test]
fn a_block_that_appears_after_claim_is_not_believed() {
    let store = crashed(5);
    let last = store.walk_blocks()[4];
    let bytes = now(store.read(&last)).expect("memory");
    store.write_raw(&last, &[0; 4096]);
    let log = claim(&store);
    store.write_raw(&last, &bytes[..4096]);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    now(log.replay(&files)).expect("a sound log");
    assert_eq!(tags(&files.done), [1, 2, 3, 4]);
}

#[test]
fn a_claimed_block_that_is_lost_is_an_error_and_nothing_is_freed() {
    let store = crashed(5);
    let log = claim(&store);
    let owned = store.owned();
    store.write_raw(&store.walk_blocks()[2], &[0; 4096]);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    let stopped = now(log.replay(&files)).expect_err("damage");
    assert!(matches!(stopped.error, ZilError::LostBlock { seq, .. } if seq.get() == 3));
    assert!(stopped.log.needs_replay());
    assert_eq!(store.owned(), owned);
}

#[test]
fn a_missing_log_device_is_noticed_before_anything_is_claimed() {
    let store = crashed(5);
    store.0.lock().dead.insert(VdevId::new(0));
    assert!(matches!(now(found(&store).check()), Err(ZilError::Io { .. })));
    let owned = store.owned();
    assert!(now(found(&store).claim(store.open_txg())).is_err());
    assert_eq!(store.owned(), owned);
}

/// A crashed pool whose log is on two devices, one of them gone; part of it had synced.
fn crashed_and_torn() -> MemStore {
    let mut world = World::primed(&[24, 600]);
    for tag in 1..=24 {
        world.write(tag, tag, 5000);
        world.commit(Some(tag));
        world.settle();
        if tag == 4 {
            world.try_sync();
        }
    }
    let store = world.crash(false);
    let vdevs: BTreeSet<_> = store.walk_blocks().iter().map(|bp| bp.dva(0).vdev).collect();
    assert_eq!(vdevs.len(), 2);
    store
}

#[test]
fn a_log_whose_device_is_lost_can_be_given_up() {
    for lost in [0, 1] {
        for is_claimed in [false, true] {
            let store = crashed_and_torn();
            if is_claimed {
                claim(&store);
            }
            let lost = VdevId::new(lost);
            store.0.lock().dead.insert(lost);
            let log = now(found(&store).abandon(store.open_txg(), |vdev| vdev != lost));
            let mut world = World::over(store, log);
            world.inner().automatic = true;
            world.sync();
            assert_eq!(world.store.header(), ondisk::ZilHeader::default());
            // From the first lost block on, nobody knows where the others are.
            let found_all = lost == VdevId::new(1);
            assert!(!found_all || world.store.owned().iter().all(|(vdev, _)| *vdev == lost));
            world.inner().dead.clear();
            world.name(100);
            world.commit(None);
            world.tasks.run();
            assert!(world.is_promised(100));
        }
    }
}

#[test]
fn a_log_can_be_given_up_though_nothing_is_lost() {
    for is_claimed in [false, true] {
        let store = crashed_and_torn();
        if is_claimed {
            claim(&store);
        }
        let log = now(found(&store).abandon(store.open_txg(), |_| true));
        let mut world = World::over(store, log);
        world.sync();
        assert_eq!(world.store.header(), ondisk::ZilHeader::default());
        assert!(world.store.owned().is_empty());
    }
}

#[test]
fn a_record_that_fails_once_is_tried_again() {
    let store = crashed(3);
    let log = claim(&store);
    let fails = Mutex::new(vec![(Tag(2), 1)]);
    let files = Arc::new(Files { store: Some(store.clone()), fails, ..Files::default() });
    replay_in_tasks(&store, log, &files);
    assert_eq!(tags(&files.done), [1, 2, 3]);
}

#[test]
fn a_record_that_keeps_failing_stops_replay_and_keeps_the_log() {
    let store = crashed(3);
    let log = claim(&store);
    let fails = Mutex::new(vec![(Tag(2), 2)]);
    let files = Arc::new(Files { store: Some(store.clone()), fails, ..Files::default() });
    let mut tasks = Tasks::default();
    tasks.spawn(sync_loop(store.clone(), log.handle()));
    let into = Arc::clone(&files);
    let task = tasks.spawn(async move {
        let stopped = log.replay(&*into).await.expect_err("it fails twice");
        assert!(matches!(stopped.error, ZilError::Replay { seq, .. } if seq.get() == 2));
        // Whatever was wrong has been put right: the rest follows.
        let (_, report) = stopped.log.replay(&*into).await.expect("a sound log");
        assert_eq!((report.applied, report.skipped), (2, 1));
    });
    tasks.run();
    assert!(tasks.is_done(task));
    assert_eq!(tags(&files.done), [1, 2, 3]);
}

#[test]
fn discarding_frees_everything_and_replays_nothing() {
    let store = crashed(5);
    let log = now(claim(&store).discard()).expect("a sound log");
    let mut world = World::over(store, log);
    world.sync();
    assert!(world.store.owned().is_empty());
    assert_eq!(world.store.header(), ondisk::ZilHeader::default());
}

/// A block of data outside the log, as a write that went straight to the pool leaves it.
fn data_block(store: &MemStore, offset: u64, birth: Txg) -> Blkptr {
    let bp = log_bp(VdevId::new(1), offset, 4096, birth);
    store.0.lock().data.insert(place_of(&bp), vec![7; 4096]);
    bp
}

/// A crashed pool whose log has: a name, an indirect write, a name.
fn crashed_with_indirect(is_readable: bool) -> MemStore {
    let mut world = World::primed(&[600, 64]);
    let bp = data_block(&world.store, 40 * 4096, world.open());
    let object = ObjectId::new(5);
    let write = LoggedWrite { object, offset: (2 << 32) + 100, length: 50, data: WriteData::Indirect(bp) };
    world.name(1);
    world.assign(2, Scope::Object(object), Record::Write(write));
    world.name(3);
    world.commit(None);
    world.settle();
    if !is_readable {
        world.inner().data.clear();
    }
    world.crash(false)
}

#[test]
fn blocks_of_indirect_writes_are_claimed_and_freed_with_the_log() {
    let store = crashed_with_indirect(true);
    let log = claim(&store);
    assert!(store.owned().contains(&(VdevId::new(1), 40 * 4096)));
    let files = Files { store: Some(store.clone()), ..Files::default() };
    let (log, report) = now(log.replay(&files)).expect("a sound log");
    assert_eq!(report.applied, 3);
    let mut world = World::over(store, log);
    world.sync();
    assert!(world.store.owned().is_empty());
}

#[test]
fn a_log_ends_where_an_indirect_write_did_not_reach_the_disk() {
    let store = crashed_with_indirect(false);
    let log = claim(&store);
    assert_eq!(log.header().claim_lr_seq.get(), 1);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    now(log.replay(&files)).expect("a sound log");
    assert_eq!(tags(&files.done), [1]);
}

#[test]
fn an_indirect_write_is_replayed_with_its_whole_block() {
    struct One(Mutex<Option<(u64, usize, LrWrite)>>);
    impl Replay for One {
        fn apply<'a>(
            &'a self,
            record: &'a ReplayRecord,
            ctx: ReplayCtx<'a>,
        ) -> BoxFuture<'a, Result<Applied, Arc<dyn std::error::Error + Send + Sync>>> {
            Box::pin(async move {
                ctx.note(Txg::new(12));
                if let (LogRecord::Write(write), Some(block)) = (&record.record, &record.block) {
                    *self.0.lock() = Some((block.offset, block.data.len(), write.clone()));
                }
                Ok(Applied::Done)
            })
        }
    }
    let store = crashed_with_indirect(true);
    let one = One(Mutex::new(None));
    now(claim(&store).replay(&one)).expect("a sound log");
    let (offset, len, write) = one.0.lock().take().expect("a write");
    assert_eq!((offset, len), (2 << 32, 4096));
    assert_eq!((write.offset, write.length), ((2 << 32) + 100, 50));
}

#[test]
fn references_to_cloned_blocks_are_taken_at_claim_and_given_back_after_replay() {
    let mut world = World::primed(&[600, 64]);
    let bp = log_bp(VdevId::new(1), 50 * 4096, 4096, Txg::new(4));
    let range = LrCloneRange {
        object: ObjectId::new(5),
        offset: 2,
        blkptrs: vec![bp, Blkptr::HOLE],
        ..LrCloneRange::default()
    };
    world.assign(2, Scope::Object(ObjectId::new(5)), Record::Plain(LogRecord::CloneRange(range)));
    world.commit(None);
    world.settle();
    let store = world.crash(false);
    let log = claim(&store);
    assert_eq!(store.0.lock().clones[&place_of(&bp)], 1);
    let files = Files { store: Some(store.clone()), ..Files::default() };
    let (log, _) = now(log.replay(&files)).expect("a sound log");
    let mut world = World::over(store, log);
    world.sync();
    assert_eq!(world.inner().clones[&place_of(&bp)], 0);
}

#[test]
fn a_clone_of_a_block_that_never_was_ends_the_log() {
    let mut world = World::primed(&[600, 64]);
    let bp = log_bp(VdevId::new(1), 50 * 4096, 4096, world.open());
    let range =
        LrCloneRange { object: ObjectId::new(5), offset: 2, blkptrs: vec![bp], ..LrCloneRange::default() };
    world.name(1);
    world.assign(2, Scope::Object(ObjectId::new(5)), Record::Plain(LogRecord::CloneRange(range)));
    world.commit(None);
    world.settle();
    let store = world.crash(false);
    assert_eq!(claim(&store).header().claim_lr_seq.get(), 1);
    assert!(store.0.lock().clones.is_empty());
}

proptest::proptest! {
    #[test]
    fn a_walk_over_any_bytes_ends(noise in proptest::collection::vec((0_usize..7, 0_usize..4096, 1_u8..), 1..8)) {
        let store = crashed(5);
        let blocks = store.walk_blocks();
        for (block, at, flip) in noise {
            let Some(bp) = blocks.get(block) else { continue };
            let mut bytes = now(store.read(bp)).expect("memory");
            bytes[at] ^= flip;
            store.write_raw(bp, &bytes[..4096]);
        }
        assert!(store.walk_blocks().len() <= blocks.len());
    }
}
