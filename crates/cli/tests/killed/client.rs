//! What a writer promises to tell apart: what returned, and what was under way.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One program that writes, and knows what it was told is stable.
pub trait Client: Send {
    /// Before a round, while nothing is killed.
    fn prepare(&mut self, root: &Path) -> io::Result<()>;
    /// One change, made stable before it returns.
    fn step(&mut self, root: &Path) -> io::Result<()>;
    /// After the daemon is back: whether what it finds may be there. What it finds must stay.
    fn check(&mut self, root: &Path) -> Result<(), String>;
}

/// Steps until one fails, which it may only once `killed`; counts those that were acknowledged.
pub fn work(client: &mut dyn Client, root: &Path, acknowledged: &AtomicU64, killed: &AtomicBool) {
    loop {
        match client.step(root) {
            Ok(()) => acknowledged.fetch_add(1, Ordering::SeqCst),
            Err(_) if killed.load(Ordering::SeqCst) => return,
            Err(error) => panic!("a request failed while the daemon lived: {error}"),
        };
    }
}
