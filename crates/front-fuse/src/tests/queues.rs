//! Queues that cannot be had after all.

use super::kernel::Kernel;

#[test]
fn a_session_that_gets_no_queues_hangs_up() {
    assert!(Kernel::without_queues().is_left());
}
