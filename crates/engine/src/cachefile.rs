//! Cache files that `cachefile=PATH` asks for, in OpenZFS's format: an nvlist in XDR of the
//! configurations of pools, by name. Its `zpool import -c` and `zdb -U` read them, and so does ours.
//!
//! The daemon's own list of pools is another file ([`crate::PoolCache`]): a pool is in that
//! one, in a file of the user's, or in none.

use crate::Holder;
use crate::props::Value;
use control::{Failure, FailureKind};
use env::Readers;
use ondisk::NvList;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where a pool is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheFile {
    /// In the daemon's own list: it is opened again when the daemon starts.
    #[default]
    Own,
    /// Nowhere (`none`).
    Nowhere,
    /// In this file, for whoever imports from it.
    At(PathBuf),
}

impl CacheFile {
    /// From the property's value, which was checked when it was read.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Text(text) if text == "none" => Self::Nowhere,
            Value::Text(text) if !text.is_empty() => Self::At(PathBuf::from(text)),
            _ => Self::Own,
        }
    }

    /// The property's value where it is not the default.
    pub fn shown(&self) -> Option<String> {
        match self {
            Self::Own => None,
            Self::Nowhere => Some("none".to_owned()),
            Self::At(path) => Some(path.display().to_string()),
        }
    }
}

impl Holder {
    /// Makes the cache files of users say which of the pools with that file are open. A file without
    /// pools is removed.
    pub(super) fn write_cache_files(&self) {
        let mut files: BTreeMap<PathBuf, NvList> =
            self.cache_files.lock().iter().map(|path| (path.clone(), NvList::new())).collect();
        for held in self.all() {
            if let CacheFile::At(path) = held.cache_file() {
                let pools = files.entry(path).or_default();
                pools.add_nvlist(&held.pool.name(), held.pool.configuration());
            }
        }
        for (path, pools) in &files {
            let written = match pools.is_empty() {
                true => self.remove_cache_file(path),
                false => self.machine.replace(path, &pools.encode(), Readers::Anybody),
            };
            if let Err(error) = written {
                tracing::error!(path = %path.display(), %error, "cache file not written");
            }
        }
        files.retain(|_, pools| !pools.is_empty());
        *self.cache_files.lock() = files.into_keys().collect();
    }

    fn remove_cache_file(&self, path: &Path) -> io::Result<()> {
        match self.machine.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a cache file can be where it is asked for.
    pub(super) fn check_cache_file(&self, file: &CacheFile, pool: &str) -> Result<(), Failure> {
        let CacheFile::At(path) = file else { return Ok(()) };
        let is_directory = |path: &Path| self.machine.is_directory(path);
        let reason = match (is_directory(path), path.parent().is_some_and(is_directory)) {
            (true, _) => format!("'{}' is not a file", path.display()),
            (_, false) => format!("'{}' is not a valid directory", path.parent().unwrap_or(path).display()),
            _ => return Ok(()),
        };
        Err(Failure::cannot(FailureKind::Invalid, "set property for", pool, &reason))
    }
}
