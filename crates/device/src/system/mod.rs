//! The machine of production.

mod groups;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::held_by;
use env::{Machine, MemoryNow, Readers};
use groups::{Group, stalled_micros};

/// The [`Machine`] that this process runs on.
#[derive(Clone, Debug)]
pub struct RealMachine {
    /// Control groups that limit this process's memory, its own first.
    groups: Vec<Group>,
}

impl Default for RealMachine {
    fn default() -> Self {
        Self { groups: Group::all() }
    }
}

impl RealMachine {
    /// Returns a machine that knows no control groups.
    #[must_use]
    pub fn without_groups() -> Self {
        Self { groups: Vec::new() }
    }

    /// The machine's memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let system = rustix::system::sysinfo();
        system.totalram.saturating_mul(u64::from(system.mem_unit))
    }

    /// Memory that this process can have at most.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.groups.iter().filter_map(Group::limit).fold(self.memory_bytes(), u64::min)
    }

    /// The machine's memory, and how much of it is not to be had.
    fn of_all(&self) -> Option<(u64, u64)> {
        let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
        let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let available: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        let all = self.memory_bytes();
        Some((all, all.saturating_sub(available << 10)))
    }

    /// Waits of its own group, where that tells; or of the machine.
    fn stalled_micros(&self) -> u64 {
        let own = self.groups.iter().find_map(Group::stalled_micros);
        let machine = || stalled_micros(&fs::read_to_string("/proc/pressure/memory").ok()?);
        own.or_else(machine).unwrap_or(0)
    }
}

impl Machine for RealMachine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        if readers == Readers::Owner {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            options.mode(0o600);
        }
        let new = beside(path);
        let mut file = options.open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        fs::File::open(directory)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn names_in(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let names = fs::read_dir(directory)?.filter_map(|entry| entry.ok().map(|e| e.file_name()));
        Ok(names.collect())
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        identity(path)
    }

    fn held_by(&self, path: &Path) -> Option<(u32, String)> {
        held_by(path)
    }

    /// What the tightest of the groups, or the machine, tells.
    fn memory(&self) -> Option<MemoryNow> {
        let groups = self.groups.iter().filter_map(|group| Some((group.limit()?, group.pinned()?)));
        let all = groups.chain(self.of_all());
        let (limit_bytes, pinned_bytes) = all.min_by_key(|(limit, pinned)| limit.saturating_sub(*pinned))?;
        Some(MemoryNow { limit_bytes, pinned_bytes, stalled_micros: self.stalled_micros() })
    }
}

/// See [`Machine::identity`].
#[must_use]
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::metadata(path).ok()?;
    match meta.file_type().is_block_device() {
        true => Some((u64::MAX, meta.rdev())),
        false => Some((meta.dev(), meta.ino())),
    }
}

/// Where a file is written before it gets its name.
fn beside(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    PathBuf::from(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_how_much_is_left() {
        let machine = RealMachine::default();
        let now = machine.memory().expect("there is /proc/meminfo");
        assert!(now.pinned_bytes < now.limit_bytes, "{now:?}");
        assert!(now.limit_bytes <= machine.memory_bytes());
    }

    #[test]
    fn a_replaced_file_is_the_new_one_and_its_owners_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let (machine, path) = (RealMachine::default(), directory.path().join("below/list"));
        machine.replace(&path, b"old", Readers::Owner).expect("written");
        machine.replace(&path, b"new", Readers::Owner).expect("written again");
        assert_eq!(machine.read(&path).expect("read"), b"new");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert_eq!(machine.names_in(path.parent().expect("below")).expect("listed"), ["list"]);
    }

    #[test]
    fn two_paths_of_one_file_are_one_device() {
        let directory = tempfile::tempdir().expect("a directory");
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&a, b"").expect("written");
        fs::hard_link(&a, &b).expect("linked");
        let machine = RealMachine::default();
        assert_eq!(machine.identity(&a), machine.identity(&b));
        assert_ne!(machine.identity(&a), machine.identity(directory.path()));
        assert_eq!(machine.identity(&directory.path().join("c")), None);
    }
}
