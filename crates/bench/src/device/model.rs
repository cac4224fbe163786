//! A device's model as a file: what `sawmill bench device --json` prints, and what simulations read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sim::{DiskModel, Latency};

use crate::slog::Processors;

/// How long a device takes. Times are quantiles 0, 0.5, 0.9, 0.99 and 1, in microseconds, without the time that the
/// bytes take to pass.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Reads.
    pub read_us: [f64; 5],
    /// Writes that a flush is to make stable.
    pub write_us: [f64; 5],
    /// Writes that are stable by themselves.
    pub stable_write_us: [f64; 5],
    /// Flushes.
    pub flush_us: [f64; 5],
    /// Bytes of all requests together that pass in a second.
    pub bytes_per_second: u64,
    /// Requests served at once.
    pub parallel: usize,
    /// It forgets at a power cut what was not flushed.
    pub has_volatile_cache: bool,
    /// What a write of 32 writers takes of a processor, on the machine that measured.
    pub processor_us: f64,
    /// What a lone writer waits for beyond the device.
    pub lone_us: f64,
    /// Processors of that machine.
    pub processors: usize,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read.
    #[error("'{}'", path.display())]
    Unread {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no model.
    #[error("'{}' is no model of a device", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// Its figures make no sense.
    #[error("'{}': times have to rise from 0, and rates be above 0", path.display())]
    Nonsense {
        /// Which.
        path: PathBuf,
    },
}

/// A model inside what was measured.
#[derive(serde::Deserialize)]
struct Measured {
    model: ModelFile,
}

impl ModelFile {
    /// Reads what `sawmill bench device --json` printed.
    ///
    /// # Errors
    /// When the file cannot be read, or is no such thing.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        let text =
            std::fs::read(path).map_err(|source| ModelError::Unread { path: path.to_owned(), source })?;
        let measured: Measured = serde_json::from_slice(&text)
            .map_err(|source| ModelError::Malformed { path: path.to_owned(), source })?;
        match measured.model.makes_sense() {
            true => Ok(measured.model),
            false => Err(ModelError::Nonsense { path: path.to_owned() }),
        }
    }

    fn makes_sense(&self) -> bool {
        let rises = |times: &[f64; 5]| times[0] >= 0.0 && times.is_sorted() && times[4] < 1e9;
        let times = [&self.read_us, &self.write_us, &self.stable_write_us, &self.flush_us];
        times.into_iter().all(rises)
            && self.bytes_per_second > 0
            && self.parallel > 0
            && self.processors > 0
            && [self.processor_us, self.lone_us].iter().all(|us| (0.0..1e6).contains(us))
    }

    /// As simulations have it.
    #[must_use]
    pub fn disk(&self) -> DiskModel {
        let latency =
            |times: [f64; 5]| Latency { quantiles: times.map(|us| Duration::from_secs_f64(us / 1e6)) };
        DiskModel {
            read: latency(self.read_us),
            write: latency(self.write_us),
            stable_write: latency(self.stable_write_us),
            flush: latency(self.flush_us),
            bytes_per_second: self.bytes_per_second,
            parallel: self.parallel,
            has_volatile_cache: self.has_volatile_cache,
            platter: None,
        }
    }

    /// Who computed where it was measured.
    #[must_use]
    pub fn machine(&self) -> Processors {
        Processors {
            count: self.processors,
            per_write: Duration::from_secs_f64(self.processor_us / 1e6),
            lone_write: Duration::from_secs_f64(self.lone_us / 1e6),
        }
    }
}
