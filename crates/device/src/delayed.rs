//! A device made as slow as a disk, to show and to measure what a log device brings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use units::LeafOffset;

use crate::exec::timer;
use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};

/// A device with one arm: each stable write and each flush takes the delay, one after
/// another; cached writes and reads, which a disk's own memory serves, take none.
pub struct Delayed {
    device: Arc<dyn Device>,
    delay: Duration,
    /// When the arm is free again, in [`timer::now`]'s time.
    free_at: Arc<Mutex<Duration>>,
}

impl Delayed {
    /// Slows `device` down by `delay` for everything that must reach the medium.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, delay: Duration) -> Self {
        Self { device, delay, free_at: Arc::default() }
    }

    fn after_the_arm<T: Send + 'static>(&self, work: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
        let (delay, free_at) = (self.delay, Arc::clone(&self.free_at));
        Box::pin(async move {
            let now = timer::now();
            let until = {
                let mut free_at = free_at.lock();
                *free_at = now.max(*free_at) + delay;
                *free_at
            };
            timer::sleep(until - now).await;
            work.await
        })
    }
}

impl Device for Delayed {
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
        let work = self.device.write(offset, slices, durability);
        match durability {
            Durability::Cached => work,
            Durability::Stable => self.after_the_arm(work),
        }
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.after_the_arm(self.device.flush())
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.device.discard(offset, len)
    }
}

/// Which paths are slow, and how slow: `path=8ms,other=250us`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays(BTreeMap<PathBuf, Duration>);

/// A list of delays that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{item}': expected path=8ms, with us, ms or s")]
pub struct DelaysError {
    /// The part that is wrong.
    item: String,
}

impl Delays {
    /// The delay of the device at `path`, if it has one.
    #[must_use]
    pub fn of(&self, path: &Path) -> Option<Duration> {
        self.0.get(path).copied()
    }
}

impl std::str::FromStr for Delays {
    type Err = DelaysError;

    fn from_str(text: &str) -> Result<Self, DelaysError> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let parse = |item: &str| {
            let (path, span) = item.rsplit_once('=')?;
            Some((PathBuf::from(path), parse_span(span)?)).filter(|_| !path.is_empty())
        };
        let delays = items.map(|item| parse(item).ok_or_else(|| DelaysError { item: item.to_owned() }));
        delays.collect::<Result<_, _>>().map(Self)
    }
}

/// `8ms`, `0.5s`, `120us`.
fn parse_span(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()
}
