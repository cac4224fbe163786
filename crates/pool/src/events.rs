//! What happens to the pool and its devices is told, as events that OpenZFS has, too.
//!
//! ```text
//!   a command's txg, a scan, a sweep ──► sysevent.fs.zfs.*                      what was done
//!   vdev::LeafWatch ───────────────────► resource.fs.zfs.statechange            a leaf's state
//!                                        ereport.fs.zfs.{io, checksum, delay, deadman, vdev.*}
//!   suspension, lost blocks, logs ─────► ereport.fs.zfs.{io_failure, data, log_replay}
//!   an import without a space map ─────► ereport.fs.zfs.metaslab                 not in OpenZFS
//!                                          │ so many of a kind and device in a second
//!                                          ▼
//!                                        Tuning::events, which outlives the pool
//! ```
//! An event tells what this program knows: it has no zio pipeline, and so no stages and flags of one. Of a kind that
//! OpenZFS has no event for (`initialize`) the history's entry is the event, as there.
//!
//! Invariants
//! - A device that changes its state is told of once, with its state before.
//!   (test: `what_befalls_a_device_is_told_as_openzfs_tells_it`)
//! - A device that fails all the time is told of twenty times a second at most, for each way to fail.
//!   (test: `no_more_are_told_in_a_second_than_allowed`, in `events`)

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use env::BoxFuture;
use events::{Event, EventRing, Rate, names};
use ondisk::history::names as history;
use ondisk::{NvList, NvValue};
use parking_lot::Mutex;
use units::Guid;
use vdev::{IoKind, Leaf, LeafEvent, LeafWatch, PoolState, Request, VdevAux, VdevState};
use zio::{Bookmark, FailMode};

use crate::Pool;

/// So many reports of a kind and device in a second (`zfs_checksum_events_per_second`).
const ERRORS_A_SECOND: u32 = 20;
/// The same of devices that do not answer (`zfs_deadman_events_per_second`).
const DEADMAN_A_SECOND: u32 = 1;
/// `pool_context` of a pool that is in use (`SPA_LOAD_NONE`), and of one that is being opened (`SPA_LOAD_IMPORT`).
const IN_USE: i32 = 0;
const IMPORTING: i32 = 2;
/// What makes a number an `ena`: format 1, which has the time from this bit on.
const ENA_FORMAT: u64 = 1;
const ENA_TIME_SHIFT: u32 = 20;
/// What a bad checksum is called where an error number is wanted (`EBADE`).
const BAD_CHECKSUM: i32 = 52;

/// A pool's way to the ring.
pub(crate) struct PoolEvents {
    ring: Arc<EventRing>,
    pool: Weak<Pool>,
    /// It is in use: its import, or its making, is over.
    is_opened: AtomicBool,
    rates: Mutex<BTreeMap<(Guid, &'static str), Rate>>,
}

impl PoolEvents {
    pub(crate) fn new(ring: Arc<EventRing>, pool: Weak<Pool>) -> Arc<Self> {
        Arc::new(Self { ring, pool, is_opened: AtomicBool::new(false), rates: Mutex::default() })
    }

    /// No device works any more that the pool needs. The suspension, which calls, cannot be asked for its mode.
    pub(crate) fn suspended(&self, mode: FailMode) {
        if let Some(pool) = self.pool.upgrade() {
            pool.report_as(mode, "io_failure", None, |_| {});
        }
    }

    fn may_tell(&self, leaf: Guid, what: &'static str, pool: &Pool) -> bool {
        let most = if what == "deadman" { DEADMAN_A_SECOND } else { ERRORS_A_SECOND };
        let mut rates = self.rates.lock();
        rates.entry((leaf, what)).or_insert(Rate::new(most)).allows(pool.env.now())
    }
}

impl LeafWatch for PoolEvents {
    fn happened(&self, leaf: &Leaf, event: LeafEvent) {
        let Some(pool) = self.pool.upgrade() else { return };
        let tell = |what: &'static str, request: Option<Request>, errno: i32, nanos: Option<u128>| {
            if self.may_tell(leaf.guid(), what, &pool) {
                pool.report(what, Some(leaf), |payload| put_request(payload, request, errno, nanos));
            }
        };
        match event {
            LeafEvent::State { before } => {
                pool.look_for_absences();
                pool.tell_state(leaf, before);
            }
            LeafEvent::Failed { request, errno } => tell("io", Some(request), errno, None),
            LeafEvent::WrongBytes(request) => tell("checksum", Some(request), BAD_CHECKSUM, None),
            LeafEvent::Slow { request, took } => tell("delay", Some(request), 0, Some(took.as_nanos())),
            LeafEvent::Unanswered { waited } => tell("deadman", None, 0, Some(waited.as_nanos())),
        }
    }

    fn until_recorded(&self) -> Option<BoxFuture<'_, ()>> {
        let pool = self.pool.upgrade()?;
        if !pool.absences.is_unrecorded() {
            return None;
        }
        Some(Box::pin(async move { pool.absences.until_recorded(&*pool.env).await }))
    }
}

impl Pool {
    /// Tells that something was done, to the pool or to a leaf.
    pub(crate) fn tell_done(&self, what: &str, leaf: Option<&Leaf>) {
        self.tell_done_with(what, leaf, |_| {});
    }

    pub(crate) fn tell_done_with(&self, what: &str, leaf: Option<&Leaf>, more: impl FnOnce(&mut NvList)) {
        let mut event = Event::done(what);
        self.put_pool(event.payload(), PoolState::Active);
        leaf.into_iter().for_each(|leaf| put_leaf(event.payload(), leaf));
        more(event.payload());
        self.post(event);
    }

    /// Tells that the pool was closed.
    pub(crate) fn tell_closed(&self, state: PoolState) {
        let mut event =
            Event::done(if state == PoolState::Destroyed { "pool_destroy" } else { "pool_export" });
        self.put_pool(event.payload(), state);
        self.post(event);
    }

    /// Tells that the pool is in use from now on, made or imported, and before that which devices are not.
    pub(crate) fn tell_opened(&self, what: &str) {
        for leaf in self.vdevs.leaves() {
            self.tell_absence(&leaf, VdevState::Closed);
        }
        self.events.is_opened.store(true, Ordering::Relaxed);
        self.tell_done(what, None);
    }

    /// Tells what the history was told.
    pub(crate) fn tell_history(&self, record: &NvList) {
        self.tell_done_with("history_event", None, |payload| {
            for (name, told) in HISTORY {
                record.get(name).into_iter().for_each(|value| _ = payload.add(told, value.clone()));
            }
        });
    }

    /// Tells of a block that is nowhere.
    pub(crate) fn tell_lost(&self, block: Bookmark) {
        self.report("data", None, |payload| {
            payload.add_u64(names::ZIO_OBJSET, block.objset.get());
            payload.add_u64(names::ZIO_OBJECT, block.object.get());
            payload.add(names::ZIO_LEVEL, NvValue::I64(i64::from(block.level.get())));
            payload.add_u64(names::ZIO_BLKID, block.block.get());
        });
    }

    /// Reports the metaslabs that an import took out of use, because their space maps are lost.
    pub(crate) fn report_lost_metaslabs(&self) {
        for (vdev, metaslab) in self.lost_metaslabs() {
            self.report("metaslab", None, |payload| {
                payload.add_u64("vdev_id", vdev.get().into());
                payload.add_u64("metaslab", metaslab.get().into());
            });
        }
    }

    /// Tells that something went wrong.
    pub(crate) fn report(&self, what: &str, leaf: Option<&Leaf>, more: impl FnOnce(&mut NvList)) {
        self.report_as(self.failmode(), what, leaf, more);
    }

    fn report_as(&self, mode: FailMode, what: &str, leaf: Option<&Leaf>, more: impl FnOnce(&mut NvList)) {
        let nanos = u64::try_from(self.env.now().as_nanos()).unwrap_or(u64::MAX);
        let ena = nanos.wrapping_shl(ENA_TIME_SHIFT) | ENA_FORMAT;
        let mut event = Event::error(what, ena, self.guid().get(), leaf.map(|leaf| leaf.guid().get()));
        self.put_pool(event.payload(), PoolState::Active);
        event.payload().add_str(names::POOL_FAILMODE, failmode(mode));
        leaf.into_iter().for_each(|leaf| self.put_device(event.payload(), leaf));
        more(event.payload());
        self.post(event);
    }

    fn post(&self, event: Event) {
        self.events.ring.post(self.env.wall_clock(), event);
    }

    fn tell_state(&self, leaf: &Leaf, before: VdevState) {
        let mut event = Event::resource("statechange");
        self.put_pool(event.payload(), PoolState::Active);
        put_leaf(event.payload(), leaf);
        event.payload().add_u64(names::VDEV_LASTSTATE, before as u64);
        self.post(event);
        self.tell_absence(leaf, before);
    }

    /// Tells why a leaf is not there, if it is not.
    fn tell_absence(&self, leaf: &Leaf, before: VdevState) {
        let (VdevState::Unavail, aux) = leaf.state() else { return };
        let what = match aux {
            VdevAux::CorruptData => "vdev.corrupt_data",
            VdevAux::TooSmall => "vdev.too_small",
            VdevAux::BadLabel | VdevAux::Elsewhere => "vdev.bad_label",
            VdevAux::NoReplicas => "vdev.no_replicas",
            VdevAux::None
            | VdevAux::OpenFailed
            | VdevAux::ErrExceeded
            | VdevAux::IoFailure
            | VdevAux::External
            | VdevAux::SplitPool => "vdev.open_failed",
        };
        self.report(what, Some(leaf), |payload| _ = payload.add_u64(names::PREV_STATE, before as u64));
    }

    fn put_pool(&self, payload: &mut NvList, state: PoolState) {
        let context = if self.events.is_opened.load(Ordering::Relaxed) { IN_USE } else { IMPORTING };
        payload.add_str(names::POOL, self.name()).add_u64(names::POOL_GUID, self.guid().get());
        payload.add_u64(names::POOL_STATE, state as u64).add(names::POOL_CONTEXT, NvValue::I32(context));
    }

    /// A leaf, where it stands, and who could stand in for it.
    fn put_device(&self, payload: &mut NvList, leaf: &Leaf) {
        payload.add_u64(names::VDEV_GUID, leaf.guid().get()).add_str(names::VDEV_TYPE, leaf.kind().name());
        payload.add_str(names::VDEV_PATH, leaf.path().to_string_lossy());
        if let Ok(top) = self.vdevs.top(leaf.vdev()) {
            payload.add_u64(names::VDEV_ASHIFT, u64::from(top.ashift().get()));
        }
        let stats = leaf.stats().snapshot();
        payload.add_u64(names::VDEV_READ_ERRORS, stats.read_errors);
        payload.add_u64(names::VDEV_WRITE_ERRORS, stats.write_errors);
        payload.add_u64(names::VDEV_CKSUM_ERRORS, stats.checksum_errors);
        payload.add_u64(names::VDEV_DELAYS, stats.slow_ios);
        let (guid, kind) = self.parent_of(leaf);
        payload.add_u64(names::PARENT_GUID, guid.get()).add_str(names::PARENT_TYPE, kind);
        let spares = self.spares();
        let paths = spares.iter().map(|spare| spare.path.to_string_lossy().into_owned()).collect();
        payload.add_str_array(names::SPARE_PATHS, paths);
        payload.add_u64_array(names::SPARE_GUIDS, spares.iter().map(|spare| spare.guid.get()).collect());
    }

    /// The group that a leaf is a child of, or the pool.
    fn parent_of(&self, leaf: &Leaf) -> (Guid, &'static str) {
        let parent = self.vdevs.top(leaf.vdev()).ok().and_then(|top| top.node().parent_of(leaf.guid()));
        parent.unwrap_or((self.guid(), "root"))
    }
}

/// What the history calls things, and what events call them.
const HISTORY: [(&str, &str); 7] = [
    (history::HOST, "history_hostname"),
    (history::DATASET_NAME, "history_dsname"),
    (history::INTERNAL_STR, "history_internal_str"),
    (history::INTERNAL_NAME, "history_internal_name"),
    (history::DATASET_ID, "history_dsid"),
    (history::TXG, "history_txg"),
    (history::TIME, "history_time"),
];

fn put_leaf(payload: &mut NvList, leaf: &Leaf) {
    payload.add_u64(names::VDEV_GUID, leaf.guid().get());
    payload.add_u64(names::VDEV_STATE, leaf.state().0 as u64);
    payload.add_str(names::VDEV_PATH, leaf.path().to_string_lossy());
}

fn put_request(payload: &mut NvList, request: Option<Request>, errno: i32, nanos: Option<u128>) {
    payload.add(names::ZIO_ERR, NvValue::I32(errno));
    if let Some(nanos) = nanos {
        payload.add_u64(names::ZIO_DELTA, u64::try_from(nanos).unwrap_or(u64::MAX));
    }
    let Some(request) = request else { return };
    let kind = match request.kind {
        IoKind::Read => 1,
        IoKind::Write => 2,
        IoKind::Flush => 5,
    };
    payload.add_u32(names::ZIO_TYPE, kind);
    payload.add_u64(names::ZIO_OFFSET, request.offset.get()).add_u64(names::ZIO_SIZE, request.len);
}

fn failmode(mode: FailMode) -> &'static str {
    match mode {
        FailMode::Wait => "wait",
        FailMode::Continue => "continue",
        FailMode::Panic => "panic",
    }
}
