//! Threads on which the requests of fronts are taken, worked on and answered.
//!
//! ```text
//!  kernel or client ─► file ─► taker, one a loop ─► a task for each request ─► answer
//!                        └────────── one wait ──────────┘
//!                       of the loop, for files, device completions, timers and wakes
//! ```
//! A request stays on the loop that took it, or goes on elsewhere where a device holds up that loop. One that waits (for a batch, a lock, a device) holds up no other.
//! A loop that serves only one request, which wants one thing of one device, makes the system call itself, as a
//! thread that runs [`crate::RealEnv::block_on`] does, if another loop watches meanwhile.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use env::BoxFuture;

use crate::exec::processors;
use crate::exec::watch::Watch;
use crate::exec::watched::WatchedFile;
use crate::exec::worker::{self, Worker};

/// At least: one may be away in a system call, one stays.
const LOOPS_MIN: usize = 2;

/// See the module. Dropping them drops their tasks.
pub struct Loops {
    loops: Vec<Worker>,
    /// On which processor each runs once they are bound; empty where that is not known.
    processors: Vec<usize>,
    next: AtomicUsize,
    bound: Once,
}

impl Loops {
    /// Starts a loop for each processor, two at least.
    ///
    /// # Errors
    /// When the system gives no threads or descriptors.
    pub(crate) fn start(aborts_on_panic: bool) -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = processors.max(LOOPS_MIN);
        let loops = Worker::start_loops("sawmill-loop", count, aborts_on_panic)?;
        let processors = processors::spread(count);
        Ok(Self { loops, processors, next: AtomicUsize::new(0), bound: Once::new() })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.loops.len()
    }

    /// Keeps each loop on a processor of its own from now on: for requests that come to the loop of the processor that
    /// their program runs on, so that neither has to be woken on another. Only the first call does anything.
    pub fn bind(&self) {
        self.bound.call_once(|| {
            let mut processors = self.processors.iter();
            self.spawn_own("bind", || {
                let processor = processors.next().copied();
                Box::pin(async move { processor.into_iter().for_each(processors::bind) })
            });
        });
    }

    /// Gives each loop, in order, a task that runs only on the thread of that loop.
    pub(crate) fn spawn_own(&self, name: &'static str, mut task: impl FnMut() -> BoxFuture<'static, ()>) {
        self.loops.iter().for_each(|worker| worker.spawn_own(name, task()));
    }

    /// Returns the number of loops that make a system call and run no tasks.
    #[cfg(test)]
    pub(crate) fn away(&self) -> usize {
        self.loops.iter().filter(|worker| worker.is_away()).count()
    }

    /// Gives a task to the loop whose processor that is, once they are bound, or to any one where none is.
    pub fn spawn_at(&self, processor: usize, name: &'static str, task: BoxFuture<'static, ()>) {
        let own = self.processors.iter().position(|&of_loop| of_loop == processor);
        self.loops[own.unwrap_or(processor % self.loops.len())].spawn(name, task);
    }

    /// Gives each loop a task that accepts requests. A single event wakes the loop that has waited
    /// longest for the file, so each call of this function starts with another loop.
    ///
    /// A taker may begin on another loop while its own loop makes a system call. So it must watch
    /// its file through the [`LoopWatch`] that it receives.
    /// (test: `every_loop_watches_a_file_that_comes_while_one_is_away`)
    pub fn spawn_each(&self, name: &'static str, mut taker: impl FnMut(LoopWatch) -> BoxFuture<'static, ()>) {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for n in 0..self.loops.len() {
            let worker = &self.loops[(first + n) % self.loops.len()];
            worker.spawn(name, taker(LoopWatch(worker.watch())));
        }
    }
}

/// A request that a task of a loop works on by itself, until this is dropped.
pub struct Serving {
    _serving: worker::Serving,
}

impl Serving {
    /// A request of the loop that calls.
    ///
    /// # Panics
    /// Elsewhere than in a task of a loop.
    #[must_use]
    pub fn begin() -> Self {
        Self { _serving: worker::Serving::begin() }
    }
}

/// Runs a request's `task` on the loop that calls.
///
/// # Panics
/// Elsewhere than in a task of a loop.
pub fn spawn_here(name: &'static str, task: BoxFuture<'static, ()>) {
    worker::spawn_here(name, task);
}

/// The watch with which one loop waits for files.
pub struct LoopWatch(Arc<Watch>);

impl LoopWatch {
    /// Watches `fd` from the loop. Other loops may watch it too.
    ///
    /// # Errors
    /// The error of the system: no memory, too many watches, or a file that cannot be watched.
    pub fn source(&self, fd: Arc<OwnedFd>) -> io::Result<Source> {
        let file = Arc::new(WatchedFile::new());
        let key = self.0.add(&fd, &file)?;
        Ok(Source { fd, file, watch: Arc::clone(&self.0), key })
    }
}

/// A file that tasks of a loop wait for.
pub struct Source {
    fd: Arc<OwnedFd>,
    file: Arc<WatchedFile>,
    watch: Arc<Watch>,
    key: usize,
}

impl Source {
    /// Ready when something may have come since it was ready last: who reads until there is nothing more
    /// misses nothing.
    pub async fn readable(&self) {
        poll_fn(|cx| self.file.poll(cx)).await;
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.watch.remove(&self.fd, self.key);
    }
}
