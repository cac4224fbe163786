//! `sawmill bench names`: what small operations cost, in one directory of any mounted file system: files
//! made, looked at twice, and removed, one after another by one thread.
//!
//! The second look is what the kernel remembers of the first: it shows whether a file system's answers
//! are believed. Files are empty, so that nothing but names and attributes counts.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::latencies::Latencies;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The directory in which another one is made for the files, and removed at the end.
    pub path: PathBuf,
    /// How many files.
    pub files: usize,
}

/// What was measured, in microseconds an operation.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    files: usize,
    create: Cost,
    stat: Cost,
    stat_again: Cost,
    unlink: Cost,
}

/// What one kind of operation took, in microseconds.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Cost {
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Cost {
    fn of(latencies: Latencies) -> Self {
        let latencies = latencies.sorted();
        Self { mean_us: latencies.mean_us(), p50_us: latencies.at_us(0.5), p99_us: latencies.at_us(0.99) }
    }

    fn text(&self, name: &str) -> String {
        format!("{name:<12} {:8.2} µs (p50 {:.2}, p99 {:.2})", self.mean_us, self.p50_us, self.p99_us)
    }
}

impl Report {
    /// For people.
    pub fn text(&self) -> String {
        let rows = [
            ("create", &self.create),
            ("stat", &self.stat),
            ("stat again", &self.stat_again),
            ("unlink", &self.unlink),
        ];
        rows.map(|(name, cost)| cost.text(name)).join("\n")
    }
}

/// A directory of names, removed when dropped should a step have failed.
struct Names {
    directory: PathBuf,
    names: Vec<PathBuf>,
}

impl Names {
    fn new(plan: &Plan) -> io::Result<Self> {
        let directory = plan.path.join("names");
        std::fs::create_dir(&directory)?;
        let names = (0..plan.files).map(|n| directory.join(format!("file-{n:07}"))).collect();
        Ok(Self { directory, names })
    }

    fn each(&self, operation: impl Fn(&Path) -> io::Result<()>) -> io::Result<Cost> {
        let mut latencies = Latencies::default();
        for name in &self.names {
            latencies.push(timed(|| operation(name))?);
        }
        Ok(Cost::of(latencies))
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let _gone_already_or_told = std::fs::remove_dir_all(&self.directory);
    }
}

fn timed(operation: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let begun = Instant::now();
    operation()?;
    Ok(begun.elapsed())
}

fn create(name: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(name).map(drop)
}

fn stat(name: &Path) -> io::Result<()> {
    std::fs::symlink_metadata(name).map(drop)
}

/// Does all of it.
///
/// # Errors
/// That of the first operation that failed.
pub fn run(plan: &Plan) -> io::Result<Report> {
    let names = Names::new(plan)?;
    Ok(Report {
        files: plan.files,
        create: names.each(create)?,
        stat: names.each(stat)?,
        stat_again: names.each(stat)?,
        unlink: names.each(|name| std::fs::remove_file(name))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_looked_at_and_gone_in_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let plan = Plan { path: dir.path().to_owned(), files: 20 };
        let report = run(&plan).expect("nothing fails here");
        assert!(report.create.mean_us > 0.0 && report.stat_again.p50_us > 0.0, "{report:?}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
        std::fs::create_dir(dir.path().join("names")).expect("a directory");
        assert_eq!(run(&plan).expect_err("it is in the way").kind(), io::ErrorKind::AlreadyExists);
    }
}
