//! Streams that put right what is damaged, and streams of what was received in part.

use crate::place::Place;
use crate::{fed, refuses, said, takes, written};
use ondisk::send::DrrBody;
use oracle::needs::{Need, lack_of_fuse};
use oracle::zdb::Zdb;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;

/// What is before a leaf's space: two labels and the boot area.
const LABEL_START_BYTES: u64 = 4 << 20;

/// Where the data blocks of a file lie, by `zdb`: offset and size on the device.
fn blocks_of(place: &Place, dataset: &str, object: u64) -> Vec<(u64, u64)> {
    let zdb = Zdb::new(place.directory.path(), dataset);
    let text = zdb.run(&["-ddddd"], &[&object.to_string()]).expect("zdb finds no damage");
    let block = |line: &str| {
        let at = line.split_whitespace().skip_while(|word| *word != "L0").nth(1)?;
        let mut parts = at.split(':').skip(1).map(|number| u64::from_str_radix(number, 16));
        Some((parts.next()?.ok()? + LABEL_START_BYTES, parts.next()?.ok()?))
    };
    text.lines().filter_map(block).collect()
}

fn damage(place: &Place, at: u64) {
    let mut disk = fs::OpenOptions::new().write(true).open(place.path("d1")).expect("there");
    disk.seek(SeekFrom::Start(at + 512)).and_then(|_| disk.write_all(&[0xa5; 256])).expect("written");
}

/// Objects of a stream, and what is in them.
fn data(stream: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let of = |(body, payload)| match body {
        DrrBody::Object(object) => Some((object.object.get(), u64::MAX, payload)),
        DrrBody::Write(write) => Some((write.object.get(), write.offset.get(), payload)),
        _ => None,
    };
    said(stream).into_iter().filter_map(of).collect()
}

/// A text of so many bytes that shrinks.
fn text(seed: usize, bytes: usize) -> Vec<u8> {
    (0..)
        .flat_map(|line| format!("{seed}: {}\n", line * 7919 % 10007 + seed).into_bytes())
        .take(bytes)
        .collect()
}

#[test]
fn damaged_blocks_of_a_snapshot_are_put_right_from_a_stream() {
    if let Some(lack) = lack_of_fuse() {
        return Need::Fuse.is_missing(lack);
    }
    let place = Place::new();
    place.file("d1", 256);
    place.ok("zpool create -m W/p p W/d1");
    let kinds = [("off", "128K"), ("lz4", "128K"), ("zstd-7", "128K"), ("gzip-9", "1M")];
    for (at, (compression, recordsize)) in kinds.into_iter().enumerate() {
        let name = format!("p/f{at}");
        place.ok(&format!("zfs create -o compression={compression} -o recordsize={recordsize} {name}"));
        fs::write(place.path(&format!("p/f{at}/file")), text(at, 2 << 20)).expect("written");
        place.ok(&format!("zfs snapshot {name}@1"));
        fs::write(place.path(&format!("p/f{at}/other")), text(at + 9, 1000)).expect("written");
        place.ok(&format!("zfs snapshot {name}@2"));
    }
    let streams: Vec<Vec<u8>> =
        (0..kinds.len()).map(|at| written(&place, &format!("zfs send -L p/f{at}@1"))).collect();
    let packed = written(&place, "zfs send -c p/f2@1");
    let pieces = written(&place, "zfs send p/f3@1");
    let others = written(&place, "zfs send p/f0@2");
    let object = |at: usize| fs::metadata(place.path(&format!("p/f{at}/file"))).expect("there").ino();
    let objects: Vec<u64> = (0..kinds.len()).map(object).collect();
    place.ok("zpool export p");
    for (at, object) in objects.into_iter().enumerate() {
        let blocks = blocks_of(&place, &format!("p/f{at}"), object);
        assert!(blocks.len() > 1, "{blocks:?}");
        damage(&place, blocks[0].0);
        damage(&place, blocks[1].0);
    }
    place.ok("zpool import -N -d W/ p");
    place.ok("zpool scrub -w p");
    let status = place.ok("zpool status p");
    assert!(status.contains("with 8 errors"), "{status}");
    let prefix = "cannot receive new filesystem stream";
    let line = |at: usize| format!("zfs receive -c p/f{at}@1");
    refuses(
        &place,
        &line(0),
        &others,
        &format!("{prefix}: local snapshot doesn't match the snapshot in the provided stream"),
    );
    refuses(
        &place,
        "zfs receive -c p/f0@3",
        &streams[0],
        &format!("{prefix}: corrective recv must specify an existing snapshot to heal"),
    );
    refuses(
        &place,
        "zfs receive -c -F p/f0@1",
        &streams[0],
        "cannot receive: corrective recv can not be used when combined with this flag",
    );
    refuses(
        &place,
        &line(3),
        &pieces,
        &format!("{prefix}: corrective receive was not able to reconstruct the data needed for healing."),
    );
    let told = takes(&place, "zfs receive -cnv p/f0@1", &streams[0]);
    assert_eq!(told, "would receive corrective full stream of p/f0@1 into p/f0@1\n");
    for (at, stream) in streams.iter().enumerate() {
        takes(&place, &line(at), if at == 2 { &packed } else { stream });
    }
    place.ok("zpool scrub -w p");
    let status = place.ok("zpool status p");
    assert!(status.contains("with 0 errors"), "{status}");
    place.ok("zfs mount -a");
    for at in 0..kinds.len() {
        assert!(
            fs::read(place.path(&format!("p/f{at}/file"))).expect("readable") == text(at, 2 << 20),
            "{at}"
        );
    }
    place.ok("zpool export p");
    Zdb::new(place.directory.path(), "p").check_blocks().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn what_was_received_in_part_is_sent_on_and_completed_there() {
    let place = Place::new();
    ["d1", "d2", "d3"].iter().for_each(|name| place.file(name, 256));
    for (pool, disk) in [("p", "d1"), ("q", "d2"), ("r", "d3")] {
        place.ok(&format!("zpool create -m none {pool} W/{disk}"));
    }
    takes(&place, "zfs receive p/fs", &crate::stream_called("full"));
    takes(&place, "zfs receive p/fs", &crate::stream_called("incr"));
    let token = |name: &str| {
        let token = place.ok(&format!("zfs get -Ho value receive_resume_token {name}"));
        stream::token_state(token.trim()).expect("a token")
    };
    for (line, end) in [("zfs send p/fs@1", "1"), ("zfs send -i @1 p/fs@2", "2")] {
        let whole = written(&place, line);
        assert_eq!(fed(&place, "zfs receive -s q/fs", &whole[..whole.len() / 2]).code, 1);
        // As it is, with no end: who receives it keeps it as a part.
        let part = written(&place, "zfs send -S q/fs");
        assert!(part.len() < whole.len());
        let kept = fed(&place, "zfs receive -s r/fs", &part);
        assert!(kept.err.contains("checksum mismatch or incomplete stream"), "{}", kept.err);
        assert_eq!(
            (token("r/fs").toguid, token("r/fs").toname),
            (token("q/fs").toguid, token("q/fs").toname)
        );
        for name in ["q/fs", "r/fs"] {
            let token = place.ok(&format!("zfs get -Ho value receive_resume_token {name}"));
            let rest = written(&place, &format!("zfs send -t {}", token.trim()));
            takes(&place, &format!("zfs receive -s {name}"), &rest);
            let guid = |name: &str| place.ok(&format!("zfs get -Hpo value guid {name}@{end}"));
            assert_eq!(guid(name), guid("p/fs"));
            let again = written(&place, &line.replace("p/fs", name));
            assert!(data(&again) == data(&whole), "{name}@{end}");
        }
    }
    let refused = place.run("zfs send -S p/fs");
    assert_eq!(refused.code, 1);
    let refused = place.run("zfs send -S -L p/fs");
    assert!(
        refused.code == 2 && refused.err.starts_with("incompatible flags combined with saved send flag\n")
    );
    place.ok("zpool export r");
    Zdb::new(place.directory.path(), "r").check().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn a_full_stream_becomes_a_clone_of_what_it_is_told() {
    let place = Place::new();
    place.file("d1", 512);
    place.ok("zpool create -m none p W/d1");
    takes(&place, "zfs receive p/fs", &crate::stream_called("full"));
    takes(&place, "zfs receive p/fs", &crate::stream_called("incr-all"));
    let full = written(&place, "zfs send p/fs@1");
    place.ok("zfs create p/few");
    place.ok("zfs snapshot p/few@1");
    for (origin, name) in [("p/fs@3", "p/many"), ("p/few@1", "p/new")] {
        takes(&place, &format!("zfs receive -u -o origin={origin} {name}"), &full);
        assert_eq!(place.ok(&format!("zfs get -Ho value origin {name}")), format!("{origin}\n"));
        assert!(data(&written(&place, &format!("zfs send {name}@1"))) == data(&full), "{name}");
    }
    refuses(
        &place,
        "zfs receive -o origin=p/few@1 p/fs",
        &full,
        "cannot receive new filesystem stream: destination 'p/fs' exists\nmust specify -F to overwrite it",
    );
    // The man page has it so.
    refuses(
        &place,
        "zfs receive -o volsize=1G p/vol",
        &crate::stream_called("vol"),
        "cannot receive new filesystem stream: 'volsize' is readonly",
    );
    place.ok("zpool export p");
    Zdb::new(place.directory.path(), "p").check().unwrap_or_else(|damage| panic!("{damage}"));
}
