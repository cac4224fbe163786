//! Keeps a second `zed` from using the same file, and starts a `zed` in the background.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A file with the number of this process. The process holds a lock on the file until the process ends.
pub struct PidFile(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl PidFile {
    /// Writes the number of this process.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where another process holds the file; those of the file.
    pub fn take(path: &Path) -> io::Result<Self> {
        let mut file = File::options().create(true).append(true).open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Self(file))
    }
}

/// Starts this program again with the same words, in the foreground of a session of its own. Reports go to `log`.
pub fn detached(words: &[String], log: &Path) -> io::Result<u8> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new("setsid");
    command.arg("--fork").arg(std::env::current_exe()?).args(["zed", "-F"]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let status = command.status()?;
    Ok(u8::from(!status.success()))
}
