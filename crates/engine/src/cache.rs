//! The cache file: which pools to bring back. A whole new file takes the old one's place,
//! so that a crash leaves either.

use crate::opening::Opening;
use env::{Machine, Readers};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pool to bring back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CachedPool {
    /// Its name.
    pub name: String,
    /// Its lasting name.
    pub guid: u64,
    /// The labels keep another name (`zpool import -t`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_temporary_name: bool,
    /// Where its devices were.
    pub devices: Vec<String>,
    /// The directory its mount points are under.
    pub altroot: Option<String>,
    /// It was opened for reading only.
    pub readonly: bool,
    /// Number of the host that opened it.
    pub hostid: u64,
    /// A transaction group that was stable when this was written.
    pub txg: u64,
    /// The guids of leaves that lacked data which their siblings had, or were about to lack data.
    /// They do not speak for the pool.
    pub behind: Vec<u64>,
    /// Since when none of its devices is found, in seconds since 1970.
    pub missing_since_secs: Option<u64>,
    /// Guids of its logs that were given up when it was imported, and may be missing again.
    pub lost_logs: Vec<u64>,
    /// Its vdevs, as they are shown while it cannot be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<control::VdevInfo>,
    /// The attempt to open it at a start, if that attempt has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opening: Option<Opening>,
}

/// Why the cache file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The system would not.
    #[error("pool cache {}", path.display())]
    Io {
        /// The file.
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

/// The cache file.
#[derive(Clone)]
pub struct PoolCache {
    machine: Arc<dyn Machine>,
    path: PathBuf,
}

impl PoolCache {
    /// At a path of this machine; the file need not be there.
    pub fn at(machine: Arc<dyn Machine>, path: impl Into<PathBuf>) -> Self {
        Self { machine, path: path.into() }
    }

    /// The pools to bring back; none where there is no file.
    ///
    /// # Errors
    /// When the file cannot be read or makes no sense.
    pub fn load(&self) -> Result<Vec<CachedPool>, CacheError> {
        match self.machine.read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| CacheError::Damaged { path: self.path.clone(), source }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Puts a file that makes no sense aside, so that the next list does not take its place; where it is
    /// then.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub fn put_aside(&self) -> Result<PathBuf, CacheError> {
        let aside = self.path.with_extension("damaged");
        self.machine.rename(&self.path, &aside).map_err(|source| self.failed(source))?;
        Ok(aside)
    }

    /// Replaces the list; it is stable when this returns.
    ///
    /// # Errors
    /// When the file cannot be written; the old one stays.
    pub fn store(&self, pools: &[CachedPool]) -> Result<(), CacheError> {
        let bytes = serde_json::to_vec_pretty(pools)
            .map_err(|source| CacheError::Damaged { path: self.path.clone(), source })?;
        let written = self.machine.replace(&self.path, &bytes, Readers::Owner);
        written.map_err(|source| self.failed(source))
    }

    /// Returns the file beside a list of pools in which a daemon that ends by a panic leaves its reason.
    #[must_use]
    pub fn last_words_of(list: &Path) -> PathBuf {
        list.with_extension("panic")
    }

    /// Removes and returns the reason of the last daemon, if a panic ended that daemon.
    pub(crate) fn take_last_words(&self) -> Option<String> {
        let path = Self::last_words_of(&self.path);
        let words = self.machine.read(&path).ok()?;
        if let Err(error) = self.machine.remove(&path) {
            tracing::warn!(file = %path.display(), %error, "stays");
        }
        Some(String::from_utf8_lossy(&words).trim().to_owned())
    }

    fn failed(&self, source: io::Error) -> CacheError {
        CacheError::Io { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::RealMachine;
    use std::fs;

    fn at(path: PathBuf) -> PoolCache {
        PoolCache::at(Arc::new(RealMachine::default()), path)
    }

    fn pool(name: &str) -> CachedPool {
        CachedPool { name: name.into(), guid: u64::MAX, devices: vec!["/d".into()], ..CachedPool::default() }
    }

    #[test]
    fn what_is_stored_is_loaded_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = at(directory.path().join("below/pools.cache"));
        assert_eq!(cache.load().expect("no file is no pool"), []);
        cache.store(&[pool("a"), pool("b")]).expect("stores");
        cache.store(&[pool("b")]).expect("stores again");
        assert_eq!(cache.load().expect("loads"), [pool("b")]);
    }

    #[test]
    fn a_damaged_file_is_told_and_not_taken_for_empty() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pools.cache");
        fs::write(&path, b"[{").expect("writes");
        assert!(matches!(at(path).load(), Err(CacheError::Damaged { .. })));
    }

    #[test]
    fn fields_of_a_later_version_do_not_matter() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pools.cache");
        fs::write(&path, br#"[{"name":"a","guid":7,"colour":"red"}]"#).expect("writes");
        assert_eq!(at(path).load().expect("loads")[0].guid, 7);
    }
}
