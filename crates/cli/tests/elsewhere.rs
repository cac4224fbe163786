//! Pools that OpenZFS made and left in the middle of something.
#![forbid(unsafe_code)]

mod place;

use std::path::Path;
use std::time::{Duration, Instant};

use oracle::golden;
use oracle::needs::lack_of_fuse;
use place::Place;

/// What can be read only is imported only so, and the feature is named.
#[test]
fn a_feature_that_is_only_read_is_named() {
    let place = Place::new();
    let images = golden::path("g19-encrypted");
    let refused = place.run(&format!("zpool import -f -d {} whirl", images.display()));
    assert_eq!(refused.code, 1, "{}", refused.out);
    let said = refused.out + &refused.err;
    assert!(said.contains("com.datto:encryption (") && said.contains("only required for writing"), "{said}");
    place.ok(&format!("zpool import -f -N -o readonly=on -d {} whirl", images.display()));
    place.ok("zpool export whirl");
}

#[test]
fn a_draid_of_openzfs_is_listed_and_imported_for_writing() {
    let place = Place::new();
    let images = golden::copy("g26-draid", place.directory.path());
    let listed = place.ok(&format!("zpool import -d {}", images.display()));
    assert!(listed.contains("draid1:2d:6c:1s-0") && !listed.contains("read-only"), "{listed}");
    place.ok(&format!("zpool import -f -N -d {} whirl", images.display()));
    place.ok("zfs create whirl/new");
    place.ok("zpool export whirl");
    let zdb = oracle::zdb::Zdb::new(&images, "whirl");
    zdb.check().unwrap_or_else(|error| panic!("{error}"));
}

/// The rows of a table of vdevs, without the width of its columns and the directory of its images.
fn rows(table: &str, images: &Path) -> Vec<String> {
    let directory = format!("{}/", images.display());
    let rows = table.lines().map(|row| row.replace(&directory, ""));
    let rows = rows.map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "));
    rows.filter(|row| !row.is_empty()).collect()
}

/// The part of `zpool status` or `zpool import` that tells of vdevs.
fn config(said: &str) -> &str {
    let (_, config) = said.split_once("config:\n").expect("a table of vdevs");
    config.split("\nerrors:").next().unwrap_or_default()
}

/// What OpenZFS said of a golden pool.
fn status_of_openzfs(name: &str) -> Vec<String> {
    let info = golden::text(name, "info.txt");
    let (_, status) = info.split_once("## zpool status -v\n").expect("it was asked");
    rows(config(status), Path::new(&format!("/tmp/g/{name}")))
}

#[test]
fn pools_of_shapes_that_openzfs_made_are_shown_as_it_shows_them() {
    let place = Place::new();
    for name in ["g21-replacing", "g22-spare", "g23-removed", "g25-expanded", "g26-draid"] {
        let images = golden::path(name);
        place.ok(&format!("zpool import -N -o readonly=on -d {} whirl", images.display()));
        let status = place.ok("zpool status whirl");
        assert_eq!(rows(config(&status), &images), status_of_openzfs(name), "{name}: {status}");
        place.ok("zpool export whirl");
    }
}

#[test]
fn pools_with_a_replacement_or_a_spare_at_work_are_listed_for_import() {
    let place = Place::new();
    let listed = |name: &str| {
        let images = golden::path(name);
        rows(config(&place.ok(&format!("zpool import -d {}", images.display()))), &images)
    };
    let replacing = [
        "whirl ONLINE",
        "mirror-0 ONLINE",
        "a.img ONLINE",
        "replacing-1 ONLINE",
        "b.img ONLINE",
        "n.img ONLINE",
        "logs",
        "mirror-1 ONLINE",
        "l1.img ONLINE",
        "l2.img ONLINE",
    ];
    assert_eq!(listed("g21-replacing"), replacing);
    let spare = [
        "whirl DEGRADED",
        "raidz1-0 DEGRADED",
        "a.img ONLINE",
        "spare-1 DEGRADED",
        "b.img FAULTED external device fault",
        "s1.img ONLINE",
        "c.img ONLINE",
        "cache",
        "k.img",
        "spares",
        "s1.img",
        "s2.img",
    ];
    assert_eq!(listed("g22-spare"), spare);
}

/// OpenZFS began it, and the daemon ends it.
#[test]
fn a_replacement_that_openzfs_began_ends_here() {
    let place = Place::new();
    let images = golden::copy("g21-replacing", place.directory.path());
    place.ok(&format!("zpool import -N -d {} whirl", images.display()));
    let ends_by = Instant::now() + Duration::from_secs(60);
    let status = loop {
        let status = place.ok("zpool status whirl");
        if !status.contains("replacing-1") {
            break status;
        }
        assert!(Instant::now() < ends_by, "{status}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(
        status.contains("resilvered") && status.contains("n.img") && !status.contains("b.img"),
        "{status}"
    );
    place.ok("zpool export whirl");
    // Nothing of the pool is on the old device any more: it is not even asked for.
    std::fs::remove_file(images.join("b.img")).expect("it is there");
    place.ok(&format!("zpool import -N -d {} whirl", images.display()));
    assert!(place.ok("zpool status -x whirl").contains("is healthy"), "{}", place.ok("zpool status whirl"));
    place.ok("zpool export whirl");
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

/// A checkpoint that OpenZFS made: told of as it told, discarded, made anew, and returned to.
#[test]
fn a_pool_with_a_checkpoint_is_administrated() {
    let place = Place::new();
    let images = golden::copy("g24-checkpoint", place.directory.path());
    let import = format!("zpool import -N -f -d {}", images.display());
    let refused = |command: &str, words: &str| {
        let done = place.run(command);
        assert_eq!((done.code, done.err.as_str()), (1, words), "{command}");
    };
    place.ok(&format!("{import} -o readonly=on whirl"));
    let listed = place.ok("zpool list -Hp -o checkpoint whirl");
    let kept: u64 = listed.trim().parse().expect("bytes");
    assert!((965 << 10..975 << 10).contains(&kept), "{listed}");
    let status = place.ok("zpool status whirl");
    assert!(status.contains("\ncheckpoint: created ") && status.contains(", consumes 9"), "{status}");
    let verbose = place.ok("zpool list -Hpv whirl");
    let vdev = verbose.lines().find(|line| line.starts_with("\tmirror-0")).expect("a row");
    assert_eq!(vdev.split('\t').nth(5), Some(kept.to_string().as_str()), "{verbose}");
    let json = place.ok("zpool status -j -p whirl");
    let told = format!(
        "\"checkpoint_stats\":{{\"state\":\"EXISTS\",\"start_time\":\"1795387792\",\"space\":\"{kept}\"}}"
    );
    assert!(json.contains(&told), "{json}");
    assert_eq!(place.ok("zfs list -Ho name"), "whirl\nwhirl/fs\nwhirl/new\n");
    place.ok("zpool export whirl");

    place.ok(&format!("{import} -o readonly=on --rewind-to-checkpoint whirl"));
    assert_eq!(place.ok("zfs list -Ho name"), "whirl\nwhirl/fs\nwhirl/gone\n");
    place.ok("zpool export whirl");

    place.ok(&format!("{import} whirl"));
    assert_eq!(place.ok("zfs list -Ho name"), "whirl\nwhirl/fs\nwhirl/new\n");
    refused("zpool checkpoint whirl", "cannot checkpoint 'whirl': checkpoint exists\n");
    let scrubbed = place.ok("zpool scrub -w whirl");
    assert_eq!(scrubbed, "warning: will not scrub state that belongs to the checkpoint of pool 'whirl'\n");
    let status = place.ok("zpool status whirl");
    let warning =
        "\n    scan warning: skipped blocks that are only referenced by the checkpoint.\ncheckpoint: ";
    assert!(status.contains(warning), "{status}");
    place.ok("zpool checkpoint -d -w whirl");
    assert_eq!(place.ok("zpool list -Ho checkpoint whirl"), "-\n");
    refused("zpool checkpoint -d whirl", "cannot discard checkpoint in 'whirl': checkpoint does not exist\n");
    place.ok("zpool checkpoint whirl");
    place.ok("zfs destroy whirl/new");
    place.ok("zpool export whirl");
    place.ok(&format!("{import} --rewind-to-checkpoint whirl"));
    assert_eq!(place.ok("zfs list -Ho name"), "whirl\nwhirl/fs\nwhirl/new\n");
    assert!(!place.ok("zpool status whirl").contains("checkpoint:"));
    place.ok("zpool export whirl");
    refused(
        &format!("{import} --rewind-to-checkpoint whirl"),
        "cannot import 'whirl': checkpoint does not exist\n",
    );
}

/// Quotas that OpenZFS's `zfs set` made are those that are shown, and what is used is what the kernel module counted.
#[test]
fn quotas_of_openzfs_are_shown() {
    let place = Place::new();
    let images = golden::path("g27-quotas");
    place.ok(&format!("zpool import -N -o readonly=on -d {} whirl", images.display()));
    let asked = |what: &str| place.ok(&format!("zfs get -Ho value {what} whirl/fs"));
    assert_eq!(
        asked("userquota@1000,groupquota@1001,userobjquota@1000,projectquota@77"),
        "10M\n20M\n500\n5M\n"
    );
    assert_eq!(asked("userquota@0,groupobjquota@1001,userobjused@1000"), "none\nnone\n4\n");
    let owned = |key: &str, id: u64, ds: &str| {
        let manifest = golden::text("g27-quotas", "manifest.jsonl");
        let of_dataset = format!("\"ds\": \"{ds}\",");
        let of_owner = [format!("\"{key}\": {id},"), format!("\"{key}\": {id}}}")];
        let is_it = |line: &&str| {
            line.contains(&of_dataset) && of_owner.iter().any(|owner| line.contains(owner.as_str()))
        };
        // A file with two names is one.
        manifest.lines().filter(is_it).filter(|line| !line.contains("\"path\": \"sub/hard\"")).count()
    };
    for ds in ["whirl/fs", "whirl/fs@a", "whirl/red"] {
        for (command, key) in [("userspace", "uid"), ("groupspace", "gid")] {
            let told = place.ok(&format!("zfs {command} -Hnp -o name,objused {ds}"));
            let rows: Vec<(&str, &str)> = told.lines().filter_map(|row| row.split_once('\t')).collect();
            assert!(rows.len() == 2 && rows[0].0 == "0", "{told}");
            for (id, objects) in rows {
                let id = id.parse().expect("a number");
                assert_eq!(objects, format!("{}", owned(key, id, ds)), "{command} {ds} {id}");
            }
        }
    }
    let projects = place.ok("zfs projectspace whirl/fs");
    let rows: Vec<Vec<&str>> = projects.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["TYPE", "NAME", "USED", "QUOTA", "OBJUSED", "OBJQUOTA"]);
    assert_eq!((rows[2][0], rows[2][1], &rows[2][3..]), ("Project", "77", &["5M", "2", "none"][..]));
    place.ok("zpool export whirl");
}

/// What OpenZFS's `zfs allow` delegated.
#[test]
fn permissions_of_openzfs_are_shown() {
    let place = Place::new();
    let images = golden::path("g27-quotas");
    place.ok(&format!("zpool import -N -o readonly=on -d {} whirl", images.display()));
    let words = "---- Permissions on whirl/fs -----------------------------------------\n\
                 Create time permissions:\n\tdestroy\n\
                 ---- Permissions on whirl --------------------------------------------\n\
                 Permission sets:\n\t@set create,rename\n";
    assert_eq!(place.ok("zfs allow whirl/fs"), words);
    assert_eq!(
        place.ok("zfs allow whirl/red"),
        &words[words.find("---- Permissions on whirl -").expect("there")..]
    );
    place.ok("zpool export whirl");
}

/// A bookmark says of its snapshot what that says itself.
#[test]
fn what_was_written_since_bookmarks_of_openzfs_is_told() {
    let place = Place::new();
    let images = golden::path("g27-quotas");
    place.ok(&format!("zpool import -N -o readonly=on -d {} whirl", images.display()));
    let asked = |what: &str| place.ok(&format!("zfs get -Hpo value,source {what}"));
    assert_eq!(asked("written#b whirl/fs"), asked("written@b whirl/fs"));
    assert_eq!(asked("written#b whirl/fs@a"), "-\t-\n", "it came later");
    assert_eq!(asked("written#nope whirl/fs"), "-\t-\n");
    assert_eq!(place.ok("zfs list -Ho written#b whirl/fs"), "20K\n");
    place.ok("zpool export whirl");
}
