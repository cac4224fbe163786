//! A program that writes stably, at its own pace, while something else is done to its pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use device::RealEnv;
use parking_lot::Mutex;
use pool::{Pool, PoolError};
use units::ObjectId;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::world::{POOL, STABLE};

/// Bytes of each write.
pub(crate) const WRITE_BYTES: usize = 8 << 10;
/// Between two writes: what is written between two snapshots is kept, and a device has an end.
const PAUSE: Duration = Duration::from_millis(1);

/// What stable writes took in a part of the run, in milliseconds.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Commits {
    /// How many.
    pub count: u64,
    /// Median.
    pub p50_ms: f64,
    /// 99 %.
    pub p99_ms: f64,
    /// The longest.
    pub longest_ms: f64,
}

impl Commits {
    /// A line for people, of what was done `when`.
    pub(crate) fn text(&self, when: &str) -> String {
        format!(
            "{when}: {} stable writes, p50 {:.3} ms, p99 {:.3}, longest {:.1}",
            self.count, self.p50_ms, self.p99_ms, self.longest_ms
        )
    }
}

/// A thread that writes stably until it is told to end.
pub(crate) struct Paced {
    times: Arc<Mutex<Latencies>>,
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<(), PoolError>>,
}

impl Paced {
    /// Writes at random places of a new file of the pool's file system, which has `span` bytes.
    pub fn start(env: &Arc<RealEnv>, pool: &Arc<Pool>, span: u64) -> Result<Self, PoolError> {
        let (zfs, file) = env.block_on(fill(pool, span))?;
        let (times, is_over) = (Arc::<Mutex<Latencies>>::default(), Arc::<AtomicBool>::default());
        let (env, noted, ended) = (Arc::clone(env), Arc::clone(&times), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            let (mut dice, data) = (Dice::new(1), vec![9; WRITE_BYTES]);
            while !ended.load(Ordering::Relaxed) {
                let at = dice.roll() % (span / WRITE_BYTES as u64) * WRITE_BYTES as u64;
                let begun = Instant::now();
                env.block_on(zfs.write(file, at, &data, STABLE))?;
                noted.lock().push(begun.elapsed());
                thread::sleep(PAUSE);
            }
            Ok(())
        });
        Ok(Self { times, is_over, thread })
    }

    /// What writes took since this was asked last.
    pub fn commits(&self) -> Commits {
        let times = std::mem::take(&mut *self.times.lock()).sorted();
        let ms = |part| times.at_us(part) / 1e3;
        Commits { count: times.count(), p50_ms: ms(0.5), p99_ms: ms(0.99), longest_ms: ms(1.0) }
    }

    /// Ends it.
    pub fn end(self) -> Result<(), PoolError> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

async fn fill(pool: &Arc<Pool>, span: u64) -> Result<(Arc<Zfs>, ObjectId), PoolError> {
    let zfs = Arc::clone(&pool.filesystem(POOL).await?.zfs);
    let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o600, Cred::default()).await?;
    let data = vec![5; 1 << 20];
    for at in (0..span).step_by(data.len()) {
        zfs.write(made.object, at, &data, WriteFlags::default()).await?;
    }
    pool.sync_now().await?;
    Ok((zfs, made.object))
}
