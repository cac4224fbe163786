//! `sawmill bench files`: what a file server does with small files, step by step, in a pool in process or in a
//! directory of any mounted file system.
//!
//! ```text
//!  create ─► write ─► fsync ─► modify ─► fsync ─► close ─► fsync of the directory
//! ```
//! The first `fsync` makes a new file with all its contents stable, the second a change in its middle, that of the
//! directory its name, which many file systems have made stable with the file by then. Threads have a directory each.

mod folder;
mod pooled;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use device::RealEnv;
use pool::PoolError;

use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::usage::Usage;
use folder::Folder;
use pooled::Pooled;

/// Where files are made.
#[derive(Clone, Debug)]
pub enum Place {
    /// A directory, in which another one is made for them, and removed at the end.
    Directory(PathBuf),
    /// A pool that is made for it, in process.
    Pool {
        /// Devices, striped.
        main: Vec<PathBuf>,
        /// Log devices.
        log: Vec<PathBuf>,
        /// Memory for the cache.
        cache: u64,
    },
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where.
    pub place: Place,
    /// How many files, by all threads together.
    pub files: usize,
    /// Bytes of each.
    pub size: usize,
    /// Threads, each with a directory of its own.
    pub threads: usize,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Files made.
    pub files: usize,
    /// Bytes of each.
    pub size_bytes: usize,
    /// Threads.
    pub threads: usize,
    /// Files a second, all steps of each.
    pub files_per_second: f64,
    /// CPU microseconds of the process for each: of a pool in process. What a mount takes is elsewhere.
    pub cpu_us_per_file: Option<f64>,
    /// What each step took, in order.
    pub steps: Vec<Step>,
}

/// What one step took.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Step {
    /// Which.
    pub name: &'static str,
    /// Microseconds, mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 99 %.
    pub p99_us: f64,
}

/// Why it did not come to an end.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A call of the directory's file system failed.
    #[error("{}", path.display())]
    Directory {
        /// What it was about.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The pool's.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Something that has directories with files in them.
trait Server: Sync {
    /// One thread's directory.
    type Directory;
    /// An open file.
    type File;
    fn directory(&self, number: usize) -> Result<Self::Directory, FilesError>;
    fn create(&self, directory: &Self::Directory, name: &str) -> Result<Self::File, FilesError>;
    fn write(&self, file: &Self::File, offset: u64, data: &[u8]) -> Result<(), FilesError>;
    fn fsync(&self, file: &Self::File) -> Result<(), FilesError>;
    fn close(&self, file: Self::File) -> Result<(), FilesError>;
    fn fsync_directory(&self, directory: &Self::Directory) -> Result<(), FilesError>;
}

const STEPS: [&str; 7] = ["create", "write", "fsync", "modify", "fsync again", "close", "fsync directory"];

/// The times of each step.
#[derive(Default)]
struct Times([Latencies; STEPS.len()]);

impl Times {
    fn append(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(all, some)| all.append(some));
    }

    fn steps(self) -> Vec<Step> {
        let step = |(name, latencies): (&'static str, Latencies)| {
            let latencies = latencies.sorted();
            let (p50_us, p99_us) = (latencies.at_us(0.5), latencies.at_us(0.99));
            Step { name, mean_us: latencies.mean_us(), p50_us, p99_us }
        };
        STEPS.into_iter().zip(self.0).map(step).collect()
    }
}

/// Does all of it.
///
/// # Errors
/// That of the first call that failed.
pub fn run(env: &Arc<RealEnv>, plan: &Plan) -> Result<Report, FilesError> {
    match &plan.place {
        Place::Directory(path) => {
            let report = measure(&Folder::new(path)?, plan)?;
            Ok(Report { cpu_us_per_file: None, ..report })
        }
        Place::Pool { main, log, cache } => {
            let pooled = Pooled::make(env, main, log, *cache)?;
            let report = measure(&pooled, plan)?;
            pooled.destroy()?;
            Ok(report)
        }
    }
}

fn measure(server: &impl Server, plan: &Plan) -> Result<Report, FilesError> {
    let begun = Usage::now();
    let each: Vec<_> = thread::scope(|scope| {
        let one = |thread| scope.spawn(move || files_of(server, plan, thread));
        let threads: Vec<_> = (0..plan.threads).map(one).collect();
        threads.into_iter().map(|one| one.join().expect("no thread panics")).collect()
    });
    let (took, cpu) = begun.since();
    let mut times = Times::default();
    for one in each {
        times.append(one?);
    }
    Ok(Report {
        files: plan.files,
        size_bytes: plan.size,
        threads: plan.threads,
        files_per_second: plan.files as f64 / took.as_secs_f64(),
        cpu_us_per_file: Some(cpu.as_secs_f64() * 1e6 / plan.files.max(1) as f64),
        steps: times.steps(),
    })
}

/// One thread's share.
fn files_of<S: Server>(server: &S, plan: &Plan, thread: usize) -> Result<Times, FilesError> {
    let directory = server.directory(thread)?;
    let data = Dice::new(thread as u64 + 1).noise(plan.size);
    let mut times = Times::default();
    for number in (thread..plan.files).step_by(plan.threads) {
        one_file(server, &directory, &format!("file-{number:07}"), &data, &mut times)?;
    }
    Ok(times)
}

fn one_file<S: Server>(
    server: &S,
    directory: &S::Directory,
    name: &str,
    data: &[u8],
    times: &mut Times,
) -> Result<(), FilesError> {
    let [create, write, fsync, modify, fsync_again, close, fsync_directory] = &mut times.0;
    let middle = data.len() / 4..data.len() / 4 + data.len() / 2;
    let file = timed(create, || server.create(directory, name))?;
    timed(write, || server.write(&file, 0, data))?;
    timed(fsync, || server.fsync(&file))?;
    timed(modify, || server.write(&file, middle.start as u64, &data[middle.clone()]))?;
    timed(fsync_again, || server.fsync(&file))?;
    timed(close, || server.close(file))?;
    timed(fsync_directory, || server.fsync_directory(directory))
}

fn timed<T>(
    latencies: &mut Latencies,
    step: impl FnOnce() -> Result<T, FilesError>,
) -> Result<T, FilesError> {
    let begun = Instant::now();
    let done = step()?;
    latencies.push(begun.elapsed());
    Ok(done)
}

impl Report {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let cpu = self.cpu_us_per_file.map(|cpu| format!(", {cpu:.0} µs CPU each")).unwrap_or_default();
        let head = format!(
            "{} files of {} B by {} threads: {:.0} files/s{cpu}",
            self.files, self.size_bytes, self.threads, self.files_per_second
        );
        let step = |step: &Step| {
            let Step { name, mean_us, p50_us, p99_us } = step;
            format!("{name:<16} {mean_us:9.1} µs (p50 {p50_us:.1}, p99 {p99_us:.1})")
        };
        let lines = std::iter::once(head).chain(self.steps.iter().map(step));
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests;
