//! Initialize and trim: which leaves are swept, who says so, and where it is written down.
//!
//! ```text
//!   told ─► checked ─► the walk is halted ─► a txg: ZAP, history ─► stable ─► walked on (or not)
//!
//!   import, a leaf is back ─► what is ACTIVE is walked on        export ─► halted; it stays ACTIVE
//! ```
//! The work is in [`sweep`]. Here each step is given its turn, and the places are stored: with the next txg that syncs,
//! which flushes what was written before. A walk whose leaf is out of use waits until it is back; one whose leaf is in
//! no vdev any more ends.
//!
//! A walk rests after each step as a scrub does ([`Pool::rest_if_others_wait`]).
//!
//! Invariants
//! - A leaf that is let go of is not written to any more when its label is wiped.
//!   (test: `a_device_that_goes_is_not_swept_any_more`)
//! - A sweep goes on where it was after a crash, an export, or its device's absence.
//!   (tests: `a_power_cut_while_free_space_is_initialized_damages_nothing`, `initializing_goes_on_after_an_export`)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dmu::Tx;
use env::boxed;
use futures::future::join_all;
use parking_lot::Mutex;
use sweep::{Kind, Order, Record, Report, Run, State, Step, Sweep, SweepRefusal, Walk};
use units::Guid;
use vdev::Leaf;

use crate::{Pool, PoolError};

/// A walk rests so many times as long as a step took, if others wait.
const RESTS: u32 = 8;
/// How long a walk whose leaf is out of use waits before it looks again.
const AWAY: Duration = Duration::from_secs(1);
/// How long one waits whose place another leaf's walk is at.
const BUSY: Duration = Duration::from_millis(5);

/// The sweeps of a pool's leaves, by the leaf's ZAP.
#[derive(Default)]
pub(crate) struct Sweeps {
    known: Mutex<BTreeMap<(u64, Kind), Arc<Sweep>>>,
    /// Held while sweeps are told something.
    deciding: async_lock::Mutex<()>,
}

impl Sweeps {
    /// That of a leaf which has a ZAP.
    fn of(&self, leaf: &Arc<Leaf>, kind: Kind) -> Arc<Sweep> {
        let new = || Arc::new(Sweep::new(Arc::clone(leaf), kind, Record::default()));
        Arc::clone(self.known.lock().entry((leaf.config().leaf_zap, kind)).or_insert_with(new))
    }

    fn all(&self) -> Vec<Arc<Sweep>> {
        self.known.lock().values().cloned().collect()
    }
}

impl Pool {
    /// Tells the sweeps of these leaves something, and returns once that is stable. What was refused, and why; if it is not
    /// to begin, nothing is done then.
    ///
    /// # Errors
    /// When it cannot be made stable.
    #[boxed]
    pub async fn sweep(
        self: &Arc<Self>,
        kind: Kind,
        order: Order,
        leaves: &[Guid],
    ) -> Result<Vec<(Guid, SweepRefusal)>, PoolError> {
        self.check_writable()?;
        let _one_at_a_time = self.sweeps.deciding.lock().await;
        let (mut due, mut refused) = (Vec::new(), Vec::new());
        for &guid in leaves {
            match self.sweep_that_may(kind, order, guid) {
                Ok(sweep) => due.push(sweep),
                Err(refusal) => refused.push((guid, refusal)),
            }
        }
        let is_start = matches!(order, Order::Start { .. });
        if !due.is_empty() && (is_start || refused.is_empty()) {
            self.tell(&due, order).await?;
        }
        Ok(refused)
    }

    fn sweep_that_may(&self, kind: Kind, order: Order, guid: Guid) -> Result<Arc<Sweep>, SweepRefusal> {
        let tops = self.vdevs.tops();
        let Some(leaf) = tops.iter().flat_map(|top| top.leaves()).find(|leaf| leaf.guid() == guid) else {
            let is_group = tops.iter().any(|top| top.node().has(guid));
            return Err(if is_group { SweepRefusal::NotUsable } else { SweepRefusal::NoSuchDevice });
        };
        let top = self.vdevs.top(leaf.vdev()).map_err(|_| SweepRefusal::NoSuchDevice)?;
        if !top.has_shares() || leaf.config().leaf_zap == 0 {
            return Err(SweepRefusal::NotHere);
        }
        // What is free on a vdev that goes is nobody's concern. OpenZFS says it in these words.
        if matches!(order, Order::Start { .. }) && top.config().leaving.is_some() {
            return Err(SweepRefusal::under_way(kind));
        }
        let sweep = self.sweeps.of(leaf, kind);
        sweep.check(order).map(|()| sweep)
    }

    async fn tell(self: &Arc<Self>, due: &[Arc<Sweep>], order: Order) -> Result<(), PoolError> {
        if !matches!(order, Order::Start { .. }) {
            join_all(due.iter().map(|sweep| sweep.halt())).await;
        }
        let told = due.to_vec();
        let stable = self.in_sync(move |pool, tx| async move {
            for sweep in &told {
                if let Some(record) = sweep.told(order, pool.env.wall_clock().as_secs()) {
                    pool.note_sweep(&tx, sweep, record, order.done()).await?;
                }
            }
            Ok(())
        });
        let stable = stable.await;
        // Those that were told to begin, or all that were halted for nothing.
        due.iter().for_each(|sweep| self.walk_on(sweep));
        stable
    }

    /// Stores how a sweep stands, and notes in the history what became of it.
    async fn note_sweep(&self, tx: &Tx, sweep: &Sweep, record: Record, what: &str) -> Result<(), PoolError> {
        let Some(zap) = sweep.zap() else { return Ok(()) };
        if record.state == State::None {
            Record::forget(&self.mos, tx, zap, sweep.kind()).await?;
        } else {
            record.store(&self.mos, tx, zap, sweep.kind()).await?;
        }
        let before = sweep.record().state;
        sweep.set_record(record);
        self.tell_trim(sweep, before, record.state);
        let path = sweep.leaf().path();
        let (event, detail) = match record.state {
            State::None => (format!("un{}", sweep.kind().name()), format!("vdev={}", path.display())),
            _ => (sweep.kind().name().to_owned(), format!("vdev={} {what}", path.display())),
        };
        self.note_event(tx, &event, None, &detail).await
    }

    /// Tells of a trim that stands otherwise than `before`. There are no events of other sweeps.
    fn tell_trim(&self, sweep: &Sweep, before: State, now: State) {
        let what = match (now, before) {
            (State::None, _) => return,
            (State::Active, State::Suspended) => "trim_resume",
            (State::Active, _) => "trim_start",
            (State::Canceled, _) => "trim_cancel",
            (State::Suspended, _) => "trim_suspend",
            (State::Complete, _) => "trim_finish",
        };
        if sweep.kind() == Kind::Trim {
            self.tell_done(what, Some(sweep.leaf()));
        }
    }

    /// How far a leaf's sweep is.
    #[must_use]
    pub fn sweep_report(&self, leaf: &Arc<Leaf>, kind: Kind) -> Report {
        let known = self.sweeps.known.lock().get(&(leaf.config().leaf_zap, kind)).cloned();
        known.map_or_else(Report::default, |sweep| sweep.report(&self.zio))
    }

    /// Takes up what leaves have on record, and goes on with what is to go on.
    pub(crate) async fn resume_sweeps(self: &Arc<Self>) -> Result<(), PoolError> {
        for leaf in self.vdevs.leaves() {
            let Some(zap) = Some(leaf.config().leaf_zap).filter(|&zap| zap != 0) else { continue };
            for kind in Kind::ALL {
                let record = Record::load(&self.mos, units::ObjectId::new(zap), kind).await?;
                let sweep = Arc::new(Sweep::new(Arc::clone(&leaf), kind, record));
                self.sweeps.known.lock().insert((zap, kind), Arc::clone(&sweep));
                self.walk_on(&sweep);
            }
        }
        Ok(())
    }

    /// Has all sweeps stop, before the pool is closed; the next import goes on.
    pub(crate) async fn leave_sweeps(&self) {
        join_all(self.sweeps.all().iter().map(|sweep| sweep.halt())).await;
    }

    /// All sweeps go on that were stopped for something which then failed.
    pub(crate) fn walk_on_all(self: &Arc<Self>) {
        self.sweeps.all().iter().for_each(|sweep| self.walk_on(sweep));
    }

    /// Nobody sweeps a leaf any more that is let go of.
    pub(crate) async fn end_sweeps_of(&self, leaf: &Arc<Leaf>) {
        let of_leaf: Vec<_> =
            self.sweeps.all().into_iter().filter(|sweep| Arc::ptr_eq(sweep.leaf(), leaf)).collect();
        join_all(of_leaf.iter().map(|sweep| sweep.halt())).await;
        self.sweeps.known.lock().retain(|_, sweep| !Arc::ptr_eq(sweep.leaf(), leaf));
    }

    fn walk_on(self: &Arc<Self>, sweep: &Arc<Sweep>) {
        if self.read_only || sweep.record().state != State::Active {
            return;
        }
        let Some(run) = sweep.begin() else { return };
        let (pool, sweep) = (Arc::clone(self), Arc::clone(sweep));
        let task = async move {
            if let Err(error) = pool.walk(&sweep, &run).await {
                tracing::error!(kind = sweep.kind().name(), %error, "stops");
            }
            sweep.end(&run);
        };
        self.env.spawn("sweep", Box::pin(task));
    }

    async fn walk(self: &Arc<Self>, sweep: &Arc<Sweep>, run: &Arc<Run>) -> Result<(), PoolError> {
        let (zio, leaf) = (Arc::clone(&self.zio), Arc::clone(sweep.leaf()));
        let mut walk = Walk::new(zio, leaf, sweep.kind(), &sweep.record(), Arc::clone(&self.trims.asked));
        let begun = self.env.now();
        loop {
            let started = self.env.now();
            let step = match run.turn().await {
                Some(_turn) if self.stopped().is_none() => walk.step().await,
                _ => return Ok(()),
            };
            match step {
                Step::Swept(_) | Step::Failed => {
                    self.note_sweep_place(sweep, &walk, step == Step::Failed)?;
                    self.rest_if_others_wait(std::slice::from_ref(sweep.leaf()), started, RESTS).await;
                    self.rest(walk.ahead_by(self.env.now().saturating_sub(begun))).await;
                }
                Step::Busy => self.env.sleep(BUSY).await,
                Step::Away => self.env.sleep(AWAY).await,
                Step::Gone => return Ok(()),
                Step::End => return self.complete(sweep, run).await,
            }
        }
    }

    async fn rest(&self, span: Duration) {
        if span > Duration::ZERO {
            self.env.sleep(span).await;
        }
    }

    /// Has the next txg store how far the walk is, after a flush of what was written.
    fn note_sweep_place(
        self: &Arc<Self>,
        sweep: &Arc<Sweep>,
        walk: &Walk,
        failed: bool,
    ) -> Result<(), PoolError> {
        self.zio.note_unflushed(sweep.leaf().vdev());
        if !sweep.note(walk.offset(), failed) {
            return Ok(());
        }
        let sweep = Arc::clone(sweep);
        self.in_next_sync("how far a device is swept", move |pool, tx| async move {
            let record = sweep.take_noted();
            let Some(zap) = sweep.zap().filter(|_| record.state != State::None) else { return Ok(()) };
            Ok(record.store(&pool.mos, &tx, zap, sweep.kind()).await?)
        })
    }

    async fn complete(self: &Arc<Self>, sweep: &Arc<Sweep>, run: &Arc<Run>) -> Result<(), PoolError> {
        let (sweep, run) = (Arc::clone(sweep), Arc::clone(run));
        self.in_sync(move |pool, tx| async move {
            let record = sweep.record();
            // It was told something else just now.
            if record.state != State::Active {
                return Ok(());
            }
            // Who sees that it is complete may tell it something at once.
            sweep.end(&run);
            let now_secs = pool.env.wall_clock().as_secs();
            let record = Record { state: State::Complete, changed_secs: now_secs, ..record };
            pool.note_sweep(&tx, &sweep, record, "complete").await
        })
        .await
    }
}
