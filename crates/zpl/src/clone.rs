//! Cloning: a file gets blocks that another has, or had in a snapshot, and nothing is read or written.
//!
//! ```text
//!  source, nobody writes it    ─► pointers of some blocks ─┐
//!                                                          ├─► plan ─► block size, blocks, size, times, log ─► again
//!  target, nobody else uses it ────────────────────────────┘
//! ```
//! Blocks are shared whole or not at all: both files have the same block size (a target of one block gets it), and both
//! offsets lie where a block begins. What is left is for the caller to copy, and how much was shared is all that he
//! is told. The rules are those of OpenZFS, so that whatever is shared here is shared there.
//! (test: `only_whole_blocks_are_shared`)
//!
//! A block that no stable txg has cannot be shared. One waits for it where the copy would be long, and else copies.
//!
//! The record of a clone names the blocks. They stay allocated until it is replayed: an import counts them as the
//! log's own before anything is freed. (test: `a_logged_clone_is_replayed_though_its_source_is_gone`)

use std::cmp::Ordering;
use std::sync::Arc;

use dmu::Clonable;
use env::boxed;
use journal::{Origin, RangeGuard, Span};
use ondisk::zil::record::LrCloneRange;
use ondisk::{Blkptr, LogRecord};
use units::{BlockId, ObjectId};

use crate::access::Want;
use crate::error::{Result, ZplError};
use crate::file_io::{FILE_BYTES_MAX, Grown, WriteFlags, mode_record};
use crate::flags;
use crate::quota::Charged;
use crate::sa::ZplAttr;
use crate::zfs::Zfs;
use crate::znode::{Znode, stamp_content};

/// Blocks that one change shares: its record, which has 128 bytes for each, is to fit in a log block.
const BLOCKS_AT_ONCE: u64 = 256;
/// What is dirty is copied if the clone is shorter than this: waiting for a txg takes longer.
const WAIT_MIN_BYTES: u64 = 4 << 20;
/// Txgs that a clone waits for, if somebody keeps changing its source.
const TXGS_AWAITED: usize = 3;

/// A place in a file.
#[derive(Clone, Copy)]
pub struct FilePlace<'a> {
    /// Whose file, and on whose behalf it is used.
    pub zfs: &'a Zfs,
    /// The file.
    pub object: ObjectId,
    /// The byte in it.
    pub offset: u64,
}

impl FilePlace<'_> {
    fn after(self, bytes: u64) -> Self {
        Self { offset: self.offset.saturating_add(bytes), ..self }
    }

    /// How many of `len` bytes there are from here.
    fn left_of(self, znode: &Znode, len: u64) -> u64 {
        znode.size().saturating_sub(self.offset).min(len)
    }
}

/// What a try to share blocks has come to.
enum Tried {
    /// So many bytes are shared; 0: what comes next cannot be.
    Shared(u64),
    /// What comes next is in no stable txg yet.
    Dirty,
}

/// What a file is like, as far as cloning goes, and where in it one is.
#[derive(Clone, Copy, Debug)]
struct Side {
    block_bytes: u64,
    size: u64,
    offset: u64,
}

impl Side {
    fn of(znode: &Znode, offset: u64) -> Self {
        Self { block_bytes: znode.dnode.block_bytes().into(), size: znode.size(), offset }
    }
}

impl Zfs {
    /// Has bytes of a file be those of another in the same pool, by sharing blocks. Tells how many, from the beginning,
    /// are shared now: fewer than `len`, or none, where the rest has to be copied.
    ///
    /// # Errors
    /// As [`Zfs::write`] of the target, and [`Zfs::read`] of the source; nothing is shared then.
    #[boxed]
    pub async fn clone_range(
        &self,
        from: FilePlace<'_>,
        (to, offset): (ObjectId, u64),
        len: u64,
        how: WriteFlags,
    ) -> Result<u64> {
        self.check_writable()?;
        if !self.may_clone_from(from.zfs) {
            return Ok(0);
        }
        let (source, target) = (from.zfs.file(from.object).await?, self.file(to).await?);
        let commits = self.options().sync.commits(how.sync);
        let how = WriteFlags { drop_setid: how.drop_setid || self.drops_setid(), ..how };
        let (mut done, mut waits) = (0, TXGS_AWAITED);
        while done < len {
            let at = (&target, offset.saturating_add(done));
            match self.clone_some(from.after(done), &source, at, len - done, how).await {
                Ok(Tried::Shared(0)) => break,
                Ok(Tried::Shared(bytes)) => done += bytes,
                Ok(Tried::Dirty)
                    if waits > 0 && from.after(done).left_of(&source, len - done) >= WAIT_MIN_BYTES =>
                {
                    waits -= 1;
                    self.os.txgs().wait_synced(self.os.txgs().open_txg()).await?;
                }
                Ok(Tried::Dirty) => break,
                // The copy of what comes next meets the error again.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        if done > 0 && commits {
            self.journal.commit(Some(to)).await?;
        }
        Ok(done)
    }

    /// Whether files here may have blocks of files there. Where the two would not have stored them alike, a copy is what
    /// makes the target's properties true; what a snapshot has was stored long ago.
    fn may_clone_from(&self, from: &Self) -> bool {
        if !self.options().clone_blocks || !Arc::ptr_eq(self.os.zio(), from.os.zio()) {
            return false;
        }
        let (ours, theirs) = (self.os.props().data, from.os.props().data);
        let is_alike = (ours.checksum, ours.compression, ours.copies, ours.special_small_bytes)
            == (theirs.checksum, theirs.compression, theirs.copies, theirs.special_small_bytes);
        is_alike || from.options().read_only
    }

    async fn clone_some(
        &self,
        from: FilePlace<'_>,
        source: &Arc<Znode>,
        (target, offset): (&Arc<Znode>, u64),
        len: u64,
        how: WriteFlags,
    ) -> Result<Tried> {
        let _locks = lock_both((source, from.offset, len), target).await;
        source.check_alive()?;
        from.zfs.check(Origin::Client, source, Want::READ).await?;
        let before = target.writable();
        target.check_write(before, offset)?;
        self.check(Origin::Client, target, Want::WRITE).await?;
        self.check_quotas(Charged::of(target), false).await?;
        let is_quarantined = source.word(ZplAttr::Flags) & flags::AV_QUARANTINED != 0;
        let is_itself = Arc::ptr_eq(source, target);
        let (there, here) = (Side::of(source, from.offset), Side::of(target, offset));
        let len = shareable(there, here, len, self.options().record_bytes.into());
        if is_quarantined || (is_itself && from.offset.abs_diff(offset) < len) {
            return Ok(Tried::Shared(0));
        }
        let block_bytes = there.block_bytes;
        let pointers = match pointers(source, from.offset / block_bytes, len.div_ceil(block_bytes)).await? {
            Some(pointers) => pointers,
            None => return Ok(Tried::Dirty),
        };
        let len = len.min(pointers.len() as u64 * block_bytes);
        let end = offset.checked_add(len).filter(|&end| end <= FILE_BYTES_MAX).ok_or(ZplError::TooBig)?;
        if len == 0 || !is_one_size(target, block_bytes) {
            return Ok(Tried::Shared(0));
        }
        let plan = self.plan_writing(len).await?;
        if here.block_bytes != block_bytes {
            target.dnode.set_block_bytes(&plan, block_bytes as u32).await?;
        }
        target.dnode.share_blocks(&plan, BlockId::new(offset / block_bytes), &pointers).await?;
        let Grown { drops_setid } = self.stamp_written(&plan, target, end, how)?;
        plan.apply_with(|txg| {
            let (logged, object) = (self.is_logged() && before.is_linked, target.object());
            if drops_setid {
                self.journal.object(Origin::Client, txg, logged, object, || mode_record(target));
            }
            self.journal.object(Origin::Client, txg, logged, object, || {
                LogRecord::CloneRange(LrCloneRange {
                    object,
                    offset,
                    length: len,
                    block_bytes,
                    blkptrs: pointers,
                })
            });
        })?;
        from.zfs.note_access(source);
        Ok(Tried::Shared(len))
    }

    /// Shares what the record names; false where the file has other blocks now, so that they have to be copied.
    pub(crate) async fn replay_sharing(&self, origin: Origin<'_>, lr: &LrCloneRange) -> Result<bool> {
        let znode = self.file(lr.object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        let block_bytes = lr.block_bytes;
        let is_whole = block_bytes > 0 && lr.offset.is_multiple_of(block_bytes);
        let end = lr.offset.checked_add(lr.length).filter(|&end| end <= FILE_BYTES_MAX);
        let end = end.ok_or(ZplError::TooBig)?;
        let is_other = |bp: &Blkptr| !bp.is_hole() && bp.lsize().get() != block_bytes;
        if !self.options().clone_blocks
            || !is_whole
            || lr.length.div_ceil(block_bytes) != lr.blkptrs.len() as u64
            || lr.blkptrs.iter().any(is_other)
            || !is_one_size(&znode, block_bytes)
        {
            return Ok(false);
        }
        let plan = self.plan_writing(lr.length).await?;
        if u64::from(znode.dnode.block_bytes()) != block_bytes {
            znode.dnode.set_block_bytes(&plan, block_bytes as u32).await?;
        }
        znode.dnode.share_blocks(&plan, BlockId::new(lr.offset / block_bytes), &lr.blkptrs).await?;
        let mut image = znode.image();
        image.set_word(ZplAttr::Size, image.word(ZplAttr::Size).max(end));
        stamp_content(&mut image, self.now());
        znode.store(&plan, image)?;
        plan.apply_with(|txg| {
            self.journal.object(origin, txg, false, lr.object, || unreachable!("replay is not logged"));
        })?;
        Ok(true)
    }
}

/// Whether a file has blocks of that size, or can get them.
fn is_one_size(znode: &Znode, block_bytes: u64) -> bool {
    let now = u64::from(znode.dnode.block_bytes());
    now == block_bytes || (now < block_bytes && znode.dnode.max_block().get() == 0 && znode.size() <= now)
}

/// Keeps others from changing what is cloned, and from using what it is cloned into; two files in one order, whoever
/// locks them.
async fn lock_both(
    (source, offset, len): (&Arc<Znode>, u64, u64),
    target: &Arc<Znode>,
) -> [Option<RangeGuard>; 2] {
    let span = Span::new(offset, len.max(1));
    let place = |znode: &Znode| (znode.dnode.objset(), znode.object());
    match place(source).cmp(&place(target)) {
        Ordering::Equal => [Some(target.lock.whole().await), None],
        Ordering::Less => [Some(source.lock.shared(span).await), Some(target.lock.whole().await)],
        Ordering::Greater => [Some(target.lock.whole().await), Some(source.lock.shared(span).await)],
    }
}

/// How many bytes can be shared, from the beginning and at once.
fn shareable(from: Side, to: Side, len: u64, record_bytes: u64) -> u64 {
    let block = from.block_bytes;
    let len = len.min(from.size.saturating_sub(from.offset)).min(block * BLOCKS_AT_ONCE);
    let is_odd_second = to.offset > 0 && !block.is_power_of_two();
    let is_aligned = from.offset.is_multiple_of(block) && to.offset.is_multiple_of(block);
    let has_room = to.block_bytes == block || (to.block_bytes < block && to.size <= to.block_bytes);
    if is_odd_second || !is_aligned || !has_room {
        return 0;
    }
    // A part of a block is shared only where both files end in it.
    let ends = from.offset + len == from.size && to.offset.saturating_add(len) >= to.size;
    let len = if ends { len } else { len - len % block };
    // Or a file would have small blocks for ever, however long it becomes.
    let stays_small =
        len <= block && block < record_bytes && to.size <= block && to.offset.saturating_add(len) > block;
    if stays_small { 0 } else { len }
}

/// The pointers of up to `count` blocks from `first` on, as far as they can be shared; `None` where the first of them is
/// in no stable txg.
async fn pointers(source: &Znode, first: u64, count: u64) -> Result<Option<Vec<Blkptr>>> {
    let mut pointers = Vec::with_capacity(count as usize);
    let own = u64::from(source.dnode.block_bytes());
    for block in first..first + count {
        match source.dnode.clonable(BlockId::new(block)).await? {
            Clonable::Block(bp) if bp.is_hole() || bp.lsize().get() == own => pointers.push(bp),
            Clonable::Dirty if pointers.is_empty() => return Ok(None),
            Clonable::Block(_) | Clonable::Dirty | Clonable::Never => break,
        }
    }
    Ok(Some(pointers))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: u64 = 128 << 10;

    fn side(block_bytes: u64, size: u64, offset: u64) -> Side {
        Side { block_bytes, size, offset }
    }

    #[test]
    fn only_whole_blocks_are_shared() {
        let file = |offset| side(RECORD, 10 * RECORD, offset);
        let empty = side(512, 0, 0);
        assert_eq!(shareable(file(0), empty, u64::MAX, RECORD), 10 * RECORD);
        assert_eq!(shareable(file(RECORD), empty, 3 * RECORD + 5, RECORD), 3 * RECORD);
        assert_eq!(shareable(file(0), file(RECORD), RECORD - 1, RECORD), 0);
        assert_eq!(shareable(file(512), empty, RECORD, RECORD), 0, "from the middle of a block");
        assert_eq!(shareable(file(0), file(512), RECORD, RECORD), 0, "into the middle of a block");
        assert_eq!(shareable(file(10 * RECORD), empty, RECORD, RECORD), 0, "behind the end");
        let long = side(RECORD, 10_000 * RECORD, 0);
        assert_eq!(shareable(long, empty, u64::MAX, RECORD), BLOCKS_AT_ONCE * RECORD);
    }

    #[test]
    fn the_last_block_is_shared_in_part_only_where_both_files_end() {
        let size = 3 * RECORD + 100;
        let from = side(RECORD, size, 0);
        assert_eq!(shareable(from, side(512, 0, 0), u64::MAX, RECORD), size);
        assert_eq!(shareable(from, side(RECORD, size, 0), size, RECORD), size);
        assert_eq!(shareable(from, side(RECORD, size + 1, 0), size, RECORD), 3 * RECORD);
        assert_eq!(shareable(from, side(RECORD, 0, 0), size - 1, RECORD), 3 * RECORD);
    }

    #[test]
    fn files_of_other_blocks_share_none_and_small_files_do_not_fix_their_block_size() {
        let small = side(4096, 4096, 0);
        assert_eq!(shareable(small, side(512, 0, 0), 4096, RECORD), 4096);
        assert_eq!(shareable(small, side(RECORD, RECORD, 0), 4096, RECORD), 0);
        assert_eq!(shareable(side(RECORD, RECORD, 0), side(4096, 8192, 0), RECORD, RECORD), 0);
        assert_eq!(shareable(small, side(4096, 4096, 4096), 4096, RECORD), 0, "a second small block");
        assert_eq!(shareable(small, side(4096, 4096, 4096), 4096, 4096), 4096);
        assert_eq!(shareable(side(1536, 1500, 0), side(1536, 1500, 1536), 1500, RECORD), 0, "an odd second");
        assert_eq!(shareable(side(1536, 1500, 0), side(512, 0, 0), 1500, RECORD), 1500);
    }
}
