//! Faults on order: a leaf behaves as if its device were bad, so that drills need no cable pulled (`zinject -d`).
//!
//! ```text
//!   Leaf ─► Injected ─► queue ─► Injected ─► its device     only while something is on order
//!             │                      └ Delayed: answered later; each lane has one request at a time
//!             │ does a fault match?
//!             ├ Failed, Gone    done, and answered with an error       io, nxio (opening it anew fails, too)
//!             ├ NotDone         not done, and answered with an error   io-prefail
//!             ├ Lost            not done, and answered as if it were   noop
//!             └ Flipped         a bit of what was read is another      corrupt
//! ```
//! A delay is the device's own: it comes behind the queue, which fills as before a slow device, and in
//! `zpool iostat -l` it is `disk_wait`.
//!
//! Labels are left out, as in OpenZFS: a device that is to fail at everything has its labels, and is found.
//! What is on order belongs to the leaf in memory: it ends with the leaf, or with the pool's being open.
//!
//! Invariants
//! - A leaf that nothing is on order for asks its device itself. (test: `without_orders_a_leaf_asks_its_device`)
//! - Each fault does what its name says, to the requests that it is for, as often as it is to.
//!   (tests: `each_fault_does_what_it_is_called`, `a_fault_is_injected_as_often_as_was_said`,
//!   `each_lane_of_a_delay_has_one_request_at_a_time`)

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, Env, IoBuf};
use parking_lot::Mutex;
use units::LeafOffset;

#[cfg(test)]
mod tests;

/// The error number of failures on order: `EIO`.
const EIO: i32 = 5;

/// What is to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is done, and said to have failed.
    Failed,
    /// The same, as if the device were gone; it cannot be opened anew either.
    Gone,
    /// It is not done, and said to have failed.
    NotDone,
    /// It is not done, and said to be.
    Lost,
    /// One bit of what is read is another.
    Flipped,
    /// It takes at least so long, and each of so many lanes does one at a time.
    Delayed {
        /// How long.
        latency: Duration,
        /// How many at a time.
        lanes: usize,
    },
}

/// Which requests a fault is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Discards.
    Trim,
    /// All of them.
    All,
}

/// A fault on order, and how often it was met.
#[derive(Debug)]
pub struct Injection {
    fault: Fault,
    requests: Requests,
    /// How many of 2^32-1 requests it happens to.
    frequency: u32,
    /// A request that is made once more is spared.
    spares_retries: bool,
    matched: AtomicU64,
    injected: AtomicU64,
    /// Until when each lane is busy.
    lanes: Mutex<Vec<Duration>>,
}

impl Injection {
    /// A fault that happens to `frequency` of 2^32-1 of these requests.
    #[must_use]
    pub fn new(fault: Fault, requests: Requests, frequency: u32, spares_retries: bool) -> Arc<Self> {
        let lanes = if let Fault::Delayed { lanes, .. } = fault { lanes } else { 0 };
        Arc::new(Self {
            fault,
            requests,
            frequency,
            spares_retries,
            matched: AtomicU64::new(0),
            injected: AtomicU64::new(0),
            lanes: Mutex::new(vec![Duration::ZERO; lanes]),
        })
    }

    /// How many requests it was for, and to how many it happened.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.matched.load(Relaxed), self.injected.load(Relaxed))
    }

    /// Whether it comes behind the queue.
    pub(crate) const fn is_delay(&self) -> bool {
        matches!(self.fault, Fault::Delayed { .. })
    }

    fn is_for(&self, requests: Requests, is_retry: bool) -> bool {
        (self.requests == Requests::All || self.requests == requests) && !(is_retry && self.spares_retries)
    }

    /// Counts a request, and says whether it happens to this one.
    fn happens(&self, env: &dyn Env) -> bool {
        self.matched.fetch_add(1, Relaxed);
        let happens = self.frequency == u32::MAX || env.random_u64() as u32 <= self.frequency;
        self.injected.fetch_add(u64::from(happens), Relaxed);
        happens
    }

    /// When a lane could have done a request that comes `now`.
    fn could_end(&self, now: Duration) -> Option<Duration> {
        let Fault::Delayed { latency, .. } = self.fault else { return None };
        self.lanes.lock().iter().min().map(|&busy| busy.max(now) + latency)
    }

    fn take_lane(&self, until: Duration) {
        if let Some(lane) = self.lanes.lock().iter_mut().min() {
            *lane = until;
        }
    }
}

/// What is on order for a leaf.
#[derive(Default)]
pub(crate) struct Injections {
    are_any: AtomicBool,
    all: Mutex<Vec<Arc<Injection>>>,
}

impl Injections {
    pub(crate) fn add(&self, injection: Arc<Injection>) {
        self.all.lock().push(injection);
        self.are_any.store(true, Release);
    }

    pub(crate) fn remove(&self, injection: &Arc<Injection>) {
        let mut all = self.all.lock();
        all.retain(|known| !Arc::ptr_eq(known, injection));
        self.are_any.store(!all.is_empty(), Release);
    }

    /// Whether anything is on order.
    pub(crate) fn are_any(&self) -> bool {
        self.are_any.load(Acquire)
    }

    /// Whether opening the device is to fail.
    pub(crate) fn forbid_opening(&self, env: &dyn Env) -> bool {
        let is_gone = |injection: &&Arc<Injection>| injection.fault == Fault::Gone;
        self.are_any() && self.all.lock().iter().filter(is_gone).any(|gone| gone.happens(env))
    }

    /// A device as what is on order makes it; data are at these offsets.
    pub(crate) fn put_before(
        &self,
        device: Arc<dyn Device>,
        env: &Arc<dyn Env>,
        data: impl FnOnce() -> Range<u64>,
    ) -> Arc<dyn Device> {
        if !self.are_any() {
            return device;
        }
        let (env, injections) = (Arc::clone(env), self.all.lock().clone());
        Arc::new(Injected { device, env, injections, data: data(), tries: AtomicU64::new(0) })
    }
}

/// A device for one request of a leaf's, and for trying that again.
struct Injected {
    device: Arc<dyn Device>,
    env: Arc<dyn Env>,
    injections: Vec<Arc<Injection>>,
    data: Range<u64>,
    tries: AtomicU64,
}

impl Injected {
    /// Those that are for a request; none for labels.
    fn matching(&self, requests: Requests, offset: Option<LeafOffset>) -> Vec<&Arc<Injection>> {
        let is_retry = self.tries.fetch_add(1, Relaxed) > 0;
        if offset.is_some_and(|offset| !self.data.contains(&offset.get())) {
            return Vec::new();
        }
        self.injections.iter().filter(|injection| injection.is_for(requests, is_retry)).collect()
    }

    /// Answers a request: `io` is done, or not, and its answer changed.
    fn answer<T: Send + 'static>(
        &self,
        matching: &[&Arc<Injection>],
        io: BoxFuture<'static, Result<T, DeviceError>>,
        lost: T,
        flip: fn(&mut T),
    ) -> BoxFuture<'static, Result<T, DeviceError>> {
        let faults = matching.iter().filter(|injection| !matches!(injection.fault, Fault::Delayed { .. }));
        let fault = faults.into_iter().find(|injection| injection.happens(&*self.env)).map(|one| one.fault);
        let until = self.delayed_until(matching);
        let env = Arc::clone(&self.env);
        Box::pin(async move {
            let answer = match fault {
                Some(Fault::NotDone) => Err(failed()),
                Some(Fault::Lost) => Ok(lost),
                Some(Fault::Failed) => io.await.and(Err(failed())),
                Some(Fault::Gone) => io.await.and(Err(DeviceError::Gone)),
                Some(Fault::Flipped) => io.await.map(|mut answer| {
                    flip(&mut answer);
                    answer
                }),
                Some(Fault::Delayed { .. }) | None => io.await,
            };
            if let Some(wait) = until.and_then(|until| until.checked_sub(env.now())) {
                env.sleep(wait).await;
            }
            answer
        })
    }

    /// Takes the lane that is free first.
    fn delayed_until(&self, matching: &[&Arc<Injection>]) -> Option<Duration> {
        let now = self.env.now();
        let delays = matching.iter().filter(|injection| matches!(injection.fault, Fault::Delayed { .. }));
        let delays: Vec<_> = delays.filter(|injection| injection.happens(&*self.env)).collect();
        let ends = delays.iter().filter_map(|delay| Some((delay.could_end(now)?, delay)));
        let (until, delay) = ends.min_by_key(|(until, _)| *until)?;
        delay.take_lane(until);
        Some(until)
    }
}

fn failed() -> DeviceError {
    DeviceError::Io { op: "injected fault", offset: LeafOffset::new(0), len: 0, errno: EIO }
}

fn flip_a_bit(buf: &mut IoBuf) {
    if let Some(byte) = buf.first_mut() {
        *byte ^= 1;
    }
}

impl Device for Injected {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn look_again(&self) {
        self.device.look_again();
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        let io = self.device.read(offset, len);
        match self.matching(Requests::Read, Some(offset)).as_slice() {
            [] => io,
            some => self.answer(some, io, IoBuf::zeroed(len), flip_a_bit),
        }
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let io = self.device.write(offset, slices, durability);
        match self.matching(Requests::Write, Some(offset)).as_slice() {
            [] => io,
            some => self.answer(some, io, (), |()| {}),
        }
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        let io = self.device.flush();
        match self.matching(Requests::Flush, None).as_slice() {
            [] => io,
            some => self.answer(some, io, (), |()| {}),
        }
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        let io = self.device.discard(offset, len);
        match self.matching(Requests::Trim, Some(offset)).as_slice() {
            [] => io,
            some => self.answer(some, io, (), |()| {}),
        }
    }
}
