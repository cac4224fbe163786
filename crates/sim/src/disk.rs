//! A simulated disk: content, timing, faults, and a note in the history of all it does.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, FaultOp, Faults, IoBuf};
use parking_lot::Mutex;
use units::LeafOffset;

use crate::history::{DiskId, Event, FlushResult};
use crate::log::Log;
use crate::mechanics::{Job, Mechanics};
use crate::model::DiskModel;
use crate::pages::Pages;
use crate::quirks::{Mischief, Quirks, Slowness, Twisted};
use crate::rng::Rng;
use crate::world::World;

mod losses;

use losses::CacheLosses;

/// What kind of disk to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpec {
    /// Whole size in bytes.
    pub size_bytes: u64,
    /// Smallest unit of I/O: also what is never torn.
    pub logical_sector_bytes: u32,
    /// Smallest unit written without reading first.
    pub physical_sector_bytes: u32,
    /// Its timing and cache.
    pub model: DiskModel,
}

impl DiskSpec {
    /// An instant disk of that size with 512-byte sectors and a volatile cache.
    #[must_use]
    pub const fn instant(size_bytes: u64) -> Self {
        Self::new(size_bytes, DiskModel::instant())
    }

    /// A disk of that size and model with 512-byte sectors.
    #[must_use]
    pub const fn new(size_bytes: u64, model: DiskModel) -> Self {
        Self { size_bytes, logical_sector_bytes: 512, physical_sector_bytes: 512, model }
    }
}

struct Inner {
    content: Pages,
    mechanics: Mechanics,
    rng: Rng,
    /// A random stream of its own, so that a world without losses draws the same numbers as before.
    rng_of_losses: Rng,
    quirks: Quirks,
    losses: CacheLosses,
    serial: u64,
    /// What is to be done when requests that hang are answered.
    hung: Vec<Box<dyn FnOnce() + Send>>,
}

impl Inner {
    /// What the disk makes of a range that is discarded; nothing where it leaves the old bytes.
    fn leftover(&mut self, len: usize) -> Arc<[u8]> {
        match self.rng.index(4) {
            0 => [].into(),
            1 => vec![0; len].into(),
            _ => std::iter::repeat_with(|| self.rng.next().to_le_bytes()).flatten().take(len).collect(),
        }
    }
}

struct Drive {
    id: DiskId,
    path: PathBuf,
    spec: DiskSpec,
    world: Weak<World>,
    log: Log,
    faults: Faults,
    inner: Mutex<Inner>,
}

/// A simulated disk, and the handle by which a test makes it misbehave. Clones are the
/// same disk. As a [`Device`] it takes no lock; [`env::Env::open`] does.
#[derive(Clone)]
pub struct SimDisk(Arc<Drive>);

impl SimDisk {
    pub(crate) fn new(world: &Arc<World>, log: &Log, path: &Path, spec: DiskSpec, content: Pages) -> Self {
        let card = crate::log::DiskCard { path: path.to_owned(), spec };
        let id = log.add_disk(card, content.clone());
        let inner = Inner {
            content,
            mechanics: Mechanics::new(spec.model, spec.size_bytes),
            rng: Rng::new(world.seed(), 1000 + id as u64),
            rng_of_losses: Rng::new(world.seed(), 2000 + id as u64),
            quirks: Quirks::default(),
            losses: CacheLosses::default(),
            serial: 0,
            hung: Vec::new(),
        };
        Self(Arc::new(Drive {
            id,
            path: path.to_owned(),
            spec,
            world: Arc::downgrade(world),
            log: log.clone(),
            faults: Faults::none(),
            inner: Mutex::new(inner),
        }))
    }

    /// Its path in the world.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Orders for failing reads, writes, flushes and discards, and for taking the disk away. A failed
    /// write may have written nothing, a part, or all; after a failed flush, what it was to
    /// save can no more be saved.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// From now on: whether flushes and stable writes are acknowledged and not done.
    pub fn set_lying(&self, lies: bool) {
        self.0.inner.lock().quirks.lies = lies;
    }

    /// From now on each request takes that much longer: a straggler.
    pub fn set_delay(&self, delay: Duration) {
        self.0.inner.lock().quirks.delay = delay;
    }

    /// From the `nth` request from now on (1 is the next) each takes that much longer.
    pub fn straggle_from(&self, nth: u64, delay: Duration) {
        self.0.inner.lock().quirks.straggle(nth, delay);
    }

    /// From now on: whether some writes and flushes, or all, take so many times as long. Others do not wait for them.
    pub fn slow_down(&self, slowness: Option<Slowness>) {
        self.0.inner.lock().quirks.slow_down(slowness);
    }

    /// From the `nth` request from now on (1 is the next) none is answered, until [`Self::answer`]. Nobody can open the
    /// disk for writing meanwhile.
    pub fn hang_from(&self, nth: u64) {
        self.0.inner.lock().quirks.hang(nth);
    }

    /// Answers what it has left unanswered, in the order in which it was asked, and all requests in time from now on.
    pub fn answer(&self) {
        let hung = {
            let mut inner = self.0.inner.lock();
            inner.quirks.answer();
            std::mem::take(&mut inner.hung)
        };
        hung.into_iter().for_each(|finish| finish());
    }

    /// How many requests wait for [`Self::answer`].
    #[must_use]
    pub fn hung(&self) -> usize {
        self.0.inner.lock().hung.len()
    }

    /// Lets the `nth` write from now (1 is the next) go wrong in silence.
    pub fn misbehave(&self, nth: u64, mischief: Mischief) {
        self.0.inner.lock().quirks.order(nth, mischief);
    }

    /// What reads would find now.
    #[must_use]
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.inner.lock().content.read(offset, &mut bytes);
        bytes
    }

    /// Changes the medium behind everybody's back, and for good.
    pub fn rot(&self, offset: u64, bytes: &[u8]) {
        self.0.inner.lock().content.write(offset, bytes);
        self.0.log.add(Event::Rotted { disk: self.0.id, offset, data: bytes.into() });
    }

    /// How many writes a power cut now could take back.
    #[must_use]
    pub fn writes_at_risk(&self) -> usize {
        self.0.log.at_risk(self.0.id)
    }
}

/// How a request ends.
type Ending<T> = Box<dyn FnOnce(&Drive) -> Result<T, DeviceError> + Send>;

impl Drive {
    /// Gives the mechanics a job; `ending` is carried out when it is done, whether or not
    /// anyone still waits.
    fn run<T: Send + 'static>(self: &Arc<Self>, job: Job, ending: Ending<T>) -> Receipt<T> {
        let world = self.world.upgrade().expect("a disk is used while its world lives");
        let is_reset = self.inner.lock().losses.next_request();
        if is_reset {
            self.reset();
        }
        let done_at = {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            let ready = inner.mechanics.take(job, world.now(), &mut inner.rng);
            let dawdles = match job {
                Job::Write { .. } | Job::Flush => {
                    inner.quirks.dawdle(ready.saturating_sub(world.now()), &mut inner.rng)
                }
                Job::Read { .. } | Job::Discard => Duration::ZERO,
            };
            inner.quirks.next_request().map(|late| ready + late + dawdles)
        };
        let receipt = Receipt(Arc::new(Mutex::new((None, None))));
        let (drive, slot) = (Arc::clone(self), Arc::clone(&receipt.0));
        let finish = move || {
            let result = ending(&drive);
            let waker = {
                let mut slot = slot.lock();
                slot.0 = Some(result);
                slot.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
        };
        match done_at {
            Some(at) => _ = world.appoint(at, Box::new(finish)),
            None => self.inner.lock().hung.push(Box::new(finish)),
        }
        receipt
    }

    fn next_serial(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.serial += 1;
        inner.serial
    }

    fn check_gone(&self) -> Result<(), DeviceError> {
        if self.faults.is_gone() { Err(DeviceError::Gone) } else { Ok(()) }
    }

    fn read(self: &Arc<Self>, offset: LeafOffset, len: usize) -> Result<Receipt<IoBuf>, DeviceError> {
        self.info().check_range("read", offset, len as u64)?;
        let fault = self.faults.check(FaultOp::Read, offset, len as u64);
        let doom = self.doom(false);
        let job = Job::Read { offset: offset.get(), len: len as u64 };
        let ending = move |drive: &Self| {
            fault?;
            drive.check_gone()?;
            drive.meet(doom, FaultOp::Read)?;
            let mut buf = IoBuf::zeroed(len);
            drive.inner.lock().content.read(offset.get(), &mut buf);
            Ok(buf)
        };
        Ok(self.run(job, Box::new(ending)))
    }

    fn write(
        self: &Arc<Self>,
        offset: LeafOffset,
        data: Vec<u8>,
        durability: Durability,
    ) -> Result<Receipt<()>, DeviceError> {
        let len = data.len() as u64;
        self.info().check_range("write", offset, len)?;
        self.check_gone()?;
        let fault = self.faults.check(FaultOp::Write, offset, len);
        let stable = durability == Durability::Stable;
        let doom = self.doom(stable);
        let fails = fault.is_err() || doom.fails;
        let (write, twisted) = self.begin_write(offset.get(), data, fails, stable);
        let job = Job::Write { offset: offset.get(), len, stable };
        let ending = move |drive: &Self| {
            let met = drive.meet(doom, FaultOp::Write);
            let result = fault.and_then(|()| drive.check_gone()).and(met);
            drive.end_write(write, twisted, stable && result.is_ok());
            result
        };
        Ok(self.run(job, Box::new(ending)))
    }

    /// Notes the write, and what really becomes of it.
    fn begin_write(&self, offset: u64, data: Vec<u8>, fails: bool, stable: bool) -> (u64, Twisted) {
        let write = self.next_serial();
        let sector = u64::from(self.spec.logical_sector_bytes);
        let twisted = {
            let mut inner = self.inner.lock();
            let inner = &mut *inner;
            inner.quirks.twist(offset, data, fails, sector, self.spec.size_bytes, &mut inner.rng)
        };
        let (offset, data) = (twisted.offset, Arc::clone(&twisted.data));
        self.log.add(Event::WriteBegun { disk: self.id, write, offset, data, stable });
        (write, twisted)
    }

    fn end_write(&self, write: u64, twisted: Twisted, stable: bool) {
        let lies = {
            let mut inner = self.inner.lock();
            inner.content.write(twisted.offset, &twisted.data);
            inner.quirks.lies
        };
        let durable = !lies && (stable || !self.spec.model.has_volatile_cache);
        self.log.add(Event::WriteEnded { disk: self.id, write, durable });
    }

    fn flush(self: &Arc<Self>) -> Result<Receipt<()>, DeviceError> {
        self.check_gone()?;
        let fault = self.faults.check(FaultOp::Flush, LeafOffset::new(0), 0);
        let flush = self.next_serial();
        self.log.add(Event::FlushBegun { disk: self.id, flush });
        let doom = self.doom(true);
        let ending = move |drive: &Self| {
            let met = drive.meet(doom, FaultOp::Flush);
            let result = fault.and_then(|()| drive.check_gone()).and(met);
            let lies = drive.inner.lock().quirks.lies;
            let event = match (&result, lies) {
                (Err(_), _) => FlushResult::Failed,
                (Ok(()), true) => FlushResult::Lie,
                (Ok(()), false) => FlushResult::Honest,
            };
            drive.log.add(Event::FlushEnded { disk: drive.id, flush, result: event });
            result
        };
        Ok(self.run(Job::Flush, Box::new(ending)))
    }

    fn discard(self: &Arc<Self>, offset: LeafOffset, len: u64) -> Result<Receipt<()>, DeviceError> {
        self.info().check_range("discard", offset, len)?;
        self.check_gone()?;
        let fault = self.faults.check(FaultOp::Discard, offset, len);
        let write = self.next_serial();
        let leftover = if fault.is_ok() { self.inner.lock().leftover(len as usize) } else { [].into() };
        let (twisted, data) = (Twisted { offset: offset.get(), data: Arc::clone(&leftover) }, leftover);
        self.log.add(Event::DiscardBegun { disk: self.id, write, offset: offset.get(), data });
        let doom = self.doom(false);
        let ending = move |drive: &Self| {
            drive.end_write(write, twisted, false);
            fault.and_then(|()| drive.check_gone()).and(drive.meet(doom, FaultOp::Discard))
        };
        Ok(self.run(Job::Discard, Box::new(ending)))
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            size_bytes: self.spec.size_bytes,
            logical_sector_bytes: self.spec.logical_sector_bytes,
            physical_sector_bytes: self.spec.physical_sector_bytes,
            is_block_device: true,
            has_volatile_cache: self.spec.model.has_volatile_cache,
            can_discard: true,
        }
    }
}

type Slot<T> = (Option<Result<T, DeviceError>>, Option<Waker>);

/// Waits for a request that the disk works on.
struct Receipt<T>(Arc<Mutex<Slot<T>>>);

impl<T> Future for Receipt<T> {
    type Output = Result<T, DeviceError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.lock();
        if let Some(result) = slot.0.take() {
            return Poll::Ready(result);
        }
        slot.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Device for SimDisk {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        let drive = Arc::clone(&self.0);
        Box::pin(async move { drive.read(offset, len)?.await })
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let drive = Arc::clone(&self.0);
        Box::pin(async move {
            let parts: Vec<&[u8]> = slices.iter().map(BufSlice::bytes).collect();
            let data = parts.concat();
            drive.write(offset, data, durability)?.await
        })
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        let drive = Arc::clone(&self.0);
        Box::pin(async move { drive.flush()?.await })
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        let drive = Arc::clone(&self.0);
        Box::pin(async move { drive.discard(offset, len)?.await })
    }
}
