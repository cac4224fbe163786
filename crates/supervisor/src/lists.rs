//! The lists of pools, on disk: each process has one, in a directory with the number of the process.
//!
//! ```text
//!  STATE/pools.cache            the pools of a daemon that holds all pools itself
//!  STATE/pools/1/pools.cache    the pool of process 1
//!  RUN/pools/1/socket           where process 1 answers
//! ```
//! A daemon of either kind takes over the pools of the other kind when it starts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use control::RunPaths;
use engine::{CacheError, CachedPool, PoolCache};
use env::Machine;

use crate::granted;

/// Gives each pool of a daemon's list a list of its own. Returns the numbers of all processes.
///
/// # Errors
/// When a list cannot be written. Each pool is in a list at any moment.
pub(crate) fn split_list(machine: &Arc<dyn Machine>, paths: &RunPaths) -> Result<Vec<u64>, CacheError> {
    let whole = list_of(machine, paths);
    let pools = whole.load().unwrap_or_else(|error| {
        // The pools of the other lists can be brought back.
        tracing::error!(error = %engine::refusal::chain(&error), "the list of pools is not read");
        Vec::new()
    });
    for pool in &pools {
        let path = paths.pools_dir();
        let number = new_number(paths).map_err(|source| CacheError::Io { path, source })?;
        list_of(machine, &paths.of_pool(number)).store(std::slice::from_ref(pool))?;
    }
    if !pools.is_empty() {
        whole.store(&[])?;
    }
    let mut kept = Vec::new();
    let mut guids = BTreeSet::new();
    for number in numbers(&**machine, paths) {
        match list_of(machine, &paths.of_pool(number)).load() {
            Ok(pools) if !pools.is_empty() && pools.iter().all(|pool| guids.insert(pool.guid)) => {
                kept.push(number);
            }
            // A process that had no pool, or a pool that was in both lists when the power went.
            Ok(_) => forget(paths, number),
            Err(error) => {
                tracing::error!(error = %engine::refusal::chain(&error), "a pool is not brought back");
            }
        }
    }
    Ok(kept)
}

/// Returns the pool of a process, as its list has the pool.
pub(crate) fn pool_in(machine: &Arc<dyn Machine>, paths: &RunPaths, number: u64) -> Option<CachedPool> {
    list_of(machine, &paths.of_pool(number)).load().ok()?.into_iter().next()
}

/// Puts the pools of all processes into the list of a daemon that holds all pools itself.
///
/// # Errors
/// When a list cannot be read or written. Each pool is in a list at any moment.
pub fn join_lists(machine: &Arc<dyn Machine>, paths: &RunPaths) -> Result<(), CacheError> {
    let numbers = numbers(&**machine, paths);
    if numbers.is_empty() {
        return Ok(());
    }
    let whole = list_of(machine, paths);
    let mut pools = whole.load()?;
    for &number in &numbers {
        for pool in list_of(machine, &paths.of_pool(number)).load()? {
            if pools.iter().all(|known| known.guid != pool.guid) {
                pools.push(pool);
            }
        }
    }
    whole.store(&pools)?;
    numbers.into_iter().for_each(|number| forget(paths, number));
    Ok(())
}

fn list_of(machine: &Arc<dyn Machine>, paths: &RunPaths) -> PoolCache {
    PoolCache::at(Arc::clone(machine), paths.pool_cache())
}

/// Makes the directory of a new process.
///
/// # Errors
/// The system's.
pub(crate) fn new_number(paths: &RunPaths) -> io::Result<u64> {
    make_private(&paths.pools_dir())?;
    for number in 1.. {
        match private().create(paths.of_pool(number).state_dir()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| number),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Makes a directory, if it is missing, that nobody else can enter, whatever the umask is.
///
/// # Errors
/// The system's.
pub(crate) fn make_private(directory: &Path) -> io::Result<()> {
    private().recursive(true).create(directory)
}

fn private() -> fs::DirBuilder {
    let mut private = fs::DirBuilder::new();
    private.mode(0o700);
    private
}

/// Removes the directories of a process that has ended and holds no pool.
pub(crate) fn forget(paths: &RunPaths, number: u64) {
    granted::forget(paths, number);
    let paths = paths.of_pool(number);
    // The directory for the state keeps the number taken, so it goes last. Both may be the same directory, which
    // is another process's as soon as it is gone.
    let run = Some(paths.run_dir()).filter(|run| *run != paths.state_dir());
    for directory in run.into_iter().chain([paths.state_dir()]) {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(directory = %directory.display(), %error, "stays");
            }
            _ => {}
        }
    }
}

fn numbers(machine: &dyn Machine, paths: &RunPaths) -> Vec<u64> {
    let names = machine.names_in(&paths.pools_dir()).unwrap_or_default();
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::RealMachine;

    fn world() -> (tempfile::TempDir, Arc<dyn Machine>, RunPaths) {
        let dir = tempfile::tempdir().expect("a directory");
        let paths = RunPaths::under(dir.path());
        (dir, Arc::new(RealMachine::default()), paths)
    }

    fn pool(name: &str, guid: u64) -> CachedPool {
        CachedPool { name: name.into(), guid, txg: guid + 1, ..CachedPool::default() }
    }

    #[test]
    fn pools_move_between_the_lists_of_both_kinds_of_daemon() {
        let (_dir, machine, paths) = world();
        assert!(split_list(&machine, &paths).expect("no list").is_empty());
        let pools = [pool("a", 7), pool("b", 8)];
        list_of(&machine, &paths).store(&pools).expect("written");
        assert_eq!(split_list(&machine, &paths).expect("split"), [1, 2]);
        let split = [1, 2].map(|number| pool_in(&machine, &paths, number).expect("a pool"));
        assert_eq!(split, pools);
        assert_eq!(split_list(&machine, &paths).expect("again"), [1, 2]);
        join_lists(&machine, &paths).expect("joined");
        assert_eq!(list_of(&machine, &paths).load().expect("a list"), pools);
        assert_eq!(split_list(&machine, &paths).expect("split").len(), 2);
    }

    #[test]
    fn a_pool_that_is_in_both_lists_is_brought_back_once() {
        let (_dir, machine, paths) = world();
        for _ in 0..2 {
            list_of(&machine, &paths).store(&[pool("a", 7)]).expect("written");
            assert_eq!(split_list(&machine, &paths).expect("split"), [1]);
        }
        new_number(&paths).expect("a process that had no pool");
        assert_eq!(split_list(&machine, &paths).expect("split"), [1]);
        assert!(!paths.of_pool(2).state_dir().exists());
    }

    #[test]
    fn nobody_else_can_enter_the_directories_of_processes() {
        use std::os::unix::fs::PermissionsExt;
        let (_dir, _, paths) = world();
        let number = new_number(&paths).expect("a number");
        let own = paths.of_pool(number);
        for directory in [paths.pools_dir().as_path(), own.state_dir()] {
            let mode = fs::metadata(directory).expect("is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", directory.display());
        }
        forget(&paths, number);
        assert!(!own.state_dir().exists());
    }
}
