//! What a vdev is called in tables, and finding one by what a user called it.

use crate::{PoolInfo, VdevInfo, VdevKind};
use std::path::Path;

/// How leaves are named.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameStyle {
    /// By guid, groups too.
    pub guids: bool,
    /// Disks by full path.
    pub full_paths: bool,
    /// Disks by what their links point to.
    pub follow_links: bool,
}

/// The name in tables: `mirror-0`, `/path/of/a/file`, `sda`, or the guid of what is not there.
pub fn vdev_name(vdev: &VdevInfo, style: NameStyle) -> String {
    if style.guids || vdev.not_present {
        return vdev.guid.to_string();
    }
    match (vdev.kind, &vdev.path) {
        (VdevKind::Disk, Some(path)) => disk_name(path, vdev.whole_disk, style),
        (VdevKind::File, Some(path)) => path.clone(),
        (VdevKind::Raidz { parity }, _) => format!("raidz{parity}-{}", vdev.id),
        (VdevKind::Draid { parity, data, children, spares }, _) => {
            format!("draid{parity}:{data}d:{children}c:{spares}s-{}", vdev.id)
        }
        (kind, _) => format!("{}-{}", kind.word(), vdev.id),
    }
}

fn disk_name(path: &str, whole_disk: bool, style: NameStyle) -> String {
    let followed = if style.follow_links { std::fs::canonicalize(path).ok() } else { None };
    let path = followed.map_or_else(|| path.to_owned(), |p| p.to_string_lossy().into_owned());
    let path = if whole_disk { strip_partition(&path).to_owned() } else { path };
    if style.full_paths {
        return path;
    }
    Path::new(&path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned())
}

/// `sda1` and `nvme0n1p1` and `disk-part1` without their partition.
fn strip_partition(path: &str) -> &str {
    let base = path.trim_end_matches(|c: char| c.is_ascii_digit());
    if base.len() == path.len() {
        return path;
    }
    if let Some(disk) = base.strip_suffix("-part") {
        return disk;
    }
    if let Some(disk) = base.strip_suffix('p').filter(|disk| disk.ends_with(|c: char| c.is_ascii_digit())) {
        return disk;
    }
    let name = base.rsplit('/').next().unwrap_or(base);
    let lettered = ["sd", "hd", "vd", "xvd"].iter().any(|prefix| name.starts_with(prefix));
    if lettered { base } else { path }
}

/// The vdev a user means: a path, a short disk name, `mirror-1` or a guid.
pub fn find_vdev<'a>(pool: &'a PoolInfo, word: &str) -> Option<&'a VdevInfo> {
    let all = pool.root.walk().skip(1).chain(&pool.caches).chain(&pool.spares);
    all.into_iter().find(|vdev| {
        let by_name = vdev_name(vdev, NameStyle::default()) == word;
        let by_path = vdev.path.as_deref() == Some(word);
        let by_full = vdev_name(vdev, NameStyle { full_paths: true, ..NameStyle::default() }) == word;
        let by_guid = word.parse() == Ok(vdev.guid);
        vdev.is_shown() && (by_name || by_path || by_full || by_guid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VdevClass;

    fn disk(path: &str, whole: bool) -> VdevInfo {
        let mut vdev = VdevInfo::new(VdevKind::Disk, 0, 7, VdevClass::Normal);
        vdev.path = Some(path.to_owned());
        vdev.whole_disk = whole;
        vdev
    }

    #[test]
    fn whole_disks_lose_directory_and_partition() {
        let name = |path, whole| vdev_name(&disk(path, whole), NameStyle::default());
        assert_eq!(name("/dev/sda1", true), "sda");
        assert_eq!(name("/dev/sda1", false), "sda1");
        assert_eq!(name("/dev/nvme0n1p1", true), "nvme0n1");
        assert_eq!(name("/dev/disk/by-id/wwn-17-part1", true), "wwn-17");
        assert_eq!(name("/dev/loop7", true), "loop7");
    }

    #[test]
    fn a_device_that_is_not_there_is_called_by_its_guid() {
        let mut gone = disk("/dev/sda1", true);
        gone.not_present = true;
        assert_eq!(vdev_name(&gone, NameStyle::default()), "7");
    }
}
