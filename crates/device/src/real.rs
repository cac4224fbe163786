//! The world of production: threads, io_uring, the system's clocks, files and disks.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};

use crate::exec::worker::{self, Worker};
use crate::exec::{helpers, keeper, local, ring, timer};
use crate::{Delayed, Delays, DelaysError, FileDevice, FileOpener, Loops, OwnRights};
use env::{BoxFuture, Device, DeviceError, Env, OpenMode, Shelf};

/// Worker threads at most, unless asked for otherwise: tasks are few.
const WORKERS_MAX: usize = 4;

/// How long opening a device may take, for a task. A disk that has to spin up needs ten seconds or so.
const OPENED_WITHIN: Duration = Duration::from_secs(30);

/// How a [`RealEnv`] is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads for spawned tasks; at least one is started.
    pub workers: usize,
    /// Use io_uring where the system has it. Otherwise threads make plain system calls.
    pub uring: bool,
    /// Devices made slower than they are.
    pub delays: Delays,
    /// End the whole process when a spawned task panics, instead of only the task.
    pub aborts_on_panic: bool,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            workers: cores.min(WORKERS_MAX),
            uring: true,
            delays: Delays::default(),
            aborts_on_panic: false,
        }
    }
}

impl Options {
    /// The defaults, changed by environment variables: `SAWMILL_NO_URING=1` does without
    /// io_uring, `SAWMILL_DELAY=path=8ms,...` makes devices slower.
    ///
    /// # Errors
    /// When `SAWMILL_DELAY` cannot be read.
    pub fn from_process_environment() -> Result<Self, DelaysError> {
        let no_uring = std::env::var_os("SAWMILL_NO_URING").is_some_and(|value| value != "0");
        let delays = std::env::var("SAWMILL_DELAY").unwrap_or_default().parse()?;
        Ok(Self { uring: !no_uring, delays, ..Self::default() })
    }
}

/// The production [`Env`].
///
/// Dropping it drops the tasks that have not ended; tasks usually hold the environment
/// themselves, so end them first.
pub struct RealEnv {
    workers: Vec<Worker>,
    loops: Mutex<Option<Arc<Loops>>>,
    aborts_on_panic: bool,
    doors: Arc<Doors>,
}

/// What opening a device needs.
struct Doors {
    uring: bool,
    delays: Delays,
    shelves: Mutex<BTreeMap<PathBuf, Shelf>>,
    opener: Arc<dyn FileOpener>,
    wrap: Box<WrapDevice>,
}

/// Puts something of another crate between a device and its users, by the path of the device.
pub type WrapDevice = dyn Fn(&Path, Arc<dyn Device>) -> Arc<dyn Device> + Send + Sync;

impl Doors {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Device>, DeviceError> {
        let shelf = self.shelves.lock().get(path).cloned();
        let device = match shelf {
            Some(shelf) => shelf.open(path, mode)?,
            None => Arc::new(FileDevice::of(self.opener.open(path, mode)?, self.uring)),
        };
        let device = (self.wrap)(path, device);
        Ok(match self.delays.of(path) {
            Some(delay) => Arc::new(Delayed::new(device, delay)),
            None => device,
        })
    }
}

impl RealEnv {
    /// Starts the worker threads.
    ///
    /// # Panics
    /// When the system gives no thread.
    #[must_use]
    pub fn new(options: Options) -> Arc<Self> {
        Self::over(options, Arc::new(OwnRights))
    }

    /// Starts the worker threads. `opener` opens files and disks.
    ///
    /// # Panics
    /// When the system gives no thread.
    #[must_use]
    pub fn over(options: Options, opener: Arc<dyn FileOpener>) -> Arc<Self> {
        Self::wrapping(options, opener, Box::new(|_, device| device))
    }

    /// Starts the worker threads. `opener` opens files and disks, and `wrap` returns what takes the place of each device.
    ///
    /// # Panics
    /// When the system gives no thread.
    #[must_use]
    pub fn wrapping(options: Options, opener: Arc<dyn FileOpener>, wrap: Box<WrapDevice>) -> Arc<Self> {
        keeper::start();
        let start = |n| {
            let worker = Worker::start(format!("sawmill-{n}"), options.aborts_on_panic);
            worker.expect("a thread can be made")
        };
        let doors = Doors {
            uring: options.uring && ring::is_available(),
            delays: options.delays,
            shelves: Mutex::default(),
            opener,
            wrap,
        };
        let workers = (0..options.workers.max(1)).map(start).collect();
        let (loops, aborts_on_panic) = (Mutex::default(), options.aborts_on_panic);
        Arc::new(Self { workers, loops, aborts_on_panic, doors: Arc::new(doors) })
    }

    /// The threads for the requests of fronts, which are started when somebody first asks for them.
    ///
    /// # Errors
    /// When the system gives no threads or descriptors.
    pub fn loops(&self) -> io::Result<Arc<Loops>> {
        let mut loops = self.loops.lock();
        if let Some(loops) = &*loops {
            return Ok(Arc::clone(loops));
        }
        let started = Arc::new(Loops::start(self.aborts_on_panic)?);
        Ok(Arc::clone(loops.insert(started)))
    }

    /// Polls `future` on this thread until it is ready; its I/O is done through this
    /// thread's own ring. Any thread may call it. Within a spawned task it stops the
    /// worker's other tasks meanwhile.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        local::block_on(future)
    }

    /// Gives `device` a path (such as `ram:a`) under which [`Env::open`] finds it, before
    /// any file of that name.
    pub fn register(&self, path: impl Into<PathBuf>, device: Arc<dyn Device>) {
        self.doors.shelves.lock().insert(path.into(), Shelf::new(device));
    }

    /// Whether I/O goes through io_uring.
    #[must_use]
    pub fn uses_uring(&self) -> bool {
        self.doors.uring
    }
}

impl Env for RealEnv {
    fn now(&self) -> Duration {
        timer::now()
    }

    fn wall_clock(&self) -> Duration {
        // The kernel stamps files with this clock, which stands still between ticks. By a finer clock, a time that the
        // kernel sets would be earlier than one that was set here before.
        // (test: cli's `times_that_the_kernel_sets_are_not_earlier_than_ours`)
        let time = clock_gettime(ClockId::RealtimeCoarse);
        // A clock set before 1970 reads as 1970.
        Duration::try_from(time).unwrap_or_default()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(timer::sleep(span))
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        let worker = self.workers.iter().min_by_key(|worker| worker.load());
        worker.expect("there is at least one worker").spawn(name, task);
    }

    fn has_ready(&self) -> bool {
        worker::has_ready()
    }

    fn random_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        let filled = getrandom(&mut bytes[..], GetRandomFlags::empty());
        assert_eq!(filled, Ok(bytes.len()), "the system has random numbers");
        u64::from_le_bytes(bytes)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let (doors, path) = (Arc::clone(&self.doors), path.to_owned());
        Box::pin(async move {
            if !local::must_not_wait() {
                return doors.open(&path, mode);
            }
            let opening = helpers::call(move || doors.open(&path, mode));
            match select(opening, timer::sleep(OPENED_WITHIN)).await {
                Either::Left((opened, _)) => opened.unwrap_or(Err(DeviceError::Gone)),
                Either::Right(_) => Err(DeviceError::TimedOut),
            }
        })
    }
}
