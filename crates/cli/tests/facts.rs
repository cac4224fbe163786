//! What a pool tells of itself: of pools that OpenZFS made, what OpenZFS told; of ours, what is so.
#![forbid(unsafe_code)]

mod place;

use oracle::golden;
use oracle::zdb::Zdb;
use place::Place;
use std::collections::BTreeMap;

const READ_ONLY: &str = "-o readonly=on";

/// What is not compared: each import has its own `load_guid`; reading for the manifest and exporting the
/// pool have changed what is allocated since OpenZFS was asked, tables' logs included.
fn is_other(name: &str, property: &str) -> bool {
    ["load_guid", "allocated", "free", "fragmentation"].contains(&property)
        || (name, property) == ("g20-special-vdev", "dedup_table_size")
}

/// Value and source by property, of lines such as `whirl  size  112M  -`.
fn props(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| line.starts_with("whirl "));
    let entry = |line: &str| {
        let mut words = line.split_whitespace().skip(1).map(str::to_owned);
        Some((words.next()?, words.collect::<Vec<_>>().join(" ")))
    };
    lines.filter_map(entry).collect()
}

/// What OpenZFS told, and what is told here when the pool is imported with these options.
fn compare(name: &str, options: &str) -> Vec<String> {
    let place = Place::new();
    golden::copy(name, place.directory.path());
    let info = golden::text(name, "info.txt");
    let start = info.find("## zpool get all").expect("info.txt has properties");
    let end = info[start + 2..].find("\n## ").map_or(info.len(), |end| start + 2 + end);
    let mut told = props(&info[start..end]);
    told.retain(|property, _| !is_other(name, property));
    if options == READ_ONLY {
        told.insert("readonly".to_owned(), "on -".to_owned());
    }
    place.ok(&format!("zpool import -f -N {options} -d W/img whirl"));
    let found = props(&place.ok("zpool get all whirl"));
    place.ok("zpool export whirl");
    assert!(told.len() > 35, "{told:?}");
    let differs = |(property, value): (String, String)| {
        let found = found.get(&property);
        (found != Some(&value)).then(|| format!("{name} {options}: {property}: {value}, found {found:?}"))
    };
    told.into_iter().filter_map(differs).collect()
}

#[test]
fn golden_pools_tell_what_openzfs_told_of_them() {
    let mut wrong: Vec<String> = Vec::new();
    for name in golden::names() {
        wrong.extend(compare(&name, READ_ONLY));
    }
    // The tables are in memory then.
    for name in ["g02-single-default", "g10-snapshots-clones", "g18-v28", "g20-special-vdev"] {
        wrong.extend(compare(name, ""));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tables_of_deduplicated_blocks_are_shown_as_zdb_shows_them() {
    let place = Place::new();
    golden::copy("g20-special-vdev", place.directory.path());
    let told = Zdb::new(&place.path("img"), "whirl").run(&["-DD"], &[]).expect("zdb finds no damage");
    let (_, table) = told.split_once("DDT histogram (aggregated over all DDTs):\n").expect("a histogram");
    let (table, _) = table.split_once("\ndedup = ").expect("a ratio");
    place.ok("zpool import -f -N -o readonly=on -d W/img whirl");
    let shown = place.ok("zpool status -D whirl");
    let (head, shown_table) = shown.split_once(" in core\n").expect("sizes");
    assert_eq!(shown_table.trim_end(), table.trim_end(), "{shown}");
    let entries = head.rsplit_once("dedup: DDT entries ").and_then(|(_, rest)| rest.split_once(", size "));
    assert!(
        entries.is_some_and(|(entries, _)| entries.parse::<u64>().is_ok_and(|count| count > 0)),
        "{head}"
    );
    assert!(!place.ok("zpool status whirl").contains("DDT entries"));
}

/// Properties that tell what snapshots hold and who was made of them.
const OF_SNAPSHOTS: [&str; 3] = ["written", "clones", "snapshots_changed"];

/// What is not compared: reading for the manifest changed access times, which is written; and without
/// `extensible_dataset` the kernel forgot with the export when snapshots had changed.
fn has_changed(name: &str, dataset: &str, property: &str) -> bool {
    let may_be_read = !dataset.contains('@') && !dataset.ends_with("vol") && !dataset.ends_with("volclone");
    (property == "written" && may_be_read) || (name, property) == ("g18-v28", "snapshots_changed")
}

/// These of every dataset, as OpenZFS told them: `DATASET PROPERTY` and the value.
fn told_of_datasets(name: &str) -> BTreeMap<String, String> {
    let info = golden::text(name, "info.txt");
    let start = info.find("## zfs get -r all").expect("info.txt has properties of datasets");
    let end = info[start + 2..].find("\n## ").map_or(info.len(), |end| start + 2 + end);
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [dataset, property, value @ .., _] = words.as_slice() else { return None };
        let is_meant = OF_SNAPSHOTS.contains(property) && !has_changed(name, dataset, property);
        is_meant.then(|| (format!("{dataset} {property}"), value.join(" ")))
    };
    info[start..end].lines().filter_map(entry).collect()
}

#[test]
fn what_snapshots_hold_is_told_as_openzfs_told_it() {
    let mut wrong = Vec::new();
    for name in golden::names() {
        let place = Place::new();
        golden::copy(&name, place.directory.path());
        place.ok("zpool import -f -N -o readonly=on -d W/img whirl");
        let mut asked =
            place.command(&format!("zfs get -Ho name,property,value {} -t all", OF_SNAPSHOTS.join(",")));
        let found = place.print(asked.env("TZ", "UTC")).out.replace('\t', " ");
        let found: BTreeMap<&str, &str> = found
            .lines()
            .filter_map(|line| {
                let (end, _) = line.match_indices(' ').nth(1)?;
                Some((&line[..end], &line[end + 1..]))
            })
            .collect();
        place.ok("zpool export whirl");
        for (what, value) in told_of_datasets(&name) {
            let is = found.get(what.as_str());
            if is != Some(&value.as_str()) {
                wrong.push(format!("{name}: {what}: {value}, found {is:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_destroyed_dataset_is_freeing_and_can_be_waited_for() {
    let place = Place::new();
    place.file("d1", 256);
    place.ok("zpool create -m none p1 W/d1");
    place.ok("zfs create -o recordsize=512 -o compression=off p1/a");
    place.ok("zpool export p1");
    // Some groups' worth of blocks, none the same.
    let data: Vec<u8> = (1..=12_u32 << 20).flat_map(u32::to_le_bytes).collect();
    std::fs::write(place.path("data"), &data).expect("writes");
    place.ok("cp W/data p1/a:/one -d W/d1");
    place.ok("zpool import -d W/ p1");
    assert_eq!(freeing(&place), 0);
    assert_eq!(place.ok("zpool wait -t free p1"), "");
    let before = allocated(&place);
    assert!(before > data.len() as u64, "{before}");
    place.ok("zfs destroy p1/a");
    // How much there is at a given time, `workloads/freeing` knows: here groups go on meanwhile.
    let left = freeing(&place);
    assert!(left < before, "{left} bytes are freeing");
    assert_eq!(place.ok("zpool wait -t free p1"), "");
    assert_eq!(freeing(&place), 0);
    let after = allocated(&place);
    assert!(after < before - data.len() as u64, "{after} of {before} bytes are still in use");
    assert_eq!(
        place.ok("zpool list -Ho dedup,freeing,leaked,bclone_used,bclone_saved,ddtsize p1"),
        "1.00x\t0\t0\t0\t0\t0\n"
    );
}

#[test]
fn larger_devices_are_told_until_they_are_used() {
    let place = Place::new();
    place.file("d1", 96);
    place.ok("zpool create -m none p1 W/d1");
    let told = || place.ok("zpool list -Ho expandsize p1");
    assert_eq!(told(), "-\n");
    place.ok("zpool export p1");
    let file = std::fs::File::options().write(true).open(place.path("d1")).expect("opens");
    file.set_len(192 << 20).expect("grows");
    place.ok("zpool import -d W/ p1");
    assert_eq!(told(), "96M\n");
    place.ok("zpool set autoexpand=on p1");
    assert_eq!(told(), "-\n");
}

#[test]
fn a_device_that_grows_in_use_is_expanded_when_asked() {
    let place = Place::new();
    ["d1", "d2", "d3"].iter().for_each(|name| place.file(name, 96));
    place.ok("zpool create -m none p1 mirror W/d1 W/d2 W/d3");
    let size = || place.ok("zpool list -Hpo size p1").trim().parse::<u64>().expect("a number");
    let grow = |name: &str| {
        let file = std::fs::File::options().write(true).open(place.path(name)).expect("opens");
        file.set_len(192 << 20).expect("grows");
    };
    let before = size();
    place.ok("zpool online -e p1 W/d1");
    assert_eq!(size(), before, "it has not grown, which is no error");
    grow("d1");
    grow("d2");
    place.ok("zpool online -e p1 W/d1");
    assert_eq!(size(), before, "the smallest of a mirror counts");
    grow("d3");
    assert_eq!(size(), before, "nobody asked for it");
    place.ok("zpool online -e p1 W/d3");
    assert!(size() > before + before / 2, "{before} and {}", size());
    place.ok("zpool scrub -w p1");
    place.kill();
    assert!(size() > before + before / 2);
    place.ok("zpool export p1");
    let zdb = oracle::zdb::Zdb::new(place.directory.path(), "p1");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_device_that_grows_in_use_is_seen_by_reopen() {
    let place = Place::new();
    place.file("d1", 96);
    place.ok("zpool create -m none p1 W/d1");
    let shown = |name: &str| place.ok(&format!("zpool list -Hpo {name} p1")).trim().to_owned();
    let grow = |mib: u64| {
        let file = std::fs::File::options().write(true).open(place.path("d1")).expect("opens");
        file.set_len(mib << 20).expect("grows");
    };
    let size = || shown("size").parse::<u64>().expect("a number");
    let before = size();
    grow(192);
    assert_eq!(shown("expandsz"), "-", "nobody has looked");
    place.ok("zpool reopen p1");
    assert_eq!(shown("expandsz"), (96 << 20).to_string());
    assert_eq!(size(), before);
    place.kill();
    assert_eq!(size(), before, "the labels at the new end lead to the pool");
    place.ok("zpool set autoexpand=on p1");
    grow(384);
    place.ok("zpool reopen p1");
    assert_eq!((shown("expandsz").as_str(), size() > 3 * before), ("-", true));
    place.ok("zpool export p1");
    let zdb = oracle::zdb::Zdb::new(place.directory.path(), "p1");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

fn freeing(place: &Place) -> u64 {
    place.ok("zpool list -Hpo freeing p1").trim().parse().expect("a number")
}

fn allocated(place: &Place) -> u64 {
    place.ok("zpool list -Hpo allocated p1").trim().parse().expect("a number")
}

/// A clone of a promoted clone's older snapshot, the promoted clone's origin by its newer one, a volume and its clone.
#[test]
fn what_hinders_a_destruction_is_told_of_a_pool_that_openzfs_made() {
    let place = Place::new();
    golden::copy("g10-snapshots-clones", place.directory.path());
    place.ok("zpool import -f -N -d W/img whirl");
    for (line, told) in [
        (
            "zfs destroy whirl/promoted",
            "cannot destroy 'whirl/promoted': filesystem has children\n\
             use '-r' to destroy the following datasets:\nwhirl/promoted@s1\nwhirl/promoted@s2\n",
        ),
        (
            "zfs destroy -r whirl/promoted",
            "cannot destroy 'whirl/promoted': filesystem has dependent clones\n\
             use '-R' to destroy the following datasets:\nwhirl/clone\nwhirl/fs\n",
        ),
        (
            "zfs destroy whirl/promoted@s2",
            "cannot destroy 'whirl/promoted@s2': snapshot has dependent clones\n\
             use '-R' to destroy the following datasets:\nwhirl/fs\n",
        ),
        (
            "zfs destroy whirl/vol",
            "cannot destroy 'whirl/vol': volume has children\n\
             use '-r' to destroy the following datasets:\nwhirl/vol@v\n",
        ),
        (
            "zfs rollback -r whirl/promoted@s1",
            "cannot rollback to 'whirl/promoted@s1': clones of previous snapshots exist\n\
             use '-R' to force deletion of the following clones and dependents:\nwhirl/fs\n",
        ),
        (
            "zfs snapshot -r whirl/parent@r",
            "cannot create snapshot 'whirl/parent@r': dataset already exists\n\
             cannot create snapshot 'whirl/parent/kid@r': dataset already exists\nno snapshots were created\n",
        ),
        ("zfs promote whirl/vol", "cannot promote 'whirl/vol': not a cloned filesystem\n"),
        (
            "zfs clone -o casesensitivity=mixed whirl/promoted@s1 whirl/x",
            "cannot create 'whirl/x': 'casesensitivity' is readonly\n",
        ),
        (
            "zfs bookmark whirl/promoted@s2 whirl/clone#x",
            "cannot create bookmark 'whirl/clone#x': source is not an ancestor of the new bookmark's dataset\n",
        ),
    ] {
        let printed = place.run(line);
        assert_eq!((printed.code, printed.err.as_str()), (1, told), "{line}");
    }
    assert_eq!(
        place.ok("zfs destroy -Rnp whirl/promoted"),
        "destroy\twhirl/clone\ndestroy\twhirl/promoted@s1\ndestroy\twhirl/fs\n\
         destroy\twhirl/promoted@s2\ndestroy\twhirl/promoted\n"
    );
    assert_eq!(
        place.ok("zfs list -Ho name -rt snapshot whirl"),
        "whirl/parent@r\nwhirl/parent/kid@r\nwhirl/promoted@s1\nwhirl/promoted@s2\nwhirl/vol@v\n"
    );
    place.ok("zpool export whirl");
}
