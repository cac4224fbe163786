//! I/O on removed vdevs: on the pieces of a block, wherever they are.
//!
//! ```text
//!   one piece      the vdev that has it does all: it finds the right copy, and repairs the others
//!   several        each is read, the checksum of all together holds: done
//!                  else every copy of each piece, in all combinations, until it holds; then bad copies are repaired
//! ```
//! (tests: `a_block_in_pieces_is_read_whatever_copies_are_bad`, `a_block_in_pieces_that_is_lost_is_an_error`)

use std::collections::BTreeSet;
use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf};
use futures::future::try_join_all;
use parking_lot::Mutex;
use units::VdevId;

use super::{Located, Run};
use crate::{Address, Removed, Top, VdevError, VdevTree, Verify};

/// So many combinations of copies are tried (`zfs_reconstruct_indirect_combinations_max`).
const COMBINATIONS_MAX: usize = 4096;

impl VdevTree {
    /// Where a run is now: in one piece where it was, unless its vdev was removed.
    ///
    /// # Errors
    /// [`VdevError::Unmapped`] where a mapping has nothing of a piece, has not been read yet, or leads in a circle;
    /// [`VdevError::NoSuchVdev`].
    pub fn locate(&self, run: Run) -> Result<Located, VdevError> {
        if !self.top(run.vdev)?.is_removed() {
            return Ok(Located { pieces: vec![run], passed: Vec::new() });
        }
        let removed = self.removed_tops();
        let mapping_of = |vdev| {
            let top = removed.iter().find(|top| top.id() == vdev)?;
            top.removed().map(Removed::mapping)
        };
        Located::find(run, removed.len(), mapping_of)
    }

    /// All vdevs that were removed and whose blocks are elsewhere.
    #[must_use]
    pub fn removed_tops(&self) -> Vec<Arc<Top>> {
        self.tops().into_iter().filter(|top| top.is_removed()).collect()
    }

    /// Whether what is at a place may be called by another, too: it was copied from or to there when a vdev was removed.
    /// Of space that was freed and used again since, it also says so.
    #[must_use]
    pub fn may_have_two_names(&self, run: Run) -> bool {
        self.removed_tops().iter().any(|top| {
            top.id() == run.vdev || top.removed().is_some_and(|removed| removed.was_copied_to(run))
        })
    }

    /// Vdevs that a write to this one may have gone to.
    #[must_use]
    pub fn behind(&self, vdev: VdevId) -> Vec<VdevId> {
        match self.top(vdev) {
            Ok(top) if top.is_removed() => self.tops_with_devices().iter().map(|top| top.id()).collect(),
            _ => vec![vdev],
        }
    }

    /// The vdev of a piece.
    fn in_use(&self, piece: &Run) -> Result<Arc<Top>, VdevError> {
        self.top(piece.vdev)
    }

    /// The pieces of whole sectors at a place on a removed vdev.
    fn pieces(&self, top: &Top, at: Address, len: usize) -> Result<Vec<Run>, VdevError> {
        let len = top.ashift().round_up(len as u64);
        Ok(self.locate(Run { vdev: at.vdev, offset: at.offset, len })?.pieces)
    }

    pub(crate) async fn read_removed(
        &self,
        top: &Top,
        at: Address,
        len: usize,
        verify: Verify<'_>,
    ) -> Result<IoBuf, VdevError> {
        let pieces = self.pieces(top, at, len)?;
        if let [only] = pieces.as_slice() {
            return self.in_use(only)?.read(only.address(at.born), len, verify, self.heals()).await;
        }
        let mut whole = self.probe_pieces(&pieces, at, &|_| true).await?;
        whole.truncate(len);
        if verify(&whole) {
            return Ok(whole);
        }
        let right = self.search(&pieces, at, &|bytes| verify(&bytes[..len])).await?;
        let mut right = right.ok_or_else(|| top.nobody_has_it(at.offset, len))?;
        if self.heals() {
            self.scrub_pieces(&pieces, at, &right).await?;
        }
        right.truncate(len);
        Ok(right)
    }

    /// What the pieces hold, right or not.
    pub(crate) async fn probe_removed(
        &self,
        top: &Top,
        at: Address,
        len: usize,
        verify: Verify<'_>,
    ) -> Result<IoBuf, VdevError> {
        let pieces = self.pieces(top, at, len)?;
        if let [only] = pieces.as_slice() {
            return self.in_use(only)?.probe(only.address(at.born), len, verify, self.heals()).await;
        }
        let mut whole = self.probe_pieces(&pieces, at, &|_| true).await?;
        whole.truncate(len);
        Ok(whole)
    }

    pub(crate) async fn scrub_removed(
        &self,
        top: &Top,
        at: Address,
        len: usize,
        verify: Verify<'_>,
    ) -> Result<usize, VdevError> {
        let pieces = self.pieces(top, at, len)?;
        if let [only] = pieces.as_slice() {
            return self.in_use(only)?.scrub(only.address(at.born), len, verify, self.heals()).await;
        }
        let right = self.search(&pieces, at, &|bytes| verify(&bytes[..len])).await?;
        let right = right.ok_or_else(|| top.nobody_has_it(at.offset, len))?;
        self.scrub_pieces(&pieces, at, &right).await
    }

    /// Writes over what is mapped: only ever what belongs there, where it was bad.
    pub(crate) async fn write_removed(
        &self,
        top: &Top,
        at: Address,
        whole: BufSlice,
        durability: Durability,
    ) -> Result<(), VdevError> {
        let mut start = 0;
        for piece in self.pieces(top, at, whole.bytes().len())? {
            let end = (start + piece.bytes()).min(whole.bytes().len());
            let part = vec![whole.part(start..end)];
            self.in_use(&piece)?.write(piece.address(at.born), part, durability).await?;
            start = end;
        }
        Ok(())
    }

    async fn probe_pieces(
        &self,
        pieces: &[Run],
        at: Address,
        verify: Verify<'_>,
    ) -> Result<IoBuf, VdevError> {
        let probe = |piece: &Run| {
            let piece = *piece;
            async move {
                let top = self.in_use(&piece)?;
                top.probe(piece.address(at.born), piece.bytes(), verify, self.heals()).await
            }
        };
        let parts = try_join_all(pieces.iter().map(probe)).await?;
        Ok(joined(&parts.iter().map(|part| &part[..]).collect::<Vec<_>>()))
    }

    /// The first combination of copies that is right.
    async fn search(
        &self,
        pieces: &[Run],
        at: Address,
        is_right: Verify<'_>,
    ) -> Result<Option<IoBuf>, VdevError> {
        let copies = try_join_all(pieces.iter().map(|piece| self.copies(*piece, at))).await?;
        let mut chosen = vec![0; copies.len()];
        for _ in 0..COMBINATIONS_MAX {
            let parts: Vec<&[u8]> = copies.iter().zip(&chosen).map(|(copies, &at)| &copies[at][..]).collect();
            let whole = joined(&parts);
            if is_right(&whole) {
                return Ok(Some(whole));
            }
            if !next(&mut chosen, &copies) {
                break;
            }
        }
        Ok(None)
    }

    /// All different things that copies of a piece say.
    async fn copies(&self, piece: Run, at: Address) -> Result<Vec<Vec<u8>>, VdevError> {
        let seen = Mutex::new(BTreeSet::new());
        // Nothing is right for it, so that every copy is looked at.
        let look = |bytes: &[u8]| {
            seen.lock().insert(bytes.to_vec());
            false
        };
        self.in_use(&piece)?.probe(piece.address(at.born), piece.bytes(), &look, false).await?;
        Ok(seen.into_inner().into_iter().collect())
    }

    /// Repairs the copies of pieces that differ from the right bytes; says how many these were.
    async fn scrub_pieces(&self, pieces: &[Run], at: Address, right: &IoBuf) -> Result<usize, VdevError> {
        let (mut start, mut bad) = (0, 0);
        for piece in pieces {
            let part = &right[start..start + piece.bytes()];
            let top = self.in_use(piece)?;
            let is_right = |bytes: &[u8]| bytes == part;
            bad += top.scrub(piece.address(at.born), piece.bytes(), &is_right, self.heals()).await?;
            start += piece.bytes();
        }
        Ok(bad)
    }
}

/// The next combination of copies; false when all have been had.
fn next(chosen: &mut [usize], copies: &[Vec<Vec<u8>>]) -> bool {
    for (at, copies) in chosen.iter_mut().zip(copies) {
        *at = (*at + 1) % copies.len();
        if *at != 0 {
            return true;
        }
    }
    false
}

fn joined(parts: &[&[u8]]) -> IoBuf {
    IoBuf::copy_of(&parts.concat())
}
