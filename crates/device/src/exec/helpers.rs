//! Threads that make system calls for those that must not wait in one: operations where there is no io_uring
//! (containers refuse it by seccomp, and old kernels do not have it) or where a ring cannot do them, and the opening
//! and closing of devices, which lasts as long as a disk or a server takes to answer.
//!
//! A thread that waits for one operation alone makes the call itself; only what would be several
//! at once comes here. The hand-off costs two wake-ups, which buys that a mirror's writes, or those
//! of a transaction group, go on at the same time.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::task::Waker;
use std::time::Duration;

use futures::channel::oneshot;
use parking_lot::{Condvar, Mutex};

use super::flight::Flight;
use super::processors;

/// Threads for operations at most: what a device of the usual kind keeps busy with. Calls that may last for ever take
/// none of these away.
const OPERATIONS_MAX: usize = 16;
/// A helper with nothing to do for so long ends.
const IDLE_FOR: Duration = Duration::from_secs(2);

/// What a helper does; it wakes who comes back.
type Job = Box<dyn FnOnce() -> Option<Waker> + Send>;

#[derive(Default)]
struct Desk {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    /// Calls that were taken and have not returned.
    calls: usize,
    started: usize,
}

#[derive(Default)]
struct Helpers {
    desk: Mutex<Desk>,
    work: Condvar,
}

fn helpers() -> &'static Helpers {
    static HELPERS: OnceLock<Helpers> = OnceLock::new();
    HELPERS.get_or_init(Helpers::default)
}

/// Lets a helper do an operation and wake whoever waits for it. When there is no helper, nor a thread
/// to be had for one, it is done here and now, and who is to be woken comes back.
pub(crate) fn take(flight: Flight) -> Option<Waker> {
    let helpers = helpers();
    let refused = helpers.take(&mut helpers.desk.lock(), Box::new(|| flight.run_to_end()));
    // Nothing is locked any more: a file that is closed at the end of the operation may come here.
    refused.and_then(|job| job())
}

/// Has a thread of its own make a call that may last: the loops that serve others do not wait in it. When no thread is to be
/// had, it is made here and now.
pub async fn call_elsewhere<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    call(make).await.expect("a helper ends only between calls")
}

/// Lets a helper make a call that may last for ever, and gives what it returned. When no thread is to be had, it is
/// made here and now.
pub(crate) fn call<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let helpers = helpers();
    let (tell, told) = oneshot::channel();
    let job = move || {
        // Nobody may be waiting for it any more; what it gave is dropped here then.
        let _ = tell.send(make());
        helpers.desk.lock().calls -= 1;
        None
    };
    let mut desk = helpers.desk.lock();
    desk.calls += 1;
    let refused = helpers.take(&mut desk, Box::new(job));
    drop(desk);
    if let Some(job) = refused {
        job();
    }
    told
}

impl Helpers {
    /// Gives a job to a thread that is idle or new, or back if there is none.
    fn take(&'static self, desk: &mut Desk, job: Job) -> Option<Job> {
        if desk.jobs.len() >= desk.idle && desk.threads < OPERATIONS_MAX + desk.calls {
            self.start(desk);
        }
        if desk.threads == 0 {
            return Some(job);
        }
        desk.jobs.push_back(job);
        self.work.notify_one();
        None
    }

    /// Starts another, if the system gives a thread.
    fn start(&'static self, desk: &mut Desk) {
        let thread = std::thread::Builder::new().name(format!("sawmill-io-{}", desk.started + 1));
        if thread.spawn(move || self.run()).is_ok() {
            desk.threads += 1;
            desk.started += 1;
        }
    }

    fn run(&self) {
        processors::unbind();
        let mut desk = self.desk.lock();
        loop {
            if let Some(job) = desk.jobs.pop_front() {
                drop(desk);
                job().into_iter().for_each(Waker::wake);
                desk = self.desk.lock();
                continue;
            }
            desk.idle += 1;
            let waited = self.work.wait_for(&mut desk, IDLE_FOR);
            desk.idle -= 1;
            if waited.timed_out() && desk.jobs.is_empty() {
                desk.threads -= 1;
                return;
            }
        }
    }
}

/// How many threads there are.
#[cfg(test)]
pub(crate) fn threads() -> usize {
    helpers().desk.lock().threads
}
