//! How a process of a pool is started.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::{Child, Command};

/// A program that becomes the process of a pool. It finds its number and its memory in the environment. Its standard
/// input is the socket of its [`broker::Broker`]; the program ends when the other end is closed.
#[derive(Clone, Debug)]
pub struct PoolProgram {
    /// The file.
    pub path: PathBuf,
    /// Its name among the processes.
    pub name: OsString,
    /// Its words.
    pub words: Vec<OsString>,
    /// The variable for the number of the process.
    pub number: &'static str,
    /// The variable for the memory in bytes.
    pub memory: &'static str,
}

impl PoolProgram {
    /// Starts the program with this socket.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(&self, number: u64, memory_bytes: u64, socket: OwnedFd) -> std::io::Result<Child> {
        Command::new(&self.path)
            .arg0(&self.name)
            .args(&self.words)
            .env(self.number, number.to_string())
            .env(self.memory, memory_bytes.to_string())
            .current_dir("/")
            .stdin(Stdio::from(socket))
            .spawn()
    }
}
