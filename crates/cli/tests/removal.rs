//! `zpool remove` on real pools on files, by the real commands and the real daemon, judged by `zdb` of OpenZFS.
#![forbid(unsafe_code)]

mod place;

use oracle::zdb::Zdb;
use place::Place;

fn place() -> Place {
    let place = Place::with_files();
    ["l3", "l4"].iter().for_each(|name| place.file(name, 64));
    place
}

/// Exports the pool, has `zdb` read all of it, and gives what that shows of the configuration.
fn judged(place: &Place) -> String {
    place.ok("zpool export tank");
    let zdb = Zdb::new(place.directory.path(), "tank");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
    let config = zdb.run(&["-C"], &[]).unwrap_or_else(|error| panic!("{error}"));
    place.ok("zpool import -N -d W/ tank");
    config
}

/// The names below `logs` of `zpool status`.
fn logs(place: &Place) -> Vec<String> {
    let status = place.ok("zpool status tank");
    let lines = status.lines().skip_while(|line| !line.starts_with("\tlogs")).skip(1);
    let names = lines.take_while(|line| line.starts_with('\t'));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn logs_and_log_mirrors_are_removed_at_once_and_leave_holes() {
    let place = place();
    place.ok("zpool create -m none tank W/d1 log W/l1 mirror W/l2 W/l3");
    place.ok("zpool add tank log W/l4");
    assert_eq!(logs(&place).len(), 5, "{:?}", logs(&place));
    // One of several: a hole, which later vdevs keep their numbers for.
    place.ok("zpool remove tank W/l1");
    assert_eq!(logs(&place), ["mirror-2", "W/l2", "W/l3", "W/l4"]);
    let config = judged(&place);
    assert!(config.contains("type: 'hole'") && config.contains("is_hole: 1"), "{config}");
    assert!(config.contains("hole_array[0]: 1"), "{config}");
    // The next one takes its place.
    place.ok("zpool add tank log W/l1");
    assert_eq!(logs(&place), ["W/l1", "mirror-2", "W/l2", "W/l3", "W/l4"]);
    assert!(!judged(&place).contains("'hole'"));
    // A whole mirror, and several in one command; holes at the end vanish.
    place.ok("zpool remove -w tank mirror-2 W/l4 W/l1");
    assert_eq!(logs(&place), Vec::<String>::new());
    let config = judged(&place);
    assert!(!config.contains("'hole'") && config.contains("vdev_children: 1"), "{config}");
    assert_eq!(place.ok("zpool status -x"), "all pools are healthy\n");
    let history = place.ok("zpool history -i tank");
    assert!(history.contains("zpool remove -w tank mirror-2"), "{history}");
    assert!(history.contains("vdev remove tank vdev (log) W/l1"), "{history}");
    // Their labels are nobody's: they can be had without a word.
    place.ok("zpool create -m none other W/l1 log W/l2");
}

#[test]
fn what_cannot_be_removed_is_refused_in_the_words_of_openzfs() {
    let place = place();
    place.ok("zpool create -m none tank mirror W/d1 W/d2 log mirror W/l1 W/l2");
    for (line, code, want) in [
        ("zpool remove tank W/l1", 1, "cannot remove W/l1: operation not supported on this type of pool\n"),
        ("zpool remove tank W/l3", 1, "cannot remove W/l3: no such device in pool\n"),
        ("zpool remove tank mirror-0", 1, "cannot remove mirror-0: out of space\n"),
        ("zpool remove nope W/l1", 1, "cannot open 'nope': no such pool\n"),
        ("zpool remove -s tank", 1, "cannot cancel removal: operation is not in progress\n"),
        ("zpool remove -s -n tank", 0, "stop request ignored\n"),
    ] {
        let printed = place.run(line);
        assert_eq!((printed.code, printed.err.as_str()), (code, want), "{line}");
    }
    for (line, reason) in [
        ("zpool remove", "missing pool name argument\n"),
        ("zpool remove tank", "missing device\n"),
        ("zpool remove -s tank mirror-1", "too many arguments\n"),
        ("zpool remove -sw tank", "invalid option combination: -w cannot be used with -s\n"),
    ] {
        let printed = place.run(line);
        assert!(printed.code == 2 && printed.err.starts_with(reason), "{line}: {}", printed.err);
    }
    assert_eq!(
        place.ok("zpool remove -n tank mirror-1"),
        "Memory that will be used after removing mirror-1: 0\n"
    );
    assert_eq!(place.ok("zpool remove -np tank mirror-1"), "mirror-1 0\n");
    place.ok("zpool checkpoint tank");
    let refused = place.run("zpool remove tank mirror-1");
    assert_eq!((refused.err.as_str(), refused.code), ("cannot remove mirror-1: checkpoint exists\n", 1));
    place.ok("zpool checkpoint -d -w tank");
    place.ok("zpool remove tank mirror-1");
    let again = place.run("zpool remove tank mirror-1");
    assert_eq!((again.err.as_str(), again.code), ("cannot remove mirror-1: no such device in pool\n", 1));
    judged(&place);
}

#[test]
fn a_log_that_is_gone_is_removed_by_its_guid() {
    let place = place();
    place.ok("zpool create -m none tank W/d1 log W/l1");
    place.ok("zpool export tank");
    std::fs::remove_file(place.path("l1")).expect("it was there");
    assert_eq!(place.run("zpool import -N -d W/ tank").code, 1, "a log is missing");
    place.ok("zpool import -N -m -d W/ tank");
    let [guid] = <[String; 1]>::try_from(logs(&place)).expect("one log");
    assert!(guid.parse::<u64>().is_ok(), "{guid}");
    place.ok(&format!("zpool remove tank {guid}"));
    assert_eq!(place.ok("zpool status -x"), "all pools are healthy\n");
    judged(&place);
}

/// What `zpool status` says of removals: all lines of that, without dates.
fn told(place: &Place) -> Vec<String> {
    let status = place.ok("zpool status tank");
    let lines = status.lines().skip_while(|line| !line.starts_with("remove: "));
    let lines = lines.take_while(|line| *line != "config:");
    lines.map(|line| line.split([',', '/']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_data_vdev_is_removed_and_its_blocks_are_elsewhere() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        place.file(name, 512);
    }
    place.ok("zpool create -m none tank W/a W/b W/c");
    place.ok("zfs create -o compression=off tank/fs");
    let source = place.path("source");
    let bytes: Vec<u8> = (0..24_u32 << 20).map(|at| (at >> 12 ^ at) as u8).collect();
    std::fs::write(&source, &bytes).expect("a file");
    place.ok("zpool export tank");
    place.ok("cp -d W/ W/source tank/fs:file");
    place.ok("zpool import -N -d W/ tank");
    let cost: u64 = {
        let printed = place.ok("zpool remove -np tank W/b");
        printed.trim().strip_prefix("W/b ").and_then(|bytes| bytes.parse().ok()).expect("a number")
    };
    assert!(cost > 0 && cost.is_multiple_of(24), "{cost}");
    assert!(told(&place).is_empty());
    place.ok("zpool remove -w tank W/b");
    assert!(
        place.ok("zpool events -H tank").contains("sysevent.fs.zfs.vdev_remove_dev\n"),
        "its end is told"
    );
    let lines = told(&place);
    assert!(
        lines[0].starts_with("remove: Removal of vdev 1 copied ") && lines[0].ends_with("M in 0h0m"),
        "{lines:?}"
    );
    assert!(lines[1].ends_with(" memory used for removed device mappings"), "{lines:?}");
    let again = place.run("zpool remove tank W/b");
    assert_eq!((again.err.as_str(), again.code), ("cannot remove W/b: no such device in pool\n", 1));
    let config = judged(&place);
    assert!(config.contains("type: 'indirect'") && config.contains("com.delphix:device_removal"), "{config}");
    let history = place.ok("zpool history -i tank");
    for line in ["vdev remove started tank vdev 1 W/b", "vdev remove completed tank vdev 1"] {
        assert!(history.contains(line), "{line}: {history}");
    }
    let json = place.ok("zpool status -jp tank");
    assert!(json.contains("\"removal_stats\":{\"name\":\"indirect-1\""), "{json}");
    // Its device is nobody's, and nobody needs it.
    place.ok("zpool create -m none other W/b");
    place.ok("zpool destroy other");
    std::fs::remove_file(place.path("b")).expect("it was there");
    place.ok("zpool export tank");
    place.ok("cp -d W/ tank/fs:file W/back");
    assert!(std::fs::read(place.path("back")).expect("it was copied") == bytes);
}
