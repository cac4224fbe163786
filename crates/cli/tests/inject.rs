//! `zinject` on real pools on files, by the real commands and the real daemon: a drill without a cable pulled.
#![forbid(unsafe_code)]

mod place;

use oracle::zdb::Zdb;
use place::Place;

fn world() -> Place {
    let place = Place::with_files();
    place.ok("zpool create -m none tank mirror W/d1 W/d2 log mirror W/l1 W/l2");
    place
}

/// The state of a device, as `zpool status` has it.
fn state(place: &Place, device: &str) -> String {
    let status = place.ok("zpool status tank");
    let line = status.lines().find(|line| line.trim_start().starts_with(device)).expect("a device");
    line.split_whitespace().nth(1).expect("a state").to_owned()
}

#[test]
fn a_side_of_a_mirror_that_fails_on_order_is_seen_told_of_and_done_without() {
    let place = world();
    let help = place.ok("zinject -h");
    assert!(help.contains("latency:lanes") && help == place.ok("zinject --help"), "{help}");
    place.ok("zpool events -c");
    let added = place.ok("zinject -d W/l1 -e io -T write -f 50 tank");
    assert!(
        added.starts_with("Added handler 1 with the following properties:\n  pool: tank\n  vdev: "),
        "{added}"
    );
    assert!(added.ends_with("iotype: write\n"), "{added}");
    // Nothing is mounted that would use the log. Every txg writes to a data device.
    place.ok("zinject -d W/d2 -e io -T write tank");
    place.ok("zpool set comment=drill tank");
    assert_eq!(state(&place, "W/d2"), "FAULTED");
    assert_eq!((state(&place, "W/d1"), state(&place, "tank")), ("ONLINE".to_owned(), "DEGRADED".to_owned()));
    let events = place.ok("zpool events -v tank");
    for told in [
        "resource.fs.zfs.statechange",
        "ereport.fs.zfs.io",
        "vdev_state = \"FAULTED\" (0x5)",
        "zio_err = 0x5",
    ] {
        assert!(events.contains(told), "{told}: {events}");
    }
    let list = place.ok("zinject");
    let counted = list.lines().find(|line| line.starts_with("  2")).expect("the second");
    let counts: Vec<u64> =
        counted.split_whitespace().rev().take(2).filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() == 2 && counts[0] > 0 && counts[0] == counts[1], "{list}");
    assert_eq!(place.ok("zinject -c all"), "removed all registered handlers\n");
    place.ok("zpool clear tank");
    place.ok("zpool wait -t resilver tank");
    assert_eq!(state(&place, "W/d2"), "ONLINE");
    place.ok("zpool export tank");
    Zdb::new(place.directory.path(), "tank").check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_device_that_is_gone_on_order_does_not_come_back_before_that_is_taken_back() {
    let place = world();
    assert_eq!(place.ok("zinject -q -d W/d1 tank"), "1\n");
    place.ok("zpool set comment=drill tank");
    let gone = |place: &Place| place.ok("zpool status tank").contains(" UNAVAIL ");
    assert!(gone(&place), "{}", place.ok("zpool status tank"));
    let warning = place.ok("zpool online tank W/d1");
    assert!(
        warning.starts_with("warning: device 'W/d1' onlined, but remains in faulted state\n"),
        "{warning}"
    );
    assert!(gone(&place), "it cannot be opened");
    assert_eq!(place.ok("zinject -c 1"), "removed handler 1\n");
    place.ok("zpool online tank W/d1");
    place.ok("zpool wait -t resilver tank");
    assert_eq!(state(&place, "W/d1"), "ONLINE");
}

#[test]
fn devices_are_declared_bad_and_delayed() {
    let place = world();
    place.ok("zinject -d W/d1 -A degrade tank");
    assert_eq!(state(&place, "W/d1"), "DEGRADED");
    place.ok("zpool clear tank");
    assert_eq!(state(&place, "W/d1"), "ONLINE");
    place.ok("zinject -d W/l2 -A fault tank");
    assert_eq!(state(&place, "W/l2"), "FAULTED");
    place.ok("zinject -d W/d1 -D 300:1 -T write tank");
    let begun = std::time::Instant::now();
    place.ok("zpool set comment=slow tank");
    assert!(begun.elapsed() > std::time::Duration::from_millis(300));
    assert!(place.ok("zinject").contains("       300      1  100.0000%"));
    place.ok("zinject -c 1");
    assert_eq!(place.ok("zinject"), "No handlers registered.\nRun 'zinject -h' for usage information.\n");
}

#[test]
fn orders_are_refused_in_the_words_of_openzfs() {
    let place = world();
    for (line, code, reason) in [
        ("zinject -c x", 1, "invalid handle id 'x': must be an integer or 'all'"),
        ("zinject -c 7", 1, "failed to remove handler 7: No such file or directory"),
        ("zinject -c all tank", 2, "extraneous argument to '-c'"),
        ("zinject -c all -f 10", 2, "cancel (-c) incompatible with any other options"),
        ("zinject -d W/d1", 2, "device (-d) injection requires a single pool name"),
        ("zinject -d W/d9 tank", 1, "cannot find device 'W/d9' in pool 'tank'"),
        ("zinject -d W/d1 -e checksum tank", 1, "device error type must be 'io', 'nxio' or 'corrupt'"),
        (
            "zinject -d W/d1 -e corrupt tank",
            1,
            "device corrupt errors require io type read and a frequency value",
        ),
        ("zinject -d W/d1 -D 0:1 tank", 1, "invalid i/o delay value: '0:1'"),
        ("zinject -d W/d1 -D 5:1 -T flush tank", 1, "I/O type for a delay must be 'read' or 'write'"),
        ("zinject -d W/d1 -A kill tank", 1, "invalid action 'kill': must be 'degrade' or 'fault'"),
        (
            "zinject -d W/d1 -f 0 tank",
            1,
            "out of range: frequency value must be in the range [0.0001, 100.0]",
        ),
        (
            "zinject -d W/d1 -f x tank",
            1,
            "invalid value: frequency value must be in the range [0.0001, 100.0]",
        ),
        ("zinject -d W/d1 -e dtl tank", 1, "error type 'dtl' is not supported yet"),
        ("zinject -d W/d1 nope", 1, "cannot open 'nope': no such pool"),
        ("zinject -f 10", 2, "at least one of '-a', '-c', '-d' or '-t' must be specified"),
        ("zinject -t data", 2, "missing argument for -t data: the path of a file"),
        ("zinject -t mos tank", 1, "type 'mos' is not supported yet"),
        ("zinject -t file tank", 1, "invalid type 'file'"),
        ("zinject -t data -e nxio W/d1", 1, "data error type must be 'checksum' or 'io'"),
        ("zinject -t data -d W/d1 tank", 2, "device (-d) incompatible with data error injection"),
        ("zinject -d W/d1 -l 1 tank", 2, "device (-d) incompatible with data error injection"),
        (
            "zinject -t data -r 5,5 W/d1",
            1,
            "invalid range '5,5': must be a numeric range of the form 'start[,end]'",
        ),
        (
            "zinject -t dnode -r 5 W/d1",
            2,
            "a range (-r) is of the data of a file: '-l' and '-t dnode' have none",
        ),
    ] {
        let printed = place.run(line);
        assert_eq!((printed.err.trim_end(), printed.code), (reason, code), "{line}");
    }
    let foreign = place.run("zinject -t data W/d1");
    assert!(foreign.err.ends_with("': not a ZFS filesystem\n") && foreign.code == 1, "{}", foreign.err);
    assert_eq!(place.ok("zinject -a"), "");
    assert!(place.ok("zinject").starts_with("No handlers"));
}
