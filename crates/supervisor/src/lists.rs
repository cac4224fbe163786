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
use std::path::{Path, PathBuf};

use control::RunPaths;
use env::{Machine, Readers};
use serde_json::Value;

/// Why a list cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The system would not.
    #[error("pool cache {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It does not make sense.
    #[error("pool cache {} is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Gives each pool of a daemon's list a list of its own. Returns the numbers of all processes.
///
/// # Errors
/// When a list cannot be read or written. Each pool is in a list at any moment.
pub(crate) fn split_list(machine: &dyn Machine, paths: &RunPaths) -> Result<Vec<u64>, ListError> {
    let whole = paths.pool_cache();
    let pools = read(machine, &whole).unwrap_or_else(|error| {
        // The pools of the other lists can be brought back.
        tracing::error!(%error, "is not read");
        Vec::new()
    });
    for pool in &pools {
        let number = new_number(paths).map_err(|source| ListError::Io { path: paths.pools_dir(), source })?;
        write(machine, &paths.of_pool(number).pool_cache(), std::slice::from_ref(pool))?;
    }
    if !pools.is_empty() {
        write(machine, &whole, &[])?;
    }
    let mut kept = Vec::new();
    let mut guids = BTreeSet::new();
    for number in numbers(machine, paths) {
        let pools = read(machine, &paths.of_pool(number).pool_cache());
        let is_new = |pool: &Value| guids.insert(pool["guid"].as_u64());
        match pools {
            Ok(pools) if !pools.is_empty() && pools.iter().all(is_new) => kept.push(number),
            // A process that had no pool, or a pool that was in both lists when the power went.
            Ok(_) => forget(paths, number),
            Err(error) => tracing::error!(number, %error, "a pool is not brought back"),
        }
    }
    Ok(kept)
}

/// Returns the name of the pool that a process has.
pub(crate) fn name_in(machine: &dyn Machine, paths: &RunPaths, number: u64) -> Option<String> {
    let pools = read(machine, &paths.of_pool(number).pool_cache()).ok()?;
    Some(pools.first()?["name"].as_str()?.to_owned())
}

/// Puts the pools of all processes into the list of a daemon that holds all pools itself.
///
/// # Errors
/// When a list cannot be read or written. Each pool is in a list at any moment.
pub fn join_lists(machine: &dyn Machine, paths: &RunPaths) -> Result<(), ListError> {
    let numbers = numbers(machine, paths);
    if numbers.is_empty() {
        return Ok(());
    }
    let mut whole = read(machine, &paths.pool_cache())?;
    for &number in &numbers {
        for pool in read(machine, &paths.of_pool(number).pool_cache())? {
            if whole.iter().all(|known| known["guid"] != pool["guid"]) {
                whole.push(pool);
            }
        }
    }
    write(machine, &paths.pool_cache(), &whole)?;
    numbers.into_iter().for_each(|number| forget(paths, number));
    Ok(())
}

/// Makes the directory of a new process.
///
/// # Errors
/// The system's.
pub(crate) fn new_number(paths: &RunPaths) -> io::Result<u64> {
    fs::create_dir_all(paths.pools_dir())?;
    for number in 1.. {
        match fs::DirBuilder::new().mode(0o700).create(paths.of_pool(number).state_dir()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| number),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes the directories of a process that has ended and holds no pool.
pub(crate) fn forget(paths: &RunPaths, number: u64) {
    let paths = paths.of_pool(number);
    for directory in [paths.run_dir(), paths.state_dir()] {
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

fn read(machine: &dyn Machine, path: &Path) -> Result<Vec<Value>, ListError> {
    match machine.read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|source| ListError::Damaged { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(ListError::Io { path: path.to_owned(), source }),
    }
}

fn write(machine: &dyn Machine, path: &Path, pools: &[Value]) -> Result<(), ListError> {
    let bytes = serde_json::to_vec_pretty(pools)
        .map_err(|source| ListError::Damaged { path: path.to_owned(), source })?;
    let written = machine.replace(path, &bytes, Readers::Owner);
    written.map_err(|source| ListError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::RealMachine;
    use serde_json::json;

    fn names(machine: &dyn Machine, paths: &RunPaths, numbers: &[u64]) -> Vec<String> {
        let list = |number: &u64| read(machine, &paths.of_pool(*number).pool_cache()).expect("a list");
        let mut names: Vec<_> = numbers.iter().flat_map(list).map(|pool| pool["name"].to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn pools_move_between_the_lists_of_both_kinds_of_daemon() {
        let dir = tempfile::tempdir().expect("a directory");
        let (machine, paths) = (RealMachine::default(), RunPaths::under(dir.path()));
        assert!(split_list(&machine, &paths).expect("no list").is_empty());
        let pools = [json!({"name": "a", "guid": 7}), json!({"name": "b", "guid": 8, "txg": 9})];
        write(&machine, &paths.pool_cache(), &pools).expect("written");
        let numbers = split_list(&machine, &paths).expect("split");
        assert_eq!(numbers, [1, 2]);
        assert_eq!(names(&machine, &paths, &numbers), ["\"a\"", "\"b\""]);
        assert_eq!(split_list(&machine, &paths).expect("again"), [1, 2]);
        join_lists(&machine, &paths).expect("joined");
        assert_eq!(read(&machine, &paths.pool_cache()).expect("a list"), pools);
        assert_eq!(split_list(&machine, &paths).expect("split").len(), 2);
    }

    #[test]
    fn a_pool_that_is_in_both_lists_is_brought_back_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let (machine, paths) = (RealMachine::default(), RunPaths::under(dir.path()));
        let pools = [json!({"name": "a", "guid": 7})];
        for _ in 0..2 {
            write(&machine, &paths.pool_cache(), &pools).expect("written");
            assert_eq!(split_list(&machine, &paths).expect("split"), [1]);
        }
        new_number(&paths).expect("a process that had no pool");
        assert_eq!(split_list(&machine, &paths).expect("split"), [1]);
        assert!(!paths.of_pool(2).state_dir().exists());
    }
}
