//! Time that stands still, and an environment by it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::{BoxFuture, Device, DeviceError, Env, OpenMode};
use parking_lot::Mutex;

/// Time that a test moves on.
#[derive(Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    pub fn pass(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).expect("a short span");
        self.0.fetch_add(micros, Ordering::SeqCst);
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// Whether other tasks of the thread are said to be ready.
#[derive(Clone, Default)]
pub struct Others(Arc<AtomicBool>);

impl Others {
    pub fn are_ready(&self, ready: bool) {
        self.0.store(ready, Ordering::SeqCst);
    }
}

struct TestEnv {
    seed: Mutex<u64>,
    clock: Clock,
    others: Others,
}

impl Env for TestEnv {
    fn now(&self) -> Duration {
        self.clock.now()
    }
    fn wall_clock(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep(&self, _span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    fn spawn(&self, name: &'static str, _task: BoxFuture<'static, ()>) {
        panic!("the log spawned {name}");
    }
    fn has_ready(&self) -> bool {
        self.others.0.load(Ordering::SeqCst)
    }
    fn random_u64(&self) -> u64 {
        let mut seed = self.seed.lock();
        *seed += 1;
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn open(&self, path: &Path, _mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let path = path.to_path_buf();
        Box::pin(async move { Err(DeviceError::Missing { path }) })
    }
}

/// An environment; each draws other numbers.
pub fn env() -> Arc<dyn Env> {
    env_with(Clock::default(), Others::default())
}

pub fn env_with(clock: Clock, others: Others) -> Arc<dyn Env> {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let seed = Mutex::new(RUNS.fetch_add(1, Ordering::SeqCst) << 32);
    Arc::new(TestEnv { seed, clock, others })
}
