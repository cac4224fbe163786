//! Where systemd runs and has our unit, the daemon of root is its service: it is not a child of whoever
//! typed the first command, ends after what uses its mounts, and is there again after a boot.

use control::RunPaths;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The unit of the daemon.
const UNIT: &str = "sawmill.service";

/// Where units are looked for.
const UNIT_DIRS: &[&str] = &[
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The run-time directory of the unit's daemon.
const RUN_DIR: &str = "/run/sawmill";

/// There while systemd runs.
const RUNNING: &str = "/run/systemd/system";

/// Has systemd start the daemon of these paths, and waits until it is ready; whether that was done.
/// A daemon of other paths is none of systemd's.
pub fn start(paths: &RunPaths) -> bool {
    is_ours(paths) && systemctl("start")
}

/// Shows what the unit's daemon of these paths has to tell, and goes on as more comes if `follow`; false if
/// the daemon is none of systemd's.
pub fn show_journal(paths: &RunPaths, follow: bool) -> bool {
    if !is_ours(paths) || !systemctl("is-active") {
        return false;
    }
    let mut command = Command::new("journalctl");
    command.args(["--unit", UNIT, "--output", "cat", "--no-pager"]);
    command.args(follow.then_some("--follow")).stdin(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether a daemon of these paths is the unit's.
fn is_ours(paths: &RunPaths) -> bool {
    let is_systems = rustix::process::geteuid().is_root() && paths.run_dir() == Path::new(RUN_DIR);
    is_systems && is_known(Path::new("/"))
}

/// Whether systemd runs, and knows the unit, below this root.
fn is_known(root: &Path) -> bool {
    let below = |path: &str| -> PathBuf { root.join(path.trim_start_matches('/')) };
    below(RUNNING).is_dir() && UNIT_DIRS.iter().any(|dir| below(dir).join(UNIT).exists())
}

fn systemctl(verb: &str) -> bool {
    let mut command = Command::new("systemctl");
    command.args([verb, UNIT]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Tells systemd that this process, if it is its service, answers from now on.
pub fn notify_ready() {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = tell(Path::new(&socket), b"READY=1") {
        tracing::warn!(%error, "systemd was not told that the daemon is ready");
    }
}

fn tell(socket: &Path, words: &[u8]) -> io::Result<()> {
    UnixDatagram::unbound()?.send_to(words, socket).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_unit_counts_only_where_systemd_runs() {
        let root = tempfile::tempdir().expect("a directory");
        let units = root.path().join("usr/lib/systemd/system");
        fs::create_dir_all(&units).expect("a directory");
        fs::write(units.join(UNIT), "").expect("writes");
        assert!(!is_known(root.path()));
        fs::create_dir_all(root.path().join("run/systemd/system")).expect("a directory");
        assert!(is_known(root.path()));
        fs::remove_file(units.join(UNIT)).expect("is there");
        assert!(!is_known(root.path()));
    }

    #[test]
    fn systemd_is_told_in_one_message() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("listens");
        tell(&path, b"READY=1").expect("sends");
        let mut heard = [0; 16];
        let len = listener.recv(&mut heard).expect("hears");
        assert_eq!(&heard[..len], b"READY=1");
    }
}
