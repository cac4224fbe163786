//! An open file of a device, which is closed where that holds up nobody.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::fs::FlockOperation;

use super::{helpers, local};

/// An open file. Operations under way share it, so it is closed after the last of them.
///
/// To close a file of a network file system, or the last one of a disk, writes out what is cached for it, and waits for
/// as long as the server or the disk does not answer. A thread that runs futures leaves that to a helper.
/// (test: `a_device_whose_server_does_not_answer_is_let_go_at_once`)
pub(crate) struct Descriptor {
    file: Option<Arc<OwnedFd>>,
    /// Closing it waits for nobody.
    is_prompt: bool,
    /// Has the lock of `flock`, which ends with it.
    is_locked: bool,
    /// Closed after this one.
    _other: Option<Arc<Self>>,
}

impl Descriptor {
    /// `is_prompt` says that closing it waits for nobody, `is_locked` that it has the lock of `flock`.
    pub(crate) fn new(file: impl Into<Arc<OwnedFd>>, is_prompt: bool, is_locked: bool) -> Self {
        Self { file: Some(file.into()), is_prompt, is_locked, _other: None }
    }

    /// A second one of the file of `other`, whose lock lasts as long as either.
    pub(crate) fn beside(other: &Arc<Self>, file: OwnedFd) -> Self {
        let (file, other, is_prompt) = (Some(file.into()), Some(Arc::clone(other)), other.is_prompt);
        Self { file, is_prompt, is_locked: false, _other: other }
    }

    /// The file.
    pub(crate) fn file(&self) -> &OwnedFd {
        self.file.as_ref().expect("taken only when dropped")
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.file().as_raw_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        let is_locked = self.is_locked;
        match self.is_prompt || !local::must_not_wait() {
            true => close(file, is_locked),
            // Nobody waits for it.
            false => drop(helpers::call(move || close(file, is_locked))),
        }
    }
}

/// Closes a file and gives its lock back at once. Closing alone would not: a process that another thread is just
/// starting has copies of the descriptors until it runs its own program.
/// (test: `a_device_let_go_can_be_taken_though_a_fork_has_its_descriptor`)
fn close(file: Arc<OwnedFd>, is_locked: bool) {
    if is_locked {
        // The lock goes with the last copy of the descriptor, if not now.
        let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
    }
    drop(file);
}
