//! Writes whose data lie in blocks of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use env::{BoxFuture, BufSlice, Durability, IoBuf};
use ondisk::zil::{LogRecord, TxType};
use ondisk::{Blkptr, Dva};
use units::{ObjectId, Txg, VdevId};

use super::world::{MemStore, OpKind, World, log_bp, now, pattern};
use crate::itx::named::Named;
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
        assert_eq!((stats.indirect, stats.copied), (1, 0));
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

/// One block that writes of a txg share: the first names it, the others find it named.
struct Shared {
    first: Source,
    is_placed: AtomicBool,
}

impl WriteSource for Shared {
    fn place(&self, object: ObjectId, offset: u64, length: u64, txg: Txg) -> Option<DataPlace> {
        let DataPlace::Block(block) = self.first.place(object, offset, length, txg)? else { return None };
        let is_placed = self.is_placed.swap(true, SeqCst);
        Some(if is_placed { DataPlace::Before(block.bp()) } else { DataPlace::Block(block) })
    }

    fn has_places(&self) -> bool {
        true
    }

    fn fetch(
        &self,
        _object: ObjectId,
        _offset: u64,
        length: u64,
        _txg: Txg,
    ) -> BoxFuture<'_, Result<Fetched, ZilError>> {
        let bytes = IoBuf::zeroed(length as usize);
        Box::pin(async move { Ok(Fetched::Slices(vec![BufSlice::from(bytes)])) })
    }
}

/// What a crash finds of writes to one block, in the log with one commit; where asked for, with a short one
/// before the last.
fn found_of_one_block(writes: u64, short: bool) -> Vec<LogRecord> {
    let mut world = World::primed(&[600]);
    let first = Source { store: world.store.clone(), tag: 1, vdev: VdevId::new(0), tally: Arc::default() };
    let source: Arc<dyn WriteSource> = Arc::new(Shared { first, is_placed: AtomicBool::new(false) });
    let object = ObjectId::new(5);
    for tag in 1..=writes {
        if short && tag == writes {
            let data = WriteData::Bytes([7; 100].into());
            let write = LoggedWrite { object, offset: 50, length: 100, data };
            world.assign(tag + 1000, Scope::Object(object), Record::Write(write));
        }
        let data = WriteData::Later(Arc::clone(&source));
        let write = LoggedWrite { object, offset: 0, length: BYTES, data };
        world.assign(tag, Scope::Object(object), Record::Write(write));
    }
    world.commit(Some(5));
    world.settle();
    let store = world.crash(false);
    let header = store.header();
    let mut walk = LogWalk::new(super::world::OBJSET, &header, &store);
    let mut found = Vec::new();
    while let Some(block) = now(walk.next()).expect("a log that reads") {
        found.extend(block.records().map(|record| record.expect("sound").decode().expect("sound").1));
    }
    found
}

/// How a write has its data: in a block that it names, as a promise that they are there, or so many bytes.
fn held(record: &LogRecord) -> &'static str {
    match record {
        LogRecord::Write(write) if !write.blkptr.is_hole() => "named",
        LogRecord::Write(write)
            if write.data.as_ref().is_some_and(|data| data.len() as u64 == write.length) =>
        {
            "held"
        }
        LogRecord::Write2(_) => "there",
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_record_whose_data_an_earlier_one_names_says_only_that_they_are_there() {
    let found = found_of_one_block(3, false);
    let kinds: Vec<_> = found.iter().map(held).collect();
    assert_eq!(kinds, ["named", "there", "there"]);
    let LogRecord::Write2(write) = &found[2] else { panic!("{found:?}") };
    assert_eq!(found[2].tx_type(), TxType::Write2);
    assert_eq!((write.object, write.offset, write.length), (ObjectId::new(5), 0, BYTES));
}

#[test]
fn a_record_between_two_of_one_block_has_the_second_hold_its_data() {
    let kinds: Vec<_> = found_of_one_block(3, true).iter().map(held).collect();
    assert_eq!(kinds, ["named", "there", "held", "held"]);
}

#[test]
fn what_is_named_is_forgotten_with_any_other_record_and_with_its_group() {
    let place = |at| log_bp(VdevId::new(0), at, BYTES, Txg::new(5)).dva(0);
    let mut named = Named::default();
    named.add(1, Txg::new(5), place(8192));
    named.add(1, Txg::new(5), place(16384));
    assert!(named.has(1, Txg::new(5), place(8192)) && named.has(1, Txg::new(5), place(16384)));
    assert!(!named.has(2, Txg::new(5), place(8192)) && !named.has(1, Txg::new(6), place(8192)));
    named.add(1, Txg::new(6), place(16384));
    assert!(!named.has(1, Txg::new(5), place(8192)), "of another group");
    named.forget();
    assert!(!named.has(1, Txg::new(6), place(16384)));
}
