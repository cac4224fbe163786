//! How long a device lives that may be written so often.

use control::LogLeafInfo;
use serde::Serialize;

const SECONDS_PER_YEAR: f64 = 365.25 * 86_400.0;
/// Makers count terabytes of so many bytes.
pub const TERABYTE: f64 = 1e12;

/// What the maker says that a device stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// So many terabytes written by the host.
    TerabytesWritten(f64),
    /// Each of its cells may be written so often; what the device writes beside what it is told is not known here.
    ProgramEraseCycles(f64),
}

/// How long a device lives at the rate that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Life {
    /// What is written to it a second.
    pub bytes_per_second: f64,
    /// What it may be written in all, in bytes.
    pub rated_bytes: f64,
    /// How long that takes; none when nothing is written.
    pub years: Option<f64>,
    /// The whole device is written so often a day.
    pub writes_of_device_per_day: f64,
}

impl Life {
    /// Of a device that is written so much a second; none where its size is not known.
    #[must_use]
    pub fn of_leaf(rating: Rating, leaf: &LogLeafInfo, bytes_per_second: f64) -> Option<Self> {
        Self::of(rating, rated_size(leaf), bytes_per_second)
    }

    pub(crate) fn of(rating: Rating, device_bytes: u64, bytes_per_second: f64) -> Option<Self> {
        let rated_bytes = match rating {
            Rating::TerabytesWritten(terabytes) => terabytes * TERABYTE,
            Rating::ProgramEraseCycles(cycles) => cycles * device_bytes as f64,
        };
        (device_bytes > 0).then(|| Self {
            bytes_per_second,
            rated_bytes,
            years: (bytes_per_second > 0.0).then(|| rated_bytes / bytes_per_second / SECONDS_PER_YEAR),
            writes_of_device_per_day: bytes_per_second * 86_400.0 / device_bytes as f64,
        })
    }
}

/// Cells of the whole disk wear evenly, whatever part of it is used.
fn rated_size(leaf: &LogLeafInfo) -> u64 {
    match leaf.storage.disks.as_slice() {
        [disk] => disk.size_bytes.unwrap_or(leaf.size_bytes).max(leaf.size_bytes),
        _ => leaf.size_bytes,
    }
}
