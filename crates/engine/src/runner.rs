//! Where the work of a request is done.

use env::BoxFuture;

/// Takes the work of a request to its end.
///
/// In the daemon each request has a thread of its own, so that its I/O is polled by the thread that asked for
/// it, and work that was begun goes on to its end whoever goes away meanwhile.
pub trait Runner: Send + Sync + 'static {
    /// Does it; ready when it is done.
    fn run(&self, work: BoxFuture<'static, ()>) -> BoxFuture<'static, ()>;
}

/// The work is done by whoever asks, and dropped with what asks: for programs that have the engine in
/// themselves, and simulations.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnTheSpot;

impl Runner for OnTheSpot {
    fn run(&self, work: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        work
    }
}
