//! Blocks of objects, and spill blocks.

use std::sync::Arc;

use dmu::Estimate;
use env::IoBuf;
use ondisk::CompressionKind;
use ondisk::blkptr::embedded;
use ondisk::send::{BLOCK_PAYLOAD_MAX_BYTES, DrrSpill, DrrWrite, DrrWriteEmbedded, record_flags};
use units::BlockId;

use super::{At, ReceiveError, Receiver};

/// The number that OpenZFS gives to a spill block among the blocks of its object.
const SPILL_BLOCK: u64 = u64::MAX - 1;
/// The end of the longest object: offsets are signed to users, and a dnode that says more is damaged.
const OBJECT_BYTES_MAX: u64 = 1 << 63;

impl Receiver {
    pub(super) async fn write(
        &mut self,
        at: At,
        write: &DrrWrite,
        payload: IoBuf,
    ) -> Result<(), ReceiveError> {
        let contents = match write.compression {
            0 => payload,
            raw => unpacked(at, raw, &payload, write.logical_bytes.get())?,
        };
        self.put(at, write.offset.get(), contents).await
    }

    pub(super) async fn write_embedded(
        &mut self,
        at: At,
        write: &DrrWriteEmbedded,
        payload: &[u8],
    ) -> Result<(), ReceiveError> {
        if write.embedded_type != embedded::TYPE_DATA {
            return Err(ReceiveError::Unsupported { offset: at.offset, what: "a redacted stream" });
        }
        let packed = payload.get(..write.physical_bytes.get() as usize);
        let packed = packed.ok_or_else(|| at.bad("a block longer than what came"))?;
        let contents = unpacked(at, write.compression, packed, write.logical_bytes.get().into())?;
        match is_spill(write) {
            true => self.put_spill(at, &contents).await,
            false => self.put(at, write.offset.get(), contents).await,
        }
    }

    /// Writes what a record has, a block of the object or some, or a part of one.
    async fn put(&mut self, at: At, offset: u64, contents: IoBuf) -> Result<(), ReceiveError> {
        let dnode = self.held(at).await?;
        let len = contents.len() as u64;
        if len == 0 || offset.checked_add(len).is_none_or(|end| end > OBJECT_BYTES_MAX) {
            return Err(at.bad("a block that ends nowhere"));
        }
        let plan = self.plan(at, Estimate { write_bytes: len, ..Estimate::default() }).await?;
        let block_bytes = u64::from(dnode.block_bytes());
        let written = if len == block_bytes && offset.is_multiple_of(block_bytes) {
            dnode.write_block(&plan, BlockId::new(offset / block_bytes), Arc::new(contents)).await
        } else {
            dnode.write_shared(&plan, offset, &Arc::from(&contents[..])).await
        };
        written.map_err(|error| at.of(error))?;
        self.apply_and_tell(at, offset, plan)
    }

    /// Frees bytes piece by piece: a piece is what one txg can free.
    pub(super) async fn free(&mut self, at: At, offset: u64, length: u64) -> Result<(), ReceiveError> {
        let dnode = self.held(at).await?;
        let mut end = offset.saturating_add(length);
        loop {
            let piece = dnode.last_piece(offset, end).await.map_err(|error| at.of(error))?;
            let estimate = Estimate { frees: true, freed_blocks: piece.blocks, ..Estimate::default() };
            let plan = self.plan(at, estimate).await?;
            dnode.free_piece(&plan, &piece).await.map_err(|error| at.of(error))?;
            Self::apply(at, plan)?;
            if piece.offset <= offset {
                return Ok(());
            }
            end = piece.offset;
        }
    }

    pub(super) async fn spill(
        &mut self,
        at: At,
        spill: &DrrSpill,
        payload: &[u8],
    ) -> Result<(), ReceiveError> {
        if self.tells_spills && spill.flags & record_flags::SPILL_UNMODIFIED != 0 {
            // For receivers that take an OBJECT for the end of its spill block.
            return Ok(());
        }
        if spill.compressed_bytes.get() != 0 {
            return Err(ReceiveError::Unsupported { offset: at.offset, what: "a raw stream" });
        }
        self.put_spill(at, payload).await
    }

    async fn put_spill(&mut self, at: At, contents: &[u8]) -> Result<(), ReceiveError> {
        let dnode = self.held(at).await?;
        let estimate = Estimate { write_bytes: contents.len() as u64, ..Estimate::default() };
        let plan = self.plan(at, estimate).await?;
        dnode.set_spill(&plan, Some(contents)).map_err(|error| at.of(error))?;
        Self::apply(at, plan)
    }
}

/// True if an embedded block is the spill block of its object. OpenZFS sends such a block (`-e`)
/// with that block number, at an offset that no file reaches.
fn is_spill(write: &DrrWriteEmbedded) -> bool {
    let bytes = write.length.get();
    bytes == u64::from(write.logical_bytes.get()) && write.offset.get() == SPILL_BLOCK.wrapping_mul(bytes)
}

/// What a compressed block contains.
fn unpacked(at: At, raw: u8, packed: &[u8], bytes: u64) -> Result<IoBuf, ReceiveError> {
    if bytes > BLOCK_PAYLOAD_MAX_BYTES {
        return Err(at.bad("a block of such a size"));
    }
    let kind = CompressionKind::from_raw(raw).map_err(|_| at.bad("a compression that there is not"))?;
    let contents = codec::decompress(kind, packed, bytes as usize);
    contents.map(|contents| IoBuf::copy_of(&contents)).map_err(|_| at.bad("compressed data are damaged"))
}
