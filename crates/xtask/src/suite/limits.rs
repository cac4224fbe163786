//! How long a test may take, and which ones are begun first.

use std::time::Duration;

/// Of any test: many times what the longest takes on two cores, so that a machine that is slow for a while passes.
const LIMIT: Duration = Duration::from_secs(600);

/// The tests that take longest, longest first: the end of a run would otherwise wait for one of them alone. A
/// name that is not there any more does no harm, one that is not here costs some time.
const LONG: &[&str] = &[];

/// The limit of the test of this name.
pub fn of(_name: &str) -> Duration {
    LIMIT
}

/// Tests are begun in this order.
pub fn turn(name: &str) -> usize {
    LONG.iter().position(|long| name.ends_with(long)).unwrap_or(LONG.len())
}
