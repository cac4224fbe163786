//! The present state of a file system as a stream, without a snapshot.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use ondisk::send::DrrBody;
use oracle::needs::{Need, lack_of_fuse};

use crate::place::Place;
use crate::{refuses, said, takes, written};

/// Returns the records of a stream, without the guid of the dataset.
fn said_of_any(stream: &[u8]) -> Vec<(DrrBody, Vec<u8>)> {
    let mut said = said(stream);
    for (body, _) in &mut said {
        let guid = match body {
            DrrBody::Object(record) => &mut record.toguid,
            DrrBody::Freeobjects(record) => &mut record.toguid,
            DrrBody::Write(record) => &mut record.toguid,
            DrrBody::WriteEmbedded(record) => &mut record.toguid,
            DrrBody::Free(record) => &mut record.toguid,
            other => panic!("no record of these streams: {other:?}"),
        };
        *guid = Default::default();
    }
    said
}

#[test]
fn the_head_of_a_file_system_is_sent_while_nobody_can_change_it() {
    if let Some(lack) = lack_of_fuse() {
        return Need::Fuse.is_missing(lack);
    }
    let place = Place::new();
    ["d1", "d2"].iter().for_each(|name| place.file(name, 256));
    place.ok("zpool create -O compression=off -m W/p p W/d1");
    place.ok("zpool create -m W/q q W/d2");
    place.ok("zfs create p/fs");
    fs::write(place.path("p/fs/old"), vec![1; 16 << 20]).expect("written");
    place.ok("zfs snapshot p/fs@1");
    fs::write(place.path("p/fs/new"), "not in the snapshot").expect("written");
    refuses(&place, "zfs send p/fs", b"", "warning: cannot send 'p/fs': Device or resource busy");
    place.ok("zfs unmount p/fs");
    let (full, incremental) = (written(&place, "zfs send p/fs"), written(&place, "zfs send -i @1 p/fs"));
    takes(&place, "zfs receive q/full", &full);
    takes(&place, "zfs receive q/steps@1", &written(&place, "zfs send p/fs@1"));
    takes(&place, "zfs receive q/steps", &incremental);
    for copy in ["full", "steps"] {
        let text = fs::read_to_string(place.path(&format!("q/{copy}/new"))).expect("received");
        assert_eq!(text, "not in the snapshot");
        assert_eq!(fs::read(place.path(&format!("q/{copy}/old"))).expect("received").len(), 16 << 20);
    }
    assert_eq!(place.ok("zfs list -Ho name -t snapshot q/full"), "q/full@--head--\n");
    // A snapshot of the same state has the same records.
    place.ok("zfs snapshot p/fs@2");
    assert!(said_of_any(&full) == said_of_any(&written(&place, "zfs send p/fs@2")));
    // The head is being sent now.
    let mut sending = place.command("zfs send p/fs").stdout(Stdio::piped()).spawn().expect("it runs");
    let mut stream = sending.stdout.take().expect("piped");
    stream.read_exact(&mut [0; 1 << 20]).expect("it has begun");
    refuses(
        &place,
        "zfs mount p/fs",
        b"",
        "cannot mount 'p/fs': pool or dataset is busy: its head is being sent",
    );
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the rest");
    assert!(sending.wait().expect("it ends").success());
    place.ok("zfs mount p/fs");
    place.ok("zpool export p");
    place.ok("zpool import -o readonly=on -d W/ p");
    assert!(
        said(&written(&place, "zfs send p/fs")) == said(&full),
        "nothing changes in a pool that is only read"
    );
}
