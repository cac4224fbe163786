//! Runs `zdb` on a pool that nobody holds open, and judges what it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What `zdb` found wrong, or why it could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ZdbError {
    /// `zdb` cannot be run.
    #[error("cannot run zdb: {0}")]
    Missing(#[from] std::io::Error),
    /// `zdb` ended with an error, or one of its lines names damage.
    #[error("{command}: {verdict}\n{output}")]
    Unhappy {
        /// What was run.
        command: String,
        /// The exit status, or the first line that tells of damage.
        verdict: String,
        /// Everything it printed.
        output: String,
    },
}

/// `zdb` on the files in one directory.
#[derive(Clone, Debug)]
pub struct Zdb {
    dir: PathBuf,
    pool: String,
}

/// Words by which a line of output tells of damage.
const DAMAGE: &[&str] = &["leaked", "ERROR", "ASSERT", "assertion", "cksum error", "got error", "Checksum error", "double-free"];

impl Zdb {
    /// Asks about `pool`, whose vdevs are files in `dir`.
    #[must_use]
    pub fn new(dir: &Path, pool: &str) -> Self {
        Self { dir: dir.to_owned(), pool: pool.to_owned() }
    }

    /// Reads every block with its checksum and accounts for every allocated sector.
    ///
    /// # Errors
    /// When a block is bad, a sector leaked, or `zdb` stopped.
    pub fn check_blocks(&self) -> Result<String, ZdbError> {
        self.run(&["-bcc"], &[])
    }

    /// Shows every object.
    ///
    /// # Errors
    /// When one of them makes no sense to `zdb`.
    pub fn check_objects(&self) -> Result<String, ZdbError> {
        self.run(&["-dddd"], &[])
    }

    /// Both [`Self::check_blocks`] and [`Self::check_objects`].
    ///
    /// # Errors
    /// When either finds damage.
    pub fn check(&self) -> Result<(), ZdbError> {
        self.check_blocks()?;
        self.check_objects().map(drop)
    }

    /// Shows the intent logs, record by record.
    ///
    /// # Errors
    /// When `zdb` stopped or found damage.
    pub fn intent_logs(&self) -> Result<String, ZdbError> {
        self.run(&["-iiii"], &[])
    }

    /// Runs `zdb -e -p DIR FLAGS POOL REST`, and gives what it printed on standard output.
    ///
    /// # Errors
    /// When it cannot be run, or its status or words tell of damage.
    pub fn run(&self, flags: &[&str], rest: &[&str]) -> Result<String, ZdbError> {
        let mut command = Command::new("zdb");
        command.arg("-e").arg("-p").arg(&self.dir).args(flags).arg(&self.pool).args(rest);
        let shown = format!("{command:?}");
        judge(shown, &command.output()?)
    }
}

fn judge(command: String, output: &Output) -> Result<String, ZdbError> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let damage = stdout.lines().chain(stderr.lines()).find(|line| tells_of_damage(line));
    let verdict = match damage {
        Some(line) => line.to_owned(),
        None if !output.status.success() => output.status.to_string(),
        None => return Ok(stdout),
    };
    Err(ZdbError::Unhappy { command, verdict, output: format!("{stdout}{stderr}") })
}

fn tells_of_damage(line: &str) -> bool {
    // What zdb says before it begins, whatever it finds.
    DAMAGE.iter().any(|word| line.contains(word)) && !line.contains("verify nothing leaked")
}

#[cfg(test)]
mod tests;
