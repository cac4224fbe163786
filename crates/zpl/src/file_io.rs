//! Reading and writing files.
//!
//! ```text
//!  write ─► lock the blocks it touches ─► plan ─► dnode, times, log ─┬─► done
//!           (everything, when it grows)                             └─► commit (O_SYNC)
//! ```
//! A file of one block grows that block in steps of 512 bytes up to the record size; from
//! the second block on the block size is fixed, and full records are written.
//!
//! Writers that stay within the file's size run side by side on different blocks. Whole
//! blocks, not bytes: two plans must not change parts of one block at the same time.
//! (test: `writers_of_neighbouring_bytes_lose_nothing`)

use std::sync::Arc;

use dmu::{Dnode, Plan};
use env::{BufSlice, boxed};
use journal::{LogWrite, Origin, Piece, RangeGuard, Span, Stored};
use ondisk::zil::LogRecord;
use units::{ObjectId, SECTOR_BYTES, round_up};

use crate::access::{Asker, Want};
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{FileKind, MODE_PERMISSIONS, MODE_SETGID, MODE_SETUID};
use crate::options::AtimePolicy;
use crate::quota::Charged;
use crate::sa::ZplAttr;
use crate::setattr::without_setid;
use crate::time::Timestamp;
use crate::zfs::Zfs;
use crate::znode::{Writable, Znode, stamp_content};

/// The first byte that no file can have.
pub(crate) const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// Bytes of one write that go into one transaction.
const CHUNK_BYTES: u64 = 4 << 20;
/// With relative access times, a time this old is renewed anyway.
const ATIME_STALE_SECS: i64 = 24 * 60 * 60;

/// How a write is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFlags {
    /// At the end of the file, whatever the offset (`O_APPEND`).
    pub append: bool,
    /// Stable when the call returns (`O_SYNC`, `O_DSYNC`).
    pub sync: bool,
    /// Drop the set-id bits: the writer has no right to keep them.
    pub drop_setid: bool,
}

impl Zfs {
    /// Fills `into` from byte `offset`; returns how many bytes there were before the end.
    ///
    /// # Errors
    /// [`ZplError::IsDirectory`] and [`ZplError::Invalid`] for what is no file; those of
    /// reading.
    #[boxed]
    pub async fn read(&self, object: ObjectId, offset: u64, into: &mut [u8]) -> Result<usize> {
        let (znode, _shared, there) = self.prepare_read(object, offset, into.len()).await?;
        znode.dnode.read(offset, &mut into[..there]).await?;
        self.os.uses().note_read(there);
        Ok(there)
    }

    /// The same as up to `len` bytes where they lie in memory, in order: nothing is copied. They stay as they are,
    /// whatever is written meanwhile.
    ///
    /// # Errors
    /// Those of [`Zfs::read`].
    #[boxed]
    pub async fn read_shared(&self, object: ObjectId, offset: u64, len: usize) -> Result<Vec<BufSlice>> {
        let (znode, _shared, there) = self.prepare_read(object, offset, len).await?;
        let read = znode.dnode.read_shared(offset, there).await?;
        self.os.uses().note_read(there);
        Ok(read)
    }

    /// The file that is to be read, locked for that, and how many of the `len` bytes come before its end.
    async fn prepare_read(
        &self,
        object: ObjectId,
        offset: u64,
        len: usize,
    ) -> Result<(Arc<Znode>, RangeGuard, usize)> {
        let znode = self.file(object).await?;
        let shared = znode.lock.shared(Span::new(offset, len.max(1) as u64)).await;
        znode.check_alive()?;
        self.check(Origin::Client, &znode, Want::READ).await?;
        let there = znode.size().saturating_sub(offset).min(len as u64) as usize;
        self.note_access(&znode);
        Ok((znode, shared, there))
    }

    /// Writes `data` at byte `offset`; all of it, or an error. Returns the offset it went to.
    ///
    /// # Errors
    /// [`ZplError::TooBig`], [`ZplError::NoSpace`], [`ZplError::NotPermitted`] where flags
    /// forbid it, and those of the layers below.
    #[boxed]
    pub async fn write(&self, object: ObjectId, offset: u64, data: &[u8], how: WriteFlags) -> Result<u64> {
        self.check_writable()?;
        let znode = self.file(object).await?;
        let (offset, data) = self.without_what_is_there(&znode, offset, data).await?;
        if data.is_empty() {
            return Ok(offset);
        }
        let commits = self.options().sync.commits(how.sync);
        let how = WriteFlags { drop_setid: how.drop_setid || self.drops_setid(), ..how };
        let offset = self.write_locked(&znode, offset, data, how, commits).await?;
        self.os.uses().note_write(data.len());
        if commits {
            self.journal.commit(Some(object)).await?;
        }
        Ok(offset)
    }

    /// What is new of pages that come from a cache, with what stood there before they were written to: of a file that takes
    /// more bytes and nothing else, where the rest is as it is.
    async fn without_what_is_there<'a>(
        &self,
        znode: &Arc<Znode>,
        offset: u64,
        data: &'a [u8],
    ) -> Result<(u64, &'a [u8])> {
        let grows_only = znode.word(ZplAttr::Flags) & flags::APPENDONLY != 0;
        if *self.asker() != Asker::Cache || !grows_only || offset >= znode.size() {
            return Ok((offset, data));
        }
        let len = data.len().min((znode.size() - offset) as usize);
        let mut there = vec![0; len];
        let read = self.read(znode.object(), offset, &mut there).await?;
        let is_there = read == len && there == data[..len];
        Ok(if is_there { (offset + len as u64, &data[len..]) } else { (offset, data) })
    }

    /// The time of new content, unless who asks keeps that.
    pub(crate) fn content_time(&self) -> Option<Timestamp> {
        (*self.asker() != Asker::Cache).then(|| self.now())
    }

    async fn write_locked(
        &self,
        znode: &Arc<Znode>,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        commits: bool,
    ) -> Result<u64> {
        let (_lock, growing, before) = self.lock_for_write(znode, offset, data.len() as u64, how).await;
        let offset = if how.append { before.size } else { offset };
        znode.check_write(before, offset)?;
        self.check(Origin::Client, znode, Want::WRITE).await?;
        let end = offset.checked_add(data.len() as u64).filter(|&end| end <= FILE_BYTES_MAX);
        end.ok_or(ZplError::TooBig)?;
        self.check_quotas(Charged::of(znode), false).await?;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let room = (CHUNK_BYTES - at % CHUNK_BYTES) as usize;
            let piece = Piece { offset: at, data: &data[done..data.len().min(done + room)] };
            done += piece.data.len();
            let plan = self.plan_writing(piece.data.len() as u64).await?;
            let grown = if growing { Some(self.grow(&plan, znode, piece.end(), how).await?) } else { None };
            let stored = Stored::plan(&plan, &znode.dnode, piece).await?;
            plan.apply_with(|txg| {
                match grown {
                    Some(Grown { drops_setid: true }) if before.is_linked => {
                        let record = || mode_record(znode);
                        self.journal.object(Origin::Client, txg, self.is_logged(), znode.object(), record);
                    }
                    Some(_) => {}
                    // Who keeps its times hands them over.
                    None => self.content_time().into_iter().for_each(|now| znode.touch(txg, now)),
                }
                if before.is_linked {
                    let policy = self.options().data_policy();
                    let write = LogWrite { piece, stored, size: before.size, commits, policy };
                    self.journal.log_write(txg, znode, write);
                }
            })?;
        }
        Ok(offset)
    }

    /// The lock that this write needs, whether it may change more than data and times, and what the
    /// file is like under that lock.
    async fn lock_for_write(
        &self,
        znode: &Znode,
        offset: u64,
        len: u64,
        how: WriteFlags,
    ) -> (RangeGuard, bool, Writable) {
        let setid = MODE_SETUID | MODE_SETGID;
        let may_share = |now: Writable| {
            let drops = how.drop_setid && now.mode & setid != 0;
            !how.append && !drops && offset.saturating_add(len) <= now.size
        };
        if may_share(znode.writable()) {
            let block_bytes = u64::from(znode.dnode.block_bytes());
            let start = offset - offset % block_bytes;
            let end = offset.saturating_add(len).next_multiple_of(block_bytes);
            let lock = znode.lock.exclusive(Span { start, end }).await;
            // The file may have shrunk, or its one block grown, while we waited.
            let now = znode.writable();
            if may_share(now) && u64::from(znode.dnode.block_bytes()) == block_bytes {
                return (lock, false, now);
            }
        }
        let lock = znode.lock.whole().await;
        (lock, true, znode.writable())
    }

    /// Plans what a write under the whole lock changes beside data: size, block size and mode.
    async fn grow(&self, plan: &Plan, znode: &Arc<Znode>, end: u64, how: WriteFlags) -> Result<Grown> {
        self.grow_block(plan, znode, end).await?;
        self.stamp_written(plan, znode, end, how)
    }

    /// The same without the block size.
    pub(crate) fn stamp_written(
        &self,
        plan: &Plan,
        znode: &Arc<Znode>,
        end: u64,
        how: WriteFlags,
    ) -> Result<Grown> {
        let mut image = znode.image();
        if end > image.word(ZplAttr::Size) {
            image.set_word(ZplAttr::Size, end);
        }
        let permissions = znode.mode() & MODE_PERMISSIONS;
        if how.drop_setid && without_setid(permissions) != permissions {
            let mode = znode.kind().mode_bits() | without_setid(permissions);
            image.set_word(ZplAttr::Mode, mode.into());
        }
        stamp_content(&mut image, self.content_time());
        let drops_setid = image.word(ZplAttr::Mode) as u32 != znode.mode();
        znode.store(plan, image)?;
        Ok(Grown { drops_setid })
    }

    /// Gives a file of at most one block the block size that suits a length of `end` bytes.
    pub(crate) async fn grow_block(&self, plan: &Plan, znode: &Znode, end: u64) -> Result<()> {
        let is_single =
            znode.dnode.max_block().get() == 0 && znode.size() <= u64::from(znode.dnode.block_bytes());
        if is_single { self.fit_block(plan, &znode.dnode, end).await } else { Ok(()) }
    }

    /// Makes the block of an object that has no second one large enough for `end` bytes, if a block may be.
    pub(crate) async fn fit_block(&self, plan: &Plan, dnode: &Arc<Dnode>, end: u64) -> Result<()> {
        let now = dnode.block_bytes();
        let wanted = block_bytes_for(now, self.options().record_bytes, end);
        if wanted > now {
            dnode.set_block_bytes(plan, wanted).await?;
        }
        Ok(())
    }

    /// A write from the log. Of `data` only what lies before `end` was written then; the rest
    /// came along in its block and does not make the file longer.
    pub(crate) async fn replay_write(
        &self,
        origin: Origin<'_>,
        object: ObjectId,
        offset: u64,
        data: &[u8],
        end: u64,
    ) -> Result<()> {
        let znode = self.file(object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        let data_end = offset.checked_add(data.len() as u64);
        data_end
            .map(|data_end| data_end.max(end))
            .filter(|&end| end <= FILE_BYTES_MAX)
            .ok_or(ZplError::TooBig)?;
        let piece = Piece { offset, data };
        let plan = self.plan_writing(data.len() as u64).await?;
        self.grow_block(&plan, &znode, piece.end()).await?;
        Stored::plan(&plan, &znode.dnode, piece).await?;
        let mut image = znode.image();
        image.set_word(ZplAttr::Size, image.word(ZplAttr::Size).max(end));
        stamp_content(&mut image, self.now());
        znode.store(&plan, image)?;
        Ok(plan.apply_with(|txg| {
            self.journal.write(origin, txg, false, || unreachable!("replay is not logged"));
        })?)
    }

    /// Makes a file's changes stable. `data_only` is what `fdatasync` asks for; attributes
    /// come along, for they are in the same records.
    ///
    /// # Errors
    /// When that is not possible: then nothing may be taken for stable.
    #[boxed]
    pub async fn fsync(&self, object: ObjectId, data_only: bool) -> Result<()> {
        let _ = data_only;
        self.commit_if_logged(Some(object)).await
    }

    /// A plain file.
    ///
    /// # Errors
    /// [`ZplError::IsDirectory`], [`ZplError::Invalid`].
    pub(crate) async fn file(&self, object: ObjectId) -> Result<Arc<Znode>> {
        let znode = self.znode(object).await?;
        match znode.kind() {
            FileKind::File => Ok(znode),
            FileKind::Directory => Err(ZplError::IsDirectory),
            _ => Err(ZplError::Invalid("only files have contents")),
        }
    }

    /// Sets the access time of an empty file that was opened for reading, if the policy asks for
    /// access times. The kernel sends no read request for an empty file. Returns true if the time
    /// was set.
    ///
    /// # Errors
    /// [`ZplError::Stale`] when the file is gone.
    #[boxed]
    pub async fn note_empty_read(&self, object: ObjectId) -> Result<bool> {
        let znode = self.znode(object).await?;
        let _shared = znode.lock.shared(Span::new(0, 1)).await;
        Ok(znode.check_alive().is_ok() && self.note_access(&znode))
    }

    /// Returns true if every read changes the access time of its file.
    #[must_use]
    pub fn notes_every_read(&self) -> bool {
        self.options().atime == AtimePolicy::Always && self.check_writable().is_ok()
    }

    /// Sets the access time, if the policy asks for access times. Returns true if the time was set.
    /// The caller holds a shared lock.
    pub(crate) fn note_access(&self, znode: &Znode) -> bool {
        if self.check_writable().is_err() {
            return false;
        }
        let due = match self.options().atime {
            AtimePolicy::Off => false,
            AtimePolicy::Always => true,
            AtimePolicy::Relative => {
                let now = self.now();
                let of = znode.attributes();
                of.atime <= of.mtime || of.atime <= of.ctime || of.atime.secs + ATIME_STALE_SECS <= now.secs
            }
        };
        if due {
            znode.set_atime(self.now());
        }
        due
    }
}

/// The block size of a file of `end` bytes that has blocks of `now` bytes and can still
/// choose.
fn block_bytes_for(now: u32, record_bytes: u32, end: u64) -> u32 {
    let most = if now > record_bytes { now.next_power_of_two() } else { record_bytes };
    let needed = u32::try_from(round_up(end, SECTOR_BYTES)).unwrap_or(u32::MAX);
    needed.min(most).max(now)
}

/// What a write changed beside data.
pub(crate) struct Grown {
    pub drops_setid: bool,
}

pub(crate) fn mode_record(znode: &Znode) -> LogRecord {
    use ondisk::zil::record::{LrSetattr, body::attr_mask};
    LogRecord::Setattr(LrSetattr {
        object: znode.object(),
        mask: attr_mask::MODE,
        mode: znode.mode().into(),
        ..LrSetattr::default()
    })
}

#[cfg(test)]
mod tests {
    use super::block_bytes_for;

    #[test]
    fn a_single_block_grows_by_sectors_up_to_a_record() {
        assert_eq!(block_bytes_for(512, 131_072, 1), 512);
        assert_eq!(block_bytes_for(512, 131_072, 513), 1024);
        assert_eq!(block_bytes_for(512, 131_072, 4097), 4608);
        assert_eq!(block_bytes_for(512, 131_072, 131_071), 131_072);
        assert_eq!(block_bytes_for(512, 131_072, 1 << 40), 131_072);
        assert_eq!(block_bytes_for(4608, 131_072, 100), 4608);
    }

    #[test]
    fn a_block_above_the_record_size_grows_to_its_power_of_two_only() {
        assert_eq!(block_bytes_for(20_480, 16_384, 1 << 20), 32_768);
        assert_eq!(block_bytes_for(32_768, 16_384, 1 << 20), 32_768);
    }
}
