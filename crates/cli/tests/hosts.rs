//! Two hosts that reach the same devices: two daemons, each with a run-time directory and a host
//! number of its own.
#![forbid(unsafe_code)]

mod place;

use oracle::needs::Need;
use place::{Place, Printed};
use std::process::Command;

const A: &str = "a1";
const B: &str = "b2";

/// Runs a command on a host; its daemon's files are in a directory of that name.
fn on(place: &Place, host: &str, line: &str) -> Printed {
    let mut command = place.command(line);
    command.env("SAWMILL_RUN", place.path(host)).env("SAWMILL_HOSTID", host).env("TZ", "UTC");
    place.print(&mut command)
}

fn ok_on(place: &Place, host: &str, line: &str) -> String {
    let printed = on(place, host, line);
    assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{host}: {line}");
    printed.out
}

fn kill_on(place: &Place, host: &str) {
    let pid = ok_on(place, host, "daemon status --pid");
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().expect("kill runs").success());
    place::wait_for_the_end_of(pid.trim());
}

/// A pool of host A's, whose daemon is then killed.
struct TwoHosts(Place);

impl TwoHosts {
    fn with_a_down() -> Self {
        let place = Place::with_files();
        ok_on(&place, A, "zpool create -m none p1 W/d1");
        kill_on(&place, A);
        Self(place)
    }

    fn log_of(&self, host: &str) -> String {
        std::fs::read_to_string(self.0.path(host).join("daemon.log")).expect("a log")
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        for host in [A, B] {
            on(&self.0, host, "daemon stop");
        }
    }
}

#[test]
fn a_pool_that_only_went_down_with_its_host_is_brought_back() {
    let hosts = TwoHosts::with_a_down();
    assert_eq!(ok_on(&hosts.0, A, "zpool list -Ho name"), "p1\n");
}

#[test]
fn a_pool_that_another_host_took_is_left_to_it() {
    let hosts = TwoHosts::with_a_down();
    let place = &hosts.0;
    let refused = on(place, B, "zpool import -d W/ p1");
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("pool was previously in use from another system.\n"), "{}", refused.err);
    assert!(refused.err.contains("(hostid=a1) at "), "{}", refused.err);
    ok_on(place, B, "zpool import -f -d W/ p1");
    ok_on(place, B, "zfs create p1/of-b");
    kill_on(place, B);
    let told = on(place, A, "zpool scrub p1");
    let lines: Vec<&str> = told.err.lines().collect();
    assert_eq!(told.code, 1, "{}", told.out);
    assert_eq!(lines[0], "cannot open 'p1': no such pool");
    assert_eq!(lines[1], "cannot import 'p1': pool was previously in use from another system.");
    assert!(lines[2].starts_with("Last accessed by ") && lines[2].contains("(hostid=b2) at "), "{lines:?}");
    assert_eq!(lines[3], "The pool can be imported, use 'zpool import -f' to import the pool.");
    let status = ok_on(place, A, "zpool status p1");
    assert!(status.contains(" state: UNAVAIL\n"), "{status}");
    lines[1..].iter().for_each(|line| assert!(status.contains(&format!("\t{line}\n")), "{line}: {status}"));
    assert!(hosts.log_of(A).contains("in use from another system"), "{}", hosts.log_of(A));
    assert!(ok_on(place, A, "zpool import -d W/").contains("last accessed by another system"));
    assert_eq!(ok_on(place, A, "zpool list -Ho name,health"), "p1\tUNAVAIL\n");
    // Its own owner finds it as it was left.
    assert_eq!(ok_on(place, B, "zfs list -Ho name"), "p1\np1/of-b\n");
}

#[test]
fn a_pool_that_another_host_exported_is_not_taken_back_and_not_tried_again() {
    let hosts = TwoHosts::with_a_down();
    let place = &hosts.0;
    ok_on(place, B, "zpool import -f -d W/ p1");
    ok_on(place, B, "zpool export p1");
    let told = on(place, A, "zpool status p1");
    assert_eq!(told.code, 1);
    assert!(told.err.contains("cannot import 'p1': pool was exported by another system\n"), "{}", told.err);
    assert!(ok_on(place, A, "daemon status").contains("missing: p1: cannot import 'p1': pool was exp"));
    ok_on(place, A, "daemon stop");
    assert_eq!(on(place, A, "zpool status p1").err, "cannot open 'p1': no such pool\n");
    ok_on(place, A, "zpool import -d W/ p1");
    assert_eq!(ok_on(place, A, "zpool list -Ho name"), "p1\n");
}

#[test]
fn devices_that_hold_an_older_state_than_was_left_are_not_written_to() {
    let place = Place::with_files();
    ok_on(&place, A, "zpool create -m none p1 W/d1");
    ok_on(&place, A, "zpool export p1");
    ok_on(&place, A, "zpool import -d W/ p1");
    kill_on(&place, A);
    std::fs::copy(place.path("d1"), place.path("old")).expect("copied");
    ok_on(&place, A, "zpool sync p1");
    ok_on(&place, A, "zfs create p1/late");
    ok_on(&place, A, "zpool sync p1");
    ok_on(&place, A, "zpool set cachefile= p1");
    kill_on(&place, A);
    std::fs::rename(place.path("old"), place.path("d1")).expect("put back");
    let told = ok_on(&place, A, "zpool status p1");
    assert!(told.contains("its devices hold an older state than this system left\n"), "{told}");
    ok_on(&place, A, "zpool import -d W/ p1");
    assert_eq!(ok_on(&place, A, "zfs list -Ho name"), "p1\n");
    on(&place, A, "daemon stop");
}

#[test]
fn a_half_that_another_host_wrote_is_refused_by_name() {
    let place = Place::with_files();
    ok_on(&place, A, "zpool create -m none p1 mirror W/d1 W/d2");
    ok_on(&place, A, "zpool offline p1 W/d2");
    ok_on(&place, A, "zfs create p1/of-a");
    ok_on(&place, B, "zpool import -f -d W/d2 p1");
    ok_on(&place, B, "zfs create p1/of-b");
    ok_on(&place, B, "zpool export p1");
    let told = on(&place, A, "zpool online p1 W/d2");
    assert!(told.code != 0 && told.err.contains("W/d2 was written by another system"), "{}", told.err);
    assert!(told.err.contains("zpool labelclear"), "{}", told.err);
    let status = ok_on(&place, A, "zpool status p1");
    assert!(status.contains("written by another system") && status.contains("DEGRADED"), "{status}");
    assert!(status.contains("status: Another system wrote to one or more devices"), "{status}");
    ok_on(&place, A, "zpool export p1");
    let told = on(&place, A, "zpool import -d W/ p1");
    assert!(told.code != 0 && told.err.contains("different histories"), "{}", told.err);
    assert!(["W/d1", "W/d2", "zpool import -d"].iter().all(|word| told.err.contains(word)), "{}", told.err);
    let listed = ok_on(&place, A, "zpool import -d W/");
    assert!(listed.contains("different\n\thistories"), "{listed}");
    for (device, dataset) in [("W/d1", "p1/of-a"), ("W/d2", "p1/of-b")] {
        ok_on(&place, A, &format!("zpool import -f -d {device} p1"));
        assert_eq!(ok_on(&place, A, "zfs list -Ho name"), format!("p1\n{dataset}\n"));
        ok_on(&place, A, "zpool export p1");
    }
    ok_on(&place, A, "zpool labelclear -f W/d2");
    ok_on(&place, A, "zpool import -d W/ p1");
    assert_eq!(ok_on(&place, A, "zfs list -Ho name"), "p1\np1/of-a\n");
    on(&place, A, "daemon stop");
    on(&place, B, "daemon stop");
}

#[test]
fn after_a_crash_the_half_that_is_up_to_date_is_waited_for() {
    let place = Place::with_files();
    ok_on(&place, A, "zpool create -m none p1 mirror W/d1 W/d2");
    ok_on(&place, A, "zpool offline p1 W/d2");
    ok_on(&place, A, "zfs create p1/late");
    kill_on(&place, A);
    std::fs::rename(place.path("d1"), place.path("hidden")).expect("a loose cable");
    let told = ok_on(&place, A, "zpool status p1");
    assert!(told.contains("its devices hold an older state than this system left\n"), "{told}");
    on(&place, A, "daemon stop");
    std::fs::rename(place.path("hidden"), place.path("d1")).expect("it is back");
    assert_eq!(ok_on(&place, A, "zfs list -Ho name"), "p1\np1/late\n");
    on(&place, A, "daemon stop");
}

#[test]
fn a_pool_that_is_given_up_is_missed_no_more() {
    let hosts = TwoHosts::with_a_down();
    let place = &hosts.0;
    std::fs::remove_file(place.path("d1")).expect("removed");
    let told = on(place, A, "zpool scrub p1");
    assert!(told.err.ends_with("cannot import 'p1': no such pool available\n"), "{}", told.err);
    assert_eq!(ok_on(place, A, "zpool list -Ho name,health"), "p1\tUNAVAIL\n");
    ok_on(place, A, "zpool export p1");
    assert!(!ok_on(place, A, "daemon status").contains("missing"));
    assert_eq!(on(place, A, "zpool export p1").err, "cannot open 'p1': no such pool\n");
}

/// Runs a command on a host that has no `/etc/hostid`, in a container as it were.
fn in_container(place: &Place, line: &str) -> Printed {
    let inner = place.command(line);
    let mut command = Command::new("unshare");
    command.args([
        "-m",
        "sh",
        "-c",
        "! test -e /etc/hostid || mount --bind /dev/null /etc/hostid; exec \"$@\"",
        "sh",
    ]);
    command.arg(inner.get_program()).args(inner.get_args()).env("SAWMILL_RUN", place.path("run"));
    place.print(&mut command)
}

#[test]
fn a_pool_whose_devices_are_gone_for_a_month_is_forgotten() {
    let hosts = TwoHosts::with_a_down();
    let place = &hosts.0;
    std::fs::remove_file(place.path("d1")).expect("removed");
    // The process of the first pool has this list.
    let list = place.path(A).join("pools/1/pools.cache");
    ok_on(place, A, "daemon start");
    ok_on(place, A, "daemon stop");
    let cached = || -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(&list).expect("reads")).expect("a list")
    };
    let mut pools = cached();
    let since = pools[0]["missing_since_secs"].as_u64().expect("since when is noted");
    pools[0]["missing_since_secs"] = (since - 31 * 24 * 3600).into();
    std::fs::write(&list, pools.to_string()).expect("writes");
    ok_on(place, A, "daemon start");
    assert!(hosts.log_of(A).contains("is not tried again"), "{}", hosts.log_of(A));
    assert_eq!(cached(), serde_json::json!([]));
    ok_on(place, A, "daemon stop");
    ok_on(place, A, "daemon start");
    assert!(!list.exists());
    assert!(!ok_on(place, A, "daemon status").contains("missing"));
}

#[test]
fn a_host_without_a_number_makes_one_and_keeps_it() {
    if !rustix::process::geteuid().is_root() {
        Need::Root.is_missing("only root can take /etc/hostid away");
        return;
    }
    let place = Place::with_files();
    let ok = |line: &str| {
        let printed = in_container(&place, line);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
        printed.out
    };
    ok("zpool create -m none p1 W/d1");
    let made = std::fs::read(place.path("run/hostid")).expect("a number");
    assert_eq!(made.len(), 4);
    place.kill();
    assert_eq!(ok("zpool list -Ho name"), "p1\n");
    place.kill();
    assert_eq!(std::fs::read(place.path("run/hostid")).expect("a number"), made);
    let refused = on(&place, B, "zpool import -d W/ p1");
    assert!(refused.err.contains("previously in use from another system"), "{}", refused.err);
    on(&place, B, "daemon stop");
}

/// Tells this test that it runs as a program that uses the library.
const AS_PROGRAM: &str = "SAWMILL_TEST_DEVICE";

#[test]
fn a_program_opens_what_the_daemon_left_at_a_crash_and_the_other_way_round() {
    if let Some(device) = std::env::var_os(AS_PROGRAM) {
        let engine = sawmill::blocking::Engine::start();
        let pool = engine.import("p1", &[device]).expect("this host's own");
        pool.create_filesystem("p1/by-program").expect("made");
        pool.sync().expect("stable");
        // A crash, as far as the pool can tell.
        std::process::exit(0);
    }
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    place.kill();
    let name = "a_program_opens_what_the_daemon_left_at_a_crash_and_the_other_way_round";
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", name]).env(AS_PROGRAM, place.path("d1")).env("SAWMILL_RUN", place.path("run"));
    let ended = place.print(&mut program);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert_eq!(place.ok("zfs list -Ho name"), "p1\np1/by-program\n");
}

/// Runs a command on a host whose daemon, should this start it, writes ten heartbeats a second and stops after three
/// seconds without one.
fn shared_on(place: &Place, host: &str, line: &str) -> Printed {
    let mut command = place.command(line);
    command.env("SAWMILL_RUN", place.path(host)).env("SAWMILL_HOSTID", host).env("TZ", "UTC");
    command.env("SAWMILL_MULTIHOST_INTERVAL", "0.1").env("SAWMILL_MULTIHOST_FAIL_INTERVALS", "30");
    place.print(&mut command)
}

fn signal(pid: &str, signal: &str) {
    assert!(Command::new("kill").args([signal, pid.trim()]).status().expect("kill runs").success());
}

/// The lines that `zdb` shows of heartbeats in the uberblocks of a device; with fewer `u` it passes over those between txgs.
fn mmp_lines(place: &Place, device: &str) -> Option<Vec<String>> {
    let Ok(shown) = Command::new("zdb").arg("-luuuu").arg(place.path(device)).output() else {
        Need::Zdb.is_missing("zdb says what heartbeats look like");
        return None;
    };
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    Some(text.lines().map(|line| line.trim().to_owned()).filter(|line| line.starts_with("mmp_")).collect())
}

#[test]
fn a_pool_with_multihost_is_never_open_twice_and_says_so() {
    let place = Place::with_files();
    let created = shared_on(&place, A, "zpool create -m none -o multihost=on p1 W/d1");
    assert_eq!((created.code, created.err.as_str()), (0, ""));
    assert_eq!(ok_on(&place, A, "zpool get -Ho value,source multihost p1"), "on\tlocal\n");

    let refused = shared_on(&place, B, "zpool import -f -d W/ p1");
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let told = format!(
        "cannot import 'p1': pool is imported on {name} (hostid: 0xa1)\nExport the pool on the other system, then run \
         'zpool import'.\n"
    );
    assert_eq!((refused.code, refused.err), (1, told));
    let listed = ok_on(&place, B, "zpool import -d W/");
    for line in [
        " state: UNAVAIL\nstatus: The pool is currently imported by another system.\n".to_owned(),
        format!(
            "action: The pool must be exported from {name} (hostid=a1)\n\tbefore it can be safely imported.\n"
        ),
        "UNAVAIL  currently in use\n".to_owned(),
    ] {
        assert!(listed.contains(&line), "{listed}");
    }

    let pid = place.processes_in(A).last().expect("the process of the pool").to_string();
    signal(&pid, "-STOP");
    std::thread::sleep(std::time::Duration::from_secs(4));
    signal(&pid, "-CONT");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let status = ok_on(&place, A, "zpool status p1");
    let suspended = " state: SUSPENDED\nstatus: The pool is suspended because multihost writes failed or were \
                     delayed;\n\tanother system could import the pool undetected.\naction: Make sure the pool's \
                     devices are connected, then reboot your system and\n\timport the pool or run 'zpool clear' to \
                     resume the pool.\n   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-MM\n";
    assert!(status.contains(suspended), "{status}");
    assert_eq!(on(&place, A, "zfs create p1/late").code, 1);
    ok_on(&place, A, "zpool clear p1");
    ok_on(&place, A, "zfs create p1/after");

    ok_on(&place, A, "zpool set multihost=off p1");
    assert_eq!(ok_on(&place, A, "zpool get -Ho value,source multihost p1"), "off\tdefault\n");
    ok_on(&place, A, "zpool set multihost=on p1");
    // Ten heartbeats, each in one of four labels.
    std::thread::sleep(std::time::Duration::from_secs(1));
    kill_on(&place, A);
    if let Some(shown) = mmp_lines(&place, "d1") {
        for line in ["mmp_magic = 00000000a11cea11", "mmp_fail = 30", "mmp_write = 100", "mmp_valid = 7"] {
            assert!(shown.iter().any(|shown| shown == line), "{line}: {shown:?}");
        }
        let is_beat = |line: &String| line.starts_with("mmp_seq = ") && line != "mmp_seq = 0";
        assert!(shown.iter().any(is_beat), "{shown:?}");
    }
    let taken = shared_on(&place, B, "zpool import -f -d W/ p1");
    assert_eq!((taken.code, taken.err.as_str()), (0, ""));
    assert_eq!(ok_on(&place, B, "zfs list -Ho name"), "p1\np1/after\n");
    ok_on(&place, B, "zpool export p1");
    let zdb = oracle::zdb::Zdb::new(place.directory.path(), "p1");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
    for host in [A, B] {
        on(&place, host, "daemon stop");
    }
}

#[test]
fn multihost_needs_a_host_that_others_can_tell() {
    if !rustix::process::geteuid().is_root() {
        Need::Root.is_missing("only root can take /etc/hostid away");
        return;
    }
    let place = Place::with_files();
    // A number can be kept nowhere.
    std::fs::create_dir_all(place.path("run/hostid")).expect("made");
    let refused = in_container(&place, "zpool create -m none -o multihost=on p1 W/d1");
    assert_eq!(refused.err, "cannot create 'p1': requires a non-zero system hostid\n");
    let printed = in_container(&place, "zpool create -m none p1 W/d1");
    assert_eq!((printed.code, printed.err.as_str()), (0, ""));
    let refused = in_container(&place, "zpool set multihost=on p1");
    assert_eq!(
        (refused.code, refused.err.as_str()),
        (1, "cannot set property for 'p1': requires a non-zero system hostid\n")
    );
    in_container(&place, "zpool export p1");
    ok_on(&place, A, "zpool import -d W/ p1");
    ok_on(&place, A, "zpool set multihost=on p1");
    ok_on(&place, A, "zpool export p1");
    let refused = in_container(&place, "zpool import -d W/ p1");
    let told = "cannot import 'p1': pool has the multihost property on and the\nsystem's hostid is not set. Set a unique \
                hostid with the zgenhostid(8) command.\n";
    assert_eq!((refused.code, refused.err.as_str()), (1, told));
    on(&place, A, "daemon stop");
}
