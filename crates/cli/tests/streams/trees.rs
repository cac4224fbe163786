//! Packages of trees: which streams are sent, in which order, which datasets are left out, and the
//! result at the receiver.

use super::{fed, guids, refuses, said, stream_called, takes, written};
use crate::place::Place;
use ondisk::send::DrrBody;
use ondisk::{NvList, NvValue};
use std::io::Read;
use std::process::{Command, Stdio};

/// Length of a record of a stream, without its payload.
const RECORD_BYTES: usize = 312;

/// Two pools, `p` and `q`, in which nothing is mounted.
fn two_pools() -> Place {
    let place = Place::new();
    ["d1", "d2"].iter().for_each(|name| place.file(name, 256));
    place.ok("zpool create -m none p W/d1");
    place.ok("zpool create -m none q W/d2");
    place
}

/// Lists the names, snapshots (by guid) and origins of a tree, without its own name.
fn shape(place: &Place, root: &str) -> String {
    let origins = place.ok(&format!("zfs get -Hro name,value -t filesystem origin {root}"));
    guids(place, root) + &origins.replace(root, "")
}

/// Sends a package, receives it, and compares the two trees.
fn replicate(place: &Place, send: &str, receive: &str, trees: (&str, &str)) {
    let stream = written(place, &format!("zfs send -R {send}"));
    takes(place, &format!("zfs receive -u {receive}"), &stream);
    assert_eq!(shape(place, trees.1), shape(place, trees.0), "{send}");
}

#[test]
fn a_promoted_clone_below_its_origin_is_replicated() {
    let place = two_pools();
    place.ok("zfs create p/t");
    place.ok("zfs snapshot p/t@r0");
    place.ok("zfs clone p/t@r0 p/t/c");
    place.ok("zfs promote p/t/c");
    place.ok("zfs set org:by=c p/t/c");
    place.ok("zfs snapshot -r p/t@r2");
    let trees = ("p/t", "q/t");
    replicate(&place, "p/t@r2", "-Fd q", trees);
    assert_eq!(place.ok("zfs get -Ho value origin q/t"), "q/t/c@r0\n");
    assert_eq!(place.ok("zfs get -Hro name,value -s received org:by q/t"), "q/t/c\tc\n");
    place.ok("zfs promote p/t");
    place.ok("zfs snapshot -r p/t@r3");
    replicate(&place, "-I @r2 p/t@r3", "-Fd q", trees);
    // A clone that was created and promoted since then.
    place.ok("zfs clone p/t@r3 p/t/c/d");
    place.ok("zfs promote p/t/c/d");
    place.ok("zfs snapshot -r p/t@r4");
    let said = place.run("zfs send -R -I @r3 p/t@r4");
    assert_eq!(said.err, "cannot open 'p/t@r3': dataset does not exist\n");
}

#[test]
fn a_package_of_nothing_is_an_error() {
    let place = two_pools();
    place.ok("zfs create p/t");
    place.ok("zfs create p/t/a");
    ["1", "2"].iter().for_each(|snap| _ = place.ok(&format!("zfs snapshot -r p/t@{snap}")));
    let fails = |line: &str, want: &str| {
        let printed = place.run(line);
        assert_eq!((printed.err.as_str(), printed.code), (want, 1), "{line}");
    };
    fails(
        "zfs send -R -i @2 p/t@2",
        "WARNING: could not send p/t@2:\nincremental source (p/t@2) is not earlier than it\n",
    );
    fails(
        "zfs send -R -I @2 p/t@1",
        "WARNING: could not send p/t@1:\nincremental source (p/t@2) is not earlier than it\n",
    );
    fails("zfs send -R -X p/t p/t@2", "warning: cannot send 'p/t@2': all datasets are excluded\n");
}

/// Starts the program as a direct child, so that the test can kill it.
fn program(place: &Place, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
    command.args(line.split_whitespace()).env("SAWMILL_RUN", place.path("run"));
    command
}

/// Lists the blocks in a stream: object, offset and data.
fn blocks(stream: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let block = |(body, bytes): (DrrBody, Vec<u8>)| match body {
        DrrBody::Write(write) => Some((write.object.get(), write.offset.get(), bytes)),
        _ => None,
    };
    said(stream).into_iter().filter_map(block).collect()
}

/// Lists the datasets in the list of a package, sorted by name.
fn listed(stream: &[u8]) -> Vec<String> {
    let mut reader = stream::Reader::new(stream);
    let first = futures::executor::block_on(reader.next_record()).expect("sound").expect("a record");
    let list = NvList::decode(&first.payload).expect("a list");
    let name = |member: &NvValue| match member {
        NvValue::List(member) => member.get_str("name").expect("there").to_owned(),
        other => panic!("{other:?}"),
    };
    let mut names: Vec<String> =
        list.get_nvlist("fss").expect("there").iter().map(|(_, member)| name(member)).collect();
    names.sort();
    names
}

#[test]
fn what_is_excluded_stays_on_the_replica() {
    let place = two_pools();
    for name in ["p/t", "p/t/a", "p/t/x", "p/t/x/below", "p/t/xy"] {
        place.ok(&format!("zfs create {name}"));
    }
    place.ok("zfs snapshot -r p/t@1");
    replicate(&place, "p/t@1", "-Fd q", ("p/t", "q/t"));
    place.ok("zfs snapshot -r p/t@2");
    place.ok("zfs destroy -r p/t/a");
    // A dataset without the snapshot is left out too.
    place.ok("zfs destroy p/t/x@2");
    let stream = written(&place, "zfs send -R -X p/t/x -I @1 p/t@2");
    assert_eq!(listed(&stream), ["p/t", "p/t/x", "p/t/x/below", "p/t/xy"]);
    takes(&place, "zfs receive -Fud q", &stream);
    assert_eq!(
        place.ok("zfs list -Hro name -t all q/t"),
        "q/t\nq/t@1\nq/t@2\nq/t/x\nq/t/x@1\nq/t/x/below\nq/t/x/below@1\nq/t/xy\nq/t/xy@1\nq/t/xy@2\n"
    );
}

#[test]
fn a_tree_that_cannot_follow_is_a_failure_that_says_where() {
    let place = two_pools();
    for name in ["p/t", "p/t/a"] {
        place.ok(&format!("zfs create {name}"));
    }
    ["1", "2"].iter().for_each(|snap| _ = place.ok(&format!("zfs snapshot -r p/t@{snap}")));
    replicate(&place, "p/t@2", "-Fd q", ("p/t", "q/t"));
    place.ok("zfs hold keep q/t/a@1");
    place.ok("zfs destroy p/t/a@1");
    place.ok("zfs snapshot -r p/t@3");
    let stream = written(&place, "zfs send -R -I @2 p/t@3");
    let printed = fed(&place, "zfs receive -Fud q", &stream);
    assert_eq!(printed.code, 1);
    let want =
        "cannot receive: 'q/t' is not as it is at the sender's:\n'q/t/a@1' is not at the sender's any more\n";
    assert!(printed.err.starts_with(want), "{}", printed.err);
    // The received streams are not received a second time.
    place.ok("zfs release keep q/t/a@1");
    takes(&place, "zfs receive -Fud q", &stream);
    assert_eq!(shape(&place, "q/t"), shape(&place, "p/t"));
}

#[test]
fn what_is_received_in_part_goes_on_from_its_own_history() {
    let place = two_pools();
    takes(&place, "zfs receive p/s", &stream_called("full"));
    takes(&place, "zfs receive p/s", &stream_called("incr"));
    // Copies in the same pool, one of which sorts first.
    takes(&place, "zfs receive p/a", &written(&place, "zfs send p/s@1"));
    takes(&place, "zfs receive p/r", &written(&place, "zfs send p/s@1"));
    takes(&place, "zfs receive p/z", &written(&place, "zfs send p/s@1"));
    let whole = written(&place, "zfs send -i @1 p/s@2");
    fed(&place, "zfs receive -s p/r", &whole[..whole.len() * 3 / 4]);
    let saved = written(&place, "zfs send --saved p/r");
    assert!(saved.len() > whole.len() / 2, "{} of {}", saved.len(), whole.len());
    let size = place.ok("zfs send -nP --saved p/r");
    assert!(size.ends_with(&format!("size\t{}\n", saved.len())), "{size}");
    let token = place.ok("zfs get -Ho value receive_resume_token p/r");
    let rest = written(&place, &format!("zfs send -t {token}"));
    takes(&place, "zfs receive -s p/r", &rest);
    assert!(blocks(&written(&place, "zfs send p/r@2")) == blocks(&written(&place, "zfs send p/s@2")));
}

#[test]
fn of_a_stream_that_breaks_off_after_its_begin_record_nothing_is_saved_or_sent() {
    let place = two_pools();
    takes(&place, "zfs receive p/s", &stream_called("full"));
    takes(&place, "zfs receive p/s", &stream_called("incr"));
    takes(&place, "zfs receive p/r", &written(&place, "zfs send p/s@1"));
    let stream = written(&place, "zfs send -i @1 p/s@2");
    fed(&place, "zfs receive -s p/r", &stream[..RECORD_BYTES]);
    assert_eq!(place.ok("zfs get -Ho value receive_resume_token p/r"), "-\n");
    let refused = place.run("zfs send --saved p/r");
    let words = "saved send failed: 'p/r' has no saved state\n";
    assert_eq!((refused.code, &refused.out[..], &refused.err[..]), (1, "", words));
}

#[test]
fn a_token_that_was_read_too_early_leads_to_the_same_end() {
    let place = two_pools();
    takes(&place, "zfs receive p/s", &stream_called("full"));
    let whole = written(&place, "zfs send p/s@1");
    let mut receiving = program(&place, "zfs receive -s q/r");
    let mut child = receiving.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    let token = || {
        let printed = place.run("zfs get -Ho value receive_resume_token q/r");
        printed.out.trim().to_owned()
    };
    std::io::Write::write_all(&mut stdin, &whole[..whole.len() / 3]).expect("taken");
    let early = loop {
        place.ok("zpool sync q");
        match token() {
            token if token.starts_with("1-") => break token,
            _ => assert!(child.try_wait().expect("a child").is_none(), "it waits for more"),
        }
    };
    std::io::Write::write_all(&mut stdin, &whole[whole.len() / 3..whole.len() * 3 / 4]).expect("taken");
    place.ok("zpool sync q");
    child.kill().expect("killed");
    child.wait().expect("it ends");
    // At once, while the received part is still being written.
    let rest = written(&place, &format!("zfs send -t {early}"));
    takes(&place, "zfs receive -s q/r", &rest);
    assert!(blocks(&written(&place, "zfs send q/r@1")) == blocks(&whole));
    drop(stdin);
}

#[test]
fn a_target_that_is_not_there_or_in_the_way_is_refused() {
    let place = two_pools();
    let full = stream_called("full");
    for flag in ["-d", "-e"] {
        let no_target = "cannot receive: specified fs (q/typo) does not exist";
        refuses(&place, &format!("zfs receive {flag} q/typo"), &full, no_target);
    }
    assert_eq!(place.ok("zfs list -Ho name -r q"), "q\n");
    // A clone is not created where a dataset exists.
    takes(&place, "zfs receive q/fs", &full);
    takes(&place, "zfs receive q/fs", &stream_called("incr"));
    let clone = stream_called("clone");
    takes(&place, "zfs receive q/clone", &clone);
    let exists =
        "cannot receive new filesystem stream: destination 'q/clone' exists\nmust specify -F to overwrite it";
    refuses(&place, "zfs receive q/clone", &clone, exists);
    refuses(&place, "zfs receive -o origin=q/fs@2 q/clone", &clone, exists);
    let exists = exists.replace("clone", "fs");
    refuses(&place, "zfs receive -o origin=q/fs@1 q/fs", &stream_called("incr"), &exists);
}

#[test]
fn snapshots_that_are_to_be_sent_stay_until_the_send_ends() {
    let place = two_pools();
    takes(&place, "zfs receive p/fs", &stream_called("full"));
    takes(&place, "zfs receive p/fs", &stream_called("incr-all"));
    let mut sending = program(&place, "zfs send -R p/fs@3");
    let mut child = sending.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    let mut stdout = child.stdout.take().expect("piped");
    stdout.read_exact(&mut [0; 1000]).expect("it has begun");
    for name in ["p/fs@2", "p/fs@3"] {
        let printed = place.run(&format!("zfs destroy {name}"));
        assert_eq!(printed.code, 1, "{name}");
        assert!(printed.err.contains("dataset is busy"), "{}", printed.err);
    }
    child.kill().expect("killed");
    child.wait().expect("it ends");
    drop(stdout);
    // The daemon notices soon that the reader is gone.
    let begun = std::time::Instant::now();
    while place.run("zfs destroy p/fs@2").code != 0 {
        assert!(begun.elapsed().as_secs() < 30, "it is held for ever");
    }
}
