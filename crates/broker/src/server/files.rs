//! Devices and small files.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use device::{DeviceHold, OpenedFile, OwnRights, RealMachine};
use env::{DeviceError, Machine, OpenMode};

use super::{Desk, ErrandAnswer};
use crate::errand::{Bytes, OpenedFacts, readers_of};
use crate::fault::{DeviceFault, RemoteError};

/// Holds of one process at most. A pool has fewer devices.
const HOLDS_MAX: usize = 4096;

/// The holds of the daemon on devices of the process. Each hold has a number, and no number is used again.
#[derive(Default)]
pub(super) struct Holds {
    all: BTreeMap<u64, DeviceHold>,
    last: u64,
}

impl Holds {
    fn add(&mut self, hold: DeviceHold) -> io::Result<u64> {
        if self.all.len() >= HOLDS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.last += 1;
        self.all.insert(self.last, hold);
        Ok(self.last)
    }

    pub fn let_go(&mut self, hold: u64) {
        self.all.remove(&hold);
    }

    pub fn let_all_go(&mut self) {
        self.all.clear();
    }
}

impl Desk {
    pub(super) fn open_device(&self, path: &Path, mode: OpenMode) -> io::Result<ErrandAnswer> {
        let mut opened = match self.granted(path, mode) {
            Ok(opened) => opened,
            Err(error) => return ErrandAnswer::of(Err::<OpenedFacts, _>(DeviceFault::from(&error))),
        };
        let hold = opened.hold.take().map(|hold| self.holds.lock().add(hold)).transpose()?;
        let facts = OpenedFacts::of(&opened, hold);
        let OpenedFile { buffered, direct, .. } = opened;
        let descriptors = std::iter::once(buffered).chain(direct.map(|direct| direct.file));
        ErrandAnswer::with(Ok::<_, DeviceFault>(facts), descriptors.collect())
    }

    /// Opens a device that the process may have. Any other device is missing for the process.
    fn granted(&self, path: &Path, mode: OpenMode) -> Result<OpenedFile, DeviceError> {
        if !self.grants.may_try(path) {
            tracing::debug!(path = %path.display(), "a process asks for a device that is not its own");
            return Err(DeviceError::Missing { path: path.to_owned() });
        }
        // The path may lead elsewhere by now.
        OwnRights.open_if(path, mode, |file| self.grants.may_open(path, file, mode))
    }

    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>, RemoteError> {
        match self.grants.may_read(path) {
            true => Ok(machine().read(path)?),
            false => Err(denied(path)),
        }
    }

    pub(super) fn replace(&self, path: &Path, bytes: &[u8], is_for_anybody: bool) -> Result<(), RemoteError> {
        if self.is_cache_file(path) {
            return self.put_in_cache_file(path, bytes);
        }
        match self.grants.may_change(path) {
            true => Ok(machine().replace(path, bytes, readers_of(is_for_anybody))?),
            false => Err(denied(path)),
        }
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), RemoteError> {
        match [from, to].into_iter().find(|path| !self.grants.may_change(path)) {
            None => Ok(machine().rename(from, to)?),
            Some(path) => Err(denied(path)),
        }
    }

    pub(super) fn remove(&self, path: &Path) -> Result<(), RemoteError> {
        if self.is_cache_file(path) {
            return self.leave_cache_file(path);
        }
        match self.grants.may_change(path) {
            true => Ok(machine().remove(path)?),
            false => Err(denied(path)),
        }
    }

    pub(super) fn names_in(&self, directory: &Path) -> Result<Vec<Bytes>, RemoteError> {
        if !self.grants.may_list(directory) {
            return Err(denied(directory));
        }
        Ok(machine().names_in(directory)?.iter().map(|name| name.as_os_str().into()).collect())
    }

    pub(super) fn is_directory(&self, path: &Path) -> bool {
        self.grants.may_know(path) && path.is_dir()
    }

    pub(super) fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        device::identity(path).filter(|_| self.grants.may_know(path))
    }

    pub(super) fn held_by(&self, path: &Path) -> Option<(u32, String)> {
        device::held_by(path).filter(|_| self.grants.may_know(path))
    }
}

fn machine() -> impl Machine {
    RealMachine::without_groups()
}

fn denied(path: &Path) -> RemoteError {
    tracing::debug!(path = %path.display(), "a process asks for a file that is not its own");
    io::Error::from(rustix::io::Errno::ACCESS).into()
}
