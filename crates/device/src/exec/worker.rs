//! Threads for spawned tasks. A task stays on the worker it was given to.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::local::{self, Inside, Lone};
use super::parker::Parker;
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
}

struct Task {
    id: u64,
    name: &'static str,
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    is_queued: AtomicBool,
    worker: Arc<Shared>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::SeqCst) {
            let worker = Arc::clone(&self.worker);
            worker.ready.lock().push_back(self);
            worker.parker.notify();
        }
    }
}

/// One worker thread. Dropping it drops its unfinished tasks and ends the thread.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread of that name.
    ///
    /// # Panics
    /// When the system gives no thread.
    pub(crate) fn start(name: String, aborts_on_panic: bool) -> Self {
        let (sender, receiver) = mpsc::sync_channel(1);
        let run = move || {
            let inside = Inside::enter();
            let shared = Arc::new(Shared {
                ready: Mutex::default(),
                tasks: Mutex::default(),
                parker: Arc::clone(inside.parker()),
                stops: AtomicBool::new(false),
                aborts_on_panic,
            });
            sender.send(Arc::clone(&shared)).expect("the starter waits");
            run(&shared);
        };
        let thread = std::thread::Builder::new().name(name).spawn(run).expect("a thread can be made");
        let shared = receiver.recv().expect("the thread sends first");
        Self { shared, thread: Some(thread) }
    }

    /// Runs `future` to its end.
    pub(crate) fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let task = Arc::new(Task {
            id: SERIAL.fetch_add(1, Ordering::Relaxed),
            name,
            future: Mutex::new(Some(future)),
            is_queued: AtomicBool::new(false),
            worker: Arc::clone(&self.shared),
        });
        self.shared.tasks.lock().insert(task.id, Arc::clone(&task));
        task.wake();
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
            run_task(worker, &task);
        }
        let may_sleep = worker.ready.lock().is_empty() && !worker.stops.load(Ordering::SeqCst);
        local::turn(Lone::ByRing, may_sleep);
    }
    loop {
        let Some((_, task)) = worker.tasks.lock().pop_first() else { break };
        let future = task.future.lock().take();
        drop(future);
    }
    worker.ready.lock().clear();
}

fn run_task(worker: &Shared, task: &Arc<Task>) {
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
        drop(future);
    }
}
