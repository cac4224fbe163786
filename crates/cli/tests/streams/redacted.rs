//! Streams without what some clones have changed.

use crate::place::Place;
use crate::{fed, refuses, takes, written};
use ondisk::send::DrrBody;
use oracle::needs::{Need, lack_of_fuse};
use oracle::zdb::Zdb;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

const BLOCK: usize = 128 << 10;

/// Bytes that are found again nowhere else.
fn noise(seed: u64, blocks: usize) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let words = (0..blocks * BLOCK / 8).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).to_le_bytes()
    });
    words.flatten().collect()
}

fn overwrite(path: &Path, block: usize, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(path).expect("there");
    file.seek(SeekFrom::Start((block * BLOCK) as u64)).and_then(|_| file.write_all(bytes)).expect("written");
}

/// Bodies of a stream's records.
fn bodies(stream: &[u8]) -> Vec<DrrBody> {
    crate::said(stream).into_iter().map(|(body, _)| body).collect()
}

fn has(stream: &[u8], bytes: &[u8]) -> bool {
    stream.windows(bytes.len()).any(|window| window == bytes)
}

/// `p/fs@s` with `secret` of 8 blocks and `public`, and a clone `p/c` that has changed two blocks of the one; `p/d`, that has
/// changed three, of which they share one.
fn prepared() -> Option<Place> {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return None;
    }
    let place = Place::new();
    ["d1", "d2"].iter().for_each(|name| place.file(name, 256));
    place.ok("zpool create -O compression=off -m W/p p W/d1");
    place.ok("zpool create -m W/q q W/d2");
    place.ok("zfs create p/fs");
    fs::write(place.path("p/fs/secret"), noise(1, 8)).expect("written");
    fs::write(place.path("p/fs/public"), noise(2, 4)).expect("written");
    fs::write(place.path("p/fs/gone"), noise(3, 2)).expect("written");
    place.ok("zfs snapshot p/fs@s");
    place.ok("zfs clone p/fs@s p/c");
    overwrite(&place.path("p/c/secret"), 2, &noise(4, 2));
    fs::remove_file(place.path("p/c/gone")).expect("there");
    place.ok("zfs snapshot p/c@r");
    place.ok("zfs clone p/fs@s p/d");
    overwrite(&place.path("p/d/secret"), 3, &noise(5, 3));
    place.ok("zfs snapshot p/d@r");
    Some(place)
}

/// Bytes by object that a stream leaves out, in blocks.
fn left_out(stream: &[u8]) -> Vec<(u64, u64)> {
    let of = |body: &DrrBody| match body {
        DrrBody::Redact(redact) => {
            Some((redact.offset.get() / BLOCK as u64, redact.length.get() / BLOCK as u64))
        }
        _ => None,
    };
    bodies(stream).iter().filter_map(of).collect()
}

#[test]
fn what_is_redacted_is_not_in_the_stream() {
    let Some(place) = prepared() else { return };
    place.ok("zfs redact p/fs@s book p/c@r");
    place.ok("zfs redact p/fs@s both p/c@r p/d@r");
    let stream = written(&place, "zfs send --redact book p/fs@s");
    let (secret, public) = (noise(1, 8), noise(2, 4));
    let block = |at: usize| &secret[at * BLOCK..][..64];
    assert!(!has(&stream, block(2)) && !has(&stream, block(3)), "what the clone has changed");
    assert!(has(&stream, block(1)) && has(&stream, block(4)) && has(&stream, &public[..64]));
    assert!(!has(&stream, &noise(3, 2)[..64]), "what the clone has removed");
    assert_eq!(left_out(&stream), [(2, 2), (0, 2)]);
    assert!(place.ok("zfs send -nP --redact book p/fs@s").ends_with(&format!("size\t{}\n", stream.len())));
    // What only one of two has changed the other may know.
    let stream = written(&place, "zfs send -d p/fs#both p/fs@s");
    assert_eq!(left_out(&stream), [(3, 1)]);
    assert_eq!(
        place.ok("zfs get -Ho value redact_snaps p/fs#book"),
        place.ok("zfs get -Hpo value guid p/c@r")
    );
    assert_eq!(place.ok("zfs get -Ho value redact_snaps p/fs"), "-\n");
    place.ok("zpool export p");
    // zdb 2.3.2 shows a redaction bookmark, and hangs when it is to show all objects of a pool with one.
    let zdb = Zdb::new(place.directory.path(), "p");
    zdb.check_blocks().unwrap_or_else(|damage| panic!("{damage}"));
    let said = Zdb::new(place.directory.path(), "p/fs#book").run(&[], &[]);
    let said = said.unwrap_or_else(|damage| panic!("{damage}"));
    assert!(said.contains("Progress: complete") && said.contains("Length: 2\n"), "{said}");
    place.ok("zpool import -N -d W/ p");
    place.ok("zfs destroy p/fs#book");
    place.ok("zfs destroy p/fs#both");
    place.ok("zpool export p");
    zdb.check().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn a_redacted_dataset_is_not_mounted_and_takes_only_what_makes_it_good() {
    let Some(place) = prepared() else { return };
    place.ok("zfs redact p/fs@s book p/c@r");
    let stream = written(&place, "zfs send --redact book p/fs@s");
    takes(&place, "zfs receive q/fs", &stream);
    let guid = place.ok("zfs get -Hpo value guid p/c@r");
    for name in ["q/fs", "q/fs@s"] {
        assert_eq!(
            place.ok(&format!("zfs get -Ho value,source redact_snaps {name}")),
            guid.replace('\n', "\t-\n")
        );
    }
    assert_eq!(place.ok("zfs get -Ho value mounted q/fs"), "no\n");
    let refused = place.run("zfs mount q/fs");
    let words = "cannot mount 'q/fs': Dataset is not complete, was created by receiving a redacted zfs send stream.\n";
    assert_eq!((refused.err.as_str(), refused.code), (words, 1));
    place.ok("zfs mount -a");
    assert_eq!(place.ok("zfs get -Ho value mounted q/fs"), "no\n");
    place.ok("zfs mount -f q/fs");
    let mut secret = noise(1, 8);
    secret[2 * BLOCK..4 * BLOCK].fill(0);
    assert!(fs::read(place.path("q/fs/secret")).expect("there") == secret, "what is lacking reads as zeros");
    place.ok("zfs unmount q/fs");
    // Nobody redacts what is redacted.
    place.ok("zfs clone q/fs@s q/c");
    assert_eq!(place.ok("zfs get -Hpo value redact_snaps q/c"), guid);
    place.ok("zfs snapshot q/c@r");
    let refused = place.run("zfs redact q/fs@s book q/c@r");
    let words = "attempted to redact redacted dataset or with respect to redacted dataset\n";
    assert_eq!((refused.err.as_str(), refused.code), (words, 114));
    place.ok("zfs destroy -r q/c");

    // The clone has changed all that is lacking, and so may be received.
    takes(&place, "zfs receive q/c", &written(&place, "zfs send -i p/fs@s p/c@r"));
    let same =
        |a: &str, b: &str| fs::read(place.path(a)).expect("there") == fs::read(place.path(b)).expect("there");
    assert!(same("q/c/secret", "p/c/secret") && same("q/c/public", "p/c/public"));
    assert_eq!(place.ok("zfs get -Ho value redact_snaps q/c"), "-\n");
    // Another one has not.
    let others = written(&place, "zfs send -i p/fs@s p/d@r");
    refuses(&place, "zfs receive q/d", &others, "cannot receive incremental stream: invalid backup stream");
    fs::write(place.path("p/fs/later"), b"later").expect("written");
    place.ok("zfs snapshot p/fs@t");
    let later = written(&place, "zfs send -i @s p/fs@t");
    refuses(
        &place,
        "zfs receive -F q/fs",
        &later,
        "cannot receive incremental stream: invalid backup stream",
    );
    place.ok("zpool export q");
    Zdb::new(place.directory.path(), "q").check().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn a_stream_from_a_redaction_bookmark_makes_good_what_was_left_out() {
    let Some(place) = prepared() else { return };
    place.ok("zfs redact p/fs@s book p/c@r");
    takes(&place, "zfs receive q/fs", &written(&place, "zfs send --redact book p/fs@s"));
    overwrite(&place.path("p/fs/secret"), 3, &noise(6, 1));
    fs::remove_file(place.path("p/fs/gone")).expect("there");
    place.ok("zfs snapshot p/fs@t");
    // Redacted again, by the same.
    place.ok("zfs clone p/fs@t p/e");
    overwrite(&place.path("p/e/secret"), 3, &noise(7, 1));
    place.ok("zfs snapshot p/e@r");
    place.ok("zfs redact p/fs@t again p/e@r");
    let refused = place.run("zfs redact p/fs@t nonsense p/c@r");
    assert_eq!(refused.err, "redaction snapshot must be descendent of snapshot being redacted\n");
    let stream = written(&place, "zfs send -i #book p/fs@t");
    let writes = bodies(&stream)
        .iter()
        .filter(|body| matches!(body, DrrBody::Write(write) if write.logical_bytes.get() == BLOCK as u64))
        .count();
    assert_eq!(writes, 2, "blocks 2, which is old, and 3");
    assert!(place.ok("zfs send -nP -i #book p/fs@t").ends_with(&format!("size\t{}\n", stream.len())));
    takes(&place, "zfs receive q/fs", &stream);
    assert_eq!(place.ok("zfs get -Ho value redact_snaps q/fs"), "-\n");
    place.ok("zfs mount q/fs");
    let read = |name: &str| fs::read(place.path(name)).expect("there");
    assert!(read("q/fs/secret") == read("p/fs/secret") && read("q/fs/public") == read("p/fs/public"));
    assert!(!place.path("q/fs/gone").exists());
    // What it was it is again.
    place.ok("zfs rollback -r q/fs@s");
    assert_eq!(place.ok("zfs get -Ho value redact_snaps q/fs"), place.ok("zfs get -Hpo value guid p/c@r"));
    place.ok("zfs unmount q/fs");
    place.ok("zpool export q");
    Zdb::new(place.directory.path(), "q").check().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn redaction_is_refused_in_the_words_of_openzfs() {
    let Some(place) = prepared() else { return };
    place.ok("zfs redact p/fs@s book p/c@r");
    place.ok("zfs snapshot q@x");
    for (line, words, code) in [
        ("p/fs@s book p/c@r", "specified redaction bookmark (book) provided already exists", 17),
        ("p/fs@s new p/c@r p/c@nope", "provided snapshot p/c@nope does not exist", 2),
        ("p/fs@nope new p/c@r", "provided snapshot p/fs@nope does not exist", 2),
        ("p/fs@s p/fs#new p/c@r", "redaction bookmark name must not contain '#'", 22),
        ("p/c@r new p/d@r", "redaction snapshot must be descendent of snapshot being redacted", 22),
        ("p/fs@s new q@x", "potentially invalid redaction snapshot; full dataset names required", 18),
    ] {
        let refused = place.run(&format!("zfs redact {line}"));
        assert_eq!((refused.err.trim_end(), refused.code), (words, code), "{line}");
    }
    assert_eq!(place.run("zfs redact p/fs@s book").code, 2);
    place.ok("zfs bookmark p/fs@s p/fs#plain");
    for (line, words) in [
        ("-w --redact book p/fs@s", "Error: raw sends may not be redacted."),
        ("-R --redact book p/fs@s", "Error: multiple snapshots cannot be sent redacted."),
        ("--redact nope p/fs@s", "cannot open 'p/fs#nope': no such pool or dataset"),
        ("--redact plain p/fs@s", "warning: cannot send 'p/fs@s': not a redaction bookmark"),
    ] {
        let refused = place.run(&format!("zfs send {line}"));
        assert_eq!((refused.err.trim_end(), refused.code), (words, 1), "{line}");
    }
    // What breaks off of a redacted stream is not kept.
    let stream = written(&place, "zfs send --redact book p/fs@s");
    assert_eq!(fed(&place, "zfs receive -s q/part", &stream[..stream.len() / 2]).code, 1);
    assert_eq!(place.run("zfs list q/part").code, 1);
}
