//! Packing on other threads: compression and strong checksums take longer than handing a block to a
//! disk, and the thread that syncs a txg has all of its disks to keep busy.
//!
//! ```text
//!   sync ─► job ─► queue ─► up to four tasks, wherever the environment runs them ─► answer ─► sync
//! ```
//! Each task does one job at a time and then lets others of its thread go first, so that the sync,
//! should it share that thread, waits for no more than a job or two. What is short, or somebody waits
//! for, is packed where it is asked for.
//!
//! Invariants
//! - A job is answered or done by who asked for it, though a task ends in a panic.
//!   (test: `a_job_that_panics_is_tried_by_who_wants_it`)

use std::collections::VecDeque;
use std::sync::Arc;

use env::Env;
use futures::channel::oneshot;
use parking_lot::Mutex;

/// Tasks that pack at the same time.
const TASKS_MAX: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait, and how many tasks do them.
#[derive(Clone, Default)]
pub(crate) struct Packers(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    tasks: usize,
}

impl Packers {
    /// What `job` comes to, done on some other thread of `env` if it has several.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        env: &dyn Env,
        job: impl Fn() -> T + Clone + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        let there = job.clone();
        // Who no longer waits for the answer does not miss it.
        self.add(env, Box::new(move || drop(answer.send(there()))));
        answered.await.unwrap_or_else(|_| job())
    }

    fn add(&self, env: &dyn Env, job: Job) {
        let mut state = self.0.lock();
        state.jobs.push_back(job);
        if state.tasks < TASKS_MAX {
            state.tasks += 1;
            drop(state);
            let task = Task { packers: self.clone(), is_counted: true };
            env.spawn("pack", Box::pin(task.work()));
        }
    }
}

/// One of the tasks, counted until it finds nothing to do, or ends otherwise.
struct Task {
    packers: Packers,
    is_counted: bool,
}

impl Task {
    /// The next job. Without one the task no longer counts, under the same lock: whoever adds a job
    /// then makes a new task.
    fn next(&mut self) -> Option<Job> {
        let mut state = self.packers.0.lock();
        let job = state.jobs.pop_front();
        if job.is_none() {
            state.tasks -= 1;
            self.is_counted = false;
        }
        job
    }

    async fn work(mut self) {
        while let Some(job) = self.next() {
            job();
            env::let_others_first().await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.is_counted {
            self.packers.0.lock().tasks -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread::ThreadId;

    use device::{Options, RealEnv};
    use futures::future::join_all;

    use super::*;

    #[test]
    fn jobs_are_done_on_several_threads_and_answered_in_any_number() {
        let env = RealEnv::new(Options { workers: 3, ..Options::default() });
        let packers = Packers::default();
        let jobs = (0..1000_u64).map(|n| {
            packers.run(&*env, move || {
                std::thread::sleep(std::time::Duration::from_micros(20));
                (n * n, std::thread::current().id())
            })
        });
        let answers: Vec<(u64, ThreadId)> = env.block_on(join_all(jobs));
        assert!(answers.iter().zip(0..).all(|((answer, _), n)| *answer == n * n));
        let threads: std::collections::HashSet<_> = answers.iter().map(|(_, thread)| *thread).collect();
        assert!(threads.len() > 1 && !threads.contains(&std::thread::current().id()), "{threads:?}");
        let tasks = || packers.0.lock().tasks;
        while tasks() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(env.block_on(packers.run(&*env, || 7)), 7, "tasks come again");
    }

    #[test]
    fn a_job_that_panics_is_tried_by_who_wants_it() {
        let env = RealEnv::new(Options::default());
        let packers = Packers::default();
        for _ in 0..2 * TASKS_MAX {
            let tries = Arc::new(AtomicUsize::new(0));
            let job = move || assert!(tries.fetch_add(1, SeqCst) > 0, "the first time");
            env.block_on(packers.run(&*env, job));
        }
        assert_eq!(env.block_on(packers.run(&*env, || 7)), 7);
    }
}
