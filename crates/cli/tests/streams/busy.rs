//! What commands may do to datasets while a stream is being received, and after a stream was
//! interrupted.

use super::{fed, stream_called, takes, written};
use crate::place::Place;
use std::io::Write;
use std::process::Stdio;

fn refused(place: &Place, line: &str, want: &str) {
    let printed = place.run(line);
    assert_eq!((printed.err.as_str(), printed.code), (format!("{want}\n").as_str(), 1), "{line}");
}

#[test]
fn a_stream_that_is_being_received_keeps_its_dataset_busy() {
    let place = Place::new();
    place.file("d1", 512);
    place.ok("zpool create -m none p W/d1");
    place.ok("zfs create p/in");
    let full = stream_called("full");
    let mut receiving = place.command("zfs receive p/in/run");
    let mut child = receiving.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(&full[..full.len() / 2]).expect("taken");
    while place.run("zfs list p/in/run").code != 0 {
        assert!(child.try_wait().expect("a child").is_none(), "it waits for more");
    }
    for (line, what) in [
        ("zfs destroy p/in/run", "cannot destroy 'p/in/run'"),
        ("zfs destroy -r p/in", "cannot destroy 'p/in/run'"),
        ("zfs rename p/in/run p/out", "cannot rename 'p/in/run'"),
        ("zfs rename p/in p/out", "cannot rename 'p/in/run'"),
        ("zfs snapshot p/in/run@torn", "cannot create snapshot 'p/in/run@torn'"),
    ] {
        refused(&place, line, &format!("{what}: dataset is busy"));
    }
    // A partially received dataset is left out.
    place.ok("zfs snapshot -r p@all");
    stdin.write_all(&full[full.len() / 2..]).expect("taken");
    drop(stdin);
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let names = "p\np@all\np/in\np/in@all\np/in/run\np/in/run@1\n";
    assert_eq!(place.ok("zfs list -Ho name -t all -r p"), names);
    place.ok("zfs destroy -r p/in");
}

#[test]
fn what_is_kept_of_a_stream_gets_no_snapshot_and_goes_with_its_dataset() {
    let place = Place::new();
    place.file("d1", 512);
    place.ok("zpool create -m none p W/d1");
    let (full, incr) = (stream_called("full"), stream_called("incr"));
    takes(&place, "zfs receive p/fs", &full);
    assert_eq!(fed(&place, "zfs receive -s p/fs", &incr[..incr.len() / 2]).code, 1);
    // The token names a snapshot of this pool.
    let whole = written(&place, "zfs send p/fs@1");
    assert_eq!(fed(&place, "zfs receive -s p/new", &whole[..whole.len() / 2]).code, 1);
    place.ok("zfs snapshot -r p@auto");
    let names = "p\np@auto\np/fs\np/fs@1\np/fs@auto\np/new\n";
    assert_eq!(place.ok("zfs list -Ho name -t all -r p"), names);
    refused(&place, "zfs snapshot p/new@torn", "cannot create snapshot 'p/new@torn': dataset is busy");
    // So the rest can be sent.
    takes(&place, "zfs receive p/from", &full);
    let token = place.ok("zfs get -Ho value receive_resume_token p/new");
    let rest = written(&place, &format!("zfs send -t {}", token.trim()));
    takes(&place, "zfs receive -s p/new", &rest);
    // The kept part of a stream does not prevent the destruction of its file system.
    assert!(place.ok("zfs get -Ho value receive_resume_token p/fs").starts_with("1-"));
    place.ok("zfs destroy -r p/fs");
    assert_eq!(place.ok("zfs list -Ho name -r p"), "p\np/from\np/new\n");
}
