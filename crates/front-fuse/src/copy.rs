//! `copy_file_range(2)`: bytes of a file become those of another, by sharing blocks as far as they can be shared, and
//! by copying the rest.
//!
//! ```text
//!   ├ copied to where a block begins ┤├─ whole blocks, shared ─┤├ copied ┤├─ hole, punched ─┤
//! ```
//! A long hole of the source becomes a hole of the target in one change, however long the hole is.
//! (test: `a_long_hole_is_copied_at_once`)
//!
//! That is how `cp --reflink=auto` shares blocks. `FICLONE` does not get here: FUSE has no request for it.

use rustix::io::Errno;
use units::ObjectId;
use zpl::{Allocate, FilePlace, SeekTo, SetAttributes, WriteFlags, ZplError};

use crate::abi::{CopyFileRangeIn, WriteOut};
use crate::data::{SETID, SYNC_HANDLE};
use crate::files::Files;
use crate::reply::Reply;
use crate::request::Request;

/// The most that one request shares: the answer has 32 bits.
const SHARE_BYTES: u64 = 1 << 30;
/// The most that one request copies: who waits for it can be interrupted after that.
const COPY_BYTES: u64 = 16 << 20;
/// Copied at a time.
const COPY_PIECE_BYTES: u64 = 1 << 20;
/// The shortest hole that is punched. Shorter holes are shared or copied with the blocks beside them.
const HOLE_MIN_BYTES: u64 = 16 << 20;

/// What is left to do of a request.
struct Copy<'a> {
    from: &'a Files,
    source: ObjectId,
    target: ObjectId,
    how: WriteFlags,
    off_in: u64,
    off_out: u64,
    left: u64,
    /// The size of the source in bytes.
    size: u64,
    /// Of the source.
    block_bytes: u64,
    /// Sharing is worth another try.
    shares: bool,
    copied: u64,
}

impl Copy<'_> {
    /// How many bytes there are from here to where a block begins, in both files.
    fn to_boundary(&self) -> Option<u64> {
        let within = |offset: u64| offset.checked_rem(self.block_bytes);
        let here = within(self.off_in).filter(|_| within(self.off_in) == within(self.off_out))?;
        Some((self.block_bytes - here) % self.block_bytes)
    }

    fn go_on(&mut self, bytes: u64) -> Result<(), Errno> {
        self.left -= bytes;
        self.off_in = self.off_in.checked_add(bytes).ok_or(Errno::FBIG)?;
        self.off_out = self.off_out.checked_add(bytes).ok_or(Errno::FBIG)?;
        Ok(())
    }
}

impl Files {
    /// Has bytes of a file of `from`, these files or a snapshot's of the same mount, be those of one here.
    pub async fn copy_file_range(
        &self,
        from: &Self,
        request: &mut Request<'_>,
        reply: &mut Reply,
    ) -> Result<(), Errno> {
        let args: CopyFileRangeIn = request.take()?;
        let (source, target) = (request.object(), self.own(args.nodeid_out).await?);
        let end_in = args.off_in.saturating_add(args.len);
        from.write_back(request.header.nodeid, args.off_in..end_in).await;
        // The request does not state whether the caller may keep set-id bits, so they are removed.
        let how =
            WriteFlags { sync: args.fh_out & SYNC_HANDLE != 0, drop_setid: true, ..WriteFlags::default() };
        let since = how.sync.then(|| self.syncs.now());
        // Kernels before Linux 5.3 do not remove the capabilities of the target themselves.
        self.run(self.zfs.drop_capability(target)).await?;
        let had_setid = self.run(self.zfs.attributes(target)).await?.permissions & SETID != 0;
        let of_source = self.run(from.zfs.attributes(source)).await?;
        let (size, block_bytes) = (of_source.size, u64::from(of_source.block_bytes));
        let wanted = args.len.min(SHARE_BYTES);
        let (off_in, off_out) = (args.off_in, args.off_out);
        let mut copy = Copy {
            from,
            source,
            target,
            how,
            off_in,
            off_out,
            left: wanted,
            size,
            block_bytes,
            shares: true,
            copied: 0,
        };
        while copy.left > 0 {
            match self.copy_some(&mut copy).await {
                Ok(0) => break,
                Ok(bytes) => copy.go_on(bytes)?,
                // What was done before is told of; the next request meets the error.
                Err(_) if copy.left < wanted => break,
                Err(error) => return Err(error),
            }
        }
        if let Some(since) = since {
            self.syncs.note(request.header.pid, since);
        }
        if had_setid {
            self.notifier.forget_attributes(args.nodeid_out);
        }
        reply.put(&WriteOut { size: (wanted - copy.left) as u32, padding: 0 });
        Ok(())
    }

    /// Shares or copies what comes next; how many bytes. 0: the source ends here, or one request has done enough.
    async fn copy_some(&self, copy: &mut Copy<'_>) -> Result<u64, Errno> {
        if let Some(hole) = self.long_hole(copy).await? {
            self.punch(copy, hole).await?;
            return Ok(hole);
        }
        let boundary = copy.to_boundary();
        if copy.shares && boundary == Some(0) {
            let place = FilePlace { zfs: &copy.from.zfs, object: copy.source, offset: copy.off_in };
            let target = (copy.target, copy.off_out);
            let shared = self.run(self.zfs.clone_range(place, target, copy.left, copy.how)).await?;
            if shared > 0 {
                return Ok(shared);
            }
            copy.shares = false;
        }
        let most = boundary.filter(|&bytes| bytes > 0 && copy.shares).unwrap_or(COPY_PIECE_BYTES);
        let room = COPY_BYTES.saturating_sub(copy.copied);
        let mut piece = vec![0; copy.left.min(most).min(COPY_PIECE_BYTES).min(room) as usize];
        let len = self.run(copy.from.zfs.read(copy.source, copy.off_in, &mut piece)).await?;
        if len > 0 {
            self.run(self.zfs.write(copy.target, copy.off_out, &piece[..len], copy.how)).await?;
        }
        copy.copied += len as u64;
        Ok(len as u64)
    }

    /// Returns the length of the hole of the source that is next, if the hole is long.
    async fn long_hole(&self, copy: &Copy<'_>) -> Result<Option<u64>, Errno> {
        let most = copy.left.min(copy.size.saturating_sub(copy.off_in));
        if most < HOLE_MIN_BYTES {
            return Ok(None);
        }
        // The first blocks of a target decide the size of all its blocks. Shared blocks, holes among
        // them, give a target the block size of the source.
        let target = self.run(self.zfs.attributes(copy.target)).await?;
        if copy.shares && u64::from(target.block_bytes) != copy.block_bytes {
            return Ok(None);
        }
        let data = match copy.from.zfs.seek(copy.source, copy.off_in, SeekTo::Data).await {
            Ok(data) => data,
            Err(ZplError::NoSuchOffset) => u64::MAX,
            Err(error) => return self.run(async { Err(error) }).await,
        };
        Ok(Some(most.min(data - copy.off_in)).filter(|&hole| hole >= HOLE_MIN_BYTES))
    }

    /// Makes the next bytes of the target a hole, and the target longer if it ends before.
    async fn punch(&self, copy: &Copy<'_>, bytes: u64) -> Result<(), Errno> {
        let how = Allocate::Zero { keep_size: false };
        let now = self.run(self.zfs.allocate_range(copy.target, copy.off_out, bytes, how)).await?;
        if now.permissions & SETID != 0 {
            let drop = SetAttributes { drop_setid: true, ..SetAttributes::default() };
            self.run(self.zfs.set_attributes(copy.target, drop)).await?;
        }
        if copy.how.sync {
            self.run(self.zfs.fsync(copy.target, true)).await?;
        }
        Ok(())
    }
}
