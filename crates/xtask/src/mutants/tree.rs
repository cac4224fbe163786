//! The copy of the checkout in which the mutants are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::list;

/// Makes `to` a copy of the tracked files below `from`, with all mutants planted. A file that is right is
/// not touched, so that cargo builds only what has changed.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let tracked = tracked(from)?;
    let mut planted = planted(from)?;
    for name in &tracked {
        let (source, copy) = (from.join(name), to.join(name));
        // A file that was removed and not committed is no part of the checkout.
        let Ok(now) = fs::read(&source) else { continue };
        let wanted = planted.remove(name).map_or(now, String::into_bytes);
        if fs::read(&copy).is_ok_and(|there| there == wanted) {
            continue;
        }
        if let Some(dir) = copy.parent() {
            fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
        }
        fs::write(&copy, &wanted).map_err(|error| failed(&copy, error))?;
        let mode = fs::metadata(&source).map_err(|error| failed(&source, error))?.permissions();
        fs::set_permissions(&copy, mode).map_err(|error| failed(&copy, error))?;
    }
    if let Some(name) = planted.keys().next() {
        return Err(format!("{} is not tracked", name.display()));
    }
    let wanted: BTreeSet<PathBuf> =
        tracked.iter().filter(|name| from.join(name).is_file()).cloned().collect();
    remove_others(to, Path::new(""), &wanted).map_err(|error| failed(to, error))
}

/// The tracked files, from the root.
fn tracked(root: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let listed = listed.map_err(|error| format!("git cannot be run: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr)));
    }
    let names = String::from_utf8(listed.stdout).map_err(|error| format!("names of files: {error}"))?;
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

/// The files that have mutants, each with all its mutants planted.
pub fn planted(root: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut planted: BTreeMap<PathBuf, String> = BTreeMap::new();
    for mutant in list::mutants() {
        let name = PathBuf::from(mutant.file);
        let text = match planted.remove(&name) {
            Some(text) => text,
            None => fs::read_to_string(root.join(&name)).map_err(|e| format!("{}: {e}", mutant.file))?,
        };
        planted.insert(name, mutant.planted(&text)?);
    }
    Ok(planted)
}

/// Removes files below `root` that are not `wanted`: cargo finds packages and tests by their files.
fn remove_others(root: &Path, below: &Path, wanted: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_others(root, &name, wanted)?;
        } else if !wanted.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    if below != Path::new("") && fs::read_dir(root.join(below))?.next().is_none() {
        fs::remove_dir(root.join(below))?;
    }
    Ok(())
}
