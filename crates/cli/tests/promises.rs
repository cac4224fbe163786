//! Commands keep their word: what is set acts, what cannot be is refused, what was made is taken away.
#![forbid(unsafe_code)]

mod place;

use oracle::needs::{Need, lack_of_fuse};
use place::Place;
use std::process::Command;

fn can_mount() -> bool {
    let lack = lack_of_fuse();
    lack.into_iter().for_each(|lack| Need::Fuse.is_missing(lack));
    lack.is_none()
}

#[test]
fn a_dry_run_refuses_what_a_real_one_would() {
    let place = Place::with_files();
    for dry in ["-n ", ""] {
        for (options, reason) in [
            ("-O doesnotexist=on", "invalid property 'doesnotexist'"),
            ("-O QuOta=none", "invalid property 'QuOta'"),
            ("-O keylocation=prompt", "keylocation must be 'none' for unencrypted datasets"),
            ("-O sharenfs=on", "property 'sharenfs' is not supported yet"),
            ("-o readonly=on", "property 'readonly' can only be set at import time"),
        ] {
            let refused = place.run(&format!("zpool create {dry}-m none {options} x W/d1"));
            assert_eq!(
                (refused.err, refused.code),
                (format!("cannot create 'x': {reason}\n"), 1),
                "{options}"
            );
        }
    }
}

#[test]
fn features_and_properties_of_users_own_are_columns_of_the_list() {
    let place = Place::with_files();
    place.ok("zpool create -m none -o feature@zstd_compress=disabled -o org.rig:note=mine tank W/d1");
    let columns = "name,feature@zstd_compress,feature@sha512,org.rig:note";
    assert_eq!(place.ok(&format!("zpool list -Ho {columns} tank")), "tank\tdisabled\tenabled\tmine\n");
    let heading = place.ok("zpool list -o name,feature@sha512 tank");
    assert_eq!(heading, "NAME  FEATURE@SHA512\ntank  enabled\n");
    assert_eq!(place.run("zpool list -o feature@nope tank").code, 2);
}

#[test]
fn values_that_need_a_feature_are_refused_until_it_is_enabled() {
    let place = Place::with_files();
    place.ok("zpool create -m none -d tank W/d1");
    for (setting, reason) in [
        ("recordsize=1M", "'recordsize' must be power of 2 from 512B to 128K"),
        ("dnodesize=auto", "pool and or dataset must be upgraded to set this property or value"),
    ] {
        let refused = place.run(&format!("zfs set {setting} tank"));
        assert_eq!(refused.err, format!("cannot set property for 'tank': {reason}\n"), "{setting}");
    }
    place.ok("zfs set recordsize=64K dnodesize=legacy tank");
    assert!(place.ok("zpool status tank").contains(
        "status: Some supported and requested features are not enabled on the pool.\n\tThe pool can still be \
         used, but some features are unavailable.\naction: Enable all features using 'zpool upgrade'."
    ));
    assert_eq!(place.ok("zpool status -x"), "all pools are healthy\n");
    place.ok("zpool upgrade tank");
    assert!(!place.ok("zpool status tank").contains("features are not enabled"));
    place.ok("zfs set recordsize=1M dnodesize=auto tank");
}

#[test]
fn a_pool_under_another_root_is_for_this_time_only() {
    let place = Place::with_files();
    place.ok("zpool create -m none -R W/alt here W/d1");
    place.ok("zpool create -m none -R W/alt -o cachefile= kept W/d2");
    assert_eq!(place.ok("zpool get -Ho value cachefile here"), "none\n");
    place.kill();
    assert_eq!(place.ok("zpool list -Ho name"), "kept\n");
}

#[test]
fn a_cache_file_of_the_users_is_openzfss() {
    let place = Place::with_files();
    place.ok("zpool create -m none -o cachefile=W/pools.zpool p1 mirror W/d1 W/d2 log W/l1");
    place.ok("zpool sync p1");
    let zdb = |words: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["60", "zdb", "-U"]).arg(place.path("pools.zpool")).args(words);
        let printed = place.print(&mut command);
        assert_eq!(printed.code, 0, "{}", printed.err);
        printed.out
    };
    let config = zdb(&["-C", "p1"]);
    for device in ["W/d1", "W/d2", "W/l1"] {
        assert!(config.contains(&format!("path: '{device}'")), "{config}");
    }
    assert!(zdb(&["-d", "p1"]).contains("Dataset p1 "));
    let told = place.ok("zpool get -Ho value,source cachefile p1");
    assert_eq!(told, "W/pools.zpool\tlocal\n");
    std::fs::copy(place.path("pools.zpool"), place.path("copy")).expect("copied");
    place.ok("zpool set cachefile= p1");
    assert!(!place.path("pools.zpool").exists(), "a file without pools is removed");
    place.ok("zpool set cachefile=W/pools.zpool p1");
    place.ok("zpool export p1");
    assert!(!place.path("pools.zpool").exists());
    place.ok("zpool import -c W/copy p1");
    place.ok("zpool export p1");
    // Devices that have another name in the same directory are found. Pools that are not in the
    // file are not found.
    place.file("d3", 96);
    place.ok("zpool create -m none p3 W/d3");
    place.ok("zpool export p3");
    for name in ["d1", "d2", "l1"] {
        std::fs::rename(place.path(name), place.path(&format!("{name}.other"))).expect("renamed");
    }
    let listed = place.ok("zpool import -c W/copy");
    assert!(listed.contains("pool: p1") && !listed.contains("pool: p3"), "{listed}");
    place.ok("zpool import -c W/copy p1");
    assert!(place.ok("zpool status p1").contains("d1.other"));
    place.ok("zpool export p1");
    for name in ["d1", "d2", "l1"] {
        std::fs::rename(place.path(&format!("{name}.other")), place.path(name)).expect("renamed");
    }
    let refused = place.run("zpool import -o cachefile=rel p1");
    assert!(
        refused.err.contains("'cachefile' must be empty, an absolute path, or 'none'"),
        "{}",
        refused.err
    );
}

#[test]
fn pools_share_the_cache_file_where_openzfs_looks_for_them() {
    let place = Place::with_files();
    let file = place.path("run").join("zpool.cache");
    let zdb = |words: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["60", "zdb", "-U"]).arg(&file).args(words);
        place.print(&mut command)
    };
    let names = || {
        let printed = zdb(&["-C"]);
        let names = printed.out.lines().filter_map(|line| line.trim().strip_prefix("name: "));
        names.map(|name| name.trim_matches('\'').to_owned()).collect::<Vec<_>>()
    };
    place.ok("zpool create -m none -o compatibility=openzfs-2.1-linux p1 W/d1");
    place.ok("zpool create -m none p2 W/d2");
    assert_eq!(names(), ["p1", "p2"]);
    assert!(
        zdb(&["-C", "p1"]).out.contains("compatibility: 'openzfs-2.1-linux'"),
        "{}",
        zdb(&["-C", "p1"]).out
    );
    place.ok("zpool sync p1");
    let listed = zdb(&["-d", "p1"]);
    assert!(listed.code == 0 && listed.out.contains("Dataset p1 "), "{}", listed.err);
    // A pool that is in another file, or in none, is not in this one.
    place.ok("zpool set cachefile=none p2");
    assert_eq!(names(), ["p1"]);
    place.ok("zpool set cachefile= p2");
    place.ok("zpool set cachefile=W/shared p1");
    place.ok("zpool set cachefile=W/shared p2");
    assert!(!file.exists());
    let shared = zdb(&["-U", &place.path("shared").display().to_string(), "-C"]).out;
    assert!(shared.contains("name: 'p1'") && shared.contains("name: 'p2'"), "{shared}");
    for pool in ["p1", "p2"] {
        place.ok(&format!("zpool set cachefile= {pool}"));
    }
    assert!(!place.path("shared").exists());
    // The next daemon leaves what others have in the file.
    place.kill();
    place.ok("zpool list");
    assert_eq!(names(), ["p1", "p2"]);
    place.ok("zpool export p1");
    assert_eq!(names(), ["p2"]);
    place.ok("zpool destroy p2");
    assert!(!file.exists());
}

#[test]
fn refusals_name_the_thing_and_the_next_step() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    place.ok("zpool create -m none p2 W/d2");
    let refused = |line: &str| {
        let printed = place.run(line);
        assert_ne!(printed.code, 0, "{line}");
        printed.err
    };
    assert_eq!(
        refused("ls p1:/"),
        "cannot open 'p1': the daemon has the pool open\nMount it ('zfs mount p1'), or export it first.\n"
    );
    assert_eq!(refused("ls p3:/"), "cannot open 'p3': no such pool\n");
    let nowhere = refused("zpool import -d W/nowhere");
    assert!(nowhere.contains("cannot resolve path 'W/nowhere': No such file or directory"), "{nowhere}");
    let missing = refused("zpool scrub -S 2026-01-01 p1");
    assert!(missing.starts_with("'zpool scrub -S' is not supported yet"), "{missing}");
    assert!(refused("zpool scrub -e -s p1").starts_with("invalid option combination"));
    let without = refused("zpool scrub -e p1");
    assert!(without.contains("use 'zpool set feature@head_errlog=enabled' to enable"), "{without}");
    place.ok("zpool set feature@head_errlog=enabled p1");
    // There are no errors.
    place.ok("zpool scrub -e -w p1");
    assert!(!place.ok("zpool status p1").contains("scrub:"));
    assert!(refused("zpool scrub -a p1").starts_with("invalid option combination"));
    place.ok("zpool scrub -w -a");
    for pool in ["p1", "p2"] {
        assert!(place.ok(&format!("zpool status {pool}")).contains("scrub repaired 0B"), "{pool}");
    }
}

#[test]
fn directories_that_mounting_made_go_with_the_pool() {
    if !can_mount() {
        return;
    }
    let place = Place::with_files();
    place.ok("zpool create -R W/alt p1 W/d1");
    // Only root can mount one file system below another.
    if rustix::process::geteuid().is_root() {
        place.ok("zfs create p1/a");
        assert!(place.path("alt/p1/a").is_dir());
        place.ok("zfs destroy p1/a");
        assert!(!place.path("alt/p1/a").exists());
    }
    assert!(place.path("alt/p1").is_dir());
    place.ok("zpool export p1");
    assert!(!place.path("alt/p1").exists());
    place.ok("zpool import -R W/alt -d W/ p1");
    std::fs::write(place.path("alt/p1/file"), b"x").expect("writes");
    place.ok("zpool destroy p1");
    assert!(!place.path("alt/p1").exists());
    // A place that was chosen is the user's.
    place.ok("zpool create -f -m W/chosen p1 W/d1");
    place.ok("zpool export p1");
    assert!(place.path("chosen").is_dir());
}

#[test]
fn what_is_written_since_snapshots_is_asked_by_their_names() {
    let place = Place::new();
    oracle::golden::copy("g10-snapshots-clones", place.directory.path());
    place.ok("zpool import -f -N -o readonly=on -d W/img whirl");
    let asked = |what: &str| place.ok(&format!("zfs get -Hpo value {what}"));
    // The one before is what `written` counts from.
    assert_eq!(asked("written@v whirl/vol"), asked("written whirl/vol"));
    assert_eq!(asked("written@s1 whirl/promoted@s2"), asked("written whirl/promoted@s2"));
    assert_eq!(asked("written@whirl/promoted@s1 whirl/clone"), asked("written whirl/clone"));
    let since_first: u64 = asked("written@s1 whirl/promoted").trim().parse().expect("a number");
    let since_second: u64 = asked("written@s2 whirl/promoted").trim().parse().expect("a number");
    assert!(since_first > since_second, "{since_first} {since_second}");
    assert_eq!(asked("written@nope whirl/vol"), "-\n");
    assert!(place.ok("zfs list -o name,written@v whirl/vol").starts_with("NAME       WRITTEN@V\n"));
    let guid: u64 = place.ok("zpool get -Hpo value load_guid whirl").trim().parse().expect("a number");
    assert_ne!(guid, 0);
}

#[test]
fn commands_that_are_to_come_are_not_taken_for_slips() {
    let place = Place::new();
    let told = place.run("zpool ddtprune -d 1 p1");
    assert_eq!((told.code, told.out.as_str()), (1, ""));
    assert!(told.err.starts_with("'zpool ddtprune' is not supported yet\n"), "{}", told.err);
    assert!(place.run("zfs load-key a").err.starts_with("'zfs load-key' is not supported yet\n"));
    let slip = place.run("zpool stauts");
    assert_eq!(slip.code, 2);
    assert!(
        slip.err.starts_with("unrecognized command 'stauts'\ndid you mean 'zpool status'?\n"),
        "{}",
        slip.err
    );
}

#[test]
fn who_holds_a_pool_is_told_to_those_who_want_it() {
    let (holds, wants) = (Place::with_files(), Place::new());
    holds.ok("zpool create -m none p1 W/d1");
    let pid = holds.pid().expect("runs");
    let refused = wants.run(&format!("zpool import -f -d {} p1", holds.directory.path().display()));
    let device = holds.path("d1");
    let words = format!(
        "cannot import 'p1': one or more devices is in use\n{} is held by process {pid} (sawmill)\n",
        device.display()
    );
    assert_eq!((refused.err, refused.code), (words, 1));
}

#[test]
fn file_systems_and_snapshots_are_counted_once_there_is_a_limit() {
    let place = Place::with_files();
    for line in
        ["zpool create -m none p1 W/d1", "zfs create -p p1/a/b", "zfs create p1/c", "zfs snapshot -r p1@s"]
    {
        place.ok(line);
    }
    let counts =
        |name: &str| place.ok(&format!("zfs get -Ho value,source filesystem_count,snapshot_count {name}"));
    assert_eq!(counts("p1"), "none\tdefault\nnone\tdefault\n");
    assert_eq!(place.ok("zpool get -Ho value feature@filesystem_limits p1"), "enabled\n");
    place.ok("zfs set filesystem_limit=none p1");
    assert_eq!(counts("p1"), "none\tdefault\nnone\tdefault\n", "no limit, no counts");
    place.ok("zfs set filesystem_limit=2 p1/a");
    assert_eq!(place.ok("zpool get -Ho value feature@filesystem_limits p1"), "active\n");
    assert_eq!(counts("p1"), "none\tdefault\nnone\tdefault\n", "what is above does not count");
    assert_eq!(counts("p1/a"), "1\t-\n2\t-\n");
    // Whose pool it is may go beyond the limit.
    for line in
        ["zfs create p1/a/d", "zfs create p1/a/e", "zfs clone p1/c@s p1/a/f", "zfs rename p1/c p1/a/c"]
    {
        place.ok(line);
    }
    assert_eq!(counts("p1/a"), "5\t-\n3\t-\n");
    place.ok("zfs promote p1/a/f");
    place.ok("zfs set snapshot_limit=100 p1");
    assert_eq!(counts("p1"), "6\t-\n4\t-\n");
    place.ok("zfs destroy -r p1/a/b");
    assert_eq!((counts("p1"), counts("p1/a")), ("5\t-\n3\t-\n".to_owned(), "4\t-\n2\t-\n".to_owned()));
    place.ok("zpool export p1");
    let zdb = oracle::zdb::Zdb::new(place.directory.path(), "p1");
    let shown = zdb.check_objects().unwrap_or_else(|damage| panic!("{damage}"));
    for line in ["com.joyent:filesystem_count = 5", "com.joyent:snapshot_count = 3"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    zdb.check_blocks().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn versions_of_file_systems_are_told() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    place.ok("zfs create p1/a");
    let current = "This system is currently running ZFS filesystem version 5.\n\n\
                   All filesystems are formatted with the current version.\n";
    assert_eq!(place.ok("zfs upgrade"), current);
    assert!(
        place
            .ok("zfs upgrade -v")
            .contains("\n 4   userquota, groupquota properties\n 5   System attributes\n")
    );
    assert_eq!(place.ok("zfs upgrade -a"), "0 filesystems upgraded\n2 filesystems already at this version\n");
    assert_eq!(
        place.ok("zfs upgrade p1/a"),
        "0 filesystems upgraded\n1 filesystems already at this version\n"
    );
    let down = place.run("zfs upgrade -V 4 p1/a");
    let words = "p1/a: can not be downgraded; it is already at version 5\n0 filesystems upgraded\n";
    assert_eq!((down.out.as_str(), down.code), (words, 1));
    let wrong = place.run("zfs upgrade -V 6 p1/a");
    assert!(wrong.err.starts_with("invalid version 6\nusage:\n") && wrong.code == 2, "{}", wrong.err);
    assert_eq!(place.ok("zfs wait p1/a"), "", "nothing is mounted");
    let wrong = place.run("zfs wait -t other p1/a");
    assert!(wrong.err.starts_with("invalid activity 'other'\nusage:\n") && wrong.code == 2, "{}", wrong.err);
    assert!(place.ok("zfs version -j").starts_with("{\"output_version\":{\"command\":\"zfs version\""));
}
