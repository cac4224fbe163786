//! Files of the host that no test may make: tests run beside one another, and `zdb` and commands read these files.

use std::path::{Path, PathBuf};

use super::case::{Outcome, Verdict};

/// The files of a daemon of root that has no directory of its own (`SAWMILL_RUN`).
const OF_A_DAEMON: [&str; 4] = ["/etc/zfs", "/etc/zfs/zpool.cache", "/run/sawmill", "/var/lib/sawmill"];

/// Files that were not there when the tests began.
pub struct HostFiles {
    absent: Vec<PathBuf>,
}

impl HostFiles {
    pub fn of_a_daemon() -> Self {
        Self::new(&OF_A_DAEMON)
    }

    pub fn new<P: AsRef<Path>>(paths: &[P]) -> Self {
        let paths = paths.iter().map(|path| path.as_ref().to_owned());
        Self { absent: paths.filter(|path| !exists(path)).collect() }
    }

    /// Returns the outcome of the test that has just ended. It is a failure if a file has appeared.
    pub fn judge(&mut self, outcome: Outcome) -> Outcome {
        let (made, absent) = std::mem::take(&mut self.absent).into_iter().partition(|path| exists(path));
        self.absent = absent;
        let made: Vec<PathBuf> = made;
        match made.first() {
            Some(path) => {
                let why = format!("this test, or a test that ran beside it, made {}", path.display());
                Outcome { verdict: Verdict::Failed(why), ..outcome }
            }
            None => outcome,
        }
    }
}

/// True for a link to nowhere, too.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_host_is_held_against_the_test_that_ends_next() {
        let dir = tempfile::tempdir().expect("a directory");
        let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
        std::fs::write(&old, "").expect("written");
        let mut files = HostFiles::new(&[&old, &new]);
        let mut verdict = || files.judge(Outcome::without_a_run(Verdict::Passed)).verdict;
        assert_eq!(verdict(), Verdict::Passed);
        std::fs::write(&new, "").expect("written");
        assert!(matches!(verdict(), Verdict::Failed(why) if why.ends_with("/new")));
        assert_eq!(verdict(), Verdict::Passed);
    }
}
