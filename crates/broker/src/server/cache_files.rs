//! The cache files of a process, which it shares with the others.

use std::io;
use std::path::Path;
use std::sync::Arc;

use engine::CacheFileTable;
use ondisk::{NvList, NvValue};
use rustix::io::Errno;

use super::Desk;
use crate::fault::RemoteError;

/// The cache files that the processes of a daemon share, and the number by which a process is known there.
#[derive(Clone)]
pub struct ProcessCacheFiles {
    /// The files.
    pub table: Arc<CacheFileTable>,
    /// The number of the process.
    pub holder: u64,
}

impl Desk {
    /// True if a file is a cache file that the process may change.
    pub(super) fn is_cache_file(&self, path: &Path) -> bool {
        self.beginning.cache_file.as_deref() == Some(path) || self.grants.has_file(path)
    }

    /// Makes a cache file have these pools of the process: an nvlist of configurations by name.
    pub(super) fn put_in_cache_file(&self, path: &Path, bytes: &[u8]) -> Result<(), RemoteError> {
        let invalid = || RemoteError::from(io::Error::from(Errno::INVAL));
        let pools = NvList::decode(bytes).map_err(|_damaged| invalid())?;
        let is_named = |(name, pool): (&str, &NvValue)| matches!(pool, NvValue::List(pool) if pool.get_str("name") == Some(name));
        if !pools.iter().all(is_named) {
            return Err(invalid());
        }
        self.put_pools(path, pools)
    }

    /// Makes a cache file have no pool of the process.
    pub(super) fn leave_cache_file(&self, path: &Path) -> Result<(), RemoteError> {
        self.put_pools(path, NvList::new())
    }

    fn put_pools(&self, path: &Path, pools: NvList) -> Result<(), RemoteError> {
        Ok(self.cache_files.table.put(path, self.cache_files.holder, pools)?)
    }
}
