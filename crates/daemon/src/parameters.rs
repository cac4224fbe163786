//! Reads tunables of OpenZFS's module that a test sets while the daemon runs. Each tunable is a
//! file in one directory, with the name of the tunable.
//!
//! ```text
//!  SAWMILL_PARAMETERS=DIR   DIR/zfs_scan_suspend_progress, DIR/zfs_removal_suspend_progress ─► ProcessHold
//! ```
//! The daemon repeats the request, so that a pool that is opened later gets the request, too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::{ProcessHold, Service};

const VARIABLE: &str = "SAWMILL_PARAMETERS";
/// How often the files are read.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Reads the files again and again, if the environment names a directory.
pub(crate) fn follow(service: &Arc<dyn Service>) {
    let Some(dir) = std::env::var_os(VARIABLE).map(PathBuf::from) else { return };
    tracing::warn!(dir = %dir.display(), "parameters are followed, as a test wants it");
    let service = Arc::clone(service);
    tokio::spawn(async move {
        let mut last = ProcessHold::default();
        loop {
            let now = read(&dir);
            if (now != last || now != ProcessHold::default())
                && let Err(failure) = service.process_hold(now.clone()).await
            {
                tracing::warn!(%failure, "work is not held back");
            }
            last = now;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
}

fn read(dir: &Path) -> ProcessHold {
    let is_set = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        text.trim().parse::<u64>().is_ok_and(|value| value != 0)
    };
    let (scans, removals) = (is_set("zfs_scan_suspend_progress"), is_set("zfs_removal_suspend_progress"));
    ProcessHold { scans, removals }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_counts_if_its_file_has_a_number_other_than_zero() {
        let dir = tempfile::tempdir().expect("a directory");
        let write =
            |text: &str| std::fs::write(dir.path().join("zfs_scan_suspend_progress"), text).expect("written");
        assert_eq!(read(dir.path()), ProcessHold::default());
        for (text, scans) in [("1\n", true), ("0\n", false), ("no", false), ("2", true)] {
            write(text);
            assert_eq!(read(dir.path()), ProcessHold { scans, removals: false }, "{text}");
        }
    }
}
