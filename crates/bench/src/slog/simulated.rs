//! A cell on modelled disks: the engine itself, on the virtual clock.
//!
//! Disks take what their model says, and nothing else takes time; so that a log in memory is not infinitely fast, each write
//! also occupies one of some processors for as long as the engine was measured to need for one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use env::Env;
use futures::future::try_join_all;
use parking_lot::Mutex;
use pool::{PoolError, Tuning};
use sim::{DiskModel, DiskSpec, Sim};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, Zfs};

use super::{Cell, Load, Logs, Setup};
use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::world::{self, POOL, STABLE, Shape};
use crate::{Refusal, failed};

/// Sizes of the simulated disks: what is not written takes no memory.
const DISK_BYTES: u64 = 500_000_000_000;
const FAST_BYTES: u64 = 8 << 30;
const CACHE_BYTES: u64 = 1 << 30;
/// A cell is measured no longer once it has had so many writes: by then fast logs have shown what they do.
const COMMITS_MAX: u64 = 60_000;

/// Who computes.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    /// How many.
    pub count: usize,
    /// How long one of them is occupied by a write.
    pub per_write: Duration,
}

/// What the pools are made of.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// What data disks and logs are called.
    pub disk_name: String,
    /// Data disks, and logs.
    pub disk: DiskModel,
    /// What the fast log is called.
    pub fast_name: String,
    /// The fast log.
    pub fast: DiskModel,
    /// Who computes.
    pub processors: Processors,
    /// Decides everything random.
    pub seed: u64,
}

impl Hardware {
    pub(super) fn told(&self) -> String {
        let Processors { count, per_write } = self.processors;
        format!(
            "simulated: disks {}, fast log {}; {count} processors, {:.1} µs of one for each write; seed {}",
            self.disk_name,
            self.fast_name,
            per_write.as_secs_f64() * 1e6,
            self.seed
        )
    }

    /// Each cell in a world of its own, as many at a time as this machine has processors.
    pub(super) fn measure(&self, load: &Load, setups: &[Setup]) -> Result<Vec<Cell>, Refusal> {
        let next = AtomicUsize::new(0);
        let cells: Vec<Mutex<Option<Result<Cell, PoolError>>>> =
            setups.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            let at_once =
                std::thread::available_parallelism().map_or(1, |count| count.get().min(setups.len()));
            for _ in 0..at_once {
                scope.spawn(|| {
                    let draw = || next.fetch_add(1, Ordering::Relaxed);
                    while let Some((setup, cell)) = setups.iter().zip(&cells).nth(draw()) {
                        *cell.lock() = Some(self.cell(load, *setup));
                    }
                });
            }
        });
        let done = cells.into_iter().map(|cell| cell.into_inner().expect("each was measured"));
        done.collect::<Result<_, _>>().map_err(failed)
    }

    fn cell(&self, load: &Load, setup: Setup) -> Result<Cell, PoolError> {
        let sim = Sim::seed(self.seed);
        let shape = self.furnish(&sim, setup, load.size_bytes);
        sim.stop_recording();
        sim.run_until(async {
            let tuning = Tuning { cache_bytes: CACHE_BYTES, ..Tuning::default() };
            let pool = world::create(sim.env(), POOL, &shape, tuning).await?;
            let fs = pool.filesystem(POOL).await?;
            let file =
                fs.zfs.create(fs.zfs.root(), b"data", NewNode::File, 0o600, Cred::default()).await?.object;
            // The first commit makes the log's chain; it is not what is measured.
            fs.zfs.write(file, 0, &[1], STABLE).await?;
            pool.sync_now().await?;
            let race = Race::new(&sim, load, self.processors);
            let writers = (0..load.threads).map(|number| race.write(&fs.zfs, file, number as u64));
            let mut all = Latencies::default();
            try_join_all(writers).await?.into_iter().for_each(|latencies| all.append(latencies));
            let cell = Cell::of(all, race.measured(), load.size_bytes);
            drop(fs);
            pool.close(PoolState::Destroyed).await?;
            Ok(cell)
        })
    }

    /// Puts the disks there.
    fn furnish(&self, sim: &Sim, setup: Setup, size_bytes: usize) -> Shape {
        let cached = |model: DiskModel| if setup.with_flushes { model } else { model.with_safe_cache() };
        let add = |name: &str, count: usize, bytes: u64, model: DiskModel| -> Vec<PathBuf> {
            let path = |number| PathBuf::from(format!("/{name}{number}"));
            (0..count)
                .map(path)
                .inspect(|path| _ = sim.add_disk(path, DiskSpec::new(bytes, cached(model))))
                .collect()
        };
        let main = add("main", setup.main, DISK_BYTES, self.disk);
        let log = match setup.logs {
            Logs::Disks(count) => add("log", count, DISK_BYTES, self.disk),
            Logs::Fast => add("log", 1, FAST_BYTES, self.fast),
        };
        Shape { main, log, record: world::record_of(size_bytes), ..Shape::default() }
    }
}

/// Writers who write until the time is up.
struct Race<'a> {
    sim: &'a Sim,
    load: &'a Load,
    per_write: Duration,
    /// When each processor is free again.
    processors: Mutex<Vec<Duration>>,
    from: Duration,
    state: Mutex<Progress>,
}

struct Progress {
    commits: u64,
    until: Duration,
}

impl<'a> Race<'a> {
    fn new(sim: &'a Sim, load: &'a Load, processors: Processors) -> Self {
        let from = sim.now() + load.ramp;
        Self {
            sim,
            load,
            per_write: processors.per_write,
            processors: Mutex::new(vec![Duration::ZERO; processors.count.max(1)]),
            from,
            state: Mutex::new(Progress { commits: 0, until: from + load.time }),
        }
    }

    /// How long it was measured.
    fn measured(&self) -> Duration {
        self.state.lock().until.saturating_sub(self.from)
    }

    async fn write(&self, zfs: &Zfs, file: ObjectId, number: u64) -> Result<Latencies, PoolError> {
        let mut dice = Dice::new(number + 1);
        let data = dice.noise(self.load.size_bytes);
        let places = (self.load.span_bytes / self.load.size_bytes as u64).max(1);
        let mut latencies = Latencies::default();
        loop {
            let begun = self.sim.now();
            self.compute().await;
            zfs.write(file, dice.roll() % places * self.load.size_bytes as u64, &data, STABLE).await?;
            if !self.goes_on(begun, &mut latencies) {
                return Ok(latencies);
            }
        }
    }

    /// Occupies the processor that is free first.
    async fn compute(&self) {
        let now = self.sim.now();
        let done = {
            let mut processors = self.processors.lock();
            let first = processors.iter_mut().min().expect("there is one at least");
            *first = now.max(*first) + self.per_write;
            *first
        };
        self.sim.sleep(done.saturating_sub(now)).await;
    }

    /// Counts a write that began then and is done now; whether there is time for another.
    fn goes_on(&self, begun: Duration, latencies: &mut Latencies) -> bool {
        let now = self.sim.now();
        let mut state = self.state.lock();
        if now >= self.from && now < state.until {
            latencies.push(now - begun);
            state.commits += 1;
            if state.commits >= COMMITS_MAX {
                state.until = now;
            }
        }
        now < state.until
    }
}
