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

use engine::UserIds;
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
    status_of(thread).is_some_and(|status| is_permitted(&status, geteuid().as_raw()))
}

/// The user and the groups of a thread, by which the kernel judges what the thread does with files. `None` for root, and
/// for a thread in another user namespace. (The kernel leaves them out of most requests: fuse.h, `FUSE_ALLOW_IDMAP`.)
pub(crate) fn user_of(thread: u32) -> Option<UserIds> {
    user_in(&status_of(thread)?)
}

/// `/proc/PID/status` of a thread in the user namespace of this process.
fn status_of(thread: u32) -> Option<String> {
    let dir = Path::new("/proc").join(thread.to_string());
    // Another mount of /proc would show threads of another PID namespace.
    let shows_us = read_link("/proc/self").is_ok_and(|own| own == Path::new(&std::process::id().to_string()));
    let namespace = |dir: &Path| read_link(dir.join("ns/user")).ok();
    let is_near = || namespace(&dir).is_some_and(|of| namespace(Path::new("/proc/self")) == Some(of));
    let status = read_to_string(dir.join("status")).ok()?;
    (thread != 0 && shows_us && is_near()).then_some(status)
}

fn user_in(status: &str) -> Option<UserIds> {
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let words = status.lines().find_map(|line| line.strip_prefix(name))?;
        words.split_whitespace().map(|word| word.parse().ok()).collect()
    };
    // Real, effective, saved and file system id.
    let of_files = |name| numbers(name)?.get(3).copied();
    let uid = of_files("Uid:").filter(|uid| *uid != 0)?;
    let gids = std::iter::once(of_files("Gid:")?).chain(numbers("Groups:")?).collect();
    Some(UserIds { uid, gids })
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
    fn a_user_is_who_the_kernel_judges_files_by_and_never_root() {
        let status = |uids: &str| format!("Uid:\t{uids}\nGid:\t5\t6\t7\t8\nGroups:\t10 11 \n");
        let user = user_in(&status("1\t2\t3\t4")).expect("a user");
        assert_eq!((user.uid, user.gids), (4, vec![8, 10, 11]));
        assert!(user_in(&status("1\t2\t3\t0")).is_none());
        assert!(user_in("Uid:\t1\t2\t3\t4\n").is_none() && user_in("").is_none());
        assert!(user_of(0).is_none());
    }

    #[test]
    fn a_thread_that_nobody_sees_may_not() {
        assert!(!may_administer(0));
        let own = may_administer(rustix::thread::gettid().as_raw_pid() as u32);
        let status = read_to_string("/proc/thread-self/status").expect("of this thread");
        assert_eq!(own, is_permitted(&status, geteuid().as_raw()));
    }
}
