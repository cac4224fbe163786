//! Checking and repairing all copies of a block.
//!
//! A read that finds one copy bad uses the next, and notes the block. It does not repair by itself:
//! a reader may hold a blkptr longer than its block lives, and what is then at the bad copy's place
//! may be another block, in good order. Who repairs has to know that the block is alive, and to
//! keep it so: looks the blkptr up again while holding a transaction open, for nothing freed is
//! used again before that one has synced. (A mirror's children hold the same, so that they can
//! repair each other at any time.) `pool` does so with every txg. A block of which no copy is good
//! is noted apart.

use std::sync::Arc;

use env::{BufSlice, Durability, OpenMode, boxed};
use ondisk::Blkptr;
use parking_lot::Mutex;
use vdev::{Address, VdevError};

use crate::embedded::{GANG_HEADER_BYTES, verify_gang_header};
use crate::gang::DEPTH_MAX;
use crate::stats::one_more;
use crate::{Bookmark, Zio, ZioError};

/// Blocks remembered; more damage than this calls for a scrub of everything.
const NOTED_MAX: usize = 1024;

/// A block of which a copy, or every copy, was found bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Damaged {
    /// As it was when it was read.
    pub bp: Blkptr,
    /// Where it belongs.
    pub bookmark: Bookmark,
}

/// Blocks noted, each once.
#[derive(Default)]
pub(crate) struct Damage(Mutex<Vec<Damaged>>);

impl Damage {
    pub(crate) fn note(&self, bp: &Blkptr, bookmark: &Bookmark) {
        let mut noted = self.0.lock();
        let damaged = Damaged { bp: *bp, bookmark: *bookmark };
        if noted.len() < NOTED_MAX && !noted.contains(&damaged) {
            noted.push(damaged);
        }
    }

    fn all(&self) -> Vec<Damaged> {
        self.0.lock().clone()
    }

    fn take(&self) -> Vec<Damaged> {
        std::mem::take(&mut self.0.lock())
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// What a scrub of a block found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Copies that were wrong, or could not be read: mirror children count singly.
    pub bad_copies: usize,
}

impl Zio {
    /// Blocks of which reads found bad copies since this was last asked.
    pub fn take_damaged(&self) -> Vec<Damaged> {
        self.damage.take()
    }

    /// Blocks of which reads found no copy at all since this was last asked: what a pool's error
    /// log is made of, once it is sure that they are alive.
    pub fn take_lost(&self) -> Vec<Damaged> {
        self.lost.take()
    }

    /// What [`Self::take_lost`] would say.
    #[must_use]
    pub fn lost(&self) -> Vec<Damaged> {
        self.lost.all()
    }

    /// Whether there is something to repair: [`Self::take_damaged`] would say what.
    #[must_use]
    pub fn has_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    /// Whether [`Self::take_lost`] has something to say.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Reads every copy of a block from every child of a mirror, and repairs those that are bad; of
    /// a gang, headers and members too. The caller makes sure that the block stays alive
    /// meanwhile. Holes and embedded blocks have nothing to check, nor have those of the txg being synced.
    ///
    /// # Errors
    /// As [`Self::read`], when no copy is good.
    #[boxed]
    pub async fn scrub(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Scrubbed, ZioError> {
        bp.check().map_err(|source| ZioError::BadBlkptr { bookmark: *bookmark, source })?;
        if bp.is_hole() || bp.is_embedded() || self.unstable.has(bp) {
            return Ok(Scrubbed::default());
        }
        let mut found = Scrubbed::default();
        let mut todo = vec![(*bp, 0)];
        while let Some((bp, depth)) = todo.pop() {
            found.bad_copies += self.scrub_one(&bp, bookmark).await?.bad_copies;
            if bp.is_gang() && depth < DEPTH_MAX {
                let gang = self.read_gang_header(&bp, bookmark).await?;
                todo.extend(gang.members.into_iter().map(|member| (member, depth + 1)));
            }
        }
        Ok(found)
    }

    /// All copies of a plain block, or of a gang's header.
    async fn scrub_one(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Scrubbed, ZioError> {
        if bp.is_gang() {
            let verify = |header: &[u8]| verify_gang_header(header, bp);
            return self.scrub_copies(bp, bookmark, GANG_HEADER_BYTES as u64, &verify).await;
        }
        let check = self.check_of(bp, bookmark)?;
        let is_whole = self.is_spared(bookmark)?;
        let verify = |bytes: &[u8]| is_whole && check.holds(bytes);
        self.scrub_copies(bp, bookmark, bp.psize().get(), &verify).await
    }

    async fn scrub_copies(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        bytes: u64,
        verify: &(dyn Fn(&[u8]) -> bool + Send + Sync),
    ) -> Result<Scrubbed, ZioError> {
        let (len, born) = (usize::try_from(bytes).unwrap_or(usize::MAX), bp.physical_birth());
        let (mut found, mut lost, mut is_good, mut is_damaged) =
            (Scrubbed::default(), Vec::new(), false, false);
        let mut last: Option<VdevError> = None;
        for dva in bp.dvas() {
            match self.vdevs.scrub(Address::of(&dva, born), len, verify).await {
                Ok(bad) => {
                    is_good = true;
                    found.bad_copies += bad;
                    if bad > 0 {
                        self.note_unflushed(dva.vdev);
                    }
                }
                Err(error) => {
                    is_damaged |= matches!(error, VdevError::Checksum { .. });
                    found.bad_copies += 1;
                    lost.push(dva);
                    last = Some(error);
                }
            }
        }
        match last {
            Some(source) if !is_good && !is_damaged => Err(ZioError::Read { bookmark: *bookmark, source }),
            Some(_) if !is_good => Err(ZioError::Checksum { bookmark: *bookmark }),
            _ => {
                self.repair(bp, bookmark, bytes, &lost, verify).await?;
                Ok(found)
            }
        }
    }

    /// Writes a good copy over those that a vdev has lost altogether.
    async fn repair(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        bytes: u64,
        lost: &[ondisk::Dva],
        verify: &(dyn Fn(&[u8]) -> bool + Send + Sync),
    ) -> Result<(), ZioError> {
        if lost.is_empty() || self.vdevs.mode() == OpenMode::ReadOnly {
            return Ok(());
        }
        let (len, born) = (usize::try_from(bytes).unwrap_or(usize::MAX), bp.physical_birth());
        let mut good = None;
        for dva in bp.dvas().filter(|dva| !lost.contains(dva)) {
            good = good.or(self.vdevs.read(Address::of(&dva, born), len, verify).await.ok());
        }
        let good = Arc::new(good.ok_or(ZioError::Checksum { bookmark: *bookmark })?);
        for dva in lost {
            let slices = vec![BufSlice::from(good.clone())];
            if self.vdevs.write(Address::of(dva, born), slices, Durability::Cached).await.is_ok() {
                self.note_unflushed(dva.vdev);
                one_more(&self.counters.repaired_copies);
            }
        }
        Ok(())
    }
}
