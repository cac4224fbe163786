//! `zpool initialize` and `zpool trim` on real pools on files, by the real commands and the real daemon, judged by `zdb`
//! of OpenZFS.
#![forbid(unsafe_code)]

mod place;

use oracle::zdb::Zdb;
use place::Place;
use std::os::unix::fs::MetadataExt;

/// Each of these is refused in these words, with that exit code.
fn refused(place: &Place, lines: &[(&str, i32, &str)]) {
    for (line, code, want) in lines {
        let printed = place.run(line);
        assert_eq!((printed.err.as_str(), printed.code), (*want, *code), "{line}");
    }
}

/// What `zpool status` with a flag says behind the counters of each leaf, times cut off.
fn told(place: &Place, flag: &str) -> Vec<String> {
    let status = place.ok(&format!("zpool status {flag} tank"));
    let leaves = status.lines().filter(|line| line.trim_start().starts_with("W/"));
    let words = |line: &str| line.split_once("  (").map_or(String::new(), |(_, words)| format!("({words}"));
    let undated =
        |words: String| words.split_once(" at ").map_or(words.clone(), |(head, _)| format!("{head})"));
    leaves.map(|line| undated(words(line))).collect()
}

/// What the leaf's ZAP has, as `zdb` of OpenZFS shows it.
fn zaps(place: &Place) -> String {
    let zdb = Zdb::new(place.directory.path(), "tank");
    zdb.run(&["-dddd"], &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn judged(place: &Place) {
    place.ok("zpool export tank");
    Zdb::new(place.directory.path(), "tank").check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn devices_are_initialized_and_told_of_as_openzfs_says() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank mirror W/d1 W/d2 log W/l1");
    assert_eq!(told(&place, "-i"), ["(uninitialized)"; 3]);
    assert_eq!(told(&place, ""), [""; 3]);
    place.ok("zpool initialize -w tank");
    assert_eq!(told(&place, "-i"), ["(100% initialized, completed)"; 3]);
    let status = place.ok("zpool status -i tank");
    assert!(status.contains("     0     0     0  (100% initialized, completed at "), "{status}");
    assert!(std::fs::metadata(place.path("d1")).expect("there").blocks() * 512 > 80 << 20);
    let json = place.ok("zpool status -j --json-int -i tank");
    assert!(json.contains("\"init_state\":\"COMPLETE\"") && json.contains("\"init_errors\":0"), "{json}");
    let history = place.ok("zpool history -i tank");
    for event in ["initialize vdev=W/d1 activated", "initialize vdev=W/l1 complete"] {
        assert!(history.contains(event), "{event}: {history}");
    }
    place.ok("zpool wait -t initialize tank");
    // A device that somebody takes offline keeps its state, and one that failed has none.
    place.ok("zpool offline tank W/d2");
    assert_eq!(told(&place, "-i"), ["(100% initialized, completed)"; 3]);
    place.ok("zpool online tank W/d2");
    place.ok("zpool offline -f tank W/d2");
    assert_eq!(told(&place, "-i")[1], "(uninitialized)");
    place.ok("zpool clear tank W/d2");
    place.ok("zpool wait -t resilver tank");
    place.ok("zpool initialize -u tank W/d1");
    assert_eq!(told(&place, "-i")[0], "(uninitialized)");
    assert!(place.ok("zpool history -i tank").contains("uninitialize vdev=W/d1\n"));
    judged(&place);
    let said = zaps(&place);
    assert_eq!(said.matches("com.delphix:vdev_initialize_state = 4").count(), 2, "{said}");
    let last =
        said.lines().find(|line| line.contains("com.delphix:next_offset_to_initialize")).expect("noted");
    let last: u64 = last.trim().rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    assert!(last > 60 << 20 && last <= 96 << 20, "{last}");
    place.ok("zpool import -d W/ tank");
    assert_eq!(told(&place, "-i")[1..], ["(100% initialized, completed)"; 2]);
}

#[test]
fn initializing_is_refused_in_the_words_of_openzfs() {
    let place = Place::with_files();
    place.file("s1", 96);
    place.ok("zpool create -m none tank mirror W/d1 W/d2 spare W/s1");
    refused(
        &place,
        &[
            ("zpool initialize nope", 255, "cannot open 'nope': no such pool\n"),
            (
                "zpool initialize tank W/d1 W/x W/y",
                255,
                "cannot initialize 'W/x': no such device in pool\ncannot initialize 'W/y': no such device in pool\n",
            ),
            ("zpool initialize tank mirror-0", 255, "cannot initialize 'mirror-0': invalid device\n"),
            (
                "zpool initialize tank W/s1",
                255,
                "cannot initialize 'W/s1': device is reserved as a hot spare\n",
            ),
            (
                "zpool initialize -s tank W/d1",
                255,
                "cannot initialize 'W/d1': there is no active initialization\n",
            ),
            (
                "zpool initialize -c tank",
                255,
                "cannot initialize 'W/d1': there is no active initialization\n\
                 cannot initialize 'W/d2': there is no active initialization\n",
            ),
            ("zpool trim -c tank W/d2", 255, "cannot trim 'W/d2': there is no active trim\n"),
            (
                "zpool trim -d tank W/d2",
                255,
                "cannot trim 'W/d2': trim operations are not supported by this device\n",
            ),
        ],
    );
    for (line, want) in [
        (
            "zpool initialize",
            "missing pool name argument\nusage:\n\tinitialize [-acsuw] <pool> [device] ...\n",
        ),
        ("zpool initialize -c -s tank", "-s cannot be combined with other options\nusage:\n"),
        ("zpool initialize -w -c tank", "-w cannot be used with -c, -s or -u\nusage:\n"),
        ("zpool initialize -a tank", "-a cannot be combined with individual pools or vdevs\nusage:\n"),
        ("zpool trim -r x tank", "invalid value for rate: bad numeric value 'x'\nusage:\n"),
        ("zpool trim -r 1M -s tank", "-r cannot be combined with the -c or -s options\nusage:\n"),
        ("zpool trim -w -s tank", "-w cannot be used with -c or -s options\nusage:\n"),
    ] {
        let printed = place.run(line);
        assert_eq!(printed.code, 2, "{line}");
        assert!(printed.err.starts_with(want), "{line}: {}", printed.err);
    }
    place.ok("zpool offline tank W/d2");
    refused(&place, &[("zpool initialize tank", 255, "cannot initialize 'W/d2': invalid device\n")]);
    place.ok("zpool wait -t initialize tank");
    assert_eq!(told(&place, "-i")[0], "(100% initialized, completed)", "the other was begun");
}

#[test]
fn a_killed_daemon_goes_on_trimming_where_it_was() {
    let place = Place::new();
    ["d1", "d2", "d3"].iter().for_each(|name| place.file(name, 96));
    place.ok("zpool create -m none tank raidz W/d1 W/d2 W/d3");
    place.ok("zpool initialize -w tank");
    let blocks = || std::fs::metadata(place.path("d1")).expect("there").blocks() * 512;
    let full = blocks();
    assert_eq!(told(&place, "-t"), ["(untrimmed)"; 3]);
    // So slow that it takes longer than the test.
    place.ok("zpool trim -r 1M tank");
    assert_eq!(told(&place, ""), ["(trimming)"; 3]);
    refused(&place, &[("zpool trim tank W/d3", 255, "cannot trim 'W/d3': currently trimming\n")]);
    place.ok("zpool trim -s tank W/d3");
    place.ok("zpool sync tank");
    place.kill();
    let found = told(&place, "-t");
    assert!(found[..2].iter().all(|words| words.ends_with("% trimmed, started)")), "{found:?}");
    assert!(found[2].ends_with("% trimmed, suspended, started)"), "{found:?}");
    place.ok("zpool trim -s tank W/d1 W/d2");
    place.ok("zpool trim -w -r 100G tank");
    assert_eq!(told(&place, "-t"), ["(100% trimmed, completed)"; 3]);
    assert!(blocks() * 4 < full, "{} of {full} bytes are left", blocks());
    place.ok("zpool wait -t trim tank");
    judged(&place);
    let said = zaps(&place);
    assert_eq!(said.matches("org.zfsonlinux:vdev_trim_state = 4").count(), 3, "{said}");
    assert_eq!(said.matches("org.zfsonlinux:vdev_trim_rate = 107374182400").count(), 3, "{said}");
}
