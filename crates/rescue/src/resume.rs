//! How far a rescue has come: a file in the target, replaced as a whole.
//!
//! A rescue goes over datasets by name and over files in the order of their paths, so that one path
//! says what is done. The file is written after what it tells of: a rescue that is killed repeats a
//! few files, and loses none.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::{Beneath, RescueError, RescueSummary};

/// Where the notes stand below the target.
pub const STATE_PATH: &str = ".sawmill-rescue/state.json";
const NEW_STATE_PATH: &str = ".sawmill-rescue/state.json.new";
/// The directory of both files.
pub(crate) const OWN_DIRECTORY: &str = ".sawmill-rescue";
/// Notes are no longer than this.
const NOTES_BYTES_MAX: u64 = 64 << 20;

/// Notes of a rescue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// The txg of the state that is rescued.
    pub txg: u64,
    /// Datasets that are done.
    pub done: Vec<String>,
    /// The dataset that was begun, and the last file of it that is done, as the bytes of its path.
    pub begun: Option<(String, Vec<u8>)>,
    /// Length of the report that belongs to this.
    pub report_bytes: u64,
    /// What was counted so far.
    pub summary: RescueSummary,
}

impl Notes {
    /// The notes in a target; none if it has none.
    pub(crate) fn load(target: &Beneath) -> Result<Option<Self>, RescueError> {
        let bytes = target.read(STATE_PATH.as_bytes(), NOTES_BYTES_MAX).map_err(|_| RescueError::Notes)?;
        let Some(bytes) = bytes else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|_| RescueError::Notes)
    }

    /// Replaces the notes in a target, after all that they tell of is stable.
    pub(crate) fn store(&self, target: &Beneath) -> io::Result<()> {
        rustix::fs::syncfs(target.root())?;
        let mut file = target.create(NEW_STATE_PATH.as_bytes(), 0o600)?;
        file.write_all(&serde_json::to_vec(self).map_err(io::Error::other)?)?;
        file.sync_all()?;
        target.rename(NEW_STATE_PATH.as_bytes(), STATE_PATH.as_bytes())
    }
}
