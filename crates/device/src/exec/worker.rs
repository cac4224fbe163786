//! Threads for spawned tasks. A task stays on the worker it was given to, but for what a loop has to do while it is away.
//!
//! A worker may be a *loop*: its wait is for files too, and its tasks begin others there ([`spawn_here`]), one for
//! each request. When it serves a single request, it makes that one's system calls itself, if the company of loops
//! that it belongs to can spare it. A device may never answer such a call; who asked it may be told to go on without
//! (a log that is given up), and then goes on with another loop.
//! (test: `a_request_whose_device_hangs_goes_on_when_it_is_told_to`)

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::company::Company;
use super::local::{self, Inside, Lone};
use super::parker::Parker;
use super::watch::Watch;
use env::BoxFuture;

/// Tasks run before the worker looks at its ring again.
const TASKS_PER_TURN_MAX: usize = 64;

struct Shared {
    ready: Mutex<VecDeque<Arc<Task>>>,
    /// All unfinished tasks, so that stopping drops them.
    tasks: Mutex<BTreeMap<u64, Arc<Task>>>,
    parker: Arc<Parker>,
    stops: AtomicBool,
    aborts_on_panic: bool,
    /// A loop's.
    company: Option<Arc<Company<Self>>>,
    /// The watch with which a loop waits for files.
    watch: Option<Arc<Watch>>,
    /// It makes a system call for a request, and looks at nothing else until that ends.
    is_away: AtomicBool,
    /// Requests under way.
    requests: AtomicUsize,
}

thread_local! {
    /// The worker that this thread is.
    static HERE: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

struct Task {
    id: u64,
    name: &'static str,
    kind: TaskKind,
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    is_queued: AtomicBool,
    worker: Arc<Shared>,
}

/// How a task depends on the worker that it was given to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskKind {
    /// Any work.
    Plain,
    /// A request that this worker accepted.
    Request,
    /// Work on the thread itself. The task waits until the thread has returned from a system call.
    Own,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::SeqCst) {
            Arc::clone(&self.worker).take(self);
        }
    }
}

impl Shared {
    fn spawn(self: &Arc<Self>, name: &'static str, future: BoxFuture<'static, ()>, kind: TaskKind) {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let task = Arc::new(Task {
            id: SERIAL.fetch_add(1, Ordering::Relaxed),
            name,
            kind,
            future: Mutex::new(Some(future)),
            is_queued: AtomicBool::new(false),
            worker: Arc::clone(self),
        });
        self.requests.fetch_add(usize::from(kind == TaskKind::Request), Ordering::Relaxed);
        self.tasks.lock().insert(task.id, Arc::clone(&task));
        task.wake();
    }

    /// Whether this thread is that worker. One that ends its thread is nowhere.
    fn is_here(self: &Arc<Self>) -> bool {
        let is_it = |here: &RefCell<Option<Arc<Self>>>| {
            here.try_borrow().is_ok_and(|here| here.as_ref().is_some_and(|here| Arc::ptr_eq(here, self)))
        };
        HERE.try_with(is_it).unwrap_or(false)
    }

    /// Queues a task that can go on.
    fn take(self: &Arc<Self>, task: Arc<Task>) {
        self.ready.lock().push_back(task);
        if self.is_here() {
            // It looks for what is ready before it waits.
            return;
        }
        match self.is_away.load(Ordering::SeqCst) {
            true => self.pass_on(),
            false => self.parker.notify(),
        }
    }

    /// Passes the ready tasks to another loop, except [`TaskKind::Own`], unless this worker has
    /// returned.
    fn pass_on(self: &Arc<Self>) {
        let is_there = |other: &Self| !other.is_away.load(Ordering::SeqCst);
        let company = self.company.as_ref().expect("only loops are away");
        while !is_there(self) {
            // One of them is always there, but maybe not the same for as long as this looks.
            if let Some(other) = company.find(is_there) {
                self.take_for_others().into_iter().for_each(|task| other.take(task));
                return;
            }
        }
        self.parker.notify();
    }

    /// Removes the ready tasks that another loop may run from the queue.
    fn take_for_others(&self) -> VecDeque<Arc<Task>> {
        let mut ready = self.ready.lock();
        let (own, others) = ready.drain(..).partition(|task| task.kind == TaskKind::Own);
        *ready = own;
        others
    }

    /// Makes the system call that the only request wants, if that is all there is to do here.
    fn serves_lone_request(&self) -> bool {
        if self.requests.load(Ordering::Relaxed) != 1 {
            return false;
        }
        let Some(_away) = self.company.as_ref().and_then(|company| company.leave()) else { return false };
        self.is_away.store(true, Ordering::SeqCst);
        // Who had not seen that it goes has queued its task by now, or sees it.
        let is_lone = self.ready.lock().is_empty() && local::run_lone();
        self.is_away.store(false, Ordering::SeqCst);
        is_lone
    }
}

/// Runs `future` to its end on the worker that calls, as a request.
///
/// # Panics
/// On other threads.
pub(crate) fn spawn_here(name: &'static str, future: BoxFuture<'static, ()>) {
    let here = HERE.with_borrow(Clone::clone).expect("a task of a loop");
    here.spawn(name, future, TaskKind::Request);
}

/// While it lives, the worker that made it serves one request more.
pub(crate) struct Serving(Arc<Shared>);

impl Serving {
    /// One of the worker that calls.
    ///
    /// # Panics
    /// On other threads.
    pub(crate) fn begin() -> Self {
        let here = HERE.with_borrow(Clone::clone).expect("a task of a loop");
        here.requests.fetch_add(1, Ordering::Relaxed);
        Self(here)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether this thread is a worker with other tasks that could go on.
pub(crate) fn has_ready() -> bool {
    HERE.with_borrow(|here| here.as_ref().is_some_and(|here| !here.ready.lock().is_empty()))
}

/// One worker thread. Dropping it drops its unfinished tasks and ends the thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread of that name.
    ///
    /// # Errors
    /// When the system gives none.
    pub(crate) fn start(name: String, aborts_on_panic: bool) -> io::Result<Self> {
        Self::begin(name, aborts_on_panic, None)
    }

    /// Starts so many loops, named `name`-1 and so on.
    ///
    /// # Errors
    /// When the system gives no threads, or no descriptors.
    pub(crate) fn start_loops(name: &str, count: usize, aborts_on_panic: bool) -> io::Result<Vec<Self>> {
        let company = Arc::new(Company::new(count));
        let start = |n| Self::begin(format!("{name}-{n}"), aborts_on_panic, Some(Arc::clone(&company)));
        (1..=count).map(start).collect()
    }

    fn begin(name: String, aborts_on_panic: bool, company: Option<Arc<Company<Shared>>>) -> io::Result<Self> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let run = move || {
            let inside = Inside::enter();
            let ready = if company.is_some() { local::become_loop() } else { Ok(()) };
            let shared = Arc::new(Shared {
                ready: Mutex::default(),
                tasks: Mutex::default(),
                parker: Arc::clone(inside.parker()),
                watch: local::watch(),
                stops: AtomicBool::new(ready.is_err()),
                aborts_on_panic,
                company,
                is_away: AtomicBool::new(false),
                requests: AtomicUsize::new(0),
            });
            if let Some(company) = &shared.company {
                company.join(&shared);
            }
            HERE.set(Some(Arc::clone(&shared)));
            sender.send(ready.map(|()| Arc::clone(&shared))).expect("the starter waits");
            run(&shared);
        };
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        let shared = receiver.recv().expect("the thread sends first")?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Runs `future` to its end.
    pub(crate) fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.shared.spawn(name, future, TaskKind::Plain);
    }

    /// Runs `future` to its end on the thread of this worker, and on no other.
    /// (test: `what_is_about_a_thread_waits_until_that_thread_is_back`)
    pub(crate) fn spawn_own(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        self.shared.spawn(name, future, TaskKind::Own);
    }

    /// Returns the watch with which this worker waits for files.
    ///
    /// # Panics
    /// If the worker is not a loop.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        self.shared.watch.clone().expect("a loop watches files")
    }

    /// True while the worker makes a system call for a request and runs no tasks.
    #[cfg(test)]
    pub(crate) fn is_away(&self) -> bool {
        self.shared.is_away.load(Ordering::SeqCst)
    }

    /// How many tasks have not ended.
    pub(crate) fn load(&self) -> usize {
        self.shared.tasks.lock().len()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::SeqCst);
        self.shared.parker.notify();
        let thread = self.thread.take().expect("dropped once");
        // The last owner may be a task on this very worker.
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

fn run(worker: &Arc<Shared>) {
    while !worker.stops.load(Ordering::SeqCst) {
        worker.parker.begin_poll();
        for _ in 0..TASKS_PER_TURN_MAX {
            let Some(task) = worker.ready.lock().pop_front() else { break };
            run_task(&task);
        }
        let may_sleep = worker.ready.lock().is_empty() && !worker.stops.load(Ordering::SeqCst);
        if !(may_sleep && worker.serves_lone_request()) {
            local::turn(Lone::ByRing, may_sleep);
        }
    }
    loop {
        let Some((_, task)) = worker.tasks.lock().pop_first() else { break };
        let future = task.future.lock().take();
        drop(future);
    }
    worker.ready.lock().clear();
}

fn run_task(task: &Arc<Task>) {
    let worker = &task.worker;
    task.is_queued.store(false, Ordering::SeqCst);
    let waker = Waker::from(Arc::clone(task));
    let mut slot = task.future.lock();
    let Some(future) = slot.as_mut() else { return };
    let poll = AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
    let ended = match catch_unwind(poll) {
        Ok(Poll::Pending) => false,
        Ok(Poll::Ready(())) => true,
        Err(_) if worker.aborts_on_panic => {
            eprintln!("sawmill: task '{}' panicked; stopping the process", task.name);
            std::process::abort();
        }
        Err(_) => true,
    };
    if ended {
        // What the future held is dropped, so that those who wait for it hear of it.
        let future = slot.take();
        drop(slot);
        worker.tasks.lock().remove(&task.id);
        worker.requests.fetch_sub(usize::from(task.kind == TaskKind::Request), Ordering::Relaxed);
        drop(future);
    }
}
