//! Mounts that get their requests over io_uring: what others find out about file systems, and what only these could
//! get wrong.

use std::fs;

use crate::mounted::World;
use crate::{frozen, mounts, posix, world_over_rings};

/// That requests really come that way.
fn check_way(world: &World) {
    let log = fs::read_to_string(world.run_dir().join("daemon.log")).expect("a daemon writes one");
    assert!(log.contains("requests come over io_uring"), "{log}");
    assert!(!log.contains("takes no more requests"), "{log}");
}

#[test]
fn pjdfstest_finds_nothing_but_what_is_known() {
    let Some(world) = world_over_rings(&["pjdfstest"]) else { return };
    posix::pjdfstest_passes(&world);
    check_way(&world);
    world.finish();
}

#[test]
fn fsx_reads_what_it_wrote() {
    let Some(world) = world_over_rings(&["fsx"]) else { return };
    posix::fsx_passes(&world);
    check_way(&world);
    world.finish();
}

#[test]
fn what_was_written_before_an_unmount_survives_a_kill_after_it() {
    let Some(world) = world_over_rings(&[]) else { return };
    mounts::keeps_what_was_written_before_an_unmount(&world);
    check_way(&world);
    world.finish();
}

#[test]
fn a_thousand_processes_at_once_are_served() {
    let Some(world) = world_over_rings(&[]) else { return };
    mounts::serves_a_thousand_processes(&world);
    check_way(&world);
    world.finish();
}

#[test]
fn requests_that_wait_hold_up_no_others() {
    frozen::hold_up_no_others(World::over_rings);
}
