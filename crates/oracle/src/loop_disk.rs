//! Block devices over files.

use std::path::Path;
use std::process::Command;

use crate::needs::Need;

/// A loop device over a file, detached when dropped.
pub struct LoopDisk(String);

impl LoopDisk {
    /// Sets a loop device up. `None` where the system has none to give and that may be so.
    #[must_use]
    pub fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        let name = output.ok().filter(|output| output.status.success());
        let Some(name) = name.and_then(|output| String::from_utf8(output.stdout).ok()) else {
            Need::Loop.is_missing("losetup sets up no loop device");
            return None;
        };
        Some(Self(name.trim().to_owned()))
    }

    /// The path of the device.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
