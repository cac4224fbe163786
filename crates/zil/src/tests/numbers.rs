//! Logs whose records have numbers that a new log of ours would not give them.

use std::sync::Arc;
use std::time::Duration;

use ondisk::zil::record::LrWrite;
use ondisk::zil::{ChainForm, LogRecord, ZIL_CHAIN_BYTES, ZilChain};
use ondisk::{Blkptr, ByteOrder, ChecksumKind, ZioEck};
use units::ObjectId;

use super::import::{Files, claim, crashed, tags};
use super::tasks::Tasks;
use super::world::{MemStore, World, now, sync_loop};
use crate::{LogStore, Record, ReplayProgress, Scope, ZilError};

/// The block at `bp`, its records numbered by `number`, and sealed again.
fn renumbered(bp: &Blkptr, block: &[u8], number: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut bytes = block.to_vec();
    let used = ZilChain::read(ChainForm::Slim, &bytes).expect("a log block").used.get() as usize;
    let mut at = ZIL_CHAIN_BYTES;
    while at < used {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let (reclen, seq) = (word(at + 8) as usize, word(at + 24));
        bytes[at + 24..at + 32].copy_from_slice(&number(seq).to_le_bytes());
        at += reclen;
    }
    let hashed = used.next_multiple_of(4096);
    ZioEck::seeded(bp.checksum()).put_in(ByteOrder::Little, &mut bytes[..ZIL_CHAIN_BYTES]);
    let sum = codec::checksum_of(ByteOrder::Little, ChecksumKind::Zilog2, &bytes[..hashed], None);
    ZioEck::seeded(sum.expect("known")).put_in(ByteOrder::Little, &mut bytes[..ZIL_CHAIN_BYTES]);
    bytes
}

fn renumber(store: &MemStore, mut number: impl FnMut(u64) -> u64) {
    let mut blocks = store.walk_blocks();
    blocks.pop();
    for bp in blocks {
        let bytes = now(store.read(&bp)).expect("memory answers");
        store.write_raw(&bp, &renumbered(&bp, &bytes, &mut number));
    }
}

fn files(store: &MemStore) -> Arc<Files> {
    Arc::new(Files { store: Some(store.clone()), ..Files::default() })
}

#[test]
fn a_log_whose_first_record_has_any_number_is_replayed() {
    for first in [1, 2, 1_000_000_000_000, u64::MAX - 10, u64::MAX - 5] {
        let store = crashed(6);
        renumber(&store, |seq| first + (seq - 1));
        let log = claim(&store);
        assert_eq!(log.header().claim_lr_seq.get(), first + 5);
        let (mut tasks, files) = (Tasks::default(), files(&store));
        tasks.spawn(sync_loop(store.clone(), log.handle()));
        let (into, engine) = (Arc::clone(&files), store.clone());
        let task = tasks.spawn(async move {
            let (_log, report) = log.replay(&*into).await.expect("a sound log");
            assert_eq!(report.applied, 6);
            engine.wait_synced(engine.open_txg()).await.expect("txgs go on");
        });
        tasks.run();
        assert!(tasks.is_done(task));
        assert_eq!(tags(&files.done), [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn a_replay_from_any_number_is_resumed_where_it_stopped() {
    let store = crashed(6);
    renumber(&store, |seq| u64::MAX - 10 + seq);
    let log = claim(&store);
    let files = Arc::new(Files { store: Some(store.clone()), sync_until: 3, ..Files::default() });
    let (mut tasks, into) = (Tasks::default(), Arc::clone(&files));
    tasks.spawn(sync_loop(store.clone(), log.handle()));
    let task = tasks.spawn(async move { drop(log.replay(&*into).await.expect("a sound log")) });
    tasks.run();
    assert!(tasks.is_done(task));
    assert_eq!(store.header().replay_seq.get(), u64::MAX - 7, "the third is stable");
    let store = store.copy();
    let second = self::files(&store);
    let (_log, report) = now(claim(&store).replay(&*second)).expect("a sound log");
    assert_eq!((report.skipped, tags(&second.done)), (3, vec![4, 5, 6]));
}

#[test]
fn record_numbers_that_do_not_rise_stop_replay_and_keep_the_log() {
    let numbers: [[u64; 4]; 6] = [
        [1, 1, 2, 3],
        [1, 3, 2, 4],
        [5, 4, 3, 2],
        [3, 1, 4, 5],
        [u64::MAX, 1, 2, 3],
        [u64::MAX, u64::MAX, u64::MAX, u64::MAX],
    ];
    for numbers in numbers {
        let store = crashed(4);
        renumber(&store, |seq| numbers[seq as usize - 1]);
        let log = claim(&store);
        let (header, owned) = (log.header(), store.owned());
        let stopped = now(log.replay(&*files(&store))).expect_err("nobody wrote such a log");
        assert!(matches!(stopped.error, ZilError::BadRecord { .. }), "{numbers:?}: {:?}", stopped.error);
        assert_eq!((stopped.log.header(), store.owned()), (header, owned), "{numbers:?}");
    }
}

#[test]
fn a_claim_that_says_any_last_number_is_believed_without_harm() {
    // Claimed by an import that noted how far the log goes, so that this one counts nothing.
    for last in [u64::MAX, u64::MAX - 1, 1 << 40] {
        let store = crashed(3);
        drop(claim(&store));
        let mut header = store.header();
        header.claim_lr_seq = last.into();
        store.sync_done(store.synced_txg(), Some(header));
        let log = claim(&store);
        let handle = log.handle();
        let stopped = now(log.replay(&*files(&store))).expect_err("records are missing");
        assert!(matches!(stopped.error, ZilError::LostBlock { .. }), "{:?}", stopped.error);
        assert!(handle.replay_progress().is_none());
    }
}

#[test]
fn what_is_left_of_a_log_with_absurd_numbers_is_told_without_a_panic() {
    let progress = ReplayProgress {
        records: 1,
        records_total: u64::MAX,
        elapsed: Duration::from_secs(1_000),
        ..ReplayProgress::default()
    };
    assert_eq!(progress.left(), Some(Duration::MAX));
}

#[test]
fn a_record_that_says_it_wrote_more_than_any_block_holds_stops_replay() {
    for length in [(16 << 20) + 1, 1 << 40, u64::MAX] {
        let mut world = World::primed(&[600, 64]);
        let write =
            LogRecord::Write(LrWrite { object: ObjectId::new(5), offset: 0, length, ..LrWrite::default() });
        world.assign(1, Scope::Object(ObjectId::new(5)), Record::Plain(write));
        world.commit(None);
        world.settle();
        let store = world.crash(false);
        let stopped = now(claim(&store).replay(&*files(&store))).expect_err("no block is as long");
        assert!(matches!(stopped.error, ZilError::BadRecord { .. }), "{length}: {:?}", stopped.error);
    }
}
