//! One batch: records taken from the line, laid out in blocks that are allocated, filled, linked
//! and hashed. Works on what it has in hand, without the log's lock.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use ondisk::Blkptr;
use ondisk::zil::{RecordHead, ZIL_CHAIN_BYTES};
use units::{Txg, VdevId, ZilSeq};

use env::IoBuf;

use crate::ZilError;
use crate::chain::HeaderState;
use crate::chain::block::{self, BlockBuilder};
use crate::commit::plan::{self, BlockPlan, RECORD_BYTES_MAX, Shape, SizeHistory, WRITE_HEAD_BYTES};
use crate::commit::shelf::Shelf;
use crate::commit::state::{Goal, State, Wanted};
use crate::itx::data_place::{DataBlock, DataPlace};
use crate::itx::named::Named;
use crate::itx::{Fetched, LoggedWrite, Record, WriteData};
use crate::store::{LogStore, Placement};

/// Data that one batch takes at most, before headers and padding; more goes into the next.
const BATCH_BYTES_MAX: u64 = 1 << 20;

/// Data that records only name count for this part of their bytes.
const PLACED_WEIGHT_FRACTION: u64 = 4;

/// Records of writes, and their data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    pub records: u64,
    pub bytes: u64,
}

impl Writes {
    fn add(&mut self, bytes: u64, is_last: bool) {
        self.records += u64::from(is_last);
        self.bytes += bytes;
    }
}

/// Figures of a batch, for the log's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub itxs: u64,
    pub copied: Writes,
    pub fetched: Writes,
    pub indirect: Writes,
    pub placed: u64,
    pub records: u64,
}

/// Records in hand, and the end of the chain they go to.
#[derive(Debug)]
pub struct Batch {
    chain: u64,
    tail: Blkptr,
    lr_seq: ZilSeq,
    /// Of the batches before.
    sizes: SizeHistory,
    avoid: Vec<VdevId>,
    records: Vec<Wanted>,
    unloggable: Vec<Goal>,
    /// Blocks of data that records before these name.
    named: Named,
    counts: Counts,
    /// When the first of its records came, if it has any.
    first_came: Option<Duration>,
    /// A block is written though there may be no record for it.
    needs_block: bool,
}

/// A block ready to be written.
#[derive(Debug)]
pub struct FilledBlock {
    pub bp: Blkptr,
    pub buf: Arc<IoBuf>,
    /// Bytes of records in it, and of what ties it to the next.
    pub used: u64,
    /// All records before this position are in this block or earlier.
    pub through: u64,
    pub max_txg: Txg,
    /// How long its write took, once that is done.
    pub took: Duration,
}

/// A batch in blocks.
#[derive(Debug)]
pub struct LaidOut {
    pub chain: u64,
    pub blocks: Vec<FilledBlock>,
    /// The block after them; `None` when there was no room.
    pub tail: Option<Blkptr>,
    pub lr_seq: ZilSeq,
    /// All blocks that were allocated for this batch.
    pub allocated: Vec<Blkptr>,
    /// The oldest birth of those.
    pub names_since: Txg,
    /// What only a txg can make stable.
    pub unloggable: Vec<Goal>,
    pub records: Vec<Wanted>,
    /// The first record that is not, or not wholly, in the blocks, and how much of it is.
    cut: Option<(usize, u64)>,
    /// Blocks of data that records name, for the next batch.
    pub named: Named,
    pub counts: Counts,
}

impl LaidOut {
    /// Takes out the blocks of data that the records name.
    pub fn data_blocks(&mut self) -> Vec<Box<dyn DataBlock>> {
        let places = self.records.iter_mut().filter_map(|record| record.place.take());
        let block = |place| match place {
            DataPlace::Block(block) => Some(block),
            DataPlace::Pointer(_) | DataPlace::Before(_) => None,
        };
        places.filter_map(block).collect()
    }

    /// Takes out the records that found no room.
    pub fn rest(&mut self) -> Vec<Wanted> {
        let Some((first, done)) = self.cut else { return Vec::new() };
        let mut rest = self.records.split_off(first);
        rest[0].done = done;
        rest
    }
}

impl Batch {
    /// Takes records from the head of the line, as many as a batch holds.
    ///
    /// # Panics
    /// When there is no chain, or it has ended.
    pub fn take(state: &mut State) -> Self {
        let chain = state.chain.as_ref().expect("a chain to write to");
        let header = match chain.header {
            HeaderState::Published(txg) => txg,
            HeaderState::Unpublished => Txg::ZERO,
        };
        // Once the header is stable, so is everything of its txg.
        let stable = header.max(state.synced);
        let (id, tail, lr_seq) = (chain.id, chain.tail.expect("a chain that goes on"), chain.lr_seq);
        state.in_hand = Some(state.assembled());
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut last: Option<u64> = None;
        while bytes < BATCH_BYTES_MAX {
            let Some(record) = state.wanted.pop_front() else { break };
            // There may be gaps: records whose txg was stable were left out of a batch that came back.
            assert!(last.is_none_or(|last| last < record.position), "positions of a batch rise");
            last = Some(record.position);
            if record.txg > stable {
                bytes += record.weight();
                records.push(record);
            }
        }
        let (sizes, avoid) = (state.sizes, state.avoid.clone());
        let (unloggable, counts, named) = (Vec::new(), Counts::default(), std::mem::take(&mut state.named));
        let first_came = records.first().map(|record| record.since);
        Self {
            chain: id,
            tail,
            lr_seq,
            sizes,
            avoid,
            records,
            unloggable,
            named,
            counts,
            first_came,
            needs_block: false,
        }
    }

    /// The same with a block in any case.
    pub fn with_a_block(self) -> Self {
        Self { needs_block: true, ..self }
    }

    /// When the first of its records was asked for.
    pub const fn first_came(&self) -> Option<Duration> {
        self.first_came
    }

    /// Gets the data of writes that were logged without them, or places for them.
    pub async fn fetch(mut self) -> Self {
        for record in &mut self.records {
            record.find_place();
            record.keep_place_in(&mut self.named, self.chain);
        }
        if !self.records.iter().any(Wanted::is_later) {
            return self;
        }
        let fetched = join_all(self.records.iter().map(Wanted::fetch)).await;
        let mut kept = Vec::with_capacity(self.records.len());
        for (mut record, data) in std::mem::take(&mut self.records).into_iter().zip(fetched) {
            match data {
                None => kept.push(record),
                Some(Ok(Fetched::Gone)) => {}
                Some(fetched) => {
                    if fetched.is_ok_and(|fetched| record.accept(fetched)) {
                        kept.push(record);
                    } else {
                        self.unloggable.push(record.goal());
                    }
                }
            }
        }
        self.records = kept;
        self
    }

    /// Puts the records into blocks: plans, allocates, fills.
    pub async fn lay_out(mut self, store: &dyn LogStore, shelf: &Shelf) -> LaidOut {
        let encoded = self.encode();
        let shapes: Vec<Shape> =
            self.records.iter().zip(&encoded).map(|(r, e)| r.shape(e.as_deref())).collect();
        let mut plans = plan::plan(&shapes, self.tail.psize().get() - ZIL_CHAIN_BYTES as u64);
        if self.records.is_empty() && !self.needs_block {
            plans.clear();
        }
        let allocated = self.allocate(store, &mut plans).await;
        self.fill(&encoded, &plans, allocated, shelf)
    }

    /// The bytes of all records but writes. Those that no block holds are left to their txg.
    fn encode(&mut self) -> Vec<Option<Vec<u8>>> {
        let mut encoded = Vec::with_capacity(self.records.len());
        let unloggable = &mut self.unloggable;
        self.records.retain(|wanted| {
            let bytes = wanted.encode();
            let fits = bytes.as_ref().is_none_or(|bytes| bytes.len() as u64 <= RECORD_BYTES_MAX);
            if fits {
                encoded.push(bytes);
            } else {
                unloggable.push(wanted.goal());
            }
            fits
        });
        encoded
    }

    /// Finds places for all blocks but the first, which has one, and for the block after them.
    /// Without room, plans are cut to those that have places.
    async fn allocate(&self, store: &dyn LogStore, plans: &mut Vec<BlockPlan>) -> Vec<Blkptr> {
        let planned = vec![self.tail.dva(0).vdev];
        let mut placement = Placement { avoid: self.avoid.clone(), planned };
        let mut allocated = Vec::with_capacity(plans.len());
        let total: u32 = plans.iter().map(BlockPlan::block_bytes).fold(0, u32::saturating_add);
        let next_bytes = self.next_bytes(store, total);
        let mut before = self.tail;
        for i in 1..=plans.len() {
            let bytes = plans.get(i).map_or(next_bytes, BlockPlan::block_bytes);
            let Ok(place) = store.allocate(bytes, &placement).await else {
                plans.truncate(i);
                break;
            };
            assert!(place.psize().get() >= u64::from(bytes), "less was allocated than asked for");
            before = block::successor(&before, &place);
            placement.planned.push(place.dva(0).vdev);
            allocated.push(before);
        }
        allocated
    }

    /// Bytes of the next batch's first block, if this one takes `total`. Where that will lie is not known yet: most
    /// logs lie on devices of one kind.
    fn next_bytes(&self, store: &dyn LogStore, total: u32) -> u32 {
        let mut sizes = self.sizes;
        sizes.note(total.into());
        sizes.expected(|| store.needs_flush(self.tail.dva(0).vdev))
    }

    /// Fills the blocks: the first lies at the chain's tail, each further one at the next place;
    /// the place after the last becomes the new tail.
    fn fill(
        self,
        encoded: &[Option<Vec<u8>>],
        plans: &[BlockPlan],
        allocated: Vec<Blkptr>,
        shelf: &Shelf,
    ) -> LaidOut {
        let cut = first_unplaced(plans, &self.records);
        let tail = if plans.is_empty() { Some(self.tail) } else { allocated.get(plans.len() - 1).copied() };
        let mut lr_seq = self.lr_seq;
        let mut counts = self.counts;
        let mut through = 0;
        let mut blocks = Vec::with_capacity(plans.len());
        for (i, plan) in plans.iter().enumerate() {
            let bp = if i == 0 { self.tail } else { allocated[i - 1] };
            let hole = block::successor(&bp, &Blkptr::HOLE);
            let next = allocated.get(i).copied().unwrap_or(hole);
            let bytes = block::write_bytes(&bp, plan.block_bytes());
            let mut builder = BlockBuilder::new(shelf.take(bytes as usize));
            let mut max_txg = Txg::ZERO;
            for piece in &plan.pieces {
                let record = &self.records[piece.record];
                lr_seq = lr_seq.next();
                match (&encoded[piece.record], &record.record) {
                    (Some(bytes), _) => builder.put_whole(lr_seq, bytes),
                    (None, Record::Write(write)) => builder.put_write(record.txg, lr_seq, write, piece),
                    (None, Record::Plain(_)) => unreachable!("plain records are encoded"),
                }
                max_txg = max_txg.max(record.txg);
                counts.add(record, piece.data, piece.is_last);
                if piece.is_last {
                    through = record.position + 1;
                }
            }
            counts.records += plan.used;
            // The first block may hold nothing that ends in it: then it answers for nobody new.
            let buf = Arc::new(builder.seal(&bp, next));
            let used = plan.used + ZIL_CHAIN_BYTES as u64;
            blocks.push(FilledBlock { bp, buf, used, through, max_txg, took: Duration::ZERO });
        }
        let placed = self.records.iter().filter_map(Wanted::placed_in);
        let names_since = allocated.iter().map(Blkptr::birth).chain(placed).min();
        let names_since = names_since.unwrap_or(Txg::new(u64::MAX));
        let Self { chain, unloggable, records, named, .. } = self;
        // What goes back in line names other blocks the next time.
        let named = if cut.is_none() { named } else { Named::default() };
        LaidOut {
            chain,
            blocks,
            tail,
            lr_seq,
            allocated,
            names_since,
            unloggable,
            records,
            cut,
            named,
            counts,
        }
    }
}

/// The first record that the plans do not hold to its end, and how much of it they hold.
fn first_unplaced(plans: &[BlockPlan], records: &[Wanted]) -> Option<(usize, u64)> {
    let last = plans.iter().flat_map(|plan| &plan.pieces).next_back();
    let (first, done) = match last {
        Some(piece) if piece.is_last => (piece.record + 1, None),
        Some(piece) => (piece.record, Some(piece.from + piece.data)),
        None => (0, None),
    };
    let record = records.get(first)?;
    Some((first, done.unwrap_or(record.done)))
}

impl Counts {
    fn add(&mut self, record: &Wanted, data: u64, is_last: bool) {
        self.itxs += u64::from(is_last);
        self.placed += record.place.as_ref().map_or(0, DataPlace::stored_bytes);
        match &record.record {
            Record::Write(write) if record.is_indirect() => self.indirect.add(write.length, is_last),
            Record::Write(_) if record.is_fetched => self.fetched.add(data, is_last),
            Record::Write(_) => self.copied.add(data, is_last),
            Record::Plain(_) => {}
        }
    }
}

impl Wanted {
    /// What the record counts for in a batch: about its bytes in the log. Data that go elsewhere
    /// count too, for they are written at the same time, but less: nobody has to copy them.
    fn weight(&self) -> u64 {
        let has_places = match &self.record {
            Record::Write(LoggedWrite { data: WriteData::Later(source), .. }) => source.has_places(),
            _ => false,
        };
        WRITE_HEAD_BYTES + self.data_bytes() / if has_places { PLACED_WEIGHT_FRACTION } else { 1 }
    }

    fn data_bytes(&self) -> u64 {
        match &self.record {
            Record::Plain(_) => 0,
            Record::Write(_) if self.is_indirect() => 0,
            Record::Write(write) => write.length - self.done,
        }
    }

    /// Whether the record names the data instead of holding them.
    const fn is_indirect(&self) -> bool {
        let is_given =
            matches!(&self.record, Record::Write(LoggedWrite { data: WriteData::Indirect(_), .. }));
        is_given || self.place.is_some()
    }

    /// The txg that a block of data was placed in for it.
    fn placed_in(&self) -> Option<Txg> {
        match &self.place {
            Some(DataPlace::Block(block)) => Some(block.bp().birth()),
            _ => None,
        }
    }

    /// Has the data put where the record can name them, if they should be.
    fn find_place(&mut self) {
        if let Record::Write(LoggedWrite { data: WriteData::Later(source), object, offset, length }) =
            &self.record
        {
            self.place = source.place(*object, *offset, *length, self.txg);
        }
    }

    /// Takes note of the block that the record names, in its turn. A record that leaves it at what another one
    /// names, but for others in between, is to hold its data after all.
    fn keep_place_in(&mut self, named: &mut Named, chain: u64) {
        match &self.place {
            Some(DataPlace::Block(block)) => named.add(chain, self.txg, block.bp().dva(0)),
            Some(DataPlace::Before(bp)) if !named.has(chain, self.txg, bp.dva(0)) => {
                self.place = None;
                named.forget();
            }
            Some(DataPlace::Before(_) | DataPlace::Pointer(_)) => {}
            None => named.forget(),
        }
    }

    /// What a commit waits for that cannot have this record in a block.
    const fn goal(&self) -> Goal {
        Goal { position: self.position + 1, txg: self.txg }
    }

    fn is_later(&self) -> bool {
        let is_left_out =
            matches!(&self.record, Record::Write(LoggedWrite { data: WriteData::Later(_), .. }));
        is_left_out && self.place.is_none()
    }

    /// Gets the data, if they are not here yet.
    async fn fetch(&self) -> Option<Result<Fetched, ZilError>> {
        match &self.record {
            Record::Write(LoggedWrite { data: WriteData::Later(source), object, offset, length })
                if self.place.is_none() =>
            {
                Some(source.fetch(*object, *offset, *length, self.txg).await)
            }
            _ => None,
        }
    }

    /// Takes fetched data in; whether they are what was asked for.
    fn accept(&mut self, fetched: Fetched) -> bool {
        let Record::Write(write) = &mut self.record else { return false };
        write.data = match fetched {
            Fetched::Slices(slices) => {
                if slices.iter().map(|slice| slice.bytes().len() as u64).sum::<u64>() != write.length {
                    return false;
                }
                WriteData::Slices(slices)
            }
            Fetched::Gone => return false,
        };
        self.is_fetched = true;
        true
    }

    /// The record's bytes, its number still zero; `None` for a write with data.
    fn encode(&self) -> Option<Vec<u8>> {
        let head = RecordHead { txg: self.txg, ..RecordHead::default() };
        match (&self.record, &self.place) {
            (Record::Plain(record), _) => Some(record.encode(&head)),
            (Record::Write(write), Some(place)) => Some(place.record(write).encode(&head)),
            (Record::Write(_), None) => None,
        }
    }

    fn shape(&self, encoded: Option<&[u8]>) -> Shape {
        match (encoded, &self.record) {
            (Some(bytes), _) => Shape::Whole(bytes.len() as u64),
            (None, Record::Write(LoggedWrite { data: WriteData::Indirect(_), .. })) => {
                Shape::Whole(WRITE_HEAD_BYTES)
            }
            (None, Record::Write(write)) => {
                Shape::Splittable { base: write.offset, from: self.done, to: write.length }
            }
            (None, Record::Plain(_)) => unreachable!("plain records are encoded"),
        }
    }
}
