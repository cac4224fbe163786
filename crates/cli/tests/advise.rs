//! `sawmill advise log`: of a real pool with a load that is known, and its refusals.
#![forbid(unsafe_code)]

mod place;

use oracle::needs::{Need, lack_of_fuse};
use place::Place;
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

/// `O_DSYNC` on Linux.
const O_DSYNC: i32 = 0o10_000;
const WRITES: u64 = 200;
const BYTES: u64 = 3_000;
/// A record of so many bytes with its head and the chain's is less than this, and a block no smaller.
const BLOCK: u64 = 4_096;

fn json(place: &Place, line: &str) -> Value {
    serde_json::from_str(&place.ok(line)).expect("JSON")
}

fn number(json: &Value, path: &str) -> u64 {
    let found = json.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("{path}: {json}")).round() as u64
}

fn assert_fits(text: &str) {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// Writes of [`BYTES`], each stable before the next.
fn write(place: &Place, name: &str, count: u64) {
    let mut options = std::fs::File::options();
    let file = options.write(true).create(true).truncate(true).custom_flags(O_DSYNC).open(place.path(name));
    let mut file = file.expect("a file");
    (0..count).for_each(|_| file.write_all(&[7; BYTES as usize]).expect("writes"));
}

#[test]
fn advice_follows_from_what_was_written() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let place = Place::with_files();
    place.ok("zpool create -m W/mnt tank W/d1 log mirror W/l1 W/l2");
    let idle = place.ok("advise log tank");
    assert!(idle.contains("would change nothing"), "{idle}");
    assert_fits(&idle);
    // The first commit begins the chain, with a larger block.
    write(&place, "mnt/first", 1);
    place.ok("zpool sync tank");
    let before = json(&place, "advise log tank --json --model none");
    write(&place, "mnt/file", WRITES);
    place.ok("zpool sync tank");
    let after = json(&place, "advise log tank --json --model ssd --model nvram --tbw 100");

    let commits = number(&after, "/load/commits") - number(&before, "/load/commits");
    assert_eq!(commits, WRITES);
    let sum = |json: &Value, rate: &str| {
        let of = |path: &str| json.pointer(path).and_then(Value::as_f64).expect("a number");
        (of(rate) * of("/seconds")).round() as u64
    };
    let data = |json| sum(json, "/load/data_bytes_per_second");
    assert_eq!(data(&after) - data(&before), WRITES * BYTES);
    let written = |json| sum(json, "/load/written_bytes_per_second");
    let blocks = written(&after) - written(&before);
    // A record of the file's creation comes with the first.
    assert!((WRITES * BLOCK..=(WRITES + 2) * BLOCK).contains(&blocks), "{blocks}");
    let live = number(&after, "/size/peak/live_bytes");
    assert!((WRITES * BLOCK..=(WRITES + 20) * BLOCK).contains(&live), "{live}");
    assert!(number(&after, "/size/peak/held_bytes") >= WRITES * BLOCK, "{after}");
    assert_eq!(number(&after, "/size/enough_bytes"), 64 << 20);
    assert_eq!(number(&after, "/size/live_txgs"), 4);
    assert_eq!((number(&after, "/mirror/mirrors"), number(&after, "/mirror/copies")), (1, 2));
    let devices = after["devices"].as_array().expect("devices");
    let paths: Vec<&str> = devices.iter().filter_map(|device| device["path"].as_str()).collect();
    assert_eq!(paths, ["W/l1", "W/l2", "W/d1"]);
    for log in &devices[..2] {
        assert!(log["life"]["years"].as_f64().is_some_and(|years| years > 0.0), "{log}");
        assert!(log["file_system"].is_string(), "{log}");
    }
    let models: Vec<&str> = after["gain"]["with"]
        .as_array()
        .expect("models")
        .iter()
        .filter_map(|of| of["model"].as_str())
        .collect();
    assert_eq!(models, ["ssd", "nvram"]);
    assert!(before["gain"].is_null());

    let text = place.ok("advise log tank --pe-cycles 3000 --model ssd-plp");
    assert_fits(&text);
    for told in ["enough: 64M", "\nendurance\n", "\nmirrors\n", "\nlog devices\n  W/l1, ", "\n    ssd-plp "] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn what_is_watched_is_told_of_that_time_only() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let place = Place::with_files();
    place.ok("zpool create -m W/mnt tank W/d1");
    write(&place, "mnt/file", 20);
    let told = json(&place, "advise log tank --for 0.2 --json");
    assert_eq!((number(&told, "/load/commits"), told["is_since_import"].as_bool()), (0, Some(false)));
    assert!(told["gain"].is_null() && told["size"]["hour"].is_null(), "{told}");
    // Without a log device: what one would bring.
    let told = json(&place, "advise log tank --json --model nvram");
    assert!(number(&told, "/load/commits") >= 20);
    assert_eq!(told["size"]["has_logs"].as_bool(), Some(false));
}

#[test]
fn advice_is_refused_in_words_that_say_why() {
    let place = Place::new();
    for (line, err, code) in [
        ("advise log nope", "cannot open 'nope': no such pool\n", 1),
        ("advise log", "missing pool name argument\nusage:\n", 2),
        ("advise log a b", "too many arguments\nusage:\n", 2),
        ("advise log a --for x", "bad number 'x' for --for\nusage:\n", 2),
        ("advise log a --for 0", "bad number '0' for --for\nusage:\n", 2),
        ("advise log a --tbw -1", "bad number '-1' for --tbw\nusage:\n", 2),
        ("advise log a --tbw NaN", "bad number 'NaN' for --tbw\nusage:\n", 2),
        ("advise log a --tbw 1 --pe-cycles 1", "--tbw and --pe-cycles exclude each other\nusage:\n", 2),
        ("advise log a --model floppy", "bad model 'floppy'\nusage:\n", 2),
        ("advise log a --seed x", "bad number 'x' for --seed\nusage:\n", 2),
        ("advise cache a", "unrecognized command 'cache'\n", 2),
    ] {
        let printed = place.run(line);
        assert!(printed.err.starts_with(err), "{line}: {}", printed.err);
        assert_eq!((printed.code, printed.out.as_str()), (code, ""), "{line}");
    }
}
