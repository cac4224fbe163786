//! `zpool events` on real pools on files, by the real commands and the real daemon.
#![forbid(unsafe_code)]

mod place;

use place::Place;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The classes that `zpool events -H` tells, histories and configurations left out.
fn classes(place: &Place, line: &str) -> Vec<String> {
    let told = place.ok(line);
    let class = |line: &str| line.split_once('\t').map_or("?", |(_, class)| class).replace(".fs.zfs", "");
    let news = |class: &String| !matches!(class.as_str(), "sysevent.history_event" | "sysevent.config_sync");
    told.lines().map(class).filter(news).collect()
}

#[test]
fn what_happens_is_told_and_outlives_the_pool() {
    let place = Place::with_files();
    assert_eq!(place.ok("zpool events"), "TIME                           CLASS\n");
    place.ok("zpool create -m none tank mirror W/d1 W/d2 log W/l1");
    place.ok("zpool create -m none other W/l2");
    place.ok("zpool offline tank W/d2");
    place.ok("zpool online tank W/d2");
    place.ok("zpool wait -t resilver tank");
    place.ok("zpool remove tank W/l1");
    place.ok("zpool export tank");
    let all = classes(&place, "zpool events -H tank");
    let told = [
        "sysevent.pool_create",
        "resource.statechange",
        "resource.statechange",
        "sysevent.resilver_start",
        "sysevent.resilver_finish",
        "sysevent.vdev_remove_dev",
        "sysevent.pool_export",
    ];
    assert_eq!(all.iter().filter(|class| *class != "sysevent.vdev_online").collect::<Vec<_>>(), told);
    assert_eq!(classes(&place, "zpool events -H other"), ["sysevent.pool_create"]);
    assert_eq!(classes(&place, "zpool events -H nobody"), [""; 0]);

    let verbose = place.ok("zpool events -v tank");
    let change = verbose.split("\n\n").find(|event| event.contains("statechange")).expect("it is there");
    let lines: Vec<&str> = change.lines().skip(1).map(str::trim).collect();
    let words: Vec<&str> =
        lines.iter().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name).collect();
    let names = [
        "version",
        "class",
        "pool",
        "pool_guid",
        "pool_state",
        "pool_context",
        "vdev_guid",
        "vdev_state",
        "vdev_path",
        "vdev_laststate",
        "time",
        "eid",
    ];
    assert_eq!(words, names, "{change}");
    for told in
        ["vdev_state = \"OFFLINE\" (0x2)", "vdev_laststate = \"ONLINE\" (0x7)", "vdev_path = \"W/d2\""]
    {
        assert!(lines.contains(&told), "{told}: {change}");
    }

    let count = place.ok("zpool events -H").lines().count();
    assert_eq!(place.ok("zpool events -c"), format!("cleared {count} events\n"));
    assert_eq!(place.ok("zpool events -H"), "");
    place.ok("zpool import -d W/ tank");
    assert_eq!(classes(&place, "zpool events -H"), ["sysevent.pool_import"]);
}

#[test]
fn events_are_refused_in_the_words_of_openzfs() {
    let place = Place::new();
    let usage = "usage:\n\tevents [-vHfc] [pool]\n";
    for (line, reason) in [
        ("zpool events a b", "too many arguments\n"),
        ("zpool events -c tank", "invalid options combined with -c\n"),
        ("zpool events -cf", "invalid options combined with -c\n"),
        ("zpool events -cv", "invalid options combined with -c\n"),
        ("zpool events -cH", "invalid options combined with -c\n"),
        ("zpool events -z", "invalid option 'z'\n"),
        ("zpool events a/b", "invalid pool name 'a/b'\n"),
    ] {
        let printed = place.run(line);
        assert_eq!((printed.err, printed.code), (format!("{reason}{usage}"), 2), "{line}");
    }
}

/// `zpool events -f`, and what it tells.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn new(place: &Place, words: &[&str]) -> Self {
        // By itself, and not below `timeout`, which would leave it behind when it is killed.
        let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
        command.args(words).env("SAWMILL_RUN", place.path("run")).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let told = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || told.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// The next line that has this.
    fn next(&self, what: &str) {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(20));
            if line.unwrap_or_else(|_| panic!("{what} is told")).ends_with(what) {
                return;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn who_follows_hears_of_what_happens_also_of_the_next_daemon() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank mirror W/d1 W/d2");
    let follower = Follower::new(&place, &["zpool", "events", "-f", "tank"]);
    follower.next("sysevent.fs.zfs.pool_create");
    place.ok("zpool offline tank W/d1");
    follower.next("resource.fs.zfs.statechange");
    place.ok("daemon stop");
    assert_eq!(place.pid(), None, "who follows starts no daemon");
    place.ok("zpool online tank W/d1");
    follower.next("sysevent.fs.zfs.pool_import");
    follower.next("sysevent.fs.zfs.vdev_online");
}
