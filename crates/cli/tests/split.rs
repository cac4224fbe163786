//! `zpool split` on real pools on files, judged by `zdb` of OpenZFS.
#![forbid(unsafe_code)]

mod place;

use oracle::zdb::Zdb;
use place::Place;

fn with_pool(words: &str) -> Place {
    let place = Place::with_files();
    ["d3", "d4"].iter().for_each(|name| place.file(name, 96));
    place.ok(&format!("zpool create -m none tank {words}"));
    place.ok("zfs create -o mountpoint=none tank/fs");
    place
}

/// The leaves that `zpool list -v` shows of a pool.
fn leaves(place: &Place, pool: &str) -> Vec<String> {
    let told = place.ok(&format!("zpool list -vHP {pool}"));
    let rows = told.lines().filter_map(|line| line.split_whitespace().next());
    rows.filter(|name| name.starts_with("W/")).map(str::to_owned).collect()
}

fn judge(place: &Place, pool: &str) {
    place.ok(&format!("zpool export {pool}"));
    Zdb::new(place.directory.path(), pool).check_blocks().unwrap_or_else(|error| panic!("{pool}: {error}"));
}

#[test]
fn a_pool_is_split_as_openzfs_does() {
    let place = with_pool("mirror W/d1 W/d2 mirror W/d3 W/d4 log W/l1 spare W/l2");
    let would = place.ok("zpool split -n tank twin W/d1");
    assert_eq!(would, "would create 'twin' with the following layout:\n\n\ttwin\n\t  W/d1\n\t  W/d4\n");
    assert_eq!(leaves(&place, "tank").len(), 6, "nothing was done");
    assert_eq!(place.ok("zpool split tank twin W/d1"), "");
    assert_eq!(leaves(&place, "tank"), ["W/d2", "W/d3", "W/l1", "W/l2"]);
    let history = place.ok("zpool history -i tank");
    assert!(history.contains("zpool split tank twin ") && history.contains("detach vdev="), "{history}");
    assert!(!history.contains("split -n"), "{history}");
    // It is exported, and its devices are taken by nobody else by mistake.
    let printed = place.run("zpool create -m none other W/d1");
    assert!(printed.err.contains("W/d1 is part of exported pool 'twin'"), "{}", printed.err);
    place.ok("zpool import -d W/ -N twin");
    assert_eq!(leaves(&place, "twin"), ["W/d1", "W/d4"]);
    assert_eq!(place.ok("zfs list -Ho name -r twin"), "twin\ntwin/fs\n");
    let history = place.ok("zpool history -i twin");
    assert!(history.contains("split from pool tank\n"), "{history}");
    place.ok("zpool scrub -w twin");
    place.kill();
    assert_eq!(leaves(&place, "twin"), ["W/d1", "W/d4"], "it is brought back");
    assert_eq!(leaves(&place, "tank"), ["W/d2", "W/d3", "W/l1", "W/l2"]);
    judge(&place, "twin");
    judge(&place, "tank");
}

#[test]
fn a_pool_that_is_split_off_is_imported_under_another_root() {
    let place = with_pool("mirror W/d1 W/d2");
    place.ok("zpool split -R W/alt -o comment=half -o autotrim=on tank twin");
    assert_eq!(place.ok("zpool get -Ho value comment,autotrim,altroot twin"), "half\non\nW/alt\n");
    assert_eq!(leaves(&place, "twin"), ["W/d2"]);
    assert_eq!(leaves(&place, "tank"), ["W/d1"]);
    judge(&place, "twin");
    judge(&place, "tank");
}

#[test]
fn a_split_is_refused_in_the_words_of_openzfs() {
    let place = with_pool("mirror W/d1 W/d2 mirror W/d3 W/d4");
    place.ok("zpool create -m none lone W/l1");
    let device_list = "Unable to split tank: Device list must include at most one disk from each mirror\n";
    for (line, want) in [
        ("zpool split nope twin", "cannot open 'nope': no such pool\n"),
        ("zpool split tank twin W/d1 W/d2", device_list),
        ("zpool split tank twin W/l2", device_list),
        ("zpool split tank mirror", "Unable to split tank: name is reserved\n"),
        ("zpool split tank 1st", "Unable to split tank: name must begin with a letter\n"),
        ("zpool split tank lone", "Unable to split tank: pool already exists\n"),
        ("zpool split lone twin", "Unable to split lone: Source pool must be composed only of mirrors\n\n"),
        (
            "zpool split tank twin nodev",
            "cannot open 'nodev': no such device in /dev\nmust be a full path or shorthand device name\n\
             Unable to build a pool from the specified devices\n",
        ),
        ("zpool split tank twin mirror", "Cannot use 'mirror' as a device for splitting\n"),
    ] {
        let printed = place.run(line);
        assert_eq!((printed.err.as_str(), printed.code), (want, 1), "{line}");
    }
    for (line, want) in [
        ("zpool split", "Missing pool name\nusage:\n"),
        ("zpool split tank", "Missing new pool name\nusage:\n"),
        ("zpool split -o ro tank twin", "setting mntopts is only valid when importing the pool\nusage:\n"),
        ("zpool split -l tank twin", "loading keys is only valid when importing the pool\nusage:\n"),
    ] {
        let printed = place.run(line);
        assert_eq!(printed.code, 2, "{line}");
        assert!(printed.err.starts_with(want), "{line}: {}", printed.err);
    }
    place.ok("zpool offline tank W/d4");
    for (line, want) in [
        ("zpool split tank twin", "Unable to split tank: invalid argument for this pool operation\n"),
        ("zpool split tank twin W/d3", "Unable to split tank: pool is busy\n"),
    ] {
        let printed = place.run(line);
        assert_eq!((printed.err.as_str(), printed.code), (want, 1), "{line}");
    }
    place.ok("zpool online tank W/d4");
    place.ok("zpool wait -t resilver tank");
    place.ok("zpool checkpoint tank");
    let printed = place.run("zpool split tank twin");
    assert_eq!((printed.err.as_str(), printed.code), ("Unable to split tank: checkpoint exists\n", 1));
    place.ok("zpool checkpoint -d -w tank");
    assert_eq!(leaves(&place, "tank"), ["W/d1", "W/d2", "W/d3", "W/d4"]);
}
