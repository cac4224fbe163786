//! Streams by the real commands and the real daemon: what OpenZFS sent of a golden pool is sent again, and received.
#![forbid(unsafe_code)]

mod place;

use oracle::golden;
use place::{Place, Printed};
use std::io::Write;
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

fn stream_called(name: &str) -> Vec<u8> {
    std::fs::read(golden::path(POOL).join(format!("{name}.zstream"))).expect("a golden stream")
}

/// Runs a command that reads these bytes, or as many of them as it wants.
fn fed(place: &Place, line: &str, bytes: &[u8]) -> Printed {
    let mut command = place.command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    let bytes = bytes.to_vec();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().expect("it ends");
    feeder.join().expect("no panic");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Printed { out: text(output.stdout), err: text(output.stderr), code: output.status.code().unwrap_or(-1) }
}

fn takes(place: &Place, line: &str, bytes: &[u8]) -> String {
    let printed = fed(place, line, bytes);
    assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}; log: {}", place.log());
    printed.out
}

fn refuses(place: &Place, line: &str, bytes: &[u8], want: &str) {
    let printed = fed(place, line, bytes);
    assert_eq!((printed.err.as_str(), printed.code), (format!("{want}\n").as_str(), 1), "{line}");
}

#[test]
fn what_openzfs_sent_is_received() {
    let place = Place::new();
    place.file("d1", 512);
    place.ok("zpool create -m none p W/d1");
    let full = stream_called("full");
    let would = takes(&place, "zfs receive -nv p/fs", &full);
    assert_eq!(would, "would receive full stream of whirl/fs@1 into p/fs@1\n");
    let told = takes(&place, "zfs receive -v p/fs", &full);
    assert!(told.starts_with("receiving full stream of whirl/fs@1 into p/fs@1\nreceived "), "{told}");
    takes(&place, "zfs recv -d p", &stream_called("vol"));
    takes(&place, "zfs receive p/fs", &stream_called("incr-all"));
    takes(&place, "zfs receive -e -o compression=gzip p", &stream_called("clone"));
    assert_eq!(
        place.ok("zfs list -Ho name -t all -r p"),
        "p\np/clone\np/clone@c\np/fs\np/fs@1\np/fs@2\np/fs@3\np/fs/vol\np/fs/vol@r\n"
    );
    assert_eq!(place.ok("zfs get -Ho value,source compression p/clone"), "gzip\tlocal\n");
    assert_eq!(place.ok("zfs get -Ho value origin p/clone"), "p/fs@2\n");
    // What is sent again is received again.
    takes(&place, "zfs receive p/again", &written(&place, "zfs send p/fs@1"));
    takes(&place, "zfs receive p/again", &written(&place, "zfs send -I @1 p/fs@3"));
    assert_eq!(place.ok("zfs list -Ho name -t snapshot p/again"), "p/again@1\np/again@2\np/again@3\n");
    assert_eq!(place.ok("zfs get -Hpo value guid p/again@3"), place.ok("zfs get -Hpo value guid p/fs@3"));
    assert!(place.ok("zpool history p").contains("zfs receive -e -o compression=gzip p"));
}

#[test]
fn a_stream_that_cannot_be_received_leaves_nothing() {
    let place = Place::new();
    place.file("d1", 512);
    place.ok("zpool create -m none p W/d1");
    let (full, incr) = (stream_called("full"), stream_called("incr"));
    let new = "cannot receive new filesystem stream";
    let incremental = "cannot receive incremental stream";
    let mut damaged = full.clone();
    damaged[1_000_000] ^= 1;
    refuses(&place, "zfs receive p/fs", &full[..1_000_000], &format!("{new}: incomplete stream"));
    refuses(&place, "zfs receive p/fs", &damaged, &format!("{new}: checksum mismatch"));
    refuses(&place, "zfs receive p/fs", b"", "cannot receive: failed to read from stream");
    refuses(&place, "zfs receive p/fs", &[7; 4096], "cannot receive: invalid stream (bad magic number)");
    refuses(&place, "zfs receive p/fs", &incr, &format!("{incremental}: destination 'p/fs' does not exist"));
    let parent = format!("{new}: destination 'p/no' does not exist");
    refuses(&place, "zfs receive p/no/fs", &full, &parent);
    assert_eq!(place.ok("zfs list -Ho name"), "p\n");
    takes(&place, "zfs receive p/fs", &full);
    let exists = format!("{new}: destination 'p/fs' exists\nmust specify -F to overwrite it");
    refuses(&place, "zfs receive p/fs@2", &full, &exists);
    let snapshots =
        format!("{new}: destination has snapshots (eg. p/fs@1)\nmust destroy them to overwrite it");
    refuses(&place, "zfs receive -F p/fs@2", &full, &snapshots);
    refuses(&place, "zfs receive p/fs@1", &incr, "cannot restore to p/fs@1: destination already exists");
    let properties = "cannot receive: receiving a stream with properties is not supported yet";
    refuses(&place, "zfs receive p/other", &stream_called("props"), properties);
    let raw = format!("{new}: a raw stream is not supported yet");
    refuses(&place, "zfs receive p/other", &stream_called("raw"), &raw);
    assert_eq!(place.ok("zfs list -Ho name -t all -r p"), "p\np/fs\np/fs@1\n");
}
