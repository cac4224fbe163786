//! A deterministic executor: tasks are polled in turn, in the order of their numbers, when woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use env::BoxFuture;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Task {
    polls: usize,
    future: Option<BoxFuture<'static, ()>>,
    woken: Arc<Flag>,
}

#[derive(Default)]
pub struct Tasks(Vec<Task>);

impl Tasks {
    /// Adds a task; its number.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + Send + 'static) -> usize {
        self.0.push(Task {
            polls: 0,
            future: Some(Box::pin(future)),
            woken: Arc::new(Flag(AtomicBool::new(true))),
        });
        self.0.len() - 1
    }

    /// Polls until no task is woken.
    pub fn run(&mut self) {
        while self.0.iter_mut().fold(false, |any, task| task.poll_if_woken() | any) {}
    }

    pub fn is_done(&self, number: usize) -> bool {
        self.0[number].future.is_none()
    }

    /// How often it was polled.
    pub fn polls(&self, number: usize) -> usize {
        self.0[number].polls
    }

    /// Drops the task where it is.
    pub fn cancel(&mut self, number: usize) {
        self.0[number].future = None;
    }
}

impl Task {
    fn poll_if_woken(&mut self) -> bool {
        let Some(future) = &mut self.future else { return false };
        if !self.woken.0.swap(false, Ordering::SeqCst) {
            return false;
        }
        self.polls += 1;
        let waker = Waker::from(Arc::clone(&self.woken));
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.future = None;
        }
        true
    }
}
