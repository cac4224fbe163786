//! A leaf: one device of the pool, its identity, health and counters.
//!
//! All I/O of a pool passes through this module. I/O is timed and counted here, and retried once
//! unless it is a flush or a stable write ([`crate::stability`]). Offsets are offsets on the device
//! ([`LeafOffset`]). [`VdevOffset::on_leaf`] converts the offset of a block.
//!
//! Invariants
//! - A leaf whose write or flush failed while a sibling has the data serves no read until it is
//!   reopened, and after that serves last. (tests: `a_child_that_fails_a_flush_serves_no_more_reads`,
//!   `a_reopened_child_is_read_last_until_it_is_whole`)
//! - After a failed flush or stable write, every flush fails until the leaf is reopened. See
//!   [`crate::stability`].

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use env::{
    Bounds, BoxFuture, BufSlice, Device, DeviceError, Durability, Env, InQueue, IoBuf, Meter, QueueSnapshot,
    QueueStats, Queued, boxed,
};
use ondisk::label::LABELS;
use parking_lot::Mutex;
use units::{Ashift, Guid, LABEL_END_BYTES, LABEL_START_BYTES, LeafOffset, Txg, VdevId, VdevOffset};

use crate::deadman::Unanswered;
use crate::fence::{Fence, Fenced, Post};
use crate::inject::{Injection, Injections};
use crate::stability::Stability;
use crate::{
    Dtl, IoKind, LeafEvent, LeafLabels, LeafWatch, Request, VdevAux, VdevError, VdevState, VdevStats,
};

/// What sort of device a leaf is, as the configuration calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKind {
    /// A plain file.
    File,
    /// A block device.
    Disk,
}

impl LeafKind {
    /// The configuration's word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => ondisk::config::vdev_type::FILE,
            Self::Disk => ondisk::config::vdev_type::DISK,
        }
    }
}

/// What the configuration says of a leaf, beside its kind and guid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeafConfig {
    /// Where it was last opened.
    pub path: PathBuf,
    /// Names other systems gave it, kept as they were: `devid`, `phys_path`,
    /// `vdev_enc_sysfs_path`, `fru`, in this order.
    pub other_names: [Option<String>; 4],
    /// Whether the whole disk was given to the pool; absent for files.
    pub whole_disk: Option<u64>,
    /// Space map object of what it missed ("dirty time log"); 0 for none.
    pub dtl_object: u64,
    /// Txg in which it joined.
    pub create_txg: u64,
    /// Object of its own properties; 0 for none.
    pub leaf_zap: u64,
    /// A hot spare that is at work.
    pub is_spare: bool,
    /// A device for which a hot spare does its work, and that takes it back once it is resilvered.
    pub unspare: bool,
    /// No hot spare could stand in for it when it failed. Nothing on disk says so.
    pub no_spare_found: bool,
    /// That it is out of use is not kept: the next import opens it.
    pub away_for_now: bool,
    /// The txg up to which a resilver that was begun brings it; 0 for none. OpenZFS knows by it what to
    /// resilver first.
    pub resilver_txg: u64,
}

#[derive(Debug)]
struct Health {
    state: VdevState,
    aux: VdevAux,
    /// Missed writes since it was last whole: read only when nothing else answers.
    stale: bool,
    /// In which txgs, as far as they were noted.
    dtl: Dtl,
    /// What it missed is not in the configuration, or no longer what is there.
    unrecorded: bool,
    /// How often it began to miss writes.
    misses: u64,
    /// It failed a write that others have, and stays in use because they lack older ones: a txg is to be
    /// added to its DTL.
    owes: bool,
    /// The last state that its watch was told of.
    told: VdevState,
}

impl Health {
    /// The state before this one, if it is to be told: neither the first opening nor the end of all is news.
    fn take_news(&mut self) -> Option<VdevState> {
        if self.state == VdevState::Closed || self.state == self.told {
            return None;
        }
        Some(std::mem::replace(&mut self.told, self.state)).filter(|told| *told != VdevState::Closed)
    }
}

/// The state that a leaf was in before another that its watch is yet to be told of.
#[must_use]
pub(crate) struct News(VdevState);

/// A request that took longer is slow (`zio_slow_io_ms`).
const SLOW: Duration = Duration::from_secs(30);

/// One device of the pool.
pub struct Leaf {
    vdev: VdevId,
    guid: AtomicU64,
    /// The guid that it had before it took that of a group, and that its labels may still have; 0 for none.
    former_guid: AtomicU64,
    kind: LeafKind,
    pub(crate) env: Arc<dyn Env>,
    config: Mutex<LeafConfig>,
    device: Mutex<Option<Arc<Queued>>>,
    /// What its device's queue counts, whichever queue that is.
    queue_stats: Mutex<Arc<QueueStats>>,
    health: Mutex<Health>,
    /// Belongs to the device, not to the leaf: a device keeps it when another leaf takes over the
    /// device.
    stability: Mutex<Stability>,
    unanswered: Unanswered,
    /// One bit for each label whose last write failed.
    bad_labels: AtomicU8,
    stats: VdevStats,
    watch: OnceLock<Arc<dyn LeafWatch>>,
    injections: Injections,
    post: Mutex<Arc<Post>>,
}

/// Who a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafId {
    /// Its top-level vdev.
    pub vdev: VdevId,
    /// Its own guid.
    pub guid: Guid,
    /// What sort of device it is.
    pub kind: LeafKind,
}

impl Leaf {
    /// A leaf that has not been opened.
    pub(crate) fn closed(env: Arc<dyn Env>, id: LeafId, config: LeafConfig) -> Self {
        Self {
            vdev: id.vdev,
            guid: AtomicU64::new(id.guid.get()),
            former_guid: AtomicU64::new(0),
            kind: id.kind,
            env,
            config: Mutex::new(config),
            device: Mutex::new(None),
            queue_stats: Mutex::default(),
            health: Mutex::new(Health {
                state: VdevState::Closed,
                aux: VdevAux::None,
                stale: false,
                dtl: Dtl::default(),
                unrecorded: false,
                misses: 0,
                owes: false,
                told: VdevState::Closed,
            }),
            stability: Mutex::default(),
            unanswered: Unanswered::default(),
            bad_labels: AtomicU8::new(0),
            stats: VdevStats::default(),
            watch: OnceLock::new(),
            injections: Injections::default(),
            post: Mutex::default(),
        }
    }

    /// Says who is told what befalls it from now on; that is never another one.
    pub(crate) fn watched_by(&self, watch: &Arc<dyn LeafWatch>) {
        _ = self.watch.set(Arc::clone(watch));
    }

    /// Says which fence it is behind from now on; that is never another one.
    pub(crate) fn fenced_by(&self, fence: &Arc<Fence>) {
        _ = self.post().fence.set(Arc::clone(fence));
    }

    /// Where its requests wait for the fence.
    pub(crate) fn post(&self) -> Arc<Post> {
        Arc::clone(&self.post.lock())
    }

    /// Tells its watch of something.
    pub(crate) fn tell(&self, event: LeafEvent) {
        if let Some(watch) = self.watch.get() {
            watch.happened(self, event);
        }
    }

    /// Waits until the watch has recorded which leaves lack data.
    pub(crate) async fn until_recorded(&self) {
        if let Some(recorded) = self.watch.get().and_then(|watch| watch.until_recorded()) {
            recorded.await;
        }
    }

    /// Changes its health, and tells of a new state. The watch may ask how it is.
    fn change(&self, change: impl FnOnce(&mut Health)) {
        let news = self.change_untold(change);
        self.tell_news(news);
    }

    /// The same, with the telling left to the caller, who holds a lock that the watch may want.
    fn change_untold(&self, change: impl FnOnce(&mut Health)) -> Option<News> {
        let mut health = self.health.lock();
        change(&mut health);
        health.take_news().map(News)
    }

    /// Tells what was left untold.
    pub(crate) fn tell_news(&self, news: Option<News>) {
        news.into_iter().for_each(|News(before)| self.tell(LeafEvent::State { before }));
    }

    /// Its guid.
    #[must_use]
    pub fn guid(&self) -> Guid {
        Guid::new(self.guid.load(Relaxed))
    }

    /// Gives it the guid of the group that it takes the place of as top-level vdev.
    pub(crate) fn take_guid(&self, guid: Guid) {
        self.former_guid.store(self.guid.swap(guid.get(), Relaxed), Relaxed);
    }

    /// Whether labels are those of this leaf. The newest may be of a txg that never happened, or not have
    /// been written yet in one that did, and give it another guid if it took that of a group.
    pub(crate) fn is_named_by(&self, labels: &LeafLabels) -> bool {
        let former = Guid::new(self.former_guid.load(Relaxed));
        labels.names(self.guid()) || (former != Guid::new(0) && labels.names(former))
    }

    /// Notes what it was called before it took the guid of a group, if labels of that time are its. An import knows
    /// no more of it than that it is a top-level vdev by itself: its new labels may never have been written.
    pub(crate) fn recall_former(&self, labels: &LeafLabels) {
        let former = labels.guid_below(self.guid(), &self.path());
        if let (Some(former), false) = (former, self.is_named_by(labels)) {
            self.former_guid.store(former.get(), Relaxed);
        }
    }

    /// The top-level vdev that it is, or is part of.
    #[must_use]
    pub fn vdev(&self) -> VdevId {
        self.vdev
    }

    /// What sort of device it is.
    #[must_use]
    pub fn kind(&self) -> LeafKind {
        self.kind
    }

    /// Where it was last opened.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.config.lock().path.clone()
    }

    /// What the configuration says of it.
    #[must_use]
    pub fn config(&self) -> LeafConfig {
        self.config.lock().clone()
    }

    /// Changes what the configuration says of it.
    pub fn set_config(&self, change: impl FnOnce(&mut LeafConfig)) {
        change(&mut self.config.lock());
    }

    /// Its health, and the reason.
    #[must_use]
    pub fn state(&self) -> (VdevState, VdevAux) {
        let health = self.health.lock();
        (health.state, health.aux)
    }

    /// Whether it missed writes and may hold old bytes.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.health.lock().stale
    }

    /// True if a flush or a stable write has failed since the device was opened. Then the device
    /// still accepts writes, but only stable writes can make data durable there.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.stability().has_failed()
    }

    fn stability(&self) -> Stability {
        self.stability.lock().clone()
    }

    /// True if the leaf is out of use because of its errors, or if a flush or stable write has
    /// failed. Such a leaf must be reopened before it is used again. A leaf that is offline has not
    /// failed. Nor has a leaf that the administrator declared faulted
    /// ([`crate::VdevAux::External`]): it returns when that state is cleared.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let (state, _) = self.state();
        let is_out = matches!(state, VdevState::Closed | VdevState::Unavail | VdevState::Faulted);
        is_out || (self.is_suspect() && state.is_usable())
    }

    /// The same, and nobody has declared it faulted: it may be tried again without being asked to.
    #[must_use]
    pub fn has_failed_by_itself(&self) -> bool {
        self.has_failed() && self.state().1 != crate::VdevAux::External
    }

    /// Whether the configuration says that it is out of use, so that an import may pass over what it holds.
    #[must_use]
    pub fn is_declared_out(&self) -> bool {
        let state = self.state().0;
        let is_kept = matches!(state, VdevState::Offline | VdevState::Faulted | VdevState::Removed);
        is_kept && !self.config.lock().away_for_now
    }

    /// Forgets errors: counters, and that it could not write what no other leaf has either, for that
    /// was written since or will be. Says whether it was out of favour.
    pub fn forgive(&self) -> bool {
        self.stats.clear_errors();
        let mut is_degraded = false;
        self.change(|health| {
            is_degraded = (health.state, health.aux) == (VdevState::Degraded, VdevAux::IoFailure);
            if is_degraded {
                (health.state, health.aux) = (VdevState::Online, VdevAux::None);
            }
        });
        is_degraded
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> &VdevStats {
        &self.stats
    }

    /// Whether I/O may go there.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.health.lock().state.is_usable()
    }

    /// The device behind it, when it is open.
    #[must_use]
    pub fn device(&self) -> Option<Arc<dyn Device>> {
        let device = self.device.lock().clone();
        device.map(|queued| queued as Arc<dyn Device>)
    }

    /// Records whether a write to a label succeeded.
    pub(crate) fn note_label(&self, label: usize, is_written: bool) {
        let bit = 1_u8 << (label % LABELS);
        match is_written {
            true => self.bad_labels.fetch_and(!bit, Relaxed),
            false => self.bad_labels.fetch_or(bit, Relaxed),
        };
    }

    /// True unless the last write to this label failed.
    pub(crate) fn may_write_label(&self, label: usize) -> bool {
        self.bad_labels.load(Relaxed) & (1 << (label % LABELS)) == 0
    }

    /// Its requests that the device has not answered.
    pub(crate) fn unanswered(&self) -> &Unanswered {
        &self.unanswered
    }

    /// Ends all requests that its device has not answered, and lets go of the device, whose lock ends with
    /// the last of them.
    pub(crate) fn give_up(&self) {
        self.let_go();
        self.unanswered.give_up();
    }

    /// The part of the device that is used, in bytes; 0 when it is not open.
    #[must_use]
    pub fn psize(&self) -> u64 {
        self.device().map_or(0, |device| crate::size::leaf_psize(device.info().size_bytes))
    }

    /// Whether its device may forget what was written and not flushed; one that is not open is taken to.
    #[must_use]
    pub fn has_volatile_cache(&self) -> bool {
        self.device().is_none_or(|device| device.info().has_volatile_cache)
    }

    /// Looks whether its device has become larger.
    pub fn look_again(&self) {
        if let Some(device) = self.device() {
            device.look_again();
        }
    }

    /// Puts an open device behind it, with a queue before that, and its health to ONLINE.
    pub(crate) fn attach(&self, path: &Path, device: Arc<dyn Device>) {
        self.config.lock().path = path.to_owned();
        // Behind the queue: what counts is when the device is told.
        let device = Arc::new(Fenced { device, post: self.post(), env: Arc::clone(&self.env) });
        *self.device.lock() = Some(Arc::new(Queued::new(device, Bounds::default(), self.meter())));
        self.stability().begin_anew();
        self.set_state(VdevState::Online, VdevAux::None);
    }

    /// Uses the device that another leaf has open; whether there is one.
    pub(crate) fn take_over(&self, other: &Self) -> bool {
        let Some(device) = other.device.lock().clone() else { return false };
        if other.guid() != self.guid() {
            self.former_guid.store(other.guid().get(), Relaxed);
        }
        *self.post.lock() = other.post();
        *self.stability.lock() = other.stability();
        *self.queue_stats.lock() = Arc::clone(&other.queue_stats.lock());
        self.config.lock().path = other.path();
        *self.device.lock() = Some(device);
        self.set_state(VdevState::Online, VdevAux::None);
        true
    }

    fn meter(&self) -> Meter {
        let env = Arc::clone(&self.env);
        Meter { clock: Arc::new(move || env.now()), stats: Arc::clone(&self.queue_stats.lock()) }
    }

    /// What its device's queue has counted since the leaf came into the pool.
    #[must_use]
    pub fn queue_stats(&self) -> QueueSnapshot {
        self.queue_stats.lock().snapshot()
    }

    /// How many I/Os there are now, in the order of [`env::Priority::ALL`]; none where the device is not open.
    #[must_use]
    pub fn queue_now(&self) -> [InQueue; 6] {
        let device = self.device.lock().clone();
        device.map_or_else(Default::default, |queued| queued.now())
    }

    /// Lets go of the device; its lock ends with the last I/O.
    pub fn close(&self) {
        self.let_go();
        self.set_state(VdevState::Closed, VdevAux::None);
    }

    /// Lets go of the device for the reason that is given; its lock ends with the last I/O.
    pub fn take_out_of_use(&self, state: VdevState, aux: VdevAux) {
        self.let_go();
        self.set_state(state, aux);
    }

    fn let_go(&self) {
        *self.device.lock() = None;
        self.stability().let_go();
    }

    /// Says whether the configuration is silent about its being out of use.
    pub fn set_away_for_now(&self, is_so: bool) {
        self.config.lock().away_for_now = is_so;
    }

    pub(crate) fn set_state(&self, state: VdevState, aux: VdevAux) {
        self.change(|health| (health.state, health.aux) = (state, aux));
    }

    /// Says whether it misses writes.
    pub(crate) fn set_stale(&self, stale: bool) {
        let mut health = self.health.lock();
        health.stale = stale;
        health.unrecorded = true;
        health.misses += u64::from(stale);
        if !stale {
            health.dtl = Dtl::default();
        }
    }

    /// The txgs in which it missed writes.
    #[must_use]
    pub fn dtl(&self) -> Dtl {
        self.health.lock().dtl.clone()
    }

    /// The txgs that cannot be relied on here, also before its DTL could be read: all of them then.
    pub(crate) fn lacks(&self) -> Dtl {
        let health = self.health.lock();
        match health.stale && health.dtl.is_empty() && !health.owes {
            true => Dtl::everything(),
            false => health.dtl.clone(),
        }
    }

    /// Adds to the txgs in which it missed writes.
    pub(crate) fn add_to_dtl(&self, txgs: RangeInclusive<Txg>) {
        let mut health = self.health.lock();
        let before = health.dtl.clone();
        health.dtl.add(txgs);
        health.stale = true;
        health.unrecorded |= health.dtl != before;
    }

    /// Everything up to `txg` is there again; whether it is whole now.
    pub(crate) fn caught_up(&self, txg: Txg) -> bool {
        let mut health = self.health.lock();
        health.dtl.remove_up_to(txg);
        health.stale = !health.dtl.is_empty() || health.owes;
        health.unrecorded = true;
        let is_whole = !health.stale;
        assert!(!health.dtl.contains(txg), "a leaf does not lack txg {txg}, which it has everything of");
        drop(health);
        if is_whole {
            self.config.lock().resilver_txg = 0;
        }
        is_whole
    }

    /// Takes up what the configuration says of the txgs that it missed. What its labels told
    /// beyond that is still to be recorded.
    pub fn load_dtl(&self, recorded: Dtl) {
        let mut health = self.health.lock();
        let known = std::mem::replace(&mut health.dtl, recorded.clone());
        known.iter().for_each(|range| health.dtl.add(range));
        health.stale = !health.dtl.is_empty() || !health.state.is_usable();
        health.unrecorded = health.dtl != recorded || recorded.is_empty();
    }

    /// What it missed, if the configuration has yet to be told; from now on it counts as told.
    pub fn take_unrecorded(&self) -> Option<Dtl> {
        let mut health = self.health.lock();
        let dtl = health.unrecorded.then(|| health.dtl.clone());
        health.unrecorded = false;
        dtl
    }

    /// Whether it has its labels written with the others': it holds nothing older than they, or
    /// the configuration says what.
    pub(crate) fn may_have_labels(&self) -> bool {
        let health = self.health.lock();
        health.state.is_usable() && !(health.stale && (health.unrecorded || health.owes))
    }

    /// How often it began to miss writes since it was opened: tells whether it did while something
    /// else was going on.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.health.lock().misses
    }

    /// Takes it out of use because a write or flush failed that a sibling has made: what it
    /// holds can no longer be relied on.
    pub(crate) fn fault(&self, cause: &DeviceError) -> Option<News> {
        self.change_untold(|health| {
            health.stale = true;
            health.unrecorded = true;
            health.misses += 1;
            if health.state.is_usable() {
                (health.state, health.aux) = match cause {
                    DeviceError::Gone => (VdevState::Unavail, VdevAux::OpenFailed),
                    _ => (VdevState::Faulted, VdevAux::IoFailure),
                };
                tracing::warn!(guid = self.guid().get(), state = %health.state, %cause, "leaf taken out of use");
            }
        })
    }

    /// Leaves it in use though it failed a write that others have, for they lack others: what it missed
    /// is in its DTL from the next [`crate::VdevTree::note_dtls`] on.
    pub(crate) fn keep_owing(&self, cause: &DeviceError) -> Option<News> {
        let news = self.degrade(cause);
        let mut health = self.health.lock();
        (health.stale, health.owes) = (true, true);
        health.misses += 1;
        tracing::warn!(guid = self.guid().get(), %cause, "leaf missed a write and stays, for the rest lacks more");
        news
    }

    /// Whether it missed a write since this was asked last, and is in use.
    pub(crate) fn take_owed(&self) -> bool {
        std::mem::take(&mut self.health.lock().owes)
    }

    /// Marks that the only copy of something could not be written here: still the best there
    /// is for what it holds.
    pub(crate) fn degrade(&self, cause: &DeviceError) -> Option<News> {
        self.change_untold(|health| match cause {
            DeviceError::Gone | DeviceError::TimedOut if health.state.is_usable() => {
                // The configuration does not keep that, so the next import looks for it: a log may be needed.
                (health.state, health.aux) = (VdevState::Unavail, VdevAux::OpenFailed);
            }
            _ if health.state == VdevState::Online => {
                (health.state, health.aux) = (VdevState::Degraded, VdevAux::IoFailure);
            }
            _ => {}
        })
    }

    /// Reads `len` bytes at a device offset; whole sectors are the caller's care.
    ///
    /// # Errors
    /// [`VdevError::LeafUnavailable`], or [`VdevError::Leaf`] after one retry.
    pub async fn read(&self, offset: LeafOffset, len: usize) -> Result<IoBuf, VdevError> {
        let device = self.usable_device()?;
        let _in_flight = self.stats.begin();
        let request = Request { kind: IoKind::Read, offset, len: len as u64 };
        let mut result = self.timed(request, device.read(offset, len)).await;
        if result.as_ref().is_err_and(is_transient) {
            result = self.timed(request, device.read(offset, len)).await;
        }
        result.map_err(|source| self.failed(request, source))
    }

    /// Writes slices one after another from a device offset. The caller decides what a failure
    /// means for the leaf's health. A cached write is retried once. A stable write is never
    /// retried, and its failure counts as a failed flush.
    ///
    /// # Errors
    /// [`VdevError::LeafUnavailable`]; [`VdevError::Leaf`] when the write failed, and for a cached
    /// write also its retry.
    pub async fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> Result<(), VdevError> {
        let device = self.usable_device()?;
        let _in_flight = self.stats.begin();
        let len = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
        let request = Request { kind: IoKind::Write, offset, len };
        let result = match durability {
            Durability::Stable => {
                let io = device.write(offset, slices, durability);
                self.timed(request, self.stability().write(io)).await
            }
            Durability::Cached => {
                let once = |slices| device.write(offset, slices, durability);
                match self.timed(request, once(slices.clone())).await {
                    Err(error) if is_transient(&error) => self.timed(request, once(slices)).await,
                    result => result,
                }
            }
        };
        result.map_err(|source| self.failed(request, source))
    }

    /// Makes completed writes stable. Never retried, and after a failure always one: a later
    /// success says nothing about the writes before it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn flush(&self) -> Result<(), VdevError> {
        let device = self.usable_device()?;
        let _in_flight = self.stats.begin();
        let request = Request { kind: IoKind::Flush, offset: LeafOffset::new(0), len: 0 };
        let result = self.timed(request, self.stability().flush(device.flush())).await;
        result.map_err(|source| self.failed(request, source))
    }

    /// Lets the device forget bytes, if it can.
    ///
    /// # Errors
    /// As [`Self::read`].
    #[boxed]
    pub async fn discard(&self, offset: LeafOffset, len: u64) -> Result<(), VdevError> {
        let device = self.usable_device()?;
        if !device.info().can_discard {
            return Ok(());
        }
        let result = self.unanswered.watch(self.env.now(), device.discard(offset, len)).await;
        result.map_err(|source| VdevError::Leaf {
            vdev: self.vdev,
            guid: self.guid(),
            path: self.path(),
            source,
        })
    }

    /// Counts bytes that were read and are not what was written there.
    pub(crate) fn blame(&self, offset: LeafOffset, len: u64) {
        self.stats.bad_checksum();
        self.tell(LeafEvent::WrongBytes(Request { kind: IoKind::Read, offset, len }));
    }

    async fn timed<T>(
        &self,
        request: Request,
        io: BoxFuture<'static, Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        let start = self.env.now();
        let result = self.unanswered.watch(start, io).await;
        let moved = if result.is_ok() { request.len } else { 0 };
        let took = self.env.now().saturating_sub(start);
        self.stats.done(request.kind, moved, took);
        if took > SLOW {
            self.stats.slow();
            self.tell(LeafEvent::Slow { request, took });
        }
        result
    }

    fn failed(&self, request: Request, source: DeviceError) -> VdevError {
        self.stats.failed(request.kind);
        self.tell(LeafEvent::Failed { request, errno: source.errno() });
        VdevError::Leaf { vdev: self.vdev, guid: self.guid(), path: self.path(), source }
    }

    /// Says that it does not work as well as it should, until its errors are forgotten.
    pub fn declare_degraded(&self) {
        self.change(|health| {
            if health.state == VdevState::Online {
                (health.state, health.aux) = (VdevState::Degraded, VdevAux::IoFailure);
            }
        });
    }

    /// Has its requests meet a fault from now on.
    pub fn inject(&self, injection: &Arc<Injection>) {
        self.orders(injection, |orders| orders.add(Arc::clone(injection)));
    }

    /// Has them meet it no more.
    pub fn stop_injecting(&self, injection: &Arc<Injection>) {
        self.orders(injection, |orders| orders.remove(injection));
    }

    /// The orders that a fault is among: delays are the device's, whichever leaf has that.
    fn orders(&self, injection: &Injection, change: impl FnOnce(&Injections)) {
        if injection.is_delay() { change(&self.post().delays) } else { change(&self.injections) }
    }

    /// Whether a fault on order keeps its device from being opened.
    pub(crate) fn is_kept_closed(&self) -> bool {
        self.injections.forbid_opening(&*self.env)
    }

    fn usable_device(&self) -> Result<Arc<dyn Device>, VdevError> {
        let state = self.health.lock().state;
        match self.device() {
            Some(device) if state.is_usable() => {
                Ok(self.injections.put_before(device, &self.env, || data_of(self.psize())))
            }
            _ => Err(VdevError::LeafUnavailable {
                vdev: self.vdev,
                guid: self.guid(),
                path: self.path(),
                state,
            }),
        }
    }
}

/// Where a device of which so many bytes are used has neither labels nor what lies behind them.
pub(crate) fn data_of(psize: u64) -> Range<u64> {
    LABEL_START_BYTES..psize.saturating_sub(LABEL_END_BYTES)
}

/// Whether a second try may do better.
fn is_transient(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Io { .. })
}

/// A block's place on a leaf, in whole sectors of its vdev.
///
/// # Errors
/// [`VdevError::OutOfRange`] past the end of `asize`.
pub(crate) fn block_on_leaf(
    vdev: VdevId,
    offset: VdevOffset,
    len: u64,
    asize: u64,
) -> Result<LeafOffset, VdevError> {
    let out_of_range = VdevError::OutOfRange { vdev, offset, len };
    let end = offset.get().checked_add(len);
    if end.is_none_or(|end| end > asize) {
        return Err(out_of_range);
    }
    offset.on_leaf().ok_or(out_of_range)
}

/// `slices` with zeros appended up to whole sectors.
pub(crate) fn padded(mut slices: Vec<BufSlice>, ashift: Ashift) -> (Vec<BufSlice>, u64) {
    let bytes: u64 = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
    let whole = ashift.round_up(bytes);
    if whole > bytes {
        let gap = usize::try_from(whole - bytes).unwrap_or(usize::MAX);
        slices.push(BufSlice::from(IoBuf::zeroed(gap)));
    }
    (slices, whole)
}
