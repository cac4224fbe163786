//! What a rescue could not bring back: one line of JSON for each thing.

use std::fs::File;
use std::io::{self, Write};

use serde::Serialize;

use crate::{Beneath, LostRanges};

/// Where the report stands below the target.
pub const REPORT_PATH: &str = ".sawmill-rescue/report.jsonl";

/// One thing that is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LostPart {
    /// The dataset or snapshot.
    pub dataset: String,
    /// The place below the target; empty for a dataset as a whole.
    pub path: String,
    /// The object in the dataset; 0 for a dataset as a whole.
    pub object: u64,
    /// `blocks`, `attributes`, `names`, `file`, `xattrs`, `target`, `dataset`, `renamed` or
    /// `system`.
    pub what: &'static str,
    /// Of `blocks`: first byte of each range, and the first byte behind it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<(u64, u64)>,
    /// Why.
    pub why: String,
}

impl LostPart {
    /// With the ranges of a file.
    #[must_use]
    pub fn with_ranges(mut self, lost: &LostRanges) -> Self {
        self.lost = lost.ranges.iter().map(|range| (range.start, range.end)).collect();
        self
    }
}

/// The report file.
pub(crate) struct ReportFile {
    out: io::BufWriter<File>,
    bytes: u64,
}

impl ReportFile {
    /// The report of a rescue that begins, or goes on where it has so many bytes.
    pub(crate) fn open(target: &Beneath, bytes: u64) -> io::Result<Self> {
        let file = target.append(REPORT_PATH.as_bytes(), bytes)?;
        Ok(Self { out: io::BufWriter::new(file), bytes })
    }

    pub(crate) fn add(&mut self, part: &LostPart) -> io::Result<()> {
        let line = serde_json::to_string(part).map_err(io::Error::other)?;
        self.bytes += line.len() as u64 + 1;
        writeln!(self.out, "{line}")
    }

    /// Writes out all lines; returns how long the report is.
    pub(crate) fn flush(&mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }
}
