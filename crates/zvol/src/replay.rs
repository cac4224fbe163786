//! Replay of a volume's log.
//!
//! The records of a volume change its bytes, and nothing else: writes with their data, writes that name the volume's
//! block, and ranges that became holes. Nobody uses a volume before its log is replayed.
//! (pool's test: `what_a_volume_was_promised_is_replayed_at_import`)

use std::sync::Arc;

use env::BoxFuture;
use journal::{cloned_blocks, logged_bytes};
use ondisk::zil::LogRecord;
use ondisk::zil::record::{LrCloneRange, LrWrite};
use zil::{Applied, Replay, ReplayBlock, ReplayCtx, ReplayRecord};

use crate::{Volume, ZvolError};

impl Volume {
    async fn replay(&self, record: &ReplayRecord, ctx: ReplayCtx<'_>) -> Result<Applied, ZvolError> {
        match &record.record {
            LogRecord::Write(lr) => self.replay_write(lr, record.block.as_ref(), ctx).await?,
            // The bytes came with the block that an earlier record names.
            LogRecord::Write2(_) => return Ok(Applied::Nothing),
            LogRecord::Truncate(lr) => self.replay_free(lr.offset, lr.length, ctx).await?,
            LogRecord::CloneRange(lr) => self.replay_copy(lr, ctx).await?,
            _ => return Err(ZvolError::Foreign(record.record.tx_type().name())),
        }
        Ok(Applied::Done)
    }

    async fn replay_write(
        &self,
        lr: &LrWrite,
        block: Option<&ReplayBlock>,
        ctx: ReplayCtx<'_>,
    ) -> Result<(), ZvolError> {
        let (offset, bytes) = logged_bytes(lr, block).ok_or(ZvolError::NoData)?;
        self.check_within(lr.offset, lr.length)?;
        // A block may reach beyond the volume's end.
        let there = self.size_bytes().saturating_sub(offset).min(bytes.len() as u64);
        let plan = self.plan_writing(there).await?;
        self.data.write(&plan, offset, &bytes[..there as usize]).await?;
        Ok(plan.apply_with(|txg| ctx.note(txg))?)
    }

    /// What the record shares with another volume is read, and written here.
    async fn replay_copy(&self, lr: &LrCloneRange, ctx: ReplayCtx<'_>) -> Result<(), ZvolError> {
        self.check_within(lr.offset, lr.length)?;
        let blocks = cloned_blocks(lr, self.objset.id());
        for block in blocks.ok_or(ZvolError::BlockSize(lr.block_bytes))? {
            let bytes = block.read(self.objset.zio()).await?;
            let plan = self.plan_writing(bytes.len() as u64).await?;
            self.data.write(&plan, block.offset, &bytes).await?;
            plan.apply_with(|txg| ctx.note(txg))?;
        }
        Ok(())
    }

    async fn replay_free(&self, offset: u64, length: u64, ctx: ReplayCtx<'_>) -> Result<(), ZvolError> {
        self.check_within(offset, length)?;
        let mut end = offset + length;
        while end > offset {
            let piece = self.data.last_piece(offset, end).await?;
            let plan = self.plan_freeing(piece.blocks).await?;
            self.data.free_piece(&plan, &piece).await?;
            plan.apply_with(|txg| ctx.note(txg))?;
            end = piece.offset;
        }
        Ok(())
    }
}

impl Replay for Volume {
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
