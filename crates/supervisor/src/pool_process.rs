//! A process that holds one pool, or that looks for pools.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker::{Desk, DeskParts, Grants, MountedAt, Neighbours, ProcessCacheFiles};
use control::{
    ByteSink, ByteSource, Call, ClientError, DaemonStatus, DaemonStatusCall, Events, EventsSeen, Failure,
    FailureKind, Relay, RunPaths,
};
use events::EventRing;
use ondisk::NvList;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::Child;

use crate::SupervisorGround;
use crate::lists::make_private;

/// How long a look for events waits for one.
const EVENTS_WAIT_MILLIS: u64 = 1000;

/// A process that was started, and may have ended since.
pub struct PoolProcess {
    paths: RunPaths,
    relay: Relay,
    pid: u32,
    /// The process, whatever its number is later used for.
    handle: OwnedFd,
    /// The socket of its errands. The process ends when this is shut down.
    socket: OwnedFd,
    desk: Arc<Desk>,
    /// What the process may have done.
    pub grants: Arc<Grants>,
    /// How far its events were read.
    seen: tokio::sync::Mutex<EventsSeen>,
}

impl PoolProcess {
    /// Starts a process. [`Self::until_ready`] waits for its answers. The child is for whoever waits for its
    /// end.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        ground: &SupervisorGround,
        number: u64,
        memory: u64,
        grants: Arc<Grants>,
        neighbours: Arc<dyn Neighbours>,
    ) -> io::Result<(Self, Child)> {
        let paths = ground.paths.of_pool(number);
        let (socket, theirs) = broker::socket_pair()?;
        let (listener, lock) = (listen(&paths)?, lock_file(&paths)?);
        let beginning = ground.beginning.clone();
        let own = Arc::clone(&grants);
        let cache_files = ProcessCacheFiles { table: Arc::clone(&ground.cache_files), holder: number };
        let last_words = paths.last_words();
        let desk = Desk::new(DeskParts {
            grants: own,
            beginning,
            listener,
            lock,
            last_words,
            neighbours,
            cache_files,
        });
        let child = ground.starter.start(number, memory, theirs)?;
        desk.open(socket.try_clone()?)?;
        let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        let handle = pidfd_open(raw, PidfdFlags::empty())?;
        let (relay, seen) = (Relay::new(paths.socket()), tokio::sync::Mutex::default());
        Ok((Self { paths, relay, pid, handle, socket, desk, grants, seen }, child))
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the process has opened its pool, if it has one, and answers.
    ///
    /// # Errors
    /// The process has ended before that.
    pub async fn until_ready(&self, child: &mut Child) -> Result<DaemonStatus, Failure> {
        // The socket is there already, so that the answer comes as soon as the process can answer.
        let status = tokio::select! {
            _ = child.wait() => None,
            status = self.ask(&DaemonStatusCall {}) => status.ok(),
        };
        if let Some(status) = status {
            return Ok(status);
        }
        _ = child.wait().await;
        self.has_ended();
        Err(self.last_words())
    }

    /// Returns what the process has mounted below a place.
    pub fn mounted_below(&self, place: &Path) -> Vec<MountedAt> {
        self.desk.mounted_below(place)
    }

    /// The process has ended. The kernel hangs up its mounts before this returns.
    pub fn has_ended(&self) {
        self.desk.close();
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The refusal, or that the process has ended.
    pub async fn ask<C: Call>(&self, call: &C) -> Result<C::Answer, Failure> {
        self.relay.call(call).await.map_err(|error| self.failure(error))
    }

    /// The same. Returns nothing if the process ends before it has answered.
    ///
    /// # Errors
    /// The refusal.
    pub async fn ask_while_alive<C: Call>(&self, call: &C) -> Result<Option<C::Answer>, Failure> {
        match self.relay.call(call).await {
            Err(ClientError::Unreachable { .. } | ClientError::Lost(_)) => Ok(None),
            answered => answered.map(Some).map_err(|error| self.failure(error)),
        }
    }

    /// The same for an answer that follows bytes.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_for_bytes<C: Call>(&self, call: &C, sink: ByteSink) -> Result<C::Answer, Failure> {
        self.relay.call_for_bytes(call, sink).await.map_err(|error| self.failure(error))
    }

    /// The same for a request about bytes.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_with_source<C: Call>(&self, call: &C, source: ByteSource) -> Result<C::Answer, Failure> {
        self.relay.call_with_source(call, source).await.map_err(|error| self.failure(error))
    }

    /// True if the process has not ended.
    pub fn is_alive(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // The handle is readable once the process has ended (pidfd_open(2)).
        poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&now)) == Ok(0)
    }

    /// Has the process sync its pool and end.
    pub fn terminate(&self) {
        // This is no signal, because the process is another user's, and the daemon of a container may lack CAP_KILL. The
        // message fails for a process that has ended.
        _ = send(&self.socket, broker::STOP, SendFlags::NOSIGNAL);
    }

    /// Has a process end that holds nothing any more.
    pub fn let_go(&self) {
        // Both fail for a process that has ended. A process that was taken over may not heed its socket.
        _ = shutdown(&self.socket, Shutdown::Both);
        _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    /// Follows the events of the process until the process ends.
    pub async fn follow_events(&self, into: &EventRing) {
        loop {
            let seen = *self.seen.lock().await;
            let wait = Events { seen, wait_millis: EVENTS_WAIT_MILLIS };
            if self.relay.call(&wait).await.is_err() || self.take_events(into).await.is_err() {
                return;
            }
        }
    }

    /// Takes over the events that were not taken over yet.
    ///
    /// # Errors
    /// The process has ended.
    pub async fn take_events(&self, into: &EventRing) -> Result<(), ClientError> {
        let mut seen = self.seen.lock().await;
        let page = self.relay.call(&Events { seen: *seen, wait_millis: 0 }).await?;
        *seen = page.seen;
        for event in page.events {
            match NvList::decode(&event) {
                Ok(event) => into.take_over(event),
                Err(error) => tracing::warn!(%error, "an event of a pool's process makes no sense"),
            }
        }
        Ok(())
    }

    /// Why the process has ended, if a panic ended it.
    pub fn last_words(&self) -> Failure {
        let failure =
            Failure::new(FailureKind::Unavailable, "the process that worked on the request has ended");
        match fs::read_to_string(self.last_words_file()) {
            Ok(words) if !words.is_empty() => failure.and(words.trim()),
            _ => failure,
        }
    }

    fn last_words_file(&self) -> PathBuf {
        self.paths.last_words()
    }

    fn failure(&self, error: ClientError) -> Failure {
        match error {
            ClientError::Refused(failure) => failure,
            ClientError::Unreachable { .. } | ClientError::Lost(_) => self.last_words(),
            other => Failure::new(FailureKind::Other, other.to_string()),
        }
    }
}

/// Returns the socket on which a process is to answer, in place of that of the process before.
fn listen(paths: &RunPaths) -> io::Result<UnixListener> {
    make_private(paths.run_dir())?;
    match fs::remove_file(paths.socket()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(paths.socket())
}

/// Opens the lock file of a process. The process takes the lock.
fn lock_file(paths: &RunPaths) -> io::Result<File> {
    File::options().write(true).create(true).truncate(false).mode(0o600).open(paths.daemon_lock())
}
