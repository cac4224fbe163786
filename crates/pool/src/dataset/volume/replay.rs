//! Replay of a volume's log.
//!
//! The records of a volume change its bytes, and nothing else: writes with their data, writes that name the volume's
//! block, and ranges that became holes. Nobody uses a volume before its log is replayed, and nothing writes to it
//! here: so the log is closed as soon as that is done, and what it said is stable then.
//! (test: `what_a_volume_was_promised_is_replayed_at_import`)

use std::sync::Arc;

use device::BoxFuture;
use dmu::{DmuError, Dnode, Estimate, Objset};
use ondisk::zil::LogRecord;
use ondisk::zil::record::{LrCloneRange, LrWrite};
use zil::{Applied, Replay, ReplayBlock, ReplayCtx, ReplayRecord};
use zio::{Bookmark, ZioError};

use super::{DATA, size_of};
use crate::PoolError;

/// The largest block there is.
const BLOCK_BYTES_MAX: u64 = 16 << 20;

/// Why a record cannot be applied.
#[derive(Debug, thiserror::Error)]
enum VolumeReplayError {
    #[error("a record of type {0} is not one of a volume")]
    Foreign(&'static str),
    #[error("a record leads past the end of a volume of {size_bytes} bytes")]
    TooFar { size_bytes: u64 },
    #[error("a logged write without data")]
    NoData,
    #[error("no volume has blocks of {0} bytes")]
    BlockSize(u64),
    #[error(transparent)]
    Dmu(#[from] DmuError),
    #[error(transparent)]
    Zio(#[from] ZioError),
}

/// A volume that its log is replayed into.
pub(crate) struct VolumeReplay {
    objset: Arc<Objset>,
    data: Arc<Dnode>,
    size_bytes: u64,
}

impl VolumeReplay {
    /// # Errors
    /// When the volume cannot be read.
    pub async fn of(name: &str, objset: &Arc<Objset>) -> Result<Self, PoolError> {
        let size_bytes = size_of(name, objset).await?;
        Ok(Self { objset: Arc::clone(objset), data: objset.hold(DATA).await?, size_bytes })
    }

    async fn replay(&self, record: &ReplayRecord, ctx: ReplayCtx<'_>) -> Result<Applied, VolumeReplayError> {
        match &record.record {
            LogRecord::Write(lr) => self.write(lr, record.block.as_ref(), ctx).await?,
            // The bytes came with the block that an earlier record names.
            LogRecord::Write2(_) => return Ok(Applied::Nothing),
            LogRecord::Truncate(lr) => self.free(lr.offset, lr.length, ctx).await?,
            LogRecord::CloneRange(lr) => self.copy(lr, ctx).await?,
            _ => return Err(VolumeReplayError::Foreign(record.record.tx_type().name())),
        }
        Ok(Applied::Done)
    }

    async fn write(
        &self,
        lr: &LrWrite,
        block: Option<&ReplayBlock>,
        ctx: ReplayCtx<'_>,
    ) -> Result<(), VolumeReplayError> {
        let (offset, bytes) = match (&lr.data, block) {
            (Some(data), _) => (lr.offset, data.as_slice()),
            (None, Some(block)) => (block.offset, &block.data[..]),
            (None, None) => return Err(VolumeReplayError::NoData),
        };
        self.check(lr.offset, lr.length)?;
        // A block may reach beyond the volume's end.
        let there = self.size_bytes.saturating_sub(offset).min(bytes.len() as u64);
        let plan = self.objset.plan(Estimate { write_bytes: there, ..Estimate::default() }).await?;
        self.data.write(&plan, offset, &bytes[..there as usize]).await?;
        Ok(plan.apply_with(|txg| ctx.note(txg))?)
    }

    /// What the record shares with another volume is read, and written here.
    async fn copy(&self, lr: &LrCloneRange, ctx: ReplayCtx<'_>) -> Result<(), VolumeReplayError> {
        self.check(lr.offset, lr.length)?;
        let end = lr.offset + lr.length;
        for (bp, offset) in lr.blkptrs.iter().zip((lr.offset..end).step_by(step(lr.block_bytes)?)) {
            let room = (end - offset).min(lr.block_bytes) as usize;
            let mut bytes = Vec::new();
            if !bp.is_hole() {
                bytes.extend_from_slice(&self.objset.zio().read(bp, &Bookmark::default()).await?);
            }
            bytes.resize(room, 0);
            let plan = self.objset.plan(Estimate { write_bytes: room as u64, ..Estimate::default() }).await?;
            self.data.write(&plan, offset, &bytes).await?;
            plan.apply_with(|txg| ctx.note(txg))?;
        }
        Ok(())
    }

    async fn free(&self, offset: u64, length: u64, ctx: ReplayCtx<'_>) -> Result<(), VolumeReplayError> {
        self.check(offset, length)?;
        let mut end = offset + length;
        while end > offset {
            let piece = self.data.last_piece(offset, end).await?;
            let estimate = Estimate { frees: true, freed_blocks: piece.blocks, ..Estimate::default() };
            let plan = self.objset.plan(estimate).await?;
            self.data.free_piece(&plan, &piece).await?;
            plan.apply_with(|txg| ctx.note(txg))?;
            end = piece.offset;
        }
        Ok(())
    }

    const fn check(&self, offset: u64, length: u64) -> Result<(), VolumeReplayError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(VolumeReplayError::TooFar { size_bytes: self.size_bytes }),
        }
    }
}

/// From block to block, if blocks of that size are possible.
fn step(block_bytes: u64) -> Result<usize, VolumeReplayError> {
    let is_possible = (1..=BLOCK_BYTES_MAX).contains(&block_bytes);
    is_possible.then_some(block_bytes as usize).ok_or(VolumeReplayError::BlockSize(block_bytes))
}

impl Replay for VolumeReplay {
    fn apply<'a>(
        &'a self,
        record: &'a ReplayRecord,
        ctx: ReplayCtx<'a>,
    ) -> BoxFuture<'a, Result<Applied, Arc<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move {
            let failed = |error| Arc::new(error) as Arc<dyn std::error::Error + Send + Sync>;
            self.replay(record, ctx).await.map_err(failed)
        })
    }
}
