//! `sawmill top`: of a real pool with a load that is known, on a terminal that is made up, and its refusals.
#![forbid(unsafe_code)]

mod place;

use oracle::needs::{Need, lack_of_fuse};
use place::Place;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// `O_DSYNC` on Linux.
const O_DSYNC: i32 = 0o10_000;
const WRITES: u64 = 150;
const SYNCS: u64 = 50;

/// Before anything is counted: whoever looks has looked once after so long.
const FIRST_LOOK: Duration = Duration::from_secs(3);

fn pool(place: &Place) {
    place.ok("zpool create -m W/mnt tank W/d1 log W/l1");
    place.ok("zfs create tank/db");
    // The first commit begins a log's chain.
    write(place, 1);
    place.ok("zpool sync tank");
}

/// Writes of which each is stable before the next.
fn write(place: &Place, count: u64) {
    let mut options = File::options();
    let file =
        options.write(true).create(true).truncate(true).custom_flags(O_DSYNC).open(place.path("mnt/db/w"));
    let mut file = file.expect("a file");
    (0..count).for_each(|_| file.write_all(&[7; 3_000]).expect("writes"));
}

/// The same by fsync(2), in a thread of its own.
fn sync(place: &Place, count: u64) {
    let path = place.path("mnt/db/s");
    let syncs = move || {
        let mut file = File::create(path).expect("a file");
        for _ in 0..count {
            file.write_all(&[7; 1_000]).expect("writes");
            file.sync_data().expect("syncs");
        }
    };
    std::thread::spawn(syncs).join().expect("it ends");
}

fn figure(json: &Value, path: &str) -> f64 {
    json.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}: {json}"))
}

#[test]
fn what_happened_between_two_looks_is_told_to_the_commit() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let place = Place::with_files();
    pool(&place);
    let mut looks = place.command("top tank --json --seconds 8 --tbw 100");
    let looks = looks.stdout(Stdio::piped()).spawn().expect("the program runs");
    std::thread::sleep(FIRST_LOOK);
    write(&place, WRITES);
    sync(&place, SYNCS);
    let output = looks.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let seconds = figure(&told, "/seconds");
    let counted = |path: &str| (figure(&told, path) * seconds).round() as u64;
    assert_eq!(figure(&told, "/load/commits") as u64, WRITES + SYNCS, "{told}");
    assert_eq!(counted("/load/data_bytes_per_second"), WRITES * 3_000 + SYNCS * 1_000);
    let timed: f64 = (0..39).map(|bucket| figure(&told, &format!("/latency/{bucket}"))).sum();
    assert_eq!(timed as u64, WRITES + SYNCS);
    for stage in ["queue", "assemble", "write", "wake"] {
        assert!(figure(&told, &format!("/stages/{stage}/mean_us")) > 0.0, "{told}");
    }
    // The parts of a commit add up to the mean of what commits took.
    let parts = ["queue", "assemble", "write", "flush", "wake", "txg"];
    let whole: f64 = parts.iter().map(|part| figure(&told, &format!("/mean/{part}_us"))).sum();
    let mean = figure(&told, "/load/latency/mean_us");
    assert!(whole > mean / 2.0 && whole < mean * 2.0, "{whole} us of a mean of {mean} us: {told}");
    assert_eq!(told.pointer("/logs/0/is_log"), Some(&Value::Bool(true)));
    let blocks: f64 = (0..32).map(|size| figure(&told, &format!("/block_sizes/{size}"))).sum();
    assert_eq!(counted("/logs/0/writes_per_second"), blocks as u64);
    assert!(figure(&told, "/logs/0/held_bytes") > 0.0 && figure(&told, "/logs/0/devices/0/life/years") > 0.0);

    assert_eq!(told["datasets"].as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(told.pointer("/datasets/0/name").and_then(Value::as_str), Some("tank/db"));
    assert_eq!(counted("/datasets/0/commits_per_second"), WRITES + SYNCS);
    // Two threads of this process, of which one is gone: it is known by its own number unless somebody looked in time.
    let processes = told["processes"].as_array().expect("processes");
    let syncs: f64 = processes.iter().filter_map(|one| one["syncs_per_second"].as_f64()).sum();
    assert_eq!((syncs * seconds).round() as u64, WRITES + SYNCS, "{told}");
    let own = processes.iter().find(|one| one["process"].as_u64() == Some(std::process::id().into()));
    let own = own.unwrap_or_else(|| panic!("this process: {told}"));
    let command = std::fs::read_to_string("/proc/self/comm").expect("a name");
    assert_eq!(own["command"].as_str(), Some(command.trim_end()));
    assert!(own["mean_us"].as_f64().is_some_and(|mean| mean > 0.0), "{own}");

    let text = place.ok("top --once --seconds 0.2");
    assert!(text.starts_with("pool 'tank' ONLINE, 0."), "{text}");
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 80), "{text}");
    for title in
        ["latency of commits", "\nstage ", "\nlog block up to", "\nlog device ", "\ndataset ", "\nprocess "]
    {
        assert!(text.contains(title), "{title}: {text}");
    }
}

#[test]
fn a_terminal_is_drawn_on_and_given_back() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1 log W/l1");
    // script(1) has a terminal for whatever it runs.
    let program = format!("stty rows 24 cols 80; exec {} top --no-colour", env!("CARGO_BIN_EXE_sawmill"));
    let mut command = Command::new("timeout");
    command.args(["60", "script", "-qec", &program, "/dev/null"]).env("SAWMILL_RUN", place.path("run"));
    command.env("LC_ALL", "C").env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("script(1), of bsdutils, runs");
    let mut screen = child.stdout.take().expect("what is drawn");
    let mut drawn = String::new();
    while !drawn.contains("tank") || !drawn.contains("log device") {
        drawn += &read(&mut screen).unwrap_or_else(|| panic!("it ended: {drawn}"));
    }
    assert!(drawn.contains("\x1b[?1049h"), "the screen before is kept: {drawn:?}");
    assert!(!drawn.contains("\x1b[38;"), "no colours: {drawn:?}");
    // Held open: where keys end script(1) hangs up.
    let mut keys = child.stdin.take().expect("keys");
    keys.write_all(b"q").expect("a key");
    drawn.clear();
    while let Some(more) = read(&mut screen) {
        drawn += &more;
    }
    assert!(drawn.contains("\x1b[?1049l"), "the screen before is back: {drawn:?}");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}: {drawn:?}");
    drop(keys);
}

fn read(screen: &mut impl Read) -> Option<String> {
    let mut bytes = [0; 4096];
    let count = screen.read(&mut bytes).expect("what is drawn");
    (count > 0).then(|| String::from_utf8_lossy(&bytes[..count]).into_owned())
}

#[test]
fn looks_are_refused_in_words_that_say_why() {
    let place = Place::with_files();
    for (line, err, code) in [
        ("top --once", "no pools are open\n", 1),
        ("top nope --once", "cannot open 'nope': no such pool\n", 1),
        ("top nope --json", "cannot open 'nope': no such pool\n", 1),
        ("top", "no terminal to draw on: --once and --json print\n", 1),
        ("top a b", "too many arguments\nusage:\n", 2),
        ("top --seconds 0", "bad number '0' for --seconds\nusage:\n", 2),
        ("top --tbw 1 --pe-cycles 1", "--tbw and --pe-cycles exclude each other\nusage:\n", 2),
    ] {
        let printed = place.run(line);
        assert!(printed.err.starts_with(err), "{line}: {}", printed.err);
        assert_eq!((printed.code, printed.out.as_str()), (code, ""), "{line}");
    }
    place.ok("zpool create -m none one W/d1");
    place.ok("zpool create -m none two W/d2");
    let printed = place.run("top --once");
    assert!(
        printed.err.starts_with("missing pool name argument: several pools are open\n"),
        "{}",
        printed.err
    );
}
