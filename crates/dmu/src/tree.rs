//! An object's block tree on disk: writing one txg's changes from the bottom up.
//!
//! ```text
//!        dnode                 old tree, still whole on disk until the uberblock moves on
//!       /  |  \
//!     I1   I1'  …    ─ sync ─► new L0s, then new I1s above them, then the dnode's pointers
//!    / \   |
//!  L0  L0' …                   every pointer replaced is handed back as killed
//! ```
//! Indirect blocks are read, changed and written only here, so nothing above level 0 is
//! ever dirty in memory outside a sync.
//!
//! Invariants
//! - A block of the old tree is never overwritten, except one born in this very txg
//!   (a later pass of the same sync), which no stable tree refers to.
//! - Levels strictly fall on the way down: a pointer cycle in a hostile image ends.

use std::ops::Range;
use std::sync::Arc;

use env::{BoxFuture, IoBuf, boxed, impatient};
use futures::stream::{FuturesUnordered, TryStreamExt};
use ondisk::{BLKPTR_BYTES, Blkptr, CompressionKind, ObjectType};
use parking_lot::Mutex;
use units::{BlockId, Level, ObjectId, ObjsetId, Txg};
use zerocopy::{FromBytes, IntoBytes};
use zio::{Bookmark, Keep, Leak, WritePolicy, Zio, ZioError};

use crate::changes::{Changes, Written};
use crate::hole::Place;
use crate::in_flight::InFlight;
use crate::shape::Shape;
use crate::{BlockClass, BlockKinds, DmuError, Redundancy, SpaceDelta, SyncRead, TxgGate};

/// Where a tree is: for bookmarks and errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeName {
    pub objset: ObjsetId,
    pub object: ObjectId,
}

impl TreeName {
    pub fn bookmark(self, level: u8, block: u64) -> Bookmark {
        Bookmark {
            objset: self.objset,
            object: self.object,
            level: Level::new(level),
            block: BlockId::new(block),
        }
    }

    pub fn io_error(self, block: u64, source: ZioError) -> DmuError {
        DmuError::Io {
            objset: self.objset,
            object: self.object,
            block: BlockId::new(block),
            source: Box::new(source),
        }
    }

    pub fn damaged(self, what: impl Into<String>) -> DmuError {
        DmuError::Damaged { objset: self.objset, object: self.object, what: what.into() }
    }
}

/// Pointer number `slot` of an indirect block.
pub(crate) fn pointer_at(block: &[u8], slot: usize) -> Option<Blkptr> {
    let bytes = block.get(slot * BLKPTR_BYTES..(slot + 1) * BLKPTR_BYTES)?;
    Blkptr::read_from_bytes(bytes).ok()
}

fn set_pointer(block: &mut [u8], slot: usize, bp: &Blkptr) {
    block[slot * BLKPTR_BYTES..(slot + 1) * BLKPTR_BYTES].copy_from_slice(bp.as_bytes());
}

pub(crate) async fn read_indirect(
    zio: &Zio,
    name: TreeName,
    keep: Keep,
    shape: Shape,
    level: u8,
    index: u64,
    bp: &Blkptr,
) -> Result<Arc<IoBuf>, DmuError> {
    let data = zio
        .read_as(bp, &name.bookmark(level, index), keep)
        .await
        .map_err(|source| name.io_error(shape.covered(level, index).start, source))?;
    if data.len() != shape.fan_out() * BLKPTR_BYTES {
        return Err(name.damaged(format!("indirect block of {} bytes", data.len())));
    }
    Ok(data)
}

/// Every pointer below and including `bp`.
pub(crate) fn collect<'a>(
    zio: &'a Zio,
    name: TreeName,
    shape: Shape,
    level: u8,
    index: u64,
    bp: Blkptr,
    found: &'a mut Vec<Blkptr>,
) -> BoxFuture<'a, Result<(), DmuError>> {
    Box::pin(async move {
        if bp.is_hole() {
            return Ok(());
        }
        found.push(bp);
        if level == 0 {
            return Ok(());
        }
        let block = read_indirect(zio, name, Keep::InMemory, shape, level, index, &bp).await?;
        let first = index << shape.fan_shift();
        for slot in 0..shape.fan_out() {
            let below = pointer_at(&block, slot).ok_or_else(|| name.damaged("short indirect block"))?;
            collect(zio, name, shape, level - 1, first + slot as u64, below, found).await?;
        }
        Ok(())
    })
}

/// How an object's blocks are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPolicy {
    pub object_type: ObjectType,
    pub data: BlockClass,
    pub metadata: BlockClass,
    /// Which metadata has all of its copies; the rest has as many as `plain_copies`.
    pub redundancy: Redundancy,
    pub plain_copies: u8,
}

impl BlockPolicy {
    /// How a block of this class at this height is written, where none can be rewritten.
    pub fn write_policy(&self, class: BlockClass, level: u8, fill: u64) -> WritePolicy {
        let is_redundant = self.redundancy.covers(self.object_type, level);
        WritePolicy {
            checksum: class.checksum,
            compression: class.compression,
            copies: if is_redundant { class.copies } else { self.plain_copies },
            keep: if level > 0 { self.metadata.keep_indirect() } else { class.keep },
            special_small_bytes: class.special_small_bytes,
            object_type: self.object_type,
            level: Level::new(level),
            fill,
            rewrite: None,
            unchanged: None,
        }
    }
}

/// Writing one txg's changes to one object.
pub(crate) struct TreeSync<'a> {
    pub zio: &'a Zio,
    pub limit: &'a InFlight,
    pub gate: &'a TxgGate,
    pub txg: Txg,
    pub name: TreeName,
    pub policy: BlockPolicy,
    pub shape: Shape,
    pub changes: &'a Changes,
    /// What a data block counts for in the fill of those above it.
    pub fill_of: &'a (dyn Fn(&[u8]) -> u64 + Sync),
    pub result: &'a Mutex<Outcome>,
}

/// What a sync did to space.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub killed: Vec<Blkptr>,
    /// Places that were allocated in this txg and never were anybody's.
    pub unused: Vec<Blkptr>,
    /// Blocks that were there and have one more who refers to them.
    pub cloned: Vec<Blkptr>,
    pub delta: SpaceDelta,
    pub born: BlockKinds,
    /// Blocks that are referred to since, where somebody wants to know.
    pub births: Option<Vec<Blkptr>>,
    /// Damaged blocks, below which blocks were to be freed.
    pub leaks: Vec<Leak>,
}

impl Outcome {
    /// `new` is a block more.
    pub fn bear(&mut self, zio: &Zio, new: &Blkptr) {
        self.delta.add(zio, new);
        self.born.note(new);
        if let Some(births) = self.births.as_mut().filter(|_| !new.is_hole()) {
            births.push(*new);
        }
    }

    /// What another part of the same sync did.
    pub fn absorb(&mut self, other: Self) {
        self.delta += other.delta;
        self.born = self.born.with(other.born);
        self.killed.extend(other.killed);
        self.unused.extend(other.unused);
        self.cloned.extend(other.cloned);
        self.leaks.extend(other.leaks);
        self.births = self.births.take().zip(other.births).map(|(mut births, others)| {
            births.extend(others);
            births
        });
    }

    /// Called when all of an object is freed, which used `used_bytes`. The part that was not freed
    /// is leaked.
    pub fn leak_rest_of(&mut self, used_bytes: u64) {
        let rest = used_bytes.saturating_add_signed(self.delta.used);
        if let Some(leak) = self.leaks.last_mut() {
            leak.bytes = rest;
        }
    }

    /// `new` stands where `old` stood.
    pub fn replace(&mut self, zio: &Zio, old: &Blkptr, new: &Blkptr) {
        if same_place(old, new) {
            // It was born in an earlier pass.
            self.delta.add(zio, new);
            self.born.note(new);
            self.delta.remove(zio, old);
        } else {
            self.bear(zio, new);
            self.kill(zio, old);
        }
    }

    pub fn kill(&mut self, zio: &Zio, bp: &Blkptr) {
        if !bp.is_hole() {
            self.delta.remove(zio, bp);
            self.killed.push(*bp);
        }
    }
}

/// What stands under a pointer before the sync.
enum Old {
    Block(Blkptr),
    /// An indirect block that never was on disk: the tree has just grown by a level.
    Pointers(Vec<Blkptr>),
}

impl TreeSync<'_> {
    /// The dnode's new pointers. `roots` are its old ones, of a tree `old_levels` high.
    #[boxed]
    pub async fn run(&self, old_levels: u8, roots: &[Blkptr]) -> Result<Vec<Blkptr>, DmuError> {
        let top = self.shape.levels - 1;
        let mut old: Vec<Old> = roots.iter().map(|bp| Old::Block(*bp)).collect();
        for level in old_levels..self.shape.levels {
            old = self.raise(level, old).await?;
        }
        let mut new = Vec::with_capacity(old.len());
        for (index, old) in old.into_iter().enumerate() {
            new.push(self.update(top, index as u64, old).await?);
        }
        Ok(new)
    }

    /// One level more, `level`: all pointers move into the first new indirect block.
    async fn raise(&self, level: u8, old: Vec<Old>) -> Result<Vec<Old>, DmuError> {
        let width = old.len();
        let mut pointers = Vec::with_capacity(width);
        for old in old {
            match old {
                Old::Block(bp) => pointers.push(bp),
                // Two levels at once: the lower one is written out empty of changes first.
                Old::Pointers(below) => pointers.push(self.write_pointers_below(level - 1, below).await?),
            }
        }
        let mut raised = vec![Old::Pointers(pointers)];
        raised.resize_with(width, || Old::Block(Blkptr::default()));
        Ok(raised)
    }

    async fn write_pointers_below(&self, level: u8, below: Vec<Blkptr>) -> Result<Blkptr, DmuError> {
        if below.iter().all(Blkptr::is_hole) {
            let youngest = below.iter().max_by_key(|bp| bp.birth()).copied().unwrap_or_default();
            return Ok(self.place(level).emptied(&youngest, self.txg, self.births()));
        }
        let bp = self.write(level, 0, self.block_of(&below), None).await?;
        self.result.lock().bear(self.zio, &bp);
        Ok(bp)
    }

    fn block_of(&self, pointers: &[Blkptr]) -> IoBuf {
        let mut block = IoBuf::zeroed(self.shape.fan_out() * BLKPTR_BYTES);
        for (slot, bp) in pointers.iter().enumerate() {
            set_pointer(&mut block, slot, bp);
        }
        block
    }

    /// The block of pointers that the hole `old` at `level` stands for.
    fn block_below(&self, level: u8, old: &Blkptr) -> IoBuf {
        let below = self.place(level - 1).below(old);
        self.block_of(&vec![below; self.shape.fan_out()])
    }

    fn update(&self, level: u8, index: u64, old: Old) -> BoxFuture<'_, Result<Blkptr, DmuError>> {
        Box::pin(async move {
            let covered = self.shape.covered(level, index);
            let untouched = !self.changes.touches(&covered);
            match old {
                Old::Block(bp) if untouched => Ok(bp),
                Old::Block(bp) if level == 0 => self.update_data(index, bp).await,
                Old::Block(bp) if bp.is_hole() && !self.writes(&covered) => Ok(bp),
                Old::Block(bp) if bp.is_hole() => {
                    self.update_indirect(level, index, &covered, None, bp).await
                }
                Old::Block(bp) if self.only_frees(&covered) => {
                    self.kill_tree(level, index, bp).await?;
                    Ok(self.place(level).freed(&bp, self.txg, self.births()))
                }
                Old::Block(bp) => {
                    let block = read_indirect(
                        self.zio,
                        self.name,
                        self.policy.metadata.keep_indirect(),
                        self.shape,
                        level,
                        index,
                        &bp,
                    )
                    .await?;
                    self.update_indirect(level, index, &covered, Some((*block).clone()), bp).await
                }
                Old::Pointers(pointers) => {
                    let block = self.block_of(&pointers);
                    self.update_indirect(level, index, &covered, Some(block), Blkptr::default()).await
                }
            }
        })
    }

    fn only_frees(&self, covered: &Range<u64>) -> bool {
        self.changes.freed.covers(covered) && !self.writes(covered)
    }

    fn writes(&self, covered: &Range<u64>) -> bool {
        self.changes.blocks.range(covered.clone()).next().is_some()
    }

    /// Whether holes of this pool tell when they came to be.
    fn births(&self) -> bool {
        self.zio.pointer_forms().hole_births
    }

    fn place(&self, level: u8) -> Place {
        let bytes = match level {
            0 => u64::from(self.changes.block_bytes),
            _ => (self.shape.fan_out() * BLKPTR_BYTES) as u64,
        };
        Place { object_type: self.policy.object_type, level, bytes }
    }

    async fn update_data(&self, index: u64, old: Blkptr) -> Result<Blkptr, DmuError> {
        let new = match self.changes.blocks.get(&index) {
            Some(Written::Data(data)) => {
                let new = self.write_data(index, data, &old).await?;
                self.gate.note_written(data.len() as u64);
                new
            }
            Some(Written::Shared(bp)) => self.share(bp),
            None => self.place(0).freed(&old, self.txg, self.births()),
        };
        // The block of an earlier txg stays where its bytes are written once more.
        if new != old || new.birth() == self.txg {
            self.replaced(&old, &new);
        }
        Ok(new)
    }

    /// A block that is on disk already becomes this object's, too.
    fn share(&self, bp: &Blkptr) -> Blkptr {
        if !bp.is_embedded() {
            self.result.lock().cloned.push(*bp);
        }
        *bp
    }

    /// Data of zeros only is stored as a hole, as long as compression is on at all.
    async fn write_data(&self, index: u64, data: &Arc<IoBuf>, old: &Blkptr) -> Result<Blkptr, DmuError> {
        let class = self.policy.data;
        if let Some(bp) = self.changes.early.taken(index) {
            assert!(bp.birth() <= self.txg, "a block of txg {} in a tree of txg {}", bp.birth(), self.txg);
            self.zio.keep(&bp, class.keep, data);
            return Ok(bp);
        }
        if class.compression.kind != CompressionKind::Off && codec::is_all_zero(data) {
            return Ok(self.place(0).emptied(old, self.txg, self.births()));
        }
        let fill = (self.fill_of)(data);
        self.write_block(0, index, Arc::clone(data), fill, class, Some(old)).await
    }

    async fn update_indirect(
        &self,
        level: u8,
        index: u64,
        covered: &Range<u64>,
        old_block: Option<IoBuf>,
        old: Blkptr,
    ) -> Result<Blkptr, DmuError> {
        let was_empty = old_block.is_none();
        let mut block = old_block.unwrap_or_else(|| self.block_below(level, &old));
        let first = index << self.shape.fan_shift();
        let mut children = FuturesUnordered::new();
        for slot in self.touched_slots(level, covered, was_empty) {
            let below = pointer_at(&block, slot).expect("the block holds its fan-out");
            let child = self.update(level - 1, first + slot as u64, Old::Block(below));
            children.push(async move { Ok::<_, DmuError>((slot, child.await?)) });
        }
        while let Some((slot, bp)) = children.try_next().await? {
            set_pointer(&mut block, slot, &bp);
        }
        let new = match only_holes(&block) {
            // A level that was just added has nothing of its own that was there before.
            Some(youngest) if old.birth() == Txg::ZERO => {
                self.place(level).emptied(&youngest, self.txg, self.births())
            }
            Some(_) => self.place(level).emptied(&old, self.txg, self.births()),
            None => self.write(level, index, block, Some(&old)).await?,
        };
        self.replaced(&old, &new);
        Ok(new)
    }

    /// The children that this txg touches; of an empty block only those written.
    fn touched_slots(&self, level: u8, covered: &Range<u64>, only_written: bool) -> Vec<usize> {
        let first = self.shape.index_at(level - 1, covered.start);
        let slot_of = |block: u64| (self.shape.index_at(level - 1, block) - first) as usize;
        let mut slots: Vec<usize> =
            self.changes.blocks.range(covered.clone()).map(|(&block, _)| slot_of(block)).collect();
        slots.dedup();
        if !only_written && self.changes.freed.intersects(covered) {
            slots = (0..self.shape.fan_out())
                .filter(|&slot| self.changes.touches(&self.shape.covered(level - 1, first + slot as u64)))
                .collect();
        }
        slots
    }

    async fn write(
        &self,
        level: u8,
        index: u64,
        block: IoBuf,
        old: Option<&Blkptr>,
    ) -> Result<Blkptr, DmuError> {
        let fill = block
            .chunks_exact(BLKPTR_BYTES)
            .filter_map(|bytes| Blkptr::read_from_bytes(bytes).ok())
            .filter(|bp| !bp.is_hole())
            .map(|bp| bp.fill())
            .sum();
        self.write_block(level, index, Arc::new(block), fill, self.policy.metadata, old).await
    }

    async fn write_block(
        &self,
        level: u8,
        index: u64,
        data: Arc<IoBuf>,
        fill: u64,
        class: BlockClass,
        old: Option<&Blkptr>,
    ) -> Result<Blkptr, DmuError> {
        let _permit = self.limit.take(data.len() as u64).await;
        // A place of file data may be named in the log: what it says there must stay.
        let may_rewrite = level > 0 || self.policy.object_type.is_metadata();
        let rewrite = old.filter(|bp| may_rewrite && !bp.is_hole() && bp.birth() == self.txg).copied();
        let is_kept =
            |old: &&Blkptr| !may_rewrite && old.birth() < self.txg && !self.changes.moved.contains(&index);
        let unchanged = old.filter(is_kept).copied();
        let policy = WritePolicy { rewrite, unchanged, ..self.policy.write_policy(class, level, fill) };
        self.zio
            .write(self.txg, &self.name.bookmark(level, index), data, &policy)
            .await
            .map_err(|source| self.name.io_error(self.shape.covered(level, index).start, source))
    }

    fn replaced(&self, old: &Blkptr, new: &Blkptr) {
        self.result.lock().replace(self.zio, old, new);
    }

    /// Kills `bp` and everything below it. Blocks below a damaged block cannot be found any more,
    /// and stay allocated without an owner ([`SyncRead::Freed`](crate::SyncRead::Freed)).
    pub fn kill_tree(&self, level: u8, index: u64, bp: Blkptr) -> BoxFuture<'_, Result<(), DmuError>> {
        Box::pin(async move {
            if bp.is_hole() {
                return Ok(());
            }
            if level > 0 {
                let keep = self.policy.metadata.keep_indirect();
                let read = read_indirect(self.zio, self.name, keep, self.shape, level, index, &bp);
                match impatient(read).await {
                    Ok(block) => self.kill_below(level, index, &block).await?,
                    Err(error) if SyncRead::Freed.can_lose(&error) => {
                        tracing::error!(%error, blocks = bp.fill(), "blocks below a damaged block are never freed");
                        let bookmark = Some(self.name.bookmark(level, index));
                        self.result.lock().leaks.push(Leak { bookmark, birth: bp.birth(), bytes: 0 });
                    }
                    Err(error) => return Err(error),
                }
            }
            self.result.lock().kill(self.zio, &bp);
            Ok(())
        })
    }
}

impl TreeSync<'_> {
    async fn kill_below(&self, level: u8, index: u64, block: &IoBuf) -> Result<(), DmuError> {
        let first = index << self.shape.fan_shift();
        for slot in 0..self.shape.fan_out() {
            let below = pointer_at(block, slot).expect("the block holds its fan-out");
            self.kill_tree(level - 1, first + slot as u64, below).await?;
        }
        Ok(())
    }
}

/// Of a block of pointers that are all holes, the one that came to be last.
fn only_holes(block: &[u8]) -> Option<Blkptr> {
    let mut youngest = Blkptr::HOLE;
    for bytes in block.chunks_exact(BLKPTR_BYTES) {
        let bp = Blkptr::read_from_bytes(bytes).ok().filter(Blkptr::is_hole)?;
        youngest = if bp.birth() > youngest.birth() { bp } else { youngest };
    }
    Some(youngest)
}

/// A rewrite within one txg keeps its first DVA; such a block is not freed.
fn same_place(old: &Blkptr, new: &Blkptr) -> bool {
    !old.is_hole()
        && !new.is_hole()
        && !old.is_embedded()
        && !new.is_embedded()
        && old.birth() == new.birth()
        && old.dva(0) == new.dva(0)
}
