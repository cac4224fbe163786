//! The machine beside its devices, as the engine sees it: small files, what devices there are, memory.
//!
//! As with [`crate::Env`], nothing above `device` opens a file on its own: in production
//! `device::RealMachine` answers, in simulation a world has a machine for each of its hosts.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Small files, directories, devices and memory, from outside.
pub trait Machine: Send + Sync + 'static {
    /// All of a file.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// A whole new file of these bytes takes the old one's place: after a crash there is either. It is
    /// stable when this returns. A file for its owner alone has its directory made where there is none.
    ///
    /// # Errors
    /// The system's; the old file stays.
    fn replace(&self, path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()>;
    /// Gives a file another name.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a file away.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// The system's.
    fn names_in(&self, directory: &Path) -> io::Result<Vec<OsString>>;
    /// Whether there is a directory of that path.
    fn is_directory(&self, path: &Path) -> bool;
    /// What two paths of one device have in common: its number, or that of the file.
    fn identity(&self, path: &Path) -> Option<(u64, u64)>;
    /// The process that holds a device, and its name, where that can be told.
    fn held_by(&self, path: &Path) -> Option<(u32, String)>;
    /// Memory as it is now, where that is known.
    fn memory(&self) -> Option<MemoryNow>;
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone.
    Owner,
    /// Whoever the process's settings leave.
    Anybody,
}

/// Memory as it is at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNow {
    /// Bytes that the process can have.
    pub limit_bytes: u64,
    /// Of those, what is in use and cannot be reclaimed.
    pub pinned_bytes: u64,
    /// Microseconds for which some task has waited for memory so far.
    pub stalled_micros: u64,
}
