//! The verbs of snapshots, clones, holds and bookmarks, and the words and codes of OpenZFS's.

use crate::world::World;

/// A world with `p1`, `p1/a` and `p1/a/b`, all with @1 to @3 (`p1/a/b` without @1), and `p1/c`, a clone of p1/a@2.
fn with_snapshots() -> World {
    let world = World::new();
    world.file("d1", 160);
    world.ok("zpool create -m none p1 W/d1");
    world.ok("zfs create p1/a");
    world.ok("zfs snapshot -r p1@1");
    world.ok("zfs create p1/a/b");
    world.ok("zfs snap -r p1@2");
    world.ok("zfs snapshot p1@3 p1/a@3 p1/a/b@3");
    world.ok("zfs clone p1/a@2 p1/c");
    world
}

fn refuses(world: &World, lines: &[(&str, u8, &str)]) {
    for (line, code, want) in lines {
        assert_eq!(world.fails(line, i32::from(*code)), format!("{want}\n"), "{line}");
    }
}

/// The reason before the usage line.
fn misused(world: &World, lines: &[(&str, &str)]) {
    for (line, want) in lines {
        let err = world.fails(line, 2);
        let (reason, _) = err.split_once("usage:\n\t").expect("a usage line");
        let want = if want.is_empty() { String::new() } else { format!("{want}\n") };
        assert_eq!(reason, want, "{line}");
    }
}

#[test]
fn snapshots_are_made_together_or_not_at_all() {
    let world = with_snapshots();
    world.ok("zfs snapshot -o com.example:why=x p1/a@4");
    assert_eq!(world.ok("zfs get -Ho value com.example:why p1/a@4"), "x\n");
    refuses(
        &world,
        &[
            ("zfs snapshot p1/a@1", 1, "cannot create snapshot 'p1/a@1': dataset already exists"),
            (
                "zfs snapshot p1/a@1 p1/c@1 p1@1",
                1,
                "cannot create snapshot 'p1/a@1': dataset already exists\n\
             cannot create snapshot 'p1@1': dataset already exists\nno snapshots were created",
            ),
            (
                "zfs snapshot -r p1/a@4",
                1,
                "cannot create snapshot 'p1/a@4': dataset already exists\nno snapshots were created",
            ),
            (
                "zfs snapshot p1@x p1@y",
                1,
                "cannot create snapshots : multiple snapshots of same fs not allowed\nno snapshots were created",
            ),
            (
                "zfs snapshot p1@",
                1,
                "cannot create snapshot 'p1@': empty component or misplaced '@' or '#' delimiter in name",
            ),
            (
                "zfs snapshot p1@a@b",
                1,
                "cannot create snapshot 'p1@a@b': multiple '@' and/or '#' delimiters in name",
            ),
            ("zfs snapshot p1@a%", 1, "cannot create snapshot 'p1@a%': invalid character % in name"),
            ("zfs snapshot p1@a!", 1, "cannot create snapshot 'p1@a!': invalid character '!' in name"),
            (
                "zfs snapshot -o compression=on p1@x",
                1,
                "cannot create snapshots : this property can not be modified for snapshots",
            ),
            ("zfs snapshot -o a:b p1@x", 1, "missing '=' for property=value argument"),
            ("zfs snapshot -o a:b=1 -o a:b=2 p1@x", 1, "property 'a:b' specified multiple times"),
        ],
    );
    let long = "x".repeat(253);
    refuses(
        &world,
        &[(
            &format!("zfs snapshot p1@{long}"),
            1,
            &format!("cannot create snapshot 'p1@{long}': name is too long"),
        )],
    );
    misused(
        &world,
        &[
            ("zfs snapshot", "missing snapshot argument"),
            ("zfs snapshot p1", ""),
            ("zfs snapshot nope@a", "cannot open 'nope': dataset does not exist"),
            ("zfs snapshot p1#a@b", "cannot open 'p1#a': bookmark delimiter '#' is not expected here"),
            ("zfs snapshot -x p1@a", "invalid option 'x'"),
        ],
    );
    assert_eq!(world.ok("zfs list -Ho name -t snapshot p1/c"), "");
}

#[test]
fn snapshots_are_listed_by_age_behind_their_dataset() {
    let world = with_snapshots();
    world.ok("zfs snapshot p1/a@0");
    world.ok("zfs bookmark p1/a@1 #m");
    assert_eq!(world.ok("zfs list -Ho name"), "p1\np1/a\np1/a/b\np1/c\n");
    let own = "p1/a@1\np1/a@2\np1/a@3\np1/a@0\n";
    for line in ["-t snapshot p1/a", "-t snap p1/a", "-d 1 -t snapshot p1/a", "-s createtxg -t snap p1/a"] {
        assert_eq!(world.ok(&format!("zfs list -Ho name {line}")), own, "{line}");
    }
    assert_eq!(
        world.ok("zfs list -Ho name -rt filesystem,snapshot p1/a"),
        "p1/a\np1/a@1\np1/a@2\np1/a@3\np1/a@0\np1/a/b\np1/a/b@2\np1/a/b@3\n"
    );
    assert_eq!(world.ok("zfs list -Ho name -d 1 -t all p1/a"), format!("p1/a\n{own}p1/a#m\np1/a/b\n"));
    assert_eq!(world.ok("zfs list -Ho name -t bookmark"), "p1/a#m\n");
    assert_eq!(world.ok("zfs list -Ho name -t snapshot -S name p1/a/b"), "p1/a/b@3\np1/a/b@2\n");
    assert_eq!(world.ok("zfs list -Ho name -d 0 -t all"), "p1\n");
    assert_eq!(
        world.ok("zfs list p1/a@2"),
        "NAME     USED  AVAIL  REFER  MOUNTPOINT\np1/a@2    96K      -    24K  -\n"
    );
    assert_eq!(
        world.ok("zfs list -t bookmark p1/a"),
        "NAME     USED  AVAIL  REFER  MOUNTPOINT\np1/a#m      -      -      -  -\n"
    );
    let nothing = world.run("zfs list -t snapshot p1/c");
    assert_eq!(
        (nothing.out.as_str(), nothing.err.as_str(), nothing.code),
        ("", "no datasets available\n", 0)
    );
    assert!(world.ok("zfs list -j -o name p1/a@2").contains(r#""createtxg":"#));
    assert!(world.ok("zfs list -j -o name p1/a@2").contains(r#""dataset":"p1/a","snapshot_name":"2""#));
    refuses(
        &world,
        &[
            ("zfs list p1/a@9", 1, "cannot open 'p1/a@9': dataset does not exist"),
            ("zfs list p1/a#m", 1, "cannot open 'p1/a#m': bookmark delimiter '#' is not expected here"),
            ("zfs list -t bookmark p1/a#n", 1, "cannot open 'p1/a#n': no such pool or dataset"),
            ("zfs list -t fs p1/a@2", 1, "cannot open 'p1/a@2': snapshot delimiter '@' is not expected here"),
            (
                "zfs list -t vol p1/a",
                1,
                "cannot open 'p1/a': operation not applicable to datasets of this type",
            ),
        ],
    );
}

#[test]
fn snapshots_and_bookmarks_have_properties() {
    let world = with_snapshots();
    world.ok("zfs bookmark p1/a@1 p1/a#m");
    assert_eq!(
        world.ok("zfs get -H all p1/a#m"),
        "p1/a#m\ttype\tbookmark\t-\np1/a#m\tcreation\tSat Nov 21 18:55 2026\t-\n"
    );
    assert_eq!(world.ok("zfs get -H type,used p1/a@1"), "p1/a@1\ttype\tsnapshot\t-\np1/a@1\tused\t96K\t-\n");
    assert_eq!(world.ok("zfs get -t bookmark -Ho name,value type p1/a"), "p1/a#m\tbookmark\n");
    assert_eq!(world.ok("zfs get -r -Ho name type p1/a/b"), "p1/a/b\np1/a/b@2\np1/a/b@3\n");
}

#[test]
fn ranges_and_lists_of_snapshots_go_and_are_told_before() {
    let world = with_snapshots();
    world.ok("zfs destroy -r p1/c");
    assert_eq!(
        world.ok("zfs destroy -nv p1/a@1%2"),
        "would destroy p1/a@1\nwould destroy p1/a@2\nwould reclaim 1.50K\n"
    );
    assert_eq!(world.ok("zfs destroy -np p1/a@3,1,x"), "destroy\tp1/a@1\ndestroy\tp1/a@3\nreclaim\t3072\n");
    assert_eq!(world.ok("zfs destroy -n p1/a@%"), "");
    assert_eq!(
        world.ok("zfs destroy -rv p1/a@%2"),
        "will destroy p1/a@1\nwill destroy p1/a@2\nwill destroy p1/a/b@2\nwill reclaim 3K\n"
    );
    assert_eq!(world.ok("zfs list -Ho name -rt snapshot p1/a"), "p1/a@3\np1/a/b@3\n");
    world.ok("zfs destroy p1@2%,1");
    assert_eq!(world.ok("zfs list -Ho name -t snapshot"), "p1/a@3\np1/a/b@3\n");
    refuses(
        &world,
        &[
            ("zfs destroy p1/a@9", 1, "could not find any snapshots to destroy; check snapshot names."),
            ("zfs destroy p1/a@", 1, "could not find any snapshots to destroy; check snapshot names."),
            ("zfs destroy p1/x@1", 1, "cannot open 'p1/x': dataset does not exist"),
            ("zfs destroy -d p1/a", 1, "cannot open 'p1/a': missing '@' delimiter in snapshot name"),
        ],
    );
    misused(
        &world,
        &[("zfs destroy", "missing dataset argument"), ("zfs destroy p1@1 p1@2", "too many arguments")],
    );
}

#[test]
fn clones_hinder_what_they_are_of() {
    let world = with_snapshots();
    world.ok("zfs create p1/c/d");
    world.ok("zfs snapshot p1/c@s");
    let snapshot = "cannot destroy 'p1/a@2': snapshot has dependent clones\n\
                    use '-R' to destroy the following datasets:\np1/c/d\np1/c@s\np1/c";
    refuses(
        &world,
        &[
            ("zfs destroy p1/a@2", 1, snapshot),
            ("zfs destroy -r p1/a@%", 1, snapshot),
            (
                "zfs destroy -r p1/a",
                1,
                "cannot destroy 'p1/a': filesystem has dependent clones\n\
             use '-R' to destroy the following datasets:\np1/c/d\np1/c@s\np1/c",
            ),
            (
                "zfs destroy p1/a/b",
                1,
                "cannot destroy 'p1/a/b': filesystem has children\n\
             use '-r' to destroy the following datasets:\np1/a/b@2\np1/a/b@3",
            ),
        ],
    );
    assert_eq!(
        world.ok("zfs destroy -Rnv p1/a"),
        "would destroy p1/a/b@2\nwould destroy p1/a/b@3\nwould destroy p1/a/b\nwould destroy p1/a@1\n\
         would destroy p1/c/d\nwould destroy p1/c@s\nwould destroy p1/c\nwould destroy p1/a@2\n\
         would destroy p1/a@3\nwould destroy p1/a\n"
    );
    assert_eq!(
        world.ok("zfs destroy -Rnv p1/a@2"),
        "would destroy p1/a@2\nwould destroy p1/a/b@2\nwould reclaim 3K\n"
    );
    assert_eq!(
        world.ok("zfs destroy -Rp p1/a@2"),
        "destroy\tp1/a@2\ndestroy\tp1/a/b@2\nreclaim\t3072\n\
         destroy\tp1/c/d\ndestroy\tp1/c@s\ndestroy\tp1/c\n"
    );
    assert_eq!(world.ok("zfs list -Hro name p1"), "p1\np1/a\np1/a/b\n");
    world.ok("zfs destroy -r p1/a");
    assert_eq!(world.ok("zfs list -Ho name"), "p1\n");
}

#[test]
fn a_rollback_takes_what_is_newer_only_when_asked() {
    let world = with_snapshots();
    world.ok("zfs bookmark p1/a@3 p1/a#m");
    refuses(
        &world,
        &[
            (
                "zfs rollback p1/a@1",
                1,
                "cannot rollback to 'p1/a@1': more recent snapshots or bookmarks exist\n\
             use '-r' to force deletion of the following snapshots and bookmarks:\np1/a@2\np1/a@3\np1/a#m",
            ),
            (
                "zfs rollback -r p1/a@1",
                1,
                "cannot rollback to 'p1/a@1': clones of previous snapshots exist\n\
             use '-R' to force deletion of the following clones and dependents:\np1/c",
            ),
            ("zfs rollback p1/a", 1, "cannot open 'p1/a': missing '@' delimiter in snapshot name"),
            ("zfs rollback p1/a@9", 1, "cannot open 'p1/a@9': dataset does not exist"),
        ],
    );
    misused(
        &world,
        &[("zfs rollback", "missing dataset argument"), ("zfs rollback p1@1 p1@2", "too many arguments")],
    );
    assert_eq!(world.ok("zfs rollback p1/a@3"), "");
    world.ok("zfs rollback -R p1/a@1");
    assert_eq!(world.ok("zfs list -Ho name -d 1 -t all p1/a"), "p1/a\np1/a@1\np1/a/b\n");
    assert_eq!(world.ok("zfs list -Ho name"), "p1\np1/a\np1/a/b\n");
    for number in 10..42 {
        world.ok(&format!("zfs snapshot p1/a@{number}"));
    }
    let err = world.fails("zfs rollback p1/a@1", 255);
    assert!(err.ends_with("\np1/a@41\nOutput limited to 32 snapshots/bookmarks\n"), "{err}");
}

#[test]
fn clones_are_made_and_promoted() {
    let world = with_snapshots();
    world.ok("zfs clone -o sync=always p1/a/b@2 p1/d");
    assert_eq!(world.ok("zfs get -Ho value sync,origin p1/d"), "always\np1/a/b@2\n");
    world.ok("zfs clone -p p1/a/b@2 p1/d");
    refuses(
        &world,
        &[
            ("zfs clone p1/a@1 p1/d", 1, "cannot create 'p1/d': dataset already exists"),
            ("zfs clone p1/a@1 p1/x/y", 1, "cannot create 'p1/x/y': parent does not exist"),
            ("zfs clone p1/a@1 p2/y", 1, "cannot create 'p2/y': source and target pools differ"),
            ("zfs clone p1/a@9 p1/e", 1, "cannot open 'p1/a@9': dataset does not exist"),
            ("zfs clone p1/a p1/e", 1, "cannot open 'p1/a': missing '@' delimiter in snapshot name"),
            ("zfs clone -o sync p1/a@1 p1/e", 1, "missing '=' for property=value argument"),
            ("zfs promote p1/a", 1, "cannot promote 'p1/a': not a cloned filesystem"),
            ("zfs promote p1/x", 1, "cannot open 'p1/x': dataset does not exist"),
            ("zfs promote p1/a@1", 1, "cannot open 'p1/a@1': snapshot delimiter '@' is not expected here"),
        ],
    );
    misused(
        &world,
        &[
            ("zfs clone", "missing source dataset argument"),
            ("zfs clone p1/a@1", "missing target dataset argument"),
            ("zfs clone p1/a@1 p1/e p1/f", "too many arguments"),
            ("zfs promote", "missing clone filesystem argument"),
            ("zfs promote p1/c p1/d", "too many arguments"),
        ],
    );
    world.ok("zfs snapshot p1/c@1");
    refuses(
        &world,
        &[("zfs promote p1/c", 1, "cannot promote 'p1/c': conflicting snapshot '1' from parent 'p1/a@2'")],
    );
    assert_eq!(world.ok("zfs promote p1/d"), "");
}

#[test]
fn snapshots_get_other_names() {
    let world = with_snapshots();
    world.ok("zfs rename p1/a@1 one");
    world.ok("zfs rename -r p1/a@2 @two");
    world.ok("zfs rename p1/a@3 p1/a@three");
    assert_eq!(
        world.ok("zfs list -Ho name -rt snapshot p1/a"),
        "p1/a@one\np1/a@two\np1/a@three\np1/a/b@two\np1/a/b@3\n"
    );
    refuses(
        &world,
        &[
            (
                "zfs rename p1/a@one p1/c@x",
                1,
                "cannot rename to 'p1/c@x': snapshots must be part of same dataset",
            ),
            ("zfs rename p1/a@one two", 1, "cannot rename 'p1/a@one': dataset already exists"),
            (
                "zfs rename -r p1/a@two 3",
                1,
                "cannot rename 'p1/a@two': a child dataset already has a snapshot with the new name",
            ),
            ("zfs rename p1/a@9 x", 1, "cannot open 'p1/a@9': dataset does not exist"),
            ("zfs rename p1/a@one a/b", 1, "cannot rename to 'a/b': trailing slash in name"),
            (
                "zfs rename -u p1/a@one x",
                1,
                "cannot open 'p1/a@one': snapshot delimiter '@' is not expected here",
            ),
        ],
    );
    misused(
        &world,
        &[
            ("zfs rename -r p1/a p1/x", "source dataset for recursive rename must be a snapshot"),
            ("zfs rename -rp p1/a@one x", "-p and -r options are mutually exclusive"),
        ],
    );
}

#[test]
fn holds_keep_snapshots_and_are_shown() {
    let world = with_snapshots();
    world.ok("zfs hold keep p1/a@1 p1@3");
    world.ok("zfs hold -r a-longer-one p1/a@2");
    let busy = "cannot destroy snapshot p1/a@1: dataset is busy";
    refuses(
        &world,
        &[
            ("zfs destroy p1/a@1", 1, busy),
            ("zfs hold keep p1/a@1", 1, "cannot hold snapshot 'p1/a@1': tag already exists on this dataset"),
            ("zfs hold keep p1/a@9", 1, "cannot hold snapshot 'p1/a@9': dataset does not exist"),
            ("zfs hold keep p1/x@1", 1, "cannot open 'p1/x': dataset does not exist"),
            ("zfs hold keep p1/a", 1, "'p1/a' is not a snapshot"),
            (
                "zfs release x p1/a@1",
                1,
                "cannot release hold from snapshot 'p1/a@1': no such tag on this dataset",
            ),
            (
                "zfs release keep p1/a@9",
                1,
                "cannot release hold from snapshot 'p1/a@9': dataset does not exist",
            ),
        ],
    );
    let long = "x".repeat(256);
    refuses(
        &world,
        &[(&format!("zfs hold {long} p1/a@1"), 1, "cannot hold snapshot 'p1/a@1': tag too long")],
    );
    misused(
        &world,
        &[
            ("zfs hold", ""),
            ("zfs hold keep", ""),
            ("zfs hold .keep p1@1", "tag may not start with '.'"),
            ("zfs release keep", ""),
            ("zfs holds", ""),
        ],
    );
    assert_eq!(
        world.ok("zfs holds p1/a@2 p1/a@1"),
        "NAME    TAG           TIMESTAMP\np1/a@2  a-longer-one  Sat Nov 21 18:55 2026\n\
         p1/a@1  keep          Sat Nov 21 18:55 2026\n"
    );
    assert_eq!(world.ok("zfs holds -Hp p1/a@1"), "p1/a@1\tkeep\t1795287300\n");
    assert_eq!(
        world.ok("zfs holds -rH p1@2"),
        "p1/a@2\ta-longer-one\tSat Nov 21 18:55 2026\np1/a/b@2\ta-longer-one\tSat Nov 21 18:55 2026\n"
    );
    assert_eq!(world.ok("zfs holds p1@1"), "NAME  TAG  TIMESTAMP\n");
    let none = world.run("zfs holds -r p1@9");
    assert_eq!(
        (none.out.as_str(), none.err.as_str(), none.code),
        ("NAME  TAG  TIMESTAMP\n", "no datasets available\n", 0)
    );
    let gone = world.run("zfs holds -H p1/a p1/a@1 p1@9");
    assert_eq!(gone.out, "p1/a@1\tkeep\tSat Nov 21 18:55 2026\n");
    assert_eq!(gone.err, "'p1/a' is not a snapshot\ncannot open 'p1@9': dataset does not exist\n");
    assert_eq!(gone.code, 1);
    world.ok("zfs release keep p1/a@1");
    world.ok("zfs release -r a-longer-one p1@2");
    world.ok("zfs destroy p1/a@1");
}

#[test]
fn bookmarks_come_and_go() {
    let world = with_snapshots();
    world.ok("zfs bookmark p1/a@1 p1/a#m");
    world.ok("zfs bookmark p1/a#m #n");
    world.ok("zfs bookmark @2 p1/a#o");
    world.ok("zfs bookmark p1/a@2 p1/c#m");
    assert_eq!(world.ok("zfs list -Ho name -t bookmark"), "p1/a#m\np1/a#n\np1/a#o\np1/c#m\n");
    let cannot = |reason: &str| format!("cannot create bookmark 'p1/c#x': {reason}");
    refuses(
        &world,
        &[
            (
                "zfs bookmark p1/a@3 p1/c#x",
                1,
                &cannot("source is not an ancestor of the new bookmark's dataset"),
            ),
            ("zfs bookmark p1/a@1 p1/a#m", 1, "cannot create bookmark 'p1/a#m': bookmark exists"),
            (
                "zfs bookmark p1/a@1 p2/a#m",
                1,
                "cannot create bookmark 'p2/a#m': bookmark is in a different pool",
            ),
            ("zfs bookmark p1/a@1 p1/x#m", 1, "cannot create bookmark 'p1/x#m': dataset does not exist"),
            ("zfs bookmark p1/a@1 p1/a#!", 1, "cannot create bookmark 'p1/a#!': invalid argument"),
            ("zfs destroy p1/a#x", 1, "bookmark 'p1/a#x' does not exist."),
            ("zfs destroy -n p1/a#m", 255, "dryrun is not supported with bookmark"),
            ("zfs destroy -d p1/a#m", 255, "defer destroy is not supported with bookmark"),
            ("zfs destroy -r p1/a#m", 255, "recursive is not supported with bookmark"),
        ],
    );
    misused(
        &world,
        &[
            ("zfs bookmark", "missing source argument"),
            ("zfs bookmark p1/a@1", "missing bookmark argument"),
            ("zfs bookmark p1/a p1/a#m", "invalid source name 'p1/a': must contain a '@' or '#'"),
            ("zfs bookmark p1/a@1 p1/a@m", "invalid bookmark name 'p1/a@m': must contain a '#'"),
            ("zfs bookmark @1 #m", "either source or bookmark must be specified as full dataset paths"),
            ("zfs bookmark p1/a@9 #m", "cannot open 'p1/a@9': dataset does not exist"),
            ("zfs bookmark p1/a#x #y", "cannot open 'p1/a#x': no such pool or dataset"),
        ],
    );
    assert_eq!(world.ok("zfs destroy p1/a#m"), "");
    assert_eq!(world.ok("zfs list -Ho name -t bookmark p1/a"), "p1/a#n\np1/a#o\n");
}
