//! `zpool reguid` and `zpool sync -f` on real pools on files, judged by `zdb` of OpenZFS.
#![forbid(unsafe_code)]

mod place;

use oracle::zdb::Zdb;
use place::Place;

fn guid(place: &Place) -> String {
    place.ok("zpool get -H -o value guid tank").trim().to_owned()
}

/// How many labels on a device say that pool guid.
fn labels(place: &Place, device: &str, guid: &str) -> usize {
    let shown =
        std::process::Command::new("zdb").arg("-l").arg(place.path(device)).output().expect("zdb runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("labels = 0 1 2 3"), "all four are the same: {shown}");
    shown.matches(&format!("pool_guid: {guid}\n")).count()
}

#[test]
fn a_pool_gets_another_guid_and_is_found_by_it() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank mirror W/d1 W/d2 log W/l1");
    let before = guid(&place);
    place.ok("zpool reguid tank");
    let drawn = guid(&place);
    assert_ne!(before, drawn);
    place.ok("zpool reguid -g 4711 tank");
    assert_eq!(guid(&place), "4711");
    let history = place.ok("zpool history -i tank");
    assert!(history.contains(&format!("guid change old={drawn} new=4711\n")), "{history}");
    assert!(history.contains(" zpool reguid -g 4711 tank\n"), "{history}");
    place.ok("zpool sync -f tank");
    for device in ["d1", "d2", "l1"] {
        assert_eq!(labels(&place, device, "4711"), 1, "{device}");
    }
    place.kill();
    assert_eq!(guid(&place), "4711", "it is brought back");
    place.ok("zpool export tank");
    Zdb::new(place.directory.path(), "tank").check_blocks().unwrap_or_else(|error| panic!("{error}"));
    place.ok("zpool import -d W/ 4711");
    place.ok("zpool reguid -g -1 tank");
    assert_eq!(guid(&place), u64::MAX.to_string(), "a negative number is the guid of the same bits");
}

#[test]
fn a_guid_is_refused_in_the_words_of_openzfs() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank mirror W/d1 W/d2");
    place.ok("zpool create -m none other W/l1");
    place.ok("zpool reguid -g 17 other");
    let before = guid(&place);
    for (line, code, want) in [
        ("zpool reguid -g 17 tank", 255, "cannot reguid 'tank': pool already exists\n"),
        ("zpool reguid -g 0 tank", 255, "cannot reguid 'tank': invalid argument for this pool operation\n"),
        ("zpool reguid nope", 1, "cannot open 'nope': no such pool\n"),
        ("zpool sync -f nope", 1, "cannot open 'nope': no such pool\n"),
    ] {
        let printed = place.run(line);
        assert_eq!((printed.err.as_str(), printed.code), (want, code), "{line}");
    }
    for (line, want) in [
        ("zpool reguid", "missing pool name\nusage:\n\treguid [-g guid] <pool>\n"),
        ("zpool reguid tank other", "too many arguments\nusage:\n"),
        ("zpool reguid -g x tank", "invalid GUID: x\nusage:\n"),
    ] {
        let printed = place.run(line);
        assert_eq!(printed.code, 2, "{line}");
        assert!(printed.err.starts_with(want), "{line}: {}", printed.err);
    }
    place.ok("zpool offline tank W/d2");
    let printed = place.run("zpool reguid tank");
    let want = "cannot reguid 'tank': one or more devices is currently unavailable\n";
    assert_eq!((printed.err.as_str(), printed.code), (want, 255));
    assert_eq!(guid(&place), before);
    place.ok("zpool sync -f tank other");
    place.ok("zpool sync");
}
