//! Places at a device, and who goes straight on.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use units::LeafOffset;

use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed};
use crate::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};

use super::class::IoClass;
use super::lanes::{Bounds, Job, Lanes, Request};
use super::meter::{Done, InQueue, IoOp, Meter};
use super::ticket::{Seat, Ticket, merged};

/// A device with a queue before it.
pub struct Queued(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub device: Arc<dyn Device>,
    pub lanes: Mutex<Lanes<Seat>>,
    merged: AtomicU64,
    meter: Meter,
}

impl Queued {
    /// Puts a queue before `device`, which counts what goes through it.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, bounds: Bounds, meter: Meter) -> Self {
        let lanes = Mutex::new(Lanes::new(bounds));
        Self(Arc::new(Inner { device, lanes, merged: AtomicU64::new(0), meter }))
    }

    /// How many I/Os there are now, in the order of [`super::Priority::ALL`].
    #[must_use]
    pub fn now(&self) -> [InQueue; 6] {
        self.0.lanes.lock().now()
    }

    /// Requests that went to the device as a part of another's I/O.
    #[must_use]
    pub fn merged(&self) -> u64 {
        self.0.merged.load(Relaxed)
    }
}

impl Inner {
    /// Hands free places to those who wait.
    fn dispatch(self: &Arc<Self>) {
        let mut wakers: Vec<Waker> = Vec::new();
        loop {
            // A statement of its own: a place that nobody wants is given back, under the same lock.
            let next = self.lanes.lock().next();
            let Some((class, group)) = next else { break };
            self.merged.fetch_add(group.len() as u64 - 1, Relaxed);
            let came = group.iter().map(|(request, _)| request.came).min().unwrap_or_default();
            let op = group[0].0.op();
            let place = Place { queue: Arc::clone(self), class, op, came: Some(came), started: came };
            merged(place, group, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A place at the device now, or a ticket for one.
    fn enter(self: &Arc<Self>, op: IoOp, request: impl FnOnce(Duration) -> Request) -> Result<Place, Ticket> {
        let class = IoClass::current();
        let came = (self.meter.clock)();
        let mut lanes = self.lanes.lock();
        if lanes.try_start(class, op) {
            return Ok(Place { queue: Arc::clone(self), class, op, came: None, started: came });
        }
        let request = request(came);
        let seat = Seat::default();
        let serial = lanes.wait(class, request.clone(), seat.clone());
        Err(Ticket { queue: Arc::clone(self), class, serial, seat, request })
    }

    async fn read(self: Arc<Self>, offset: LeafOffset, len: usize) -> Result<IoBuf, DeviceError> {
        match self.enter(IoOp::Read, |came| Request { offset, job: Job::Read(len as u64), came }) {
            Ok(place) => place.counted(1, len as u64, self.device.read(offset, len)).await,
            Err(ticket) => ticket.read().await,
        }
    }

    async fn write(
        self: Arc<Self>,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> Result<(), DeviceError> {
        let mut slices = Some(slices);
        let mut take = || slices.take().expect("taken once");
        match self.enter(IoOp::Write, |came| Request { offset, job: Job::Write(take(), durability), came }) {
            Ok(place) => {
                let slices = take();
                let bytes = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
                place.counted(1, bytes, self.device.write(offset, slices, durability)).await
            }
            Err(ticket) => ticket.write().await,
        }
    }
}

/// One I/O's place at the device, given back when dropped.
pub(super) struct Place {
    pub queue: Arc<Inner>,
    class: IoClass,
    op: IoOp,
    /// When it was asked for, if it had to wait for the place.
    came: Option<Duration>,
    /// When the device is.
    started: Duration,
}

impl Place {
    /// Who was called up goes to the device now.
    pub fn taken_up(mut self) -> Self {
        self.started = (self.queue.meter.clock)();
        self
    }

    /// Does the I/O of so many requests that move so many bytes, and counts it if that succeeds. The place is given
    /// back with its end.
    pub async fn counted<T>(
        self,
        requests: usize,
        bytes: u64,
        io: BoxFuture<'static, Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        let answer = io.await;
        if answer.is_ok() {
            let Meter { clock, stats } = &self.queue.meter;
            let device = clock().saturating_sub(self.started);
            let wait = self.came.map(|came| self.started.saturating_sub(came));
            stats.note(Done { class: self.class, op: self.op, requests, bytes, wait, device });
        }
        answer
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.lanes.lock().ended(self.class, self.op);
        self.queue.dispatch();
    }
}

impl Device for Queued {
    fn info(&self) -> DeviceInfo {
        self.0.device.info()
    }

    fn look_again(&self) {
        self.0.device.look_again();
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        Box::pin(Arc::clone(&self.0).read(offset, len))
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        Box::pin(Arc::clone(&self.0).write(offset, slices, durability))
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.0.device.flush()
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        let queue = Arc::clone(&self.0);
        Box::pin(async move {
            // Takes a place like a read, but is never merged: who discards does so in large pieces.
            match queue.enter(IoOp::Discard, |came| Request { offset, job: Job::Discard(len), came }) {
                Ok(place) => place.counted(1, len, queue.device.discard(offset, len)).await,
                Err(ticket) => ticket.discard().await,
            }
        })
    }
}
