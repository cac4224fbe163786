//! What a ZAP needs of the object that holds it.

use std::future::Future;
use std::sync::Arc;

use env::IoBuf;
use units::{BlockId, ObjectId};

use super::{Guard, Shared};
use crate::DmuError;

/// An object's blocks. Implemented by the dnode; tests have one in memory.
pub trait Blocks: Send + Sync {
    /// What changes are made in.
    type Tx: Sync + ?Sized;

    /// Number of the object, for errors.
    fn object(&self) -> ObjectId;

    /// Size of every block, in bytes, as `tx` will have it.
    fn block_bytes(&self, tx: Option<&Self::Tx>) -> u32;

    /// The lock and the index that all handles of this object share.
    fn shared(&self) -> &Shared;

    /// Takes the ZAP's lock out of a transaction that has it.
    fn take_guard(&self, tx: &Self::Tx) -> Option<Guard>;

    /// Leaves the ZAP's lock to a transaction that is not seen by others before its end; lets go of it
    /// where changes are made at once.
    fn keep_guard(tx: &Self::Tx, guard: Guard);

    /// One whole block as `tx` will have it; holes and blocks past the end are zeros.
    fn read_block(
        &self,
        tx: Option<&Self::Tx>,
        block: BlockId,
    ) -> impl Future<Output = Result<Arc<IoBuf>, DmuError>> + Send;

    /// Replaces one whole block.
    fn write_block(
        &self,
        tx: &Self::Tx,
        block: BlockId,
        data: Arc<IoBuf>,
    ) -> impl Future<Output = Result<(), DmuError>> + Send;

    /// Changes one block in place, now or when the transaction ends.
    fn modify_block(
        &self,
        tx: &Self::Tx,
        block: BlockId,
        change: impl FnOnce(&mut [u8]) + Send + 'static,
    ) -> impl Future<Output = Result<(), DmuError>> + Send;

    /// The same, of a block that was read just now: `base`.
    fn modify_read(
        &self,
        tx: &Self::Tx,
        block: BlockId,
        base: Arc<IoBuf>,
        change: impl FnOnce(&mut [u8]) + Send + 'static,
    );

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
