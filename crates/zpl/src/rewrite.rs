//! `zfs rewrite`: the blocks of a file written once more, as its dataset's properties are now.
//!
//! Nothing changes that a program could see, so there are no new times, and the log is told nothing: a crash leaves each
//! block in the old place or in the new one, with the same bytes.
//! (tests: `rewritten_blocks_are_as_the_properties_are_now_and_nothing_else_changes`,
//! `a_power_cut_leaves_clones_whole_on_a_stripe`, which rewrites, too)

use dmu::SeekTo;
use env::boxed;
use journal::{Origin, Span};
use units::ObjectId;

use crate::access::Want;
use crate::error::Result;
use crate::quota::Charged;
use crate::zfs::Zfs;

/// Bytes that one transaction writes, unless one block is more.
const CHUNK_BYTES: u64 = 4 << 20;

impl Zfs {
    /// Writes the blocks anew that have some of the `len` bytes from `offset` on (0: all to the end). What lies beyond the
    /// end of the file is passed over, and so are holes.
    ///
    /// # Errors
    /// As [`Zfs::write`] and [`Zfs::read`]; what came before stays rewritten.
    #[boxed]
    pub async fn rewrite(&self, object: ObjectId, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        let znode = self.file(object).await?;
        let end = if len == 0 { u64::MAX } else { offset.saturating_add(len) };
        let mut at = offset;
        while at < end.min(znode.size()) {
            // Another writer may change that before the lock is taken: then it was he who wrote those blocks.
            match znode.dnode.seek(at, SeekTo::Data).await? {
                Some(data) => at = data,
                None => break,
            }
            let block_bytes = u64::from(znode.dnode.block_bytes());
            let blocks = end.div_ceil(block_bytes).min(at / block_bytes + (CHUNK_BYTES / block_bytes).max(1));
            let chunk = Span { start: at - at % block_bytes, end: blocks.saturating_mul(block_bytes) };
            let _lock = znode.lock.exclusive(chunk).await;
            let now = znode.writable();
            znode.check_write(now, at)?;
            self.check(Origin::Client, &znode, Want::WRITE).await?;
            if u64::from(znode.dnode.block_bytes()) != block_bytes {
                // Its only block has grown meanwhile.
                continue;
            }
            let chunk_end = chunk.end.min(end).min(now.size);
            if at >= chunk_end {
                break;
            }
            self.check_quotas(Charged::of(&znode), false).await?;
            let plan = self.plan_writing(chunk.end - chunk.start).await?;
            znode.dnode.rewrite_blocks(&plan, at / block_bytes..chunk_end.div_ceil(block_bytes)).await?;
            plan.apply()?;
            at = chunk.end;
        }
        Ok(())
    }
}
