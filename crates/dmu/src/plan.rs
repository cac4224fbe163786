//! A change that happens whole or not at all.
//!
//! ```text
//!              reads, waits, may fail, may be dropped          cannot fail, waits for nothing
//!   begin ─► plan: a list of steps, each checked ──────────► apply: joins the open txg, takes every step,
//!               │                                                   lets go of the txg
//!               └─ dropped: nothing has happened
//! ```
//! A [`Plan`] keeps its steps to itself until it is applied: nobody else sees them, while what it reads for
//! itself ([`Plan::block_of`]) has them in it. The contents that a step starts from are kept with it, so
//! applying it reads nothing. ZAPs that a plan changes are locked from then until its end.
//!
//! A [`Tx`] takes each step at once instead, in a txg that cannot go away meanwhile. The sync has one for what it does
//! itself, and nobody else does ([`crate::Quiet`]). [`Transaction`] is what both have in common.
//!
//! Invariants
//! - A plan that is dropped has changed nothing, at whatever await or error that was.
//!   (tests: `a_dropped_plan_leaves_no_trace`, zpl's `whole_or_not` lane)
//! - What a plan has written is read by that plan, and by nobody else before it is applied.
//!   (test: `a_plan_reads_what_it_has_written_and_nobody_else_does`)
//! - A txg is held for as long as the steps take, never across an await.
//! - Who plans to change a block, or the size of an object, keeps others from changing the same until the plan has
//!   ended: the locks of the layers above do that.

use std::ops::Range;
use std::sync::Arc;

use env::IoBuf;
use ondisk::{Blkptr, ObjectType};
use parking_lot::Mutex;
use units::Txg;

use crate::changes::Change;
use crate::{DmuError, Dnode, Objset, Tx, TxgGate, zap};

/// What changes are made in.
pub trait Transaction: Send + Sync {
    /// Takes a step: at once, or when the plan is applied.
    fn take(&self, step: Step);

    /// The plan, where steps wait for its end.
    fn plan(&self) -> Option<&Plan>;
}

/// Either of them.
pub type AnyTransaction = dyn Transaction;

impl Transaction for Tx {
    fn take(&self, step: Step) {
        self.note_change();
        step.carry_out(self.txg());
    }

    fn plan(&self) -> Option<&Plan> {
        None
    }
}

impl Transaction for Plan {
    fn take(&self, step: Step) {
        self.staged.lock().steps.push(step);
    }

    fn plan(&self) -> Option<&Plan> {
        Some(self)
    }
}

/// Steps of a usual change: a file that is made.
const STEPS: usize = 8;

/// Changes a block's bytes in place.
pub(crate) type Edit = Box<dyn FnOnce(&mut [u8]) + Send>;

/// What changes one block, in this order; mostly it is one edit.
#[derive(Default)]
struct Edits {
    first: Option<Edit>,
    more: Vec<Edit>,
}

impl Edits {
    fn carry_out(self, bytes: &mut [u8]) {
        self.first.into_iter().chain(self.more).for_each(|edit| edit(bytes));
    }
}

/// A part of a change that cannot fail any more.
pub struct Step(Kind);

enum Kind {
    /// A new object, whose number is taken already.
    Born { objset: Arc<Objset>, dnode: Arc<Dnode> },
    /// The object is freed.
    Die(Arc<Dnode>),
    /// A block gets other contents.
    Put { dnode: Arc<Dnode>, block: u64, data: Arc<IoBuf> },
    /// A block becomes one that is on disk.
    Share { dnode: Arc<Dnode>, block: u64, bp: Box<Blkptr> },
    /// Some bytes of a block change; `base` is what it held, `None` for a hole.
    Edit { dnode: Arc<Dnode>, block: u64, base: Option<Arc<IoBuf>>, edits: Edits },
    /// Blocks become holes.
    Free { dnode: Arc<Dnode>, blocks: Range<u64> },
    /// The dnode is treated as if no block of it had been written.
    Emptied(Arc<Dnode>),
    /// About so many blocks are let go.
    NoteFreed { gate: Arc<TxgGate>, blocks: u64 },
    /// An object of one block gets another block size.
    BlockBytes { dnode: Arc<Dnode>, bytes: u32 },
    /// The bonus buffer and its kind.
    Bonus { dnode: Arc<Dnode>, kind: ObjectType, bytes: Vec<u8> },
    /// The spill block's contents.
    Spill { dnode: Arc<Dnode>, contents: Option<Vec<u8>> },
    /// What the layer above does to its own memory.
    Then(Box<dyn FnOnce(Txg) + Send>),
}

impl Step {
    /// Something that the layer above does with the txg, while that is held.
    pub fn then(work: impl FnOnce(Txg) + Send + 'static) -> Self {
        Self(Kind::Then(Box::new(work)))
    }

    pub(crate) fn born(objset: Arc<Objset>, dnode: Arc<Dnode>) -> Self {
        Self(Kind::Born { objset, dnode })
    }

    pub(crate) fn die(dnode: Arc<Dnode>) -> Self {
        Self(Kind::Die(dnode))
    }

    pub(crate) fn put(dnode: Arc<Dnode>, block: u64, data: Arc<IoBuf>) -> Self {
        Self(Kind::Put { dnode, block, data })
    }

    pub(crate) fn share(dnode: Arc<Dnode>, block: u64, bp: &Blkptr) -> Self {
        Self(Kind::Share { dnode, block, bp: Box::new(*bp) })
    }

    pub(crate) fn edit(dnode: Arc<Dnode>, block: u64, base: Option<Arc<IoBuf>>, edit: Edit) -> Self {
        Self(Kind::Edit { dnode, block, base, edits: Edits { first: Some(edit), more: Vec::new() } })
    }

    pub(crate) fn free(dnode: Arc<Dnode>, blocks: Range<u64>) -> Self {
        Self(Kind::Free { dnode, blocks })
    }

    pub(crate) fn emptied(dnode: Arc<Dnode>) -> Self {
        Self(Kind::Emptied(dnode))
    }

    pub(crate) fn note_freed(gate: Arc<TxgGate>, blocks: u64) -> Self {
        Self(Kind::NoteFreed { gate, blocks })
    }

    pub(crate) fn block_bytes(dnode: Arc<Dnode>, bytes: u32) -> Self {
        Self(Kind::BlockBytes { dnode, bytes })
    }

    pub(crate) fn bonus(dnode: Arc<Dnode>, kind: ObjectType, bytes: Vec<u8>) -> Self {
        Self(Kind::Bonus { dnode, kind, bytes })
    }

    pub(crate) fn spill(dnode: Arc<Dnode>, contents: Option<Vec<u8>>) -> Self {
        Self(Kind::Spill { dnode, contents })
    }

    fn carry_out(self, txg: Txg) {
        match self.0 {
            Kind::Born { dnode, .. } => dnode.be_born(txg),
            Kind::Die(dnode) => dnode.die(txg),
            Kind::Put { dnode, block, data } => dnode.put(txg, block, data),
            Kind::Share { dnode, block, bp } => dnode.put_shared(txg, block, &bp),
            Kind::Edit { dnode, block, base, edits } => {
                dnode.edit(txg, block, base, |bytes| edits.carry_out(bytes));
            }
            Kind::Free { dnode, blocks } => dnode.free_blocks(txg, blocks),
            Kind::Emptied(dnode) => dnode.put_emptied(txg),
            Kind::NoteFreed { gate, blocks } => gate.note_freed(txg, blocks),
            Kind::BlockBytes { dnode, bytes } => dnode.put_block_bytes(txg, bytes),
            Kind::Bonus { dnode, kind, bytes } => dnode.put_bonus(txg, kind, bytes),
            Kind::Spill { dnode, contents } => dnode.put_spill(txg, contents),
            Kind::Then(work) => work(txg),
        }
    }

    /// What planning the step took, and nobody needs any more.
    fn withdraw(self) {
        if let Kind::Born { objset, dnode } = self.0 {
            objset.withdraw_birth(dnode.object());
        }
    }

    /// Whether the step says what stands at a block from then on.
    fn decides(&self, dnode: &Dnode, at: u64) -> bool {
        match &self.0 {
            Kind::Put { dnode: of, block, .. }
            | Kind::Share { dnode: of, block, .. }
            | Kind::Edit { dnode: of, block, .. } => *block == at && std::ptr::eq(&**of, dnode),
            Kind::Free { dnode: of, blocks } => blocks.contains(&at) && std::ptr::eq(&**of, dnode),
            Kind::Die(of) => std::ptr::eq(&**of, dnode),
            _ => false,
        }
    }
}

#[derive(Default)]
struct Staged {
    steps: Vec<Step>,
    zaps: Vec<zap::Guard>,
}

impl Staged {
    fn last_of(&mut self, dnode: &Dnode, block: u64) -> Option<&mut Kind> {
        self.steps.iter_mut().rev().find(|step| step.decides(dnode, block)).map(|step| &mut step.0)
    }
}

/// A change that is not made yet. See the module.
pub struct Plan {
    gate: Arc<TxgGate>,
    staged: Mutex<Staged>,
}

impl Plan {
    pub(crate) fn new(gate: Arc<TxgGate>) -> Self {
        let staged = Staged { steps: Vec::with_capacity(STEPS), zaps: Vec::new() };
        Self { gate, staged: Mutex::new(staged) }
    }

    /// Does `work` with the txg when all steps before it have been taken.
    pub fn then(&self, work: impl FnOnce(Txg) + Send + 'static) {
        self.take(Step::then(work));
    }

    /// Makes the change, in one txg; tells which.
    ///
    /// # Errors
    /// [`DmuError::Suspended`] when the pool has stopped syncing for good: nothing has changed.
    pub fn apply(self) -> Result<Txg, DmuError> {
        self.apply_with(|txg| txg)
    }

    /// Makes the change, and does `last` with its txg before that may be synced.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_with<R>(self, last: impl FnOnce(Txg) -> R) -> Result<R, DmuError> {
        let held = self.gate.join()?;
        let Staged { steps, zaps } = std::mem::take(&mut *self.staged.lock());
        for step in steps {
            step.carry_out(held.txg());
        }
        let done = last(held.txg());
        drop(zaps);
        Ok(done)
    }

    /// What the plan has made of a block, if anything.
    pub(crate) fn block_of(&self, dnode: &Dnode, block: u64) -> Option<Change> {
        let mut staged = self.staged.lock();
        let kind = staged.last_of(dnode, block)?;
        if let Kind::Edit { dnode: of, base, edits, .. } = kind {
            // Who looks wants to see the bytes, so they are changed now.
            let mut data = dnode.to_edit(base.take());
            let bytes: &mut IoBuf = Arc::make_mut(&mut data);
            std::mem::take(edits).carry_out(bytes);
            *kind = Kind::Put { dnode: Arc::clone(of), block, data };
        }
        match kind {
            Kind::Put { data, .. } => Some(Change::Data(Arc::clone(data))),
            Kind::Share { bp, .. } => Some(Change::Shared(**bp)),
            _ => Some(Change::Hole),
        }
    }

    /// Whether the plan gives a block other contents.
    pub(crate) fn rewrites(&self, dnode: &Dnode, block: u64) -> bool {
        matches!(self.staged.lock().last_of(dnode, block), Some(Kind::Put { .. } | Kind::Edit { .. }))
    }

    /// Has `edit` change a block, after what the plan does to it already; that aside it holds `base`.
    pub(crate) fn edit(&self, dnode: &Arc<Dnode>, block: u64, base: Option<Arc<IoBuf>>, edit: Edit) {
        let mut staged = self.staged.lock();
        match staged.last_of(dnode, block) {
            Some(Kind::Put { data, .. }) => {
                // It may be the very buffer that is changed now, and would be copied while it is shared.
                drop(base);
                let bytes: &mut IoBuf = Arc::make_mut(data);
                edit(bytes);
            }
            Some(Kind::Edit { edits, .. }) => edits.more.push(edit),
            _ => staged.steps.push(Step::edit(Arc::clone(dnode), block, base, edit)),
        }
    }

    /// The block size that an object will have.
    pub(crate) fn block_bytes_of(&self, dnode: &Dnode) -> Option<u32> {
        let staged = self.staged.lock();
        staged.steps.iter().rev().find_map(|step| match &step.0 {
            Kind::BlockBytes { dnode: of, bytes } if std::ptr::eq(&**of, dnode) => Some(*bytes),
            _ => None,
        })
    }

    /// Takes a ZAP's lock out of the plan that holds it.
    pub(crate) fn take_zap(&self, shared: &zap::Shared) -> Option<zap::Guard> {
        let mut staged = self.staged.lock();
        let at = staged.zaps.iter().position(|guard| guard.is_of(shared))?;
        Some(staged.zaps.swap_remove(at))
    }

    /// Keeps a ZAP locked until the plan has ended.
    pub(crate) fn keep_zap(&self, guard: zap::Guard) {
        self.staged.lock().zaps.push(guard);
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let Staged { steps, zaps } = std::mem::take(self.staged.get_mut());
        steps.into_iter().for_each(Step::withdraw);
        zaps.into_iter().for_each(zap::Guard::forget);
    }
}
