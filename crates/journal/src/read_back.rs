//! Where the log gets the data of a write that its record does not hold: the object itself.
//!
//! ```text
//!  a commit asks ─┬─ InPlace   the block is written now where it will stay, and the record names it (dmu_sync);
//!                 │            where that cannot be, as ReadBack
//!                 └─ ReadBack  the bytes are read from the object, and the record holds them
//! ```
//! Either may find newer bytes than were logged: they belong to writes whose own records follow, or to none that was
//! promised.

use std::sync::Arc;

use dmu::{EarlyBlock, EarlyWrite, Objset};
use env::{BoxFuture, BufSlice, Durability, IoBuf};
use ondisk::{Blkptr, Dva};
use units::{BlockId, ObjectId, Txg};
use zil::{DataBlock, DataPlace, Fetched, WriteSource, ZilError};

use crate::log_data::Target;

/// Reads the data of a logged write back when somebody asks for it.
pub(crate) struct ReadBack<T> {
    target: Arc<T>,
}

impl<T: Target> ReadBack<T> {
    pub fn new(target: Arc<T>) -> Self {
        Self { target }
    }

    /// Whether the target is still there, and has anything at this offset.
    fn has(&self, offset: u64) -> bool {
        self.target.size_bytes().is_some_and(|size| offset < size)
    }
}

impl<T: Target> WriteSource for ReadBack<T> {
    fn fetch(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        _txg: Txg,
    ) -> BoxFuture<'_, Result<Fetched, ZilError>> {
        Box::pin(async move {
            // No lock: a writer may hold it and wait for space.
            if !self.has(offset) {
                return Ok(Fetched::Gone);
            }
            let mut buf = IoBuf::zeroed(length as usize);
            let read = self.target.dnode().read(offset, &mut buf).await;
            read.map_err(|source| ZilError::Fetch { object, source: Arc::new(source) })?;
            Ok(Fetched::Slices(vec![BufSlice::from(buf)]))
        })
    }
}

/// Has the object's own block written when somebody asks for it. One that cannot be any more, for its
/// txg is being synced, or for want of room, is read back.
pub(crate) struct InPlace<T> {
    os: Arc<Objset>,
    back: ReadBack<T>,
}

impl<T: Target> InPlace<T> {
    pub fn new(os: Arc<Objset>, target: Arc<T>) -> Self {
        Self { os, back: ReadBack::new(target) }
    }
}

impl<T: Target> WriteSource for InPlace<T> {
    fn place(&self, _object: ObjectId, offset: u64, _length: u64, txg: Txg) -> Option<DataPlace> {
        if !self.back.has(offset) {
            return None;
        }
        let dnode = self.back.target.dnode();
        let block = BlockId::new(offset / u64::from(dnode.block_bytes()));
        Some(match self.os.place_early(dnode, txg, block)? {
            EarlyBlock::Placed(write) => DataPlace::Block(Box::new(PlacedBlock(write))),
            EarlyBlock::Pointer(bp) => DataPlace::Pointer(bp),
            EarlyBlock::Before(bp) => DataPlace::Before(bp),
        })
    }

    fn has_places(&self) -> bool {
        true
    }

    fn fetch(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        txg: Txg,
    ) -> BoxFuture<'_, Result<Fetched, ZilError>> {
        self.back.fetch(object, offset, length, txg)
    }
}

/// A block of an object on its way to its place.
struct PlacedBlock(EarlyWrite);

impl DataBlock for PlacedBlock {
    fn bp(&self) -> Blkptr {
        *self.0.bp()
    }

    fn write(&self, place: Dva, durability: Durability) -> BoxFuture<'static, Result<(), ZilError>> {
        let write = self.0.write(place, durability);
        Box::pin(async move {
            let failed = |error| ZilError::Io { vdev: place.vdev, op: "write", source: Arc::new(error) };
            write.await.map_err(failed)
        })
    }

    fn ended(&self, is_stable: bool) {
        self.0.ended(is_stable);
    }
}
