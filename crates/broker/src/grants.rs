//! What a process may have done.
//!
//! Devices are granted when a request of root's names them, or when a process that could only read has found them by
//! their labels. The daemon keeps the paths, because the list that the process itself writes proves nothing.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

use env::OpenMode;
use parking_lot::Mutex;
use rustix::fs::{FileType, fstat};

/// Where OpenZFS keeps the files that `compatibility` names (zpool-features(7)).
const COMPATIBILITY_DIRS: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];
/// The files of a process: its list, a list that made no sense, and the reason of a panic ([`engine::PoolCache`]).
const OWN_FILES: [&str; 3] = ["pools.cache", "pools.damaged", "pools.panic"];
const DEVICES_DIR: &str = "/dev";

/// A place where a process may look for devices. The process may read the devices there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// All block devices in `/dev`.
    BlockDevices,
    /// A directory with devices, or one device.
    Place(PathBuf),
}

/// See the module. Both the desk of a process and the supervisor have the grants of the process.
#[derive(Debug)]
pub struct Grants {
    /// The directory of the list of the process.
    own: PathBuf,
    set: Mutex<GrantSet>,
}

#[derive(Debug, Default)]
struct GrantSet {
    devices: BTreeSet<PathBuf>,
    searches: Vec<Search>,
    /// Directories whose names may be listed.
    listed: Vec<PathBuf>,
    /// Cache files of users, in which the process changes its own pools.
    files: BTreeSet<PathBuf>,
    /// Small files that are only read.
    texts: BTreeSet<PathBuf>,
    /// Devices of other pools, which are compared with the devices of this pool.
    others: BTreeSet<PathBuf>,
    altroot: Option<PathBuf>,
    /// Places where the process has mounted file systems.
    mount_points: BTreeSet<PathBuf>,
}

impl Grants {
    /// Grants nothing but the files of the process in the directory `own`.
    #[must_use]
    pub fn new(own: PathBuf) -> Self {
        Self { own, set: Mutex::default() }
    }

    /// The process may read and write these devices. Returns those that it could not read and write before.
    pub fn add_devices(&self, devices: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
        let mut set = self.set.lock();
        devices.into_iter().filter(|device| set.devices.insert(device.clone())).collect()
    }

    /// The process may not open these devices any more.
    pub fn take_back_devices(&self, devices: &[PathBuf]) {
        self.set.lock().devices.retain(|device| !devices.contains(device));
    }

    /// Returns the devices that the process may read and write.
    #[must_use]
    pub fn devices(&self) -> Vec<PathBuf> {
        self.set.lock().devices.iter().cloned().collect()
    }

    /// The process may look for devices there, and read them.
    pub fn set_searches(&self, searches: Vec<Search>) {
        self.set.lock().searches = searches;
    }

    /// The process may list the names in these directories.
    pub fn set_listed(&self, directories: Vec<PathBuf>) {
        self.set.lock().listed = directories;
    }

    /// The process may read this cache file, and change its own pools there.
    pub fn add_file(&self, file: PathBuf) {
        self.set.lock().files.insert(file);
    }

    /// Returns the cache files of the process.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.set.lock().files.iter().cloned().collect()
    }

    /// The process may read this file.
    pub fn add_text(&self, text: PathBuf) {
        self.set.lock().texts.insert(text);
    }

    /// The process may learn which devices these paths lead to.
    pub fn set_others(&self, others: impl IntoIterator<Item = PathBuf>) {
        self.set.lock().others = others.into_iter().collect();
    }

    /// Returns the directory below which the process mounts.
    #[must_use]
    pub fn altroot(&self) -> Option<PathBuf> {
        self.set.lock().altroot.clone()
    }

    /// The process mounts below this directory only.
    pub fn set_altroot(&self, altroot: Option<PathBuf>) {
        self.set.lock().altroot = altroot;
    }

    /// True if the device that a path has led to may be opened. The descriptor names the device.
    pub(crate) fn may_open(&self, path: &Path, device: impl AsFd, mode: OpenMode) -> bool {
        let set = self.set.lock();
        let is_searched = || set.searches.iter().any(|search| search.has(path, &device));
        set.devices.contains(path)
            || mode == OpenMode::ReadOnly && is_searched()
            || identity_of(&device).is_some_and(|identity| set.is_alias(identity))
    }

    /// True if a device may be opened by this path, as far as the path says.
    pub(crate) fn may_try(&self, path: &Path) -> bool {
        let set = self.set.lock();
        set.devices.contains(path)
            || set.searches.iter().any(|search| search.may_have(path))
            || identity_at(path).is_some_and(|identity| set.is_alias(identity))
    }

    /// True if a small file may be read.
    pub(crate) fn may_read(&self, path: &Path) -> bool {
        let is_text = |set: &GrantSet| set.files.contains(path) || set.texts.contains(path);
        self.is_own(path)
            || COMPATIBILITY_DIRS.iter().any(|directory| is_in(path, Path::new(directory)))
            || is_text(&self.set.lock())
    }

    /// True if a small file of the process may be replaced, renamed or removed.
    pub(crate) fn may_change(&self, path: &Path) -> bool {
        self.is_own(path)
    }

    /// True if the file is one of [`Self::files`].
    pub(crate) fn has_file(&self, path: &Path) -> bool {
        self.set.lock().files.contains(path)
    }

    /// True if the names in a directory may be listed.
    pub(crate) fn may_list(&self, directory: &Path) -> bool {
        let set = self.set.lock();
        let is_it = |search: &Search| matches!(search, Search::Place(place) if place == directory);
        set.searches.iter().any(is_it) || set.listed.iter().any(|listed| listed == directory)
    }

    /// True if the process may learn whether there is a file, and its numbers.
    pub(crate) fn may_know(&self, path: &Path) -> bool {
        let set = self.set.lock();
        let is_beside = |file: &PathBuf| file == path || file.parent() == Some(path);
        set.devices.contains(path)
            || set.others.contains(path)
            || set.files.iter().any(is_beside)
            || set.listed.iter().any(|listed| path == listed || is_in(path, listed))
            || set.searches.iter().any(|search| search.may_have(path))
            || is_below(path, Path::new(DEVICES_DIR))
    }

    /// True if a file system may be mounted there, with this altroot. Mount points are remembered.
    pub(crate) fn may_mount(&self, place: &Path, altroot: Option<&Path>) -> bool {
        let mut set = self.set.lock();
        let is_allowed = match &set.altroot {
            Some(own) => altroot == Some(own) && is_below(place, own),
            None => is_plain(place),
        };
        if is_allowed {
            set.mount_points.insert(place.to_owned());
        }
        is_allowed
    }

    /// True if an empty directory may be removed.
    pub(crate) fn may_remove_point(&self, place: &Path) -> bool {
        self.set.lock().mount_points.contains(place)
    }

    /// True if the file is one of the process itself.
    fn is_own(&self, path: &Path) -> bool {
        OWN_FILES.iter().any(|name| path == self.own.join(name)) && is_in(path, &self.own)
    }
}

impl GrantSet {
    /// True if the device is a granted one, which has another path here.
    fn is_alias(&self, identity: (u64, u64)) -> bool {
        self.devices.iter().any(|device| identity_at(device) == Some(identity))
    }
}

impl Search {
    /// True if the path may lead to a device there.
    fn may_have(&self, path: &Path) -> bool {
        match self {
            Self::BlockDevices => is_below(path, Path::new(DEVICES_DIR)),
            Self::Place(place) => path == place || is_in(path, place),
        }
    }

    fn has(&self, path: &Path, device: impl AsFd) -> bool {
        let is_block_device = || {
            fstat(&device).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
        };
        self.may_have(path) && (matches!(self, Self::Place(_)) || is_block_device())
    }
}

fn identity_at(path: &Path) -> Option<(u64, u64)> {
    device::identity(path)
}

/// Returns the numbers of a file. [`env::Machine::identity`] returns the same numbers for its path.
fn identity_of(file: impl AsFd) -> Option<(u64, u64)> {
    let stat = fstat(file).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => Some((u64::MAX, stat.st_rdev)),
        _ => Some((stat.st_dev, stat.st_ino)),
    }
}

/// True if the path is a name in the directory.
fn is_in(path: &Path, directory: &Path) -> bool {
    let is_name = |path: &Path| matches!(path.components().next_back(), Some(Component::Normal(_)));
    path.parent() == Some(directory) && is_name(path)
}

/// True if the path begins with the directory and does not lead back.
fn is_below(path: &Path, directory: &Path) -> bool {
    path.starts_with(directory) && is_plain(path)
}

fn is_plain(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn grants() -> Grants {
        Grants::new("/var/lib/sawmill/pools/1".into())
    }

    #[test]
    fn a_file_of_its_own_is_a_name_in_its_directory() {
        let grants = grants();
        for path in ["/var/lib/sawmill/pools/1/pools.cache", "/var/lib/sawmill/pools/1/pools.panic"] {
            assert!(grants.may_read(Path::new(path)) && grants.may_change(Path::new(path)), "{path}");
        }
        for path in [
            "/var/lib/sawmill/pools/1/../2/pools.cache",
            "/var/lib/sawmill/pools/1/..",
            "/var/lib/sawmill/pools/1/socket",
            "/var/lib/sawmill/pools/1/pools.more",
            "/var/lib/sawmill/pools/1/./pools.cache/..",
            "/var/lib/sawmill/pools/1",
            "/var/lib/sawmill/pools/1/below/file",
            "/var/lib/sawmill/pools.cache",
            "/etc/shadow",
            "/proc/self/mountinfo",
            "/sys/kernel/debug/file",
            "",
        ] {
            assert!(!grants.may_read(Path::new(path)) && !grants.may_change(Path::new(path)), "{path}");
        }
        assert!(grants.may_read(Path::new("/usr/share/zfs/compatibility.d/openzfs-2.2")));
        assert!(!grants.may_change(Path::new("/usr/share/zfs/compatibility.d/openzfs-2.2")));
        assert!(!grants.may_read(Path::new("/usr/share/zfs/compatibility.d/../../../../etc/shadow")));
    }

    #[test]
    fn mounts_stay_below_the_altroot() {
        let grants = grants();
        assert!(grants.may_mount(Path::new("/a"), None));
        assert!(!grants.may_mount(Path::new("a"), None));
        let altroot = Path::new("/mnt/x");
        grants.set_altroot(Some(altroot.into()));
        assert!(grants.may_mount(Path::new("/mnt/x/a"), Some(altroot)));
        for (place, said) in [
            ("/mnt/x/a", None),
            ("/mnt/x/a", Some("/")),
            ("/mnt/xa", Some("/mnt/x")),
            ("/etc", Some("/mnt/x")),
            ("/mnt/x/../../etc", Some("/mnt/x")),
        ] {
            assert!(!grants.may_mount(Path::new(place), said.map(Path::new)), "{place} {said:?}");
        }
        assert!(grants.may_remove_point(Path::new("/mnt/x/a")));
        assert!(!grants.may_remove_point(Path::new("/etc")));
    }

    #[test]
    fn a_device_is_known_by_each_of_its_paths() {
        let dir = tempfile::tempdir().expect("a directory");
        let [own, alias, other] = ["own", "alias", "other"].map(|name| dir.path().join(name));
        File::create(&own).expect("a file");
        File::create(&other).expect("a file");
        std::fs::hard_link(&own, &alias).expect("a link");
        let grants = grants();
        grants.add_devices([own.clone()]);
        let may = |path: &Path, mode| {
            grants.may_try(path) && grants.may_open(path, File::open(path).expect("a file"), mode)
        };
        assert!(may(&own, OpenMode::ReadWrite) && may(&alias, OpenMode::ReadWrite));
        assert!(!may(&other, OpenMode::ReadOnly));
        grants.set_searches(vec![Search::Place(dir.path().into())]);
        assert!(may(&other, OpenMode::ReadOnly) && !may(&other, OpenMode::ReadWrite));
        grants.set_searches(vec![Search::BlockDevices]);
        assert!(!may(&other, OpenMode::ReadOnly));
    }
}
