//! Cache files in OpenZFS's format: an nvlist in XDR of the configurations of pools, by name. `zdb` and `zpool import -c`
//! of OpenZFS read such files, and so does ours.
//!
//! A pool is in the default file (`/etc/zfs/zpool.cache` of root's daemon), in the file of the property `cachefile`, or in
//! none. The daemon opens the pools of its own list again ([`crate::PoolCache`]), which is another file, and which has the
//! pools of the default file.

use crate::Holder;
use crate::cache_table::{self, CacheFileTable};
use crate::held::Held;
use crate::props::Value;
use control::{Failure, FailureKind};
use env::{Machine, Readers};
use ondisk::NvList;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a pool is remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheFile {
    /// In the daemon's own list, from which it is opened again when the daemon starts, and in the default file.
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

/// Who joins the pools of several holders in one cache file.
pub enum CacheFileJoin {
    /// The engine: it is the only holder of this daemon.
    Engine(CacheFileTable),
    /// The machine, which joins the files of several processes.
    Machine,
}

/// Where an engine keeps cache files.
pub struct CacheFiles {
    /// The file of pools whose property `cachefile` is not set.
    pub default: Option<PathBuf>,
    /// See [`CacheFileJoin`].
    pub join: CacheFileJoin,
}

impl CacheFiles {
    /// No default file, for an engine that has `machine` alone.
    pub(crate) fn without_default(machine: Arc<dyn Machine>) -> Self {
        Self { default: None, join: CacheFileJoin::Engine(CacheFileTable::new(machine)) }
    }
}

/// The cache files of an engine.
pub(crate) struct CacheFileState {
    files: CacheFiles,
    /// Files that have pools of the engine.
    written: Mutex<BTreeSet<PathBuf>>,
    /// Files that could not be written, which was said once.
    failed: Mutex<BTreeSet<PathBuf>>,
}

impl CacheFileState {
    pub fn new(files: CacheFiles) -> Self {
        Self { files, written: Mutex::default(), failed: Mutex::default() }
    }

    /// The default file is the one of pools that have none of their own.
    pub fn meant(&self, file: CacheFile) -> CacheFile {
        match file {
            CacheFile::At(path) if self.files.default.as_ref() == Some(&path) => CacheFile::Own,
            file => file,
        }
    }

    /// Returns the file of a pool.
    fn file_of(&self, held: &Held) -> Option<PathBuf> {
        match held.cache_file() {
            CacheFile::Own => self.files.default.clone(),
            CacheFile::Nowhere => None,
            CacheFile::At(path) => Some(path),
        }
    }
}

impl Holder {
    /// Makes the cache files say which of their pools are open.
    pub(super) fn write_cache_files(&self) {
        let state = &self.cache_files;
        let mut files: BTreeMap<PathBuf, NvList> =
            state.written.lock().iter().map(|path| (path.clone(), NvList::new())).collect();
        for held in self.all() {
            if let Some(path) = state.file_of(&held) {
                let pools = files.entry(path).or_default();
                pools.add_nvlist(&held.pool.name(), held.pool.configuration());
            }
        }
        for (path, pools) in &files {
            match self.write_cache_file(path, pools) {
                Ok(()) => _ = state.failed.lock().remove(path),
                Err(error) if state.failed.lock().insert(path.clone()) => {
                    tracing::warn!(path = %path.display(), %error, "cache file not written");
                }
                Err(_) => {}
            }
        }
        files.retain(|_, pools| !pools.is_empty());
        *state.written.lock() = files.into_keys().collect();
    }

    fn write_cache_file(&self, path: &Path, pools: &NvList) -> io::Result<()> {
        match &self.cache_files.files.join {
            CacheFileJoin::Engine(table) => table.put(path, 0, pools.clone()),
            CacheFileJoin::Machine if pools.is_empty() => cache_table::remove(&*self.machine, path),
            CacheFileJoin::Machine => self.machine.replace(path, &pools.encode(), Readers::Anybody),
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
