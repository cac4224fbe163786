//! `multihost=on`: the pool's host shows that it lives, and stops where it can no longer show it.
//!
//! ```text
//!   each interval / leaves:  the last uberblock again, with a new time or sequence ─► one label of the next leaf
//!        │ landed                                    │ none has for interval × fail_intervals
//!        ▼                                           ▼
//!   devices may be written to for              the fence is closed, the pool suspended: nothing is written,
//!   another interval × fail_intervals,         nothing acknowledged, until `zpool clear` has found that no
//!   counted from when it was begun             other host took the pool meanwhile, or it is given up
//! ```
//! A host that wants the pool watches its uberblocks for twice that time before it takes it ([`crate::import::owner`]), so that
//! it sees a heartbeat of a host that lives, and one that does not has stopped before. What enforces the stop is
//! [`vdev::Fence`]: each request looks at the clock, for after a pause whatever task looks at it first may be any.
//!
//! A txg that becomes stable is a heartbeat too. While devices fail and the pool waits for them, heartbeats go on as far as
//! they can: who waits still owns the pool.
//!
//! Settings, ranges and the meaning of the fields are OpenZFS's (`zfs_multihost_interval`, `_fail_intervals`, `_import_intervals`,
//! `mmp_delay`). What is ours: the time counts from the beginning of a write, and not from its end, which a paused host hears of late.
//!
//! Invariants
//! - A host that cannot write heartbeats for the time suspends its pool, and acknowledges nothing from then on.
//!   (test: `a_pool_whose_heartbeats_do_not_land_is_suspended`)
//! - It goes on only when no other host has taken the pool. (tests: `clear_takes_a_pool_up_again_that_nobody_took`,
//!   `clear_leaves_a_pool_to_the_host_that_took_it`)
//! - Off, nothing is written and no task runs. (test: `without_multihost_no_heartbeat_is_written`)

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dsl::PropValue;
use env::Env;
use event_listener::Event;
use futures::future::select;
use ondisk::{MmpConfig, UberblockPhys};
use parking_lot::Mutex;
use units::Guid;
use vdev::{Fence, Leaf, VdevError};

use crate::import::owner;
use crate::{Pool, PoolError};

/// The property's name.
pub(crate) const MULTIHOST: &str = "multihost";

/// How a pool with `multihost=on` shows that it is open, and how long one is watched that another host may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeats {
    /// Each leaf gets one so often (`zfs_multihost_interval`): at least 100 ms.
    pub interval: Duration,
    /// After so many intervals without one that landed the pool is suspended (`zfs_multihost_fail_intervals`): two at least, or 0
    /// for never.
    pub fail_intervals: u16,
    /// A pool is watched for so many intervals, if its owner does not tell when it stops (`zfs_multihost_import_intervals`).
    pub import_intervals: u32,
}

impl Default for Heartbeats {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), fail_intervals: 10, import_intervals: 20 }
    }
}

/// No shorter interval, and none that the uberblock has no room for.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_millis((1 << 24) - 1);
/// One late heartbeat of a pool of one leaf is no reason to stop.
const FAIL_INTERVALS_MIN: u16 = 2;
/// The weight of what the average of delays was before.
const DECAY: u32 = 128;

impl Heartbeats {
    /// The interval, within what is possible.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval.clamp(INTERVAL_MIN, INTERVAL_MAX)
    }

    /// The number of intervals after which the owner stops, within what is possible.
    #[must_use]
    pub fn fail_intervals(&self) -> u16 {
        if self.fail_intervals == 0 { 0 } else { self.fail_intervals.max(FAIL_INTERVALS_MIN) }
    }

    /// The time after which the owner stops; none if it never does.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        let count = self.fail_intervals();
        (count != 0).then(|| self.interval() * u32::from(count))
    }

    /// What an uberblock says of them.
    fn config(&self, sequence: u16) -> MmpConfig {
        MmpConfig {
            interval_ms: u32::try_from(self.interval().as_millis()).ok(),
            sequence: Some(sequence),
            fail_intervals: Some(self.fail_intervals()),
        }
    }
}

/// Why a pool is suspended whose devices work.
#[derive(Debug, thiserror::Error)]
#[error("multihost writes have not succeeded in over {} ms", .0.as_millis())]
struct Late(Duration);

/// What became of the pool's heartbeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatCounts {
    /// Written.
    pub landed: u64,
    /// That a device did not take.
    pub failed: u64,
    /// Left out, since every leaf was still busy with one.
    pub skipped: u64,
}

/// The heartbeats of a pool.
pub(crate) struct Multihost {
    settings: Heartbeats,
    fence: Arc<Fence>,
    is_on: AtomicBool,
    state: Mutex<State>,
    changed: Event,
    landed: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
}

struct State {
    /// The last stable uberblock, as the last heartbeat had it.
    uberblock: Option<UberblockPhys>,
    /// The next one's.
    sequence: u16,
    /// `mmp_delay`: between two that landed, a decaying average; zero while off.
    delay: Duration,
    /// When the last that landed was begun.
    begun: Duration,
    /// When it landed.
    landed: Duration,
    /// Its rank.
    seen: (u64, u64, u16),
    /// A txg's that was begun to be written, stable or not.
    begun_txg: Option<UberblockPhys>,
    /// Leaves that have not taken one yet.
    busy: BTreeSet<Guid>,
    last_leaf: Option<Guid>,
    /// A task writes them.
    is_running: bool,
    is_ending: bool,
    /// The pool is suspended because of them.
    is_held: bool,
}

/// A heartbeat about to be written.
struct Beat {
    leaf: Arc<Leaf>,
    uberblock: UberblockPhys,
    begun: Duration,
}

impl Multihost {
    pub(crate) fn new(settings: Heartbeats, fence: Arc<Fence>, opened: Option<UberblockPhys>) -> Arc<Self> {
        let state = State {
            uberblock: opened,
            sequence: 1,
            delay: Duration::ZERO,
            begun: Duration::ZERO,
            landed: Duration::ZERO,
            seen: (0, 0, 0),
            begun_txg: None,
            busy: BTreeSet::new(),
            last_leaf: None,
            is_running: false,
            is_ending: false,
            is_held: false,
        };
        Arc::new(Self {
            settings,
            fence,
            is_on: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Event::new(),
            landed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        })
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(SeqCst)
    }

    /// Whether the pool is suspended because heartbeats did not land.
    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().is_held
    }

    /// Puts the fields that tell of heartbeats into the uberblock of a txg.
    pub(crate) fn mark(&self, uberblock: &mut UberblockPhys) {
        uberblock.mmp_magic.set(ondisk::MMP_MAGIC);
        if self.is_on() {
            uberblock.mmp_delay.set(nanos(self.state.lock().delay).max(1));
            uberblock.mmp_config.set(self.settings.config(0).to_word());
        }
    }

    /// The uberblock of a txg is about to be written.
    pub(crate) fn syncing(&self, uberblock: &UberblockPhys) {
        self.state.lock().begun_txg = Some(*uberblock);
    }

    /// A txg is stable since a write that was begun then.
    pub(crate) fn synced(&self, uberblock: &UberblockPhys, begun: Duration, now: Duration) {
        let mut state = self.state.lock();
        (state.uberblock, state.sequence) = (Some(*uberblock), 1);
        if self.is_on() {
            self.has_landed(&mut state, uberblock, begun, now, 1);
        }
    }

    fn has_landed(
        &self,
        state: &mut State,
        uberblock: &UberblockPhys,
        begun: Duration,
        now: Duration,
        leaves: usize,
    ) {
        // One may end after another that was begun later.
        state.seen = state.seen.max(uberblock.rank());
        let since = now.saturating_sub(state.landed);
        state.landed = now;
        let leaves = u32::try_from(leaves.max(1)).unwrap_or(u32::MAX);
        let least = self.settings.interval() / leaves;
        state.delay = match since >= state.delay {
            true => since,
            false => ((since + state.delay * (DECAY - 1)) / DECAY).max(least),
        };
        if state.is_held || begun < state.begun {
            return;
        }
        state.begun = begun;
        if let Some(limit) = self.settings.limit() {
            self.fence.extend(now, begun + limit);
        }
    }

    /// Time begins anew: nothing could have landed until now.
    fn begin(&self, state: &mut State, now: Duration) {
        (state.begun, state.landed, state.delay) = (now, now, self.settings.interval());
        state.is_held = false;
        match self.settings.limit() {
            Some(limit) => self.fence.extend(now, now + limit),
            None => self.fence.lift(),
        }
    }

    /// For how long none has landed, if that is too long.
    fn late(&self, state: &State, now: Duration) -> Option<Duration> {
        let waited = now.saturating_sub(state.begun);
        (waited > self.settings.limit()?).then_some(waited)
    }

    /// The next heartbeat, for the leaf after that of the last.
    fn next(&self, leaves: &[Arc<Leaf>], now: Duration, wall_secs: u64) -> Option<Beat> {
        let mut state = self.state.lock();
        let mut uberblock = state.uberblock?;
        let last = leaves.iter().position(|leaf| Some(leaf.guid()) == state.last_leaf);
        let first = last.map_or(0, |at| at + 1);
        let in_turn = (0..leaves.len()).map(|n| &leaves[(first + n) % leaves.len()]);
        let Some(leaf) = in_turn.into_iter().find(|leaf| !state.busy.contains(&leaf.guid())) else {
            state.delay = state.delay.max(now.saturating_sub(state.landed));
            self.skipped.fetch_add(1, SeqCst);
            return None;
        };
        // A clock that was set back leaves the sequence to tell them apart, and that has an end.
        let at = uberblock.timestamp.get();
        if at < wall_secs || state.sequence == u16::MAX {
            uberblock.timestamp.set(wall_secs.max(at.saturating_add(1)));
            state.sequence = 1;
        }
        uberblock.mmp_magic.set(ondisk::MMP_MAGIC);
        uberblock.mmp_delay.set(nanos(state.delay).max(1));
        uberblock.mmp_config.set(self.settings.config(state.sequence).to_word());
        state.sequence = state.sequence.saturating_add(1);
        state.uberblock = Some(uberblock);
        state.last_leaf = Some(leaf.guid());
        state.busy.insert(leaf.guid());
        Some(Beat { leaf: Arc::clone(leaf), uberblock, begun: now })
    }

    /// Whether an uberblock is one that was written here: between the last heartbeat that landed and the last that was begun, or a
    /// txg's that may have become stable.
    fn wrote(&self, found: &UberblockPhys) -> bool {
        let state = self.state.lock();
        let is_state = |ours: &UberblockPhys| (found.txg, found.rootbp) == (ours.txg, ours.rootbp);
        let is_beat = |ours: &UberblockPhys| {
            is_state(ours) && found.rank() >= state.seen && found.rank() <= ours.rank()
        };
        state.uberblock.is_some_and(|ours| is_beat(&ours))
            || state.begun_txg.is_some_and(|ours| is_state(&ours) && found.rank() == ours.rank())
    }

    fn ended(&self, beat: &Beat, result: &Result<(), VdevError>, now: Duration, leaves: usize) {
        let mut state = self.state.lock();
        state.busy.remove(&beat.leaf.guid());
        match result {
            Ok(()) => {
                self.landed.fetch_add(1, SeqCst);
                if self.is_on() {
                    self.has_landed(&mut state, &beat.uberblock, beat.begun, now, leaves);
                }
            }
            Err(error) => {
                self.failed.fetch_add(1, SeqCst);
                state.delay = state.delay.max(now.saturating_sub(state.landed));
                tracing::debug!(%error, "heartbeat not written");
            }
        }
        drop(state);
        self.changed.notify(usize::MAX);
    }

    /// Ready when no more are to be written.
    async fn until_over(self: &Arc<Self>) {
        loop {
            let changed = self.changed.listen();
            if !self.is_on() || self.state.lock().is_ending {
                return;
            }
            changed.await;
        }
    }

    /// Begins no more of them.
    pub(crate) fn leave_off(&self) {
        self.state.lock().is_ending = true;
        self.changed.notify(usize::MAX);
    }

    /// Writes no more of them; ready when the last is over.
    pub(crate) async fn end(&self) {
        self.leave_off();
        loop {
            let changed = self.changed.listen();
            if self.state.lock().busy.is_empty() {
                return;
            }
            changed.await;
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Pool {
    /// Whether the pool's host shows that it is open here.
    #[must_use]
    pub fn multihost(&self) -> bool {
        self.multihost.is_on()
    }

    /// Whether the pool is suspended because its heartbeats did not land.
    #[must_use]
    pub fn is_suspended_for_heartbeats(&self) -> bool {
        self.multihost.is_held()
    }

    /// What became of its heartbeats since it was opened.
    #[must_use]
    pub fn heartbeats(&self) -> HeartbeatCounts {
        let of = &self.multihost;
        HeartbeatCounts {
            landed: of.landed.load(SeqCst),
            failed: of.failed.load(SeqCst),
            skipped: of.skipped.load(SeqCst),
        }
    }

    /// Takes over what the pool says.
    ///
    /// # Errors
    /// When it is on, and this host has no number.
    pub(crate) async fn load_multihost(self: &Arc<Self>) -> Result<(), PoolError> {
        let props = self.pool_props().await?;
        if props.get(MULTIHOST).and_then(PropValue::number) == Some(1) {
            self.check_hostid()?;
            self.note_multihost(props.get(MULTIHOST));
        }
        Ok(())
    }

    /// Whether this host can be told from others.
    pub(crate) fn check_hostid(&self) -> Result<(), PoolError> {
        if self.tuning.host.id == 0 { Err(PoolError::NoHostId) } else { Ok(()) }
    }

    /// Takes over a value of the property.
    pub(crate) fn note_multihost(self: &Arc<Self>, value: Option<&PropValue>) {
        let of = &self.multihost;
        let is_on = value.and_then(PropValue::number) == Some(1);
        let mut state = of.state.lock();
        if is_on == of.is_on.swap(is_on, SeqCst) {
            return;
        }
        if is_on {
            of.begin(&mut state, self.env.now());
            if !std::mem::replace(&mut state.is_running, true) {
                let beating = beat_on(Arc::downgrade(self), Arc::clone(of), Arc::clone(&self.env));
                self.env.spawn("mmp", Box::pin(beating));
            }
        } else {
            state.delay = Duration::ZERO;
            of.fence.lift();
        }
        drop(state);
        of.changed.notify(usize::MAX);
    }

    /// Writes a heartbeat if there is a leaf for it, and suspends the pool if none has landed for too long. Gives the time to the
    /// next; none when it is off.
    fn beat(self: &Arc<Self>) -> Option<Duration> {
        let (of, now) = (&self.multihost, self.env.now());
        let late = {
            let mut state = of.state.lock();
            if !of.is_on() || state.is_ending {
                state.is_running = false;
                return None;
            }
            let late = of.late(&state, now).filter(|_| !state.is_held);
            if late.is_some() {
                state.is_held = true;
                of.fence.close();
            }
            late
        };
        if let Some(waited) = late {
            self.stop_being_late(waited);
        }
        let leaves = self.vdevs.heartbeat_leaves();
        let count = self.vdevs.leaves().len().max(1);
        if !of.is_held()
            && let Some(beat) = of.next(&leaves, now, self.env.wall_clock().as_secs())
        {
            self.write_beat(beat, count);
        }
        Some(of.settings.interval() / u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn stop_being_late(&self, waited: Duration) {
        let late = Late(waited);
        tracing::error!(pool = self.name(), "{late}; suspending pool");
        if self.suspension().is_engaged() {
            self.suspension().hold(&late);
        } else {
            // Its import has nobody whom a `zpool clear` could help: it fails.
            self.suspension().give_up();
            self.vdevs.fence().give_up();
        }
    }

    fn write_beat(self: &Arc<Self>, beat: Beat, leaves: usize) {
        let pool = Arc::clone(self);
        let label = usize::try_from(self.env.random_u64() % 4).unwrap_or(0);
        let write = async move {
            let written = pool.vdevs.beat(&beat.leaf, label, &beat.uberblock).await;
            pool.multihost.ended(&beat, &written, pool.env.now(), leaves);
        };
        self.env.spawn("mmp_write", Box::pin(write));
    }

    /// Goes on with a pool that was suspended because heartbeats did not land, if no other host has taken it. That takes as long
    /// as it would take another to import it.
    ///
    /// # Errors
    /// [`PoolError::ActiveElsewhere`], when devices cannot be read, and when the program ends.
    pub(crate) async fn take_up_again(&self) -> Result<(), PoolError> {
        let found = self.vdevs.newest().await.ok_or(PoolError::NoUberblock)?;
        let foreign = |found: &vdev::Newest| match &found.pool {
            Some(pool) => PoolError::ActiveElsewhere { hostname: pool.hostname.clone(), hostid: pool.hostid },
            None => PoolError::ActiveElsewhere { hostname: "<unknown>".into(), hostid: 0 },
        };
        let is_host = found.pool.as_ref().is_some_and(|pool| pool.hostid == self.tuning.host.id);
        let rank = found.uberblock.rank();
        if !is_host || !self.multihost.wrote(&found.uberblock) {
            return Err(foreign(&found));
        }
        let span = owner::patience(&found.uberblock, &self.tuning.heartbeats, &self.env)?;
        let until = self.env.now().saturating_add(span);
        while self.env.now() < until {
            self.tuning.ending.sleep(&self.env, owner::poll(self.tuning.heartbeats.interval())).await?;
            let now = self.vdevs.newest().await.ok_or(PoolError::NoUberblock)?;
            if now.uberblock.rank() != rank {
                return Err(foreign(&now));
            }
        }
        let mut state = self.multihost.state.lock();
        self.multihost.begin(&mut state, self.env.now());
        drop(state);
        self.suspension().let_go();
        self.multihost.changed.notify(usize::MAX);
        Ok(())
    }
}

/// Writes heartbeats for as long as there is a pool that wants them.
async fn beat_on(pool: Weak<Pool>, of: Arc<Multihost>, env: Arc<dyn Env>) {
    loop {
        let Some(span) = Weak::upgrade(&pool).and_then(|pool| pool.beat()) else { return };
        select(env.sleep(span), Box::pin(of.until_over())).await;
    }
}
