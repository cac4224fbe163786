//! Places at a device, and who goes straight on.

use std::sync::Arc;
use std::task::Waker;

use units::LeafOffset;

use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed};
use crate::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};

use super::class::IoClass;
use super::lanes::{Bounds, Job, Lanes, Request};
use super::ticket::{Seat, Ticket, merged};

/// A device with a queue before it.
pub struct Queued(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub device: Arc<dyn Device>,
    pub lanes: Mutex<Lanes<Seat>>,
    merged: AtomicU64,
}

impl Queued {
    /// Puts a queue before `device`.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, bounds: Bounds) -> Self {
        Self(Arc::new(Inner { device, lanes: Mutex::new(Lanes::new(bounds)), merged: AtomicU64::new(0) }))
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
            merged(Place { queue: Arc::clone(self), class }, group, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A place at the device now, or a ticket for one.
    fn enter(self: &Arc<Self>, request: impl FnOnce() -> Request) -> Result<Place, Ticket> {
        let class = IoClass::current();
        let mut lanes = self.lanes.lock();
        if lanes.try_start(class) {
            return Ok(Place { queue: Arc::clone(self), class });
        }
        let request = request();
        let seat = Seat::default();
        let serial = lanes.wait(class, request.clone(), seat.clone());
        Err(Ticket { queue: Arc::clone(self), class, serial, seat, request })
    }

    async fn read(self: Arc<Self>, offset: LeafOffset, len: usize) -> Result<IoBuf, DeviceError> {
        match self.enter(|| Request { offset, job: Job::Read(len as u64) }) {
            Ok(_place) => self.device.read(offset, len).await,
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
        match self.enter(|| Request { offset, job: Job::Write(take(), durability) }) {
            Ok(_place) => self.device.write(offset, take(), durability).await,
            Err(ticket) => ticket.write().await,
        }
    }
}

/// One I/O's place at the device, given back when dropped.
pub(super) struct Place {
    pub queue: Arc<Inner>,
    class: IoClass,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.lanes.lock().ended(self.class);
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
            let _place = match queue.enter(|| Request { offset, job: Job::Discard(len) }) {
                Ok(place) => place,
                Err(ticket) => return ticket.discard().await,
            };
            queue.device.discard(offset, len).await
        })
    }
}
