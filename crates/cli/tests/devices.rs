//! Devices of real pools on files: attached, replaced, detached, taken out and brought back.
#![forbid(unsafe_code)]

mod place;

use oracle::loop_disk::LoopDisk;
use oracle::zdb::Zdb;
use place::Place;

const HEAD: &str = "invalid vdev specification\nuse '-f' to override the following errors:\n";

/// Files for devices, and a pool of two of them: `d1`, and the log `l1`.
fn with_pool(words: &str) -> Place {
    let place = Place::with_files();
    ["d3", "d4"].iter().for_each(|name| place.file(name, 96));
    place.file("small", 65);
    place.ok(&format!("zpool create -m none tank {words}"));
    place.ok("zfs create -o mountpoint=none tank/fs");
    place
}

/// Names and states of the vdevs, without what is the same everywhere.
fn shape(place: &Place) -> Vec<String> {
    let told = place.ok("zpool status tank");
    let rows = told.lines().skip_while(|line| !line.contains("NAME")).skip(2);
    let rows = rows.take_while(|line| !line.is_empty()).map(str::split_whitespace);
    rows.map(|words| words.take(2).collect::<Vec<_>>().join(" ")).collect()
}

/// Exports the pool, has `zdb` add it up, and gives its configuration as OpenZFS reads it.
fn judged(place: &Place) -> String {
    place.ok("zpool export tank");
    let zdb = Zdb::new(place.directory.path(), "tank");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
    let shown = zdb.run(&["-C"], &[]).unwrap_or_else(|error| panic!("{error}"));
    shown.replace(&place.directory.path().display().to_string(), "W")
}

/// Each of these is refused in these words, with that exit code.
fn refused(place: &Place, lines: &[(&str, i32, &str)]) {
    for (line, code, want) in lines {
        let printed = place.run(line);
        assert_eq!((printed.err.as_str(), printed.code), (*want, *code), "{line}");
    }
}

fn internal_history(place: &Place) -> Vec<String> {
    let told = place.ok("zpool history -i tank");
    let events = told.lines().filter_map(|line| line.split_once("] ").map(|(_, event)| event.to_owned()));
    events.filter(|event| event.contains("vdev=")).collect()
}

#[test]
fn a_device_joins_a_vdev_with_the_sectors_that_the_vdev_has() {
    let place = Place::with_files();
    place.file("d3", 96);
    place.ok("zpool create -m none -o ashift=9 tank W/d1");
    place.ok("zpool set ashift=12 tank");
    place.ok("zpool attach -w tank W/d1 W/d2");
    place.ok("zpool replace -w tank W/d1 W/d3");
    assert_eq!(shape(&place), ["mirror-0 ONLINE", "W/d3 ONLINE", "W/d2 ONLINE"]);
}

#[test]
fn devices_are_attached_and_detached_as_openzfs_says() {
    let place = with_pool("W/d1 log W/l1");
    place.ok("zpool attach -w tank W/d1 W/d2");
    place.ok("zpool attach -w tank W/d2 W/d3");
    place.ok("zpool attach -w -s tank W/l1 W/l2");
    let all =
        ["mirror-0", "W/d1", "W/d2", "W/d3", "logs", "mirror-1", "W/l1", "W/l2"].map(|name| match name {
            "logs" => name.to_owned(),
            name => format!("{name} ONLINE"),
        });
    assert_eq!(shape(&place), all);
    let small = "cannot attach W/small to W/d1: device is too small\n";
    let active = format!("{HEAD}W/l2 is part of active pool 'tank'\n");
    refused(
        &place,
        &[
            ("zpool attach tank W/d1 W/small", 255, small),
            ("zpool attach tank W/nope W/d4", 255, "cannot attach W/d4 to W/nope: no such device in pool\n"),
            (
                "zpool attach tank mirror-0 W/d4",
                255,
                "cannot attach W/d4 to mirror-0: can only attach to mirrors and top-level disks\n",
            ),
            (
                "zpool attach -o ashift=12 tank W/d1 W/d4",
                255,
                "cannot attach W/d4 to W/d1: The new device cannot have a higher alignment requirement \
                 than the top-level vdev.\n",
            ),
            ("zpool attach tank W/d1 W/l2", 1, &active),
            ("zpool attach tank W/d1 W/gone", 1, "cannot resolve path 'W/gone'\n"),
            ("zpool attach nope W/d1 W/d4", 1, "cannot open 'nope': no such pool\n"),
            ("zpool detach tank W/nope", 255, "cannot detach W/nope: no such device in pool\n"),
            (
                "zpool detach tank mirror-0",
                255,
                "cannot detach mirror-0: only applicable to mirror and replacing vdevs\n",
            ),
            ("zpool detach nope W/d1", 1, "cannot open 'nope': no such pool\n"),
        ],
    );
    for (line, want) in [
        ("zpool attach", "missing pool name argument\nusage:\n\tattach [-fsw]"),
        ("zpool attach tank", "missing <device> specification\nusage:\n"),
        ("zpool attach tank W/d1", "missing <new_device> specification\nusage:\n"),
        ("zpool attach tank W/d1 W/d4 W/d4", "too many arguments\nusage:\n"),
        ("zpool detach tank", "missing <device> specification\nusage:\n\tdetach <pool> <device>\n"),
    ] {
        let printed = place.run(line);
        assert_eq!(printed.code, 2, "{line}");
        assert!(printed.err.starts_with(want), "{line}: {}", printed.err);
    }
    place.ok("zpool detach tank W/d1");
    place.ok("zpool detach tank W/d3");
    place.ok("zpool detach tank W/l1");
    refused(
        &place,
        &[
            (
                "zpool detach tank W/l2",
                255,
                "cannot detach W/l2: only applicable to mirror and replacing vdevs\n",
            ),
            (
                "zpool detach tank W/d2",
                255,
                "cannot detach W/d2: only applicable to mirror and replacing vdevs\n",
            ),
        ],
    );
    let told = internal_history(&place);
    let want = [
        "vdev attach attach vdev=W/d2 to vdev=W/d1",
        "vdev attach attach vdev=W/d3 to vdev=W/d2",
        "vdev attach attach vdev=W/l2 to vdev=W/l1",
        "detach vdev=W/d1",
        "detach vdev=W/d3",
        "detach vdev=W/l1",
    ];
    assert_eq!(told, want);
    let said = judged(&place);
    assert!(said.contains("path: 'W/d2'") && said.contains("path: 'W/l2'"), "{said}");
    assert!(!said.contains("mirror") && !said.contains("DTL"), "{said}");
    // What was detached is nobody's: other pools may have it.
    place.ok("zpool create -m none other W/d1 W/d3 log W/l1");
}

#[test]
fn a_device_is_attached_to_a_special_vdev_and_to_no_raidz() {
    let place = with_pool("-f raidz W/d1 W/d2 W/d3 special W/l1");
    place.ok("zpool attach -w tank W/l1 W/l2");
    refused(
        &place,
        &[
            (
                "zpool attach tank raidz1-0 W/d4",
                255,
                "cannot attach W/d4 to raidz1-0: raidz expansion is not supported yet\n",
            ),
            (
                "zpool attach tank W/d1 W/d4",
                255,
                "cannot attach W/d4 to W/d1: can only attach to mirrors and top-level disks\n",
            ),
            (
                "zpool replace -s tank W/d1 W/d4",
                255,
                "cannot replace W/d1 with W/d4: only mirror and dRAID vdevs support sequential reconstruction\n",
            ),
            (
                "zpool detach tank W/d1",
                255,
                "cannot detach W/d1: only applicable to mirror and replacing vdevs\n",
            ),
        ],
    );
    place.ok("zpool replace -w tank W/d2 W/d4");
    let said = judged(&place);
    assert!(said.contains("path: 'W/d4'") && said.contains("path: 'W/l2'"), "{said}");
    assert!(!said.contains("path: 'W/d2'"), "{said}");
}

/// Who has waited may use the old device at once.
#[test]
fn a_device_that_was_replaced_is_free_when_the_wait_is_over() {
    let place = with_pool("mirror W/d1 W/d2 log W/l1");
    for _ in 0..8 {
        place.ok("zpool replace -w tank W/l1 W/d4");
        place.ok("zpool replace -w tank W/d4 W/l1");
    }
    assert_eq!(shape(&place), ["mirror-0 ONLINE", "W/d1 ONLINE", "W/d2 ONLINE", "logs", "W/l1 ONLINE"]);
}

#[test]
fn a_device_is_replaced_by_a_new_one_elsewhere_and_in_its_place() {
    let place = with_pool("mirror W/d1 W/d2");
    place.ok("zpool replace -w tank W/d1 W/d3");
    assert_eq!(shape(&place), ["mirror-0 ONLINE", "W/d3 ONLINE", "W/d2 ONLINE"]);
    // The device is still what it was.
    let active = format!("{HEAD}W/d3 is part of active pool 'tank'\n");
    refused(
        &place,
        &[
            ("zpool replace tank W/d3", 1, &active),
            (
                "zpool replace tank W/d3 W/small",
                255,
                "cannot replace W/d3 with W/small: device is too small\n",
            ),
            (
                "zpool replace tank W/nope W/d4",
                255,
                "cannot replace W/nope with W/d4: no such device in pool\n",
            ),
        ],
    );
    // Somebody puts another disk there.
    std::fs::remove_file(place.path("d3")).expect("removed");
    place.file("d3", 96);
    place.ok("zpool replace -w tank W/d3");
    assert_eq!(shape(&place), ["mirror-0 ONLINE", "W/d3 ONLINE", "W/d2 ONLINE"]);
    // One that is gone is named by its guid, too.
    place.ok("zpool export tank");
    std::fs::remove_file(place.path("d2")).expect("removed");
    place.ok("zpool import -N -d W/ tank");
    let told = place.ok("zpool status -g tank");
    let gone = told.lines().find(|line| line.contains("UNAVAIL")).expect("a device is gone");
    let guid = gone.split_whitespace().next().expect("its guid").to_owned();
    place.ok(&format!("zpool replace -w tank {guid} W/d4"));
    assert_eq!(shape(&place), ["mirror-0 ONLINE", "W/d3 ONLINE", "W/d4 ONLINE"]);
    let told = internal_history(&place);
    assert!(told.contains(&"vdev attach replace vdev=W/d3 for vdev=W/d3/old".to_owned()), "{told:?}");
    let said = judged(&place);
    assert!(!said.contains("replacing") && !said.contains("/old"), "{said}");
}

#[test]
fn devices_are_taken_out_and_brought_back_as_openzfs_says() {
    let place = with_pool("mirror W/d1 W/d2 log W/l1");
    let states = |place: &Place| -> Vec<String> {
        let told = shape(place).into_iter().map(|row| row.replace("W/", ""));
        told.filter(|row| row != "logs").collect()
    };
    let put = |name: &str| {
        std::fs::write(place.path("bytes"), vec![7; 300_000]).expect("written");
        place.ok("zpool export tank");
        place.ok(&format!("cp W/bytes tank/fs:/{name} -d W/"));
        place.ok("zpool import -N -d W/ tank");
    };
    place.ok("zpool offline tank W/d1");
    assert_eq!(states(&place), ["mirror-0 DEGRADED", "d1 OFFLINE", "d2 ONLINE", "l1 ONLINE"]);
    let told = place.ok("zpool status tank");
    let action =
        "action: Online the device using 'zpool online' or replace the device with\n\t'zpool replace'.\n";
    assert!(told.contains(action), "{told}");
    refused(
        &place,
        &[
            ("zpool offline tank W/d2", 1, "cannot offline W/d2: no valid replicas\n"),
            ("zpool offline -f tank W/d2", 1, "cannot fault W/d2: no valid replicas\n"),
            ("zpool offline tank W/nope", 1, "cannot offline W/nope: no such device in pool\n"),
            ("zpool online tank W/nope", 1, "couldn't find device \"W/nope\" in pool \"tank\"\n"),
            ("zpool detach tank W/d2", 255, "cannot detach W/d2: no valid replicas\n"),
            ("zpool offline nope W/d2", 1, "cannot open 'nope': no such pool\n"),
            ("zpool reopen nope", 1, "cannot open 'nope': no such pool\n"),
        ],
    );
    for line in ["zpool offline tank", "zpool online tank", "zpool offline", "zpool online"] {
        assert_eq!(place.run(line).code, 2, "{line}");
    }
    // It is so after an import, too; what was written meanwhile is brought to it then.
    put("missed");
    assert_eq!(states(&place)[1], "d1 OFFLINE");
    let said = {
        let said = judged(&place);
        place.ok("zpool import -N -d W/ tank");
        said
    };
    assert!(said.contains("offline: 1") && said.contains("DTL:"), "{said}");
    place.ok("zpool online tank W/d1");
    place.ok("zpool wait -t resilver tank");
    assert_eq!(states(&place), ["mirror-0 ONLINE", "d1 ONLINE", "d2 ONLINE", "l1 ONLINE"]);
    assert!(place.ok("zpool status tank").contains("scan: resilvered "));
    // For now only; and a log that is alone may go.
    place.ok("zpool offline -t tank W/d2 W/l1");
    assert_eq!(states(&place), ["mirror-0 DEGRADED", "d1 ONLINE", "d2 OFFLINE", "l1 OFFLINE"]);
    place.ok("zpool export tank");
    place.ok("zpool import -N -d W/ tank");
    place.ok("zpool wait tank");
    assert_eq!(states(&place), ["mirror-0 ONLINE", "d1 ONLINE", "d2 ONLINE", "l1 ONLINE"]);
    place.ok("zpool offline -f tank W/d1");
    assert_eq!(states(&place)[1], "d1 FAULTED");
    put("again");
    assert_eq!(states(&place)[1], "d1 FAULTED", "an import does not try it");
    place.ok("zpool online tank W/d1");
    place.ok("zpool wait tank");
    place.ok("zpool offline tank W/l1");
    place.ok("zpool online tank W/l1");
    assert_eq!(states(&place), ["mirror-0 ONLINE", "d1 ONLINE", "d2 ONLINE", "l1 ONLINE"]);
    // One that is gone is found out, and back when it is.
    std::fs::rename(place.path("d2"), place.path("away")).expect("moved");
    place.ok("zpool reopen tank");
    assert!(states(&place)[2].ends_with(" UNAVAIL"), "it is called by its guid now");
    let told = place.ok("zpool online tank W/d2");
    assert_eq!(
        told,
        "warning: device 'W/d2' onlined, but remains in faulted state\n\
         use 'zpool replace' to replace devices that are no longer present\n"
    );
    std::fs::rename(place.path("away"), place.path("d2")).expect("moved back");
    place.ok("zpool reopen");
    place.ok("zpool wait tank");
    assert_eq!(states(&place)[2], "d2 ONLINE");
    let said = judged(&place);
    assert!(!said.contains("offline") && !said.contains("faulted") && !said.contains("DTL"), "{said}");
    // Each side has everything alone.
    for gone in ["d1", "d2"] {
        std::fs::rename(place.path(gone), place.path("run/away")).expect("moved");
        for name in ["missed", "again"] {
            let bytes = place.ok(&format!("cat tank/fs:/{name} -d W/"));
            assert_eq!(bytes.len(), 300_000, "{name} without {gone}");
        }
        std::fs::rename(place.path("run/away"), place.path(gone)).expect("moved back");
    }
}

#[test]
fn a_device_that_comes_back_is_brought_online_by_itself() {
    let place = with_pool("mirror W/d1 W/d2 log mirror W/l1 W/l2");
    let (there, away) = (place.path("d2"), place.path("away"));
    place.kill();
    std::fs::rename(&there, &away).expect("moved");
    let without = shape(&place);
    assert!(without[0] == "mirror-0 DEGRADED" && without[2].ends_with(" UNAVAIL"), "{without:?}");
    place.ok("zfs create -o mountpoint=none tank/missed");
    place.ok("zpool offline tank W/l2");
    std::fs::rename(&away, &there).expect("moved");
    let whole = [
        "mirror-0 ONLINE",
        "W/d1 ONLINE",
        "W/d2 ONLINE",
        "logs",
        "mirror-1 DEGRADED",
        "W/l1 ONLINE",
        "W/l2 OFFLINE",
    ];
    becomes(&place, &whole);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let has_happened =
        |class: &str| place.ok("zpool events -H").contains(&format!("sysevent.fs.zfs.{class}"));
    while !["vdev_online", "resilver_finish"].into_iter().all(has_happened) {
        assert!(std::time::Instant::now() < deadline, "{}", place.log());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // What the administrator has taken out stays out.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(shape(&place), whole);
    judged(&place);
}

/// Waits until the rows are so.
fn becomes(place: &Place, want: &[&str]) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while shape(place) != want {
        assert!(std::time::Instant::now() < deadline, "{:?} is not yet {want:?}", shape(place));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The spares that `zpool status` lists.
fn spares(place: &Place) -> Vec<String> {
    let told = place.ok("zpool status tank");
    let rows =
        told.lines().skip_while(|line| *line != "\tspares").skip(1).take_while(|line| !line.is_empty());
    rows.map(|row| row.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn hot_spares_stand_in_and_are_given_back_or_kept() {
    let place = with_pool("mirror W/d1 W/d2 log W/l1 spare W/d3 W/d4");
    assert_eq!(spares(&place), ["W/d3 AVAIL", "W/d4 AVAIL"]);
    refused(
        &place,
        &[
            (
                "zpool replace tank W/l1 W/d3",
                255,
                "cannot replace W/l1 with W/d3: cannot replace a log with a spare\n",
            ),
            ("zpool detach tank W/d3", 255, "cannot detach W/d3: device is reserved as a hot spare\n"),
        ],
    );
    place.ok("zpool replace tank W/d1 W/d3");
    place.ok("zpool wait -t resilver tank");
    let at_work = ["mirror-0 ONLINE", "spare-0 ONLINE", "W/d1 ONLINE", "W/d3 ONLINE", "W/d2 ONLINE"];
    assert_eq!(shape(&place)[..5], at_work);
    assert_eq!(spares(&place), ["W/d3 INUSE", "W/d4 AVAIL"]);
    let said = judged(&place);
    assert!(said.contains("type: 'spare'") && said.contains("is_spare: 1"), "{said}");
    place.ok("zpool import -N -d W/ tank");
    // The spare goes back.
    place.ok("zpool detach tank W/d3");
    assert_eq!(spares(&place), ["W/d3 AVAIL", "W/d4 AVAIL"]);
    // The device goes, and the spare stays for good.
    place.ok("zpool replace tank W/d1 W/d3");
    place.ok("zpool wait -t resilver tank");
    place.ok("zpool detach tank W/d1");
    assert_eq!(shape(&place)[..3], ["mirror-0 ONLINE", "W/d3 ONLINE", "W/d2 ONLINE"]);
    assert_eq!(spares(&place), ["W/d4 AVAIL"]);
    let said = judged(&place);
    assert!(!said.contains("spare"), "{said}");
    place.ok("zpool import -N -d W/ tank");
    // Pools share spares; the one that needs it first has it.
    place.ok("zpool create -m none other W/l2 spare W/d4");
    place.ok("zpool destroy other");
    let reserved = "W/d4 is reserved as a hot spare for pool tank\n";
    refused(
        &place,
        &[
            ("zpool create -m none other W/d4", 1, &format!("{HEAD}{reserved}")),
            (
                "zpool create -f -m none other W/d4",
                1,
                &format!(
                    "invalid vdev specification\nthe following errors must be manually repaired:\n{reserved}"
                ),
            ),
        ],
    );
    // A device that fails is stood in for by itself, and the spare goes when it is back and whole.
    place.ok("zpool offline -f tank W/d2");
    let stands_in = ["mirror-0 DEGRADED", "W/d3 ONLINE", "spare-1 DEGRADED", "W/d2 FAULTED", "W/d4 ONLINE"];
    becomes(&place, &[&stands_in[..], &["logs", "W/l1 ONLINE", "spares", "W/d4 INUSE"]].concat());
    place.ok("zpool wait -t resilver tank");
    place.ok("zpool online tank W/d2");
    let whole =
        ["mirror-0 ONLINE", "W/d3 ONLINE", "W/d2 ONLINE", "logs", "W/l1 ONLINE", "spares", "W/d4 AVAIL"];
    becomes(&place, &whole);
    judged(&place);
}

#[test]
fn a_new_device_in_the_place_of_one_that_failed_replaces_it_where_the_pool_says_so() {
    let place = with_pool("mirror W/d1 W/d2");
    let goes = || {
        let guid = place.ok("zpool get -H -o value guid tank W/d2");
        std::fs::remove_file(place.path("d2")).expect("removed");
        place.ok("zpool scrub tank");
        becomes(&place, &["mirror-0 DEGRADED", "W/d1 ONLINE", &format!("{} UNAVAIL", guid.trim())]);
    };
    let comes_anew = || {
        goes();
        place.file("d2", 96);
    };
    let both = ["mirror-0 ONLINE", "W/d1 ONLINE", "W/d2 ONLINE"];
    comes_anew();
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(shape(&place)[0], "mirror-0 DEGRADED", "autoreplace is off");
    place.ok("zpool replace -w tank W/d2");
    becomes(&place, &both);
    place.ok("zpool set autoreplace=on tank");
    comes_anew();
    becomes(&place, &both);
    // What looks used is not taken.
    goes();
    place.file("d2", 96);
    let mkfs = std::process::Command::new("mkfs.ext4").args(["-q", "-F"]).arg(place.path("d2")).status();
    assert!(mkfs.expect("mkfs.ext4 runs").success());
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(shape(&place)[0], "mirror-0 DEGRADED");
    let check = std::process::Command::new("e2fsck").args(["-f", "-n"]).arg(place.path("d2")).output();
    assert!(check.expect("e2fsck runs").status.success());
}

#[test]
fn a_cache_device_beside_those_that_are_searched_is_where_the_pool_says() {
    let place = with_pool("mirror W/d1 W/d2 cache W/d3");
    std::fs::create_dir(place.path("found")).expect("a directory");
    place.ok("zpool export tank");
    for name in ["d1", "d2"] {
        std::fs::rename(place.path(name), place.path("found").join(name)).expect("moved");
    }
    place.ok("zpool import -N -d W/found tank");
    let all = ["mirror-0 ONLINE", "W/found/d1 ONLINE", "W/found/d2 ONLINE"];
    assert_eq!(shape(&place)[..3], all);
    assert_eq!(caches(&place)[0], "W/d3 ONLINE", "{:?}", shape(&place));
}

#[test]
fn a_hot_spare_is_looked_for_where_the_pool_says() {
    let place = with_pool("mirror W/d1 W/d2 spare W/d3");
    let spares = || shape(&place).into_iter().skip_while(|row| row != "spares").skip(1).collect::<Vec<_>>();
    std::fs::create_dir(place.path("found")).expect("a directory");
    place.ok("zpool export tank");
    for name in ["d1", "d2"] {
        std::fs::rename(place.path(name), place.path("found").join(name)).expect("moved");
    }
    place.ok("zpool import -N -d W/found tank");
    assert_eq!(spares(), ["W/d3 AVAIL"]);
    std::fs::rename(place.path("d3"), place.path("away")).expect("moved");
    place.ok("zpool reopen tank");
    assert_eq!(spares(), ["W/d3 UNAVAIL"]);
    std::fs::rename(place.path("away"), place.path("d3")).expect("moved");
    place.ok("zpool reopen tank");
    assert_eq!(spares(), ["W/d3 AVAIL"]);
}

#[test]
fn a_hot_spare_that_waits_is_no_free_device() {
    let place = Place::with_files();
    place.file("spare", 96);
    let Some(disk) = LoopDisk::over(&place.path("spare")) else { return };
    let spare = disk.path();
    let is_free = || {
        let mut mkfs = std::process::Command::new("mkfs.ext4");
        mkfs.args(["-q", "-F", "-n", spare]).output().expect("mkfs.ext4 runs").status.success()
    };
    // It is looked for after each txg.
    let becomes = |want: bool| {
        for _ in 0..200 {
            if is_free() == want {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        false
    };
    assert!(is_free());
    place.ok(&format!("zpool create -m none one mirror W/d1 W/d2 spare {spare}"));
    place.ok(&format!("zpool create -m none two mirror W/l1 W/l2 spare {spare}"));
    place.ok("zpool sync");
    assert!(becomes(false), "{}", place.log());
    // The other pool holds the spare now.
    place.ok("zpool export one");
    place.ok("zpool sync");
    assert!(becomes(false));
    place.ok("zpool import -N -d W/ -d /dev one");
    // The spare is put to work though both pools hold it, and held again when its work is done.
    place.ok(&format!("zpool replace two W/l1 {spare}"));
    place.ok("zpool wait -t resilver two");
    assert!(!is_free());
    let shown = |pool: &str| {
        let told = place.ok(&format!("zpool status {pool}"));
        let row = told.lines().skip_while(|line| *line != "\tspares").nth(1).expect("a spare");
        row.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        (shown("one").as_str(), shown("two").as_str()),
        ("INUSE in use by pool 'two'", "INUSE currently in use")
    );
    place.ok(&format!("zpool detach two {spare}"));
    place.ok("zpool sync");
    assert!(becomes(false));
    assert_eq!(shown("one"), "AVAIL");
    place.ok(&format!("zpool remove one {spare}"));
    place.ok(&format!("zpool remove two {spare}"));
    assert!(becomes(true));
    place.ok("zpool destroy two");
    place.ok("zpool destroy one");
}

/// The cache devices that `zpool status` lists.
fn caches(place: &Place) -> Vec<String> {
    shape(place).into_iter().skip_while(|row| row != "cache").skip(1).collect()
}

#[test]
fn cache_devices_are_used_and_taken_out_and_go_at_any_time() {
    let place = with_pool("W/d1 log W/l1 cache W/d2");
    assert_eq!(caches(&place), ["W/d2 ONLINE"]);
    let in_use = format!("{HEAD}W/d2 is part of active pool 'tank'\n");
    refused(
        &place,
        &[
            ("zpool detach tank W/d2", 255, "cannot detach W/d2: device is in use as a cache\n"),
            (
                "zpool replace tank W/d2 W/d3",
                255,
                "cannot replace W/d2 with W/d3: device is in use as a cache\n",
            ),
            ("zpool attach tank W/d2 W/d3", 255, "cannot attach W/d3 to W/d2: device is in use as a cache\n"),
            ("zpool create -m none other W/d2", 1, &in_use),
            ("zpool add tank cache W/d2", 1, &in_use),
        ],
    );
    place.ok("zpool add tank cache W/d3");
    assert_eq!(caches(&place), ["W/d2 ONLINE", "W/d3 ONLINE"]);
    place.ok("zpool offline tank W/d3");
    assert_eq!(caches(&place), ["W/d2 ONLINE", "W/d3 OFFLINE"]);
    let rows = place.ok("zpool list -Hv tank");
    let row = rows.lines().find(|row| row.contains("W/d2")).expect("the cache has a row");
    assert!(row.split_whitespace().nth(1).is_some_and(|size| size.ends_with('M')), "{row}");
    assert!(place.ok("zpool iostat -v tank").contains("W/d2"));

    // Nothing of it is forgotten when the daemon dies, nor when the pool goes.
    place.kill();
    assert_eq!(caches(&place), ["W/d2 ONLINE", "W/d3 OFFLINE"]);
    let said = judged(&place);
    assert!(!said.contains("W/d2"), "a cache is no vdev: {said}");
    place.ok("zpool import -N -d W/ tank");
    assert_eq!(caches(&place), ["W/d2 ONLINE", "W/d3 OFFLINE"]);
    place.ok("zpool online tank W/d3");
    assert_eq!(caches(&place), ["W/d2 ONLINE", "W/d3 ONLINE"]);
    place.ok("zfs set secondarycache=metadata tank");
    assert_eq!(place.ok("zfs get -Ho value secondarycache tank"), "metadata\n");

    // One that is gone keeps nobody from anything.
    place.ok("zpool export tank");
    std::fs::remove_file(place.path("d3")).expect("it was there");
    place.ok("zpool import -N -d W/ tank");
    assert_eq!(caches(&place), ["W/d2 ONLINE", "W/d3 UNAVAIL"]);
    place.ok("zpool remove tank W/d3");
    place.ok("zpool remove tank W/d2");
    assert_eq!(caches(&place), [""; 0]);
    place.ok("zpool create -m none other W/d2");
    place.ok("zpool destroy other");
    judged(&place);
}

#[test]
fn a_draid_is_made_and_its_devices_are_replaced() {
    let place = Place::with_files();
    ["d3", "d4", "d5", "n1"].iter().for_each(|name| place.file(name, 96));
    let planned = place.ok("zpool create -n -m none tank draid:2d W/d1 W/d2 W/d3 W/d4 W/d5");
    assert!(planned.contains("\n\t  draid1:2d:5c:0s\n\t    W/d1\n"), "{planned}");
    let refused_without = place.run("zpool create -d -m none tank draid W/d1 W/d2 W/d3");
    assert_eq!(refused_without.code, 1, "{}", refused_without.out);
    place.ok("zpool create -m none tank draid:2d W/d1 W/d2 W/d3 W/d4 W/d5");
    let all = |d2: &str| {
        ["draid1:2d:5c:0s-0", "W/d1", d2, "W/d3", "W/d4", "W/d5"]
            .map(|name| format!("{name} ONLINE"))
            .to_vec()
    };
    assert_eq!(shape(&place), all("W/d2"));
    assert_eq!(place.ok("zpool get -Ho value feature@draid tank"), "active\n");
    place.ok("zfs create -o mountpoint=none -o recordsize=512 tank/small");
    refused(
        &place,
        &[(
            "zpool attach tank W/d1 W/n1",
            255,
            "cannot attach W/n1 to W/d1: can only attach to mirrors and top-level disks\n",
        )],
    );
    assert_eq!(place.run("zpool remove tank draid1:2d:5c:0s-0").code, 1);
    place.ok("zpool replace -w tank W/d2 W/n1");
    assert_eq!(shape(&place), all("W/n1"));
    place.ok("zpool offline tank W/d1");
    place.ok("zfs create -o mountpoint=none tank/later");
    place.ok("zpool online tank W/d1");
    place.ok("zpool wait -t resilver tank");
    place.ok("zpool scrub -w tank");
    let said = judged(&place);
    for line in ["type: 'draid'", "nparity: 1", "draid_ndata: 2", "draid_nspares: 0", "draid_ngroups: 5"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(said.contains("org.openzfs:draid") && !said.contains("DTL"), "{said}");
    place.ok("zpool import -d W/ tank");
    let five: Vec<String> = (6..11).map(|number| format!("d{number}")).collect();
    five.iter().for_each(|name| place.file(name, 96));
    place.ok("zpool add tank draid:2d W/d6 W/d7 W/d8 W/d9 W/d10");
    place.ok("zpool scrub -w tank");
    judged(&place);
}
