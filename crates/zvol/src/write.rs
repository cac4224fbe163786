//! Changes of a volume's bytes: written, freed, made stable.

use std::sync::Arc;

use dmu::{Estimate, Plan};
use env::boxed;
use journal::{LogWrite, Origin, Piece, RangeGuard, Span, Stored};
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrTruncate;

use crate::ZvolError;
use crate::volume::{DATA, Volume};

/// One change writes so much at most; each is whole or not at all after a crash.
const CHUNK_BYTES: u64 = 1 << 20;

impl Volume {
    /// Writes `data` at byte `offset`: all of it, or an error. `sync`: it is stable when this returns (unless the property
    /// `sync` says otherwise).
    ///
    /// # Errors
    /// [`ZvolError::TooFar`], [`ZvolError::ReadOnly`], [`ZvolError::Closed`]; when there is no space, or a block that is
    /// written in part cannot be read.
    #[boxed]
    pub async fn write(self: &Arc<Self>, offset: u64, data: &[u8], sync: bool) -> Result<(), ZvolError> {
        let commits = self.options().policy.sync.commits(sync);
        self.write_locked(offset, data, commits).await?;
        self.objset.uses().note_write(data.len());
        if commits { self.flush().await } else { Ok(()) }
    }

    async fn write_locked(
        self: &Arc<Self>,
        offset: u64,
        data: &[u8],
        commits: bool,
    ) -> Result<(), ZvolError> {
        let _lock = self.lock_blocks(offset, data.len() as u64).await;
        self.check_change(offset, data.len() as u64)?;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let room = (CHUNK_BYTES - at % CHUNK_BYTES) as usize;
            let piece = Piece { offset: at, data: &data[done..data.len().min(done + room)] };
            done += piece.data.len();
            let plan = self.plan_writing(piece.data.len() as u64).await?;
            let stored = Stored::plan(&plan, &self.data, piece).await?;
            let (size, policy) = (self.size_bytes(), self.options().policy);
            plan.apply_with(|txg| {
                let write = LogWrite { piece, stored, size, commits, policy };
                self.journal.log_write(txg, self, write);
            })?;
        }
        Ok(())
    }

    /// Makes holes of `length` bytes from `offset`: they read as zeros, and whole blocks take no space any more.
    ///
    /// # Errors
    /// As [`Volume::write`].
    #[boxed]
    pub async fn free(&self, offset: u64, length: u64, sync: bool) -> Result<(), ZvolError> {
        let policy = self.options().policy.sync;
        {
            let _lock = self.lock_blocks(offset, length).await;
            self.check_change(offset, length)?;
            self.free_in_pieces(offset, offset + length, policy.is_logged()).await?;
        }
        if policy.commits(sync) { self.flush().await } else { Ok(()) }
    }

    /// Frees a range from its end, so many blocks in each change; the caller holds its lock.
    pub(crate) async fn free_in_pieces(
        &self,
        offset: u64,
        mut end: u64,
        logged: bool,
    ) -> Result<(), ZvolError> {
        while end > offset {
            let piece = self.data.last_piece(offset, end).await?;
            let plan = self.plan_freeing(piece.blocks).await?;
            self.data.free_piece(&plan, &piece).await?;
            plan.apply_with(|txg| {
                self.journal.object(Origin::Client, txg, logged, DATA, || {
                    let length = piece.end - piece.offset;
                    LogRecord::Truncate(LrTruncate { object: DATA, offset: piece.offset, length })
                });
            })?;
            end = piece.offset;
        }
        Ok(())
    }

    /// Makes stable what was changed before (`sync=disabled`: leaves that to txgs).
    ///
    /// # Errors
    /// When that is not possible: then nothing may be taken for stable.
    #[boxed]
    pub async fn flush(&self) -> Result<(), ZvolError> {
        if self.options().policy.sync.is_logged() {
            self.journal.commit(Some(DATA)).await?;
        }
        Ok(())
    }

    /// Keeps others from the blocks that a range has a part in: two writers into one block would each write the whole of it.
    async fn lock_blocks(&self, offset: u64, length: u64) -> RangeGuard {
        let block_bytes = u64::from(self.block_bytes());
        let end = offset.saturating_add(length).checked_next_multiple_of(block_bytes);
        let span = Span { start: offset - offset % block_bytes, end: end.unwrap_or(u64::MAX) };
        self.lock.exclusive(span).await
    }

    pub(crate) async fn plan_writing(&self, write_bytes: u64) -> Result<Plan, ZvolError> {
        Ok(self.objset.plan(Estimate { write_bytes, ..Estimate::default() }).await?)
    }

    pub(crate) async fn plan_freeing(&self, freed_blocks: u64) -> Result<Plan, ZvolError> {
        Ok(self.objset.plan(Estimate { frees: true, freed_blocks, ..Estimate::default() }).await?)
    }
}
