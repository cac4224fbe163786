//! How work in the background gives way to what clients wait for.
//!
//! Its requests are of the device queues' last class, and between its steps it rests when somebody else has requests
//! under way: a scan as long as the step took, so that half of the time a device is the clients' alone; a sweep
//! eight times as long, for nobody waits for the end of one, and a device writes slower than it reads.
//! (test: `commits_hardly_wait_for_a_sweep`)

use std::sync::Arc;
use std::time::Duration;

use vdev::Leaf;

use crate::Pool;

impl Pool {
    /// Waits so many times as long as it has been since `started` if others have I/O under way on one of these leaves, now
    /// that the caller has none.
    pub(crate) async fn rest_if_others_wait(&self, on: &[Arc<Leaf>], started: Duration, times: u32) {
        if on.iter().any(|leaf| leaf.stats().snapshot().in_flight > 0) {
            self.env.sleep(self.env.now().saturating_sub(started) * times).await;
        }
    }
}
