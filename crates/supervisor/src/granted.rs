//! What the processes of pools may have done, on disk, so that the next process of a pool may have the same done.
//!
//! The file lies beside the directory of the process, where the process cannot change it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker::{Grants, Search};
use control::{FoundDevice, Holdings, PoolCreate, PoolImport, PoolSet, RunPaths, VdevSpec};
use engine::CachedPool;
use env::{Machine, Readers};
use serde::{Deserialize, Serialize};

/// A file with the grants of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Granted {
    devices: Vec<String>,
    files: Vec<String>,
    altroot: Option<String>,
}

fn file_of(paths: &RunPaths, number: u64) -> PathBuf {
    paths.of_pool(number).state_dir().with_extension("granted")
}

/// Returns the grants of the process with this number. Without a file they are what `listed` says: a daemon that held
/// all pools itself has written the list.
pub fn load(
    machine: &dyn Machine,
    paths: &RunPaths,
    number: u64,
    listed: Option<&CachedPool>,
) -> Arc<Grants> {
    let grants = Grants::new(paths.of_pool(number).state_dir().to_owned());
    let read = machine.read(&file_of(paths, number)).ok();
    let granted = match read.map(|bytes| serde_json::from_slice::<Granted>(&bytes)) {
        Some(Ok(granted)) => granted,
        Some(Err(error)) => {
            tracing::error!(number, %error, "nobody knows which devices a pool may have");
            Granted::default()
        }
        None => listed.map(of_list).unwrap_or_default(),
    };
    grants.add_devices(granted.devices.into_iter().map(PathBuf::from));
    granted.files.into_iter().for_each(|file| grants.add_file(file.into()));
    grants.set_altroot(granted.altroot.map(PathBuf::from));
    Arc::new(grants)
}

fn of_list(listed: &CachedPool) -> Granted {
    let CachedPool { devices, altroot, .. } = listed.clone();
    Granted { devices, altroot, files: Vec::new() }
}

/// Keeps the grants of a process.
///
/// # Errors
/// The system's.
pub fn store(machine: &dyn Machine, paths: &RunPaths, number: u64, grants: &Grants) -> std::io::Result<()> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let granted = Granted {
        devices: grants.devices().into_iter().map(text).collect(),
        files: grants.files().into_iter().map(text).collect(),
        altroot: grants.altroot().map(text),
    };
    machine.replace(&file_of(paths, number), &serde_json::to_vec(&granted)?, Readers::Owner)
}

/// Removes the file.
pub fn forget(paths: &RunPaths, number: u64) {
    match std::fs::remove_file(file_of(paths, number)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(number, %error, "the grants of a process stay");
        }
        _ => {}
    }
}

/// Returns the devices of a specification.
pub fn devices_of(vdevs: &[VdevSpec]) -> Vec<PathBuf> {
    vdevs.iter().flat_map(|vdev| vdev.devices.iter().map(PathBuf::from)).collect()
}

/// Returns where a request searches for devices. The default is all block devices.
pub fn searches_of(search: &[String]) -> Vec<Search> {
    match search {
        [] => vec![Search::BlockDevices],
        _ => search.iter().map(|place| Search::Place(place.into())).collect(),
    }
}

/// Returns the devices of the pool that an import means. Hot spares and cache devices name no pool, so that all of
/// them are among the result.
pub fn meant<'a>(call: &'a PoolImport, found: &'a [FoundDevice]) -> impl Iterator<Item = PathBuf> + 'a {
    let guid = call.guid.or_else(|| call.pool.parse().ok());
    let is_meant = move |device: &&FoundDevice| match &device.pool {
        Some((name, found)) => guid == Some(*found) || *name == call.pool,
        None => true,
    };
    found.iter().filter(is_meant).map(|device| PathBuf::from(&device.path))
}

/// Returns the devices that labels say are of a pool. Labels of hot spares and cache devices name no pool: the pool
/// names these devices.
pub fn of_pool(pool: &Holdings, found: &[FoundDevice]) -> Vec<PathBuf> {
    let is_named =
        |path: &String| [&pool.devices, &pool.absent, &pool.spares].iter().any(|paths| paths.contains(path));
    let is_meant = |device: &&FoundDevice| match &device.pool {
        Some((_, guid)) => *guid == pool.guid,
        None => is_named(&device.path),
    };
    found.iter().filter(is_meant).map(|device| PathBuf::from(&device.path)).collect()
}

/// Grants what a request to make a pool names.
pub fn grant_for_create(grants: &Grants, call: &PoolCreate) {
    grants.add_devices(devices_of(&call.vdevs));
    call.props.iter().for_each(|(name, value)| grant_for_prop(grants, name, value));
    if let Some(altroot) = &call.altroot {
        grants.set_altroot(Some(altroot.into()));
    }
}

/// Grants what a request to import a pool names. The devices are granted when they are found.
pub fn grant_for_import(grants: &Grants, call: &PoolImport) {
    call.props.iter().for_each(|(name, value)| grant_for_prop(grants, name, value));
    if let Some(altroot) = &call.altroot {
        grants.set_altroot(Some(altroot.into()));
    }
    grants.set_listed(call.search.iter().map(PathBuf::from).collect());
}

/// Grants what a property of a pool names.
pub fn grant_for_set(grants: &Grants, call: &PoolSet) {
    match &call.vdev {
        None => grant_for_prop(grants, &call.name, &call.value),
        Some(_) if call.name == "path" => drop(grants.add_devices([PathBuf::from(&call.value)])),
        Some(_) => {}
    }
}

fn grant_for_prop(grants: &Grants, name: &str, value: &str) {
    let is_path = |word: &&str| Path::new(word).is_absolute();
    match name {
        "cachefile" => [value].into_iter().filter(is_path).for_each(|file| grants.add_file(file.into())),
        "compatibility" => value.split(',').filter(is_path).for_each(|text| grants.add_text(text.into())),
        "altroot" => grants.set_altroot(Some(value).filter(|value| is_path(value)).map(PathBuf::from)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::RealMachine;

    #[test]
    fn the_next_process_of_a_pool_may_have_the_same_done() {
        let dir = tempfile::tempdir().expect("a directory");
        let (machine, paths) = (RealMachine::default(), RunPaths::under(dir.path()));
        let listed = CachedPool { devices: vec!["/dev/a".into()], ..CachedPool::default() };
        let grants = load(&machine, &paths, 7, Some(&listed));
        assert_eq!(grants.devices(), [PathBuf::from("/dev/a")]);
        assert_eq!(grants.add_devices(["/dev/a".into(), "/dev/b".into()]), [PathBuf::from("/dev/b")]);
        let call = PoolSet { name: "cachefile".into(), value: "/etc/c".into(), ..PoolSet::default() };
        grant_for_set(&grants, &call);
        grants.set_altroot(Some("/mnt".into()));
        store(&machine, &paths, 7, &grants).expect("stored");
        // The list is the process's own.
        let listed = CachedPool { devices: vec!["/dev/other".into()], ..CachedPool::default() };
        let again = load(&machine, &paths, 7, Some(&listed));
        assert_eq!(again.devices(), ["/dev/a", "/dev/b"].map(PathBuf::from));
        assert_eq!((again.files(), again.altroot()), (vec!["/etc/c".into()], Some("/mnt".into())));
        forget(&paths, 7);
        assert!(load(&machine, &paths, 7, None).devices().is_empty());
    }

    #[test]
    fn an_import_gets_the_devices_that_its_words_mean() {
        let device = |path: &str, pool: Option<(&str, u64)>| FoundDevice {
            path: path.into(),
            pool: pool.map(|(name, guid)| (name.to_owned(), guid)),
        };
        let found = [
            device("/a", Some(("tank", 7))),
            device("/b", Some(("other", 8))),
            device("/c", Some(("tank", 9))),
            device("/spare", None),
        ];
        let meant = |pool: &str| {
            let call = PoolImport { pool: pool.into(), ..PoolImport::default() };
            meant(&call, &found).map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(meant("tank"), ["/a", "/c", "/spare"]);
        assert_eq!(meant("8"), ["/b", "/spare"]);
    }
}
