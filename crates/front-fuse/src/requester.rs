//! The thread that makes a request, as `/proc` shows it.
//!
//! The kernel checks modes before it passes a request on. The capability to ignore modes
//! (CAP_DAC_OVERRIDE) passes this check, and root of a container has this capability. A change of
//! snapshots takes more rights: see [`may_administer`].
//!
//! The thread waits for the response in the kernel, so that its number belongs to no other thread
//! meanwhile.

use std::fs::{read_link, read_to_string};
use std::path::Path;

use rustix::process::geteuid;

/// CAP_SYS_ADMIN, as a bit of the capabilities in `/proc/PID/status` (capabilities(7)).
const SYS_ADMIN: u64 = 1 << 21;

/// True if a thread may change snapshots through a mount: it has the capability to administer the system
/// (CAP_SYS_ADMIN) in the user namespace of this process, or this process is another user's than root's,
/// and the thread is the same user's.
///
/// A thread in a PID namespace that this process does not see has the number 0, and may not.
/// (test: `snapshots_are_not_destroyed_by_root_of_a_container`)
pub(crate) fn may_administer(thread: u32) -> bool {
    let dir = Path::new("/proc").join(thread.to_string());
    // Another mount of /proc would show threads of another PID namespace.
    let shows_us = read_link("/proc/self").is_ok_and(|own| own == Path::new(&std::process::id().to_string()));
    let namespace = |dir: &Path| read_link(dir.join("ns/user")).ok();
    let is_near = || namespace(&dir).is_some_and(|of| namespace(Path::new("/proc/self")) == Some(of));
    let Ok(status) = read_to_string(dir.join("status")) else { return false };
    thread != 0 && shows_us && is_near() && is_permitted(&status, geteuid().as_raw())
}

/// The rule for a thread in the same user namespace, by its `/proc/PID/status`.
fn is_permitted(status: &str, own_uid: u32) -> bool {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let capabilities = line("CapEff:").and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
    // Real, effective, saved and file system uid.
    let uid = line("Uid:").and_then(|words| words.split_whitespace().nth(1)?.parse::<u32>().ok());
    capabilities.is_some_and(|all| all & SYS_ADMIN != 0) || own_uid != 0 && uid == Some(own_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uid: u32, capabilities: u64) -> String {
        format!("Name:\tx\nUid:\t1\t{uid}\t1\t1\nCapInh:\tffff\nCapEff:\t{capabilities:016x}\n")
    }

    #[test]
    fn whoever_administers_the_system_or_is_the_daemons_user_is_permitted() {
        assert!(is_permitted(&status(0, SYS_ADMIN), 0));
        assert!(is_permitted(&status(1000, SYS_ADMIN | 1), 0));
        assert!(!is_permitted(&status(0, !SYS_ADMIN), 0), "root of a container");
        assert!(is_permitted(&status(1000, 0), 1000));
        assert!(!is_permitted(&status(1001, 0), 1000));
        assert!(!is_permitted("", 0) && !is_permitted("", 1000));
    }

    #[test]
    fn a_thread_that_nobody_sees_may_not() {
        assert!(!may_administer(0));
        let own = may_administer(rustix::thread::gettid().as_raw_pid() as u32);
        let status = read_to_string("/proc/thread-self/status").expect("of this thread");
        assert_eq!(own, is_permitted(&status, geteuid().as_raw()));
    }
}
