//! Writes whose data lie in blocks of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use device::{BoxFuture, Durability};
use ondisk::zil::{LogRecord, TxType};
use ondisk::{Blkptr, Dva};
use units::{ObjectId, Txg, VdevId};

use super::world::{MemStore, OpKind, World, log_bp, now, pattern};
use crate::{
    DataBlock, DataPlace, Fetched, LogWalk, LoggedWrite, Record, Scope, WriteData, WriteSource, ZilError,
};

const BYTES: u64 = 8192;
/// Where data go, well behind what the log gets to.
const FIRST_DATA_SLOT: u64 = 400;

/// What became of blocks of data.
#[derive(Default)]
struct Tally {
    stable: AtomicUsize,
    failed: AtomicUsize,
    dropped: AtomicUsize,
}

#[derive(Clone)]
struct Source {
    store: MemStore,
    tag: u64,
    vdev: VdevId,
    tally: Arc<Tally>,
}

impl WriteSource for Source {
    fn place(&self, _object: ObjectId, _offset: u64, _length: u64, txg: Txg) -> Option<DataPlace> {
        let at = (FIRST_DATA_SLOT + self.tag * BYTES / 4096) * 4096;
        let bp = log_bp(self.vdev, at, BYTES, txg);
        Some(DataPlace::Block(Box::new(Block { source: self.clone(), bp })))
    }

    fn has_places(&self) -> bool {
        true
    }

    fn fetch(
        &self,
        _object: ObjectId,
        _offset: u64,
        _length: u64,
        _txg: Txg,
    ) -> BoxFuture<'_, Result<Fetched, ZilError>> {
        panic!("data that have a place are not fetched")
    }
}

struct Block {
    source: Source,
    bp: Blkptr,
}

impl DataBlock for Block {
    fn bp(&self) -> Blkptr {
        self.bp
    }

    fn write(&self, _place: Dva, durability: Durability) -> BoxFuture<'static, Result<(), ZilError>> {
        let bytes = (0..BYTES).map(|i| pattern(self.source.tag, i)).collect();
        let stable = durability == Durability::Stable;
        self.source.store.op(OpKind::Write { bp: self.bp, bytes, stable })
    }

    fn ended(&self, is_stable: bool) {
        let tally = &self.source.tally;
        if is_stable { &tally.stable } else { &tally.failed }.fetch_add(1, SeqCst);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.source.tally.dropped.fetch_add(1, SeqCst);
    }
}

/// Logs a write whose data go to `vdev`.
fn write_placed(world: &mut World, tally: &Arc<Tally>, tag: u64, vdev: u32) {
    let (store, tally) = (world.store.clone(), Arc::clone(tally));
    let source = Source { store, tag, vdev: VdevId::new(vdev), tally };
    let object = ObjectId::new(5);
    let data = WriteData::Later(Arc::new(source));
    let write = LoggedWrite { object, offset: tag << 32, length: BYTES, data };
    world.assign(tag, Scope::Object(object), Record::Write(write));
}

fn counts(tally: &Tally) -> (usize, usize, usize) {
    (tally.stable.load(SeqCst), tally.failed.load(SeqCst), tally.dropped.load(SeqCst))
}

#[test]
fn a_data_block_goes_out_with_the_log_block_that_names_it_and_both_are_waited_for() {
    for first in 0..2 {
        let mut world = World::primed(&[600]);
        let tally = Arc::<Tally>::default();
        write_placed(&mut world, &tally, 1, 0);
        world.commit(Some(5));
        world.tasks.run();
        let pending = world.inner().pending();
        assert_eq!(pending.len(), 2, "at the same time");
        let is_cached = |id| matches!(world.inner().pending_kind(id), OpKind::Write { stable: false, .. });
        assert!(pending.iter().all(|&id| is_cached(id)), "one vdev: one flush for both");
        world.complete(pending[first]);
        world.check_promises();
        world.complete(pending[1 - first]);
        assert!(!world.is_promised(1), "nothing is flushed yet");
        assert_eq!(counts(&tally), (0, 0, 0));
        world.settle();
        assert!(world.is_promised(1));
        assert_eq!(counts(&tally), (1, 0, 1));
        world.check_promises();
        let stats = world.log.stats();
        assert_eq!((stats.indirect_bytes, stats.copied_bytes, stats.placed_bytes), (BYTES, 0, BYTES));
        assert_eq!(stats.written_bytes, 4096, "the log block has the record only");
    }
}

#[test]
fn on_vdevs_of_their_own_both_are_written_stable_in_one_round_trip() {
    let mut world = World::primed(&[600, 600]);
    let tally = Arc::<Tally>::default();
    write_placed(&mut world, &tally, 1, 1);
    world.commit(Some(5));
    world.tasks.run();
    let pending = world.inner().pending();
    assert_eq!(pending.len(), 2);
    pending.into_iter().for_each(|id| world.complete(id));
    assert!(world.is_promised(1), "no flush is needed");
    world.check_promises();
}

#[test]
fn a_data_block_that_cannot_be_written_is_never_acknowledged() {
    // Data, log block, flush.
    for failing in 1..=3 {
        let mut world = World::primed(&[600]);
        let tally = Arc::<Tally>::default();
        let begun = world.inner().ops_begun();
        world.inner().fail.insert(begun + failing);
        let txg = world.open();
        write_placed(&mut world, &tally, 1, 0);
        world.commit(Some(5));
        world.settle();
        assert!(world.is_promised(1) && world.inner().synced >= txg, "{failing}: through its txg");
        assert_eq!(counts(&tally), (0, 1, 1), "{failing}");
        assert_eq!(world.log.stats().fallbacks, 1);
        world.check_promises();
        world.sync();
        world.check_space();
    }
}

#[test]
fn a_block_whose_log_block_found_no_room_is_never_written() {
    // The chain's first block, and no room for one more that holds the rest of the records.
    let mut world = World::primed(&[9]);
    let tally = Arc::<Tally>::default();
    let writes = 400;
    for tag in 1..=writes {
        write_placed(&mut world, &tally, tag, 0);
    }
    world.commit(Some(5));
    world.settle();
    assert!((1..=writes).all(|tag| world.is_promised(tag)));
    let (stable, failed, dropped) = counts(&tally);
    assert_eq!(failed, 0);
    assert!(0 < stable && stable < dropped, "{stable} blocks were written, {dropped} were placed");
    assert_eq!(world.log.stats().placed_bytes, stable as u64 * BYTES, "none is counted twice");
    world.check_promises();
}

#[test]
fn a_record_whose_data_an_earlier_one_names_says_only_that_they_are_there() {
    struct Before;
    impl WriteSource for Before {
        fn place(&self, _object: ObjectId, _offset: u64, _length: u64, _txg: Txg) -> Option<DataPlace> {
            Some(DataPlace::Before)
        }
        fn fetch(
            &self,
            _object: ObjectId,
            _offset: u64,
            _length: u64,
            _txg: Txg,
        ) -> BoxFuture<'_, Result<Fetched, ZilError>> {
            panic!("not fetched")
        }
    }
    let mut world = World::primed(&[600]);
    let object = ObjectId::new(5);
    let data = WriteData::Later(Arc::new(Before));
    let write = LoggedWrite { object, offset: 100, length: 5000, data };
    world.assign(1, Scope::Object(object), Record::Write(write));
    world.commit(Some(5));
    world.settle();
    let store = world.crash(false);
    let header = store.header();
    let mut walk = LogWalk::new(super::world::OBJSET, &header, &store);
    let mut found = Vec::new();
    while let Some(block) = now(walk.next()).expect("a log that reads") {
        found.extend(block.records().map(|record| record.expect("sound").decode().expect("sound").1));
    }
    let [record @ LogRecord::Write2(write)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(record.tx_type(), TxType::Write2);
    assert_eq!((write.object, write.offset, write.length), (object, 100, 5000));
}
