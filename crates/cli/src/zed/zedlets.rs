//! Zedlets: the programs in the directory of a `zed`, and for which events each one runs.
//!
//! The name of a zedlet begins with a class of events, or with the part of a class behind `fs.zfs.`, or with `all`; what
//! follows is no letter: `statechange-notify.sh`, `all-syslog.sh`.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A name with this prefix fits every class.
const ALL: &str = "all";
/// Modes with which others than the owner may change a file.
const OTHERS_WRITE: u32 = 0o022;
/// The mode with which the owner may run a file.
const OWNER_RUNS: u32 = 0o100;

/// A directory of zedlets.
pub struct ZedletDir {
    path: PathBuf,
    /// Owners and modes do not count.
    is_forced: bool,
    /// Names of files that were reported as refused.
    reported: BTreeSet<String>,
}

impl ZedletDir {
    /// Opens a directory that nobody but root and the caller can change.
    ///
    /// # Errors
    /// Says why the directory is not used.
    pub fn open(path: &Path, is_forced: bool) -> Result<Self, String> {
        let metadata = std::fs::metadata(path).map_err(|error| engine::refusal::words(&error))?;
        if !metadata.is_dir() {
            return Err("not a directory".to_owned());
        }
        if !is_forced {
            check_owner(&metadata)?;
        }
        Ok(Self { path: path.to_owned(), is_forced, reported: BTreeSet::new() })
    }

    /// Returns the zedlets that run for events of a class, in the order of their names. Each call reads the directory.
    pub fn zedlets_for(&mut self, class: &str) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_for(name, class)).collect();
        names.sort_unstable();
        names.retain(|name| self.may_run(name));
        names.into_iter().map(|name| self.path.join(name)).collect()
    }

    /// Reports once why a file is not run.
    fn may_run(&mut self, name: &str) -> bool {
        let Err(reason) = self.check(name) else { return true };
        if self.reported.insert(name.to_owned()) {
            eprintln!("zed: '{}' is not run: {reason}", self.path.join(name).display());
        }
        false
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let metadata =
            std::fs::metadata(self.path.join(name)).map_err(|error| engine::refusal::words(&error))?;
        if !metadata.is_file() {
            return Err("not a file".to_owned());
        }
        if metadata.mode() & OWNER_RUNS == 0 {
            return Err("the owner may not execute the file".to_owned());
        }
        if self.is_forced { Ok(()) } else { check_owner(&metadata) }
    }
}

/// Checks that nobody but root and the caller can change a file or directory.
fn check_owner(metadata: &Metadata) -> Result<(), String> {
    let caller = rustix::process::getuid().as_raw();
    if ![0, caller].contains(&metadata.uid()) {
        return Err(format!("the owner is user {}", metadata.uid()));
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return Err("others than the owner may write".to_owned());
    }
    Ok(())
}

/// Returns the part of a class behind `fs.zfs.`. A class has at least these three words before that part.
pub fn subclass(class: &str) -> &str {
    class.splitn(4, '.').nth(3).unwrap_or(class)
}

/// Whether a file of this name runs for events of a class.
fn is_for(name: &str, class: &str) -> bool {
    let begins_with = |prefix: &str| {
        let rest = name.strip_prefix(prefix).filter(|_| !prefix.is_empty());
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphabetic()))
    };
    !name.starts_with('.') && [class, subclass(class), ALL].into_iter().any(begins_with)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const CLASS: &str = "sysevent.fs.zfs.scrub_finish";

    #[test]
    fn a_name_says_for_which_classes_a_file_runs() {
        for name in [
            "all-syslog.sh",
            "all",
            "scrub_finish-notify.sh",
            "scrub_finish.1",
            "sysevent.fs.zfs.scrub_finish-x",
        ] {
            assert!(is_for(name, CLASS), "{name}");
        }
        for name in ["allow", "scrub_finisher", "scrub-x", "scrub_start-x", ".all-x", "zed.rc", ""] {
            assert!(!is_for(name, CLASS), "{name}");
        }
        assert_eq!(subclass("resource.fs.zfs.statechange"), "statechange");
        assert_eq!(subclass("ereport.fs.zfs.io.deep"), "io.deep");
        assert_eq!(subclass("odd"), "odd");
    }

    #[test]
    fn a_file_that_others_can_change_is_not_run() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, mode) in [("all-b", 0o755), ("all-a", 0o700), ("all-open", 0o775), ("all-text", 0o644)] {
            let path = dir.path().join(name);
            std::fs::write(&path, "#!/bin/sh\n").expect("written");
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
        }
        std::fs::create_dir(dir.path().join("all-dir")).expect("a directory");
        let names = |is_forced| -> Vec<String> {
            let mut dir = ZedletDir::open(dir.path(), is_forced).expect("it is ours");
            let zedlets = dir.zedlets_for(CLASS).into_iter();
            zedlets.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
        };
        assert_eq!(names(false), ["all-a", "all-b"]);
        assert_eq!(names(true), ["all-a", "all-b", "all-open"]);
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).expect("a mode");
        assert_eq!(
            ZedletDir::open(dir.path(), false).err().as_deref(),
            Some("others than the owner may write")
        );
    }
}
