//! Threads that make system calls where there is no io_uring: containers refuse it (seccomp), and
//! old kernels do not have it. A ring that cannot do something leaves it to them, too.
//!
//! A thread that waits for one operation alone makes the call itself; only what would be several
//! at once comes here. The hand-off costs two wake-ups, which buys that a mirror's writes, or those
//! of a transaction group, go on at the same time.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::task::Waker;

use parking_lot::{Condvar, Mutex};

use super::flight::Flight;

/// Threads at most: what a device of the usual kind keeps busy with.
const HELPERS_MAX: usize = 16;

#[derive(Default)]
struct Desk {
    flights: VecDeque<Flight>,
    idle: usize,
    threads: usize,
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
    let mut desk = helpers.desk.lock();
    if desk.flights.len() < desk.idle {
        desk.flights.push_back(flight);
        helpers.work.notify_one();
        return None;
    }
    if desk.threads < HELPERS_MAX && start(helpers, desk.threads) {
        desk.threads += 1;
    }
    if desk.threads == 0 {
        drop(desk);
        return flight.run_to_end();
    }
    desk.flights.push_back(flight);
    None
}

/// Starts helper `n`; false when the system gives no thread.
fn start(helpers: &'static Helpers, n: usize) -> bool {
    let thread = std::thread::Builder::new().name(format!("sawmill-io-{}", n + 1));
    thread.spawn(move || run(helpers)).is_ok()
}

fn run(helpers: &'static Helpers) {
    let mut desk = helpers.desk.lock();
    loop {
        match desk.flights.pop_front() {
            Some(flight) => {
                drop(desk);
                flight.run_to_end().into_iter().for_each(Waker::wake);
                desk = helpers.desk.lock();
            }
            None => {
                desk.idle += 1;
                helpers.work.wait(&mut desk);
                desk.idle -= 1;
            }
        }
    }
}

/// How many threads there are.
#[cfg(test)]
pub(crate) fn threads() -> usize {
    helpers().desk.lock().threads
}
