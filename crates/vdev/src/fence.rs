//! Until when the devices of a pool may be written to: what keeps a host that was held up from writing over a pool
//! that another has taken over meanwhile.
//!
//! ```text
//!   write, flush, discard ─► queue ─► in time? ──yes──► device ─► still in time? ──yes──► answered
//!                                        │ no                           │ no
//!                                        └────────────► waits ◄─────────┘
//!                                    until the time is extended, or the pool is given up
//! ```
//! The pool extends the time with each heartbeat that landed (`multihost=on`); see [`Fence::extend`]. A request looks at
//! the clock itself, right before the device is told and again before anybody hears that it was done: after a pause the
//! task that would extend the time, or close the fence, may be the last to run.
//!
//! Nothing can be called back between that look and the device: a host that is stopped just there writes once more, and
//! so do requests that the system has already.
//!
//! Invariants
//! - A request that is asked for after the time reaches its device only once the time is extended.
//!   (test: `nothing_is_written_after_the_time_until_it_is_extended`)
//! - What a device did too late is not told before the time is extended. (test: `what_was_done_too_late_is_not_told`)

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, Env, IoBuf};
use event_listener::Event;
use units::LeafOffset;

use crate::inject::Injections;
use crate::leaf::data_of;
use crate::size::leaf_psize;

/// No limit.
const ALWAYS: u64 = u64::MAX;

/// Until when the devices of a pool may be written to.
#[derive(Debug)]
pub struct Fence {
    /// On the clock of [`Env::now`].
    until_nanos: AtomicU64,
    /// When it was last extended after it had been closed.
    opened_nanos: AtomicU64,
    is_given_up: AtomicBool,
    changed: Event,
}

impl Default for Fence {
    fn default() -> Self {
        Self {
            until_nanos: AtomicU64::new(ALWAYS),
            opened_nanos: AtomicU64::new(0),
            is_given_up: AtomicBool::new(false),
            changed: Event::new(),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(ALWAYS)
}

impl Fence {
    /// Whether there is a limit at all: the one look that a request costs where there is none.
    #[must_use]
    pub fn has_limit(&self) -> bool {
        self.until_nanos.load(SeqCst) != ALWAYS
    }

    /// Whether devices may be written to at the time `now`.
    #[must_use]
    pub fn is_open(&self, now: Duration) -> bool {
        let until = self.until_nanos.load(SeqCst);
        until == ALWAYS || nanos(now) < until
    }

    /// Devices may be written to at any time.
    pub fn lift(&self) {
        self.until_nanos.store(ALWAYS, SeqCst);
        self.changed.notify(usize::MAX);
    }

    /// Devices may be written to until then.
    pub fn extend(&self, now: Duration, until: Duration) {
        if !self.is_open(now) {
            self.opened_nanos.store(nanos(now), SeqCst);
        }
        self.until_nanos.store(nanos(until).min(ALWAYS - 1), SeqCst);
        self.changed.notify(usize::MAX);
    }

    /// Nothing may be written any more, until the time is extended.
    pub fn close(&self) {
        self.until_nanos.store(0, SeqCst);
    }

    /// Whoever waits, or would, gets an error from now on.
    pub fn give_up(&self) {
        self.is_given_up.store(true, SeqCst);
        self.changed.notify(usize::MAX);
    }

    /// When it was last extended after it had been closed: before that no device can be blamed for not having answered.
    pub(crate) fn opened(&self) -> Duration {
        Duration::from_nanos(self.opened_nanos.load(SeqCst))
    }

    /// Ready when devices may be written to.
    async fn pass(&self, env: &dyn Env) -> Result<(), DeviceError> {
        loop {
            if self.is_open(env.now()) {
                return Ok(());
            }
            let changed = self.changed.listen();
            // It may have been extended before anybody listened.
            if self.is_open(env.now()) {
                return Ok(());
            }
            if self.is_given_up.load(SeqCst) {
                return Err(DeviceError::Gone);
            }
            changed.await;
        }
    }
}

/// What a leaf and its device both know: the fence of the pool, once the leaf is part of one, and what is on order for
/// the device.
#[derive(Default)]
pub(crate) struct Post {
    pub fence: OnceLock<Arc<Fence>>,
    /// What makes the device slow (`zinject -D`).
    pub delays: Injections,
    /// Requests that wait for the fence, and not for the device.
    held: AtomicUsize,
}

impl Post {
    /// How many requests wait for the fence.
    pub(crate) fn held(&self) -> usize {
        self.held.load(SeqCst)
    }

    async fn pass(&self, fence: &Fence, env: &dyn Env) -> Result<(), DeviceError> {
        if fence.is_open(env.now()) {
            return Ok(());
        }
        let _counted = Held::at(self);
        fence.pass(env).await
    }
}

/// A request that waits, counted until it is dropped.
struct Held<'a>(&'a Post);

impl<'a> Held<'a> {
    fn at(post: &'a Post) -> Self {
        post.held.fetch_add(1, SeqCst);
        Self(post)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, SeqCst);
    }
}

/// A device behind the fence of its pool, as slow as is on order.
pub(crate) struct Fenced {
    pub device: Arc<dyn Device>,
    pub post: Arc<Post>,
    pub env: Arc<dyn Env>,
}

impl Fenced {
    /// Does what changes the device, in time. Before that the device is not told.
    fn guarded(
        &self,
        io: impl FnOnce(&Arc<dyn Device>) -> BoxFuture<'static, Result<(), DeviceError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        match self.post.fence.get() {
            Some(fence) if fence.has_limit() => {
                let (fence, post) = (Arc::clone(fence), Arc::clone(&self.post));
                let (env, device) = (Arc::clone(&self.env), self.slowed());
                Box::pin(async move {
                    post.pass(&fence, &*env).await?;
                    let done = io(&device).await;
                    post.pass(&fence, &*env).await?;
                    done
                })
            }
            _ if self.post.delays.are_any() => io(&self.slowed()),
            _ => io(&self.device),
        }
    }

    /// The device as what is on order makes it.
    fn slowed(&self) -> Arc<dyn Device> {
        let data = || data_of(leaf_psize(self.device.info().size_bytes));
        self.post.delays.put_before(Arc::clone(&self.device), &self.env, data)
    }
}

impl Device for Fenced {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn look_again(&self) {
        self.device.look_again();
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        if self.post.delays.are_any() {
            return self.slowed().read(offset, len);
        }
        self.device.read(offset, len)
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.guarded(move |device| device.write(offset, slices, durability))
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.guarded(|device| device.flush())
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.guarded(move |device| device.discard(offset, len))
    }
}

#[cfg(test)]
mod tests;
