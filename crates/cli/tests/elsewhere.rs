//! Pools that OpenZFS made and left in the middle of something.
#![forbid(unsafe_code)]

mod place;

use oracle::golden;
use oracle::needs::lack_of_fuse;
use place::Place;

/// What `zpool import` tells of a golden pool, and what it answers when told to import it.
fn told(name: &str) -> (String, String, String) {
    let place = Place::new();
    let images = golden::path(name);
    let listed = place.ok(&format!("zpool import -d {}", images.display()));
    let refused = place.run(&format!("zpool import -f -d {} whirl", images.display()));
    assert_eq!(refused.code, 1, "{name}: {}", refused.out);
    (listed, refused.out, refused.err)
}

#[test]
fn a_feature_of_vdevs_that_is_not_supported_is_named() {
    let features = [
        ("g23-removed", "com.delphix:device_removal (Top-level devices can be removed from a pool.)"),
        ("g25-expanded", "org.openzfs:raidz_expansion (RAID-Z can be widened by a device.)"),
        ("g26-draid", "org.openzfs:draid (RAID can have its spare space distributed.)"),
    ];
    for (name, feature) in features {
        let (listed, out, err) = told(name);
        let status = format!(
            " state: UNAVAIL\nstatus: The pool uses the following feature(s) not supported on this \
             system:\n\t{feature}\naction: The pool cannot be imported. Access the pool on a system that \
             supports\n\tthe required feature(s), or recreate the pool from backup.\n"
        );
        assert!(listed.contains(&status), "{name}: {listed}");
        assert!(!listed.contains("corrupt"), "{name}: {listed}");
        let lines =
            format!("This pool uses the following feature(s) not supported by this system:\n\t{feature}\n");
        assert_eq!(out, lines, "{name}");
        assert_eq!(err, "cannot import 'whirl': unsupported version or feature\n", "{name}");
    }
}

#[test]
fn what_is_under_way_on_a_pool_is_named() {
    let states = [
        ("g21-replacing", "A device is being replaced.", "replacing-1"),
        ("g22-spare", "A hot spare is in use in place of a device.", "spare-1"),
    ];
    for (name, what, vdev) in states {
        let (listed, out, err) = told(name);
        let status = format!(
            "status: {what}\naction: The pool cannot be imported before that has ended.  Let it end on \
             the\n\tsystem that began it, then export the pool there.\n"
        );
        assert!(listed.contains(&status) && listed.contains(vdev), "{name}: {listed}");
        assert!(!listed.contains("corrupt"), "{name}: {listed}");
        assert_eq!(out, "", "{name}");
        let words = format!(
            "cannot import 'whirl': unsupported version or feature\n{what}\nLet it end on the system that \
             began it, then export the pool there.\n"
        );
        assert_eq!(err, words, "{name}");
    }
}

/// Datasets that are encrypted or came in by half are left unmounted, which is no failure.
#[test]
fn a_pool_with_sealed_datasets_is_imported() {
    let place = Place::new();
    let images = golden::copy("g30-streams", place.directory.path());
    // Only root can mount one file system below another.
    let how = if rustix::process::geteuid().is_root() { "" } else { "-N" };
    place.ok(&format!("zpool import {how} -f -o readonly=on -d {} -R W/root whirl", images.display()));
    if !how.is_empty() && lack_of_fuse().is_none() {
        place.ok("zfs mount whirl/fs");
    }
    let listed = place.ok("zfs list -Ho name,mounted -t filesystem -r whirl");
    assert!(listed.contains("whirl/enc\tno\n") && listed.contains("whirl/in/part\tno\n"), "{listed}");
    if lack_of_fuse().is_none() {
        assert!(listed.contains("whirl/fs\tyes\n"), "{listed}");
    }
    place.ok("zfs unmount -a");
    place.ok("zpool export whirl");
}
