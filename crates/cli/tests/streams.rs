//! Streams by the real commands and the real daemon: what OpenZFS sent of a golden pool is sent again.
#![forbid(unsafe_code)]

mod place;

use oracle::golden;
use place::Place;
use std::process::{Command, Stdio};

const POOL: &str = "g30-streams";

/// The golden pool, open for reading.
fn opened() -> Place {
    let place = Place::new();
    golden::copy(POOL, place.directory.path());
    place.ok("zpool import -f -N -o readonly=on -d W/img whirl");
    place
}

/// What a command writes to standard output.
fn written(place: &Place, line: &str) -> Vec<u8> {
    let output = place.command(line).output().expect("the program runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && err.is_empty(), "{line}: {err}");
    output.stdout
}

#[test]
fn what_openzfs_sent_is_sent_again_to_the_byte() {
    let place = opened();
    for (line, name) in [
        ("zfs send whirl/fs@1", "full"),
        ("zfs send -c -L -e whirl/fs@1", "full-cLe"),
        ("zfs send -i @1 whirl/fs@2", "incr"),
        ("zfs send -I @1 whirl/fs@3", "incr-all"),
        ("zfs send -i #b1 whirl/fs@3", "from-bookmark"),
        ("zfs send -i whirl/fs@2 whirl/clone@c", "clone"),
        ("zfs send whirl/fs/vol@r", "vol"),
    ] {
        let theirs = std::fs::read(golden::path(POOL).join(format!("{name}.zstream"))).expect("golden");
        let ours = written(&place, line);
        assert!(ours == theirs, "{line}: {} bytes, not {}", ours.len(), theirs.len());
        let told = place.ok(&line.replace("send", "send -nP"));
        if name != "incr-all" {
            assert!(told.ends_with(&format!("size\t{}\n", theirs.len())), "{line}: {told}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_stream_and_lets_the_snapshot_go() {
    let place = Place::new();
    place.file("d1", 96);
    place.ok("zpool create -m none p W/d1");
    place.ok("zfs snapshot p@1");
    let mut sending = place.command("zfs send p@1");
    let mut child = sending.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success(), "{output:?}");
    place.ok("zfs destroy p@1");
}

#[test]
fn a_stream_is_not_written_to_a_terminal() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_sawmill");
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{program} zfs send p@1"), "/dev/null"]);
    script.env("SAWMILL_RUN", place.path("run"));
    match script.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
            let want =
                "Error: Stream can not be written to a terminal.\nYou must redirect standard output.\n";
            assert_eq!((said.as_str(), output.status.code()), (want, Some(1)));
        }
        Err(error) => {
            oracle::needs::Need::Program("script").is_missing(&format!("cannot run script: {error}"));
        }
    }
}
