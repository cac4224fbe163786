//! Scans: every block of the pool read, from all its places, and repaired where it can be (scrub);
//! or only those born in txgs that some leaf missed (resilver).
//!
//! ```text
//!   NONE ──start──► SCANNING ──────── end ───► FINISHED ──start──► SCANNING …
//!                    │  ▲   └── cancel ──► CANCELED ──start──►┘
//!               pause│  │start
//!                    ▼  │
//!                   paused
//! ```
//! The state is the format's (`scan` in the directory of the meta-objset), so that OpenZFS goes on
//! where this program stopped, and the other way round. It is stored when it changes, and every
//! [`STORE_EVERY`] while the scrub runs; a crash repeats at most that much work.
//!
//! A resilver goes before a scrub, which is given up for it. Blocks of logs are not visited: logs that an import
//! claimed are replayed first, and as long as one is not, leaves that missed something are not whole. It is not paused, and after an import
//! it begins anew: which leaves were there when it began is known to nobody then.
//!
//! What is done here is admission: one scrub at a time, and who may stop it. The work itself is
//! in [`run`], the order of datasets in [`order`].
//!
//! Invariants
//! - Only blocks are repaired that were alive when the scrub began and are alive now.
//!   (see [`run`]; test: `a_scrub_beside_writers_damages_nothing`)
//! - A leaf is whole again once a scan that began with it, and ended without errors, has seen all
//!   blocks of the txgs that it missed. (test: `a_returned_device_is_resilvered_and_holds_all`)
//! - A scan that cannot be told to pause, to end or to be left goes on.
//!   (tests: `a_scrub_that_cannot_be_told_to_is_as_it_was`, `a_pool_that_cannot_be_exported_whole_stays_open`)
//! - A block that datasets and snapshots share is read once.
//!   (test: `every_block_of_a_pool_is_scrubbed_once`)

mod order;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dmu::Tx;
use dmu::zap::{Zap, ZapSpec, ZapValue, int_name};
use env::boxed;
use event_listener::Event;
use ondisk::dsl::scan::{ScanPhys, flags, func, state};
use ondisk::mos::directory;
use ondisk::{NvList, ObjectType};
use parking_lot::Mutex;
use units::{Guid, ObjectId, Txg, VdevId};
use vdev::{Dtl, Leaf};

use crate::{Pool, PoolError};

/// While a scrub runs its state is stored so often.
const STORE_EVERY: Duration = Duration::from_secs(30);

/// Why a scrub was not started, paused or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScrubRefusal {
    /// One is running.
    #[error("a scrub is running")]
    Running,
    /// It is paused already.
    #[error("the scrub is paused")]
    Paused,
    /// None is running.
    #[error("no scrub is running")]
    None,
    /// Devices are being brought up to date.
    #[error("a resilver is running")]
    Resilvering,
    /// A scrub is paused, and the command was about an error scrub.
    #[error("another scrub is paused")]
    PausedToCancel,
    /// An error scrub is running, or is paused.
    #[error("an error scrub is running")]
    ErrorScrubbing,
    /// The error scrub is paused already.
    #[error("the error scrub is paused")]
    ErrorScrubPaused,
    /// The pool lacks the feature by which errors are listed by dataset.
    #[error("the feature head_errlog is not enabled")]
    NoErrorLogs,
}

/// The last or running scan of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanReport {
    /// The state on disk.
    pub phys: ScanPhys,
    /// Since when it is paused, in seconds since 1970.
    pub paused_at: Option<u64>,
    /// What this program did of it since it was started, or taken up again.
    pub pass: Pass,
}

/// One stretch of work on a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pass {
    /// When it began, in seconds since 1970.
    pub start: u64,
    /// Bytes examined.
    pub examined: u64,
}

/// The state of scrubs in one pool.
#[derive(Default)]
pub(crate) struct Scrubs {
    now: Mutex<Now>,
    /// Held while a scrub is started, paused or stopped.
    deciding: async_lock::Mutex<()>,
    halting: AtomicBool,
    halted: Event,
}

impl Scrubs {
    /// Waits until no other request starts, pauses or stops a scrub or an error scrub, and keeps
    /// other requests out.
    pub(super) async fn decide(&self) -> async_lock::MutexGuard<'_, ()> {
        self.deciding.lock().await
    }
}

#[derive(Clone, Default)]
struct Now {
    phys: ScanPhys,
    paused_at: Option<u64>,
    pass: Pass,
    running: bool,
    /// Leaves that missed writes when the scan began, and how often they had.
    stale: Vec<(Guid, u64)>,
    /// Datasets that may be visited next: those before them are done.
    ready: BTreeSet<ObjectId>,
}

impl Now {
    fn is_scanning(&self) -> bool {
        self.phys.state.get() == state::SCANNING
    }

    fn is_scrubbing(&self) -> bool {
        self.is_scanning() && self.phys.func.get() == func::SCRUB
    }

    fn is_paused(&self) -> bool {
        self.phys.flags.get() & flags::SCRUB_PAUSED != 0
    }

    fn end(&mut self, how: u64, at: u64) {
        self.phys.state.set(how);
        self.phys.end_time.set(at);
        self.phys.queue_object.set(0);
        self.set_paused(None);
        self.ready.clear();
    }

    fn set_paused(&mut self, at: Option<u64>) {
        let others = self.phys.flags.get() & !flags::SCRUB_PAUSED;
        self.phys.flags.set(others | at.map_or(0, |_| flags::SCRUB_PAUSED));
        self.paused_at = at;
    }
}

impl Pool {
    /// The last or running scrub or resilver; none if there never was one.
    #[must_use]
    pub fn scan(&self) -> Option<ScanReport> {
        let now = self.scrubs.now.lock();
        let report = ScanReport { phys: now.phys, paused_at: now.paused_at, pass: now.pass };
        (now.phys.func.get() != func::NONE).then_some(report)
    }

    /// Starts a scrub, or goes on with one that is paused. It goes on by itself. Devices that are not
    /// where they were any more are found out first.
    ///
    /// # Errors
    /// [`PoolError::Scrub`] when one is running; when its beginning cannot be made stable.
    #[boxed]
    pub async fn scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        self.scrub_since(Txg::ZERO).await
    }

    /// The same with what was written since the last scrub that came to its end (`last_scrubbed_txg`).
    ///
    /// # Errors
    /// As [`Self::scrub`].
    #[boxed]
    pub async fn scrub_since_last(self: &Arc<Self>) -> Result<(), PoolError> {
        let last = self.last_scrubbed().await?;
        self.scrub_since(Txg::new(last)).await
    }

    /// Scrubs what was born after `since`.
    async fn scrub_since(self: &Arc<Self>, since: Txg) -> Result<(), PoolError> {
        self.check_writable()?;
        let _one_at_a_time = self.scrubs.decide().await;
        if self.is_error_scrub_under_way() {
            return Err(ScrubRefusal::ErrorScrubbing.into());
        }
        self.vdevs.look_for_absent().await;
        let now = self.scrubs.now.lock().clone();
        match now.phys.func.get() {
            _ if now.is_scrubbing() && now.running => return Err(ScrubRefusal::Running.into()),
            func::RESILVER if now.is_scanning() => return Err(ScrubRefusal::Resilvering.into()),
            _ if now.is_scrubbing() => {
                self.in_sync(|pool, tx| async move { pool.store_pause(&tx, None).await }).await?;
                self.tell_done("scrub_resume", None);
            }
            _ => {
                self.in_sync(move |pool, tx| async move { pool.begin_scan(&tx, func::SCRUB, since).await })
                    .await?
            }
        }
        self.run_scrub();
        Ok(())
    }

    /// Opens a leaf's device anew, at `path` or where it was, and begins to bring it up to date.
    ///
    /// # Errors
    /// When it cannot be opened, or its labels are those of something else; when the beginning
    /// cannot be made stable.
    #[boxed]
    pub async fn reopen(self: &Arc<Self>, leaf: Guid, path: Option<&Path>) -> Result<(), PoolError> {
        self.vdevs.reopen(leaf, path, || self.gate.open_txg()).await?;
        self.vdevs.leaf(leaf)?.stats().clear_errors();
        self.resilver().await
    }

    /// Brings leaves up to date that are back and missed writes, if there are any. It goes on by
    /// itself.
    ///
    /// # Errors
    /// When its beginning cannot be made stable.
    #[boxed]
    pub async fn resilver(self: &Arc<Self>) -> Result<(), PoolError> {
        if self.read_only || self.behind().is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.scrubs.decide().await;
        self.halt_scrub().await;
        for open in self.with_claimed_logs() {
            if let Err(error) = self.replay_log(&open).await {
                tracing::warn!(name = open.name().name, %error, "its log holds what a device misses");
            }
        }
        // All txgs that were missed in part are older than the scan then.
        self.sync_now().await?;
        self.in_sync(|pool, tx| async move {
            if pool.scrubs.now.lock().is_scanning() {
                pool.end_scan(&tx, state::CANCELED).await?;
            }
            let since = pool.missed_since(tx.txg()).await?;
            pool.begin_scan(&tx, func::RESILVER, since).await
        })
        .await?;
        self.run_scrub();
        Ok(())
    }

    /// Leaves in use that missed writes.
    fn behind(&self) -> Vec<Arc<Leaf>> {
        let leaves = self.vdevs.leaves().into_iter();
        leaves.filter(|leaf| leaf.is_usable() && !leaf.dtl().is_empty()).collect()
    }

    /// Has the scrub wait until [`Self::scrub`] is called again, also after an export.
    ///
    /// # Errors
    /// [`PoolError::Scrub`] when none runs, or it is paused.
    #[boxed]
    pub async fn pause_scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        self.check_writable()?;
        let _one_at_a_time = self.scrubs.decide().await;
        if self.is_error_scrub_under_way() {
            return self.pause_error_scrub().await;
        }
        self.check_scrubbing()?;
        if self.scrubs.now.lock().is_paused() {
            return Err(ScrubRefusal::Paused.into());
        }
        self.halt_scrub().await;
        self.check_scrubbing()?;
        let paused = self.in_sync(|pool, tx| async move {
            let at = pool.env.wall_clock().as_secs();
            pool.store_pause(&tx, Some(at)).await?;
            pool.tell_done("scrub_paused", None);
            Ok(())
        });
        self.or_go_on(paused.await)
    }

    /// Stops the scrub for good.
    ///
    /// # Errors
    /// [`PoolError::Scrub`] when there is none.
    #[boxed]
    pub async fn cancel_scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        self.check_writable()?;
        let _one_at_a_time = self.scrubs.decide().await;
        if self.is_error_scrub_under_way() {
            return self.cancel_error_scrub().await;
        }
        self.check_scrubbing()?;
        self.halt_scrub().await;
        self.check_scrubbing()?;
        let canceled = self.in_sync(|pool, tx| async move { pool.end_scan(&tx, state::CANCELED).await });
        self.or_go_on(canceled.await)
    }

    /// Checks that neither a scrub nor a resilver is under way.
    pub(super) fn check_no_scan(&self) -> Result<(), PoolError> {
        let now = self.scrubs.now.lock();
        match now.is_scanning() {
            false => Ok(()),
            true if !now.is_scrubbing() => Err(ScrubRefusal::Resilvering.into()),
            true if now.is_paused() => Err(ScrubRefusal::PausedToCancel.into()),
            true => Err(ScrubRefusal::Running.into()),
        }
    }

    fn check_scrubbing(&self) -> Result<(), PoolError> {
        if self.scrubs.now.lock().is_scrubbing() { Ok(()) } else { Err(ScrubRefusal::None.into()) }
    }

    /// Takes up the scan that an import found.
    pub(crate) async fn resume_scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        self.load_scan().await?;
        let scrubbing = self.scrubs.now.lock().is_scrubbing();
        self.load_errors(scrubbing).await;
        self.resume_error_scrub().await?;
        if !self.read_only && !self.behind().is_empty() {
            return self.resilver().await;
        }
        if !self.read_only && self.vdevs.finished().is_some() {
            // Its resilver ended, and the pool with it, before the old device was let go of.
            self.in_sync(|pool, tx| async move { pool.detach_finished(&tx).await }).await?;
        }
        let (goes_on, is_over) = {
            let now = self.scrubs.now.lock();
            (now.is_scrubbing() && !now.is_paused(), now.is_scanning() && !now.is_scrubbing())
        };
        if is_over && !self.read_only {
            // Nobody is there any more for whom it was begun.
            return self.in_sync(|pool, tx| async move { pool.end_scan(&tx, state::CANCELED).await }).await;
        }
        if goes_on && !self.read_only {
            self.run_scrub();
        }
        Ok(())
    }

    /// Stops the work before the pool closes; the next import goes on.
    pub(crate) async fn leave_scrub(self: &Arc<Self>) -> Result<(), PoolError> {
        let _one_at_a_time = self.scrubs.decide().await;
        self.leave_error_scrub().await?;
        self.halt_scrub().await;
        if self.scrubs.now.lock().is_scanning() {
            let stored = self.in_sync(|pool, tx| async move { pool.store_scan(&tx).await });
            return self.or_go_on(stored.await);
        }
        Ok(())
    }

    /// A scan was halted for something. If that has failed the scan goes on.
    pub(crate) fn or_go_on<T>(self: &Arc<Self>, done: Result<T, PoolError>) -> Result<T, PoolError> {
        let goes_on = {
            let now = self.scrubs.now.lock();
            now.is_scanning() && !now.is_paused() && !now.running
        };
        if done.is_err() && goes_on && self.stopped().is_none() {
            self.run_scrub();
        }
        done
    }

    fn run_scrub(self: &Arc<Self>) {
        {
            let mut now = self.scrubs.now.lock();
            now.running = true;
            now.pass = Pass { start: self.env.wall_clock().as_secs(), examined: 0 };
        }
        self.scrubs.halting.store(false, Ordering::Release);
        let pool = Arc::clone(self);
        self.env.spawn(
            "scrub",
            Box::pin(async move {
                if let Err(error) = pool.work_through().await {
                    tracing::error!(%error, "the scrub stops");
                }
                pool.scrubs.now.lock().running = false;
                pool.scrubs.halted.notify(usize::MAX);
            }),
        );
    }

    pub(crate) async fn halt_scrub(&self) {
        self.scrubs.halting.store(true, Ordering::Release);
        loop {
            let halted = self.scrubs.halted.listen();
            if !self.scrubs.now.lock().running {
                return;
            }
            halted.await;
        }
    }

    /// The txg after which everything was born that leaves lack, as of `open`.
    async fn missed_since(&self, open: Txg) -> Result<Txg, PoolError> {
        let missed = self.behind().into_iter().filter_map(|leaf| Some(*leaf.dtl().bounds()?.start()));
        let first = missed.min().unwrap_or(open).prev();
        // What was copied from another vdev since is as old as its blocks.
        Ok(if self.has_copied_since(first).await? { Txg::ZERO } else { first })
    }

    /// Begins to look at what was born after `since`.
    async fn begin_scan(self: &Arc<Self>, tx: &Tx, what: u64, since: Txg) -> Result<(), PoolError> {
        let total = self.vdevs.tops().iter().map(|top| top.id()).collect::<Vec<_>>();
        let allocated = |a: &mut metaslab::Allocator| {
            total.iter().filter_map(|id| a.vdev_space(*id)).map(|space| space.allocated.get()).sum()
        };
        let to_examine: u64 = self.zio.with_allocator(allocated);
        let queue = Zap::create(&self.mos, tx, &ZapSpec::new(ObjectType::SCAN_QUEUE)).await?.object();
        let mut phys = ScanPhys::default();
        phys.func.set(what);
        phys.state.set(state::SCANNING);
        phys.queue_object.set(queue.get());
        phys.max_txg.set(tx.txg().get());
        phys.current_max_txg.set(tx.txg().get());
        phys.start_time.set(self.env.wall_clock().as_secs());
        phys.to_examine.set(to_examine);
        phys.min_txg.set(since.get());
        if what == func::SCRUB {
            self.begin_scrub_errors(tx).await?;
        }
        let ready = self.first_datasets().await?;
        // A scrub of what is new does not bring back what was missed before.
        let brings_all_back = what == func::RESILVER || since == Txg::ZERO;
        let stale = self.vdevs.leaves().into_iter().filter(|leaf| leaf.is_usable() && leaf.is_stale());
        let stale = stale.filter(|_| brings_all_back);
        let stale = stale.map(|leaf| (leaf.guid(), leaf.misses())).collect();
        *self.scrubs.now.lock() = Now { phys, stale, ready, ..Now::default() };
        match what {
            func::RESILVER => self.tell_done_with("resilver_start", None, put_healing),
            _ => self.tell_done("scrub_start", None),
        }
        self.store_scan(tx).await
    }

    async fn end_scan(&self, tx: &Tx, how: u64) -> Result<(), PoolError> {
        let queue = self.scrubs.now.lock().phys.queue_object.get();
        if queue != 0 {
            self.mos.free_object(tx, ObjectId::new(queue)).await?;
        }
        let phys = self.scrubs.now.lock().phys;
        let is_scrub = phys.func.get() == func::SCRUB;
        // The txg is stored before the end can be seen, because programs that see the end ask for the txg.
        if is_scrub && how == state::FINISHED {
            let scrubbed = max_txg(&phys).get();
            self.dsl.directory().update_u64(tx, directory::LAST_SCRUBBED_TXG.as_bytes(), scrubbed).await?;
        }
        self.scrubs.now.lock().end(how, self.env.wall_clock().as_secs());
        if is_scrub {
            // What a scrub of what is new did not look at stays an error.
            let is_whole = phys.min_txg.get() == 0;
            self.end_scrub_errors(tx, how == state::FINISHED && is_whole).await?;
        }
        match (is_scrub, how) {
            (true, state::FINISHED) => self.tell_done("scrub_finish", None),
            (true, _) => self.tell_done("scrub_abort", None),
            (false, state::FINISHED) => self.tell_done_with("resilver_finish", None, put_healing),
            // It is begun anew, or nobody needs it.
            (false, _) => {}
        }
        if how == state::FINISHED {
            self.end_staleness().await;
            self.detach_finished(tx).await?;
        }
        self.store_scan(tx).await
    }

    /// Leaves that were there from the scan's beginning to its end have all that was missing, if
    /// every block could be read, and what was brought back is stable: were it lost with a flush that fails later, only
    /// what is new by then would be known to be missing.
    async fn end_staleness(&self) {
        let (stale, errors, up_to) = {
            let mut now = self.scrubs.now.lock();
            (std::mem::take(&mut now.stale), now.phys.errors.get(), max_txg(&now.phys))
        };
        // What is copied from a vdev that is being removed is not looked at before that is gone.
        if !self.with_claimed_logs().is_empty() || self.evacuation.is_under_way() {
            return;
        }
        let is_whole = |guid, misses| {
            let is_up_to_date = |leaf: Arc<Leaf>| leaf.is_usable() && leaf.misses() == misses;
            self.vdevs.leaf(guid).is_ok_and(|leaf| !self.may_miss_kept(&leaf.dtl()) && is_up_to_date(leaf))
        };
        for (guid, misses) in stale.into_iter().filter(|_| errors == 0) {
            let is_stable = match self.vdevs.leaf(guid) {
                Ok(leaf) if leaf.is_usable() => leaf.flush().await.is_ok(),
                _ => false,
            };
            if is_stable && is_whole(guid, misses) && self.vdevs.resilvered(guid, up_to).unwrap_or_default() {
                tracing::info!(%guid, "has everything again");
            }
        }
    }

    /// Writes that the scrub is paused since then, or not any more.
    async fn store_pause(&self, tx: &Tx, since: Option<u64>) -> Result<(), PoolError> {
        let mut now = self.scrubs.now.lock().clone();
        now.set_paused(since);
        self.store(tx, &now).await?;
        self.scrubs.now.lock().set_paused(since);
        Ok(())
    }

    /// Writes the state, and the queue of datasets that may be next.
    async fn store_scan(&self, tx: &Tx) -> Result<(), PoolError> {
        let now = self.scrubs.now.lock().clone();
        self.store(tx, &now).await
    }

    async fn store(&self, tx: &Tx, now: &Now) -> Result<(), PoolError> {
        let queued = self.queued(now).await;
        let value = ZapValue::U64(now.phys.to_words());
        self.dsl.directory().update(tx, directory::SCAN.as_bytes(), &value).await?;
        if now.phys.queue_object.get() == 0 {
            return Ok(());
        }
        let queue = Zap::hold(&self.mos, ObjectId::new(now.phys.queue_object.get())).await?;
        let mut stored = BTreeSet::new();
        for entry in queue.all().await? {
            let object =
                std::str::from_utf8(&entry.name).ok().and_then(|name| u64::from_str_radix(name, 16).ok());
            match object {
                Some(object) if queued.contains_key(&object) => _ = stored.insert(object),
                _ => queue.remove(tx, &entry.name).await?,
            }
        }
        for (object, born_after) in queued.into_iter().filter(|(object, _)| !stored.contains(object)) {
            queue.add_u64(tx, int_name(object).as_bytes(), born_after).await?;
        }
        Ok(())
    }

    /// What the format's queue is to hold: datasets that may be visited next, and after which txg the blocks
    /// are born that belong to each. One that was destroyed since it became ready is not among them.
    async fn queued(&self, now: &Now) -> BTreeMap<u64, u64> {
        let current = now.phys.bookmark[0].get();
        let mut queued = BTreeMap::new();
        for object in now.ready.iter().filter(|object| object.get() != current) {
            if let Ok(phys) = self.dsl.dataset(*object).await {
                queued.insert(object.get(), phys.prev_snapshot_txg.get());
            }
        }
        queued
    }

    async fn load_scan(&self) -> Result<(), PoolError> {
        let stored = self.dsl.directory().lookup(directory::SCAN.as_bytes()).await?;
        let Some(ZapValue::U64(words)) = stored else { return Ok(()) };
        // A state that makes no sense is as good as none: nothing but progress is lost.
        let Ok(phys) = ScanPhys::from_words(&words) else { return Ok(()) };
        let mut now = Now { phys, ..Now::default() };
        if now.is_paused() {
            now.paused_at = Some(self.env.wall_clock().as_secs());
        }
        if now.is_scanning() && phys.queue_object.get() != 0 {
            let queue = Zap::hold(&self.mos, ObjectId::new(phys.queue_object.get())).await?;
            let names = queue.all().await?.into_iter();
            let number = |name: Vec<u8>| u64::from_str_radix(std::str::from_utf8(&name).ok()?, 16).ok();
            now.ready = names.filter_map(|entry| number(entry.name)).map(ObjectId::new).collect();
            // Of the dataset that is under way more may be left; there is none yet, or none just then.
            let under_way = phys.bookmark[0].get();
            if ![0, run::NO_DATASET].contains(&under_way) {
                now.ready.insert(ObjectId::new(under_way));
            }
        }
        *self.scrubs.now.lock() = now;
        Ok(())
    }
}

/// The txgs that leaves in use missed, by vdev, for a resilver.
pub(crate) type Dtls = BTreeMap<VdevId, Vec<Dtl>>;

/// What sort of resilver it is: block by block, in the order of the tree.
fn put_healing(payload: &mut NvList) {
    payload.add_str("resilver_type", "healing");
}

/// The youngest blocks that a scrub reads.
fn max_txg(phys: &ScanPhys) -> Txg {
    Txg::new(phys.max_txg.get())
}
