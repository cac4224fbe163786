//! Bad input: every refusal has its words and its exit code, and changes nothing on any device.
#![forbid(unsafe_code)]

mod place;

use place::Place;
use std::collections::BTreeMap;
use std::path::Path;

const IN_USE: &str = "invalid vdev specification\nuse '-f' to override the following errors:\n";
const TWICE: &str = "one or more vdevs refer to the same device";
const NO_NAME: &str = "pool name may have been omitted\n";

/// `p1` is open, on `used`; `p2` was exported, on `gone`. A part of that is `torn/gone`; `odd/noise`
/// is no pool's.
fn place() -> Place {
    let place = Place::with_files();
    for (name, mib) in [("used", 96), ("gone", 96), ("small", 32)] {
        place.file(name, mib);
    }
    for dir in ["dir", "torn", "odd"] {
        std::fs::create_dir(place.path(dir)).expect("a directory");
    }
    place.ok("zpool create -m none p1 W/used");
    place.ok("zpool create -m none p2 W/gone");
    place.ok("zpool export p2");
    let gone = std::fs::read(place.path("gone")).expect("reads");
    std::fs::write(place.path("torn/gone"), &gone[..1_000_000]).expect("writes");
    let noise: Vec<u8> = (0..400_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(place.path("odd/noise"), noise).expect("writes");
    place.ok("zpool sync p1");
    place
}

/// The contents of all devices that no pool has open, and of `used` its labels.
fn devices(place: &Place) -> BTreeMap<&'static str, Vec<u8>> {
    let names = ["d1", "d2", "l1", "l2", "gone", "small", "torn/gone", "odd/noise", "used"];
    let read = |name| {
        let mut bytes = std::fs::read(place.path(name)).expect("reads");
        if name == "used" {
            // The ring of uberblocks, and all behind the labels, is the open pool's own business.
            bytes.truncate(128 << 10);
        }
        (name, bytes)
    };
    names.into_iter().map(read).collect()
}

/// Runs each line, which must fail with this code and these words on standard error; for usage errors
/// the first line of them.
fn refused(lines: &[(&str, i32, String)]) {
    let place = place();
    let before = devices(&place);
    for (line, code, words) in lines {
        let printed = place.run(line);
        let told = match code {
            2 => format!("{}\n", printed.err.lines().next().unwrap_or_default()),
            _ => printed.err,
        };
        assert_eq!((&told, printed.code), (words, *code), "{line}");
        let after = devices(&place);
        let changed: Vec<_> = before.keys().filter(|name| before[*name] != after[*name]).collect();
        assert!(changed.is_empty(), "{line} changed {changed:?}");
    }
    assert_eq!(place.ok("zpool list -Ho name,health"), "p1\tONLINE\n");
    assert_eq!(place.ok("zfs list -Ho name"), "p1\n");
}

fn row(line: &str, code: i32, words: impl Into<String>) -> (&str, i32, String) {
    (line, code, words.into())
}

#[test]
fn devices_that_will_not_do_are_refused() {
    let create = |reason: &str| format!("cannot create 'x': {reason}\n");
    let spec = |reason: &str| format!("invalid vdev specification: {reason}\n");
    refused(&[
        row(
            "zpool create -m none x W/small",
            1,
            create("one or more devices is less than the minimum size (64M)"),
        ),
        row("zpool create -m none x W/used", 1, format!("{IN_USE}W/used is part of active pool 'p1'\n")),
        row(
            "zpool create -f -m none x W/used",
            1,
            "invalid vdev specification\nthe following errors must be manually repaired:\n\
             W/used is part of active pool 'p1'\n",
        ),
        row("zpool create -m none x W/gone", 1, format!("{IN_USE}W/gone is part of exported pool 'p2'\n")),
        row(
            "zpool create -m none x W/dir",
            1,
            "cannot use 'W/dir': must be a block device or regular file\n",
        ),
        row("zpool create -m none x W/nothing", 1, "cannot resolve path 'W/nothing'\n"),
        row("zpool create -m none x W/d1 log raidz W/d2 W/l1", 1, spec("unsupported 'log' device: raidz")),
        row("zpool create -m none x mirror W/d1", 1, spec("mirror requires at least 2 devices")),
        row("zpool create -m none x raidz2 W/d1 W/d2", 1, spec("raidz2 requires at least 3 devices")),
        row(
            "zpool create -m none x W/d1 W/d1",
            1,
            create(&format!("{TWICE}, or one of\nthe devices is part of an active md or lvm device")),
        ),
        row(
            "zpool create -m none x W/d1 mirror W/d2 W/l1",
            1,
            format!("{IN_USE}mirror contains devices of different sizes\n"),
        ),
        row("zpool add p1 W/small", 1, "cannot add to 'p1': device is less than the minimum size (64M)\n"),
        row("zpool add p1 W/used", 1, format!("{IN_USE}W/used is part of active pool 'p1'\n")),
        row("zpool add p1 W/gone", 1, format!("{IN_USE}W/gone is part of exported pool 'p2'\n")),
        row("zpool add p1 log raidz W/d1 W/d2", 1, spec("unsupported 'log' device: raidz")),
        row("zpool add p1 W/d1 W/d1", 1, format!("cannot add to 'p1': {TWICE}\n")),
        row(
            "zpool add p1 mirror W/d1 W/d2",
            1,
            format!("{IN_USE}mismatched replication level: pool uses file and new vdev is mirror\n"),
        ),
        row(
            "zpool labelclear W/gone",
            1,
            "use '-f' to override the following error:\nW/gone is a member of exported pool \"p2\"\n",
        ),
        row("zpool labelclear W/used", 1, "W/used is a member (ACTIVE) of pool \"p1\"\n"),
        row("zpool labelclear W/d1", 255, "failed to clear label for W/d1\n"),
    ]);
}

#[test]
fn names_and_properties_that_will_not_do_are_refused() {
    let set = |reason: &str| format!("cannot set property for 'p1': {reason}\n");
    refused(&[
        row(
            "zpool create -m none x@y W/d1",
            1,
            format!("cannot create 'x@y': invalid character '@' in pool name\n{NO_NAME}"),
        ),
        row(
            "zpool create -m none mirror W/d1",
            1,
            format!("cannot create 'mirror': name is reserved\n{NO_NAME}"),
        ),
        row(
            "zpool create -m none 9x W/d1",
            1,
            format!("cannot create '9x': name must begin with a letter\n{NO_NAME}"),
        ),
        row(
            "zpool create -m none -o bogus=1 x W/d1",
            1,
            "property 'bogus' is not a valid pool or vdev property\n",
        ),
        row("zpool create -m none -O bogus=1 x W/d1", 1, "cannot create 'x': invalid property 'bogus'\n"),
        row(
            "zpool create -m none -o feature@nope=enabled x W/d1",
            1,
            "property 'feature@nope' is not a valid pool or vdev property\n",
        ),
        row(
            "zpool create -m none -o compatibility=nope x W/d1",
            1,
            "cannot create 'x': could not read/parse feature file(s): nope \n",
        ),
        row(
            "zpool create -m none -o ashift=17 x W/d1",
            1,
            "invalid 'ashift=17' property: only values between 9 and 16 are allowed.\n",
        ),
        row(
            "zpool create -m rel x W/d1",
            1,
            "invalid mountpoint 'rel': must be an absolute path, 'legacy', or 'none'\n",
        ),
        row(
            "zpool create -d -m none -O recordsize=1M x W/d1",
            1,
            "cannot create 'x': pool and or dataset must be upgraded to set this property or value\n",
        ),
        row("zfs create p1/a@b", 1, "cannot create 'p1/a@b': snapshot delimiter '@' is not expected here\n"),
        row("zfs create p1/a%b", 1, "cannot create 'p1/a%b': invalid character '%' in name\n"),
        row("zfs create p1", 1, "cannot create 'p1': missing dataset name\n"),
        row("zfs create nope/a", 1, "cannot create 'nope/a': no such pool 'nope'\n"),
        row("zfs create -o bogus=1 p1/a", 1, "cannot create 'p1/a': invalid property 'bogus'\n"),
        row(
            "zfs create -o recordsize=3 p1/a",
            1,
            "cannot create 'p1/a': 'recordsize' must be power of 2 from 512B to 16M\n",
        ),
        row("zfs set sync=bad p1", 255, set("'sync' must be one of 'standard | always | disabled'")),
        row("zfs set bogus=1 p1", 255, set("invalid property 'bogus'")),
        row("zpool set bogus=1 p1", 1, set("invalid property 'bogus'")),
        row("zpool set comment p1", 2, "missing value in property=value argument\n"),
        row("zpool create", 2, "missing pool name argument\n"),
        row("zpool nonsense", 2, "unrecognized command 'nonsense'\n"),
        row("zpool create -Z x W/d1", 2, "invalid option 'Z'\n"),
        row("zpool import -n p2", 2, "-n or -X only meaningful with -F\n"),
        row("zpool import -X p2", 2, "-n or -X only meaningful with -F\n"),
        row("zpool import -T seven p2", 2, "invalid txg value\n"),
        row("zpool import -s -c /nosuch p2", 2, "-c is incompatible with -s\n"),
        row("zpool import -l -N p2", 2, "-l is incompatible with -N\n"),
        row("zpool import -l", 2, "-l is only meaningful during an import\n"),
        row("zpool upgrade -a p1", 2, "-a option should not be used along with a pool name\n"),
        row("zpool history -z", 2, "invalid option 'z'\n"),
        row("zfs create", 2, "missing filesystem argument\n"),
    ]);
}

#[test]
fn imports_of_what_is_no_pool_are_refused() {
    let none = "cannot import 'p2': no such pool available\n";
    refused(&[
        row("zpool import -d W/torn p2", 1, none),
        row("zpool import -d W/odd p2", 1, none),
        row("zpool import -d W/dir p2", 1, none),
        row("zpool import -d W/gone p2 mirror", 1, "cannot import 'p2': name is reserved\n"),
        row("zpool import -d W/gone p2 a@b", 1, "cannot import 'p2': invalid character '@' in pool name\n"),
        row(
            "zpool import -d W/gone p2 p1",
            1,
            "cannot import 'p1': a pool with that name already exists\n\
             use the form 'zpool import <pool | id> <newpool>' to give it a new name\n",
        ),
    ]);
}

#[test]
fn a_pool_of_another_host_is_left_alone_unless_forced() {
    let place = Place::new();
    std::fs::create_dir(place.path("far")).expect("a directory");
    oracle::golden::copy("g14-dirty-zil-slog", &place.path("far"));
    let images = oracle::golden::images("g14-dirty-zil-slog");
    let ours = |image: &Path| place.path("far/img").join(image.file_name().expect("a name"));
    let refusal = place.run("zpool import -N -d W/far/img whirl");
    assert_eq!(refusal.code, 1);
    let words = "cannot import 'whirl': pool was previously in use from another system.\n\
                 Last accessed by zvm (hostid=5a564d21) at ";
    assert!(refusal.err.starts_with(words), "{}", refusal.err);
    let hint = "The pool can be imported, use 'zpool import -f' to import the pool.\n";
    assert!(refusal.err.ends_with(hint), "{}", refusal.err);
    for image in &images {
        let same = std::fs::read(image).expect("reads") == std::fs::read(ours(image)).expect("reads");
        assert!(same, "{}", image.display());
    }
    place.ok("zpool import -f -N -d W/far/img whirl");
    assert_eq!(place.ok("zpool list -Ho name,health"), "whirl\tONLINE\n");
}

#[test]
fn raidz_and_special_vdevs_are_made_and_come_back_without_a_device() {
    let place = Place::new();
    ["d1", "d2", "d3", "s1", "s2"].iter().for_each(|name| place.file(name, 96));
    place.ok("zpool create -f -m none p1 raidz W/d1 W/d2 W/d3 special mirror W/s1 W/s2");
    let status = place.ok("zpool status p1");
    assert!(status.contains("\traidz1-0  ") || status.contains("\t  raidz1-0 "), "{status}");
    assert!(status.contains("\n\tspecial\t\n\t  mirror-1 "), "{status}");
    place.ok("zfs create -o special_small_blocks=4K p1/a");
    place.ok("zpool export p1");
    for away in ["d2", "s1"] {
        std::fs::create_dir_all(place.path("away")).expect("a directory");
        std::fs::rename(place.path(away), place.path("away").join(away)).expect("moves");
    }
    place.ok("zpool import -d W/ p1");
    let status = place.ok("zpool status p1");
    assert!(status.contains("\n state: DEGRADED\n"), "{status}");
    assert!(status.contains("  was W/d2\n") && status.contains("  was W/s1\n"), "{status}");
    assert_eq!(place.ok("zfs list -Ho name"), "p1\np1/a\n");
    place.ok("zpool export p1");
    for back in ["d2", "s1"] {
        std::fs::rename(place.path("away").join(back), place.path(back)).expect("moves back");
    }
    place.ok("zpool import -d W/ p1");
    // Devices that missed writes are brought up to date at once, and no scrub begins before they are.
    place.ok("zpool wait -t resilver p1");
    assert!(place.ok("zpool status p1").contains("  scan: resilvered "), "not resilvered");
    place.ok("zpool scrub -w p1");
    assert!(place.ok("zpool status p1").contains("errors: No known data errors"));
    place.ok("zpool export p1");
    let found = oracle::zdb::Zdb::new(place.directory.path(), "p1").check();
    found.unwrap_or_else(|damage| panic!("{damage}"));
}
