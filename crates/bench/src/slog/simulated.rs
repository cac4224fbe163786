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

use super::{Cell, CellDone, Load, Logs, Setup};
use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::world::{self, POOL, STABLE, Shape};
use crate::{Refusal, failed};

/// Sizes of the simulated disks: what is not written takes no memory.
const DISK_BYTES: u64 = 500_000_000_000;
const FAST_BYTES: u64 = 8 << 30;
const CACHE_BYTES: u64 = 1 << 30;
/// So many writes are enough to get going, where they take less time than is given for that.
const RAMP_COMMITS_MAX: u64 = 4_000;

/// Who computes.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    /// How many.
    pub count: usize,
    /// How long one of them is occupied by a write where several write at once.
    pub per_write: Duration,
    /// The same of one who writes alone: nobody else is to be woken, and txgs are synced beside it.
    pub lone_write: Duration,
}

impl Processors {
    /// The machine of 2007, and about what the engine takes for a write of 32 writers on files in memory.
    pub const CLASSIC: Self =
        Self { count: 4, per_write: Duration::from_micros(15), lone_write: Duration::from_micros(15) };

    /// How long one of them is occupied by a write of so many writers.
    fn of_writers(self, writers: usize) -> Duration {
        if writers > 1 { self.per_write } else { self.lone_write }
    }
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
    pub(super) fn told(&self, threads: usize) -> String {
        let (count, per_write) = (self.processors.count, self.processors.of_writers(threads));
        format!(
            "simulated: disks {}, fast log {}; {count} processors, {:.1} µs of one for each write; seed {}",
            self.disk_name,
            self.fast_name,
            per_write.as_secs_f64() * 1e6,
            self.seed
        )
    }

    /// Each cell in a world of its own, as many at a time as this machine has processors.
    pub(super) fn measure(
        &self,
        load: &Load,
        setups: &[Setup],
        done: &CellDone<'_>,
    ) -> Result<Vec<Cell>, Refusal> {
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
                        done();
                    }
                });
            }
        });
        let cells = cells.into_iter().map(|cell| cell.into_inner().expect("each was measured"));
        cells.collect::<Result<_, _>>().map_err(failed)
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

/// Writers who write until the time is up, or until they have written as much as the file holds.
struct Race<'a> {
    sim: &'a Sim,
    load: &'a Load,
    per_write: Duration,
    /// When each processor is free again.
    processors: Mutex<Vec<Duration>>,
    progress: Mutex<Progress>,
}

struct Progress {
    /// When measuring begins, and when it ends, unless there are so many writes before.
    from: Duration,
    until: Duration,
    /// Writes before it began, and since.
    ramped: u64,
    measured: u64,
}

impl<'a> Race<'a> {
    fn new(sim: &'a Sim, load: &'a Load, processors: Processors) -> Self {
        let from = sim.now() + load.ramp;
        Self {
            sim,
            load,
            per_write: processors.of_writers(load.threads),
            processors: Mutex::new(vec![Duration::ZERO; processors.count.max(1)]),
            progress: Mutex::new(Progress { from, until: from + load.time, ramped: 0, measured: 0 }),
        }
    }

    /// How long it was measured.
    fn measured(&self) -> Duration {
        let progress = self.progress.lock();
        progress.until.saturating_sub(progress.from)
    }

    /// How many writes the file has room for.
    fn places(&self) -> u64 {
        (self.load.span_bytes / self.load.size_bytes as u64).max(1)
    }

    async fn write(&self, zfs: &Zfs, file: ObjectId, number: u64) -> Result<Latencies, PoolError> {
        let mut dice = Dice::new(number + 1);
        let data = dice.noise(self.load.size_bytes);
        let places = self.places();
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
        let mut progress = self.progress.lock();
        if now < progress.from {
            progress.ramped += 1;
            if progress.ramped >= RAMP_COMMITS_MAX {
                (progress.from, progress.until) = (now, now + self.load.time);
            }
        } else if now < progress.until {
            latencies.push(now - begun);
            progress.measured += 1;
            if progress.measured >= self.places() {
                progress.until = now;
            }
        }
        now < progress.until
    }
}
