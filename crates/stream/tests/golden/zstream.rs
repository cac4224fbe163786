//! OpenZFS's own `zstream` reads what we send.

use std::io::Write;
use std::process::{Command, Stdio};

use ondisk::send::DrrType;
use oracle::needs::Need;
use stream::Form;

use crate::world::{self, World};

/// What `zstream dump` prints of a stream; `None` where there is no such program and that is said to be all right.
fn dump(stream: &[u8]) -> Option<String> {
    let mut command = Command::new("zstream");
    let spawned = command.arg("dump").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            Need::Program("zstream").is_missing(&format!("cannot run zstream: {error}"));
            return None;
        }
    };
    let mut stdin = child.stdin.take().expect("piped");
    let stream = stream.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&stream));
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("no panic").expect("it takes all");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    Some(said)
}

#[test]
fn zstream_counts_what_we_count() {
    let world = World::open();
    let forms =
        [[false, false, false], [true, false, false], [false, true, false], [false, false, true], [true; 3]];
    for [large_blocks, embedded, compressed] in forms {
        let form = Form { large_blocks, embedded, compressed };
        for (name, origin) in
            [("whirl/fs@1", None), ("whirl/fs@r", Some("whirl/fs@2")), ("whirl/fs/vol@r", None)]
        {
            let origin = origin.map_or(0, |origin| world.order(origin, 0, false, form).target.guid);
            let order = world.order(name, origin, false, form);
            let (stream, summary) = world.send(&order).expect("a sound pool");
            let Some(said) = dump(&stream) else { return };
            assert!(said.ends_with(&summary.to_string()), "{name}, {form:?}:\n{said}\n{summary}");
            assert!(said.contains(&format!("\ttoname = {name}\n")), "{said}");
        }
    }
}

/// Spill blocks, large dnodes, sparse files, other compressions and checksums.
#[test]
fn zstream_reads_streams_of_all_kinds_of_files() {
    let form = Form { large_blocks: true, embedded: true, compressed: true };
    let mut spills = 0;
    for pool in ["g08-compress", "g09-checksums", "g11-many", "g27-quotas"] {
        let world = World::of(pool);
        for dataset in world.datasets() {
            let order = world.order(&dataset.name, 0, false, form);
            let (stream, summary) = world.send(&order).expect("a sound pool");
            let Some(said) = dump(&stream) else { return };
            assert!(said.ends_with(&summary.to_string()), "{pool}, {}:\n{said}\n{summary}", dataset.name);
            spills += summary.records(DrrType::Spill);
        }
    }
    assert!(spills > 0, "files with many attributes");
}

/// `zstream redup` writes a sum into the record that ends a package, where `zfs send` writes none.
#[test]
fn a_package_that_zstream_has_passed_on_is_read() {
    let theirs = world::bytes("repl");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &theirs).expect("written");
    let passed_on = match Command::new("zstream").arg("redup").arg(file.path()).output() {
        Ok(output) => output.stdout,
        Err(error) => return Need::Program("zstream").is_missing(&format!("cannot run zstream: {error}")),
    };
    assert!(passed_on != theirs && passed_on.len() == theirs.len());
    let kinds = |stream: &[u8]| -> Vec<DrrType> {
        let records = world::records(stream).expect("sound");
        records.iter().map(|record| record.record.body.drr_type()).collect()
    };
    assert_eq!(kinds(&passed_on), kinds(&theirs));
    let mut damaged = passed_on;
    *damaged.last_mut().expect("bytes") ^= 1;
    world::records(&damaged).expect_err("the sum is wrong");
}
