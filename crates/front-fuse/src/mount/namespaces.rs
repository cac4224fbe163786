//! Where a file system is shown beside its mount: by bind mounts, and in other mount namespaces.
//!
//! The kernel has a table of mounts for each mount namespace. The table of another namespace is read through a process in
//! that namespace, so a namespace without processes is not found, and neither is one whose processes this process may
//! not look at (ptrace(2), "Ptrace access mode checking").
//!
//! A pool may have thousands of file systems that are unmounted one after another. The tables of the other namespaces are
//! therefore kept for a moment. A table that shows the file system is read again before anybody is told so.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::identity::MountIdentity;
use super::table::KernelMounts;

/// Bytes of the tables of other namespaces that are read at a time. A user may make many namespaces with many mounts, and
/// must not take the memory and the time of the daemon. Namespaces beyond that are not found.
const TABLES_MAX_BYTES: u64 = 64 << 20;
/// How long the tables of other namespaces are kept.
const KEPT_FOR: Duration = Duration::from_millis(500);

/// The tables of the other namespaces, and when they were read.
static KEPT: Mutex<Option<(Instant, Arc<Vec<OtherNamespace>>)>> = Mutex::new(None);

/// Another mount namespace, as a process in it sees it.
struct OtherNamespace {
    /// The directory of the process in `/proc`.
    process: PathBuf,
    mounts: KernelMounts,
}

impl OtherNamespace {
    /// Reads the tables of all other namespaces that processes are in.
    fn read_all() -> Vec<Self> {
        let own = fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
        let mut seen = BTreeSet::from([own]);
        let (mut all, mut room) = (Vec::new(), TABLES_MAX_BYTES);
        for process in processes() {
            let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { continue };
            if !seen.insert(namespace) {
                continue;
            }
            // The process may have ended.
            let Ok((mounts, bytes)) = KernelMounts::of_fuse(&process, room) else { continue };
            room -= bytes;
            all.push(Self { process, mounts });
        }
        all
    }

    /// Returns the place where this namespace shows the file system of a mount in `own`, in words.
    fn shows(&self, own: &KernelMounts, identity: MountIdentity) -> Option<String> {
        let copy = own.lasting_copy(identity, &self.mounts)?;
        let number = self.process.file_name().unwrap_or_default().to_string_lossy();
        let name = fs::read_to_string(self.process.join("comm")).unwrap_or_default();
        let place = copy.at.display();
        Some(format!("the mount namespace of process {number} ({}) at '{place}'", name.trim_end()))
    }
}

/// Returns the directories of all processes in `/proc`.
fn processes() -> Vec<PathBuf> {
    let is_number = |name: &OsString| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter(|entry| is_number(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// Returns the place where the file system of a mount is shown beside this mount, in words: a bind mount, or a place in
/// another mount namespace. Copies that the kernel unmounts together with the mount do not count.
pub(super) fn seen_elsewhere(identity: MountIdentity) -> Option<String> {
    let own = KernelMounts::read().ok()?;
    if let Some(copy) = own.lasting_copy(identity, &own) {
        return Some(format!("a bind mount at '{}'", copy.at.display()));
    }
    let shown = |all: &[OtherNamespace]| all.iter().find_map(|other| other.shows(&own, identity));
    shown(&kept())?;
    let fresh = Arc::new(OtherNamespace::read_all());
    *KEPT.lock() = Some((Instant::now(), Arc::clone(&fresh)));
    shown(&fresh)
}

/// Returns the tables of the other namespaces, which were read a moment ago.
fn kept() -> Arc<Vec<OtherNamespace>> {
    let mut kept = KEPT.lock();
    match &*kept {
        Some((read, all)) if read.elapsed() < KEPT_FOR => Arc::clone(all),
        _ => {
            let all = Arc::new(OtherNamespace::read_all());
            *kept = Some((Instant::now(), Arc::clone(&all)));
            all
        }
    }
}
