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

/// Gives each pool of a daemon's list a list of its own. Returns the numbers of all processes. A damaged list is put
/// aside.
///
/// # Errors
/// When a list cannot be written. Each pool is in a list at any moment.
pub(crate) fn split_list(machine: &Arc<dyn Machine>, paths: &RunPaths) -> Result<Vec<u64>, CacheError> {
    let whole = list_of(machine, paths);
    // The pools of the other lists can be brought back.
    let pools = whole.load().unwrap_or_else(|error| {
        put_aside(machine, &error, &paths.pool_cache(), &paths.pool_cache().with_extension("damaged"));
        Vec::new()
    });
    let mut kept = BTreeSet::new();
    let mut guids = BTreeSet::new();
    for number in numbers(&**machine, paths) {
        match list_of(machine, &paths.of_pool(number)).load() {
            // A process that had no pool.
            Ok(own) if own.is_empty() => forget(paths, number),
            Ok(own) => {
                kept.insert(number);
                guids.extend(own.iter().map(|pool| pool.guid));
            }
            Err(error) => put_list_aside(machine, paths, number, &error),
        }
    }
    // A pool is in both lists if the power went before the store below.
    for pool in pools.iter().filter(|pool| !guids.contains(&pool.guid)) {
        let path = paths.pools_dir();
        let number = new_number(paths).map_err(|source| CacheError::Io { path, source })?;
        list_of(machine, &paths.of_pool(number)).store(std::slice::from_ref(pool))?;
        kept.insert(number);
    }
    if !pools.is_empty() {
        whole.store(&[])?;
    }
    Ok(kept.into_iter().collect())
}

/// Puts the damaged list of a process beside the list of the daemon. The number can be used again.
fn put_list_aside(machine: &Arc<dyn Machine>, paths: &RunPaths, number: u64, error: &CacheError) {
    let aside = paths.pool_cache().with_extension(format!("{number}.damaged"));
    if put_aside(machine, error, &paths.of_pool(number).pool_cache(), &aside) {
        forget(paths, number);
    }
}

/// Renames a list that is damaged. Returns true if the list has its new name.
fn put_aside(machine: &Arc<dyn Machine>, error: &CacheError, list: &Path, aside: &Path) -> bool {
    tracing::error!(error = %engine::refusal::chain(error), "pools are not brought back");
    if !matches!(error, CacheError::Damaged { .. }) {
        return false;
    }
    match machine.rename(list, aside) {
        Ok(()) => tracing::error!(file = %aside.display(), "the damaged list of pools was put aside"),
        Err(ref error) => tracing::error!(%error, "the damaged list of pools stays"),
    }
    !list.exists()
}

/// Returns the pool of a process, as its list has the pool.
pub(crate) fn pool_in(machine: &Arc<dyn Machine>, paths: &RunPaths, number: u64) -> Option<CachedPool> {
    list_of(machine, &paths.of_pool(number)).load().ok()?.into_iter().next()
}

/// Puts the pools of all processes into the list of a daemon that holds all pools itself. The damaged list of a process
/// is put aside.
///
/// # Errors
/// When the list of the daemon cannot be read or written. Each pool is in a list at any moment.
pub fn join_lists(machine: &Arc<dyn Machine>, paths: &RunPaths) -> Result<(), CacheError> {
    let numbers = numbers(&**machine, paths);
    if numbers.is_empty() {
        return Ok(());
    }
    let whole = list_of(machine, paths);
    let mut pools = whole.load()?;
    // A pool is in both lists if the power went before a list below was forgotten. What a process has in its list hides
    // no pool of another process.
    let known: BTreeSet<u64> = pools.iter().map(|pool| pool.guid).collect();
    let mut joined = Vec::new();
    for number in numbers {
        match list_of(machine, &paths.of_pool(number)).load() {
            Ok(own) => {
                joined.push(number);
                pools.extend(own.into_iter().filter(|pool| !known.contains(&pool.guid)));
            }
            Err(error) => put_list_aside(machine, paths, number, &error),
        }
    }
    whole.store(&pools)?;
    joined.into_iter().for_each(|number| forget(paths, number));
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
    // The state directory keeps the number taken, so that this directory is removed last. The two directories may be
    // one. As soon as the directory is removed, another process may have a directory of this name.
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
    fn a_damaged_list_of_a_process_is_put_aside_and_costs_no_other_pool() {
        let damage = |paths: &RunPaths| fs::write(paths.of_pool(1).pool_cache(), b"[{").expect("written");
        let aside =
            |paths: &RunPaths| fs::read(paths.state_dir().join("pools.1.damaged")).expect("put aside");
        for join in [false, true] {
            let (_dir, machine, paths) = world();
            list_of(&machine, &paths).store(&[pool("a", 7), pool("b", 8)]).expect("written");
            split_list(&machine, &paths).expect("split");
            damage(&paths);
            if join {
                join_lists(&machine, &paths).expect("joined");
                assert_eq!(list_of(&machine, &paths).load().expect("a list"), [pool("b", 8)]);
            } else {
                assert_eq!(split_list(&machine, &paths).expect("split"), [2]);
            }
            assert_eq!(aside(&paths), b"[{");
            assert!(!paths.of_pool(1).state_dir().exists());
        }
    }

    #[test]
    fn a_list_that_names_the_pool_of_another_process_hides_no_pool() {
        let (_dir, machine, paths) = world();
        list_of(&machine, &paths).store(&[pool("a", 7), pool("b", 8)]).expect("written");
        split_list(&machine, &paths).expect("split");
        list_of(&machine, &paths.of_pool(1)).store(&[pool("b", 8), pool("x", 8)]).expect("written");
        assert_eq!(split_list(&machine, &paths).expect("split"), [1, 2]);
        join_lists(&machine, &paths).expect("joined");
        assert_eq!(list_of(&machine, &paths).load().expect("a list").last(), Some(&pool("b", 8)));
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
