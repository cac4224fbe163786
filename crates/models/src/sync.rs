//! What the protocols share state by, and wait with: shuttle's.

use std::cell::Cell;
use std::ops::Sub;
use std::sync::TryLockError;
use std::time::Duration;

use shuttle::sync::MutexGuard;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
pub(crate) use shuttle::thread;

/// A lock with the calls of `parking_lot`.
#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("a thread that panics ends the test")
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(error)) => panic!("a thread that panics ends the test: {error}"),
        }
    }
}

/// Time that passes whenever somebody looks at it.
#[derive(Clone, Copy)]
pub(crate) struct Instant(u64);

const TICK: Duration = Duration::from_micros(10);

impl Instant {
    pub(crate) fn now() -> Self {
        thread_local! {
            static LOOKS: Cell<u64> = const { Cell::new(0) };
        }
        LOOKS.set(LOOKS.get() + 1);
        Self(LOOKS.get())
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        TICK * (self.0 - earlier.0) as u32
    }
}
