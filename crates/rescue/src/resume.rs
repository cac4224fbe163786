//! The progress of a rescue: a state file in the target that is always replaced as a whole.
//!
//! A rescue copies datasets by name and files in the order of their paths, so one path describes
//! the progress. The state file is written after the files that it covers. So a rescue that is
//! killed repeats a few files and loses none.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::{Beneath, RescueError, RescueSummary};

/// The path of the state file below the target.
pub const STATE_PATH: &str = ".sawmill-rescue/state.json";
const NEW_STATE_PATH: &str = ".sawmill-rescue/state.json.new";
/// The directory of the report and the state file.
pub(crate) const OWN_DIRECTORY: &str = ".sawmill-rescue";
/// The largest size of a state file.
const NOTES_BYTES_MAX: u64 = 64 << 20;

/// The contents of the state file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// The txg of the rescued state.
    pub txg: u64,
    /// The datasets that are complete.
    pub done: Vec<String>,
    /// The dataset in progress, and the path of its last complete file as bytes.
    pub begun: Option<(String, Vec<u8>)>,
    /// The length of the report at this point.
    pub report_bytes: u64,
    /// The results so far.
    pub summary: RescueSummary,
}

impl Notes {
    /// Reads the state file of a target. `None` if the target has none.
    pub(crate) fn load(target: &Beneath) -> Result<Option<Self>, RescueError> {
        let bytes = target.read(STATE_PATH.as_bytes(), NOTES_BYTES_MAX).map_err(|_| RescueError::Notes)?;
        let Some(bytes) = bytes else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|_| RescueError::Notes)
    }

    /// Replaces the state file of a target, after everything that it covers is stable.
    pub(crate) fn store(&self, target: &Beneath) -> io::Result<()> {
        rustix::fs::syncfs(target.root())?;
        let mut file = target.create(NEW_STATE_PATH.as_bytes(), 0o600)?;
        file.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
        file.sync_all()?;
        target.rename(NEW_STATE_PATH.as_bytes(), STATE_PATH.as_bytes())
    }
}
