//! Copies of a pool's images, and rescues from them into directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use device::{Options, RealEnv};
use env::Env;
use oracle::golden;
use rescue::{
    LayoutHint, PoolRoot, REPORT_PATH, Rescue, RescueError, RescueSearch, RescueSelection, RescueSummary,
    RescueWatch, ScanProgress,
};
use tempfile::TempDir;

/// Copies of images that may be damaged, and the target of the rescue.
pub struct World {
    pub name: String,
    pub env: Arc<RealEnv>,
    pub search: RescueSearch,
    dir: TempDir,
}

/// A progress watch that does nothing.
pub struct NoProgress;

impl ScanProgress for NoProgress {
    fn expect(&self, _: u64) {}

    fn add(&self, _: u64) {}
}

impl RescueWatch for NoProgress {
    fn expect(&self, _: u64) {}

    fn add(&self, _: u64) {}

    fn begin(&self, _: &str) {}
}

/// One line of a report.
#[derive(Clone, Debug)]
pub struct ReportLine {
    pub dataset: String,
    pub path: String,
    pub object: u64,
    pub what: String,
    pub lost: Vec<(u64, u64)>,
}

impl World {
    /// Copies a golden pool.
    pub fn copy(name: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let images = golden::copy(name, dir.path());
        let entries = std::fs::read_dir(images).expect("just extracted");
        let mut devices: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
        devices.retain(|path| path.extension().is_some_and(|extension| extension == "img"));
        devices.sort();
        let search = RescueSearch { devices, ..RescueSearch::default() };
        Self { name: name.to_owned(), env: RealEnv::new(Options::default()), search, dir }
    }

    pub fn target(&self) -> PathBuf {
        self.dir.path().join("target")
    }

    pub fn hint(mut self, hint: LayoutHint) -> Self {
        self.search.hint = hint;
        self
    }

    pub fn open(&self) -> Result<PoolRoot, RescueError> {
        let shared: Arc<dyn Env> = self.env.clone();
        self.env.block_on(self.search.open(&shared, &NoProgress))
    }

    /// Rescues everything into the target.
    pub fn rescue(&self) -> RescueSummary {
        let root = self.open().unwrap_or_else(|error| panic!("{}: {error:?}", self.name));
        self.rescue_from(&root)
    }

    pub fn rescue_from(&self, root: &PoolRoot) -> RescueSummary {
        let watch = NoProgress;
        let mut rescue = Rescue::begin(root, &self.target(), &watch).expect("a new target");
        let done = self.env.block_on(rescue.run(&RescueSelection::default()));
        done.unwrap_or_else(|error| panic!("{}: {error:?}", self.name))
    }

    pub fn report(&self) -> Vec<ReportLine> {
        report_in(&self.target())
    }

    /// Returns the bytes of every device.
    pub fn devices(&self) -> Vec<Vec<u8>> {
        self.search.devices.iter().map(|path| std::fs::read(path).expect("an image")).collect()
    }
}

pub fn report_in(target: &Path) -> Vec<ReportLine> {
    let text = std::fs::read_to_string(target.join(REPORT_PATH)).expect("a report");
    text.lines().map(|line| parse(&serde_json::from_str(line).expect("a line of JSON"))).collect()
}

fn parse(line: &serde_json::Value) -> ReportLine {
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let ranges = line["lost"].as_array().into_iter().flatten();
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    ReportLine {
        dataset: text("dataset"),
        path: text("path"),
        object: number(&line["object"]),
        what: text("what"),
        lost: ranges.map(|range| (number(&range[0]), number(&range[1]))).collect(),
    }
}
