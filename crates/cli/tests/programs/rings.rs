//! Mounts that get their requests over io_uring: what others find out about file systems, and what only these could
//! get wrong.

use std::fs;

use crate::mounted::World;
use crate::{ctldir, exerciser, frozen, idmapped, mounts, posix, world_over_rings, writeback};

/// Looks at a mount whose requests really come that way, if all `programs` are there.
fn with_rings(programs: &[&'static str], look: fn(&World)) {
    let Some(world) = world_over_rings(programs) else { return };
    look(&world);
    let log = fs::read_to_string(world.run_dir().join("daemon.log")).expect("a daemon writes one");
    assert!(log.contains("requests come over io_uring"), "{log}");
    assert!(!log.contains("takes no more requests"), "{log}");
    world.finish();
}

#[test]
fn pjdfstest_finds_nothing_but_what_is_known() {
    with_rings(&["pjdfstest"], posix::pjdfstest_passes);
}

#[test]
fn fsx_reads_what_it_wrote() {
    with_rings(&["fsx"], posix::fsx_passes);
}

#[test]
fn ids_are_shifted_there_and_back() {
    with_rings(&["python3", "setpriv"], idmapped::shifts_ids);
}

#[test]
fn what_was_synced_outlives_the_daemon() {
    with_rings(&["fsx", "fio"], exerciser::rounds);
}

#[test]
fn what_was_written_before_an_unmount_survives_a_kill_after_it() {
    with_rings(&[], mounts::keeps_what_was_written_before_an_unmount);
}

#[test]
fn a_thousand_processes_at_once_are_served() {
    with_rings(&[], mounts::serves_a_thousand_processes);
}

#[test]
fn snapshots_are_made_destroyed_and_renamed_there() {
    with_rings(&["mv", "setpriv"], ctldir::makes_destroys_and_renames);
}

#[test]
fn a_snapshot_has_what_the_kernel_keeps() {
    with_rings(&["python3"], writeback::snapshots_have_what_the_kernel_keeps);
}

#[test]
fn requests_that_wait_hold_up_no_others() {
    frozen::hold_up_no_others(true);
}
