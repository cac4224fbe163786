//! Requests that no command sends, by a user to whom one dataset is delegated, while root works.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use super::floods::{as_thread_of, resident_bytes};
use super::{NOBODY, open_place};

/// Says how many requests are sent, in place of [`REQUESTS`].
const VARIABLE: &str = "SAWMILL_REQUESTS";
const REQUESTS: u64 = 4_000;
const THREADS: u64 = 4;
/// A command of root may take so long while requests come.
const COMMAND_MAX: Duration = Duration::from_secs(5);
const GROWTH_MAX_BYTES: u64 = 256 << 20;

/// Properties that change by a request only.
const SETTINGS: &str = "zfs get -Hpr -s default,local,inherited,received all tank/other";

const PERMISSIONS: &str = "create,mount,destroy,snapshot,rollback,clone,promote,rename,receive,send,hold,release,\
     bookmark,diff,allow,quota,reservation,compression,recordsize,mountpoint,canmount,userprop,userquota,groupquota";

const NAMES: &[&str] = &[
    "tank",
    "tank/u",
    "tank/u/a",
    "tank/u/b",
    "tank/u@s",
    "tank/u/a@s",
    "tank/u#m",
    "tank/other",
    "tank/other@s",
    "nope",
    "",
    "/",
    "@",
    "tank/",
    "tank//u",
    "tank/u/..",
    "tank/u@s@s",
    "tank/u/a%b",
    "%recv",
    "tank/u/\u{0}",
    "tank/u/\n",
    "tank/u/\u{1b}[2J",
    "-",
    "mirror",
    "100000000000000000000",
    "everyone",
    "keep",
    ".send-1",
];

const PROPS: &[&str] = &[
    "compression",
    "quota",
    "refquota",
    "reservation",
    "recordsize",
    "mountpoint",
    "canmount",
    "volsize",
    "org:x",
    "userquota@1",
    "sharenfs",
    "version",
    "type",
    "origin",
    "keylocation",
    "snapshot_limit",
    "",
];

const VALUES: &[&str] = &[
    "on",
    "off",
    "none",
    "0",
    "1",
    "-1",
    "1M",
    "18446744073709551616",
    "128K",
    "/etc",
    "legacy",
    "lz4",
    "\u{0}",
    "",
];

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.usize(..of.len())]
}

fn any_text(rng: &mut Rng) -> String {
    match rng.u8(..8) {
        0 => "x".repeat(rng.usize(..300)),
        1 => pick(rng, VALUES).to_owned(),
        2 => format!("tank/u/{}", rng.u8(..)),
        _ => pick(rng, NAMES).to_owned(),
    }
}

fn any_number(rng: &mut Rng) -> Value {
    match rng.u8(..6) {
        0 => json!(u64::MAX),
        1 => json!(-1),
        2 => json!(1e300),
        3 => json!(1_u64 << rng.u8(..63)),
        _ => json!(rng.u8(..4)),
    }
}

fn any_value(rng: &mut Rng, depth: usize) -> Value {
    match rng.u8(..if depth == 0 { 5 } else { 8 }) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => any_number(rng),
        3 | 4 => json!(any_text(rng)),
        5 => json!([pick(rng, PROPS), pick(rng, VALUES)]),
        6 => (0..rng.usize(..4)).map(|_| any_value(rng, depth - 1)).collect(),
        _ => json!({ any_text(rng): any_value(rng, depth - 1) }),
    }
}

/// A value in place of another, mostly of the same kind.
fn changed(rng: &mut Rng, value: &Value) -> Value {
    if rng.u8(..10) == 0 {
        return any_value(rng, 3);
    }
    match value {
        Value::Bool(_) => json!(rng.bool()),
        Value::Number(_) => any_number(rng),
        Value::String(_) | Value::Null => json!(any_text(rng)),
        Value::Array(_) if rng.bool() => (0..rng.usize(..4)).map(|_| json!(any_text(rng))).collect(),
        Value::Array(_) => {
            (0..rng.usize(..4)).map(|_| json!([pick(rng, PROPS), pick(rng, VALUES)])).collect()
        }
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), changed(rng, value))).collect()
        }
    }
}

/// The bytes of a request of one kind.
fn request(rng: &mut Rng, kinds: &[(&'static str, Value)]) -> Vec<u8> {
    let (path, blank) = &kinds[rng.usize(..kinds.len())];
    let mut body = blank.clone();
    for (_, value) in body.as_object_mut().into_iter().flatten() {
        if rng.u8(..3) > 0 {
            *value = changed(rng, value);
        }
    }
    let mut bytes = body.to_string().into_bytes();
    if rng.u8(..20) == 0 {
        let at = rng.usize(..bytes.len());
        bytes[at] = rng.u8(..);
    }
    let length = if rng.u8(..200) == 0 { rng.usize(..200_000) } else { bytes.len() };
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
    [head.into_bytes(), bytes].concat()
}

/// Sends a request and reads the status of the response, if there is one in time.
fn status_of(socket: &Path, request: &[u8]) -> Option<u16> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(request).ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head).ok()?.rsplit(' ').next()?.parse().ok()
}

/// How many requests were answered, by what the status says.
#[derive(Default)]
struct Answered {
    done: AtomicU64,
    refused: AtomicU64,
    garbled: AtomicU64,
    silent: AtomicU64,
}

impl Answered {
    fn count(&self, status: Option<u16>) {
        let counter = match status {
            Some(200) => &self.done,
            Some(422) => &self.refused,
            Some(_) => &self.garbled,
            None => &self.silent,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn send_all(socket: &Path, seed: u64, number: u64, answered: &Answered) {
    let kinds = control::blank_requests();
    let mut rng = Rng::with_seed(seed);
    for _ in 0..number {
        answered.count(status_of(socket, &request(&mut rng, &kinds)));
    }
}

#[test]
fn requests_that_no_command_sends_end_no_daemon_and_delay_no_root() {
    let Some(place) = open_place() else { return };
    let number = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(REQUESTS);
    place.ok("zpool create -m none tank W/d1");
    for line in ["create tank/u", "create tank/other", "snapshot tank/other@s"] {
        place.ok(&format!("zfs {line}"));
    }
    place.ok(&format!("zfs allow -u {NOBODY} {PERMISSIONS} tank/u"));
    let other = place.ok(SETTINGS);
    let (processes, before_bytes) = (place.processes(), resident_bytes(&place));
    let (answered, is_over) = (Answered::default(), AtomicBool::new(false));
    let socket = place.path("run/look");
    let slowest = std::thread::scope(|scope| {
        let (socket, answered) = (&socket, &answered);
        let send = move |seed| move || send_all(socket, seed, number / THREADS, answered);
        let senders: Vec<_> =
            (0..THREADS).map(|seed| scope.spawn(move || as_thread_of(NOBODY, send(seed)))).collect();
        let root = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !is_over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                place.ok("zpool list");
                slowest = slowest.max(begun.elapsed());
            }
            slowest
        });
        senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
        is_over.store(true, Ordering::Relaxed);
        root.join().expect("root's commands work")
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let growth_bytes = resident_bytes(&place).saturating_sub(before_bytes);
    println!(
        "{} requests done, {} refused, {} not understood, {} without an answer; slowest zpool list {slowest:?}, {} MiB more",
        count(&answered.done),
        count(&answered.refused),
        count(&answered.garbled),
        count(&answered.silent),
        growth_bytes >> 20,
    );
    assert_eq!(place.processes(), processes, "the processes live; log: {}", place.log());
    assert!(
        count(&answered.done) > number / 20 && count(&answered.refused) > number / 20,
        "hardly a request is understood"
    );
    assert!(slowest < COMMAND_MAX, "{slowest:?}");
    assert!(growth_bytes < GROWTH_MAX_BYTES, "{growth_bytes} bytes more");
    assert_eq!(place.ok(SETTINGS), other, "nothing of it was delegated");
    let outside = place.ok("zfs list -Hro name -t all tank");
    let is_foreign =
        |name: &&str| !["tank", "tank/other", "tank/other@s"].contains(name) && !name.starts_with("tank/u");
    assert_eq!(outside.lines().find(is_foreign), None);
    place.ok("zpool scrub -w tank");
    assert!(place.ok("zpool status tank").contains("errors: No known data errors"));
}
