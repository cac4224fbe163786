//! Reads files of a pool with GRUB's own ZFS driver, through `grub-fstest` (Debian: `grub-common`).
//!
//! It shares no code with OpenZFS, knows few features, and refuses a pool that needs another one
//! to be read: so it also holds a new pool to what a boot loader can do with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::needs::Need;

/// Why GRUB could not read something.
#[derive(Debug, thiserror::Error)]
pub enum GrubError {
    /// The program cannot be run.
    #[error("cannot run grub-fstest: {0}")]
    Missing(#[from] std::io::Error),
    /// It ended with an error.
    #[error("{command}: {said}")]
    Refused {
        /// What was run.
        command: String,
        /// What it said.
        said: String,
    },
}

/// GRUB with one device.
#[derive(Clone, Debug)]
pub struct Grub {
    device: PathBuf,
}

impl Grub {
    /// Reads the pool whose only vdev is the file `device`.
    #[must_use]
    pub fn new(device: &Path) -> Self {
        Self { device: device.to_owned() }
    }

    /// Whether the program is installed.
    ///
    /// # Panics
    /// When it is not, and nobody said that it may be missing.
    #[must_use]
    pub fn is_here() -> bool {
        let is_here = Command::new("grub-fstest").arg("--version").output().is_ok();
        if !is_here {
            Need::Grub.is_missing("grub-fstest is not here; install grub-common");
        }
        is_here
    }

    /// Names in a directory, in no order. Paths are GRUB's: `/DATASET@/DIRECTORY/FILE`, the
    /// dataset without the pool's name.
    ///
    /// # Errors
    /// When GRUB cannot read it.
    pub fn list(&self, path: &str) -> Result<Vec<String>, GrubError> {
        let said = self.run(&["ls", &format!("(loop0){path}")])?;
        let text = String::from_utf8_lossy(&said);
        Ok(text.split_whitespace().map(|name| name.trim_end_matches('/').to_owned()).collect())
    }

    /// The contents of a file.
    ///
    /// # Errors
    /// When GRUB cannot read it.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, GrubError> {
        self.run(&["cat", &format!("(loop0){path}")])
    }

    fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, GrubError> {
        let mut command = Command::new("grub-fstest");
        command.arg(&self.device).args(arguments);
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // It may end well and yet have complained.
        if output.status.success() && said.is_empty() {
            return Ok(output.stdout);
        }
        Err(GrubError::Refused { command: format!("{command:?}"), said })
    }
}
