//! Properties of vdevs, of real pools on files, judged by `zdb` of OpenZFS.
#![forbid(unsafe_code)]

mod place;

use oracle::zdb::Zdb;
use place::Place;

fn kept(place: &Place, vdev: &str) -> String {
    place.ok(&format!("zpool get -Ho property,value,source comment,org.rig:slot,allocating p1 {vdev}"))
}

#[test]
fn properties_of_vdevs_are_kept_and_told() {
    let place = Place::with_files();
    place.ok("zpool create -f -m none -o feature@vdev_zaps_v2=enabled p1 W/l1 mirror W/d1 W/d2");
    assert_eq!(kept(&place, "W/d1"), "comment\t-\tdefault\norg.rig:slot\t-\tdefault\nallocating\t-\t-\n");
    for line in [
        "zpool set comment=upper p1 W/d1",
        "zpool set org.rig:slot=7 p1 W/d1",
        "zpool set comment=pair p1 mirror-1",
        "zpool set allocating=off p1 W/l1",
        "zpool set failfast=on p1 W/d1",
    ] {
        assert_eq!(place.ok(line), "", "{line}");
    }
    let upper = "comment\tupper\tlocal\norg.rig:slot\t7\tlocal\nallocating\t-\t-\n";
    let pair = "comment\tpair\tlocal\norg.rig:slot\t-\tdefault\nallocating\ton\tdefault\n";
    let rests = "comment\t-\tdefault\norg.rig:slot\t-\tdefault\nallocating\toff\tlocal\n";
    let is_so = || {
        assert_eq!(kept(&place, "W/d1"), upper);
        assert_eq!(kept(&place, "mirror-1"), pair);
        assert_eq!(kept(&place, "W/l1"), rests);
        assert!(
            place.ok("zpool status p1").contains("W/l1    ONLINE       0     0     0  (non-allocating)\n")
        );
    };
    is_so();
    let all = place.ok("zpool get -Ho property,value all p1 W/d1");
    for line in
        ["comment\tupper\n", "bootsize\t0\n", "removing\toff\n", "failfast\ton\n", "org.rig:slot\t7\n"]
    {
        assert!(all.contains(line), "{line}: {all}");
    }
    // The pool as a whole.
    place.ok("zpool set org.rig:rack=2 p1 root");
    assert_eq!(
        place.ok("zpool get -Ho property,value org.rig:rack,numchildren p1 root"),
        "org.rig:rack\t2\nnumchildren\t2\n"
    );
    place.ok("zpool set org.rig:rack= p1 root");
    assert_eq!(place.ok("zpool get -Ho value,source org.rig:rack p1 root"), "-\tdefault\n");
    assert!(place.ok("zpool history -i p1").contains(": comment=upper\n"));
    place.kill();
    is_so();
    place.ok("zpool set org.rig:slot= p1 W/d1");
    place.ok("zpool set allocating=on p1 W/l1");
    assert!(!place.ok("zpool status p1").contains("non-allocating"));
    assert!(kept(&place, "W/d1").contains("org.rig:slot\t-\tdefault\n"));
    place.ok("zpool export p1");
    Zdb::new(place.directory.path(), "p1").check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn properties_of_vdevs_are_refused_in_the_words_of_openzfs() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 mirror W/d1 W/d2 log W/l1");
    let invalid = "invalid argument for this pool operation";
    for (line, code, want) in [
        ("size=1 p1 W/d1", 255, "cannot set property size for W/d1 on p1: 'size' is readonly"),
        ("bogus=1 p1 W/d1", 255, "cannot set property bogus for W/d1 on p1: invalid property: 'bogus'"),
        (
            "allocating=no p1 mirror-0",
            255,
            "cannot set property allocating for mirror-0 on p1: 'allocating' must be one of 'on | off'",
        ),
        (
            "io_n=3 p1 W/d1",
            255,
            "cannot set property io_n for W/d1 on p1: property 'io_n' is not supported yet",
        ),
        (
            "failfast=off p1 W/d1",
            255,
            "cannot set property failfast for W/d1 on p1: property 'failfast' is not supported yet",
        ),
        (
            "allocating=off p1 mirror-0",
            22,
            &format!("cannot set property allocating for mirror-0 on p1: {invalid}"),
        ),
        (
            "allocating=off p1 W/d1",
            22,
            "cannot set property allocating for W/d1 on p1: operation not supported on this type of vdev",
        ),
        ("path=/tmp/x p1 W/d1", 22, &format!("cannot set property path for W/d1 on p1: {invalid}")),
        ("comment=x p1 W/d9", 22, "cannot find 'W/d9' in 'p1': device not in pool"),
    ] {
        let printed = place.run(&format!("zpool set {line}"));
        assert_eq!((printed.err.as_str(), printed.code), (format!("{want}\n").as_str(), code), "{line}");
    }
}
