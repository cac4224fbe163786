//! What else is on the host: the daemon, other implementations, the clock.

use super::Finding;
use crate::session::Session;
use control::{ClientError, DaemonStatus, DaemonStatusCall};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Where mount(8) looks for helpers.
const HELPERS: [&str; 2] = ["/sbin/mount.zfs", "/sbin/mount.fuse.sawmill"];
/// A clock that is before this, the beginning of 2026, was never set.
const CLOCK_MIN: Duration = Duration::from_secs(1_767_225_600);

pub fn findings(session: &Session) -> Vec<Finding> {
    let asked = session.ask_running(&DaemonStatusCall {});
    let mut all = vec![
        daemon(&asked),
        clock(SystemTime::now()),
        host_id(device::host_id()),
        commands(found_in_path("zpool").as_deref(), std::env::current_exe().ok().as_deref()),
        module(::daemon::has_kernel_module()),
        helpers(&HELPERS.map(Path::new).into_iter().filter(|path| !path.exists()).collect::<Vec<_>>()),
    ];
    all.extend(asked.iter().flat_map(missing_pools));
    all
}

fn daemon(asked: &Result<DaemonStatus, ClientError>) -> Finding {
    let (what, own) = ("daemon", env!("CARGO_PKG_VERSION"));
    match asked {
        Ok(status) if status.version != own => Finding::bad(
            what,
            format!("version {} runs (pid {}), and this program is {own}", status.version, status.pid),
            "Run 'sawmill daemon stop': the next command starts the new version, which opens the same pools.",
        ),
        Ok(status) => Finding::good(
            what,
            format!(
                "runs (pid {}, version {}) and has {} pools open",
                status.pid,
                status.version,
                status.pools.len()
            ),
        ),
        Err(ClientError::Unreachable { .. }) => {
            Finding::good(what, "does not run; the first command starts it")
        }
        Err(error) => Finding::bad(
            what,
            error.to_string(),
            "See 'sawmill daemon logs'; end the process with 'sawmill daemon stop'.",
        ),
    }
}

/// Pools that the daemon could not open.
fn missing_pools(status: &DaemonStatus) -> Vec<Finding> {
    let one = |(pool, why): &(String, Vec<String>)| {
        let why = why.first().map_or("", String::as_str);
        Finding::bad("pool", format!("'{pool}' is not open: {why}"), "See 'zpool status'.")
    };
    status.failed.iter().map(one).collect()
}

fn clock(now: SystemTime) -> Finding {
    match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) if since >= CLOCK_MIN => Finding::good("clock", "is set"),
        _ => Finding::bad(
            "clock",
            "was never set",
            "Set it: times of files and snapshots come from it, and a pool that was used later is refused.",
        ),
    }
}

fn host_id(id: u32) -> Finding {
    match id {
        0 => Finding::note(
            "host id",
            "there is none, so another host is not told apart, and multihost=on is refused",
            "Write one: zgenhostid, or 'head -c 4 /dev/urandom > /etc/hostid'.",
        ),
        id => Finding::good("host id", format!("{id:08x}")),
    }
}

fn found_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// `zpool` in PATH, and this program.
fn commands(zpool: Option<&Path>, own: Option<&Path>) -> Finding {
    let what = "commands";
    let Some(zpool) = zpool else {
        return Finding::note(
            what,
            "no 'zpool' is in PATH",
            "Run 'sawmill zpool', or make install, which makes links for zpool and zfs.",
        );
    };
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    match own.and_then(real) == real(zpool) {
        true => Finding::good(what, format!("{} is this program", zpool.display())),
        false => Finding::note(
            what,
            format!("{} is another program", zpool.display()),
            "Run 'sawmill zpool' for this one.",
        ),
    }
}

fn module(is_loaded: bool) -> Finding {
    match is_loaded {
        false => Finding::good("kernel module", "ZFS of the kernel is not loaded"),
        true => Finding::note(
            "kernel module",
            "ZFS of the kernel is loaded",
            "Never import a pool in both. The daemon keeps no /etc/zfs/zpool.cache, because the module has it.",
        ),
    }
}

fn helpers(missing: &[&Path]) -> Finding {
    let what = "mount helpers";
    match missing {
        [] => Finding::good(what, HELPERS.join(", ")),
        [first, ..] => Finding::note(
            what,
            format!("{} is missing", first.display()),
            "'mount -t zfs', /etc/fstab and 'mount -o remount' need them: make install, or the package.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Grade;

    #[test]
    fn a_daemon_of_another_version_is_bad() {
        let status =
            |version: &str| Ok(DaemonStatus { version: version.to_owned(), ..DaemonStatus::default() });
        assert_eq!(daemon(&status(env!("CARGO_PKG_VERSION"))).grade, Grade::Good);
        assert_eq!(daemon(&status("0.0.1")).grade, Grade::Bad);
    }

    #[test]
    fn a_pool_that_is_not_open_is_bad() {
        let failed = vec![("tank".to_owned(), vec!["no devices".to_owned()])];
        let [found] = &missing_pools(&DaemonStatus { failed, ..DaemonStatus::default() })[..] else {
            panic!("one pool")
        };
        assert_eq!((found.grade, found.seen.as_str()), (Grade::Bad, "'tank' is not open: no devices"));
    }

    #[test]
    fn a_clock_of_1970_was_never_set() {
        assert_eq!(clock(SystemTime::UNIX_EPOCH).grade, Grade::Bad);
        assert_eq!(clock(SystemTime::UNIX_EPOCH + CLOCK_MIN).grade, Grade::Good);
    }

    #[test]
    fn the_command_of_another_implementation_is_noted() {
        let own = std::env::current_exe().expect("known");
        assert_eq!(commands(Some(&own), Some(&own)).grade, Grade::Good);
        assert_eq!(commands(Some(Path::new("/bin/sh")), Some(&own)).grade, Grade::Note);
        assert_eq!(commands(None, Some(&own)).grade, Grade::Note);
        assert_eq!([host_id(0).grade, host_id(7).grade], [Grade::Note, Grade::Good]);
        assert_eq!([module(true).grade, module(false).grade], [Grade::Note, Grade::Good]);
        assert_eq!([helpers(&[Path::new("/x")]).grade, helpers(&[]).grade], [Grade::Note, Grade::Good]);
    }
}
