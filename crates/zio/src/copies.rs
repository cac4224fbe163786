//! Copies of runs from a vdev that is being removed, made by the txg that is being synced.
//!
//! What a txg writes is kept in memory until it is stable, for a device may lose it ([`crate::unstable`]). These bytes need
//! not be: the old vdev has them for as long as the txg is not stable. So only the places are kept, and what may be lost
//! is copied again.
//! (test: `a_copy_that_a_device_may_have_lost_is_made_again`)

use std::ops::Range;

use env::boxed;
use futures::stream::{self, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use units::{Txg, VdevOffset};
use vdev::{Run, VdevError};

use crate::{Zio, ZioError};

/// Copies made again at a time.
const AT_ONCE: usize = 8;

/// A run of a vdev's space, whatever blocks that is of, and the place it is copied to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCopy {
    /// From where.
    pub from: Run,
    /// To where: as long.
    pub to: Run,
    /// Which of its bytes are of blocks; all others are nobody's, and may be anything.
    pub live: Vec<Range<usize>>,
}

impl RunCopy {
    /// The same copy without what lies between its live parts.
    fn parts(&self) -> impl Iterator<Item = Self> + '_ {
        self.live.iter().map(|part| {
            let at = |run: Run| Run {
                offset: VdevOffset::new(run.offset.get() + part.start as u64),
                len: part.len() as u64,
                ..run
            };
            Self { from: at(self.from), to: at(self.to), live: std::iter::once(0..part.len()).collect() }
        })
    }
}

/// The copies of the txg being synced, and how often the new vdev's devices had been opened anew when each began.
#[derive(Default)]
pub(crate) struct Copies(Mutex<Vec<(RunCopy, u64)>>);

impl Copies {
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    /// As if the devices that took them had been opened anew.
    #[cfg(test)]
    pub(crate) fn doubt(&self) {
        self.0.lock().iter_mut().for_each(|(_, reopened)| *reopened = u64::MAX);
    }
}

impl Zio {
    /// Copies a run in the txg being synced: it is stable when that is.
    ///
    /// # Errors
    /// As [`vdev::VdevTree::copy`].
    #[boxed]
    pub async fn copy_run(&self, copy: &RunCopy) -> Result<(), VdevError> {
        let done = match self.copy_at_once(copy).await {
            // What lies between its parts may be what cannot be read, or may be in the way.
            Err(_) if copy.live.len() > 1 => self.copy_parts(copy).await,
            done => done,
        };
        self.note_unflushed(copy.to.vdev);
        done
    }

    async fn copy_parts(&self, copy: &RunCopy) -> Result<(), VdevError> {
        for part in copy.parts() {
            self.copy_at_once(&part).await?;
        }
        Ok(())
    }

    async fn copy_at_once(&self, copy: &RunCopy) -> Result<(), VdevError> {
        let reopened = self.reopened(copy.to.vdev);
        self.vdevs().copy(copy.from, copy.to, &copy.live).await?;
        self.copies.0.lock().push((copy.clone(), reopened));
        Ok(())
    }

    /// Frees runs in `txg`, which is being synced.
    ///
    /// # Errors
    /// When one of them is not allocated. Nothing has changed then.
    pub fn free_runs(&self, txg: Txg, runs: &[Run]) -> Result<(), ZioError> {
        let mut allocator = self.allocator.lock();
        for dva in runs.iter().map(|run| run.dva()) {
            allocator.check_allocated(txg, &dva).map_err(|source| ZioError::Space { dva, source })?;
        }
        runs.iter().for_each(|run| allocator.free(txg, &run.dva()));
        Ok(())
    }

    /// Makes copies again that the devices which took them may have lost. What lay between their parts is somebody
    /// else's by now.
    pub(crate) async fn copy_lost_again(&self) -> Result<(), VdevError> {
        let is_lost = |(copy, reopened): &(RunCopy, u64)| self.reopened(copy.to.vdev) != *reopened;
        let lost: Vec<_> = {
            let mut copies = self.copies.0.lock();
            let (lost, kept) = copies.drain(..).partition(is_lost);
            *copies = kept;
            lost
        };
        let again = lost.iter().flat_map(|(copy, _)| copy.parts());
        let again = stream::iter(again.collect::<Vec<_>>())
            .map(|part| async move { self.copy_run(&part).await })
            .buffer_unordered(AT_ONCE);
        let done = again.try_collect::<()>().await;
        if done.is_err() {
            // The next try makes all of them.
            self.copies.0.lock().extend(lost);
        }
        done
    }
}
