//! `sawmill trace record|show` and `sawmill what-if`: of a real pool whose log a fault holds up, and their refusals.
#![forbid(unsafe_code)]

mod place;

use oracle::needs::{Need, lack_of_fuse};
use place::Place;
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// `O_DSYNC` on Linux.
const O_DSYNC: i32 = 0o10_000;
const BYTES: usize = 3_000;
/// A device that is told to be slow takes at least so long.
const SLOW_MS: f64 = 40.0;

fn assert_fits(text: &str) {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// Runs a command while somebody writes, each write stable before the next.
fn beside_writes(place: &Place, line: &str) -> String {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut options = std::fs::File::options();
            options.write(true).create(true).custom_flags(O_DSYNC);
            let mut file = options.open(place.path("mnt/file")).expect("a file");
            while !is_over.load(SeqCst) {
                file.write_all(&[7; BYTES]).expect("writes");
            }
        });
        let told = place.ok(line);
        is_over.store(true, SeqCst);
        told
    })
}

fn recording(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(place.path(name)).expect("it was written")).expect("JSON")
}

/// The longest of what it tells in milliseconds.
fn longest_ms(recording: &Value) -> f64 {
    let commits = recording["commits"].as_array().expect("commits");
    let took = commits.iter().filter_map(|commit| commit["took"].as_f64());
    took.fold(0.0, f64::max) / 1e6
}

#[test]
fn what_a_slow_commit_waited_for_is_told_and_what_a_log_would_bring() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let place = Place::with_files();
    place.ok("zpool create -m W/mnt tank W/d1");
    // The first commit begins the chain.
    std::fs::write(place.path("mnt/file"), [0; BYTES]).expect("a file");
    place.ok("zpool sync tank");
    place.ok(&format!("zinject -d W/d1 -D {SLOW_MS}:8 tank"));
    let told = beside_writes(&place, "trace record --seconds 3 tank W/slow.trace");
    assert!(told.contains(" commits in 3.0 s, in 'W/slow.trace'\n"), "{told}");
    let slow = recording(&place, "slow.trace");
    let commits = slow["commits"].as_array().expect("commits");
    assert!(commits.len() > 20, "{}", commits.len());
    let with_data = commits.iter().filter(|commit| commit["bytes"].as_u64() == Some(BYTES as u64));
    assert!(with_data.count() > commits.len() / 2, "each write brought its bytes");
    assert!(longest_ms(&slow) >= SLOW_MS, "{}", longest_ms(&slow));
    assert_eq!(slow["datasets"][0][1], "tank");

    let shown = place.ok("trace show --slowest 3 --slower-than 1 W/slow.trace");
    assert_fits(&shown);
    for told in [
        "pool 'tank', recorded for 3.0 s: ",
        "\nwhere their time went",
        "\nthe slowest\n",
        "ms: tank, object ",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    assert_eq!(shown.lines().filter(|line| line.contains(": tank, object ")).count(), 3, "{shown}");
    assert!(
        shown
            .lines()
            .any(|line| line.trim_start().starts_with("longest: a write of ") && line.contains("W/d1")),
        "{shown}"
    );
    let written = shown.lines().find(|line| line.trim_start().starts_with("written ")).expect("a row");
    let percent: f64 = written
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.trim_end_matches('%').parse().ok())
        .expect("a number");
    assert!(percent > 80.0, "the device is what is slow: {shown}");

    let answer: Value =
        serde_json::from_str(&place.ok("what-if --add-log ssd-plp --json W/slow.trace")).expect("JSON");
    let p50 = |trial: &Value| trial["p50_us"].as_f64().expect("a number");
    assert!(p50(&answer["recorded"]) >= SLOW_MS * 1e3);
    let trials = |name: &str| answer[name].as_array().expect("trials").iter().map(p50).collect::<Vec<_>>();
    assert_eq!((trials("without").len(), trials("with").len()), (9, 9));
    assert!(trials("without").iter().all(|&p50| p50 >= SLOW_MS * 1e3 * 0.9), "{answer}");
    assert!(trials("with").iter().all(|&p50| p50 < SLOW_MS * 1e3 / 10.0), "{answer}");
    let text = place.ok("what-if --add-log ssd-plp W/slow.trace");
    assert_fits(&text);
    assert!(text.contains("\nwith a log: ssd-plp ") && text.contains("times shorter"), "{text}");
}

#[test]
fn more_commits_than_are_to_be_kept_are_counted() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let place = Place::with_files();
    place.ok("zpool create -m W/mnt tank W/d1 log W/l1");
    let told = beside_writes(&place, "trace record --seconds 1 --commits 5 tank W/few.trace");
    assert!(
        told.starts_with("5 commits in 1.0 s, in 'W/few.trace'; ")
            && told.ends_with(" more were left out (--commits)\n"),
        "{told}"
    );
    let few = recording(&place, "few.trace");
    assert_eq!(few["commits"].as_array().map(Vec::len), Some(5));
    assert!(few["left_out"].as_u64() > Some(0));
    // Nobody has seen this pool without its log.
    beside_writes(&place, "trace record --seconds 1 tank W/logged.trace");
    let text = place.ok("what-if --add-log nvram W/logged.trace");
    assert!(text.contains("in terms of what was recorded") && !text.contains("no log device"), "{text}");
    assert_fits(&text);
    // An idle pool: there is nothing to explain, and nothing to make again.
    place.ok("trace record --seconds 0.2 tank W/idle.trace");
    assert_eq!(place.ok("trace show W/idle.trace"), "pool 'tank', recorded for 0.2 s: 0 commits\n");
    let refused = place.run("what-if --add-log nvram W/idle.trace");
    assert_eq!(
        (refused.code, refused.err.starts_with("there is too little in the recording")),
        (1, true),
        "{}",
        refused.err
    );
}

#[test]
fn recordings_are_refused_in_words_that_say_why() {
    let place = Place::new();
    std::fs::write(place.path("bad"), "[1]").expect("a file");
    for (line, err, code) in [
        ("trace record nope W/out", "cannot open 'nope': no such pool\n", 1),
        ("trace record nope W/bad", "cannot open 'nope': no such pool\n", 1),
        (
            "trace record nope W/no/dir",
            "cannot write 'W/no/dir': No such file or directory (os error 2)\n",
            1,
        ),
        ("trace record tank", "missing pool name and file\nusage:\n", 2),
        ("trace record a b c", "too many arguments\nusage:\n", 2),
        ("trace record --seconds 0 a b", "bad number '0' for --seconds\nusage:\n", 2),
        ("trace record --commits x a b", "bad number 'x' for --commits\nusage:\n", 2),
        ("trace show", "missing file\nusage:\n", 2),
        ("trace show W/none", "cannot read 'W/none': No such file or directory (os error 2)\n", 1),
        ("trace show W/bad", "'W/bad' is no recording: ", 1),
        ("trace show --slowest x W/bad", "bad number 'x' for --slowest\nusage:\n", 2),
        ("what-if W/bad", "no --add-log given\nusage:\n", 2),
        ("what-if --add-log floppy W/bad", "bad model 'floppy' for --add-log\nusage:\n", 2),
        ("what-if --add-log W/bad W/bad", "", 1),
    ] {
        let printed = place.run(line);
        assert!(printed.err.starts_with(err), "{line}: {}", printed.err);
        assert_eq!(printed.code, code, "{line}");
    }
    assert_eq!(
        std::fs::read(place.path("bad")).expect("it is there"),
        b"[1]",
        "nothing was recorded over it"
    );
}
