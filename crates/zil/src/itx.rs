//! Itx: one intent-log transaction, as file operations hand it in.

pub(crate) mod data_place;
pub(crate) mod named;
pub(crate) mod pending;

use std::fmt;
use std::sync::Arc;

use env::{BoxFuture, BufSlice};
use ondisk::{Blkptr, LogRecord};
use units::{ObjectId, Txg};

use crate::ZilError;
use crate::itx::data_place::DataPlace;

/// One operation to be logged, should anybody ask for it before its txg has synced.
#[derive(Debug)]
pub struct Itx {
    /// Who has to ask.
    pub scope: Scope,
    /// What to write.
    pub record: Record,
}

/// Whose commit takes a record along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any commit of the dataset: create, remove, link.
    Namespace,
    /// Any commit, and from now on so does all that this object had to log: a rename. Who renames
    /// a file into place must not find it empty there, whether or not it was made stable first.
    NamespaceWith(ObjectId),
    /// A commit of this object, or of everything: write, truncate, setattr, ACL.
    Object(ObjectId),
}

/// A record in memory.
#[derive(Debug)]
pub enum Record {
    /// Everything that is small.
    Plain(LogRecord),
    /// A write with its data, or the way to them.
    Write(LoggedWrite),
}

/// `TX_WRITE`: `length` bytes of `object` from `offset`.
#[derive(Clone, Debug)]
pub struct LoggedWrite {
    /// Which file.
    pub object: ObjectId,
    /// First byte.
    pub offset: u64,
    /// Number of bytes; more than one block holds is split.
    pub length: u64,
    /// What was written.
    pub data: WriteData,
}

/// The payload of a logged write.
#[derive(Clone)]
pub enum WriteData {
    /// The bytes themselves, `length` of them, one slice after another.
    Bytes(Arc<[u8]>),
    /// The same, shared with whoever else holds the buffers.
    Slices(Vec<BufSlice>),
    /// The data are already stable in a block of the file's own (`WR_INDIRECT`).
    Indirect(Blkptr),
    /// To be fetched when somebody asks: for writes that most likely nobody will.
    Later(Arc<dyn WriteSource>),
}

impl fmt::Debug for WriteData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Slices(slices) => write!(f, "Slices({})", slices.len()),
            Self::Indirect(bp) => write!(f, "Indirect({bp:?})"),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// Gives the data of a write that was logged without them.
pub trait WriteSource: Send + Sync {
    /// Puts the range in a place of its own, if it should have one, for the record to name; the
    /// caller writes the block. Asked in the order of the records, waits for nothing. Where there
    /// is no place the data are fetched.
    fn place(&self, object: ObjectId, offset: u64, length: u64, txg: Txg) -> Option<DataPlace> {
        let _ = (object, offset, length, txg);
        None
    }

    /// Whether it is likely to have a place for them.
    fn has_places(&self) -> bool {
        false
    }

    /// The present contents of the range. Must not wait for a txg to sync.
    fn fetch(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        txg: Txg,
    ) -> BoxFuture<'_, Result<Fetched, ZilError>>;
}

/// What a [`WriteSource`] found.
#[derive(Debug)]
pub enum Fetched {
    /// The bytes, exactly as many as were asked for.
    Slices(Vec<BufSlice>),
    /// The object is gone: nothing to log.
    Gone,
}
