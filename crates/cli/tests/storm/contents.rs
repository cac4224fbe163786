//! The possible contents of the files of one file system after a kill.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What a name leads to: nothing, or a file with these bytes.
pub type NameState = Option<Arc<[u8]>>;

/// The files of a snapshot, or of a file system at one moment.
pub type FilesByName = BTreeMap<String, Arc<[u8]>>;

/// The changes of one step, which are made all together or not at all.
pub type FileChanges = Vec<(String, NameState)>;

/// The files of a file system that is in use.
#[derive(Clone, Debug, Default)]
pub struct FileVersions {
    /// The states of each name since the last one that was made stable, oldest first. Never empty.
    versions: BTreeMap<String, Vec<NameState>>,
}

impl FileVersions {
    /// Returns contents in which every file is stable.
    pub fn stable(tree: &FilesByName) -> Self {
        let state = |(name, bytes): (&String, &Arc<[u8]>)| (name.clone(), vec![Some(bytes.clone())]);
        Self { versions: tree.iter().map(state).collect() }
    }

    /// Returns the files that a reader sees while the daemon lives.
    pub fn newest(&self) -> FilesByName {
        let newest =
            |(name, states): (&String, &Vec<NameState>)| Some((name.clone(), states.last()?.clone()?));
        self.versions.iter().filter_map(newest).collect()
    }

    /// Records a change that has returned and may still be lost.
    pub fn apply(&mut self, change: &FileChanges) {
        for (name, state) in change {
            self.versions.entry(name.clone()).or_insert_with(|| vec![None]).push(state.clone());
        }
    }

    /// Records that a file, or its absence, has been made stable.
    pub fn promise(&mut self, name: &str) {
        if let Some(states) = self.versions.get_mut(name) {
            states.drain(..states.len().saturating_sub(1));
        }
    }

    /// Records that all changes that have returned are stable.
    pub fn promise_all(&mut self) {
        *self = Self::stable(&self.newest());
    }

    /// Compares the files that were found with the possible contents. Each name must be in one of
    /// its states, or, if `pending` explains the files better, in the state after a step that was
    /// under way. From then on, the files that were found are stable.
    pub fn settle(&mut self, found: &FilesByName, pending: &[FileChanges]) -> Result<(), String> {
        let without = self.explains(found, &Vec::new());
        let is_explained =
            without.is_ok() || pending.iter().any(|change| self.explains(found, change).is_ok());
        if !is_explained {
            return without;
        }
        *self = Self::stable(found);
        Ok(())
    }

    fn explains(&self, found: &FilesByName, change: &FileChanges) -> Result<(), String> {
        let changed = |name: &String| change.iter().find(|(of, _)| of == name).map(|(_, state)| state);
        let names: BTreeSet<&String> = self.versions.keys().chain(found.keys()).collect();
        for name in names {
            let is = found.get(name);
            let absent = [None];
            let versions: &[NameState] = self.versions.get(name).map_or(&absent, |states| states);
            let allowed = changed(name).map_or(versions, std::slice::from_ref);
            if !allowed.iter().any(|state| state.as_ref() == is) {
                let bytes = |state: &NameState| state.as_ref().map(|bytes| summary(bytes));
                let allowed: Vec<_> = allowed.iter().map(bytes).collect();
                return Err(format!("{name}: found {:?}, allowed {allowed:?}", is.map(|it| summary(it))));
            }
        }
        Ok(())
    }
}

/// The length and the first bytes of a file: enough to recognise a version in a message.
fn summary(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into()));
    format!("{} bytes {hash:08x}", bytes.len())
}

/// Reads all files of a directory that has no subdirectories.
pub fn read_tree(at: &Path) -> io::Result<FilesByName> {
    let mut tree = FilesByName::new();
    for entry in std::fs::read_dir(at)? {
        let entry = entry?;
        // The mount point of a dataset below.
        if entry.file_type()?.is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        tree.insert(name, std::fs::read(entry.path())?.into());
    }
    Ok(tree)
}
