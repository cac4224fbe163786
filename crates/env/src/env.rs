//! The world as everything above this crate sees it.
//!
//! Nothing above `device` starts a thread, reads a clock, draws a random number or opens
//! a file on its own. In production `device::RealEnv` answers; in simulation one thread,
//! one seed and a virtual clock do, with the very same code above.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::{BufSlice, DeviceError, IoBuf};
use units::LeafOffset;

/// A boxed future that may move between threads until it is first polled.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Time, tasks, randomness and devices, from outside.
pub trait Env: Send + Sync + 'static {
    /// Time since an arbitrary start; never goes back.
    fn now(&self) -> Duration;
    /// Time since 1970-01-01 UTC.
    fn wall_clock(&self) -> Duration;
    /// A future that is ready after `span`.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
    /// Runs `task` to its end in the background. `name` is for people.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>);
    /// Whether other tasks of the thread that asks could go on at once. Who is about to do something for
    /// several of them lets those go first ([`crate::let_others_first`]). False where that is not known.
    fn has_ready(&self) -> bool {
        false
    }
    /// 64 random bits.
    fn random_u64(&self) -> u64;
    /// Opens the file or block device at `path`.
    fn open(&self, path: &Path, mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>>;
}

/// How a device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reads only; takes no lock.
    ReadOnly,
    /// Reads and writes; fails with [`DeviceError::InUse`] when somebody else holds it so.
    ReadWrite,
    /// Reads only, and keeps programs and other daemons from a block device until this daemon opens the device so as to
    /// write. Fails with [`DeviceError::InUse`] when somebody else holds it.
    Hold,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the device has taken it; a later [`Device::flush`] makes it stable.
    Cached,
    /// Only once it is stable (force unit access, `RWF_DSYNC`).
    Stable,
}

/// One leaf: a file, a block device, RAM, or a simulated disk.
///
/// Futures do nothing until polled. Dropping one does not recall an I/O that has begun; buffers
/// stay alive until the device is done with them. Offsets and lengths must be multiples of
/// [`DeviceInfo::logical_sector_bytes`].
pub trait Device: Send + Sync {
    /// What is known of the device.
    fn info(&self) -> DeviceInfo;
    /// Looks how large the device is by now: if it has become larger, [`Self::info`] says so from then on. One
    /// that has become smaller is as large as it was: what lies there is lost, and reads tell.
    fn look_again(&self) {}
    /// Reads `len` bytes; a short read is an error.
    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>>;
    /// Writes the slices one after another from `offset`.
    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>>;
    /// Makes every write that completed before this call stable. After a failure the
    /// device's unflushed writes must be taken for lost.
    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>>;
    /// Says that nobody wants `len` bytes at `offset` any more: the device may use their room
    /// otherwise, and what is read there until the next write is anything. One that can do
    /// nothing with that ([`DeviceInfo::can_discard`]) does nothing.
    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        let fits = self.info().check_range("discard", offset, len);
        Box::pin(async move { fits })
    }
}

/// What is known of a device when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Whole size.
    pub size_bytes: u64,
    /// Smallest unit of I/O.
    pub logical_sector_bytes: u32,
    /// Smallest unit written without reading first.
    pub physical_sector_bytes: u32,
    /// A block device, as against a plain file.
    pub is_block_device: bool,
    /// Completed writes may be lost with the power until they are flushed: a device that says
    /// nothing is taken to have such a cache, and so is whatever lies below a file.
    pub has_volatile_cache: bool,
    /// [`Device::discard`] does something.
    pub can_discard: bool,
}

impl DeviceInfo {
    /// Whether a request is in whole sectors and lies on the device.
    ///
    /// # Errors
    /// [`DeviceError::OutOfRange`] when not.
    pub fn check_range(&self, op: &'static str, offset: LeafOffset, len: u64) -> Result<(), DeviceError> {
        let sector = u64::from(self.logical_sector_bytes);
        let in_sectors = offset.get().is_multiple_of(sector) && len.is_multiple_of(sector);
        let end = offset.get().checked_add(len);
        if in_sectors && end.is_some_and(|end| end <= self.size_bytes) {
            Ok(())
        } else {
            Err(DeviceError::OutOfRange { op, offset, len })
        }
    }
}
