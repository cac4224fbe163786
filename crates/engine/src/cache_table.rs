//! Cache files that several holders share.
//!
//! A cache file may have pools of several processes, and pools that no process has open: those of another implementation, or
//! pools whose devices are missing. Each holder says which pools of the file it has. Pools that no holder has ever named
//! stay as they are.

use env::{Machine, Readers};
use ondisk::NvList;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The entries of cache files, by those who hold the pools.
pub struct CacheFileTable {
    machine: Arc<dyn Machine>,
    files: Mutex<BTreeMap<PathBuf, CacheEntries>>,
}

/// The entries of one file.
struct CacheEntries {
    /// What was in the file before, without the pools that a holder has named since.
    others: NvList,
    /// The pools of each holder.
    held: BTreeMap<u64, NvList>,
}

impl CacheFileTable {
    /// Knows no file yet.
    pub fn new(machine: Arc<dyn Machine>) -> Self {
        Self { machine, files: Mutex::default() }
    }

    /// Makes a file say that `holder` has these pools open: configurations by name. A file without pools is removed.
    ///
    /// # Errors
    /// The system's.
    pub fn put(&self, path: &Path, holder: u64, pools: NvList) -> io::Result<()> {
        let mut files = self.files.lock();
        let entries = match files.get_mut(path) {
            Some(entries) => entries,
            None => files.entry(path.to_owned()).or_insert(self.entries_of(path)?),
        };
        entries.put(holder, pools);
        let all = entries.all();
        match all.is_empty() {
            true => remove(&*self.machine, path),
            false => self.machine.replace(path, &all.encode(), Readers::Anybody),
        }
    }

    /// Returns the entries that a file has by now. A file that makes no sense has none, because a new file takes its place.
    fn entries_of(&self, path: &Path) -> io::Result<CacheEntries> {
        let others = match self.machine.read(path) {
            Ok(bytes) => NvList::decode(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => NvList::default(),
            Err(error) => return Err(error),
        };
        Ok(CacheEntries { others, held: BTreeMap::new() })
    }
}

impl CacheEntries {
    /// A name that another holder has stays with that holder: the process of a pool may be in the hands of an image.
    fn put(&mut self, holder: u64, mut pools: NvList) {
        self.held.remove(&holder);
        let names: Vec<String> = pools.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            self.others.remove(&name);
            if self.held.values().any(|held| held.contains(&name)) {
                pools.remove(&name);
            }
        }
        self.held.insert(holder, pools);
    }

    fn all(&self) -> NvList {
        let mut all = NvList::new();
        for pools in std::iter::once(&self.others).chain(self.held.values()) {
            for (name, pool) in pools.iter() {
                all.add(name, pool.clone());
            }
        }
        all
    }
}

/// Removes a file, if there is one.
///
/// # Errors
/// The system's.
pub fn remove(machine: &dyn Machine, path: &Path) -> io::Result<()> {
    match machine.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::RealMachine;

    fn pools(names: &[&str]) -> NvList {
        let mut pools = NvList::new();
        for name in names {
            let mut pool = NvList::new();
            pool.add_str("name", *name);
            pools.add_nvlist(name, pool);
        }
        pools
    }

    #[test]
    fn holders_change_their_own_pools_and_leave_the_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("zpool.cache");
        std::fs::write(&path, pools(&["foreign", "tank"]).encode()).expect("written");
        let table = CacheFileTable::new(Arc::new(RealMachine::default()));
        let names = || {
            let bytes = std::fs::read(&path).expect("a file");
            let list = NvList::decode(&bytes).expect("an nvlist");
            list.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        table.put(&path, 1, pools(&["tank"])).expect("written");
        table.put(&path, 2, pools(&["dozer", "other"])).expect("written");
        assert_eq!(names(), ["foreign", "tank", "dozer", "other"]);
        let mut forged = pools(&["tank", "mine"]);
        forged.get_nvlist_mut("tank").expect("a pool").add_str("comment", "forged");
        table.put(&path, 3, forged).expect("written");
        let list = NvList::decode(&std::fs::read(&path).expect("a file")).expect("an nvlist");
        assert!(list.contains("mine"));
        let kept = list.get_nvlist("tank").expect("a pool");
        assert_eq!(kept.get_str("comment"), None, "nobody takes the pool of another holder");
        table.put(&path, 3, pools(&[])).expect("written");
        table.put(&path, 1, pools(&[])).expect("written");
        table.put(&path, 2, pools(&["dozer"])).expect("written");
        assert_eq!(names(), ["foreign", "dozer"]);
        table.put(&path, 3, pools(&["foreign"])).expect("written");
        table.put(&path, 3, pools(&[])).expect("written");
        table.put(&path, 2, pools(&[])).expect("removed");
        assert!(!path.exists());
        table.put(&path, 2, pools(&[])).expect("nothing to remove");
    }

    #[test]
    fn a_file_that_makes_no_sense_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("zpool.cache");
        std::fs::write(&path, "no nvlist").expect("written");
        let table = CacheFileTable::new(Arc::new(RealMachine::default()));
        table.put(&path, 1, pools(&["tank"])).expect("written");
        assert_eq!(std::fs::read(&path).expect("a file"), pools(&["tank"]).encode());
    }
}
