//! Devices and small files.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use device::{DeviceHold, DirectFile, FileOpener, OpenedFile, RealMachine};
use env::{DeviceError, Machine, MemoryNow, OpenMode, Readers};

use super::{Broker, no_sense};
use crate::errand::{Bytes, Errand, OpenedFacts};
use crate::fault::{DeviceFault, RemoteError};

impl FileOpener for Broker {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<OpenedFile, DeviceError> {
        let errand = Errand::Open { path: path.into(), mode: mode.into() };
        let failed = |error: io::Error| {
            tracing::error!(path = %path.display(), %error, "the daemon opens no device");
            DeviceError::Gone
        };
        let (answer, descriptors) = self.call(&errand, &[]).map_err(failed)?;
        let facts: Result<OpenedFacts, DeviceFault> = answer;
        let facts = facts.map_err(|fault| fault.of(path))?;
        let mut descriptors = descriptors.into_iter();
        let buffered = descriptors.next().ok_or_else(|| failed(no_sense()))?;
        let direct = facts.direct.zip(descriptors.next());
        let direct = direct.map(|((offset_align, memory_align), file)| DirectFile {
            file,
            offset_align,
            memory_align,
        });
        let hold = facts.hold.map(|hold| Box::new(RemoteHold { broker: self.clone(), hold }) as DeviceHold);
        Ok(facts.with(mode, buffered, direct, hold))
    }
}

/// A device that the daemon holds for this process.
struct RemoteHold {
    broker: Broker,
    hold: u64,
}

impl Drop for RemoteHold {
    fn drop(&mut self) {
        let done: io::Result<()> = self.broker.ask(&Errand::LetGo { hold: self.hold });
        if let Err(error) = done {
            tracing::debug!(%error, "the daemon has ended");
        }
    }
}

/// A machine whose small files the daemon reads and changes. This process finds out about memory itself.
pub struct BrokeredMachine {
    broker: Broker,
    own: RealMachine,
}

impl Broker {
    /// Returns the machine of a process without rights.
    #[must_use]
    pub fn machine(&self) -> BrokeredMachine {
        BrokeredMachine { broker: self.clone(), own: RealMachine::default() }
    }
}

/// True if the kernel makes the file. This process reads such a file itself, as everybody may: the daemon could read
/// more there, such as `/sys/kernel/debug`.
fn is_of_kernel(path: &Path) -> bool {
    ["/sys", "/proc"].iter().any(|directory| path.starts_with(directory))
}

impl BrokeredMachine {
    fn done<T: serde::de::DeserializeOwned>(&self, errand: &Errand) -> io::Result<T> {
        let answer: Result<T, RemoteError> = self.broker.ask(errand)?;
        Ok(answer?)
    }
}

impl Machine for BrokeredMachine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if is_of_kernel(path) {
            return self.own.read(path);
        }
        self.done(&Errand::Read { path: path.into() })
    }

    fn replace(&self, path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
        let is_for_anybody = readers == Readers::Anybody;
        self.done(&Errand::Replace { path: path.into(), bytes: bytes.to_owned(), is_for_anybody })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.done(&Errand::Rename { from: from.into(), to: to.into() })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.done(&Errand::Remove { path: path.into() })
    }

    fn names_in(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        if is_of_kernel(directory) {
            return self.own.names_in(directory);
        }
        let names: Vec<Bytes> = self.done(&Errand::NamesIn { directory: directory.into() })?;
        Ok(names.into_iter().map(Bytes::name).collect())
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.broker.ask(&Errand::IsDirectory { path: path.into() }).unwrap_or(false)
    }

    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        self.broker.ask(&Errand::Identity { path: path.into() }).unwrap_or(None)
    }

    fn held_by(&self, path: &Path) -> Option<(u32, String)> {
        self.broker.ask(&Errand::HeldBy { path: path.into() }).unwrap_or(None)
    }

    fn memory(&self) -> Option<MemoryNow> {
        self.own.memory()
    }
}
