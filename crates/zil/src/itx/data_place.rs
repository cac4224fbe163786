//! Data that lie in blocks of their file's own: their records name the place (`WR_INDIRECT`).
//!
//! ```text
//!   batch ─► source: where? ─► block placed, pointer known ─► record with the pointer
//!                                      │                            │
//!                                      └──► written ◄── at once ──► written ─► flushed ─► acknowledged
//! ```
//! The block and the log block that names it go out together; until both are stable nobody is told,
//! and an import that finds only the record takes the log to end there.
//!
//! Invariants
//! - A block is written with the log block that names it, or never: a record that goes back in line
//!   forgets its place and asks anew (test: `a_block_whose_log_block_found_no_room_is_never_written`).
//! - A data write that fails, or whose flush does, fails its batch
//!   (test: `a_data_block_that_cannot_be_written_is_never_acknowledged`).

use std::fmt;

use env::{BoxFuture, Durability};
use ondisk::zil::record::LrWrite;
use ondisk::{Blkptr, Dva, LogRecord};

use crate::ZilError;
use crate::itx::LoggedWrite;

/// Where the data of a write are, if not in its record.
pub enum DataPlace {
    /// In this block, which is still to be written.
    Block(Box<dyn DataBlock>),
    /// In the pointer itself; in a hole, zeros.
    Pointer(Blkptr),
    /// In the block that this is the pointer of, which an earlier record of the same txg in this log names.
    Before(Blkptr),
}

/// A block of data that has its place and is not written yet. Dropped without having been written
/// it never is.
pub trait DataBlock: Send + Sync {
    /// Where it will be.
    fn bp(&self) -> Blkptr;

    /// Writes the copy at `place`, one of the pointer's.
    fn write(&self, place: Dva, durability: Durability) -> BoxFuture<'static, Result<(), ZilError>>;

    /// All copies are stable, and flushed; or one of them is not.
    fn ended(&self, is_stable: bool);
}

impl DataPlace {
    /// The record of a write whose data are here.
    pub(crate) fn record(&self, write: &LoggedWrite) -> LogRecord {
        let record = LrWrite {
            object: write.object,
            offset: write.offset,
            length: write.length,
            ..LrWrite::default()
        };
        match self {
            Self::Block(block) => LogRecord::Write(LrWrite { blkptr: block.bp(), ..record }),
            Self::Pointer(bp) => LogRecord::Write(LrWrite { blkptr: *bp, ..record }),
            Self::Before(_) => LogRecord::Write2(record),
        }
    }

    /// Bytes that are to be written for it, one copy.
    pub(crate) fn stored_bytes(&self) -> u64 {
        match self {
            Self::Block(block) => block.bp().psize().get(),
            Self::Pointer(_) | Self::Before(_) => 0,
        }
    }
}

impl fmt::Debug for DataPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block(block) => write!(f, "Block({:?})", block.bp()),
            Self::Pointer(bp) => write!(f, "Pointer({bp:?})"),
            Self::Before(bp) => write!(f, "Before({bp:?})"),
        }
    }
}
