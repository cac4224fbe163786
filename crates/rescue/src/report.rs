//! The report of a rescue: one line of JSON for each lost part.

use std::fs::File;
use std::io::{self, Write};

use serde::Serialize;

use crate::{Beneath, LostRanges};

/// The path of the report below the target.
pub const REPORT_PATH: &str = ".sawmill-rescue/report.jsonl";

/// A lost or damaged part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LostPart {
    /// The name of the dataset or snapshot.
    pub dataset: String,
    /// The path below the target. Empty if the whole dataset is affected.
    pub path: String,
    /// The object in the dataset. 0 if the whole dataset is affected.
    pub object: u64,
    /// The type of the loss: `blocks`, `attributes`, `names`, `file`, `xattrs`, `target`,
    /// `dataset`, `renamed` or `system`.
    pub what: &'static str,
    /// For `blocks`: the first byte of each range, and the first byte after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(u64, u64)>,
    /// The reason.
    pub why: String,
}

impl LostPart {
    /// Adds the lost ranges of a file.
    #[must_use]
    pub fn with_ranges(mut self, lost: &LostRanges) -> Self {
        self.lost = lost.ranges.iter().map(|range| (range.start, range.end)).collect();
        self
    }
}

/// The open report file.
pub(crate) struct ReportFile {
    out: io::BufWriter<File>,
    bytes: u64,
}

impl ReportFile {
    /// Opens the report of a new rescue, or of one that continues after `bytes` of its report.
    pub(crate) fn open(target: &Beneath, bytes: u64) -> io::Result<Self> {
        let file = target.append(REPORT_PATH.as_bytes(), bytes)?;
        Ok(Self { out: io::BufWriter::new(file), bytes })
    }

    pub(crate) fn add(&mut self, part: &LostPart) -> io::Result<()> {
        let line = serde_json::to_string(part).map_err(io::Error::other)?;
        self.bytes += line.len() as u64 + 1;
        writeln!(self.out, "{line}")
    }

    /// Writes all pending lines. Returns the length of the report.
    pub(crate) fn flush(&mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }
}
