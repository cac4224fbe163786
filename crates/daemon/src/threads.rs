//! Every request on a thread of its own, so that its I/O is polled by the thread that asked for it, on that
//! thread's ring.

use device::RealEnv;
use engine::Runner;
use env::BoxFuture;
use std::sync::Arc;

/// Threads that may block, one for each request at work.
pub struct OwnThreads {
    env: Arc<RealEnv>,
}

impl OwnThreads {
    /// Of the runtime in which requests are taken.
    pub fn new(env: Arc<RealEnv>) -> Self {
        Self { env }
    }
}

impl Runner for OwnThreads {
    fn run(&self, work: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let env = Arc::clone(&self.env);
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || env.block_on(work)).await;
            // A panic has ended the daemon already, unless a test has it otherwise.
            done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        })
    }
}
