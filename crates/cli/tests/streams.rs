//! Streams by the real commands and the real daemon: what OpenZFS sent of a golden pool is sent again, and received.
#![forbid(unsafe_code)]

#[path = "streams/busy.rs"]
mod busy;
#[path = "streams/heads.rs"]
mod heads;
#[path = "streams/healed.rs"]
mod healed;
mod place;
#[path = "streams/redacted.rs"]
mod redacted;
#[path = "streams/trees.rs"]
mod trees;

use ondisk::send::DrrBody;
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
        ("zfs send -p -b whirl/fs@2", "props"),
        ("zfs send -h whirl/fs@2", "holds"),
        ("zfs send -R whirl/fs@r", "repl"),
    ] {
        let theirs = std::fs::read(golden::path(POOL).join(format!("{name}.zstream"))).expect("golden");
        let ours = written(&place, line);
        assert!(ours == theirs, "{line}: {} bytes, not {}", ours.len(), theirs.len());
        let told = place.ok(&line.replace("send", "send -nP"));
        if !["incr-all", "props", "holds", "repl"].contains(&name) {
            assert!(told.ends_with(&format!("size\t{}\n", theirs.len())), "{line}: {told}");
        }
    }
}

/// What the records of a stream say, but for the first and the last.
fn said(stream: &[u8]) -> Vec<(DrrBody, Vec<u8>)> {
    futures::executor::block_on(async {
        let (mut reader, mut said) = (stream::Reader::new(stream), Vec::new());
        while let Some(record) = reader.next_record().await.expect("a sound stream") {
            if !matches!(record.record.body, DrrBody::Begin(_) | DrrBody::End(_)) {
                said.push((record.record.body, record.payload.to_vec()));
            }
        }
        said
    })
}

/// What OpenZFS gave out for the stream that it had received in part.
fn token() -> String {
    std::fs::read_to_string(golden::path(POOL).join("token.txt")).expect("golden").trim().to_owned()
}

#[test]
fn what_openzfs_received_in_part_has_its_token() {
    let place = opened();
    // The same list, packed by another deflate.
    let ours = place.ok("zfs get -Ho value receive_resume_token whirl/in/part");
    let list = |token: &str| stream::token_list(token).expect("a token");
    assert_eq!(list(&ours), list(&token()));
    assert_eq!(place.ok("zfs get -Ho value,source receive_resume_token whirl/fs"), "-\t-\n");
    // BEGIN's list is in another encoding, so only what comes behind it is the same.
    let rest = written(&place, &format!("zfs send -t {}", token()));
    assert!(said(&rest) == said(&stream_called("resumed")));
    let told = place.ok(&format!("zfs send -nvt {}", token()));
    let size = rest.len();
    let want = "resume token contents:\nnvlist version: 0\n\tobject = 0x86\n\toffset = 0x0\n\tbytes = 0xa51b8\n\
         \ttoguid = 0x5a74fde78d092735\n\ttoname = whirl/fs@1\nfull send of whirl/fs@1 estimated size is ";
    assert!(told.starts_with(want) && told.contains("\ntotal estimated size is "), "{told}");
    let told = place.ok(&format!("zfs send -nPt {}", token()));
    assert!(told.ends_with(&format!("full\twhirl/fs@1\t{size}\nsize\t{size}\n")), "{told}");
}

#[test]
fn a_stream_that_breaks_off_goes_on_over_a_daemon_that_was_killed() {
    let place = Place::new();
    ["d1", "d2"].iter().for_each(|name| place.file(name, 512));
    place.ok("zpool create -m none p W/d1");
    place.ok("zpool create -m none q W/d2");
    takes(&place, "zfs receive p/fs", &stream_called("full-cLe"));
    takes(&place, "zfs receive -d p", &stream_called("vol"));
    let token = |name: &str| {
        let token = place.ok(&format!("zfs get -Ho value receive_resume_token {name}"));
        token.trim().to_owned()
    };
    for (from, to, flags) in [("p/fs@1", "q/new", "-cLe"), ("p/fs/vol@r", "q/vol", "")] {
        let whole = written(&place, &format!("zfs send {flags} {from}"));
        let broken = fed(&place, &format!("zfs receive -s {to}"), &whole[..whole.len() / 2]);
        let want = format!(
            "cannot receive new filesystem stream: checksum mismatch or incomplete stream.\n\
             Partially received snapshot is saved.\nA resuming stream can be generated on the sending system by \
             running:\n    zfs send -t {}\n",
            token(to)
        );
        assert_eq!((broken.err, broken.code), (want, 1));
        let exists = format!("destination '{to}' exists\nmust specify -F to overwrite it");
        let new = "cannot receive new filesystem stream";
        refuses(&place, &format!("zfs receive -s {to}"), &whole, &format!("{new}: {exists}"));
        let part =
            format!("{new}: destination {to} contains partially-complete state from \"zfs receive -s\".");
        refuses(&place, &format!("zfs receive -sF {to}"), &whole, &part);
        // Killed while it receives: the command that brings the stream dies with nothing but its daemon.
        let rest = written(&place, &format!("zfs send -t {}", token(to)));
        let mut receiving = place.command(&format!("zfs receive -s {to}"));
        let mut child = receiving.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(&rest[..rest.len() / 2]).expect("taken");
        place.ok("zpool sync q");
        place.kill();
        drop(stdin);
        assert!(!child.wait().expect("it ends").success());
        let rest = written(&place, &format!("zfs send -t {}", token(to)));
        takes(&place, &format!("zfs receive -s {to}"), &rest);
        assert_eq!(token(to), "-");
        let name = from.split('@').nth(1).expect("a snapshot");
        let guid = |name: &str| place.ok(&format!("zfs get -Hpo value guid,used {name}"));
        assert_eq!(guid(&format!("{to}@{name}")), guid(from));
        let again = written(&place, &format!("zfs send {flags} {to}@{name}"));
        assert_eq!(again.len(), whole.len());
    }
    // The snapshot is gone: nothing can be gone on with.
    let whole = written(&place, "zfs send p/fs@1");
    fed(&place, "zfs receive -s q/again", &whole[..whole.len() / 2]);
    let token = token("q/again");
    place.ok("zfs destroy p/fs@1");
    let said = place.run(&format!("zfs send -t {token}"));
    assert_eq!(
        said.err,
        "cannot resume send: 'whirl/fs@1' used in the initial send no longer exists\n".replace("whirl", "p")
    );
    let said = place.run("zfs send -t 1-2-3-00");
    assert_eq!(
        (said.err.as_str(), said.code),
        ("cannot resume send: resume token is corrupt (incorrect checksum)\n", 1)
    );
    place.ok("zfs receive -A q/again");
    let said = place.run("zfs receive -A q/new");
    let want = "'q/new' does not have any resumable receive state to abort\n";
    assert_eq!((said.err.as_str(), said.code), (want, 1));
    assert_eq!(place.ok("zfs list -Ho name -r q"), "q\nq/new\nq/vol\n");
}

/// Returns the number of bytes that a dataset references on disk, and 0 if there is no such dataset.
fn referenced(place: &Place, name: &str) -> u64 {
    place.run(&format!("zfs get -Hpo value referenced {name}")).out.trim().parse().unwrap_or(0)
}

#[test]
fn a_daemon_that_is_told_to_stop_ends_streams_and_keeps_what_was_to_be_kept() {
    let place = Place::new();
    place.file("d1", 512);
    place.ok("zpool create -m none p W/d1");
    let full = stream_called("full");
    let mut receiving = place.command("zfs receive -s p/fs");
    let mut child = receiving.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(&full[..2_000_000]).expect("taken");
    // A receive that is stopped before the first record after BEGIN keeps nothing.
    while referenced(&place, "p/fs") < 256 << 10 {
        assert!(child.try_wait().expect("a child").is_none(), "it waits for more");
        place.ok("zpool sync p");
    }
    // It is not waited for.
    place.ok("daemon stop");
    drop(stdin);
    assert!(!child.wait_with_output().expect("it ends").status.success());
    let token = place.ok("zfs get -Ho value receive_resume_token p/fs");
    assert!(token.starts_with("1-"), "{token}; log: {}", place.log());
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
    let several = "cannot receive: cannot specify snapshot name for multi-snapshot stream";
    refuses(&place, "zfs receive p/other@1", &stream_called("repl"), several);
    let raw = format!("{new}: a raw stream is not supported yet");
    refuses(&place, "zfs receive p/other", &stream_called("raw"), &raw);
    assert_eq!(place.ok("zfs list -Ho name -t all -r p"), "p\np/fs\np/fs@1\n");
}

/// Names and guids of a dataset, those below, and their snapshots, without its own name.
fn guids(place: &Place, root: &str) -> String {
    let all = place.ok(&format!("zfs get -Hpro name,value -t snapshot guid {root}"));
    all.replace(root, "")
}

#[test]
fn packages_of_openzfs_are_received() {
    let place = opened();
    place.file("d1", 512);
    place.ok("zpool create -m none p W/d1");
    takes(&place, "zfs receive p/props", &stream_called("props"));
    takes(&place, "zfs receive p/named@other", &stream_called("holds"));
    assert_eq!(place.ok("zfs list -Ho name -t snapshot p/props"), "p/props@2\n");
    assert_eq!(place.ok("zfs list -Ho name -t snapshot p/named"), "p/named@other\n");
    let told =
        takes(&place, "zfs receive -vu -o mountpoint=none -x recordsize p/tree", &stream_called("repl"));
    assert!(told.contains("receiving incremental stream of whirl/fs@r into p/tree@r\n"), "{told}");
    assert_eq!(guids(&place, "p/tree"), guids(&place, "whirl/fs"));
    let get = |what: &str| place.ok(&format!("zfs get -Ho value,source {what}"));
    assert_eq!(get("compression p/tree"), "zstd\treceived\n");
    assert_eq!(get("recordsize p/tree"), "128K\tdefault\n", "it was not wanted");
    assert_eq!(get("compression p/tree/kid"), "zstd\tinherited from p/tree\n");
    assert_eq!(get("mountpoint p/tree"), "none\tlocal\n");
    place.ok("zfs inherit -S recordsize p/tree");
    assert_eq!(get("recordsize p/tree"), "1M\treceived\n");
    // What is there is passed over.
    let told = takes(&place, "zfs receive -vu p/tree", &stream_called("incr-all"));
    assert!(told.contains("snap p/tree@2 already exists; ignoring\n"), "{told}");
    // What is sent again says the same.
    let list = |stream: &[u8]| {
        let mut reader = stream::Reader::new(stream);
        let first = futures::executor::block_on(reader.next_record()).expect("sound").expect("a record");
        ondisk::NvList::decode(&first.payload).expect("a list")
    };
    let (ours, theirs) = (list(&written(&place, "zfs send -R p/tree@r")), list(&stream_called("repl")));
    let snaps = |list: &ondisk::NvList| {
        let members = list.get_nvlist("fss").expect("there").iter();
        let mut all: Vec<_> = members
            .map(|(_, member)| match member {
                ondisk::NvValue::List(member) => member.get("snaps").cloned().expect("there"),
                other => panic!("{other:?}"),
            })
            .collect();
        all.sort_by_key(|snaps| format!("{snaps:?}"));
        all
    };
    assert_eq!(snaps(&ours), snaps(&theirs));
}

#[test]
fn a_tree_follows_the_one_that_it_is_replicated_from() {
    let place = Place::new();
    ["d1", "d2"].iter().for_each(|name| place.file(name, 256));
    place.ok("zpool create -m none p W/d1");
    place.ok("zpool create -m none q W/d2");
    for name in ["p/t", "p/t/a", "p/t/a/deep", "p/t/b", "p/t/goes", "p/t/late"] {
        place.ok(&format!("zfs create {name}"));
    }
    place.ok("zfs set org:by=me p/t/a");
    place.ok("zfs snapshot -r p/t@1");
    place.ok("zfs clone p/t/b@1 p/t/clone");
    place.ok("zfs hold keep p/t/a@1");
    let replicate = |flags: &str| {
        let stream = written(&place, &format!("zfs send -Rh {flags}"));
        takes(&place, "zfs receive -Fu q/t", &stream);
        assert_eq!(guids(&place, "q/t"), guids(&place, "p/t"), "{flags}");
    };
    replicate("p/t@1");
    assert_eq!(place.ok("zfs get -Ho value,source org:by q/t/a"), "me\treceived\n");
    assert!(place.ok("zfs holds -H q/t/a@1").starts_with("q/t/a@1\tkeep\t"));
    // What came since is a clone.
    place.ok("zfs snapshot -r p/t@2");
    replicate("-i @1 p/t@2");
    assert_eq!(place.ok("zfs get -Ho value origin q/t/clone"), "q/t/b@1\n");
    // Renamed, moved, made, destroyed, promoted, set and taken back; a snapshot with another name, one that is gone.
    place.ok("zfs rename p/t/a p/t/z");
    place.ok("zfs rename p/t/late p/t/z/later");
    place.ok("zfs destroy -r p/t/goes");
    place.ok("zfs promote p/t/clone");
    place.ok("zfs rename p/t/z/deep@1 p/t/z/deep@one");
    place.ok("zfs destroy p/t/z/later@1");
    place.ok("zfs create p/t/new");
    place.ok("zfs inherit org:by p/t/z");
    place.ok("zfs set org:by=you p/t/new");
    place.ok("zfs snapshot -r p/t@3");
    place.ok("zfs create q/t/own");
    place.ok("zfs snapshot q/t/b@own");
    replicate("-I @2 p/t@3");
    let names = place.ok("zfs list -Hro name p/t").replace("p/t", "q/t");
    assert_eq!(place.ok("zfs list -Hro name q/t"), names);
    assert_eq!(place.ok("zfs get -Ho value,source org:by q/t/z"), "-\t-\n");
    assert_eq!(place.ok("zfs get -Ho value,source org:by q/t/new"), "you\treceived\n");
    assert_eq!(place.ok("zfs get -Ho value origin q/t/b"), "q/t/clone@1\n");
    // One that has not the snapshot.
    place.ok("zfs destroy p/t/b@3");
    let said = place.run("zfs send -Rn p/t@3");
    let want = "cannot send p/t@3 recursively: snapshot p/t/b@3 does not exist\n\
                warning: cannot send 'p/t@3': backup failed\n";
    assert_eq!((said.err.as_str(), said.code), (want, 1));
    let said = place.run("zfs send -Rsn p/t@3");
    let want = "WARNING: skipping dataset p/t/b and its children: snapshot 3 does not exist\n";
    assert_eq!((said.err.as_str(), said.code), (want, 0));
    let told = place.ok("zfs send -RnP -X p/t/b,p/t/z -i @2 p/t@3");
    assert!(told.contains("incremental\t2\tp/t@3\t") && !told.contains("p/t/z"), "{told}");
}
