//! An error scrub reads only the blocks of the list of errors again (`zpool scrub -e`).
//!
//! ```text
//!   list of errors ─► pointers in head and snapshots ─► scrub ─► all whole, or gone ─► off the list
//!                                                         └────► one cannot be read ─► stays
//! ```
//! The state on disk has OpenZFS's layout (`error_scrub` in the directory of the meta-objset). The
//! cursor in the state is not used: an import goes on with all errors that are left. The list on
//! disk is written anew when the error scrub is paused or over, and when the pool is exported.
//!
//! An error scrub and a scrub are never under way at the same time.
//! (test: `an_error_scrub_and_a_scrub_exclude_each_other`)

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dmu::zap::ZapValue;
use dmu::{DmuError, Objset, Tx};
use dsl::features::HEAD_ERRLOG;
use dsl::{DatasetName, DslError, ErrorLog};
use env::{IoClass, boxed, in_class};
use event_listener::Event;
use futures::future::join_all;
use ondisk::Blkptr;
use ondisk::dsl::scan::{ErrorScrubPhys, func, state};
use ondisk::mos::directory;
use parking_lot::Mutex;
use units::{ObjectId, ObjsetId, Txg};
use zio::Bookmark;

use super::scrub::ScrubRefusal;
use crate::{BackgroundWork, Pool, PoolError};

/// Blocks read at a time.
const AT_ONCE: usize = 8;

/// The last or running error scrub of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorScrubReport {
    /// The state on disk.
    pub phys: ErrorScrubPhys,
    /// Since when it is paused, in seconds since 1970.
    pub paused_at: Option<u64>,
}

/// The state of error scrubs in one pool.
#[derive(Default)]
pub(crate) struct ErrorScrubs {
    now: Mutex<Now>,
    halting: AtomicBool,
    halted: Event,
}

#[derive(Clone, Default)]
struct Now {
    phys: ErrorScrubPhys,
    paused_at: Option<u64>,
    running: bool,
    /// Blocks that are still to be read.
    left: VecDeque<Bookmark>,
    /// The newest txg whose blocks may have the errors. A block of a later txg was written in place
    /// of a damaged block.
    up_to: Txg,
}

impl Now {
    fn is_under_way(&self) -> bool {
        self.phys.state.get() == state::ERROR_SCRUBBING
    }

    fn set_paused(&mut self, at: Option<u64>) {
        self.phys.paused.set(at.is_some().into());
        self.paused_at = at;
    }
}

impl Pool {
    /// Returns the last or running error scrub; `None` before the first.
    #[must_use]
    pub fn error_scrub(&self) -> Option<ErrorScrubReport> {
        let now = self.error_scrubs.now.lock();
        let report = ErrorScrubReport { phys: now.phys, paused_at: now.paused_at };
        (now.phys.func.get() == func::ERROR_SCRUB).then_some(report)
    }

    /// Starts an error scrub, or resumes an error scrub that is paused. The work is done in the
    /// background. Without errors, nothing is done.
    ///
    /// # Errors
    /// [`PoolError::Scrub`] when a scrub, a resilver or an error scrub is under way, or the pool
    /// lacks the feature `head_errlog`; when the start cannot be made stable.
    #[boxed]
    pub async fn scrub_errors(self: &Arc<Self>) -> Result<(), PoolError> {
        self.check_writable()?;
        let _one_at_a_time = self.scrubs.decide().await;
        if self.dsl.feature_count(&HEAD_ERRLOG).await?.is_none() {
            return Err(ScrubRefusal::NoErrorLogs.into());
        }
        self.check_no_scan()?;
        let now = self.error_scrubs.now.lock().clone();
        if now.running && now.is_under_way() {
            return Err(ScrubRefusal::ErrorScrubbing.into());
        }
        // The task of an earlier error scrub may be about to end.
        self.halt_error_scrub().await;
        if now.is_under_way() {
            self.store_error_scrub(|now, _| now.set_paused(None)).await?;
            self.tell_done("errorscrub_resume", None);
        } else {
            // The sync of a txg records the errors of reads since the last txg.
            self.sync_now().await?;
            let left = self.errors.all().into_iter().collect::<VecDeque<_>>();
            if left.is_empty() {
                return Ok(());
            }
            let up_to = self.gate.open_txg();
            self.store_error_scrub(move |now, secs| *now = Now::begun(left, up_to, secs)).await?;
            self.tell_done("errorscrub_start", None);
        }
        self.run_error_scrub();
        Ok(())
    }

    /// Returns true if an error scrub runs or is paused.
    pub(super) fn is_error_scrub_under_way(&self) -> bool {
        self.error_scrubs.now.lock().is_under_way()
    }

    /// Pauses the error scrub until the next call of [`Self::scrub_errors`], also over an export.
    pub(super) async fn pause_error_scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        if self.error_scrubs.now.lock().paused_at.is_some() {
            return Err(ScrubRefusal::ErrorScrubPaused.into());
        }
        self.halt_error_scrub().await;
        if !self.is_error_scrub_under_way() {
            return Err(ScrubRefusal::None.into());
        }
        let paused = self.store_error_scrub(|now, secs| now.set_paused(Some(secs))).await;
        self.or_go_on_with_errors(paused)?;
        self.tell_done("errorscrub_paused", None);
        Ok(())
    }

    /// Stops the error scrub for good.
    pub(super) async fn cancel_error_scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        self.halt_error_scrub().await;
        if !self.is_error_scrub_under_way() {
            return Err(ScrubRefusal::None.into());
        }
        let ended = self.store_error_scrub(|now, secs| now.end(state::CANCELED, secs)).await;
        self.or_go_on_with_errors(ended)?;
        self.tell_done("errorscrub_abort", None);
        Ok(())
    }

    /// Goes on with the error scrub that an import found on disk.
    pub(super) async fn resume_error_scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        let stored = self.dsl.directory().lookup(directory::ERRORSCRUB.as_bytes()).await?;
        let Some(ZapValue::U64(words)) = stored else { return Ok(()) };
        // A state that cannot be decoded is ignored.
        let Ok(phys) = ErrorScrubPhys::from_words(&words) else { return Ok(()) };
        let mut now = Now { phys, up_to: self.gate.open_txg(), ..Now::default() };
        if phys.paused.get() != 0 {
            now.paused_at = Some(self.env.wall_clock().as_secs());
        }
        let goes_on = now.is_under_way() && now.paused_at.is_none() && !self.read_only;
        now.left = if now.is_under_way() { self.errors.all().into_iter().collect() } else { VecDeque::new() };
        *self.error_scrubs.now.lock() = now;
        if goes_on {
            self.run_error_scrub();
        }
        Ok(())
    }

    /// Stops the work before the pool closes. The next import goes on.
    pub(super) async fn leave_error_scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        self.halt_error_scrub().await;
        if !self.is_error_scrub_under_way() {
            return Ok(());
        }
        let stored = self.store_error_scrub(|_, _| {}).await;
        self.or_go_on_with_errors(stored)
    }

    /// Lets an error scrub go on that was halted for a change, if the change has failed.
    fn or_go_on_with_errors(self: &Arc<Self>, done: Result<(), PoolError>) -> Result<(), PoolError> {
        let goes_on = {
            let now = self.error_scrubs.now.lock();
            now.is_under_way() && now.paused_at.is_none() && !now.running
        };
        if done.is_err() && goes_on && self.stopped().is_none() {
            self.run_error_scrub();
        }
        done
    }

    async fn halt_error_scrub(&self) {
        self.error_scrubs.halting.store(true, Ordering::Release);
        loop {
            let halted = self.error_scrubs.halted.listen();
            if !self.error_scrubs.now.lock().running {
                return;
            }
            halted.await;
        }
    }

    fn run_error_scrub(self: &Arc<Self>) {
        self.error_scrubs.now.lock().running = true;
        self.error_scrubs.halting.store(false, Ordering::Release);
        let pool = Arc::clone(self);
        let work = async move {
            if let Err(error) = pool.read_errors_again().await {
                tracing::error!(%error, "the error scrub stops");
            }
            pool.error_scrubs.now.lock().running = false;
            pool.error_scrubs.halted.notify(usize::MAX);
        };
        self.env.spawn("error scrub", Box::pin(work));
    }

    /// Reads the blocks until the last block, or until the work is halted.
    async fn read_errors_again(self: &Arc<Self>) -> Result<(), PoolError> {
        while !self.error_scrubs.halting.load(Ordering::Acquire) {
            if self.is_held_back(BackgroundWork::Scans).await {
                continue;
            }
            let (some, up_to) = {
                let mut now = self.error_scrubs.now.lock();
                let count = now.left.len().min(AT_ONCE);
                (now.left.drain(..count).collect::<Vec<_>>(), now.up_to)
            };
            if some.is_empty() {
                self.store_error_scrub(|now, secs| now.end(state::FINISHED, secs)).await?;
                self.tell_done("errorscrub_finish", None);
                return Ok(());
            }
            let started = self.env.now();
            // No block that is freed from now on is allocated again before the sync of this txg.
            let alive = self.gate.join()?;
            let reads = join_all(some.iter().map(|bookmark| self.is_whole_again(bookmark, up_to)));
            let whole = in_class(IoClass::Scrub, reads).await;
            drop(alive);
            some.iter().zip(whole).for_each(|(bookmark, is_whole)| self.note_error_read(bookmark, is_whole));
            self.rest_if_others_wait(&self.vdevs.leaves(), started, 1).await;
        }
        Ok(())
    }

    fn note_error_read(&self, bookmark: &Bookmark, is_whole: bool) {
        self.error_scrubs.now.lock().note(is_whole);
        if is_whole {
            self.errors.forget(bookmark);
        }
    }

    /// Returns true if the block of this name, in the head and in each snapshot of its dataset, can
    /// be read now or is gone. Bad copies are repaired. A snapshot keeps a damaged block that was
    /// written anew in the head, and the stored list of errors has the head in place of the
    /// snapshot.
    async fn is_whole_again(&self, bookmark: &Bookmark, up_to: Txg) -> bool {
        let Ok(roots) = self.roots_now(bookmark.objset).await else { return false };
        let mut whole = Vec::new();
        for root in roots {
            match Objset::find_block(&self.zio, &root, bookmark).await {
                Ok(None) => {}
                Ok(Some(bp)) if bp.is_embedded() || bp.birth() > up_to || whole.contains(&bp) => {}
                Ok(Some(bp)) => match self.zio.scrub(&bp, bookmark).await {
                    Ok(_) => whole.push(bp),
                    Err(_) => return false,
                },
                Err(_) => return false,
            }
        }
        true
    }

    /// Returns the roots of the head and of the snapshots of an objset's dataset; no roots if the
    /// dataset is gone.
    async fn roots_now(&self, objset: ObjsetId) -> Result<Vec<Blkptr>, DslError> {
        if objset == ObjsetId::MOS {
            return Ok(vec![self.mos.root()]);
        }
        let dir = match self.dsl.dataset(ObjectId::new(objset.get())).await {
            Ok(phys) => ObjectId::new(phys.dir.get()),
            Err(error @ DslError::Dmu(DmuError::Io { .. })) => return Err(error),
            Err(_) => return Ok(Vec::new()),
        };
        let head = ObjectId::new(self.dsl.dir(dir).await?.head_dataset.get());
        let mut roots = vec![self.dsl.dataset(head).await?.bp];
        for snapshot in self.dsl.snapshots(&DatasetName { name: String::new(), dir, dataset: head }).await? {
            roots.push(self.dsl.dataset(snapshot.dataset).await?.bp);
        }
        Ok(roots)
    }

    /// Changes the state, and stores the state and the list of errors. The change gets the time in
    /// seconds since 1970.
    async fn store_error_scrub(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Now, u64) + Send + 'static,
    ) -> Result<(), PoolError> {
        self.in_sync(|pool, tx| async move {
            let mut now = pool.error_scrubs.now.lock().clone();
            change(&mut now, pool.env.wall_clock().as_secs());
            let words = ZapValue::U64(now.phys.to_words());
            pool.dsl.directory().update(&tx, directory::ERRORSCRUB.as_bytes(), &words).await?;
            pool.store_all_errors(&tx).await?;
            let running = pool.error_scrubs.now.lock().running;
            *pool.error_scrubs.now.lock() = Now { running, ..now };
            Ok(())
        })
        .await
    }

    /// Writes the list of errors anew.
    async fn store_all_errors(&self, tx: &Tx) -> Result<(), PoolError> {
        let errors = self.errors.take_all_last();
        self.dsl.clear_errors(tx, ErrorLog::Last).await?;
        Ok(self.dsl.add_errors(tx, ErrorLog::Last, &errors).await?)
    }
}

impl Now {
    fn begun(left: VecDeque<Bookmark>, up_to: Txg, secs: u64) -> Self {
        let mut phys = ErrorScrubPhys::default();
        phys.func.set(func::ERROR_SCRUB);
        phys.state.set(state::ERROR_SCRUBBING);
        phys.start_time.set(secs);
        phys.to_examine.set(left.len() as u64);
        Self { phys, left, up_to, ..Self::default() }
    }

    fn end(&mut self, how: u64, secs: u64) {
        self.phys.state.set(how);
        self.phys.end_time.set(secs);
        self.set_paused(None);
        self.left.clear();
    }

    /// Counts a block.
    fn note(&mut self, is_whole: bool) {
        self.phys.examined.set(self.phys.examined.get() + 1);
        self.phys.to_examine.set(self.phys.to_examine.get().saturating_sub(1));
        let errors = self.phys.errors.get() + u64::from(!is_whole);
        self.phys.errors.set(errors);
    }
}
