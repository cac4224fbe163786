//! Every request on a thread of its own, so that its I/O is polled by the thread that asked for it, on that
//! thread's ring.

use device::RealEnv;
use engine::Runner;
use env::BoxFuture;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Threads that may block, one for each request at work.
pub struct OwnThreads {
    env: Arc<RealEnv>,
    /// Requests also come from mounts, whose loops are not the runtime's.
    runtime: Handle,
}

impl OwnThreads {
    /// Of the runtime in which it is called.
    pub fn new(env: Arc<RealEnv>) -> Self {
        Self { env, runtime: Handle::current() }
    }
}

impl Runner for OwnThreads {
    fn run(&self, work: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let (env, runtime) = (Arc::clone(&self.env), self.runtime.clone());
        Box::pin(async move {
            let done = runtime.spawn_blocking(move || env.block_on(work)).await;
            // A panic has ended the daemon already, unless a test has it otherwise.
            done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        })
    }
}
