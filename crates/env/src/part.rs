//! A part of a device as a device of its own: a partition.

use std::ops::Range;
use std::sync::Arc;

use units::LeafOffset;

use crate::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};

/// The bytes of a device from one place to another.
pub struct Part {
    device: Arc<dyn Device>,
    range: Range<u64>,
}

impl Part {
    /// The bytes `range` of `device`, if they lie on it in whole sectors.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, range: Range<u64>) -> Option<Self> {
        let len = range.end.checked_sub(range.start).filter(|&len| len > 0)?;
        device.info().check_range("part", LeafOffset::new(range.start), len).ok()?;
        Some(Self { device, range })
    }

    /// Where a request lies on the whole device.
    fn place(&self, op: &'static str, offset: LeafOffset, len: u64) -> Result<LeafOffset, DeviceError> {
        self.info().check_range(op, offset, len)?;
        Ok(LeafOffset::new(self.range.start + offset.get()))
    }
}

/// A future that has ended before it began.
fn refused<T: Send + 'static>(error: DeviceError) -> BoxFuture<'static, Result<T, DeviceError>> {
    Box::pin(async move { Err(error) })
}

impl Device for Part {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { size_bytes: self.range.end - self.range.start, ..self.device.info() }
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        match self.place("read", offset, len as u64) {
            Ok(place) => self.device.read(place, len),
            Err(error) => refused(error),
        }
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let len = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
        match self.place("write", offset, len) {
            Ok(place) => self.device.write(place, slices, durability),
            Err(error) => refused(error),
        }
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.device.flush()
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        match self.place("discard", offset, len) {
            Ok(place) => self.device.discard(place, len),
            Err(error) => refused(error),
        }
    }
}
