//! Scripts made from public bug reports against OpenZFS, FUSE file systems and backup tools (`tests/reports`). Each script
//! starts a daemon and makes pools of its own, prints one line, and exits with 0 if Sawmill does it right.
//!
//! The scripts run real programs: databases, qemu-img, podman where it is installed, zfs-autobackup. `scripts/setup test`
//! installs them; a script that misses a program is wrong.
#![forbid(unsafe_code)]

#[path = "../mounted/mod.rs"]
mod mounted;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `scripts/setup test` puts Python with the packages that scripts need.
const PYTHON: &str = "/usr/local/lib/sawmill-tests/python/bin";
/// The longest script takes a minute and a half on two cores.
const PATIENCE_SECS: &str = "500";

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reports")
}

/// The directories of the programs, and those that only root's shells search.
fn search_path(programs: &Path) -> OsString {
    let own = [programs.to_owned(), PathBuf::from(PYTHON)];
    let given = std::env::var_os("PATH").unwrap_or_default();
    let given: Vec<PathBuf> = std::env::split_paths(&given).collect();
    let all = own.into_iter().chain(given).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    std::env::join_paths(all).expect("no path has a colon")
}

/// Runs a script in a mount namespace of its own.
fn run(name: &str) {
    if !mounted::can_mount() {
        return;
    }
    // Other users enter the directory. Files of a tmpfs would have no direct I/O.
    let open = Permissions::from_mode(0o755);
    let dir = tempfile::Builder::new().permissions(open).tempdir_in("/var/tmp").expect("a directory");
    let programs = dir.path().join("bin");
    std::fs::create_dir(&programs).expect("a directory");
    for name in ["zpool", "zfs", "sawmill"] {
        symlink(env!("CARGO_BIN_EXE_sawmill"), programs.join(name)).expect("a link");
    }
    let mut command = Command::new("timeout");
    command.args(["-k", "5", PATIENCE_SECS, "unshare", "--mount", "--propagation", "private", "bash"]);
    command.arg(scripts().join(format!("{name}.sh")));
    command.env("PATH", search_path(&programs)).env("TMPDIR", dir.path());
    let output = command.output().expect("unshare runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}: {}{}", output.status, text(&output.stdout), text(&output.stderr));
}

macro_rules! reports {
    ($($test:ident = $name:literal,)*) => {
        $(#[test]
        fn $test() {
            run($name);
        })*

        const NAMES: &[&str] = &[$($name),*];
    };
}

reports! {
    import_without_log = "01-import-without-log",
    log_removal_after_crashes = "02-log-removal-after-crashes",
    hardlink_unlinked_before_fsync = "03-hardlink-unlinked-before-fsync",
    object_numbers_reused_in_one_log = "04-object-numbers-reused-in-one-log",
    xattr_and_acl_survive_crash = "05-xattr-and-acl-survive-crash",
    tmpfile_linked_then_crash = "06-tmpfile-linked-then-crash",
    copies_of_files_just_written = "07-copies-of-files-just-written",
    mapped_reader_and_writer = "09-mapped-reader-and-writer",
    large_block_flag_toggled = "11-large-block-flag-toggled",
    acl_and_block_size_in_increment = "12-acl-and-block-size-in-increment",
    recordsize_raised_on_emptied_file = "13-recordsize-raised-on-emptied-file",
    recordsize_lowered_then_increment = "14-recordsize-lowered-then-increment",
    user_accounting_after_receive = "15-user-accounting-after-receive",
    remove_files_at_quota = "16-remove-files-at-quota",
    rollback_and_names_that_were_not_there = "17-rollback-and-names-that-were-not-there",
    receive_into_what_is_mounted = "18-receive-into-what-is-mounted",
    receive_keeps_children_in_sight = "19-receive-keeps-children-in-sight",
    receive_without_mountpoint = "20-receive-without-mountpoint",
    replica_mounted_stays_unmodified = "21-replica-mounted-stays-unmodified",
    names_with_blanks_and_signs = "22-names-with-blanks-and-signs",
    mount_point_not_empty = "23-mount-point-not-empty",
    times_never_go_backwards = "27-times-never-go-backwards",
    times_of_all_centuries = "28-times-of-all-centuries",
    fallocate_as_others_have_it = "29-fallocate-as-others-have-it",
    project_and_links_of_all_kinds = "30-project-and-links-of-all-kinds",
    diff_and_hard_links = "31-diff-and-hard-links",
    scrub_paused_over_export = "32-scrub-paused-over-export",
    same_second_snapshots_in_order = "33-same-second-snapshots-in-order",
    clone_of_sparse_files_is_quick = "34-clone-of-sparse-files-is-quick",
    guid_changed_while_a_detached_half_lies_about = "35-guid-changed-while-a-detached-half-lies-about",
    new_disk_dies_during_replace = "36-new-disk-dies-during-replace",
    expand_in_place = "37-expand-in-place",
    postgres_backup_with_zeroed_wal = "38-postgres-backup-with-zeroed-wal",
    appends_and_fallocate_from_many = "39-appends-and-fallocate-from-many",
    attributes_large_and_times_with_them = "40-attributes-large-and-times-with-them",
    directories_read_while_they_shrink = "41-directories-read-while-they-shrink",
    maps_locks_and_running_programs = "42-maps-locks-and-running-programs",
    overlay_upper_and_containers = "43-overlay-upper-and-containers",
    lmdb_and_sqlite_killed = "44-lmdb-and-sqlite-killed",
    rsync_inplace_and_tar_sparse = "46-rsync-inplace-and-tar-sparse",
    mariadb_direct_and_native_aio = "47-mariadb-direct-and-native-aio",
    images_of_virtual_machines = "48-images-of-virtual-machines",
    etcd_and_redis_killed = "49-etcd-and-redis-killed",
    zfs_autobackup_unchanged = "50-zfs-autobackup-unchanged",
    space_figures_and_full_receivers = "51-space-figures-and-full-receivers",
    log_device_fails_under_sync_writers = "52-log-device-fails-under-sync-writers",
    names_of_devices_swapped = "53-names-of-devices-swapped",
    sector_sizes_mixed = "54-sector-sizes-mixed",
    seventy_thousand_links = "55-seventy-thousand-links",
    token_right_after_a_killed_receive = "56-token-right-after-a-killed-receive",
    refused_changes_change_nothing = "58-refused-changes-change-nothing",
    legacy_mount_points = "59-legacy-mount-points",
    small_log_and_sync_switched = "60-small-log-and-sync-switched",
    paths_as_arguments = "62-paths-as-arguments",
}

#[test]
fn every_script_is_run() {
    let found = std::fs::read_dir(scripts()).expect("it is there").filter_map(|entry| {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        Some(name.strip_suffix(".sh")?.to_owned())
    });
    assert_eq!(found.collect::<BTreeSet<_>>(), NAMES.iter().map(|&name| name.to_owned()).collect());
}
