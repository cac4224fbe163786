//! What a ZAP needs of the object that holds it.

use std::future::Future;
use std::sync::Arc;

use device::IoBuf;
use units::{BlockId, ObjectId, Txg};

use super::Shared;
use crate::DmuError;

/// An object's blocks. Implemented by the dnode; tests have one in memory.
pub trait Blocks: Send + Sync {
    /// The transaction under which changes are made.
    type Tx: Sync;

    /// Number of the object, for errors.
    fn object(&self) -> ObjectId;

    /// The group of a transaction.
    fn txg(tx: &Self::Tx) -> Txg;

    /// Size of every block, in bytes.
    fn block_bytes(&self) -> u32;

    /// The lock and the index that all handles of this object share.
    fn shared(&self) -> &Shared;

    /// One whole block; holes and blocks past the end are zeros.
    fn read_block(&self, block: BlockId) -> impl Future<Output = Result<Arc<IoBuf>, DmuError>> + Send;

    /// Replaces one whole block.
    fn write_block(
        &self,
        tx: &Self::Tx,
        block: BlockId,
        data: Arc<IoBuf>,
    ) -> impl Future<Output = Result<(), DmuError>> + Send;

    /// Changes one block in place.
    fn modify_block<R: Send>(
        &self,
        tx: &Self::Tx,
        block: BlockId,
        change: impl FnOnce(&mut [u8]) -> R + Send,
    ) -> impl Future<Output = Result<R, DmuError>> + Send;

    /// Frees `count` blocks from `first` on.
    fn free_blocks(
        &self,
        tx: &Self::Tx,
        first: BlockId,
        count: u64,
    ) -> impl Future<Output = Result<(), DmuError>> + Send;

    /// Changes the block size of an object of one block, cutting it or adding zeros.
    fn set_block_bytes(&self, tx: &Self::Tx, bytes: u32)
    -> impl Future<Output = Result<(), DmuError>> + Send;
}
