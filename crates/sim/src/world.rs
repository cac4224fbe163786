//! The clock, the tasks and what is due: everything that decides what happens next.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use env::BoxFuture;
use parking_lot::Mutex;

use crate::rng::Rng;

/// Steps without the clock moving after which a world is said to turn in circles.
const STEPS_AT_ONE_INSTANT_MAX: u64 = 5_000_000;

pub(crate) type TaskId = u64;
/// The future given to `run_until`.
const ROOT: TaskId = 0;

/// A thing to do at a point in time.
pub(crate) type Action = Box<dyn FnOnce() + Send>;
/// When, a random number for those at the same instant, and a serial number.
pub(crate) type Appointment = (Duration, u64, u64);

struct Task {
    name: &'static str,
    /// Taken out while it is polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Arc<TaskWaker>,
}

struct State {
    now: Duration,
    rng: Rng,
    serial: u64,
    ready: Vec<TaskId>,
    tasks: BTreeMap<TaskId, Task>,
    agenda: BTreeMap<Appointment, Action>,
    due: Vec<Action>,
    is_running: bool,
    steps_at_this_instant: u64,
}

/// What runs, and when. One thread at a time runs it.
pub(crate) struct World {
    seed: u64,
    state: Mutex<State>,
}

/// What a step is about.
enum Step {
    Poll(TaskId),
    Do(Action),
    /// Time went on.
    Later,
    Deadlock,
}

struct TaskWaker {
    world: Weak<World>,
    id: TaskId,
    is_ready: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::SeqCst)
            && let Some(world) = self.world.upgrade()
        {
            world.state.lock().ready.push(self.id);
        }
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let state = State {
            now: Duration::ZERO,
            rng: Rng::new(seed, 1),
            serial: ROOT,
            ready: Vec::new(),
            tasks: BTreeMap::new(),
            agenda: BTreeMap::new(),
            due: Vec::new(),
            is_running: false,
            steps_at_this_instant: 0,
        };
        Arc::new(Self { seed, state: Mutex::new(state) })
    }

    pub(crate) fn now(&self) -> Duration {
        self.state.lock().now
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Does `action` at `time`, or as soon as the past allows.
    pub(crate) fn appoint(&self, time: Duration, action: Action) -> Appointment {
        let mut state = self.state.lock();
        state.serial += 1;
        let appointment = (time.max(state.now), state.rng.next(), state.serial);
        state.agenda.insert(appointment, action);
        appointment
    }

    /// Forgets what was to be done, if it is not due yet.
    pub(crate) fn cancel(&self, appointment: &Appointment) {
        let action = self.state.lock().agenda.remove(appointment);
        drop(action);
    }

    pub(crate) fn spawn(self: &Arc<Self>, name: &'static str, future: BoxFuture<'static, ()>) {
        let mut state = self.state.lock();
        state.serial += 1;
        let id = state.serial;
        let waker = Arc::new(TaskWaker { world: Arc::downgrade(self), id, is_ready: true.into() });
        state.tasks.insert(id, Task { name, future: Some(future), waker });
        state.ready.push(id);
    }

    /// Whether a task could go on at once.
    pub(crate) fn has_ready(&self) -> bool {
        !self.state.lock().ready.is_empty()
    }

    /// Runs everything until `root` is ready.
    pub(crate) fn run_until<F: Future>(self: &Arc<Self>, root: F) -> F::Output {
        let mut root = std::pin::pin!(root);
        let root_waker = Arc::new(TaskWaker { world: Arc::downgrade(self), id: ROOT, is_ready: true.into() });
        let waker = Waker::from(Arc::clone(&root_waker));
        let _running = Running::begin(self);
        self.state.lock().ready.push(ROOT);
        loop {
            match self.choose() {
                Step::Poll(ROOT) => {
                    root_waker.is_ready.store(false, Ordering::SeqCst);
                    if let Poll::Ready(output) = root.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return output;
                    }
                }
                Step::Poll(id) => self.poll_task(id),
                Step::Do(action) => action(),
                Step::Later => {}
                Step::Deadlock => panic!("{}", self.deadlock()),
            }
        }
    }

    /// Draws what happens next among all that could.
    fn choose(&self) -> Step {
        let mut state = self.state.lock();
        let state = &mut *state;
        while let Some(entry) = state.agenda.first_entry() {
            if entry.key().0 > state.now {
                break;
            }
            state.due.push(entry.remove());
        }
        let choices = state.ready.len() + state.due.len();
        if choices == 0 {
            let Some((&(time, _, _), _)) = state.agenda.first_key_value() else { return Step::Deadlock };
            state.now = time;
            state.steps_at_this_instant = 0;
            return Step::Later;
        }
        state.steps_at_this_instant += 1;
        assert!(
            state.steps_at_this_instant < STEPS_AT_ONE_INSTANT_MAX,
            "seed {}: tasks wake each other for ever at {:?}",
            self.seed,
            state.now
        );
        let choice = state.rng.index(choices);
        if choice < state.ready.len() {
            Step::Poll(state.ready.swap_remove(choice))
        } else {
            Step::Do(state.due.swap_remove(choice - state.ready.len()))
        }
    }

    fn poll_task(&self, id: TaskId) {
        let (mut future, waker) = {
            let mut state = self.state.lock();
            // An ended task may be woken once more.
            let Some(task) = state.tasks.get_mut(&id) else { return };
            let Some(future) = task.future.take() else { return };
            (future, Arc::clone(&task.waker))
        };
        waker.is_ready.store(false, Ordering::SeqCst);
        let poll = future.as_mut().poll(&mut Context::from_waker(&Waker::from(waker)));
        let leftover = {
            let mut state = self.state.lock();
            match (poll, state.tasks.get_mut(&id)) {
                (Poll::Pending, Some(task)) => {
                    task.future = Some(future);
                    (None, None)
                }
                _ => (Some(future), state.tasks.remove(&id)),
            }
        };
        // Dropped without the lock: what it owns may come back here.
        drop(leftover);
    }

    fn deadlock(&self) -> String {
        let state = self.state.lock();
        let names: Vec<_> = state.tasks.values().map(|task| task.name).collect();
        format!(
            "seed {}: deadlock at {:?}: nothing can run and nothing is due; waiting: the main future, tasks {names:?}",
            self.seed, state.now
        )
    }

    /// Drops all tasks, as killing the process would. What the disks were told goes on.
    pub(crate) fn kill(&self) {
        loop {
            let tasks = std::mem::take(&mut self.state.lock().tasks);
            if tasks.is_empty() {
                return;
            }
            drop(tasks);
        }
    }

    /// Forgets all that is due: the power is gone.
    pub(crate) fn forget_agenda(&self) {
        let (agenda, due) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.agenda), std::mem::take(&mut state.due))
        };
        drop((agenda, due));
    }
}

/// Marks a world as run by somebody.
struct Running<'a>(&'a World);

impl<'a> Running<'a> {
    fn begin(world: &'a World) -> Self {
        let was_running = std::mem::replace(&mut world.state.lock().is_running, true);
        assert!(!was_running, "a world is run by one future at a time");
        Self(world)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_running = false;
        state.ready.retain(|&id| id != ROOT);
    }
}
