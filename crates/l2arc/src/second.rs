//! The cache devices of a pool together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use env::{IoBuf, boxed};
use event_listener::Event;
use futures::future::{join, select};
use ondisk::{Blkptr, ChecksumKind};
use parking_lot::{Mutex, RwLock};
use units::Guid;

use crate::index::Name;
use crate::stats::{CacheDeviceStats, Counters, count};
use crate::{CacheDevice, Stored};

/// Bytes that wait to be written at most, beside the cache in memory: what comes then is dropped.
const WAITING_MAX_BYTES: usize = 16 << 20;
/// Bytes and blocks that are written at a time, about.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_BLOCKS: usize = 512;
/// What has come is waited with for so long, unless it is much.
const GATHER: Duration = Duration::from_millis(50);
/// Bytes written a second to a device that has been filled once (`l2arc_write_max`): flash wears.
const WRITE_BYTES_PER_SEC: u64 = 32 << 20;
/// And until then (`l2arc_write_boost` more).
const FILL_BYTES_PER_SEC: u64 = 64 << 20;

/// A block that left memory.
#[derive(Clone, Debug)]
pub struct Offered {
    /// What it is.
    pub bp: Blkptr,
    /// Its bytes.
    pub form: Form,
}

/// How a block was kept in memory.
#[derive(Clone, Debug)]
pub enum Form {
    /// As the pool stores it.
    Stored(Arc<IoBuf>),
    /// Ready for use.
    Plain(Arc<IoBuf>),
}

impl Form {
    fn bytes(&self) -> usize {
        match self {
            Self::Stored(bytes) | Self::Plain(bytes) => bytes.len(),
        }
    }
}

#[derive(Default)]
struct Waiting {
    blocks: VecDeque<Offered>,
    bytes: usize,
}

/// All cache devices of a pool.
#[derive(Default)]
pub struct SecondCache {
    devices: RwLock<Vec<Arc<CacheDevice>>>,
    has_devices: AtomicBool,
    waiting: Mutex<Waiting>,
    arrived: Event,
    counters: Counters,
}

impl SecondCache {
    /// Whether a block could go to a device: it can be told from any other by its checksum, and lies in the pool as one.
    #[must_use]
    pub fn may_have(bp: &Blkptr) -> bool {
        let is_checked =
            bp.checksum_kind().is_ok_and(|kind| !matches!(kind, ChecksumKind::Off | ChecksumKind::Noparity));
        is_checked && bp.compression().is_ok() && !bp.is_gang() && !bp.is_hole() && !bp.is_embedded()
    }

    /// Whether there is any device.
    #[must_use]
    pub fn has_devices(&self) -> bool {
        self.has_devices.load(Relaxed)
    }

    /// The devices.
    #[must_use]
    pub fn devices(&self) -> Vec<Arc<CacheDevice>> {
        self.devices.read().clone()
    }

    /// Takes a device into use. Who feeds it is another's care ([`Self::next`]).
    pub fn add(&self, device: Arc<CacheDevice>) {
        let mut devices = self.devices.write();
        devices.push(device);
        self.has_devices.store(true, Relaxed);
    }

    /// Lets go of a device; it is closed by whoever gets it.
    pub fn remove(&self, guid: Guid) -> Option<Arc<CacheDevice>> {
        let mut devices = self.devices.write();
        let at = devices.iter().position(|device| device.leaf().guid() == guid)?;
        let device = devices.remove(at);
        self.has_devices.store(!devices.is_empty(), Relaxed);
        Some(device)
    }

    /// Takes blocks that left memory, to be written if there is time and they are not there already.
    pub fn offer(&self, blocks: Vec<Offered>) {
        if blocks.is_empty() || !self.has_devices() {
            return;
        }
        let devices = self.devices.read();
        let is_there = |block: &Offered| {
            let name = Name::of(&block.bp);
            devices.iter().any(|device| device.has(&name))
        };
        for block in blocks {
            if is_there(&block) {
                count(&self.counters.offered_again_bytes, block.form.bytes() as u64);
                continue;
            }
            let mut waiting = self.waiting.lock();
            if waiting.bytes + block.form.bytes() > WAITING_MAX_BYTES {
                count(&self.counters.dropped, 1);
                continue;
            }
            waiting.bytes += block.form.bytes();
            waiting.blocks.push_back(block);
        }
        self.arrived.notify(1);
    }

    /// The next blocks for a device, when there are any; `None` when it is to be fed no more.
    #[boxed]
    pub async fn next(&self, device: &CacheDevice) -> Option<Vec<Offered>> {
        loop {
            let (arrived, closing) = (self.arrived.listen(), device.closing());
            if !device.is_open() {
                // Another may take what woke this one.
                self.arrived.notify(1);
                return None;
            }
            if self.waiting.lock().blocks.is_empty() {
                select(arrived, closing).await;
                continue;
            }
            if self.waiting.lock().bytes < BATCH_BYTES {
                select(device.env().sleep(GATHER), closing).await;
            }
            let batch = self.take_batch();
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    fn take_batch(&self) -> Vec<Offered> {
        let mut waiting = self.waiting.lock();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && batch.len() < BATCH_BLOCKS
            && let Some(block) = waiting.blocks.pop_front()
        {
            bytes += block.form.bytes();
            batch.push(block);
        }
        waiting.bytes -= bytes;
        if !waiting.blocks.is_empty() {
            self.arrived.notify(1);
        }
        batch
    }

    /// Writes blocks to a device, no faster than is good for it.
    ///
    /// # Errors
    /// Those of the device.
    #[boxed]
    pub async fn write(&self, device: &CacheDevice, blocks: &[Stored]) -> Result<(), vdev::VdevError> {
        let bytes: u64 = blocks.iter().map(|block| block.bytes.len() as u64).sum();
        let rate = if device.is_filling() { FILL_BYTES_PER_SEC } else { WRITE_BYTES_PER_SEC };
        let span = Duration::from_micros(bytes.saturating_mul(1_000_000) / rate);
        let closing = device.closing();
        let pause = select(device.env().sleep(span), closing);
        join(device.write(blocks), pause).await.0
    }

    /// The bytes of a block that satisfy `holds`, if a device has them.
    #[boxed]
    pub async fn read(&self, bp: &Blkptr, holds: &(dyn Fn(&[u8]) -> bool + Sync)) -> Option<IoBuf> {
        if !self.has_devices() || !Self::may_have(bp) {
            return None;
        }
        for device in self.devices() {
            if let Some(bytes) = device.read(bp, holds).await {
                return Some(bytes);
            }
        }
        count(&self.counters.misses, 1);
        None
    }

    /// What all devices did so far. Those that went are not counted.
    #[must_use]
    pub fn stats(&self) -> CacheDeviceStats {
        let mut stats = self.counters.read();
        for device in self.devices() {
            let own = device.counters.read();
            stats.hits += own.hits;
            stats.wrong_bytes += own.wrong_bytes;
            stats.failed_reads += own.failed_reads;
            stats.written += own.written;
            stats.read_bytes += own.read_bytes;
            stats.written_bytes += own.written_bytes;
            stats.rebuilt += own.rebuilt;
            let index = device.index.lock();
            stats.blocks += index.blocks() as u64;
            stats.bytes += index.bytes();
            stats.memory_bytes += index.memory_bytes();
        }
        stats
    }

    /// Memory that it takes to know what is where, about.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.devices.read().iter().map(|device| device.index.lock().memory_bytes()).sum()
    }
}
