//! One object in memory: its newest contents over what is on disk.
//!
//! ```text
//!   newest ─► pending[T+1] ─► pending[T] ─► syncing ─► synced tree on disk
//!             (open)          (quiescing)   (being written)
//! ```
//! A read asks from left to right; the first that knows the block answers. A write goes to
//! the changes of its own txg. When a txg has been written, `synced` and the end of
//! `syncing` change in one step under the lock, so that a reader sees either.
//!
//! Invariants
//! - Changes of a txg being written are not modified: they have left `pending`.
//! - Two writes of the same bytes must join their txgs in the order in which they take
//!   effect; callers hold their range lock from before they plan a write until it is applied.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use env::{BufSlice, IoBuf, boxed};
use futures::future::try_join_all;
use ondisk::{Blkptr, DnodeImage, ObjectType};
use parking_lot::Mutex;
use units::{BlockId, ObjectId, ObjsetId, SECTOR_BYTES, Txg};
use zio::Keep;

use crate::changes::{Change, Changes, Written};
use crate::objset::Shared;
use crate::prefetch::Streams;
use crate::shape::Shape;
use crate::stored::StoredTree;
use crate::tree::TreeName;
use crate::{DmuError, Step, Transaction};

mod above;
mod clone;
mod dmu_sync;
mod long_free;
mod modify;
mod range;
mod rewrite;
mod sync;

pub use clone::Clonable;
pub use long_free::FreePiece;
pub use range::SeekTo;

/// What a new object is to be.
#[derive(Clone, Debug)]
pub struct DnodeSpec {
    /// Kind of its data.
    pub object_type: ObjectType,
    /// Size of a data block: a multiple of 512; 0 means 512.
    pub block_bytes: u32,
    /// Base-2 logarithm of an indirect block: 12 to 17.
    pub indirect_shift: u8,
    /// Kind of its bonus buffer.
    pub bonus_type: ObjectType,
    /// Length of its bonus buffer.
    pub bonus_bytes: u16,
    /// 512-byte slots the dnode takes: 1 to 32.
    pub slots: u8,
}

impl DnodeSpec {
    /// An object of this type without a bonus buffer, with 128 KiB indirect blocks.
    #[must_use]
    pub fn new(object_type: ObjectType, block_bytes: u32) -> Self {
        Self {
            object_type,
            block_bytes,
            indirect_shift: 17,
            bonus_type: ObjectType::NONE,
            bonus_bytes: 0,
            slots: 1,
        }
    }

    /// The same with a bonus buffer.
    #[must_use]
    pub fn with_bonus(mut self, bonus_type: ObjectType, bonus_bytes: u16) -> Self {
        self.bonus_type = bonus_type;
        self.bonus_bytes = bonus_bytes;
        self
    }

    /// The dnode of an object that has no blocks yet. Pointers that the bonus buffer leaves
    /// no room for are not there: three at most, one at least; an object with system
    /// attributes keeps its room for them (dnode.h, `dn_nblkptr`).
    fn image(&self) -> DnodeImage {
        let room = ondisk::dnode::DNODE_SLOT_BYTES - ondisk::dnode::DNODE_HEADER_BYTES;
        let room = room.saturating_sub(usize::from(self.bonus_bytes));
        let nblkptr = if self.bonus_type == ObjectType::SA || self.slots > 1 {
            1
        } else {
            (room / ondisk::BLKPTR_BYTES).clamp(1, 3)
        };
        let sectors = u64::from(self.block_bytes).div_ceil(SECTOR_BYTES).max(1);
        DnodeImage {
            indirect_shift: self.indirect_shift,
            bonus_type: self.bonus_type,
            bonus: vec![0; usize::from(self.bonus_bytes)],
            extra_slots: self.slots - 1,
            ..DnodeImage::new(self.object_type, sectors as u16, nblkptr)
        }
    }
}

/// An object held in memory.
pub struct Dnode {
    pub(crate) shared: Arc<Shared>,
    object: ObjectId,
    state: Mutex<State>,
    /// [`Newest::block_bytes`], for who only wants that: each write asks several times.
    block_bytes: AtomicU32,
    /// Who reads it in a row.
    pub(crate) streams: Mutex<Streams>,
    me: Weak<Dnode>,
    /// Lock and index of the ZAP that this object may be.
    zap: crate::zap::Shared,
}

struct State {
    /// As the last synced txg left it; of a new object, what it was made to be.
    synced: DnodeImage,
    on_disk: bool,
    /// The txg being written.
    syncing: Option<Arc<Changes>>,
    /// Txgs not yet being written, oldest first.
    pending: Vec<Changes>,
    /// As of the newest change.
    newest: Newest,
    /// Which indirect blocks were read since the last sync.
    reached: above::Reached,
}

struct Newest {
    block_bytes: u32,
    max_block: u64,
    bonus_type: ObjectType,
    bonus: Vec<u8>,
    life: Life,
}

/// An object is there for others between its birth and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Planned.
    Unborn,
    Alive,
    Freed,
}

impl Newest {
    fn of(image: &DnodeImage, life: Life) -> Self {
        Self {
            block_bytes: image.data_block_bytes() as u32,
            max_block: image.max_block_id.get(),
            bonus_type: image.bonus_type,
            bonus: image.bonus.clone(),
            life,
        }
    }
}

/// What stands at a block, as far as memory knows.
pub(crate) enum Found {
    Data(Arc<IoBuf>),
    /// On disk, and to be this object's with a txg that has not synced.
    Shared(Blkptr),
    Hole,
    OnDisk {
        shape: Shape,
        roots: Vec<Blkptr>,
    },
}

impl State {
    fn changes_for(&mut self, txg: Txg) -> &mut Changes {
        let at = self.pending.partition_point(|c| c.txg < txg);
        if self.pending.get(at).is_none_or(|c| c.txg != txg) {
            let fresh = Changes::new(txg, self.newest.block_bytes, self.newest.max_block);
            self.pending.insert(at, fresh);
        }
        &mut self.pending[at]
    }

    /// The txg's changes, if there are any.
    fn changes_of(&mut self, txg: Txg) -> Option<&mut Changes> {
        self.pending.iter_mut().find(|changes| changes.txg == txg)
    }

    /// Bytes of data that are not on disk yet.
    fn dirty_bytes(&self) -> u64 {
        let changes = self.pending.iter().chain(self.syncing.as_deref());
        changes.map(|changes| changes.blocks.len() as u64 * u64::from(changes.block_bytes)).sum()
    }

    /// Whether the object can have the block if its blocks are of that size; why not.
    fn check(&self, block: u64, block_bytes: u32) -> Result<(), &'static str> {
        let highest = Shape { levels: crate::shape::MAX_LEVELS, ..shape_of(&self.synced) };
        if block >= highest.capacity() {
            return Err("offset too large");
        }
        if block > 0 && !block_bytes.is_power_of_two() {
            return Err("a second block of odd size");
        }
        Ok(())
    }

    fn newest_first(&self) -> impl Iterator<Item = &Changes> {
        self.pending.iter().rev().chain(self.syncing.as_deref())
    }

    fn find(&self, block: u64) -> Found {
        for changes in self.newest_first() {
            match changes.find(block) {
                Some(Change::Data(data)) => return Found::Data(data),
                Some(Change::Shared(bp)) => return Found::Shared(bp),
                Some(Change::Hole) => return Found::Hole,
                None => {}
            }
        }
        self.find_synced(block)
    }

    fn find_synced(&self, block: u64) -> Found {
        if !self.on_disk || block > self.synced.max_block_id.get() {
            return Found::Hole;
        }
        Found::OnDisk { shape: shape_of(&self.synced), roots: self.synced.blkptrs.clone() }
    }

    /// What stands at a block, and the first block after it that memory may say something else of.
    fn find_run(&self, block: u64) -> (Found, u64) {
        let mut end = u64::MAX;
        for changes in self.newest_first() {
            match changes.find(block) {
                Some(Change::Data(data)) => return (Found::Data(data), block + 1),
                Some(Change::Shared(bp)) => return (Found::Shared(bp), block + 1),
                Some(Change::Hole) => return (Found::Hole, end.min(changes.hole_end(block))),
                None => end = end.min(changes.next_touched(block).unwrap_or(u64::MAX)),
            }
        }
        let found = self.find_synced(block);
        let synced_end = self.synced.max_block_id.get().saturating_add(1);
        (found, if block < synced_end { end.min(synced_end) } else { end })
    }
}

pub(crate) fn shape_of(image: &DnodeImage) -> Shape {
    Shape { levels: image.levels, indirect_shift: image.indirect_shift, nblkptr: image.blkptrs.len() as u8 }
}

impl Dnode {
    /// An object as it is on disk.
    pub(crate) fn loaded(shared: Arc<Shared>, object: ObjectId, image: DnodeImage) -> Arc<Self> {
        Self::with(shared, object, image, true, Life::Alive)
    }

    /// A new object, not on disk before its txg has synced.
    pub(crate) fn born(shared: Arc<Shared>, object: ObjectId, spec: &DnodeSpec) -> Arc<Self> {
        Self::with(shared, object, spec.image(), false, Life::Alive)
    }

    /// The same, not there for others before [`Self::be_born`].
    pub(crate) fn unborn(shared: Arc<Shared>, object: ObjectId, spec: &DnodeSpec) -> Arc<Self> {
        Self::with(shared, object, spec.image(), false, Life::Unborn)
    }

    fn with(
        shared: Arc<Shared>,
        object: ObjectId,
        image: DnodeImage,
        on_disk: bool,
        life: Life,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            shared,
            object,
            block_bytes: AtomicU32::new(image.data_block_bytes() as u32),
            state: Mutex::new(State {
                newest: Newest::of(&image, life),
                synced: image,
                on_disk,
                syncing: None,
                pending: Vec::new(),
                reached: above::Reached::default(),
            }),
            streams: Mutex::default(),
            me: me.clone(),
            zap: crate::zap::Shared::default(),
        })
    }

    /// The object's number.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// The objset it belongs to.
    #[must_use]
    pub fn objset(&self) -> ObjsetId {
        self.shared.id
    }

    /// Kind of its data.
    #[must_use]
    pub fn object_type(&self) -> ObjectType {
        self.state.lock().synced.object_type
    }

    /// Size of a data block.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes.load(Ordering::Acquire)
    }

    /// The highest block ever written; 0 also when there is none.
    #[must_use]
    pub fn max_block(&self) -> BlockId {
        BlockId::new(self.state.lock().newest.max_block)
    }

    /// 512-byte slots the dnode takes.
    #[must_use]
    pub fn slots(&self) -> u8 {
        self.state.lock().synced.extra_slots + 1
    }

    /// Bytes allocated on disk as of the last synced txg, all copies and indirect blocks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let state = self.state.lock();
        state.synced.used_bytes
    }

    /// What the object takes, in units of 512 bytes: its slots in the array of dnodes, what is
    /// allocated on disk, and what will be for data that no txg has written yet. Such data may
    /// compress, or replace allocated blocks. So the data count in all copies, up to the size that
    /// all blocks of the object would have without compression.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        let copies = u64::from(self.shared.props().data.copies);
        let state = self.state.lock();
        let used = state.synced.used_bytes;
        let whole = (state.newest.max_block + 1).saturating_mul(state.newest.block_bytes.into());
        let whole = whole.saturating_mul(copies);
        let dirty = state.dirty_bytes().saturating_mul(copies);
        let bytes = used.saturating_add(dirty).min(whole.max(used));
        bytes.saturating_add(SECTOR_BYTES / 2) / SECTOR_BYTES + u64::from(state.synced.extra_slots) + 1
    }

    /// Whether [`Dnode::sectors`] stays as it is until the next change: no txg has blocks of the
    /// object still to write.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let state = self.state.lock();
        let mut changes = state.pending.iter().chain(state.syncing.as_deref());
        !changes.any(Changes::moves_space)
    }

    /// Whether the object is there: born, and not freed.
    pub(crate) fn is_there(&self) -> bool {
        self.state.lock().newest.life == Life::Alive
    }

    /// The object is there from now on.
    pub(crate) fn be_born(&self, txg: Txg) {
        {
            let mut state = self.state.lock();
            assert_eq!(state.newest.life, Life::Unborn, "object {} born twice", self.object);
            state.newest.life = Life::Alive;
        }
        self.mark_dirty(txg, 0);
    }

    /// Whether its blocks stay in the cache.
    pub(crate) fn keeps_blocks(&self) -> Keep {
        let props = self.shared.props();
        if self.object_type().is_metadata() { props.metadata.keep } else { props.data.keep }
    }

    /// What stands at a block, as far as memory knows.
    pub(crate) fn found(&self, block: u64) -> Found {
        self.state.lock().find(block)
    }

    pub(crate) fn name(&self) -> TreeName {
        TreeName { objset: self.shared.id, object: self.object }
    }

    /// Its tree on disk.
    pub(crate) fn stored<'a>(&'a self, shape: Shape, roots: &'a [Blkptr]) -> StoredTree<'a> {
        let keep = self.shared.props().metadata.keep_indirect();
        StoredTree { zio: &self.shared.zio, name: self.name(), keep, shape, roots }
    }

    fn invalid(&self, what: &'static str) -> DmuError {
        DmuError::Invalid { objset: self.shared.id, object: self.object, what }
    }

    /// Puts the object on the txg's list, so that it is written and stays in memory.
    pub(crate) fn mark_dirty(&self, txg: Txg, bytes: u64) {
        self.mark_dirty_beside(txg, bytes, 0);
    }

    /// As [`Self::mark_dirty`], for data whose buffers are larger than the data by `beside` bytes.
    fn mark_dirty_beside(&self, txg: Txg, bytes: u64, beside: u64) {
        let first = self.shared.mark_dirty(txg, self.me());
        let added = bytes + if first { DNODE_DIRTY_BYTES } else { 0 };
        if added + beside > 0 {
            self.shared.gate.add(txg, added, beside);
            self.shared.zio.make_room_for(self.shared.gate.dirty_bytes());
        }
    }

    /// Kind of the bonus buffer.
    #[must_use]
    pub fn bonus_type(&self) -> ObjectType {
        self.state.lock().newest.bonus_type
    }

    /// A copy of the bonus buffer.
    #[must_use]
    pub fn bonus(&self) -> Vec<u8> {
        self.state.lock().newest.bonus.clone()
    }

    /// The most a bonus buffer can hold beside the object's block pointers; a spill pointer
    /// takes 128 bytes of it.
    #[must_use]
    pub fn bonus_capacity(&self) -> usize {
        let state = self.state.lock();
        let pointers = (state.synced.blkptrs.len() - 1) * ondisk::BLKPTR_BYTES;
        ondisk::dnode::bonus_capacity(state.synced.slots()) - pointers
    }

    /// Replaces the bonus buffer and its kind.
    ///
    /// # Errors
    /// [`DmuError::Invalid`] when `bytes` exceed [`Dnode::bonus_capacity`].
    pub fn set_bonus(
        &self,
        tx: &dyn Transaction,
        bonus_type: ObjectType,
        bytes: &[u8],
    ) -> Result<(), DmuError> {
        if bytes.len() > self.bonus_capacity() {
            return Err(self.invalid("bonus buffer too long"));
        }
        tx.take(Step::bonus(self.me(), bonus_type, bytes.to_vec()));
        Ok(())
    }

    /// Replaces the bonus buffer and its kind in `txg`, which the caller holds.
    ///
    /// # Panics
    /// When `bytes` exceed [`Dnode::bonus_capacity`].
    pub fn put_bonus(&self, txg: Txg, bonus_type: ObjectType, bytes: Vec<u8>) {
        assert!(bytes.len() <= self.bonus_capacity(), "bonus buffer of object {} too long", self.object);
        {
            let mut state = self.state.lock();
            state.newest.bonus_type = bonus_type;
            state.newest.bonus.clone_from(&bytes);
            state.changes_for(txg).bonus = Some((bonus_type, bytes));
        }
        self.mark_dirty(txg, 0);
    }

    /// The spill block's contents, if there is one.
    ///
    /// # Errors
    /// When the block cannot be read.
    #[boxed]
    pub async fn spill(&self) -> Result<Option<Vec<u8>>, DmuError> {
        let bp = {
            let state = self.state.lock();
            let newest_first = state.pending.iter().rev().chain(state.syncing.as_deref());
            for changes in newest_first {
                if let Some(spill) = &changes.spill {
                    return Ok(spill.clone());
                }
            }
            state.synced.spill
        };
        let Some(bp) = bp.filter(|bp| !bp.is_hole()) else { return Ok(None) };
        let name = self.name();
        let data = self
            .shared
            .zio
            .read(&bp, &name.bookmark(0, SPILL_BLOCK))
            .await
            .map_err(|e| name.io_error(SPILL_BLOCK, e))?;
        Ok(Some(data.to_vec()))
    }

    /// Whether there is a spill block.
    #[must_use]
    pub fn has_spill(&self) -> bool {
        let state = self.state.lock();
        let changed = state.newest_first().find_map(|changes| changes.spill.as_ref().map(Option::is_some));
        changed.unwrap_or_else(|| state.synced.spill.is_some_and(|bp| !bp.is_hole()))
    }

    /// Replaces the spill block, or drops it.
    ///
    /// # Errors
    /// [`DmuError::Invalid`] when the contents exceed 128 KiB, or the bonus buffer leaves no
    /// room for a spill pointer.
    pub fn set_spill(&self, tx: &dyn Transaction, contents: Option<&[u8]>) -> Result<(), DmuError> {
        self.check_attributes(self.bonus().len(), contents)?;
        tx.take(Step::spill(self.me(), contents.map(<[u8]>::to_vec)));
        Ok(())
    }

    /// Replaces the spill block, or drops it, in `txg`, which the caller holds.
    ///
    /// # Panics
    /// Where [`Self::set_spill`] would fail.
    pub fn put_spill(&self, txg: Txg, contents: Option<Vec<u8>>) {
        let checked = self.check_attributes(self.bonus().len(), contents.as_deref());
        assert!(checked.is_ok(), "spill block of object {}: {checked:?}", self.object);
        let bytes = contents.as_ref().map_or(0, Vec::len);
        self.state.lock().changes_for(txg).spill = Some(contents);
        self.mark_dirty(txg, bytes as u64);
    }

    /// Whether the object can have a bonus buffer of so many bytes, and this spill block beside it.
    ///
    /// # Errors
    /// [`DmuError::Invalid`] with what does not fit.
    pub fn check_attributes(&self, bonus_bytes: usize, spill: Option<&[u8]>) -> Result<(), DmuError> {
        let pointer_bytes = if spill.is_some() { ondisk::BLKPTR_BYTES } else { 0 };
        match spill {
            _ if bonus_bytes > self.bonus_capacity() => Err(self.invalid("bonus buffer too long")),
            Some(spill) if spill.len() > SPILL_MAX_BYTES => Err(self.invalid("spill block too long")),
            _ if bonus_bytes + pointer_bytes > self.bonus_capacity() => {
                Err(self.invalid("no room for a spill pointer"))
            }
            _ => Ok(()),
        }
    }

    /// Changes the size of data blocks; block 0 keeps its contents, cut or zero-filled.
    ///
    /// # Errors
    /// [`DmuError::Invalid`] when there is more than one block, or the size is no multiple of 512
    /// up to 16 MiB; and when block 0 cannot be read.
    #[boxed]
    pub async fn set_block_bytes(&self, tx: &dyn Transaction, bytes: u32) -> Result<(), DmuError> {
        if bytes == self.block_bytes_in(tx) {
            return Ok(());
        }
        if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES as u32) || bytes > BLOCK_MAX_BYTES {
            return Err(self.invalid("bad block size"));
        }
        if self.max_block().get() > 0 {
            return Err(self.invalid("block size of an object with several blocks"));
        }
        let contents = self.block_in(tx, 0).await?;
        tx.take(Step::block_bytes(self.me(), bytes));
        if let Some(data) = contents {
            tx.take(Step::put(self.me(), 0, Arc::new(data.resized(bytes as usize))));
        }
        Ok(())
    }

    pub(crate) fn put_block_bytes(&self, txg: Txg, bytes: u32) {
        {
            let mut state = self.state.lock();
            assert_eq!(state.newest.max_block, 0, "block size of an object with several blocks");
            state.newest.block_bytes = bytes;
            self.block_bytes.store(bytes, Ordering::Release);
            state.changes_for(txg).block_bytes = bytes;
        }
        self.mark_dirty(txg, u64::from(bytes));
    }

    /// Size of a data block as the transaction will have it.
    #[must_use]
    pub fn block_bytes_in(&self, tx: &dyn Transaction) -> u32 {
        tx.plan().and_then(|plan| plan.block_bytes_of(self)).unwrap_or_else(|| self.block_bytes())
    }

    /// One block as the transaction will have it; `None` where there is a hole.
    pub(crate) async fn block_in(
        &self,
        tx: &dyn Transaction,
        block: u64,
    ) -> Result<Option<Arc<IoBuf>>, DmuError> {
        match tx.plan().and_then(|plan| plan.block_of(self, block)) {
            Some(Change::Data(data)) => Ok(Some(data)),
            Some(Change::Shared(bp)) => self.shared_block(block, &bp).await.map(Some),
            Some(Change::Hole) => Ok(None),
            None => self.block_if_data(block).await,
        }
    }

    /// One block, zeros where there is a hole; always `block_bytes` long.
    ///
    /// # Errors
    /// When the block cannot be read.
    pub async fn read_block(&self, block: BlockId) -> Result<Arc<IoBuf>, DmuError> {
        Ok(match self.block_if_data(block.get()).await? {
            Some(data) => data,
            None => Arc::new(IoBuf::zeroed(self.block_bytes() as usize)),
        })
    }

    /// One block; `None` where there is a hole.
    async fn block_if_data(&self, block: u64) -> Result<Option<Arc<IoBuf>>, DmuError> {
        let mut found = self.state.lock().find(block);
        loop {
            let (shape, roots) = match found {
                Found::Data(data) => return Ok(Some(data)),
                Found::Shared(bp) => return self.shared_block(block, &bp).await.map(Some),
                Found::Hole => return Ok(None),
                Found::OnDisk { shape, roots } => (shape, roots),
            };
            let failed = match self.stored_block(shape, &roots, block).await {
                Err(error @ DmuError::Io { .. }) => error,
                done => return done,
            };
            // The tree may have moved on under a slow reader, and what it pointed to been used again: a
            // block is damaged only if the tree that is there now leads to it.
            found = self.state.lock().find(block);
            if matches!(&found, Found::OnDisk { roots: now, .. } if *now == roots) {
                return Err(failed);
            }
        }
    }

    /// One block below `roots`; `None` where there is a hole.
    async fn stored_block(
        &self,
        shape: Shape,
        roots: &[Blkptr],
        block: u64,
    ) -> Result<Option<Arc<IoBuf>>, DmuError> {
        let name = self.name();
        let bp = self.stored(shape, roots).block(block).await?;
        if bp.is_hole() {
            return Ok(None);
        }
        let bookmark = name.bookmark(0, block);
        let size = self.block_bytes();
        let read = self.shared.zio.read_as(&bp, &bookmark, self.keeps_blocks()).await;
        let data = read.map_err(|source| name.io_error(block, source))?;
        // The size of an object's only block can grow meanwhile.
        let is_sound = data.len() == size as usize || self.block_bytes() != size;
        match is_sound {
            true => Ok(Some(data)),
            false => Err(name.damaged("a block of another size than the object's")),
        }
    }

    /// The first `len` bytes, as [`Self::read_part`] reads them.
    ///
    /// # Errors
    /// As there.
    pub async fn read_first(&self, len: u64) -> Result<Vec<u8>, DmuError> {
        self.read_part(0..len).await
    }

    /// Some bytes of an object for which something else on disk says how long it is.
    ///
    /// # Errors
    /// When that is more than the object, or all of the pool, can hold; when a block cannot be read.
    pub async fn read_part(&self, part: std::ops::Range<u64>) -> Result<Vec<u8>, DmuError> {
        let own = (self.max_block().get() + 1).saturating_mul(self.block_bytes().into());
        let pool =
            self.shared.zio.vdevs().tops().iter().map(|top| top.config().asize).fold(0, u64::saturating_add);
        let len = part.end.checked_sub(part.start).and_then(|len| usize::try_from(len).ok());
        let len = len.filter(|_| part.end <= own.min(pool));
        let len = len.ok_or_else(|| self.name().damaged("a length beyond its end"))?;
        let mut bytes = vec![0; len];
        self.read(part.start, &mut bytes).await?;
        Ok(bytes)
    }

    /// Fills `into` from byte `offset`; holes, and all beyond the last block, read as zeros.
    ///
    /// # Errors
    /// When a block cannot be read.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DmuError> {
        let mut rest = into;
        for (piece, data) in self.blocks_of(offset, rest.len()).await? {
            let (here, later) = rest.split_at_mut(piece.len);
            match data.as_deref().and_then(|data| data.get(piece.range())) {
                Some(bytes) => here.copy_from_slice(bytes),
                None => here.fill(0),
            }
            rest = later;
        }
        Ok(())
    }

    /// The same `len` bytes where they lie in memory, in order.
    ///
    /// # Errors
    /// When a block cannot be read.
    pub async fn read_shared(&self, offset: u64, len: usize) -> Result<Vec<BufSlice>, DmuError> {
        let blocks = self.blocks_of(offset, len).await?;
        Ok(blocks.into_iter().map(|(piece, data)| piece.of(data)).collect())
    }

    /// The blocks in which bytes lie, `None` for a hole, each with which part of it they are.
    async fn blocks_of(
        &self,
        offset: u64,
        len: usize,
    ) -> Result<Vec<(range::Piece, Option<Arc<IoBuf>>)>, DmuError> {
        let pieces: Vec<_> = range::pieces(offset, len, self.block_bytes()).collect();
        if let (Some(first), Some(last)) = (pieces.first(), pieces.last()) {
            self.look_ahead(&(first.block..last.block + 1));
        }
        let blocks = match pieces.as_slice() {
            [one] => vec![self.block_if_data(one.block).await?],
            many => try_join_all(many.iter().map(|piece| self.block_if_data(piece.block))).await?,
        };
        Ok(pieces.into_iter().zip(blocks).collect())
    }

    /// Replaces a whole block.
    ///
    /// # Errors
    /// [`DmuError::Invalid`] when `data` is not `block_bytes` long or the number too high; and when what
    /// leads to the block cannot be read.
    pub async fn write_block(
        &self,
        tx: &dyn Transaction,
        block: BlockId,
        data: Arc<IoBuf>,
    ) -> Result<(), DmuError> {
        let block_bytes = self.block_bytes_in(tx);
        if data.len() != block_bytes as usize {
            return Err(self.invalid("a block of another size"));
        }
        self.check(block.get(), block_bytes)?;
        self.check_above(block.get()).await?;
        tx.take(Step::put(self.me(), block.get(), data));
        Ok(())
    }

    /// Writes `data` at byte `offset`, reading first what it covers only in part.
    ///
    /// # Errors
    /// When a block cannot be read; [`DmuError::Invalid`] past the largest offset, or past
    /// the one block of an object whose block size is no power of two.
    pub async fn write(&self, tx: &dyn Transaction, offset: u64, data: &[u8]) -> Result<(), DmuError> {
        self.write_shared(tx, offset, &Arc::from(data)).await
    }

    /// [`Self::write`] of bytes that others may hold, too: what covers blocks in part is not copied before it
    /// is in its block.
    ///
    /// # Errors
    /// As there.
    pub async fn write_shared(
        &self,
        tx: &dyn Transaction,
        offset: u64,
        data: &Arc<[u8]>,
    ) -> Result<(), DmuError> {
        let block_bytes = self.block_bytes_in(tx);
        let mut from = 0;
        for piece in range::pieces(offset, data.len(), block_bytes) {
            let part = from..from + piece.len;
            from = part.end;
            self.check(piece.block, block_bytes)?;
            self.check_above(piece.block).await?;
            if piece.len == block_bytes as usize {
                tx.take(Step::put(self.me(), piece.block, Arc::new(IoBuf::copy_of(&data[part]))));
            } else {
                let (data, at) = (Arc::clone(data), piece.within);
                let edit = move |block: &mut [u8]| block[at..at + part.len()].copy_from_slice(&data[part]);
                self.edit_block(tx, piece.block, Box::new(edit)).await?;
            }
        }
        Ok(())
    }

    fn check(&self, block: u64, block_bytes: u32) -> Result<(), DmuError> {
        self.state.lock().check(block, block_bytes).map_err(|what| self.invalid(what))
    }

    pub(crate) fn put(&self, txg: Txg, block: u64, data: Arc<IoBuf>) {
        let (bytes, memory_bytes) = (data.len() as u64, data.memory_bytes() as u64);
        let is_replaced = self.put_written(txg, block, bytes, Written::Data(data));
        match is_replaced {
            true => self.mark_dirty(txg, 0),
            false => self.mark_dirty_beside(txg, bytes, memory_bytes.saturating_sub(bytes)),
        }
    }

    /// Tells whether the txg had written the block before.
    fn put_written(&self, txg: Txg, block: u64, bytes: u64, written: Written) -> bool {
        let mut state = self.state.lock();
        assert_eq!(state.newest.life, Life::Alive, "object {} is changed and not there", self.object);
        assert_eq!(bytes, u64::from(state.newest.block_bytes), "a block of object {}", self.object);
        state.newest.max_block = state.newest.max_block.max(block);
        let changes = state.changes_for(txg);
        changes.max_block = changes.max_block.max(block);
        changes.put(block, written)
    }

    fn me(&self) -> Arc<Self> {
        self.me.upgrade().expect("a dnode in use is alive")
    }
}

/// What an object costs the dirty limit beside its data: its dnode and indirect blocks.
const DNODE_DIRTY_BYTES: u64 = 2048;
/// Block number under which errors name a spill block.
pub(crate) const SPILL_BLOCK: u64 = u64::MAX;
const SPILL_MAX_BYTES: usize = 128 << 10;
const BLOCK_MAX_BYTES: u32 = 16 << 20;
