//! How long a test may take, and which ones are begun first.

use std::time::Duration;

/// Of any test: many times what the longest takes on two cores, so that a machine that is slow for a while passes.
const LIMIT: Duration = Duration::from_secs(600);

/// The tests that take longest, longest first: the end of a run would otherwise wait for one of them alone. A
/// name that is not there any more does no harm, one that is not here costs some time.
const LONG: &[&str] = &[
    "pool/crash administration::a_power_cut_amid_administration_leaves_what_was_or_what_is_to_be",
    "pool/crash evacuations::a_power_cut_while_a_vdev_is_emptied_leaves_every_promise_and_goes_on",
    "pool/crash sweeps::a_power_cut_while_free_space_is_initialized_damages_nothing",
    "cli/daemon pools_with_few_features_are_whole_and_can_be_upgraded",
    "pool/crash sweeps::a_power_cut_while_free_space_is_trimmed_damages_nothing",
    "pool/crash foreground::commits_hardly_wait_for_work_in_the_background",
    "pool/workloads sizes::every_sector_size_has_its_ring_of_uberblocks",
    "pool/workloads sizes::a_pool_grows_with_its_devices",
    "pool/golden_write pools_with_the_features_of_openzfs_2_3_stay_sound",
    "pool/crash removals::removing_a_failing_log_does_not_hang",
    "pool/crash sweeps::a_sweep_under_load_leaves_every_block_as_it_was",
    "cli/gluster neither_a_daemon_that_is_killed_nor_a_log_that_is_gone_stops_a_writer",
    "cli/gluster what_is_acknowledged_is_on_each_brick_though_all_daemons_are_killed",
];

/// These tests hardly use a processor, because they wait for timeouts and daemons. They run beside the other tests.
const WAITING: &[&str] = &[
    "cli/processes a_process_that_does_not_answer_keeps_no_other_pool_from_use",
    "cli/daemon who_waits_for_another_change_is_told_so_and_can_give_up",
    "cli/programs differences::a_comparison_leaves_no_snapshot_when_somebody_reads_it_or_the_daemon_dies",
    "cli/daemon a_slow_change_of_one_pool_stops_no_other",
    "cli/programs frozen::writers_go_on_though_their_log_does_not_answer",
    "cli/programs frozen::a_lone_writer_goes_on_though_its_log_does_not_answer",
    "cli/programs standby::a_server_on_a_replica_has_what_was_committed_before_its_last_snapshot",
    "cli/programs soak::a_soak_loses_nothing_and_the_daemon_does_not_grow",
    "cli/storm a_storm_of_commands_and_kills_leaves_what_was_promised",
];

/// True for a test that hardly uses a processor.
pub fn waits(name: &str) -> bool {
    WAITING.contains(&name)
}

/// The limit of the test of this name.
pub fn of(_name: &str) -> Duration {
    LIMIT
}

/// Tests are begun in this order.
pub fn turn(name: &str) -> usize {
    LONG.iter().position(|long| name == *long).unwrap_or(LONG.len())
}
