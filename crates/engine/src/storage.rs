//! What a device or a file lies on, as Linux tells in `/sys` and `/proc/self/mountinfo`.
//!
//! ```text
//!  file ─ st_dev ─► block device ─► partition ─► its disk
//!    │ none: btrfs, overlay ...       │ loop ─► its file      │ slaves (md, lvm, crypt) ─► each of them
//!    ▼
//!  mountinfo ─► what is mounted there
//! ```
//! What the system does not tell stays unknown: nothing is guessed here.

use control::{DiskInfo, StorageInfo};
use env::Machine;
use std::path::{Path, PathBuf};

/// Layers that are followed at most: files in file systems on loops on files ...
const LAYERS_MAX: usize = 8;
/// `size` in `/sys` counts these, whatever the disk's own sectors are.
const SYSFS_SECTOR_BYTES: u64 = 512;
/// What [`Machine::identity`] gives in place of a file's device for a block device.
const IS_BLOCK_DEVICE: u64 = u64::MAX;

/// What `path` lies on.
pub fn below(machine: &dyn Machine, path: &Path) -> StorageInfo {
    let mut info = StorageInfo::default();
    if let Some(device) = device_of(machine, path, Some(&mut info.file_system)) {
        disks(machine, &device, LAYERS_MAX, &mut info.disks);
    }
    info
}

/// The directory in `/sys` of the block device that `path` is, or is stored on.
fn device_of(
    machine: &dyn Machine,
    path: &Path,
    file_system: Option<&mut Option<String>>,
) -> Option<PathBuf> {
    let number = match machine.identity(path)? {
        (IS_BLOCK_DEVICE, number) => number,
        (device, _) => {
            let mount = Mount::of(machine, device);
            if let (Some(told), Some(mount)) = (file_system, &mount) {
                *told = Some(mount.kind.clone());
            }
            match machine.read(&directory_of(device).join("uevent")).is_ok() {
                true => device,
                // A file system with a number that is no disk's may name its disk as what was mounted.
                false => match machine.identity(Path::new(&mount?.source))? {
                    (IS_BLOCK_DEVICE, number) => number,
                    _ => return None,
                },
            }
        }
    };
    Some(directory_of(number))
}

/// Where `/sys` has a block device.
fn directory_of(number: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)))
}

/// As Linux puts two numbers into one.
fn major(number: u64) -> u64 {
    ((number >> 8) & 0xfff) | ((number >> 32) & !0xfff)
}

fn minor(number: u64) -> u64 {
    (number & 0xff) | ((number >> 12) & 0xffff_ff00)
}

/// A line of `/proc/self/mountinfo`.
struct Mount {
    kind: String,
    source: String,
}

impl Mount {
    fn of(machine: &dyn Machine, device: u64) -> Option<Self> {
        let text = machine.read(Path::new("/proc/self/mountinfo")).ok()?;
        let wanted = format!("{}:{}", major(device), minor(device));
        String::from_utf8_lossy(&text).lines().find_map(|line| {
            let (head, tail) = line.split_once(" - ")?;
            let is_it = head.split(' ').nth(2) == Some(wanted.as_str());
            let mut words = tail.split(' ');
            let (kind, source) = (words.next()?.to_owned(), words.next()?.to_owned());
            is_it.then_some(Self { kind, source })
        })
    }
}

/// Adds the disks below a block device.
fn disks(machine: &dyn Machine, device: &Path, layers: usize, found: &mut Vec<DiskInfo>) {
    let Some(layers) = layers.checked_sub(1) else { return };
    let parts = machine.names_in(&device.join("slaves")).unwrap_or_default();
    if !parts.is_empty() {
        let mut parts: Vec<PathBuf> =
            parts.iter().map(|name| Path::new("/sys/class/block").join(name)).collect();
        parts.sort();
        return parts.iter().for_each(|part| disks(machine, part, layers, found));
    }
    if let Some(file) = value(machine, &device.join("loop/backing_file")) {
        let on = device_of(machine, Path::new(&file), None);
        return on.iter().for_each(|on| disks(machine, on, layers, found));
    }
    if value(machine, &device.join("partition")).is_some() {
        return disks(machine, &device.join(".."), layers, found);
    }
    if let Some(disk) = disk(machine, device).filter(|disk| !found.contains(disk)) {
        found.push(disk);
    }
}

fn disk(machine: &dyn Machine, device: &Path) -> Option<DiskInfo> {
    let uevent = value(machine, &device.join("uevent"))?;
    let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="))?.to_owned();
    let model = value(machine, &device.join("device/model"));
    let sectors = value(machine, &device.join("size")).and_then(|text| text.parse::<u64>().ok());
    let cache = value(machine, &device.join("queue/write_cache"));
    let is_rotational = value(machine, &device.join("queue/rotational"));
    Some(DiskInfo {
        is_virtual: is_virtual(&name, model.as_deref()),
        name,
        model,
        size_bytes: sectors.and_then(|sectors| sectors.checked_mul(SYSFS_SECTOR_BYTES)),
        is_rotational: is_rotational.and_then(|text| match text.as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }),
        has_volatile_cache: cache.and_then(|text| match text.as_str() {
            "write back" => Some(true),
            "write through" => Some(false),
            _ => None,
        }),
    })
}

/// Disks of virtio and Xen, and those whose model says so.
fn is_virtual(name: &str, model: Option<&str>) -> bool {
    const MODELS: [&str; 6] = ["QEMU", "VBOX", "Virtual", "PersistentDisk", "Elastic Block Store", "VMware"];
    let is_so = |model: &str| MODELS.iter().any(|word| model.contains(word));
    ["vd", "xvd"].iter().any(|start| name.starts_with(start)) || model.is_some_and(is_so)
}

/// A file's text without blanks around it; none where it is empty.
fn value(machine: &dyn Machine, path: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&machine.read(path).ok()?).trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
