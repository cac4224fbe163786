//! Devices and small files.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use device::{FileOpener, OpenedFile, OwnRights, RealMachine};
use env::{DeviceError, Machine, OpenMode};
use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat2};

use super::{Desk, Done};
use crate::errand::{Bytes, OpenedFacts, mode_of, readers_of};
use crate::fault::{DeviceFault, Fault};

/// What the kernel says of devices.
const SYSTEM_DIR: &str = "/sys";
/// A text of the kernel is at most so long. Mount tables are the longest.
const TEXT_MAX_BYTES: u64 = 16 << 20;

impl Desk {
    pub(super) fn open_device(&self, path: &Path, is_writing: bool) -> io::Result<Done> {
        let opened = match self.granted(path, mode_of(is_writing)) {
            Ok(opened) => opened,
            Err(error) => return Done::of(Err::<OpenedFacts, _>(DeviceFault::from(&error))),
        };
        let facts = OpenedFacts::of(&opened);
        let OpenedFile { buffered, direct, .. } = opened;
        let descriptors = std::iter::once(buffered).chain(direct.map(|direct| direct.file));
        Done::with(Ok::<_, DeviceFault>(facts), descriptors.collect())
    }

    /// Opens a device that the process may have. Any other device is missing for the process.
    fn granted(&self, path: &Path, mode: OpenMode) -> Result<OpenedFile, DeviceError> {
        let missing = || DeviceError::Missing { path: path.to_owned() };
        if !self.grants.may_try(path) {
            tracing::debug!(path = %path.display(), "a process asks for a device that is not its own");
            return Err(missing());
        }
        let opened = OwnRights.open(path, mode)?;
        // The path may have led elsewhere a moment ago.
        match self.grants.may_open(path, &opened.buffered, mode) {
            true => Ok(opened),
            false => Err(missing()),
        }
    }

    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>, Fault> {
        if let Ok(below) = path.strip_prefix(SYSTEM_DIR) {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let mut bytes = Vec::new();
            let file = File::from(open_in_system(below, flags)?).take(TEXT_MAX_BYTES).read_to_end(&mut bytes);
            return file.map(|_| bytes).map_err(Fault::from);
        }
        match self.grants.may_read(path) {
            true => Ok(machine().read(path)?),
            false => Err(denied(path)),
        }
    }

    pub(super) fn replace(&self, path: &Path, bytes: &[u8], is_for_anybody: bool) -> Result<(), Fault> {
        match self.grants.may_change(path) {
            true => Ok(machine().replace(path, bytes, readers_of(is_for_anybody))?),
            false => Err(denied(path)),
        }
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault> {
        match [from, to].into_iter().find(|path| !self.grants.may_change(path)) {
            None => Ok(machine().rename(from, to)?),
            Some(path) => Err(denied(path)),
        }
    }

    pub(super) fn remove(&self, path: &Path) -> Result<(), Fault> {
        match self.grants.may_change(path) {
            true => Ok(machine().remove(path)?),
            false => Err(denied(path)),
        }
    }

    pub(super) fn names_in(&self, directory: &Path) -> Result<Vec<Bytes>, Fault> {
        if let Ok(below) = directory.strip_prefix(SYSTEM_DIR) {
            return Ok(names_in_system(below)?);
        }
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

fn denied(path: &Path) -> Fault {
    tracing::debug!(path = %path.display(), "a process asks for a file that is not its own");
    io::Error::from(rustix::io::Errno::ACCESS).into()
}

/// Opens what the kernel says of devices. No link and no `..` leads out of `/sys`.
fn open_in_system(below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let system = rustix::fs::openat(CWD, SYSTEM_DIR, directory, Mode::empty())?;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(system, below, flags, Mode::empty(), inside)?)
}

fn names_in_system(below: &Path) -> io::Result<Vec<Bytes>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut names = Vec::new();
    for entry in Dir::new(open_in_system(below, flags)?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(Bytes::of(name));
        }
    }
    Ok(names)
}
