//! The side of the process without rights.

mod files;
mod mounts;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::errand::{Beginning, Errand};
use crate::wire;

/// How long a process that a panic ends waits for the daemon.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);

/// Has things done by the daemon, over the socket that the daemon has given to this process. Clones use the same
/// socket.
#[derive(Clone, Debug)]
pub struct Broker(Arc<OwnedFd>);

/// What a process gets when it begins.
pub struct Begun {
    /// What the process is told.
    pub beginning: Beginning,
    /// The socket on which the process answers requests.
    pub listener: UnixListener,
    /// The file whose lock the process holds as long as it lives.
    pub lock: File,
}

impl Broker {
    /// Makes a broker of the socket that the daemon has given to this process.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self(Arc::new(socket))
    }

    /// Takes what the daemon hands over when this process begins.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn begin(&self) -> io::Result<Begun> {
        let (beginning, descriptors) = self.call(&Errand::Begin, &[])?;
        let [listener, lock] = descriptors.try_into().map_err(|_| no_sense())?;
        Ok(Begun { beginning, listener: listener.into(), lock: lock.into() })
    }

    /// Leaves the reason for which a panic ends this process. Waits for the daemon a few seconds at most.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn leave_last_words(&self, words: &str) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(LAST_WORDS_MAX))?;
        let (answer, _) =
            self.call_over(&ours, theirs, &Errand::LastWords { words: words.to_owned() }, &[])?;
        Ok(answer)
    }

    /// Has an errand done. Waits for the answer, on this thread.
    fn call<T: DeserializeOwned>(
        &self,
        errand: &Errand,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<(T, Vec<OwnedFd>)> {
        let (ours, theirs) = UnixStream::pair()?;
        self.call_over(&ours, theirs, errand, descriptors)
    }

    fn call_over<T: DeserializeOwned>(
        &self,
        ours: &UnixStream,
        theirs: UnixStream,
        errand: &Errand,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<(T, Vec<OwnedFd>)> {
        wire::send_stream(&*self.0, theirs.as_fd())?;
        drop(theirs);
        wire::send(ours, errand, descriptors)?;
        wire::finish(ours)?;
        wire::receive(ours, wire::ANSWER_MAX_BYTES)
    }

    /// Has an errand without descriptors done.
    fn ask<T: DeserializeOwned>(&self, errand: &Errand) -> io::Result<T> {
        Ok(self.call(errand, &[])?.0)
    }
}

fn no_sense() -> io::Error {
    io::Error::other("the answer of the daemon makes no sense")
}
