//! One mount's threads: each takes a request, works on it to its end, answers, and takes the next.
//!
//! ```text
//!   waiting ──request──► serving ──answer──► waiting
//!      ▲                    │ nobody else waits: one more thread,
//!      │                    │ while there are fewer than THREADS_MAX
//!      └── a new thread ◄───┘
//! ```
//! A mount at rest has one thread. As a request keeps its thread until it is answered, there are as many
//! as there have been requests at once, and one that waits. When for [`QUIET`] one thread has always been
//! left waiting, those that are not needed end: after an answer, or, where no request comes, roused by
//! requests (`statfs`) that the session makes to itself.
//!
//! Invariants
//! - A request is answered once, or is one of those that nobody waits for.
//! - When the last thread ends, all that was written is stable, and only then is the session said to
//!   have ended. (test: `what_was_written_before_an_unmount_survives_a_kill_after_it`)

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use device::RealEnv;
use env::Env;
use parking_lot::{Condvar, Mutex};
use rustix::fs::statfs;
use rustix::io::Errno;

use crate::connection::{receive, send};
use crate::files::{Answer, Files};
use crate::handshake::REQUEST_BYTES;
use crate::reply::Reply;
use crate::request::Request;

/// Threads that a mount may have: as many requests can wait for one log block together.
const THREADS_MAX: usize = 40;
/// How long threads stay that are not needed.
const QUIET: Duration = Duration::from_secs(5);
/// A write has its data behind one page with the headers.
const BUFFER_BYTES: usize = REQUEST_BYTES as usize + 4096;

/// See the module.
pub(crate) struct Session {
    device: Arc<OwnedFd>,
    files: Files,
    /// Where it is mounted.
    path: PathBuf,
    threads: AtomicUsize,
    waiting: AtomicUsize,
    /// When no thread was left waiting last, in nanoseconds of the environment's clock.
    needed_at: AtomicU64,
    /// Somebody looks after threads that are not needed any more.
    is_watched: AtomicBool,
    ended: Arc<Ended>,
}

/// Tells whether a session has ended.
#[derive(Default)]
pub(crate) struct Ended {
    hung_up: AtomicBool,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Ended {
    /// Whether the kernel has hung up: what was written may not be stable yet.
    pub fn has_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::Acquire)
    }

    pub fn is_over(&self) -> bool {
        *self.is_over.lock()
    }

    /// Waits for the end, but no longer than that; whether it has come.
    pub fn wait(&self, limit: Duration) -> bool {
        let mut is_over = self.is_over.lock();
        self.over.wait_while_for(&mut is_over, |is_over| !*is_over, limit);
        *is_over
    }

    fn tell(&self) {
        *self.is_over.lock() = true;
        self.over.notify_all();
    }
}

impl Session {
    /// Begins to serve; the kernel and we have agreed on how.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(device: Arc<OwnedFd>, files: Files, path: &Path) -> io::Result<Arc<Ended>> {
        let ended = Arc::<Ended>::default();
        let session = Arc::new(Self {
            device,
            files,
            path: path.to_owned(),
            threads: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            needed_at: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            ended: Arc::clone(&ended),
        });
        session.add_thread()?;
        Ok(ended)
    }

    fn add_thread(self: &Arc<Self>) -> io::Result<()> {
        let session = Arc::clone(self);
        self.threads.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let started = thread::Builder::new().name("fuse".into()).spawn(move || session.work());
        if started.is_err() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
        started.map(|_detached| ())
    }

    /// One thread's life. It counts as waiting when it begins.
    fn work(self: Arc<Self>) {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut reply = Reply::default();
        loop {
            let taken = receive(&self.device, &mut buffer);
            let others = self.waiting.fetch_sub(1, Ordering::Relaxed) - 1;
            let Ok(len) = taken else {
                self.ended.hung_up.store(true, Ordering::Release);
                break;
            };
            if others == 0 {
                self.needed();
            }
            self.answer(&buffer[..len], &mut reply);
            if self.waiting.load(Ordering::Relaxed) > 0 && self.is_quiet() {
                break;
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    /// It is mounted no more, and this is the last thread.
    fn end(self: Arc<Self>) {
        let files = &self.files;
        if let Err(error) = files.env.block_on(files.zfs.sync_for_unmount()) {
            tracing::error!(%error, "what was written before an unmount may be lost in a crash");
        }
        let ended = Arc::clone(&self.ended);
        // Closes the device.
        drop(self);
        ended.tell();
    }

    fn answer(&self, bytes: &[u8], reply: &mut Reply) {
        // What we cannot read we cannot answer; the kernel sends no such thing.
        let Ok(mut request) = Request::parse(bytes, self.files.inodes) else { return };
        reply.clear();
        let served = catch_unwind(AssertUnwindSafe(|| self.files.serve(&mut request, reply)));
        let unique = request.header.unique;
        let _nobody_waits = match served {
            Ok(Ok(Answer::None)) => return,
            Ok(Ok(Answer::Due)) => send(&self.device, unique, 0, reply.bytes()),
            Ok(Err(errno)) => send(&self.device, unique, errno.raw_os_error(), &[]),
            // Whoever asked is not to wait for ever. The panic has been told of.
            Err(_panic) => send(&self.device, unique, Errno::IO.raw_os_error(), &[]),
        };
    }

    /// Nobody waits for the next request: one more thread, if that may be.
    fn needed(self: &Arc<Self>) {
        self.needed_at.store(self.now(), Ordering::Relaxed);
        if self.threads.load(Ordering::Relaxed) >= THREADS_MAX {
            return;
        }
        if let Err(error) = self.add_thread() {
            tracing::debug!(%error, "no more threads for a mount");
            return;
        }
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            let env = Arc::clone(&self.files.env);
            let watch = Self::watch(Arc::clone(&env), Arc::downgrade(self));
            env.spawn("mount threads", Box::pin(watch));
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.files.env.now().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_quiet(&self) -> bool {
        let since = self.now().saturating_sub(self.needed_at.load(Ordering::Relaxed));
        u128::from(since) >= QUIET.as_nanos()
    }

    /// Sends threads home that wait for requests which do not come, until one is left.
    async fn watch(env: Arc<RealEnv>, session: Weak<Self>) {
        loop {
            env.sleep(QUIET).await;
            let Some(session) = session.upgrade() else { return };
            if session.threads.load(Ordering::Relaxed) <= 1 {
                session.is_watched.store(false, Ordering::Relaxed);
                return;
            }
            if session.is_quiet() {
                session.send_home();
            }
        }
    }

    /// On a thread of its own: nobody knows how long the way to a path takes.
    fn send_home(&self) {
        let spare = self.waiting.load(Ordering::Relaxed).saturating_sub(1);
        let path = self.path.clone();
        let rouse = move || (0..spare).try_for_each(|_| statfs(&path).map(|_| ()));
        let roused = thread::Builder::new().name("fuse-rouse".into()).spawn(rouse);
        if let Err(error) = roused {
            tracing::debug!(%error, "threads of a mount that are not needed stay");
        }
    }
}
