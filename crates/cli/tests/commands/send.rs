//! `zfs send` and `zfs receive`: what is refused, what is told, and what goes through the socket.

use crate::world::World;

/// A world with `p1/a`@1 to @3 and `#1`, and `p1/c`, a clone of p1/a@2, with `p1/c@4`.
fn with_snapshots() -> World {
    let world = World::new();
    world.file("d1", 160);
    for line in [
        "zpool create -m none p1 W/d1",
        "zfs create p1/a",
        "zfs snapshot p1/a@1",
        "zfs snapshot p1/a@2",
        "zfs snapshot p1/a@3",
        "zfs bookmark p1/a@1 #1",
        "zfs clone p1/a@2 p1/c",
        "zfs snapshot p1/c@4",
    ] {
        world.ok(line);
    }
    world
}

#[test]
fn a_stream_is_what_the_daemon_writes_and_nothing_else() {
    let world = with_snapshots();
    for (line, want) in [
        ("zfs send p1/a@2", "p1/a@2\n"),
        ("zfs send -Lec -i @1 p1/a@3", "p1/a@3\n"),
        ("zfs send -i #1 p1/a@3", "p1/a@3\n"),
        ("zfs send -I p1/a@1 p1/a@3", "p1/a@2\np1/a@3\n"),
        ("zfs send -i p1/a@1 p1/c@4", "p1/c@4\n"),
        ("zfs send -n p1/a@2", ""),
        (
            "zfs send -nv -I 1 p1/a@3",
            "send from @1 to p1/a@2 estimated size is 7B\nsend from @2 to p1/a@3 estimated size is 7B\n\
             total estimated size is 14B\n",
        ),
        ("zfs send -nP p1/a@2", "full\tp1/a@2\t7\nsize\t7\n"),
    ] {
        assert_eq!(world.ok(line), want, "{line}");
    }
    let told = world.run("zfs send -v p1/a@2");
    assert_eq!((told.out.as_str(), told.code), ("p1/a@2\n", 0));
    let want = "full send of p1/a@2 estimated size is 7B\ntotal estimated size is 7B\n\
                TIME        SENT   SNAPSHOT p1/a@2\n";
    assert_eq!(told.err, want);
}

/// What came before is there, and nobody can take it for the whole.
#[test]
fn a_stream_that_breaks_off_is_a_failure() {
    let world = with_snapshots();
    world.ok("zfs snapshot p1/a@broken");
    let broken = world.run("zfs send p1/a@broken");
    let want = "warning: cannot send 'p1/a@broken': Input/output error\n";
    assert_eq!((broken.out.as_str(), broken.err.as_str(), broken.code), ("p1/a@broken\n", want, 1));
}

#[test]
fn what_cannot_be_sent_is_refused_with_its_reason() {
    let world = with_snapshots();
    for (line, code, want) in [
        ("zfs send p1/a@9", 1, "cannot open 'p1/a@9': dataset does not exist"),
        ("zfs send -i @9 p1/a@2", 1, "cannot open 'p1/a@9': dataset does not exist"),
        (
            "zfs send -i @3 p1/a@2",
            1,
            "warning: cannot send 'p1/a@2': not an earlier snapshot from the same fs",
        ),
        (
            "zfs send -i #9 p1/a@2",
            1,
            "warning: cannot send 'p1/a@2': incremental source (p1/a#9) does not exist",
        ),
        ("zfs send -I #1 p1/a@2", 1, "Error: multiple snapshots cannot be sent from a bookmark."),
        ("zfs send -I @1 p1/a", 1, "Error: Unsupported flag with filesystem or bookmark."),
        ("zfs send -R p1/a", 1, "Error: Unsupported flag with filesystem or bookmark."),
        ("zfs send -X p1/a/b p1/a@2", 1, "Cannot specify dataset exclusion (-X) on a non-recursive send."),
        (
            "zfs send -t 1-2-3-zz",
            1,
            "cannot resume send: resume token is corrupt (payload is not hex-encoded)",
        ),
        ("zfs receive -A p1/a", 1, "'p1/a' does not have any resumable receive state to abort"),
    ] {
        assert_eq!(world.fails(line, code), format!("{want}\n"), "{line}");
    }
    for (line, want) in [
        ("zfs send", "missing snapshot argument\n"),
        ("zfs send p1/a@1 p1/a@2", "too many arguments\n"),
        ("zfs send -i @1 -I @1 p1/a@2", ""),
        ("zfs send -R -t 1-2-3-4", "invalid flags combined with -t\n"),
        ("zfs send -t 1-2-3-4 p1/a@2", "too many arguments\n"),
        ("zfs send -s p1/a@2", "skip-missing flag can only be used in conjunction with replicate\n"),
    ] {
        let err = world.fails(line, 2);
        let (reason, _) = err.split_once("usage:\n\t").expect("a usage line");
        assert_eq!(reason, want, "{line}");
    }
}

#[test]
fn a_stream_of_any_length_reaches_the_daemon_and_a_refusal_ends_it_early() {
    let world = with_snapshots();
    let many: String = (0..40_000).map(|number| format!("tank/x@{number}\n")).collect();
    let (out, err, code) = world.fed("zfs receive -nv p1/a", many.as_bytes());
    assert_eq!((out.lines().count(), err.as_str(), code), (40_000, "", 0));
    let broken = format!("tank/x@new\ntank/x@broken\n{}", many.repeat(20));
    let (out, err, code) = world.fed("zfs receive -v p1/a", broken.as_bytes());
    let want = "cannot receive new filesystem stream: checksum mismatch\n";
    assert_eq!((out.as_str(), err.as_str(), code), ("", want, 1));
    for (line, want) in [
        ("zfs receive", "missing snapshot argument\n"),
        ("zfs receive p1/a p1/c", "too many arguments\n"),
        ("zfs receive -As p1/a", "invalid option\n"),
        ("zfs receive -de p1/a", "invalid option combination: -d and -e options are mutually exclusive\n"),
    ] {
        let err = world.fails(line, 2);
        assert_eq!(err.split_once("usage:\n\t").expect("a usage line").0, want, "{line}");
    }
}
