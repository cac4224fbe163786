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
    "cli/reports postgres_backup_with_zeroed_wal",
    "cli/gluster neither_a_daemon_that_is_killed_nor_a_log_that_is_gone_stops_a_writer",
    "cli/gluster what_is_acknowledged_is_on_each_brick_though_all_daemons_are_killed",
];

/// The packages whose tests start processes and mounts and wait for timeouts.
const OF_COMMANDS: [&str; 5] = ["cli", "control", "daemon", "front-fuse", "supervisor"];

/// Returns true for a test of programs in real time. All other tests compute, most of them with a
/// simulated clock.
pub fn is_of_commands(name: &str) -> bool {
    let package = name.split(['/', ' ']).next().unwrap_or_default();
    OF_COMMANDS.contains(&package)
}

/// The limit of the test of this name.
pub fn of(_name: &str) -> Duration {
    LIMIT
}

/// Tests are begun in this order.
pub fn turn(name: &str) -> usize {
    LONG.iter().position(|long| name == *long).unwrap_or(LONG.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_commands_are_known_by_their_package() {
        assert!(
            is_of_commands("cli/reports diff_and_hard_links") && is_of_commands("daemon start::tests::x")
        );
        assert!(!is_of_commands("client x") && !is_of_commands("pool/crash cli") && !is_of_commands(""));
    }
}
