//! Transaction groups as writers see them: join the open one, change things, leave.
//!
//! ```text
//!            admit        join                   quiesce                  finish
//!   writer ──────────► plan ───► open (holds>0) ────────► syncing (holds=0) ────► synced
//!            ◄──────── throttled while too much is dirty
//! ```
//! How writers are throttled is told in [`delay`]. What is made of a plan is told in [`crate::plan`]; it joins a txg
//! for as long as it is applied.
//!
//! A [`Hold`] keeps its txg from being synced. The pool's sync loop calls [`TxgGate::quiesce`],
//! which opens the next txg and waits for the last `Hold` of the old one, and
//! [`TxgGate::finish`] once the uberblock is stable. Between the two it has a [`Quiet`], and with that alone come
//! handles that change objects at once ([`Tx`]).
//!
//! Invariants
//! - A txg is handed to the sync loop only when no `Hold` of it is alive.
//!   (test: `a_txg_is_quiet_only_when_its_last_hold_is_gone`)
//! - `synced` grows by one at a time, and who waits for a txg is told.
//! - Whoever changes an objset in a txg enters it in that txg's list before its `Hold` is gone, so
//!   that a sync finds all changes without looking at every objset there is.
//!   (test: `every_changed_objset_is_on_the_list_of_its_group`)
//! - A txg in which a `Hold` was dropped by a panic may hold half a change, and is never written: the gate has failed
//!   before anybody can find that txg quiet. What was promised is in the intent log, or in an older txg.
//!   (test: `a_transaction_that_a_panic_leaves_half_done_is_never_written`)
//! - In a pool that is in use only plans change objects in an open txg; a [`Tx`] is of the txg being synced.
//!   (test: `nobody_changes_objects_of_a_pool_in_use_at_once`)
//! - Whoever has a `Hold` waits for no lock that may be held while somebody waits for a txg: locks first, the `Hold` last.

mod delay;
mod stats;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::boxed;
use event_listener::Event;
use parking_lot::Mutex;
use units::{ObjsetId, TXG_SLOTS, Txg};

use crate::DmuError;
use crate::in_flight::InFlight;

pub use stats::ChangeStats;
use stats::{ChangeCounters, one_more};

/// What a new change may come to, as far as is known when it is planned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    /// Bytes of file data the change will write.
    pub write_bytes: u64,
    /// The change frees more than it takes in the end (remove, truncate): it may use the
    /// space set aside so that a full pool can be emptied.
    pub frees: bool,
    /// Blocks that the change lets go, about: a txg takes so many only.
    pub freed_blocks: u64,
}

/// Blocks that the changes of one txg let go, about. Each is freed when the txg syncs, and held in
/// memory until then.
const FREED_PER_TXG: u64 = 128 << 10;

/// The pool's transaction groups: which is open, which have become stable.
pub struct TxgGate {
    state: Mutex<GateState>,
    /// Bytes changed and not yet on disk, of all txgs.
    dirty_bytes: AtomicU64,
    /// Of those, what takes memory only.
    copied_bytes: AtomicU64,
    dirty_limit_bytes: AtomicU64,
    /// Those of the txg being synced that are on their disks by now.
    written_bytes: AtomicU64,
    /// Objsets with something to write, by txg.
    changed_objsets: [Mutex<BTreeSet<ObjsetId>>; TXG_SLOTS],
    line: delay::Line,
    in_flight: InFlight,
    /// A hold was dropped, dirty data went down, a txg synced, or the pool failed.
    changed: Event,
    /// Somebody wants the open txg synced now.
    kicked: Event,
    is_in_use: AtomicBool,
    counters: ChangeCounters,
}

struct GateState {
    open: Txg,
    synced: Txg,
    holds: [u64; TXG_SLOTS],
    dirty: [u64; TXG_SLOTS],
    /// Of that, what takes memory only.
    copied: [u64; TXG_SLOTS],
    /// Blocks let go.
    freed: [u64; TXG_SLOTS],
    /// The lowest txg that somebody waits for and that must therefore sync soon.
    wanted: Txg,
    failed: Option<Txg>,
    /// The devices do not do what the txg being synced needs; what that means to others.
    suspended: Option<WhileSuspended>,
}

/// What becomes of those who would begin a change, or wait for a txg, while the pool is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileSuspended {
    /// They wait, if they can ([`env::impatient`]).
    Wait,
    /// They get an error.
    Refuse,
}

impl GateState {
    /// Whether it makes sense to wait for a txg.
    fn check_goes_on(&self) -> Result<(), DmuError> {
        let is_refused = match self.suspended {
            None => false,
            Some(WhileSuspended::Wait) => env::is_impatient(),
            Some(WhileSuspended::Refuse) => true,
        };
        match self.failed.or(is_refused.then(|| self.synced.next())) {
            Some(txg) => Err(DmuError::Suspended { txg }),
            None => Ok(()),
        }
    }
}

impl TxgGate {
    /// A gate whose last stable txg is `synced`; the one after it is open.
    #[must_use]
    pub fn new(synced: Txg, dirty_limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(GateState {
                open: synced.next(),
                synced,
                holds: [0; TXG_SLOTS],
                dirty: [0; TXG_SLOTS],
                copied: [0; TXG_SLOTS],
                freed: [0; TXG_SLOTS],
                wanted: Txg::ZERO,
                failed: None,
                suspended: None,
            }),
            dirty_bytes: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
            dirty_limit_bytes: AtomicU64::new(dirty_limit_bytes),
            written_bytes: AtomicU64::new(0),
            changed_objsets: Default::default(),
            line: delay::Line::default(),
            in_flight: InFlight::new(),
            changed: Event::new(),
            kicked: Event::new(),
            is_in_use: AtomicBool::new(false),
            counters: ChangeCounters::default(),
        })
    }

    /// The txg that new changes join.
    #[must_use]
    pub fn open_txg(&self) -> Txg {
        self.state.lock().open
    }

    /// The newest txg that is stable.
    #[must_use]
    pub fn synced_txg(&self) -> Txg {
        self.state.lock().synced
    }

    /// Bytes changed and not yet on disk.
    #[must_use]
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes.load(Ordering::Relaxed)
    }

    /// The part of it that takes room on disks.
    #[must_use]
    pub fn bytes_to_write(&self) -> u64 {
        self.dirty_bytes().saturating_sub(self.copied_bytes.load(Ordering::Relaxed))
    }

    /// Sets how much may be dirty.
    pub fn set_dirty_limit(&self, bytes: u64) {
        if self.dirty_limit_bytes.swap(bytes, Ordering::Relaxed) == bytes {
            return;
        }
        self.changed.notify(usize::MAX);
        self.kicked.notify(usize::MAX);
    }

    /// Sets how many bytes may be on their way to disks at the same time.
    pub fn set_in_flight(&self, bytes: u64) {
        self.in_flight.set_limit(bytes);
    }

    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// How long a change that may write so many bytes should wait before it begins, `now` being
    /// the time of any clock that does not go back.
    #[must_use]
    pub fn delay(&self, now: Duration, write_bytes: u64) -> Duration {
        let limit = self.dirty_limit_bytes.load(Ordering::Relaxed);
        let to_write = self.bytes_to_write().saturating_sub(self.written_bytes.load(Ordering::Relaxed));
        let wait = delay::wait(to_write, limit, write_bytes);
        if !wait.is_zero() {
            one_more(&self.counters.delayed);
        }
        self.line.join(now, wait)
    }

    /// What changes had to wait for so far.
    #[must_use]
    pub fn change_stats(&self) -> ChangeStats {
        self.counters.read()
    }

    /// Bytes changed in `txg` that are not on disk yet.
    #[must_use]
    pub fn dirty_bytes_of(&self, txg: Txg) -> u64 {
        let state = self.state.lock();
        if txg > state.synced && txg <= state.open { state.dirty[txg.slot()] } else { 0 }
    }

    /// Counts a change that a quota does not allow.
    pub(crate) fn note_over_quota(&self) {
        one_more(&self.counters.over_quota);
    }

    /// Waits until changes may begin: less is dirty than the limit allows, and the pool is not suspended.
    ///
    /// # Errors
    /// [`DmuError::Suspended`] when the pool has stopped syncing, or nobody is to wait until it goes on.
    pub(crate) async fn admit(&self) -> Result<(), DmuError> {
        let mut is_counted = false;
        while !self.admits()? {
            let listener = self.changed.listen();
            if self.admits()? {
                break;
            }
            if !std::mem::replace(&mut is_counted, true) {
                one_more(self.held_up_by());
            }
            self.kicked.notify(usize::MAX);
            listener.await;
        }
        Ok(())
    }

    /// The counter of those who wait now until changes may begin.
    fn held_up_by(&self) -> &AtomicU64 {
        match self.state.lock().suspended {
            Some(_) => &self.counters.suspended,
            None => &self.counters.over_limit,
        }
    }

    /// Joins the open txg at once, whatever is dirty: for changes that make others
    /// stable (a log block) and must not wait for what waits for them.
    ///
    /// # Errors
    /// [`DmuError::Suspended`] when the pool has stopped syncing.
    pub fn join(self: &Arc<Self>) -> Result<Hold, DmuError> {
        let mut state = self.state.lock();
        if let Some(txg) = state.failed {
            return Err(DmuError::Suspended { txg });
        }
        let txg = state.open;
        state.holds[txg.slot()] += 1;
        one_more(&self.counters.joined);
        Ok(Hold { gate: Arc::clone(self), txg })
    }

    /// Joins a txg that others are in, or that new changes join; none that is being synced, or
    /// about to be.
    #[must_use]
    pub fn try_join(self: &Arc<Self>, txg: Txg) -> Option<Hold> {
        let mut state = self.state.lock();
        let is_held = state.open == txg.next() && state.holds[txg.slot()] > 0;
        if state.failed.is_some() || !(state.open == txg || is_held) {
            return None;
        }
        state.holds[txg.slot()] += 1;
        Some(Hold { gate: Arc::clone(self), txg })
    }

    fn admits(&self) -> Result<bool, DmuError> {
        let full = self.dirty_bytes() >= self.dirty_limit_bytes.load(Ordering::Relaxed);
        let state = self.state.lock();
        state.check_goes_on()?;
        Ok(!full && state.suspended.is_none())
    }

    /// Waits until `txg` is stable, and has it synced soon if it is still open.
    ///
    /// # Errors
    /// [`DmuError::Suspended`] when the pool stops syncing before that, or is suspended and nobody is to
    /// wait until it goes on. The txg may become stable all the same then.
    #[boxed]
    pub async fn wait_synced(&self, txg: Txg) -> Result<(), DmuError> {
        loop {
            let listener = self.changed.listen();
            {
                let mut state = self.state.lock();
                if state.synced >= txg {
                    return Ok(());
                }
                state.check_goes_on()?;
                state.wanted = state.wanted.max(txg);
            }
            self.kicked.notify(usize::MAX);
            listener.await;
        }
    }

    /// Has `txg` synced soon, if it is still open; waits for nothing.
    pub fn hurry(&self, txg: Txg) {
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(txg);
        drop(state);
        self.kicked.notify(usize::MAX);
    }

    /// Waits until the open txg should be synced ahead of its time: someone waits for
    /// it, or much is dirty.
    pub async fn wanted(&self) {
        loop {
            let listener = self.kicked.listen();
            if self.is_wanted() {
                return;
            }
            listener.await;
        }
    }

    fn is_wanted(&self) -> bool {
        let limit = self.dirty_limit_bytes.load(Ordering::Relaxed);
        let state = self.state.lock();
        state.wanted >= state.open || state.dirty[state.open.slot()] >= limit / 3
    }

    /// Whether anything was changed in the open txg.
    #[must_use]
    pub fn open_is_dirty(&self) -> bool {
        let state = self.state.lock();
        state.dirty[state.open.slot()] > 0
    }

    /// A handle to change things in the open txg, for whoever makes a pool that nobody else can reach yet.
    ///
    /// # Panics
    /// When the pool is [in use](Self::put_in_use).
    #[must_use]
    pub fn forming(&self) -> Tx {
        assert!(!self.is_in_use.load(Ordering::Acquire), "objects of a pool in use are changed by plans");
        Tx::new(self.open_txg())
    }

    /// The pool is made: from now on [plans](crate::Plan) change it, and the sync.
    pub fn put_in_use(&self) {
        self.is_in_use.store(true, Ordering::Release);
    }

    /// Opens the next txg and waits until the old one has no [`Hold`] left; gives the
    /// old one, now to be synced, unless the gate has [`failed`](Self::failed) by then. Only the sync loop calls
    /// this, one txg at a time.
    #[boxed]
    pub async fn quiesce(&self) -> Quiet {
        let txg = {
            let mut state = self.state.lock();
            assert_eq!(state.synced.next(), state.open, "one txg at a time");
            let txg = state.open;
            state.open = txg.next();
            txg
        };
        loop {
            let listener = self.changed.listen();
            if self.state.lock().holds[txg.slot()] == 0 {
                return Quiet { txg };
            }
            listener.await;
        }
    }

    /// A txg is stable: its dirty bytes are gone, and who waited is told.
    pub fn finish(&self, quiet: Quiet) {
        let Quiet { txg } = quiet;
        {
            let mut state = self.state.lock();
            assert_eq!(state.synced.next(), txg);
            state.synced = txg;
            let dirty = std::mem::take(&mut state.dirty[txg.slot()]);
            let copied = std::mem::take(&mut state.copied[txg.slot()]);
            state.freed[txg.slot()] = 0;
            self.dirty_bytes.fetch_sub(dirty, Ordering::Relaxed);
            self.copied_bytes.fetch_sub(copied, Ordering::Relaxed);
            self.written_bytes.store(0, Ordering::Relaxed);
        }
        self.changed.notify(usize::MAX);
    }

    /// `txg` cannot be made stable: everyone who waits for it, and every later change, fails.
    pub fn fail(&self, txg: Txg) {
        self.state.lock().failed.get_or_insert(txg);
        self.changed.notify(usize::MAX);
        self.kicked.notify(usize::MAX);
    }

    /// The pool is suspended: the txg being synced waits for devices.
    pub fn suspend(&self, meanwhile: WhileSuspended) {
        self.state.lock().suspended = Some(meanwhile);
        self.changed.notify(usize::MAX);
    }

    /// The pool is suspended no more.
    pub fn resume(&self) {
        self.state.lock().suspended = None;
        self.changed.notify(usize::MAX);
    }

    /// The txg at which the pool stopped syncing, if it did.
    #[must_use]
    pub fn failed(&self) -> Option<Txg> {
        self.state.lock().failed
    }

    /// Counts `bytes` that are held in memory until `txg` is stable and not written with it: a log's copies.
    pub fn add_copied(&self, txg: Txg, bytes: u64) {
        self.add(txg, 0, bytes);
    }

    /// Counts `bytes` as changed in `txg`.
    pub fn add_dirty(&self, txg: Txg, bytes: u64) {
        self.add(txg, bytes, 0);
    }

    /// Counts a change of `txg`: the bytes that it writes, and the bytes of memory that it takes in
    /// addition.
    pub(crate) fn add(&self, txg: Txg, written: u64, beside: u64) {
        {
            let mut state = self.state.lock();
            state.dirty[txg.slot()] += written + beside;
            state.copied[txg.slot()] += beside;
        }
        self.copied_bytes.fetch_add(beside, Ordering::Relaxed);
        self.dirty_bytes.fetch_add(written + beside, Ordering::Relaxed);
        if self.is_wanted() {
            self.kicked.notify(usize::MAX);
        }
    }

    /// Waits until the open txg takes a change that lets so many blocks go; one that lets go more than
    /// a txg takes goes with the first that has let go none.
    pub(crate) async fn wait_to_free(&self, blocks: u64) -> Result<(), DmuError> {
        let mut is_counted = false;
        loop {
            let (open, freed) = {
                let state = self.state.lock();
                (state.open, state.freed[state.open.slot()])
            };
            if blocks == 0 || freed == 0 || freed.saturating_add(blocks) <= FREED_PER_TXG {
                return Ok(());
            }
            if !std::mem::replace(&mut is_counted, true) {
                one_more(&self.counters.frees_delayed);
            }
            self.wait_synced(open).await?;
        }
    }

    /// Whether any txg that has not synced lets blocks go.
    #[must_use]
    pub fn has_frees(&self) -> bool {
        self.state.lock().freed.iter().any(|&blocks| blocks > 0)
    }

    /// Counts blocks that a change in `txg` lets go.
    pub(crate) fn note_freed(&self, txg: Txg, blocks: u64) {
        let mut state = self.state.lock();
        let freed = &mut state.freed[txg.slot()];
        *freed = freed.saturating_add(blocks);
    }

    /// Enters an objset in the list of those that `txg` has to write.
    pub(crate) fn enter(&self, txg: Txg, objset: ObjsetId) {
        self.changed_objsets[txg.slot()].lock().insert(objset);
    }

    /// The objsets that `txg`, being synced, has to write: all that were changed in it since the last
    /// call. One may be told that has nothing to write any more.
    #[must_use]
    pub fn take_changed(&self, txg: Txg) -> BTreeSet<ObjsetId> {
        std::mem::take(&mut *self.changed_objsets[txg.slot()].lock())
    }

    /// Counts `bytes` of the txg being synced as written: they take memory still, but no disk has to
    /// catch up with them, so nobody is slowed down for their sake.
    pub(crate) fn note_written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn release(&self, txg: Txg) {
        let quiet = {
            let mut state = self.state.lock();
            let holds = &mut state.holds[txg.slot()];
            *holds -= 1;
            *holds == 0 && state.open != txg
        };
        if quiet {
            self.changed.notify(usize::MAX);
        }
    }
}

/// Membership in an open txg: it is not synced before this is dropped. When a panic drops it, the txg can
/// never be synced: a change may be half done.
#[must_use = "the txg is held no longer than this lives"]
pub struct Hold {
    gate: Arc<TxgGate>,
    txg: Txg,
}

impl Hold {
    /// The txg.
    #[must_use]
    pub fn txg(&self) -> Txg {
        self.txg
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.gate.fail(self.txg);
        }
        self.gate.release(self.txg);
    }
}

/// A txg that nobody is in any more, between [`TxgGate::quiesce`] and [`TxgGate::finish`]: there is one at a time,
/// and the sync loop has it.
#[derive(Debug)]
pub struct Quiet {
    txg: Txg,
}

impl Quiet {
    /// The txg.
    #[must_use]
    pub fn txg(&self) -> Txg {
        self.txg
    }

    /// A handle to change things in it.
    #[must_use]
    pub fn tx(&self) -> Tx {
        Tx::new(self.txg)
    }
}

/// Leave to change objects of a txg at once, without a [plan](crate::Plan): the sync has it, of the txg that it
/// writes, and who makes a pool. Nobody else can get one, so that in a txg that is open there is nothing but
/// whole changes.
pub struct Tx {
    txg: Txg,
    footprint: Footprint,
}

/// Tells whether anything has been changed with a [`Tx`], also when that is gone.
#[derive(Clone, Debug, Default)]
pub struct Footprint(Arc<AtomicBool>);

impl Footprint {
    /// Whether anything has been changed.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `future`, which fails where it would have to wait for devices as long as it has changed nothing, and waits from then on.
    pub fn patient_once_there<F: Future>(&self, future: F) -> env::InClass<F> {
        env::impatient_until(Arc::clone(&self.0), future)
    }
}

impl Tx {
    pub(crate) fn new(txg: Txg) -> Self {
        Self { txg, footprint: Footprint::default() }
    }

    /// Another handle for the same txg, which tells of its own changes only.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::new(self.txg)
    }

    /// The txg.
    #[must_use]
    pub fn txg(&self) -> Txg {
        self.txg
    }

    /// What tells whether anything has been changed.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        self.footprint.clone()
    }

    /// Something is changed.
    pub fn note_change(&self) {
        self.footprint.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
