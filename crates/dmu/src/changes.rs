//! What one transaction group changes in one object, until it is on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use env::IoBuf;
use ondisk::{Blkptr, ObjectType};
use units::Txg;

use crate::dmu_sync::EarlyNotes;
use crate::extent::RunSet;

/// The changes of one txg to one object. Blocks win over `freed`: freeing removes the
/// blocks it covers, writing comes after. Nothing here refers to indirect blocks: they
/// change only while the txg syncs.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    pub txg: Txg,
    /// Newest contents by block number; each `block_bytes` long.
    pub blocks: BTreeMap<u64, Written>,
    /// Those of them that were written before the txg.
    pub early: EarlyNotes,
    /// Block numbers that get another place, though the bytes may be those that are on disk.
    pub moved: BTreeSet<u64>,
    /// Block numbers that became holes.
    pub freed: RunSet,
    /// Size of a data block at the end of this txg.
    pub block_bytes: u32,
    /// Highest block number ever written, at the end of this txg.
    pub max_block: u64,
    pub bonus: Option<(ObjectType, Vec<u8>)>,
    /// Some(None): the spill block goes.
    pub spill: Option<Option<Vec<u8>>>,
    /// The object is freed in this txg.
    pub dies: bool,
}

impl Changes {
    pub fn new(txg: Txg, block_bytes: u32, max_block: u64) -> Self {
        Self {
            txg,
            blocks: BTreeMap::new(),
            early: EarlyNotes::default(),
            moved: BTreeSet::new(),
            freed: RunSet::default(),
            block_bytes,
            max_block,
            bonus: None,
            spill: None,
            dies: false,
        }
    }

    /// What this txg says of `block`, if anything.
    pub fn find(&self, block: u64) -> Option<Change> {
        match self.blocks.get(&block) {
            Some(Written::Data(data)) => return Some(Change::Data(Arc::clone(data))),
            Some(Written::Shared(bp)) => return Some(Change::Shared(*bp)),
            None => {}
        }
        (self.dies || self.freed.contains(block)).then_some(Change::Hole)
    }

    /// Replaces a block; tells whether this txg had written it before.
    pub fn put(&mut self, block: u64, written: Written) -> bool {
        self.early.forget(block);
        self.blocks.insert(block, written).is_some()
    }

    /// The bytes that this txg has written to a block.
    pub fn data_of(&self, block: u64) -> Option<&Arc<IoBuf>> {
        self.blocks.get(&block)?.data()
    }

    /// A block whose bytes this txg has written already, to be changed again: its buffer, which may be shared.
    pub fn block_mut(&mut self, block: u64) -> Option<&mut Arc<IoBuf>> {
        let Written::Data(data) = self.blocks.get_mut(&block)? else { return None };
        self.early.forget(block);
        Some(data)
    }

    pub fn free(&mut self, blocks: std::ops::Range<u64>) {
        let covered: Vec<u64> = self.blocks.range(blocks.clone()).map(|(&b, _)| b).collect();
        for block in covered {
            self.early.forget(block);
            self.blocks.remove(&block);
        }
        self.freed.insert(blocks);
    }

    /// Where the hole ends that this txg has made of `block`.
    pub fn hole_end(&self, block: u64) -> u64 {
        if self.dies {
            return u64::MAX;
        }
        let written = self.blocks.range(block..).next().map(|(&written, _)| written);
        written.into_iter().chain(self.freed.end_of(block)).min().unwrap_or(u64::MAX)
    }

    /// The first block at or after `from` of which this txg says anything.
    pub fn next_touched(&self, from: u64) -> Option<u64> {
        if self.dies {
            return Some(from);
        }
        let written = self.blocks.range(from..).next().map(|(&block, _)| block);
        written.into_iter().chain(self.freed.next_at(from)).min()
    }

    /// Whether the object will take another amount of space when this txg has been written.
    pub fn moves_space(&self) -> bool {
        self.dies || self.spill.is_some() || !self.blocks.is_empty() || self.freed.next_at(0).is_some()
    }

    /// Whether any block of `range` is written or freed.
    pub fn touches(&self, range: &std::ops::Range<u64>) -> bool {
        self.blocks.range(range.clone()).next().is_some() || self.freed.intersects(range)
    }
}

/// What a txg wrote to one block.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    /// These bytes.
    Data(Arc<IoBuf>),
    /// Nothing: it is a block that is on disk, and somebody else's too. See [`crate::clone`].
    Shared(Blkptr),
}

impl Written {
    pub fn data(&self) -> Option<&Arc<IoBuf>> {
        match self {
            Self::Data(data) => Some(data),
            Self::Shared(_) => None,
        }
    }
}

/// What a txg made of one block.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Data(Arc<IoBuf>),
    Shared(Blkptr),
    Hole,
}
