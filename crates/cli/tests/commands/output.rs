//! The real commands against a daemon whose pools are trees in memory.

use crate::world::World;

/// A world with `p1`: a mirror of d1 and d2, a mirrored log of l1 and l2, and spare files.
fn with_p1() -> World {
    let world = World::new();
    for name in ["d1", "d2", "d3", "d4"] {
        world.file(name, 160);
    }
    for name in ["l1", "l2", "l3", "l4"] {
        world.file(name, 80);
    }
    world.file("small", 63);
    world.ok("zpool create -m none p1 mirror W/d1 W/d2 log mirror W/l1 W/l2");
    world
}

const HEAD: &str = "invalid vdev specification\nuse '-f' to override the following errors:\n";

#[test]
fn pools_are_created_listed_and_shown() {
    let world = with_p1();
    assert_eq!(world.ok("zpool list -H -o name,size,health"), "p1\t144M\tONLINE\n");
    let status = world.ok("zpool status p1");
    assert!(status.starts_with("  pool: p1\n state: ONLINE\nconfig:\n\n\tNAME "), "{status}");
    assert!(status.contains("\n\tlogs\t\n\t  mirror-1 "), "{status}");
    assert!(status.ends_with("\n\nerrors: No known data errors\n"), "{status}");
    assert_eq!(world.ok("zpool status -x"), "all pools are healthy\n");
    assert_eq!(world.ok("zpool status -x p1"), "pool 'p1' is healthy\n");
    assert_eq!(world.ok("zpool get -H -o value health p1"), "ONLINE\n");
    assert!(world.ok("zpool iostat -v p1").contains("\nlogs  "));
    assert!(world.ok("zpool status -j").starts_with(r#"{"output_version":{"command":"zpool status""#));
}

#[test]
fn refusals_read_and_exit_as_captured() {
    let world = with_p1();
    for (line, want) in [
        ("zpool status nope", "cannot open 'nope': no such pool\n"),
        ("zpool list nope", "cannot open 'nope': no such pool\n"),
        ("zpool get size nope", "Cannot get properties of nope: no such pool available.\n"),
        ("zpool iostat nope", "Unable to parse pools/vdevs list.\n\n"),
        ("zpool create p1 W/d3", "cannot create 'p1': pool already exists\n"),
        ("zpool create p2 W/d1", &format!("{HEAD}W/d1 is part of active pool 'p1'\n")),
        (
            "zpool create p2 nosuchdev",
            "cannot open 'nosuchdev': no such device in /dev\nmust be a full path or shorthand device name\n",
        ),
        ("zpool create p2 W/nofile", "cannot resolve path 'W/nofile'\n"),
        (
            "zpool create p2 W/small",
            "cannot create 'p2': one or more devices is less than the minimum size (64M)\n",
        ),
        ("zpool create p2 mirror W/d3", "invalid vdev specification: mirror requires at least 2 devices\n"),
        ("zpool create log W/d3", "cannot create 'log': name is reserved\npool name may have been omitted\n"),
        (
            "zpool create mirrorx W/d3",
            "cannot create 'mirrorx': name is reserved\npool name may have been omitted\n",
        ),
        (
            "zpool create 1p W/d3",
            "cannot create '1p': name must begin with a letter\npool name may have been omitted\n",
        ),
        (
            "zpool create a@b W/d3",
            "cannot create 'a@b': invalid character '@' in pool name\npool name may have been omitted\n",
        ),
        (
            "zpool create a/b W/d3",
            "cannot create 'a/b': invalid character '/' in pool name\nuse 'zfs create' to create a dataset\n",
        ),
        ("zpool create p2 mirror W/d3 W/l3", &format!("{HEAD}mirror contains devices of different sizes\n")),
        (
            "zpool create -o ashift=17 p2 W/d3",
            "invalid 'ashift=17' property: only values between 9 and 16 are allowed.\n",
        ),
        ("zpool create -o bogus=1 p2 W/d3", "property 'bogus' is not a valid pool or vdev property\n"),
        (
            "zpool create -m relative p2 W/d3",
            "invalid mountpoint 'relative': must be an absolute path, 'legacy', or 'none'\n",
        ),
        ("zpool create p2 W/d3 log", "invalid vdev specification: log requires at least 1 device\n"),
        (
            "zpool create p2 log W/l4",
            &format!("{HEAD}at least one general top-level vdev must be specified\n"),
        ),
        (
            "zpool create p2 W/d3 log W/l3 log W/l4",
            "invalid vdev specification: 'log' can be specified only once\n",
        ),
        (
            "zpool create p2 W/d3 log raidz W/l3 W/l4",
            "invalid vdev specification: unsupported 'log' device: raidz\n",
        ),
        (
            "zpool create p2 W/d3 log W/small",
            "cannot create 'p2': one or more devices is currently unavailable\n",
        ),
        (
            "zpool create p2 W/d3 log W/d3",
            "cannot create 'p2': one or more vdevs refer to the same device, or one of\n\
             the devices is part of an active md or lvm device\n",
        ),
        ("zpool add p1 log W/small", "cannot add to 'p1': one or more devices is currently unavailable\n"),
        ("zpool add p1 log W/l1", &format!("{HEAD}W/l1 is part of active pool 'p1'\n")),
        ("zpool add p1 log", "invalid vdev specification: at least one toplevel vdev must be specified\n"),
        (
            "zpool add p1 W/d3",
            &format!("{HEAD}mismatched replication level: pool uses mirror and new vdev is file\n"),
        ),
        ("zpool add p1 log W/l3 W/l3", "cannot add to 'p1': one or more vdevs refer to the same device\n"),
        ("zpool add nope log W/l3", "cannot open 'nope': no such pool\n"),
        ("zpool add p1 log mirror W/l4", "invalid vdev specification: mirror requires at least 2 devices\n"),
        ("zpool import nope", "cannot import 'nope': no such pool available\n"),
        (
            "zpool import p1",
            "cannot import 'p1': a pool with that name already exists\n\
             use the form 'zpool import <pool | id> <newpool>' to give it a new name\n",
        ),
        ("zpool export nope", "cannot open 'nope': no such pool\n"),
        ("zpool destroy nope", "cannot open 'nope': no such pool\n"),
        ("zpool sync nope", "cannot open 'nope': no such pool\n"),
        ("zpool set bogus=1 p1", "cannot set property for 'p1': invalid property 'bogus'\n"),
        ("zpool set size=1 p1", "cannot set property for 'p1': 'size' is readonly\n"),
        ("zfs create p1", "cannot create 'p1': missing dataset name\n"),
        ("zfs create nope/x", "cannot create 'nope/x': no such pool 'nope'\n"),
        (
            "zfs destroy p1",
            "cannot destroy 'p1': operation does not apply to pools\n\
             use 'zfs destroy -r p1' to destroy all datasets in the pool\n\
             use 'zpool destroy p1' to destroy the pool itself\n",
        ),
        ("zfs list nope", "cannot open 'nope': dataset does not exist\n"),
        ("zfs get sync nope", "cannot open 'nope': dataset does not exist\n"),
        ("zfs unmount p1/nope", "cannot open 'p1/nope': dataset does not exist\n"),
    ] {
        assert_eq!(world.fails(line, 1), want, "{line}");
    }
}

#[test]
fn wrong_words_exit_2_with_the_reason_and_the_usage() {
    let world = with_p1();
    for (line, reason) in [
        ("zpool add p1", "missing vdev specification\nusage:\n\tadd [-"),
        ("zpool add", "missing pool name argument\nusage:\n\tadd [-"),
        ("zpool create", "missing pool name argument\nusage:\n\tcreate [-"),
        ("zpool create p2", "missing vdev specification\nusage:\n\tcreate [-"),
        ("zpool create -Z p2", "invalid option 'Z'\nusage:\n\tcreate [-"),
        ("zpool create -o", "missing argument for 'o' option\nusage:\n\tcreate [-"),
        ("zpool destroy", "missing pool argument\nusage:\n\tdestroy [-f] <pool>\n"),
        ("zpool export", "missing pool argument\nusage:\n\texport [-af] <pool> ...\n"),
        ("zpool get", "missing property argument\nusage:\n\tget [-"),
        (
            "zpool get health p1 nope",
            "Expected a list of vdevs in \"p1\", but got:\n\tnope (unknown)\n\nusage:\n",
        ),
        ("zpool add -f --allow-in-use p1 log W/l3", "'-f' option is not allowed with "),
        ("zpool bogus", "unrecognized command 'bogus'\nusage: zpool command args ...\n"),
        ("zpool", "missing command\nusage: zpool command args ...\n"),
        ("zfs bogus", "unrecognized command 'bogus'\nusage: zfs command args ...\n"),
        ("zfs", "missing command\nusage: zfs command args ...\n"),
        ("zfs create", "missing filesystem argument\nusage:\n\tcreate [-"),
        ("zfs set sync=always", "missing dataset name(s)\nusage:\n\tset "),
        ("zfs unmount", "missing filesystem argument\nusage:\n\tunmount [-"),
        ("bogus", "unrecognized command 'bogus'\nusage: sawmill command args ...\n"),
    ] {
        let err = world.fails(line, 2);
        assert!(err.starts_with(reason), "{line}: {err}");
    }
}

#[test]
fn asked_for_usage_goes_to_standard_output() {
    let world = World::new();
    for line in
        ["zpool -?", "zfs -?", "zpool help create", "zfs help", "--help", "bench --help", "help daemon"]
    {
        assert!(world.ok(line).contains("usage:"), "{line}");
    }
}

#[test]
fn force_overrides_what_only_looks_wrong() {
    let world = with_p1();
    world.ok("zpool export p1");
    let exported = format!("{HEAD}W/d1 is part of exported pool 'p1'\n");
    assert_eq!(world.fails("zpool create -m none p2 W/d1 log W/l3", 1), exported);
    world.ok("zpool create -f -m none p2 W/d1 log W/l3");
    let manual = "invalid vdev specification\nthe following errors must be manually repaired:\n\
                  W/d1 is part of active pool 'p2'\n";
    assert_eq!(world.fails("zpool add -f p2 log W/d1", 1), manual);
}

#[test]
fn logs_are_added_in_every_form() {
    let world = with_p1();
    world.ok("zpool add p1 log W/l3");
    world.ok("zpool add p1 log mirror W/l4 W/d3");
    let rows = world.ok("zpool list -vH p1");
    let names: Vec<&str> = rows.lines().filter_map(|l| l.trim_start().split(['\t', ' ']).next()).collect();
    assert_eq!(names[4..], ["logs", "mirror-1", "W/l1", "W/l2", "W/l3", "mirror-3", "W/l4", "W/d3"]);
}

#[test]
fn a_dry_run_shows_the_layout_and_changes_nothing() {
    let world = with_p1();
    assert_eq!(
        world.ok("zpool add -n p1 log W/l3"),
        "would update 'p1' to the following configuration:\n\n\tp1\n\t  mirror-0\n\t    W/d1\n\t    W/d2\n\
         \tlogs\n\t  mirror\n\t    W/l1\n\t    W/l2\n\t  W/l3\n"
    );
    assert_eq!(
        world.ok("zpool create -n p2 mirror W/d3 W/d4 log W/l3"),
        "would create 'p2' with the following layout:\n\n\tp2\n\t  mirror\n\t    W/d3\n\t    W/d4\n\tlogs\n\
         \t  W/l3\n"
    );
    assert_eq!(world.ok("zpool list -Ho name"), "p1\n");
    assert!(!world.ok("zpool status").contains("l3"));
}

#[test]
fn pools_go_and_come_back_under_another_name() {
    let world = with_p1();
    world.ok("zfs create p1/a");
    world.ok("zpool export p1");
    let none = world.run("zpool status");
    assert_eq!((none.out.as_str(), none.err.as_str(), none.code), ("", "no pools available\n", 0));
    assert!(world.ok("zpool import -d W/").starts_with("  pool: p1\n    id: "));
    world.ok("zpool import -d W/ p1 p9");
    assert_eq!(world.ok("zfs list -Ho name"), "p9\np9/a\n");
    world.ok("zpool destroy p9");
    let nothing = world.run("zpool import -d W/");
    assert_eq!((nothing.err.as_str(), nothing.code), ("no pools available to import\n", 0));
    assert!(world.ok("zpool import -D").contains(" state: ONLINE (DESTROYED)\n"));
}

#[test]
fn datasets_have_properties() {
    let world = with_p1();
    world.ok("zfs create -o sync=always -o com.example:note=x p1/fs");
    assert_eq!(world.fails("zfs create p1/fs", 1), "cannot create 'p1/fs': dataset already exists\n");
    assert_eq!(
        world.ok("zfs get -H sync,logbias p1/fs"),
        "p1/fs\tsync\talways\tlocal\np1/fs\tlogbias\tlatency\tdefault\n"
    );
    assert_eq!(
        world.fails("zfs set sync=bogus p1", 255),
        "cannot set property for 'p1': 'sync' must be one of 'standard | always | disabled'\n"
    );
    world.ok("zfs set recordsize=16K logbias=throughput p1/fs");
    assert_eq!(world.ok("zfs get -Hp -o value recordsize p1/fs"), "16384\n");
    world.ok("zfs inherit sync p1/fs");
    assert_eq!(
        world.ok("zfs get sync p1/fs"),
        "NAME   PROPERTY  VALUE     SOURCE\np1/fs  sync      standard  default\n"
    );
    assert_eq!(
        world.ok("zfs list"),
        "NAME    USED  AVAIL  REFER  MOUNTPOINT\np1       96K    40M    24K  none\n\
         p1/fs    96K    40M    24K  -\n"
    );
    assert_eq!(world.ok("zfs list -Ho name,com.example:note -r p1"), "p1\t-\np1/fs\tx\n");
    assert!(world.ok("zfs get all p1/fs").contains("\np1/fs  com.example:note"));
}

#[test]
fn mounts_are_shown_and_refused_twice() {
    let world = with_p1();
    world.ok("zfs create -o mountpoint=/tmp/w/mnt p1/fs");
    assert_eq!(world.ok("zfs mount"), format!("{:30}  /tmp/w/mnt\n", "p1/fs"));
    assert_eq!(world.fails("zfs mount p1/fs", 1), "cannot mount 'p1/fs': filesystem already mounted\n");
    world.ok("zfs unmount /tmp/w/mnt");
    assert_eq!(world.ok("zfs mount"), "");
}

#[test]
fn children_are_destroyed_only_when_asked() {
    let world = with_p1();
    world.ok("zfs create p1/a");
    world.ok("zfs create p1/a/b");
    assert_eq!(
        world.fails("zfs destroy p1/a", 1),
        "cannot destroy 'p1/a': filesystem has children\n\
         use '-r' to destroy the following datasets:\np1/a/b\n"
    );
    assert_eq!(world.ok("zfs destroy -rnv p1/a"), "would destroy p1/a/b\nwould destroy p1/a\n");
    world.ok("zfs destroy -r p1/a");
    assert_eq!(world.ok("zfs list -Ho name"), "p1\n");
}

#[test]
fn intervals_repeat_and_the_heading_comes_once() {
    let world = with_p1();
    let text = world.ok("zpool iostat p1 0.01 3");
    assert_eq!(text.matches("capacity").count(), 1, "{text}");
    assert_eq!(text.matches("\np1 ").count(), 3, "{text}");
    let later = world.ok("zpool iostat -Hy p1 0.01 2");
    assert_eq!(later.lines().count(), 2, "{later}");
}

#[test]
fn a_link_of_another_name_is_that_command() {
    let world = with_p1();
    let link = world.path().join("zpool");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sawmill"), &link).expect("a link");
    let out = std::process::Command::new(link)
        .args(["list", "-Ho", "name"])
        .env("SAWMILL_RUN", world.path())
        .output()
        .expect("runs");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "p1\n");
}

#[test]
fn inspecting_what_is_no_vdev_fails() {
    let world = World::without_daemon();
    let noise: Vec<u8> = (0..2_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(world.path().join("noise"), noise).expect("writes");
    for line in ["inspect W/noise", "inspect -j W/noise", "inspect W/noise zil"] {
        let printed = world.run(line);
        assert_eq!(printed.err, "cannot inspect 'W/noise': nothing of a pool is on it\n", "{line}");
        assert_eq!(printed.code, 1, "{line}");
        assert!(!printed.out.is_empty(), "{line}");
    }
}
