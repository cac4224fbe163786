//! Blocks of data written before their txg, for an intent log that names them instead of holding
//! their bytes.
//!
//! ```text
//!   commit ─► pack ─► place, noted in the txg's changes ─► written and flushed with the log
//!                                                                  │ fails, or never begun: void
//!   sync of the txg ─► stable, and the same bytes still? ◄───────┘
//!                          ├ yes: its pointer goes into the tree, nothing is written again
//!                          └ no:  written as any other block; the place is freed with the txg
//! ```
//! A record may name a place that its file has left: the place is allocated and freed in the same
//! txg, and so rests until no import can come back to before that txg. What the record says
//! is true until then.
//!
//! "The same bytes" is a matter of identity: the note holds the very buffer that was packed, and a
//! buffer that somebody else holds is never changed, but replaced by a changed copy.
//!
//! Invariants
//! - A pointer is taken over only when its block is stable and has not changed since.
//!   (test: `a_block_that_changed_after_it_was_written_early_is_written_again`)
//! - Every place is taken over or freed with its txg, never given to anybody before.
//!   (test: `places_of_blocks_written_early_are_taken_over_or_freed`)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use env::{BoxFuture, Durability, IoBuf};
use ondisk::{Blkptr, Dva};
use zio::{Placed, Zio};

use crate::DmuError;
use crate::changes::Written;
use crate::tree::TreeName;

/// How a block's data can be named before its txg has synced.
pub enum EarlyBlock {
    /// It has places now; the caller writes it.
    Placed(EarlyWrite),
    /// It needs none: it lies in this pointer, or is zeros, and the pointer a hole of its size.
    Pointer(Blkptr),
    /// It was placed before with the same bytes, where this points, and that write has not failed.
    Before(Blkptr),
}

const OPEN: u8 = 0;
const STABLE: u8 = 1;
const VOID: u8 = 2;

/// What became of a write.
#[derive(Debug, Default)]
struct Fate(AtomicU8);

impl Fate {
    /// Decides it, once.
    fn decide(&self, fate: u8) {
        let _ = self.0.compare_exchange(OPEN, fate, Ordering::AcqRel, Ordering::Acquire);
    }

    fn is(&self, fate: u8) -> bool {
        self.0.load(Ordering::Acquire) == fate
    }
}

/// A placed block that is to be written. Dropped before, it is void.
pub struct EarlyWrite {
    pub(crate) zio: Arc<Zio>,
    pub(crate) name: TreeName,
    pub(crate) block: u64,
    pub(crate) placed: Placed,
    fate: Arc<Fate>,
}

impl EarlyWrite {
    /// Where it lies.
    #[must_use]
    pub const fn bp(&self) -> &Blkptr {
        self.placed.bp()
    }

    /// Writes one of its copies.
    ///
    /// # Errors
    /// [`DmuError::Io`].
    pub fn write(&self, place: Dva, durability: Durability) -> BoxFuture<'static, Result<(), DmuError>> {
        let (zio, placed, name, block) = (Arc::clone(&self.zio), self.placed.clone(), self.name, self.block);
        Box::pin(async move {
            let written = zio.write_placed(&placed, place, durability).await;
            written.map_err(|source| name.io_error(block, source))
        })
    }

    /// All copies are stable, or one of them could not be made so.
    pub fn ended(&self, is_stable: bool) {
        self.fate.decide(if is_stable { STABLE } else { VOID });
    }
}

impl Drop for EarlyWrite {
    fn drop(&mut self) {
        self.ended(false);
    }
}

/// A block that was placed.
#[derive(Clone, Debug)]
struct Note {
    bp: Blkptr,
    data: Arc<IoBuf>,
    fate: Arc<Fate>,
}

/// The blocks of one object that were written before one txg (dmu_sync).
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlyNotes {
    notes: BTreeMap<u64, Note>,
    unused: Vec<Blkptr>,
}

impl EarlyNotes {
    /// Where the block was placed with just these bytes, if nothing went wrong since.
    pub fn place_of(&self, block: u64, data: &Arc<IoBuf>) -> Option<Blkptr> {
        let note = self.notes.get(&block)?;
        (Arc::ptr_eq(&note.data, data) && !note.fate.is(VOID)).then_some(note.bp)
    }

    /// Notes that `block`, being `data`, has places. What was noted of it before is not used.
    pub fn add(
        &mut self,
        (zio, name): (&Arc<Zio>, TreeName),
        block: u64,
        data: Arc<IoBuf>,
        placed: Placed,
    ) -> EarlyWrite {
        self.forget(block);
        let fate = Arc::<Fate>::default();
        self.notes.insert(block, Note { bp: *placed.bp(), data, fate: Arc::clone(&fate) });
        EarlyWrite { zio: Arc::clone(zio), name, block, placed, fate }
    }

    /// The block is about to change: its bytes need not be kept, its place is.
    pub fn forget(&mut self, block: u64) {
        self.unused.extend(self.notes.remove(&block).map(|note| note.bp));
    }

    /// The txg is to be written, with `blocks` as they are: only what can be taken over stays.
    /// The places of the rest.
    pub fn keep_unchanged(&mut self, blocks: &BTreeMap<u64, Written>) -> Vec<Blkptr> {
        let is_same = |block: &u64, note: &Note| {
            blocks.get(block).and_then(Written::data).is_some_and(|data| Arc::ptr_eq(data, &note.data))
                && note.fate.is(STABLE)
        };
        let (taken, left) = std::mem::take(&mut self.notes).into_iter().partition(|(b, n)| is_same(b, n));
        self.notes = taken;
        let left: BTreeMap<u64, Note> = left;
        self.unused.extend(left.into_values().map(|note| note.bp));
        std::mem::take(&mut self.unused)
    }

    /// The pointer to take over, after [`Self::keep_unchanged`].
    pub fn taken(&self, block: u64) -> Option<Blkptr> {
        self.notes.get(&block).map(|note| note.bp)
    }
}
