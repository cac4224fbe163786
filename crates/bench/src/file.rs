//! `sawmill bench file`: synchronous writes to a file of any mounted file system, and what of
//! them was acknowledged; `sawmill bench check`: whether all of that is there.
//!
//! Every place of the file belongs to one thread, which writes ever higher versions to it with
//! `O_DSYNC`. What is there later must be the last version acknowledged, or one written after it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::latencies::Latencies;
use crate::pace::Pace;

/// What to write.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The file.
    pub path: PathBuf,
    /// Writers.
    pub threads: usize,
    /// Bytes of each write.
    pub size: usize,
    /// Bytes of the file.
    pub span: u64,
    /// How long they write.
    pub time: Duration,
    /// Writes a second that all of them ask for together, in even steps; 0 for as many as they can. What a write takes
    /// counts from when it was due then, so that those kept waiting behind a slow one tell of it, too.
    pub rate: u64,
}

/// What was measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    threads: usize,
    size_bytes: usize,
    acknowledged: u64,
    writes_per_second: f64,
    latency_mean_us: f64,
    latency_p50_us: f64,
    latency_p99_us: f64,
    latency_p999_us: f64,
    latency_max_us: f64,
    /// Why it ended before its time.
    ended_by: Option<String>,
}

/// What was acknowledged, by place: the version.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Acks {
    size: usize,
    versions: BTreeMap<u64, u64>,
}

/// What came of writing.
pub struct Run {
    /// What was measured.
    pub report: Report,
    /// What was acknowledged.
    pub acks: Acks,
}

/// What a check found.
pub struct Verdict {
    /// Places that were looked at.
    pub checked: u64,
    /// Those that have less than was acknowledged.
    pub lost: u64,
}

/// Marks a block, then place and version.
pub const HEADER_BYTES: usize = 24;
const MAGIC: u64 = 0x0073_6177_6d69_6c6c;

/// Errors with the file they are of.
#[derive(Debug, thiserror::Error)]
#[error("{}", path.display())]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> FileError + '_ {
    move |source| FileError { path: path.to_owned(), source }
}

struct Written {
    versions: BTreeMap<u64, u64>,
    latencies: Latencies,
    failure: Option<io::Error>,
}

/// Writes until the time is up, or a write fails: then the server is gone, and that ends the run
/// without being an error of it.
pub fn run(plan: &Plan) -> Result<Run, FileError> {
    let file = open(&plan.path, plan.span).map_err(at(&plan.path))?;
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let written: Vec<Written> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let (file, stop) = (&file, &stop);
                scope.spawn(move || write_until(file, plan, stop, thread as u64))
            })
            .collect();
        while begun.elapsed() < plan.time && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut acks = Acks { size: plan.size, versions: BTreeMap::new() };
    let mut latencies = Latencies::default();
    let mut ended_by = None;
    for one in written {
        acks.versions.extend(one.versions);
        latencies.append(one.latencies);
        ended_by = ended_by.or(one.failure.map(|e| e.to_string()));
    }
    let latencies = latencies.sorted();
    let report = Report {
        threads: plan.threads,
        size_bytes: plan.size,
        acknowledged: latencies.count(),
        writes_per_second: latencies.count() as f64 / seconds,
        latency_mean_us: latencies.mean_us(),
        latency_p50_us: latencies.at_us(0.5),
        latency_p99_us: latencies.at_us(0.99),
        latency_p999_us: latencies.at_us(0.999),
        latency_max_us: latencies.at_us(1.0),
        ended_by,
    };
    Ok(Run { report, acks })
}

fn open(path: &Path, span: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(rustix::fs::OFlags::DSYNC.bits() as i32);
    let file = options.open(path)?;
    if file.metadata()?.len() < span {
        file.set_len(span)?;
    }
    Ok(file)
}

fn write_until(file: &File, plan: &Plan, stop: &AtomicBool, thread: u64) -> Written {
    let mut dice = Dice::new(thread);
    let mut block = dice.noise(plan.size);
    let places = (plan.span / plan.size as u64 / plan.threads as u64).max(1);
    let mut out = Written { versions: BTreeMap::new(), latencies: Latencies::default(), failure: None };
    let mut version = now_nanos();
    let mut pace = Pace::new(plan.rate as f64, plan.threads, thread as usize);
    while !stop.load(Ordering::Relaxed) {
        let place = dice.roll() % places * plan.threads as u64 + thread;
        version += 1;
        for (field, word) in [MAGIC, place, version].into_iter().enumerate() {
            block[field * 8..field * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        let begun = pace.wait();
        match file.write_all_at(&block, place * plan.size as u64) {
            Ok(()) => {
                out.latencies.push(begun.elapsed());
                out.versions.insert(place, version);
            }
            Err(error) => {
                out.failure = Some(error);
                stop.store(true, Ordering::Relaxed);
            }
        }
    }
    out
}

/// Versions of a later run are higher than those of every earlier one.
fn now_nanos() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

impl Acks {
    /// Writes it down, for [`Acks::load`] after a crash.
    ///
    /// # Errors
    /// The file's.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        let text = serde_json::to_vec(self).expect("acknowledgements are plain data");
        std::fs::write(path, text).map_err(at(path))
    }

    /// Reads what was written down.
    ///
    /// # Errors
    /// The file's.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read(path).map_err(at(path))?;
        serde_json::from_slice(&text).map_err(|e| FileError { path: path.to_owned(), source: e.into() })
    }
}

/// Reads every acknowledged place back.
pub fn check(path: &Path, acks: &Acks) -> Result<Verdict, FileError> {
    let file = File::open(path).map_err(at(path))?;
    let mut header = [0; HEADER_BYTES];
    let mut verdict = Verdict { checked: 0, lost: 0 };
    for (&place, &version) in &acks.versions {
        file.read_exact_at(&mut header, place * acks.size as u64).map_err(at(path))?;
        let word = |field: usize| {
            let bytes = header[field * 8..field * 8 + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        verdict.checked += 1;
        if word(0) != MAGIC || word(1) != place || word(2) < version {
            verdict.lost += 1;
        }
    }
    Ok(verdict)
}

impl Report {
    /// For people.
    pub fn text(&self) -> String {
        let ended = self.ended_by.as_ref().map(|why| format!(" (ended by: {why})")).unwrap_or_default();
        format!(
            "{} threads, {} B: {:.0} stable writes/s, {} acknowledged, latency mean {:.0} p50 {:.0} p99 {:.0} p99.9 {:.0} max {:.0} µs{ended}",
            self.threads,
            self.size_bytes,
            self.writes_per_second,
            self.acknowledged,
            self.latency_mean_us,
            self.latency_p50_us,
            self.latency_p99_us,
            self.latency_p999_us,
            self.latency_max_us,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_went_back_in_time_counts_as_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let plan = Plan {
            path: path.clone(),
            threads: 2,
            size: 512,
            span: 1 << 16,
            time: Duration::from_millis(50),
            rate: 0,
        };
        let run = run(&plan).unwrap();
        assert!(run.report.acknowledged > 0);
        let verdict = check(&path, &run.acks).unwrap();
        assert_eq!((verdict.checked, verdict.lost), (run.acks.versions.len() as u64, 0));
        let mut future = run.acks.clone();
        let (&place, &version) = run.acks.versions.iter().next().unwrap();
        future.versions.insert(place, version + 1);
        assert_eq!(check(&path, &future).unwrap().lost, 1);
    }

    #[test]
    fn writers_ask_for_no_more_than_their_rate() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let time = Duration::from_millis(50);
        let begun = Instant::now();
        let run = run(&Plan { path, threads: 2, size: 512, span: 1 << 16, time, rate: 200 }).unwrap();
        // Each thread makes one at least.
        let most = 2.0 + 200.0 * begun.elapsed().as_secs_f64();
        let written = run.report.acknowledged;
        assert!(written >= 2 && written as f64 <= most, "{written} written, {most} asked for");
    }
}
