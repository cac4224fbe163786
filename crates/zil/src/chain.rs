//! The chain in memory: blocks written and not yet freed, and the one allocated ahead.
//!
//! ```text
//!  header.log ─► block ─► block ─► block ─► tail
//!                stable   stable   in flight  allocated, named by its predecessor, unwritten
//!                └ acked ─────┘
//! ```
//! Each block names the next, so the tail's place and size are fixed before anybody knows what
//! will be in it; its sequence number and seed follow from its predecessor's.
//!
//! A chain ends in one of two ways. Without room for another block, its last one names a hole
//! that carries the right seed: a reader takes the block as good and the chain as over. After a
//! failed write, nothing can follow: the block's place cannot be changed any more, for its
//! predecessor is on disk. Either way the chain retires, a txg makes its records stable, and the
//! same txg's header names a new one ([`crate::chain::sync`]).

pub(crate) mod block;
pub(crate) mod leave;
pub(crate) mod loss;
pub(crate) mod rest;
pub(crate) mod rests;
pub(crate) mod scan;
pub(crate) mod sync;
pub(crate) mod walk;

use std::collections::VecDeque;

use ondisk::Blkptr;
use units::{Txg, ZilSeq};

/// What has become of a block that was handed to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Nobody knows yet.
    InFlight,
    /// A power cut would not harm it.
    Stable,
}

/// A block of the chain, written or being written.
#[derive(Debug)]
pub struct Block {
    pub bp: Blkptr,
    /// All records before this position are in this block or earlier, or their txg has synced.
    pub through: u64,
    /// The youngest txg of its records: until it has synced, replay needs the block.
    pub max_txg: Txg,
    pub state: BlockState,
}

/// When the header that names this chain becomes stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderState {
    /// No syncing txg has come by since the chain began.
    Unpublished,
    /// With this txg.
    Published(Txg),
}

#[derive(Debug)]
pub struct Chain {
    /// Tells chains of one log apart, in memory.
    pub id: u64,
    pub header: HeaderState,
    pub blocks: VecDeque<Block>,
    /// How many blocks from the front are stable, and reachable from a stable header.
    pub acked: usize,
    /// The block to be written next; `None` when the chain has ended.
    pub tail: Option<Blkptr>,
    /// Number of the newest record.
    pub lr_seq: ZilSeq,
}

impl Chain {
    /// A chain of one unwritten block, whose blkptr carries the chain's seed.
    pub fn new(id: u64, first: Blkptr) -> Self {
        let header = HeaderState::Unpublished;
        Self { id, header, blocks: VecDeque::new(), acked: 0, tail: Some(first), lr_seq: ZilSeq::new(0) }
    }

    /// What the header should name: the first block that replay may need.
    pub fn front(&self) -> Option<Blkptr> {
        self.blocks.front().map(|block| block.bp).or(self.tail)
    }

    /// The youngest txg of any record or allocation in the chain.
    pub fn max_txg(&self) -> Txg {
        let of = |block: &Block| block.max_txg.max(block.bp.birth());
        let blocks = self.blocks.iter().map(of);
        blocks.chain(self.tail.iter().map(Blkptr::birth)).max().unwrap_or(Txg::ZERO)
    }

    /// Whether a reader would find the chain, were the power cut once `synced` is stable.
    pub fn is_reachable(&self, synced: Txg) -> bool {
        matches!(self.header, HeaderState::Published(txg) if txg <= synced)
    }

    /// Extends the acknowledged prefix as far as it goes; the position it reaches, when it grew.
    pub fn advance(&mut self) -> Option<u64> {
        let mut through = None;
        while let Some(block) = self.blocks.get(self.acked).filter(|block| block.state == BlockState::Stable)
        {
            through = Some(block.through);
            self.acked += 1;
        }
        assert!(self.acked <= self.blocks.len(), "more blocks are acknowledged than there are");
        through
    }

    /// Takes blocks off the front that replay will not need once `txg` is stable: their records
    /// are in it, and so is their allocation (a free cannot come in an older txg).
    pub fn pop_needless(&mut self, txg: Txg) -> Vec<Blkptr> {
        let mut popped = Vec::new();
        while self.acked > 0 {
            match self.blocks.front() {
                Some(block) if block.max_txg <= txg && block.bp.birth() <= txg => popped.push(block.bp),
                _ => break,
            }
            self.blocks.pop_front();
            self.acked -= 1;
        }
        popped
    }

    /// Every block of the chain, tail included.
    pub fn places(&self) -> impl Iterator<Item = Blkptr> {
        self.blocks.iter().map(|block| block.bp).chain(self.tail)
    }
}

/// Blocks of chains that have ended: what the header on disk may still name. They are freed
/// together, in a txg that holds all their records, while its header moves on to a new chain.
#[derive(Debug, Default)]
pub struct Retired {
    pub blocks: Vec<Blkptr>,
    /// Blocks of files to which a claimed log holds references.
    pub clones: Vec<Blkptr>,
    /// The header names a chain of which nothing is known any more.
    pub is_named: bool,
    /// The first txg that may free them.
    pub after: Txg,
    /// Batches still being written: their blocks must not be given to anybody else.
    pub in_flight: usize,
}

impl Retired {
    pub fn is_empty(&self) -> bool {
        let holds_none = self.blocks.is_empty() && self.clones.is_empty();
        holds_none && !self.is_named && self.in_flight == 0
    }

    /// Takes over a chain, `in_flight` of whose batches are under way.
    pub fn add(&mut self, chain: &Chain, in_flight: usize) {
        self.after = self.after.max(chain.max_txg());
        self.blocks.extend(chain.places());
        self.in_flight += in_flight;
    }

    /// Everything, if `txg` may free it.
    pub fn release(&mut self, txg: Txg) -> Option<Self> {
        let may = self.in_flight == 0 && self.after <= txg;
        may.then(|| std::mem::take(self))
    }
}
