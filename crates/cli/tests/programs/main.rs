//! Real programs on a mounted pool: databases and `git` over a `kill -9` of the daemon, archives
//! there and back, and the system calls that programs rely on.
//!
//! Each test ends by closing the pool, which `zdb` then looks through. A program that is not
//! installed is a loud skip, and a failure on CI.
#![forbid(unsafe_code)]

mod acls;
mod archives;
mod calls;
mod frozen;
mod full_host;
mod git;
#[path = "../mounted/mod.rs"]
mod mounted;
mod mounts;
mod posix;
mod postgres;
mod shell;
mod sqlite;

use mounted::World;
use oracle::needs::Need;

const DISK_MIB: u64 = 1024;

/// A pool with a log device, if all `programs` are there.
fn world(programs: &[&'static str]) -> Option<World> {
    for program in programs {
        if shell::find(program).is_none() {
            Need::Program(program).is_missing(&format!("{program} is not installed"));
            return None;
        }
    }
    World::new("mirror a b log c", DISK_MIB)
}
