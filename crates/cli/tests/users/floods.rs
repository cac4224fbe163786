//! A user who asks for more than the daemon can give, by the public socket, while root and another user work.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Uid, getrlimit, setrlimit};
use rustix::thread::set_thread_uid;

use super::{NOBODY, as_user, open_place};
use crate::place::{Place, Printed};

/// Connections of a flood.
const CONNECTIONS: usize = 2_000;
/// Commands whose median is a time.
const COMMANDS: usize = 21;
/// Datasets, so that an answer is larger than what a socket holds.
const DATASETS: usize = 300;
const GROWTH_MAX_BYTES: u64 = 128 << 20;

/// Makes connections, and says something on each. Connections that the daemon ends are kept, too.
fn flood(socket: &Path, words: &[u8]) -> Vec<UnixStream> {
    let mut made = Vec::new();
    for _ in 0..CONNECTIONS {
        let Ok(mut stream) = UnixStream::connect(socket) else { continue };
        // The daemon has turned the connection away if this fails.
        _ = stream.write_all(words);
        made.push(stream);
    }
    made
}

fn post(path: &str, length: usize, body: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// What is said on each connection of a flood.
fn floods() -> [(&'static str, Vec<u8>); 5] {
    let wait = r#"{"wait_millis":600000}"#;
    let half = "x".repeat(32 << 10);
    [
        ("says nothing", Vec::new()),
        ("sends half of a head", b"POST /v1/pool/list HTTP/1.1\r\nHost:".to_vec()),
        ("sends half of a body", post("/v1/pool/list", 60 << 10, &half)),
        ("waits for events", post("/v1/events", wait.len(), wait)),
        ("does not read the answer", post("/v1/dataset/list", 2, "{}")),
    ]
}

/// Runs `work` on a thread that is this user's.
pub(super) fn as_thread_of<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            set_thread_uid(Uid::from_raw(uid)).expect("root may");
            work()
        });
        thread.join().expect("no panic")
    })
}

/// The median of the times that a command takes, and its last output.
fn median_of(command: impl Fn() -> Printed) -> (Duration, Printed) {
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..COMMANDS {
        let begun = Instant::now();
        last = Some(command());
        times.push(begun.elapsed());
    }
    times.sort();
    (times[COMMANDS / 2], last.expect("it ran"))
}

pub(super) fn resident_bytes(place: &Place) -> u64 {
    place.processes_kib("VmRSS") << 10
}

/// A command of a user who has part in no flood.
fn as_other(place: &Place) -> Printed {
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=12003", "--regid=12003", "--clear-groups"]).arg(place.path("sawmill"));
    command.args(["zpool", "list", "-Ho", "name"]).env("SAWMILL_RUN", place.path("run"));
    place.print(&mut command)
}

/// As many descriptors as the system allows.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("it is allowed");
}

#[test]
fn users_who_flood_the_public_socket_do_not_delay_root() {
    let Some(place) = open_place() else { return };
    raise_descriptors();
    place.ok("zpool create -m none tank W/d1");
    let names: String = (0..DATASETS).map(|n| format!(" tank/{n:0200}")).collect();
    for name in names.split_whitespace() {
        place.ok(&format!("zfs create {name}"));
    }
    let list = || place.run("zpool list -Ho name");
    let other = || as_other(&place);
    let (quiet, _) = median_of(list);
    let (quiet_of_other, _) = median_of(other);
    let before_bytes = resident_bytes(&place);
    let socket = place.path("run/look");
    for (what, words) in floods() {
        let flood = as_thread_of(NOBODY, || flood(&socket, &words));
        let (busy, listed) = median_of(list);
        assert_eq!((listed.out.as_str(), listed.code), ("tank\n", 0), "{what}");
        let (busy_of_other, looked) = median_of(other);
        assert_eq!((looked.out.as_str(), looked.code), ("tank\n", 0), "{what}: {}", looked.err);
        let growth_bytes = resident_bytes(&place).saturating_sub(before_bytes);
        println!(
            "a user {what}: root {quiet:?}, then {busy:?}; another user {quiet_of_other:?}, then {busy_of_other:?}; \
             {} MiB more",
            growth_bytes >> 20
        );
        assert!(busy < quiet * 4 + Duration::from_millis(50), "{what}: {quiet:?}, then {busy:?}");
        assert!(busy_of_other < quiet_of_other * 4 + Duration::from_millis(50), "{what}: {busy_of_other:?}");
        assert!(growth_bytes < GROWTH_MAX_BYTES, "{what}: {growth_bytes} bytes more");
        drop(flood);
    }
}

/// Threads of the daemon: without a limit, each request that goes on takes one.
const THREADS_MAX: usize = 64;

/// The work on a request goes on when its user has hung up.
#[test]
fn users_who_hang_up_at_once_do_not_delay_root() {
    let Some(place) = open_place() else { return };
    place.ok("zpool create -m none tank W/d1");
    for n in 0..DATASETS {
        place.ok(&format!("zfs create tank/{n:0200}"));
    }
    let list = || place.run("zpool list -Ho name");
    let (quiet, _) = median_of(list);
    let (socket, is_over, sent) = (place.path("run/look"), AtomicBool::new(false), AtomicUsize::new(0));
    let request = post("/v1/dataset/list", 2, "{}");
    let hang_up_again_and_again = || {
        while !is_over.load(Relaxed) {
            let sends = UnixStream::connect(&socket).and_then(|mut stream| stream.write_all(&request));
            sent.fetch_add(usize::from(sends.is_ok()), Relaxed);
            std::thread::sleep(Duration::from_micros(500));
        }
    };
    let (busy, threads) = std::thread::scope(|scope| {
        scope.spawn(|| as_thread_of(NOBODY, hang_up_again_and_again));
        std::thread::sleep(Duration::from_secs(1));
        let measured = (median_of(list).0, threads_of(&place));
        is_over.store(true, Relaxed);
        measured
    });
    let sent = sent.into_inner();
    println!("{sent} requests without a reader: root {quiet:?}, then {busy:?}; {threads} threads");
    assert!(sent > 500, "hardly a request was sent: {sent}");
    assert!(busy < quiet * 4 + Duration::from_millis(50), "{quiet:?}, then {busy:?}");
    assert!(threads < THREADS_MAX, "{threads} threads");
}

fn threads_of(place: &Place) -> usize {
    let of = |number| std::fs::read_dir(format!("/proc/{number}/task")).expect("it lives").count();
    place.processes().into_iter().map(of).sum()
}

#[test]
fn a_user_with_too_many_requests_is_told_and_slow_ones_end() {
    let Some(place) = open_place() else { return };
    raise_descriptors();
    place.ok("zpool create -m none tank W/d1");
    let run = [("SAWMILL_RUN", place.path("run"))];
    let list = || as_user(&place, &run, "W/sawmill zpool list -Ho name");
    let mut flood = as_thread_of(NOBODY, || flood(&place.path("run/look"), b""));
    let refused = list();
    let words = "too many requests are under way\n";
    assert_eq!((refused.err.as_str(), refused.code), (words, 1));
    // Nobody has said anything, so all connections end.
    let begun = Instant::now();
    for stream in &mut flood {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        _ = stream.read_to_end(&mut Vec::new()).expect("it ends");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(list().out, "tank\n");
}
