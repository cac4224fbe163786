//! The features of OpenZFS's releases, for systems on which its files of features are not installed.
//!
//! Each release has the features of all before it. The files that come with OpenZFS say the same
//! (test: `releases_are_as_the_files_of_openzfs_say`, where they are installed).

use std::collections::BTreeSet;

/// A release on Linux, and what came with it.
struct Release {
    /// Names of its file.
    names: &'static [&'static str],
    adds: &'static [&'static str],
}

const RELEASES: [Release; 9] = [
    Release { names: &["zol-0.6.1"], adds: &["async_destroy", "empty_bpobj", "lz4_compress"] },
    Release {
        names: &["zol-0.6.4"],
        adds: &[
            "bookmarks",
            "embedded_data",
            "enabled_txg",
            "extensible_dataset",
            "hole_birth",
            "spacemap_histogram",
        ],
    },
    Release { names: &["zol-0.6.5", "compat-2018", "2018"], adds: &["filesystem_limits", "large_blocks"] },
    Release {
        names: &["zol-0.7"],
        adds: &["edonr", "large_dnode", "multi_vdev_crash_dump", "sha512", "skein", "userobj_accounting"],
    },
    Release {
        names: &["zol-0.8"],
        adds: &[
            "allocation_classes",
            "bookmark_v2",
            "device_removal",
            "encryption",
            "obsolete_counts",
            "project_quota",
            "resilver_defer",
            "spacemap_v2",
            "zpool_checkpoint",
        ],
    },
    Release {
        names: &["openzfs-2.0-linux"],
        adds: &[
            "bookmark_written",
            "device_rebuild",
            "livelist",
            "log_spacemap",
            "redacted_datasets",
            "redaction_bookmarks",
            "zstd_compress",
        ],
    },
    Release { names: &["openzfs-2.1-linux"], adds: &["draid"] },
    Release {
        names: &["openzfs-2.2", "openzfs-2.2-linux", "openzfs-2.2-freebsd"],
        adds: &["blake3", "block_cloning", "head_errlog", "vdev_zaps_v2", "zilsaxattr"],
    },
    Release {
        names: &["openzfs-2.3", "openzfs-2.3-linux", "openzfs-2.3-freebsd"],
        adds: &["fast_dedup", "large_microzap", "longname", "raidz_expansion", "redaction_list_spill"],
    },
];

/// The features of the release that a file of this name describes.
pub fn features_of(file: &str) -> Option<BTreeSet<String>> {
    let last = RELEASES.iter().position(|release| release.names.contains(&file))?;
    let adds = RELEASES.iter().take(last + 1).flat_map(|release| release.adds);
    Some(adds.map(|name| (*name).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::{SHARED_DIR, parse, read};
    use crate::props::is_feature;
    use device::RealMachine;
    use oracle::needs::Need;
    use std::path::Path;

    #[test]
    fn releases_are_as_the_files_of_openzfs_say() {
        if !Path::new(SHARED_DIR).exists() {
            Need::Features.is_missing(&format!("{SHARED_DIR} is not there"));
            return;
        }
        for name in RELEASES.iter().flat_map(|release| release.names) {
            let text = read(&RealMachine::default(), &Path::new(SHARED_DIR).join(name)).expect("a file");
            assert_eq!(features_of(name).expect("a release"), parse(&text).0, "{name}");
        }
    }

    #[test]
    fn releases_name_features_that_there_are() {
        let newest = features_of("openzfs-2.3").expect("a release");
        assert!(newest.len() == 44 && newest.iter().all(|name| is_feature(name)));
        assert_eq!(features_of("openzfs-1.0"), None);
    }
}
