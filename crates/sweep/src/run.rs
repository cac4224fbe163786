//! A leaf's sweep: how it stands, and the walk that is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use env::boxed;
use parking_lot::Mutex;
use units::{LeafOffset, ObjectId};
use vdev::Leaf;
use zio::Zio;

use crate::{Kind, Record, State, SweepRefusal};

/// Keeps who ends a walk and the walk apart: the walk does each step in its turn, and whoever halts it waits
/// for the step that is under way.
#[derive(Default)]
pub struct Run {
    halted: AtomicBool,
    stepping: async_lock::Mutex<()>,
}

impl Run {
    /// From now on there is no further step; returns when none is under way any more.
    #[boxed]
    pub async fn halt(&self) {
        self.halted.store(true, Ordering::Release);
        let _none_is_under_way = self.stepping.lock().await;
    }

    /// The turn for one step; none once it was halted.
    #[boxed]
    pub async fn turn(&self) -> Option<async_lock::MutexGuard<'_, ()>> {
        let turn = self.stepping.lock().await;
        (!self.halted.load(Ordering::Acquire)).then_some(turn)
    }
}

/// How far a leaf's sweep is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is on record.
    pub record: Record,
    /// Bytes of the leaf that were free and are behind the walk.
    pub done_bytes: u64,
    /// Bytes of the leaf that are free.
    pub total_bytes: u64,
    /// Requests that failed since the pool was opened.
    pub errors: u64,
}

/// One kind of sweep of one leaf.
pub struct Sweep {
    leaf: Arc<Leaf>,
    kind: Kind,
    now: Mutex<Now>,
    /// The place is to be stored by the next txg.
    noted: AtomicBool,
}

struct Now {
    record: Record,
    errors: u64,
    run: Option<Arc<Run>>,
}

impl Sweep {
    /// As its ZAP has it.
    #[must_use]
    pub fn new(leaf: Arc<Leaf>, kind: Kind, record: Record) -> Self {
        let now = Mutex::new(Now { record, errors: 0, run: None });
        Self { leaf, kind, now, noted: AtomicBool::new(false) }
    }

    /// Whose it is.
    #[must_use]
    pub fn leaf(&self) -> &Arc<Leaf> {
        &self.leaf
    }

    /// What is done.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it is stored, while the leaf is the pool's.
    #[must_use]
    pub fn zap(&self) -> Option<ObjectId> {
        let zap = self.leaf.config().leaf_zap;
        (zap != 0).then(|| ObjectId::new(zap))
    }

    /// How it stands.
    #[must_use]
    pub fn record(&self) -> Record {
        self.now.lock().record
    }

    /// Notes that it stands so.
    pub fn set_record(&self, record: Record) {
        self.now.lock().record = record;
    }

    /// Takes up a walk; none if one is under way.
    pub fn begin(&self) -> Option<Arc<Run>> {
        let mut now = self.now.lock();
        if now.run.is_some() {
            return None;
        }
        let run = Arc::new(Run::default());
        now.run = Some(Arc::clone(&run));
        Some(run)
    }

    /// Halts the walk that is under way, if one is.
    #[boxed]
    pub async fn halt(&self) {
        let run = self.now.lock().run.clone();
        if let Some(run) = run {
            run.halt().await;
            self.end(&run);
        }
    }

    /// A walk has ended.
    pub fn end(&self, run: &Arc<Run>) {
        let mut now = self.now.lock();
        if now.run.as_ref().is_some_and(|own| Arc::ptr_eq(own, run)) {
            now.run = None;
        }
    }

    /// Notes how far the walk is. Says whether that is to be stored, and nobody was told so yet.
    #[must_use]
    pub fn note(&self, offset: LeafOffset, has_failed: bool) -> bool {
        let mut now = self.now.lock();
        now.record.offset = offset;
        now.errors += u64::from(has_failed);
        !self.noted.swap(true, Ordering::AcqRel)
    }

    /// What is to be stored by a txg.
    pub fn take_noted(&self) -> Record {
        self.noted.store(false, Ordering::Release);
        self.record()
    }

    /// Whether a walk is under way.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.now.lock().run.is_some()
    }

    /// Whether it may be told that.
    ///
    /// # Errors
    /// [`SweepRefusal`].
    pub fn check(&self, order: Order) -> Result<(), SweepRefusal> {
        let state = self.record().state;
        let is_known = self.zap().is_some();
        match order {
            _ if !is_known => Err(SweepRefusal::NotHere),
            _ if !self.leaf.is_usable() => Err(SweepRefusal::NotUsable),
            Order::Start { secure, .. } if self.kind == Kind::Trim && (secure || !can_trim(&self.leaf)) => {
                Err(SweepRefusal::CannotTrim)
            }
            Order::Start { .. } | Order::Forget if self.is_running() => {
                Err(SweepRefusal::under_way(self.kind))
            }
            Order::Cancel if !matches!(state, State::Active | State::Suspended) => {
                Err(SweepRefusal::not_under_way(self.kind))
            }
            Order::Suspend if state != State::Active => Err(SweepRefusal::not_under_way(self.kind)),
            _ => Ok(()),
        }
    }

    /// What is on record once it was told that; nothing new if it has ended meanwhile.
    #[must_use]
    pub fn told(&self, order: Order, now_secs: u64) -> Option<Record> {
        let record = self.record();
        if matches!(order, Order::Cancel | Order::Suspend) && record.state == State::Complete {
            return None;
        }
        let was_suspended = record.state == State::Suspended;
        let begun = if was_suspended { record.changed_secs } else { now_secs };
        Some(match order {
            Order::Start { rate, .. } => self.started(record, rate, begun),
            // Since when it is under way is still worth knowing.
            Order::Suspend => Record { state: State::Suspended, ..record },
            Order::Cancel => Record { state: State::Canceled, changed_secs: begun, ..record },
            Order::Forget => Record::default(),
        })
    }

    /// A trim that is begun anew is of everything, and an initialization of what was not reached, as in OpenZFS.
    fn started(&self, record: Record, rate: u64, begun_secs: u64) -> Record {
        let is_over = matches!(record.state, State::Complete | State::Canceled);
        let before = if self.kind == Kind::Trim && is_over { Record::default() } else { record };
        let rate = if rate == 0 { before.rate } else { rate };
        Record { state: State::Active, changed_secs: begun_secs, rate, ..before }
    }

    /// How far it is.
    #[must_use]
    pub fn report(&self, zio: &Zio) -> Report {
        let (record, errors) = {
            let now = self.now.lock();
            (now.record, now.errors)
        };
        let Ok(top) = zio.vdevs().top(self.leaf.vdev()) else {
            return Report { record, errors, ..Report::default() };
        };
        let at = top.offset_from(&self.leaf, record.offset);
        let (done, total) = zio.with_allocator(|allocator| allocator.free_before(top.id(), at));
        let width = top.spread().children() as u64;
        Report { record, errors, done_bytes: done.get() / width, total_bytes: total.get() / width }
    }
}

/// What a sweep is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To begin, or go on.
    Start {
        /// Bytes a second at most; 0 for what was said before, or as many as can be.
        rate: u64,
        /// What is forgotten is to be gone for good.
        secure: bool,
    },
    /// To wait until it is started again.
    Suspend,
    /// To end.
    Cancel,
    /// To be as if it had never been.
    Forget,
}

impl Order {
    /// What the history says of it.
    #[must_use]
    pub const fn done(self) -> &'static str {
        match self {
            Self::Start { .. } => "activated",
            Self::Suspend => "suspended",
            Self::Cancel => "canceled",
            Self::Forget => "",
        }
    }
}

/// Whether a leaf's device can forget bytes.
#[must_use]
pub fn can_trim(leaf: &Leaf) -> bool {
    leaf.device().is_some_and(|device| device.info().can_discard)
}
