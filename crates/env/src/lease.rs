//! One writer at a time for devices that have no lock of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use units::LeafOffset;

use crate::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf, OpenMode};

/// A device that has a path, and may be opened there for writing by one owner at a time.
#[derive(Clone)]
pub struct Shelf {
    device: Arc<dyn Device>,
    is_taken: Arc<AtomicBool>,
}

impl Shelf {
    /// Puts a device on a shelf.
    #[must_use]
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self { device, is_taken: Arc::default() }
    }

    /// Opens the device under the name `path`. A writer holds it until the result is dropped.
    ///
    /// # Errors
    /// [`DeviceError::InUse`] when it has a writer already and another is asked for.
    pub fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Device>, DeviceError> {
        if mode != OpenMode::ReadWrite {
            return Ok(Arc::clone(&self.device));
        }
        if self.is_taken.swap(true, Ordering::SeqCst) {
            return Err(DeviceError::InUse { path: PathBuf::from(path) });
        }
        Ok(Arc::new(Lease { device: Arc::clone(&self.device), is_taken: Arc::clone(&self.is_taken) }))
    }
}

struct Lease {
    device: Arc<dyn Device>,
    is_taken: Arc<AtomicBool>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.is_taken.store(false, Ordering::SeqCst);
    }
}

impl Device for Lease {
    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn look_again(&self) {
        self.device.look_again();
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        self.device.read(offset, len)
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.device.write(offset, slices, durability)
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.device.flush()
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.device.discard(offset, len)
    }
}
