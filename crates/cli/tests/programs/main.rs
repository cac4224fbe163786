//! Real programs on a mounted pool: databases and `git` over a `kill -9` of the daemon, archives
//! there and back, and the system calls that programs rely on.
//!
//! Each test ends by closing the pool, which `zdb` then looks through. A program that is not
//! installed is a loud skip, and a failure on CI.
#![forbid(unsafe_code)]

mod accounts;
mod acls;
mod archives;
mod auto_snapshot;
mod beside_ext4;
mod cached;
mod calls;
mod clones;
mod ctldir;
#[path = "../database/mod.rs"]
mod database;
mod differences;
mod drills;
mod exerciser;
mod frozen;
mod full_host;
mod git;
mod handles;
mod idmapped;
mod in_place;
mod legacy;
mod mount_points;
#[path = "../mounted/mod.rs"]
mod mounted;
mod mounts;
mod moves;
mod posix;
mod postgres;
mod replicas;
mod rescued;
mod rewrite;
mod rings;
mod rollbacks;
mod sanoid;
mod seen_elsewhere;
mod shell;
mod soak;
mod sqlite;
mod standby;
mod terminal;
mod unnamed;
mod versions;
mod writeback;

use mounted::World;
use oracle::needs::Need;

const VDEVS: &str = "mirror a b log c";
const DISK_MIB: u64 = 1024;

/// A pool with a log device, if all `programs` are there.
fn world(programs: &[&'static str]) -> Option<World> {
    if are_there(programs) { World::new(VDEVS, DISK_MIB) } else { None }
}

/// The same, with mounts that get their requests over io_uring.
fn world_over_rings(programs: &[&'static str]) -> Option<World> {
    if are_there(programs) { World::over_rings(VDEVS, DISK_MIB) } else { None }
}

fn are_there(programs: &[&'static str]) -> bool {
    for program in programs {
        if shell::find(program).is_none() {
            Need::Program(program).is_missing(&format!("{program} is not installed"));
            return false;
        }
    }
    true
}
