//! What the intent log asks of the layers below it: space, log I/O, txgs.
//!
//! `pool` implements [`LogStore`] over zio and the txg engine. The log itself never sees a
//! device, so that it can be tested over memory with every order of completions and failures.

use env::{BoxFuture, BufSlice, Durability, IoBuf};
use ondisk::Blkptr;
use units::{ObjsetId, Txg, VdevId, ZilSeq};

use crate::ZilError;
use crate::chain::loss::LogLoss;
use crate::trace::Recorder;

/// Where a log block should go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Vdevs that failed a log write or flush since they were last opened. Never to be used when
    /// they are log vdevs; only as a last resort otherwise.
    pub avoid: Vec<VdevId>,
    /// Where other blocks go that are written together with this one.
    pub planned: Vec<VdevId>,
}

/// Space, I/O and txgs for intent logs. One per pool, shared by all its logs.
///
/// All futures may be polled from any task, also after the task that made them has gone.
pub trait LogStore: Send + Sync + 'static {
    /// Allocates one log block of at least `bytes` (a multiple of 4 KiB) and returns its blkptr:
    /// type "intent log", level 0, uncompressed, checksum `Zilog2`, lsize = psize, one DVA.
    ///
    /// The allocation belongs to the open txg, which is held while this runs; the blkptr's birth
    /// is that txg. Log vdevs come first, then the rest of the pool. Must not wait for a txg to
    /// sync: [`crate::LogHandle::sync`] waits for allocations under way.
    ///
    /// # Errors
    /// [`ZilError::NoSpace`] when there is no room anywhere.
    fn allocate<'a>(
        &'a self,
        bytes: u32,
        placement: &'a Placement,
    ) -> BoxFuture<'a, Result<Blkptr, ZilError>>;

    /// Writes `slices` one after another from the start of `bp`'s block. Their length is a
    /// multiple of 4 KiB (or of the whole block's size) and at most `bp.psize()`.
    fn write(
        &self,
        bp: &Blkptr,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), ZilError>>;

    /// Makes all writes to these vdevs that completed before the call stable.
    fn flush(&self, vdevs: &[VdevId]) -> BoxFuture<'static, Result<(), ZilError>>;

    /// The bytes of a log block as they lie on disk: `bp.psize()` of them, checksum not verified.
    ///
    /// # Errors
    /// Only when a device does not answer; garbage is not an error.
    fn read<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>>;

    /// What was at the place of a log block when that was read ahead, if it was: nobody has verified it.
    fn read_ahead<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Option<IoBuf>> {
        let _ = bp;
        Box::pin(std::future::ready(None))
    }

    /// Somebody walks along a chain from now on: its blocks are read one after another, and none of them changes.
    fn walk_begins(&self) {}

    /// A walk has ended.
    fn walk_ends(&self) {}

    /// The contents of a data block that a log record names: verified and decompressed.
    fn read_data_block<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, Result<IoBuf, ZilError>>;

    /// Frees a block in the syncing txg `txg`, which is not older than the block.
    fn free<'a>(&'a self, txg: Txg, bp: &'a Blkptr) -> BoxFuture<'a, ()>;

    /// Marks a block of a found log allocated in `txg`, the first of an import.
    ///
    /// # Errors
    /// When the place is not free, or not in the pool.
    fn claim<'a>(&'a self, txg: Txg, bp: &'a Blkptr) -> BoxFuture<'a, Result<(), ZilError>>;

    /// Makes all copies of a block of a found log good, a log block's or that of data it names, where
    /// one is: what was found in one copy is not to be gone with it.
    fn mend<'a>(&'a self, bp: &'a Blkptr) -> BoxFuture<'a, ()> {
        let _ = bp;
        Box::pin(async {})
    }

    /// Takes a reference to a block that a clone record names: it belongs to some file already
    /// and must outlive the record.
    ///
    /// # Errors
    /// When the pool cannot keep such references: the log cannot be claimed then.
    fn claim_clone(&self, txg: Txg, bp: &Blkptr) -> Result<(), ZilError>;

    /// Gives up, in the syncing txg `txg`, a reference that `claim_clone` took.
    fn free_clone(&self, txg: Txg, bp: &Blkptr);

    /// The txg that new transactions join.
    fn open_txg(&self) -> Txg;

    /// The newest txg that is stable.
    fn synced_txg(&self) -> Txg;

    /// Ready once `txg` is stable; sees to it that it gets there without delay.
    ///
    /// # Errors
    /// [`ZilError::TxgStopped`].
    fn wait_synced(&self, txg: Txg) -> BoxFuture<'_, Result<(), ZilError>>;

    /// Txgs have to attend to the log of this dataset from now on: [`crate::LogHandle::sync`] before
    /// each is written, [`crate::LogHandle::clean`] when it is stable. A new log has it so.
    /// Called with locks held by the log: it may not be called from there.
    fn attend(&self, objset: ObjsetId);

    /// Txgs need not attend to the log until the next [`LogStore::attend`].
    fn leave(&self, objset: ObjsetId);

    /// How many batches one log may have in flight: the number of log devices it can use.
    fn lanes(&self) -> usize {
        1
    }

    /// Whether what is written to this vdev may be lost with the power until it is flushed.
    fn needs_flush(&self, vdev: VdevId) -> bool {
        let _ = vdev;
        true
    }

    /// Whether log devices are there and well: then data go to them, whatever their size.
    fn has_log_devices(&self) -> bool {
        false
    }

    /// How often a device of the pool was opened anew. What was written before that and not flushed may
    /// be lost, whatever a later flush says.
    fn reopened(&self) -> u64 {
        0
    }

    /// What records commits and batches, where there is such a thing.
    fn recorder(&self) -> Option<&Recorder> {
        None
    }

    /// Told what `status` should show. Called without locks held by the log.
    fn report(&self, event: LogEvent) {
        let _ = event;
    }
}

/// Something an operator should know about a log.
#[derive(Clone, Debug)]
pub enum LogEvent {
    /// A write or flush failed; the chain goes on elsewhere after the next txg.
    Failed {
        /// What happened.
        error: ZilError,
    },
    /// No room for a log block: commits wait for txgs until there is.
    NoSpace {
        /// The chain's last block, when it had to end early.
        last: Option<ZilSeq>,
    },
    /// No log vdev has room, or none works: blocks go to the rest of the pool.
    Spilled {
        /// Where the first of them went.
        vdev: VdevId,
    },
    /// A log that was found breaks off before its end, as it seems.
    Damaged {
        /// Whose log.
        objset: ObjsetId,
        /// What lay behind the place.
        loss: LogLoss,
    },
    /// A chain was begun on this vdev.
    Started {
        /// Its first block.
        vdev: VdevId,
    },
}
