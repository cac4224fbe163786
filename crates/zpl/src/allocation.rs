//! Size and holes of a file: truncate, fallocate, seek.

use std::ops::Range;
use std::sync::Arc;

use dmu::{FreePiece, Plan, SeekTo};
use env::boxed;
use journal::{Origin, Span};
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrTruncate;
use units::ObjectId;

use crate::access::Want;
use crate::error::{Result, ZplError};
use crate::file_io::FILE_BYTES_MAX;
use crate::mode::FileKind;
use crate::sa::ZplAttr;
use crate::zfs::Zfs;
use crate::znode::{Attributes, Znode, stamp_content};

/// The free space that a reservation needs, in percent of its size: OpenZFS's
/// `zfs_fallocate_reserve_percent`.
const RESERVE_PERCENT: u128 = 110;

/// What `fallocate` is to do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Ensures that later writes to the range succeed, as far as possible. Copy-on-write cannot
    /// guarantee that. So the call fails if there is not enough free space now, and otherwise only
    /// sets the size, unless the size is to be kept.
    Reserve {
        /// Do not make the file longer.
        keep_size: bool,
    },
    /// Make it a hole; the size stays.
    PunchHole,
    /// Make it read as zeros.
    Zero {
        /// Do not make the file longer.
        keep_size: bool,
    },
}

/// A change of a file's space as the log has it (`TX_TRUNCATE`): beyond the end, the file
/// grows by it; with a length, those bytes become a hole; without, the file ends there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceChange {
    pub offset: u64,
    pub length: u64,
}

impl Zfs {
    /// Changes the space of a file.
    ///
    /// # Errors
    /// [`ZplError::Invalid`] for an empty range; [`ZplError::TooBig`]; [`ZplError::NoSpace`] when
    /// the free space is smaller than the reservation.
    #[boxed]
    pub async fn allocate_range(
        &self,
        object: ObjectId,
        offset: u64,
        length: u64,
        how: Allocate,
    ) -> Result<Attributes> {
        self.check_writable()?;
        if length == 0 {
            return Err(ZplError::Invalid("an empty range"));
        }
        let end = offset.checked_add(length).filter(|&end| end <= FILE_BYTES_MAX).ok_or(ZplError::TooBig)?;
        if let Allocate::Reserve { .. } = how {
            self.check_room(object, length).await?;
        }
        let attributes = self
            .change_space_by(Origin::Client, object, |size| match how {
                Allocate::Reserve { keep_size: true } => None,
                Allocate::Reserve { keep_size: false } => {
                    (end > size).then_some(SpaceChange { offset: end, length: 0 })
                }
                Allocate::Zero { keep_size: false } => Some(SpaceChange { offset, length }),
                Allocate::PunchHole | Allocate::Zero { keep_size: true } => {
                    let length = end.min(size).saturating_sub(offset);
                    (length > 0).then_some(SpaceChange { offset, length })
                }
            })
            .await?;
        self.commit_if_always(object).await?;
        Ok(attributes)
    }

    /// Checks that there is room now for these bytes and their metadata.
    async fn check_room(&self, object: ObjectId, bytes: u64) -> Result<()> {
        let free = self.space_at(object).await?.free_bytes.min(self.space().available_bytes);
        let needed = u128::from(bytes) * RESERVE_PERCENT / 100;
        if needed > u128::from(free) { Err(ZplError::NoSpace) } else { Ok(()) }
    }

    /// Does what `decide` says for the file's size.
    pub(crate) async fn change_space_by(
        &self,
        origin: Origin<'_>,
        object: ObjectId,
        decide: impl FnOnce(u64) -> Option<SpaceChange>,
    ) -> Result<Attributes> {
        let znode = self.file(object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        znode.check_mutable(origin)?;
        self.check(origin, &znode, Want::WRITE).await?;
        let size = znode.size();
        let Some(change) = decide(size) else { return Ok(znode.attributes()) };
        let SpaceChange { offset, length } = change;
        let end = offset.checked_add(length).filter(|&end| end <= FILE_BYTES_MAX).ok_or(ZplError::TooBig)?;
        let punched = (length > 0 && offset < size).then(|| offset..end.min(size));
        let punched = match punched {
            Some(range) => Some(self.free_to_first(&znode, range, |_, _| Ok(())).await?),
            None => None,
        };
        let (plan, new_size) = match length {
            0 => (self.resize(&znode, offset).await?, offset),
            _ if end > size => (self.resize(&znode, end).await?, end),
            _ => (self.plan_freeing(punched.map_or(0, |piece| piece.blocks)).await?, size),
        };
        if let Some(piece) = punched {
            znode.dnode.free_piece(&plan, &piece).await?;
        }
        let mut image = znode.image();
        image.set_word(ZplAttr::Size, new_size);
        stamp_content(&mut image, self.content_time());
        znode.store(&plan, image)?;
        plan.apply_with(|txg| {
            if origin.is_replay() || znode.word(ZplAttr::Links) > 0 {
                self.journal.object(origin, txg, self.is_logged(), object, || {
                    LogRecord::Truncate(LrTruncate { object, offset, length })
                });
            }
        })?;
        Ok(znode.attributes())
    }

    /// Makes a file's blocks fit for another size, in the returned plan; the size itself is the caller's
    /// to store there. The caller holds the whole lock.
    pub(crate) async fn resize(&self, znode: &Arc<Znode>, size: u64) -> Result<Plan> {
        if size > FILE_BYTES_MAX {
            return Err(ZplError::TooBig);
        }
        let old = znode.size();
        if size >= old {
            let plan = self.plan().await?;
            if size > old {
                self.grow_block(&plan, znode, size).await?;
            }
            return Ok(plan);
        }
        let shorten = |plan: &Plan, end: u64| {
            let mut image = znode.image();
            image.set_word(ZplAttr::Size, old.min(end));
            znode.store(plan, image)
        };
        let piece = self.free_to_first(znode, size..u64::MAX, shorten).await?;
        let plan = self.plan_freeing(piece.blocks).await?;
        znode.dnode.free_piece(&plan, &piece).await?;
        if size == 0 {
            // The next block of the file may be larger.
            // (test: `an_emptied_file_gets_blocks_of_the_size_that_is_set_now`)
            znode.dnode.forget_blocks(&plan);
        }
        Ok(plan)
    }

    /// Frees a range of an object from its end, a piece in each change, and tells `each` where that began;
    /// leaves the first piece to the caller's own change.
    pub(crate) async fn free_to_first(
        &self,
        znode: &Znode,
        range: Range<u64>,
        each: impl Fn(&Plan, u64) -> Result<()>,
    ) -> Result<FreePiece> {
        let mut end = range.end;
        loop {
            let piece = znode.dnode.last_piece(range.start, end).await?;
            if piece.offset <= range.start {
                return Ok(piece);
            }
            let plan = self.plan_freeing(piece.blocks).await?;
            znode.dnode.free_piece(&plan, &piece).await?;
            each(&plan, piece.offset)?;
            plan.apply()?;
            end = piece.offset;
        }
    }

    /// The first byte at or after `offset` that is stored, or that is not (the end of the
    /// file counts as a hole).
    ///
    /// # Errors
    /// [`ZplError::NoSuchOffset`] at and past the end, and where no data follow.
    #[boxed]
    pub async fn seek(&self, object: ObjectId, offset: u64, to: SeekTo) -> Result<u64> {
        let znode = self.znode(object).await?;
        if znode.kind() != FileKind::File {
            return Err(ZplError::Invalid("only files have holes"));
        }
        let _shared = znode.lock.shared(Span::ALL).await;
        self.check(Origin::Client, &znode, Want::READ).await?;
        let size = znode.size();
        if offset >= size {
            return Err(ZplError::NoSuchOffset);
        }
        let found = znode.dnode.seek(offset, to).await?.filter(|&found| found < size);
        match (found, to) {
            (Some(found), _) => Ok(found),
            (None, SeekTo::Hole) => {
                // There are no blocks behind the last one ever written.
                let end =
                    (znode.dnode.max_block().get() + 1).saturating_mul(u64::from(znode.dnode.block_bytes()));
                Ok(end.clamp(offset, size))
            }
            (None, SeekTo::Data) => Err(ZplError::NoSuchOffset),
        }
    }
}
