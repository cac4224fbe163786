//! How long a test may take, and which ones are begun first.

use std::time::Duration;

/// Of any test: many times what the longest takes on two cores, so that a machine that is slow for a while passes.
const LIMIT: Duration = Duration::from_secs(600);

/// The tests that take longest, longest first: the end of a run would otherwise wait for one of them alone. A
/// name that is not there any more does no harm, one that is not here costs some time.
const LONG: &[&str] = &[
    "cli/programs calls::twenty_thousand_files_in_one_directory_are_listed_once_each",
    "cli/memory in_little_memory_much_is_written_and_read_and_scrubbed",
    "cli/programs posix::fsx_reads_what_it_wrote",
    "cli/programs postgres::postgres_keeps_what_its_clients_saw_committed",
    "pool/crash adds::a_power_cut_while_vdevs_are_added_leaves_all_of_them_or_none",
    "engine/failover hosts::a_host_that_comes_back_leaves_the_pool_to_whoever_took_it_over",
    "engine/failover hosts::with_multihost_a_host_that_was_paused_writes_nothing_once_another_has_its_pool",
    "cli/programs frozen::writers_go_on_though_their_log_does_not_answer",
];

/// The limit of the test of this name.
pub fn of(_name: &str) -> Duration {
    LIMIT
}

/// Tests are begun in this order.
pub fn turn(name: &str) -> usize {
    LONG.iter().position(|long| name == *long).unwrap_or(LONG.len())
}
