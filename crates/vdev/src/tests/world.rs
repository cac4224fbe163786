//! A small world for tests: devices in memory by path, faults on order, and a record of all
//! writes and flushes from which crash images are made.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use env::{
    BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, Env, Faults, Faulty, IoBuf, OpenMode,
    RamDevice,
};
use parking_lot::Mutex;
use units::LeafOffset;

/// One entry of the record.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write { path: PathBuf, offset: LeafOffset, bytes: Vec<u8> },
    Flush { path: PathBuf },
}

type Record = Arc<Mutex<Vec<Event>>>;

/// Whether a device leaves reads or writes unanswered. Who waits for one has to ask again by itself.
#[derive(Clone, Default)]
pub(crate) struct Hang {
    reads: Arc<AtomicBool>,
    writes: Arc<AtomicBool>,
}

impl Hang {
    pub(crate) fn set(&self, hangs: bool) {
        self.writes.store(hangs, SeqCst);
    }

    pub(crate) fn set_reads(&self, hangs: bool) {
        self.reads.store(hangs, SeqCst);
    }
}

async fn end_of(hang: &AtomicBool) {
    poll_fn(|_| if hang.load(SeqCst) { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// A device that notes what was written and flushed, once it was.
struct Recorded {
    path: PathBuf,
    ram: RamDevice,
    record: Record,
    hang: Hang,
}

impl Device for Recorded {
    fn info(&self) -> DeviceInfo {
        self.ram.info()
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        let (work, hang) = (self.ram.read(offset, len), self.hang.clone());
        Box::pin(async move {
            end_of(&hang.reads).await;
            work.await
        })
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let bytes = slices.iter().flat_map(|slice| slice.bytes().to_vec()).collect();
        let (record, path, hang) = (self.record.clone(), self.path.clone(), self.hang.clone());
        let work = self.ram.write(offset, slices, durability);
        Box::pin(async move {
            end_of(&hang.writes).await;
            record.lock().push(Event::Write { path, offset, bytes });
            work.await
        })
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        let (record, path) = (self.record.clone(), self.path.clone());
        Box::pin(async move {
            record.lock().push(Event::Flush { path });
            Ok(())
        })
    }
}

struct Disk {
    ram: RamDevice,
    faults: Faults,
    hang: Hang,
    /// How many times opening it still finds it in use.
    held: u32,
}

/// Devices by path, a counting clock, and numbers that are different each time but the same in
/// each run.
#[derive(Default)]
pub(crate) struct World {
    disks: Mutex<BTreeMap<PathBuf, Disk>>,
    record: Record,
    ticks: AtomicU64,
    draws: AtomicU64,
}

impl World {
    /// Devices of `size_bytes` at these paths.
    pub(crate) fn with(paths: &[&str], size_bytes: u64) -> Arc<Self> {
        let world = Self::default();
        for path in paths {
            world.put(path, RamDevice::new(size_bytes));
        }
        Arc::new(world)
    }

    pub(crate) fn put(&self, path: impl Into<PathBuf>, ram: RamDevice) {
        self.disks
            .lock()
            .insert(path.into(), Disk { ram, faults: Faults::none(), hang: Hang::default(), held: 0 });
    }

    pub(crate) fn take(&self, path: &str) -> RamDevice {
        self.disks.lock().remove(Path::new(path)).expect("a device at that path").ram
    }

    pub(crate) fn ram(&self, path: &str) -> RamDevice {
        self.disks.lock()[Path::new(path)].ram.clone()
    }

    pub(crate) fn faults(&self, path: &str) -> Faults {
        self.disks.lock()[Path::new(path)].faults.clone()
    }

    pub(crate) fn hang(&self, path: &str) -> Hang {
        self.disks.lock()[Path::new(path)].hang.clone()
    }

    /// Lets the next `times` openings find that somebody else has the device.
    pub(crate) fn hold(&self, path: &str, times: u32) {
        self.disks.lock().get_mut(Path::new(path)).expect("a device at that path").held = times;
    }

    pub(crate) fn env(self: &Arc<Self>) -> Arc<dyn Env> {
        self.clone()
    }

    pub(crate) fn record(&self) -> Vec<Event> {
        self.record.lock().clone()
    }
}

impl Env for World {
    fn now(&self) -> Duration {
        Duration::from_micros(self.ticks.fetch_add(1, SeqCst))
    }

    fn wall_clock(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.ticks.fetch_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX), SeqCst);
        Box::pin(async {})
    }

    fn spawn(&self, name: &'static str, _task: BoxFuture<'static, ()>) {
        panic!("nothing here spawns tasks: {name}");
    }

    fn random_u64(&self) -> u64 {
        let draw = self.draws.fetch_add(1, SeqCst) + 1;
        draw.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn open(&self, path: &Path, _mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let mut disks = self.disks.lock();
        let opened: Result<Arc<dyn Device>, _> = match disks.get_mut(path) {
            Some(disk) if disk.held > 0 => {
                disk.held -= 1;
                Err(DeviceError::InUse { path: path.to_owned() })
            }
            Some(disk) => {
                let (ram, record, hang) = (disk.ram.clone(), self.record.clone(), disk.hang.clone());
                let recorded = Arc::new(Recorded { path: path.to_owned(), ram, record, hang });
                Ok(Arc::new(Faulty::new(recorded, disk.faults.clone())))
            }
            None => Err(DeviceError::Missing { path: path.to_owned() }),
        };
        Box::pin(async move { opened })
    }
}

/// A memory copy of a file.
pub(crate) fn ram_of_file(path: &Path) -> Option<RamDevice> {
    let bytes = std::fs::read(path).ok()?;
    let ram = RamDevice::new(bytes.len() as u64);
    const PIECE: usize = 1 << 20;
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            let slice = BufSlice::from(IoBuf::copy_of(piece));
            let at = LeafOffset::new((index * PIECE) as u64);
            futures::executor::block_on(ram.write(at, vec![slice], Durability::Cached)).expect("fits");
        }
    }
    Some(ram)
}
