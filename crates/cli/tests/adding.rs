//! `zpool add` in its forms, on real pools on files, by the real commands and the real daemon, judged by `zdb`.
#![forbid(unsafe_code)]

mod place;

use oracle::zdb::Zdb;
use place::Place;

const HEAD: &str = "invalid vdev specification\nuse '-f' to override the following errors:\n";

fn world() -> Place {
    let place = Place::with_files();
    ["s1", "s2", "s3", "s4"].iter().for_each(|name| place.file(name, 64));
    place.ok("zpool create -m none tank mirror W/d1 W/d2");
    place.ok("zpool create -m none gone W/l1");
    place.ok("zpool export gone");
    place
}

/// Refused without changing anything, in these words.
fn refused(place: &Place, line: &str, words: &str) {
    let before = place.ok("zpool list -vHo name tank");
    let printed = place.run(line);
    assert_eq!((printed.err.as_str(), printed.out.as_str(), printed.code), (words, "", 1), "{line}");
    assert_eq!(place.ok("zpool list -vHo name tank"), before, "{line}");
}

#[test]
fn each_permission_allows_what_it_is_called_and_nothing_else() {
    let place = world();
    let in_use = format!("{HEAD}W/l1 is part of exported pool 'gone'\n");
    let mixed = format!("{HEAD}mismatched replication level: pool uses mirror and new vdev is file\n");
    let sectors =
        "cannot add to 'tank': adding devices with different physical sector sizes is not allowed\n";
    refused(&place, "zpool add tank log W/l1", &in_use);
    refused(&place, "zpool add --allow-replication-mismatch --allow-ashift-mismatch tank log W/l1", &in_use);
    refused(&place, "zpool add tank W/s1", &mixed);
    refused(&place, "zpool add --allow-in-use --allow-ashift-mismatch tank W/s1", &mixed);
    refused(&place, "zpool add -o ashift=13 tank mirror W/s1 W/s2", sectors);
    let others = "--allow-in-use --allow-replication-mismatch";
    refused(&place, &format!("zpool add {others} -o ashift=13 tank mirror W/s1 W/s2"), sectors);

    place.ok("zpool add --allow-in-use tank log W/l1");
    place.ok("zpool add --allow-replication-mismatch tank W/s3");
    place.ok("zpool add --allow-ashift-mismatch -o ashift=13 tank mirror W/s1 W/s2");
    let rows = place.ok("zpool list -vHo name tank");
    for device in ["W/l1", "W/s1", "W/s2", "W/s3"] {
        assert!(rows.contains(device), "{device}: {rows}");
    }
    place.ok("zpool export tank");
    let zdb = Zdb::new(place.directory.path(), "tank");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
    let config = zdb.run(&["-C"], &[]).unwrap_or_else(|error| panic!("{error}"));
    assert!(config.contains("ashift: 13"), "{config}");
}

#[test]
fn a_dry_run_is_refused_where_the_change_is_and_names_vdevs_as_asked() {
    let place = world();
    refused(&place, "zpool add -n tank log W/l1", &format!("{HEAD}W/l1 is part of exported pool 'gone'\n"));
    let would = "would update 'tank' to the following configuration:\n\n";
    let plain = place.ok("zpool add -n --allow-in-use tank log W/l1");
    assert_eq!(plain, format!("{would}\ttank\n\t  mirror-0\n\t    W/d1\n\t    W/d2\n\tlogs\n\t  W/l1\n"));
    for flag in ["-P", "-L"] {
        assert_eq!(
            place.ok(&format!("zpool add -n {flag} --allow-in-use tank log W/l1")),
            plain,
            "files have one name"
        );
    }
    let guids = place.ok("zpool add -ng --allow-in-use tank log W/l1");
    let of_status = place.ok("zpool status -g tank");
    let shown = guids.lines().filter_map(|line| line.trim().parse::<u64>().ok()).collect::<Vec<_>>();
    assert_eq!(shown.len(), 3, "{guids}");
    assert!(shown.iter().all(|guid| of_status.contains(&guid.to_string())), "{guids}");
    assert!(!place.ok("zpool status tank").contains("logs"));
    refused(&place, "zpool create -n other W/l1", &format!("{HEAD}W/l1 is part of exported pool 'gone'\n"));
    let would = place.ok("zpool create -nf other W/l1");
    assert_eq!(would, "would create 'other' with the following layout:\n\n\tother\n\t  W/l1\n");
    assert!(!place.ok("zpool list -Ho name").contains("other"));
}
