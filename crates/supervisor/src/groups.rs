//! Control groups of the processes of pools: `DIR/POOL` for the process of POOL.
//!
//! The supervisor makes a missing group and removes none, because an operator keeps the limits of a pool there. The
//! limits hold for each later process of the pool. The process enters the group when its pool is open.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The file of a group to which the number of a process is written (cgroups(7)). Version 1 has the same file.
const PROCESSES: &str = "cgroup.procs";

/// The directory of the groups: a group of version 1 or 2 that the daemon may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolGroups(PathBuf);

impl PoolGroups {
    /// Groups in the group at `dir`.
    ///
    /// # Errors
    /// There is no control group at `dir`.
    pub fn new(dir: PathBuf) -> io::Result<Self> {
        fs::metadata(dir.join(PROCESSES))?;
        Ok(Self(dir))
    }

    /// Puts a process into the group of the pool.
    ///
    /// # Errors
    /// The name is no name of a directory, or the system refuses.
    pub(crate) fn enter(&self, pool: &str, pid: u32) -> io::Result<()> {
        let parts: Vec<_> = Path::new(pool).components().collect();
        // The name comes from the process, which may say anything.
        if !matches!(parts[..], [Component::Normal(_)]) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let group = self.0.join(pool);
        match fs::create_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        fs::write(group.join(PROCESSES), pid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_no_other_group() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(PoolGroups::new(dir.path().to_owned()).is_err(), "it is no control group");
        let inner = dir.path().join("groups");
        fs::create_dir(&inner).expect("made");
        fs::write(inner.join(PROCESSES), "").expect("written");
        let groups = PoolGroups::new(inner.clone()).expect("it looks like one");
        groups.enter("tank", 7).expect("entered");
        groups.enter("tank", 8).expect("entered");
        assert_eq!(fs::read_to_string(inner.join("tank/cgroup.procs")).expect("there"), "8");
        for name in ["..", ".", "", "../other", "/tmp", "a/b"] {
            assert!(groups.enter(name, 7).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }
}
