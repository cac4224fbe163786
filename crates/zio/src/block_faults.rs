//! Faults on order of blocks, for drills: reads of a part of an object that fail (`zinject -t data`).
//!
//! A fault concerns what is read from devices. Blocks in the cache are read without a fault.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use env::Env;
use parking_lot::RwLock;
use units::{BlockId, Level, ObjectId, ObjsetId};

use vdev::VdevError;

use crate::{Bookmark, Zio, ZioError};

/// How a read of a block fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFaultKind {
    /// No device reads the block.
    Unreadable,
    /// Every copy of the block has a wrong checksum.
    WrongChecksum,
}

/// The blocks of an object that a fault concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyBlocks {
    /// The objset.
    pub objset: ObjsetId,
    /// The object in it.
    pub object: ObjectId,
    /// Height in the object's tree; 0 is data.
    pub level: Level,
    /// Numbers of the blocks at that level.
    pub blocks: RangeInclusive<BlockId>,
}

impl FaultyBlocks {
    fn has(&self, bookmark: &Bookmark) -> bool {
        let Bookmark { objset, object, level, block } = bookmark;
        (self.objset, self.object, self.level) == (*objset, *object, *level) && self.blocks.contains(block)
    }
}

/// A fault on order, and how often it was met.
#[derive(Debug)]
pub struct BlockFault {
    blocks: FaultyBlocks,
    kind: BlockFaultKind,
    /// How many of 2^32-1 reads fail.
    frequency: u32,
    matched: AtomicU64,
    injected: AtomicU64,
}

impl BlockFault {
    /// A fault of `frequency` of 2^32-1 reads of these blocks.
    #[must_use]
    pub fn new(blocks: FaultyBlocks, kind: BlockFaultKind, frequency: u32) -> Arc<Self> {
        let (matched, injected) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { blocks, kind, frequency, matched, injected })
    }

    /// How many reads the fault was for, and how many of them failed.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.matched.load(Relaxed), self.injected.load(Relaxed))
    }

    fn happens(&self, env: &dyn Env) -> bool {
        self.matched.fetch_add(1, Relaxed);
        let happens = self.frequency == u32::MAX || env.random_u64() as u32 <= self.frequency;
        self.injected.fetch_add(u64::from(happens), Relaxed);
        happens
    }
}

impl Zio {
    /// False if no copy of this block is to have the right checksum.
    ///
    /// # Errors
    /// [`ZioError::Read`] if no copy of the block is to be readable.
    pub(crate) fn is_spared(&self, bookmark: &Bookmark) -> Result<bool, ZioError> {
        match self.faults.of(bookmark, &**self.vdevs.env()) {
            None => Ok(true),
            Some(BlockFaultKind::WrongChecksum) => Ok(false),
            Some(BlockFaultKind::Unreadable) => {
                Err(ZioError::Read { bookmark: *bookmark, source: VdevError::Injected })
            }
        }
    }
}

/// All faults of blocks of a pool.
#[derive(Debug, Default)]
pub(crate) struct BlockFaults {
    all: RwLock<Vec<Arc<BlockFault>>>,
}

impl BlockFaults {
    pub fn add(&self, fault: &Arc<BlockFault>) {
        self.all.write().push(Arc::clone(fault));
    }

    pub fn remove(&self, fault: &Arc<BlockFault>) {
        self.all.write().retain(|other| !Arc::ptr_eq(other, fault));
    }

    /// The fault of a read that is made now, if it is to fail.
    pub fn of(&self, bookmark: &Bookmark, env: &dyn Env) -> Option<BlockFaultKind> {
        let all = self.all.read();
        let found = all.iter().find(|fault| fault.blocks.has(bookmark) && fault.happens(env));
        found.map(|fault| fault.kind)
    }
}
