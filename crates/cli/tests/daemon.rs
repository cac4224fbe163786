//! The real daemon: started by the first command, killed at will, with pools on files.
#![forbid(unsafe_code)]

mod place;

use control::RunPaths;
use oracle::needs::{Need, lack_of_fuse};
use oracle::zdb::Zdb;
use place::{Place, wait_for_the_end_of};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One that has ended, but that nobody has waited for, has no program any more.
fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).join("exe").exists()
}

#[test]
fn a_pipe_behind_the_first_command_ends() {
    let place = Place::new();
    assert!(place.pid().is_none());
    let mut first = place.command("zpool list").stdout(Stdio::piped()).spawn().expect("runs");
    let pipe = first.stdout.take().expect("a pipe");
    let reader = Command::new("timeout").args(["60", "cat"]).stdin(pipe).output().expect("cat runs");
    assert!(reader.status.success(), "cat did not see the end of its input");
    assert_eq!(reader.stdout, b"no pools available\n");
    assert!(first.wait().expect("ends").success());
    assert!(place.pid().is_some(), "the daemon lives on");
}

#[test]
fn two_first_commands_start_one_daemon() {
    let place = Place::new();
    let start = |_| place.command("daemon start").spawn().expect("runs");
    let firsts: Vec<_> = (0..8).map(start).collect();
    for mut first in firsts {
        assert!(first.wait().expect("ends").success());
    }
    assert_eq!(place.log().matches(" ready ").count(), 1, "{}", place.log());
}

#[test]
fn the_daemon_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.ok("daemon start");
    let mode = |path: &Path| std::fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    let paths = RunPaths::under(place.path("run"));
    // Of root's daemon everybody may reach one socket, and look.
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(mode(paths.run_dir()), if is_root { 0o711 } else { 0o700 });
    assert_eq!(paths.public_socket().exists(), is_root);
    assert_eq!(mode(&paths.socket()), 0o600);
    assert_eq!(mode(&paths.log()), 0o600);
}

#[test]
fn a_core_file_of_the_daemon_has_no_data_of_users() {
    let place = Place::new();
    place.ok("daemon start");
    let filter = Path::new("/proc").join(place.pid().expect("runs")).join("coredump_filter");
    // No mapping of any kind.
    assert_eq!(std::fs::read_to_string(filter).expect("is there"), "00000000\n");
}

#[test]
fn a_stopped_daemon_is_gone_and_starts_again() {
    let place = Place::new();
    place.ok("daemon start");
    let first = place.pid().expect("runs");
    assert!(place.ok("daemon status").starts_with(&format!("running: pid {first},")));
    place.ok("daemon stop");
    let status = place.run("daemon status");
    assert_eq!((status.out.as_str(), status.code), ("not running\n", 1));
    // Its lock ends a moment before the process does.
    let begun = Instant::now();
    while is_alive(&first) {
        assert!(begun.elapsed() < Duration::from_secs(10), "it is still there");
        std::thread::sleep(Duration::from_millis(1));
    }
    place.ok("daemon stop");
    place.ok("zpool list");
    assert_ne!(place.pid().expect("runs again"), first);
}

/// Without a thread of its own to let wait, the kernel takes back what a ring asks of it. The system counts processes
/// as threads, so that the daemon has no other processes.
#[test]
fn a_daemon_that_gets_no_more_threads_still_reads_and_writes() {
    use std::os::unix::fs::chown;
    const NOBODY: u32 = 65534;
    let place = Place::with_files();
    let program = place.path("sawmill");
    std::fs::copy(env!("CARGO_BIN_EXE_sawmill"), &program).expect("copied");
    // The limit is not for root.
    let by_nobody: &[&str] = if rustix::process::geteuid().is_root() {
        let everything = ["", "sawmill", "d1", "d2", "l1", "l2"];
        everything
            .iter()
            .for_each(|name| chown(place.path(name), Some(NOBODY), Some(NOBODY)).expect("given"));
        &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    } else {
        &["env"]
    };
    let run = |words: &[&str]| {
        let mut command = Command::new(by_nobody[0]);
        command.args(&by_nobody[1..]).args(words).env("SAWMILL_RUN", place.path("run"));
        command.env("SAWMILL_ONE_PROCESS", "1");
        assert!(command.status().expect("runs").success(), "{words:?}");
    };
    run(&[&program.to_string_lossy(), "daemon", "start"]);
    let pid = place.pid().expect("runs");
    let threads = std::fs::read_dir(Path::new("/proc").join(&pid).join("task")).expect("listed");
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.expect("listed").path().join("comm")).expect("has a name")
    };
    // What others leave behind is taken over by a thread that cannot be made later.
    assert!(threads.map(name).any(|name| name == "sawmill-keeper\n"));
    run(&["prlimit", "--pid", &pid, "--nproc=1"]);
    place.ok("zpool create -m none tank mirror W/d1 W/d2 log mirror W/l1 W/l2");
    place.ok("zfs create tank/x");
    place.ok("zpool export tank");
    place.ok("zpool import -N -d W/ tank");
    place.ok("zpool scrub -w tank");
    assert_eq!(place.ok("zpool list -Ho health tank"), "ONLINE\n");
    assert_eq!(place.ok("zfs list -Ho name -r tank"), "tank\ntank/x\n");
    place.ok("zpool export tank");
    let zdb = Zdb::new(place.directory.path(), "tank");
    zdb.check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_process_of_a_pool_of_an_ordinary_user_is_confined() {
    use std::os::unix::fs::chown;
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return Need::Root.is_missing("only root becomes another user");
    }
    let place = Place::with_files();
    let program = place.path("sawmill");
    std::fs::copy(env!("CARGO_BIN_EXE_sawmill"), &program).expect("copied");
    let everything = ["", "sawmill", "d1", "d2", "l1", "l2"];
    everything.iter().for_each(|name| chown(place.path(name), Some(NOBODY), Some(NOBODY)).expect("given"));
    let run = |line: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        let line = line.replace("W/", &format!("{}/", place.directory.path().display()));
        command.args(line.split(' ')).env("SAWMILL_RUN", place.path("run"));
        let printed = place.print(&mut command);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
        printed.out
    };
    run("zpool create -m none tank mirror W/d1 W/d2 log mirror W/l1 W/l2");
    let process = || place.processes().last().copied().expect("the pool has one");
    let first = process();
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).expect("it lives");
    for line in ["Uid:\t65534\t65534\t65534\t65534", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.lines().any(|of_kernel| of_kernel == line), "{line}: {status}");
    }
    run("zfs create tank/x");
    kill_process(Pid::from_raw(first).expect("a number"), Signal::KILL).expect("it lives");
    wait_for_the_end_of(&first.to_string());
    assert_eq!(run("zfs list -Ho name -r tank"), "tank\ntank/x\n");
    run("zpool export tank");
    run("zpool import -N -d W/ tank");
    run("zpool scrub -w tank");
    run("zpool export tank");
    Zdb::new(place.directory.path(), "tank").check_blocks().unwrap_or_else(|error| panic!("{error}"));
    run("daemon stop");
}

/// A pool that comes back must not take the place of an open pool.
#[test]
fn a_pool_that_comes_back_leaves_a_pool_of_its_name_alone() {
    let place = Place::with_files();
    let ok = |line: &str| {
        let printed = place.print(place.command(line).env("SAWMILL_ONE_PROCESS", "1"));
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
        printed.out
    };
    ok("zpool create -m none p1 W/d1");
    ok("zpool create -m none p2 W/d2");
    ok("zfs create p2/of-p2");
    ok("zpool export p2");
    ok("daemon stop");
    std::fs::rename(place.path("d1"), place.path("away")).expect("moves");
    ok("zpool import -d W/d2 p2 p1");
    std::fs::rename(place.path("away"), place.path("d1")).expect("moves back");
    let begun = Instant::now();
    while !place.log().contains("is tried again") {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", place.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(ok("zpool list -Ho name,health"), "p1\tONLINE\np1\tUNAVAIL\n");
    assert_eq!(ok("zfs list -Ho name"), "p1\np1/of-p2\n");
    assert!(ok("daemon status").contains("another pool of that name is open"));
    ok("zpool export p1");
    ok("daemon stop");
    // Both have the name, and zdb looks at all files.
    std::fs::remove_file(place.path("d1")).expect("removed");
    Zdb::new(place.directory.path(), "p1").check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_terminated_daemon_stops_cleanly() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    let pid = place.pid().expect("runs");
    Command::new("kill").arg(&pid).status().expect("kill runs");
    while is_alive(&pid) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(place.log().contains(" stopped"), "{}", place.log());
    assert_eq!(place.ok("zpool list -Ho name,health"), "p1\tONLINE\n");
}

#[test]
fn a_killed_daemon_brings_its_pools_back() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 mirror W/d1 W/d2 log mirror W/l1 W/l2");
    place.ok("zfs create -o sync=always p1/a");
    for _ in 0..3 {
        place.kill();
        assert_eq!(place.ok("zpool list -Ho name,health"), "p1\tONLINE\n");
        assert_eq!(place.ok("zfs get -Ho value sync p1/a"), "always\n");
    }
    assert_eq!(place.ok("zpool status -x"), "all pools are healthy\n");
}

/// The space of the pool's own objects is counted a txg late, so that each of these kills loses a count.
#[test]
fn a_pool_that_is_killed_many_times_with_no_change_between_is_whole() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    for _ in 0..15 {
        place.kill();
        assert_eq!(place.ok("zpool list -Ho name,health"), "p1\tONLINE\n");
    }
    place.ok("zfs create p1/after");
    place.ok("zpool export p1");
    Zdb::new(place.directory.path(), "p1").check_blocks().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn pools_are_forgotten_when_exported_or_never_cached() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    place.ok("zpool create -m none -o cachefile=none p2 W/d2");
    place.ok("zpool export p1");
    place.kill();
    assert_eq!(place.ok("zpool list -Ho name"), "");
    place.ok("zpool import -f -d W/ p2 p3");
    place.ok("zpool import -d W/ p1");
    place.kill();
    assert_eq!(place.ok("zpool list -Ho name"), "p1\np3\n");
}

#[test]
fn a_pool_that_cannot_be_brought_back_is_told_and_tried_again() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    place.kill();
    std::fs::rename(place.path("d1"), place.path("away")).expect("moves");
    assert_eq!(place.ok("zpool list -Ho name,size,health"), "p1\t-\tUNAVAIL\n");
    assert!(place.ok("daemon status").contains("missing: p1: "));
    place.kill();
    std::fs::rename(place.path("away"), place.path("d1")).expect("moves back");
    assert_eq!(place.ok("zpool list -Ho name,health"), "p1\tONLINE\n");
}

#[test]
fn a_pool_without_its_devices_is_listed_and_comes_back_with_them() {
    for is_one in ["0", "1"] {
        let place = Place::with_files();
        let run = |line: &str| place.print(place.command(line).env("SAWMILL_ONE_PROCESS", is_one));
        let ok = |line: &str| {
            let printed = run(line);
            assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
            printed.out
        };
        let go = |from: &str, to: &str| std::fs::rename(place.path(from), place.path(to)).expect("moves");
        ok("zpool create -m none p1 mirror W/d1 W/d2 log W/l1");
        ok("zfs create p1/a");
        ok("zpool create -m none p2 W/l2");
        ok("daemon stop");
        ["d1", "d2"].iter().for_each(|name| go(name, &format!("{name}.away")));
        assert_eq!(ok("zpool list -Ho name,size,health"), "p1\t-\tUNAVAIL\np2\t48M\tONLINE\n");
        let status = ok("zpool status -x");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let tree = "p1 UNAVAIL 0 0 0 insufficient replicas mirror-0 UNAVAIL 0 0 0 insufficient replicas \
                    W/d1 UNAVAIL 0 0 0 cannot open W/d2 UNAVAIL 0 0 0 cannot open logs W/l1 ONLINE 0 0 0";
        assert!(words(&status).contains("state: UNAVAIL") && words(&status).contains(tree), "{status}");
        assert!(!status.contains("pool: p2") && !status.contains("errors:"), "{status}");
        assert!(ok("zpool status -j p1").contains("\"state\":\"UNAVAIL\""));
        assert_eq!(ok("zpool get -H -o value size,health,readonly p1"), "-\nUNAVAIL\noff\n");
        // A command for all pools leaves out pools that are closed.
        assert!(!ok("zpool iostat -H").contains("p1"));
        ok("zpool sync");
        assert_eq!(ok("zfs list -Ho name"), "p2\n");
        assert_eq!(run("zpool scrub p1").code, 1);
        // The closed pool keeps its name.
        let refused = run("zpool create -f -m none p1 W/l1");
        assert!(refused.code == 1 && refused.err.contains("pool already exists"), "{}", refused.err);
        ["d1", "d2"].iter().for_each(|name| go(&format!("{name}.away"), name));
        let begun = Instant::now();
        while ok("zpool list -Ho health p1") != "ONLINE\n" {
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", place.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(ok("zfs list -Ho name"), "p1\np1/a\np2\n");
        assert_eq!(ok("zpool status -x"), "all pools are healthy\n");
        // An export makes the daemon forget the closed pool.
        ok("daemon stop");
        ["d1", "d2"].iter().for_each(|name| go(name, &format!("{name}.away")));
        assert_eq!(ok("zpool list -Ho name"), "p1\np2\n");
        ok("zpool export p1");
        assert_eq!(ok("zpool list -Ho name"), "p2\n");
        ok("daemon stop");
    }
}

#[test]
fn a_missing_log_is_named_and_can_be_given_up() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1 log W/l1");
    place.ok("zpool export p1");
    std::fs::rename(place.path("l1"), place.path("l1.away")).expect("moves");
    std::fs::create_dir(place.path("dir")).expect("a directory");
    std::fs::rename(place.path("l1.away"), place.path("dir/l1")).expect("moves");
    let listed = place.ok("zpool import -d W/");
    assert!(listed.contains("\n state: DEGRADED\n"), "{listed}");
    assert!(listed.contains("\n\tlogs\t\n"), "{listed}");
    let refused = place.run("zpool import -d W/ p1");
    assert_eq!(refused.err, "cannot import 'p1': one or more devices is currently unavailable\n");
    assert_eq!(
        refused.out,
        "The devices below are missing or corrupted, use '-m' to import the pool anyway:\n\
         \t    W/l1 [log]\n\n"
    );
    assert_eq!(refused.code, 1);
    place.ok("zpool import -m -d W/ p1");
    let status = place.ok("zpool status p1");
    assert!(status.contains("\n state: DEGRADED\n") && status.contains("  was W/l1\n"), "{status}");
    place.kill();
    assert_eq!(place.ok("zpool list -Ho name,health"), "p1\tDEGRADED\n");
    place.ok("zpool export p1");
    std::fs::rename(place.path("dir/l1"), place.path("l1")).expect("moves back");
    place.ok("zpool import -d W/ p1");
    assert_eq!(place.ok("zpool status -x"), "all pools are healthy\n");
}

#[test]
fn devices_in_use_are_told_apart() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    let head = "invalid vdev specification\nuse '-f' to override the following errors:\n";
    let refused = place.run("zpool create -m none p2 W/d1");
    assert_eq!(refused.err, format!("{head}W/d1 is part of active pool 'p1'\n"));
    place.ok("zpool export p1");
    let refused = place.run("zpool create -m none p2 W/d1");
    assert_eq!(refused.err, format!("{head}W/d1 is part of exported pool 'p1'\n"));
    place.ok("zpool create -f -m none p2 W/d1");
    place.ok("zpool destroy p2");
    place.ok("zpool create -m none p3 W/d1");
}

#[test]
fn a_destroyed_pool_can_be_brought_back_by_name() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1 log W/l1");
    place.ok("zpool set comment=hello p1");
    place.ok("zpool destroy p1");
    assert_eq!(place.run("zpool import -d W/").err, "no pools available to import\n");
    assert!(place.ok("zpool import -D -d W/").contains(" state: ONLINE (DESTROYED)\n"));
    place.ok("zpool import -D -d W/ p1 p2");
    let comment = || place.ok("zpool get -Ho value,source comment p2");
    assert_eq!(comment(), "hello\tlocal\n");
    place.ok("zpool export p2");
    place.ok("zpool import -N -o comment=back -d W/ p2");
    assert_eq!(comment(), "back\tlocal\n");
}

#[test]
fn files_survive_a_kill_where_mounts_are_possible() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let place = Place::with_files();
    place.ok("zpool create -m W/mnt p1 W/d1 log W/l1");
    // Not below the other one: only root can mount there.
    place.ok("zfs create -o mountpoint=W/fs p1/fs");
    std::fs::write(place.path("fs/a"), b"hello").expect("writes");
    let synced = std::fs::File::open(place.path("fs/a")).and_then(|file| file.sync_all());
    synced.expect("fsync");
    place.kill();
    // In order of mount points, as a restart mounts them.
    assert_eq!(place.ok("zfs mount"), format!("{:30}  W/fs\n{:30}  W/mnt\n", "p1/fs", "p1"));
    assert_eq!(std::fs::read(place.path("fs/a")).expect("reads"), b"hello");
    place.ok("zfs set mountpoint=none p1/fs");
    assert_eq!(place.ok("zfs mount"), format!("{:30}  W/mnt\n", "p1"));
    place.ok("zpool export p1");
    assert_eq!(place.ok("zfs mount"), "");
}

#[test]
fn a_daemon_stops_though_a_file_is_open() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let place = Place::with_files();
    place.ok("zpool create -m W/mnt p1 W/d1");
    std::fs::write(place.path("mnt/a"), b"hello").expect("writes");
    let open = std::fs::File::open(place.path("mnt/a")).expect("opens");
    let daemon = place.pid().expect("runs");
    assert_eq!(place.run("zpool export p1").err, "cannot unmount 'W/mnt': pool or dataset is busy\n");
    place.ok("daemon stop");
    assert!(!is_alive(&daemon), "{}", place.log());
    drop(open);
    assert_eq!(place.ok("zfs mount"), format!("{:30}  W/mnt\n", "p1"));
    let open = std::fs::File::open(place.path("mnt/a")).expect("opens");
    place.ok("zpool export -f p1");
    drop(open);
    place.ok("zpool import -d W/ p1");
    assert_eq!(std::fs::read(place.path("mnt/a")).expect("reads"), b"hello");
}

#[test]
fn a_slow_unmount_stops_nobody_from_looking() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let place = Place::with_files();
    place.ok("zpool create -m W/mnt p1 W/d1");
    place.ok("daemon stop");
    let delays = format!("{}=300ms", place.path("d1").display());
    let started = place.command("daemon start").env("SAWMILL_DELAY", delays).status().expect("runs");
    assert!(started.success(), "{}", place.log());
    std::fs::write(place.path("mnt/a"), vec![7; 1 << 20]).expect("writes");
    let mut unmount = place.command("zfs unmount p1").spawn().expect("runs");
    // It is mounted no more, and its data are being made stable.
    while !place.ok("zfs mount").is_empty() {}
    assert!(unmount.try_wait().expect("ours").is_none(), "who looks has waited for the unmount");
    assert!(unmount.wait().expect("ends").success());
}

#[test]
fn a_damaged_list_of_pools_is_put_aside() {
    const DAMAGED: &[u8] = b"[{\"name\": \"p1\", ";
    let kinds = [("1", "pools.cache", "pools.damaged"), ("0", "pools/1/pools.cache", "pools.1.damaged")];
    for (is_one, list, aside) in kinds {
        let place = Place::with_files();
        let ok = |line: &str| {
            let printed = place.print(place.command(line).env("SAWMILL_ONE_PROCESS", is_one));
            assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
            printed.out
        };
        let (list, aside) = (place.path("run").join(list), place.path("run").join(aside));
        ok("zpool create -m none p1 W/d1");
        ok("daemon stop");
        assert!(list.exists());
        std::fs::write(&list, DAMAGED).expect("writes");
        assert_eq!(ok("zpool list -H"), "");
        ok("zpool create -m none p2 W/d2");
        assert_eq!(std::fs::read(aside).expect("it was put aside"), DAMAGED);
        assert!(place.log().contains("the damaged list of pools was put aside"), "{}", place.log());
    }
}

/// `W/d1`, a disk that takes so long for each stable write, holds `p1`; `p2` is on `W/d2`.
fn place_with_a_slow_pool(delay: &str) -> Place {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    place.ok("zpool create -m none p2 W/d2");
    place.ok("daemon stop");
    let delays = format!("{}={delay}", place.path("d1").display());
    let started = place.command("daemon start").env("SAWMILL_DELAY", delays).status().expect("runs");
    assert!(started.success(), "{}", place.log());
    place
}

/// A command that changes the slow pool, and has begun to.
fn slow_change(place: &Place) -> std::process::Child {
    let change = place.command("zfs create p1/slow").spawn().expect("runs");
    let begun = std::time::Instant::now();
    while !place.ok("daemon status").contains(" at work: p1: create for ") {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{}", place.ok("daemon status"));
    }
    change
}

#[test]
fn a_slow_change_of_one_pool_stops_no_other() {
    let place = place_with_a_slow_pool("1500ms");
    let mut slow = slow_change(&place);
    place.ok("zfs create p2/quick");
    place.ok("zfs set compression=off p2/quick");
    place.ok("zpool export p2");
    place.ok("zpool import -d W/d2 p2");
    assert!(slow.try_wait().expect("ours").is_none(), "the other pool's changes have waited for this one");
    assert!(slow.wait().expect("ends").success());
}

#[test]
fn who_waits_for_another_change_is_told_so_and_can_give_up() {
    let place = place_with_a_slow_pool("3s");
    let mut slow = slow_change(&place);
    let mut waiting = place.command("zfs create p1/late");
    let mut waiting = waiting.stderr(std::process::Stdio::piped()).spawn().expect("runs");
    let mut told = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(waiting.stderr.take().expect("piped")),
        &mut told,
    )
    .expect("it is told");
    assert!(told.starts_with("waiting for pool 'p1' (create for "), "{told:?}");
    let number = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(number, rustix::process::Signal::INT).expect("it runs");
    assert!(!waiting.wait().expect("ends").success());
    assert!(slow.wait().expect("ends").success());
    // Its turn would have come before this one's.
    place.ok("zfs create p1/last");
    assert_eq!(place.ok("zfs list -Ho name -r p1"), "p1\np1/last\np1/slow\n");
}

#[test]
fn history_has_every_command_that_changed_the_pool() {
    let place = Place::with_files();
    place.ok("zpool create -m none p1 W/d1");
    place.ok("zpool add -n -f p1 W/d2");
    place.ok("zpool set comment=hello p1");
    place.run("zpool set nonsense=1 p1");
    place.ok("zfs create -o compression=lz4 p1/fs");
    place.ok("zfs set atime=off p1/fs");
    place.ok("zpool status p1");
    place.ok("zpool export p1");
    place.ok("zpool import -d W/ p1 p2");
    place.ok("zpool scrub -w p2");
    let commands = [
        "zpool create -m none p1 W/d1",
        "zpool set comment=hello p1",
        "zfs create -o compression=lz4 p1/fs",
        "zfs set atime=off p1/fs",
        "zpool export p1",
        "zpool import -d W/ p1 p2",
        "zpool scrub -w p2",
    ];
    let history = place.ok("zpool history p2");
    let lines: Vec<&str> = history.lines().collect();
    assert_eq!((lines[0], lines[lines.len() - 1]), ("History for 'p2':", ""));
    let said: Vec<&str> = lines[1..lines.len() - 1].iter().map(|line| &line[20..]).collect();
    assert_eq!(said, commands);
    let long = place.ok("zpool history -l p2");
    let uid = rustix::process::getuid().as_raw();
    assert!(
        long.contains(&format!(" {} [user {uid} (", commands[0])) && long.contains(":linux]\n"),
        "{long}"
    );
    let internal = place.ok("zpool history -i p2");
    let is_event = |line: &str| line[20..].starts_with("[txg:") && line.contains("] set p1/fs (");
    assert!(internal.lines().skip(1).any(|line| line.len() > 20 && is_event(line)), "{internal}");
    assert_eq!(place.run("zpool history nope").err, "cannot open 'nope': no such pool\n");
    place.ok("zpool export p2");
    let told = Zdb::new(&place.path(""), "p2").run(&["-h"], &[]).expect("zdb finds no damage");
    let path = place.path("").display().to_string();
    for command in commands.map(|command| command.replace("W/", &path)) {
        assert!(told.contains(&command), "{command}: {told}");
    }
    assert!(told.contains("zpool export p2"), "{told}");
}

/// Copies a file into a file system of a pool that nobody has open.
fn copy_in(place: &Place, to: &str) {
    std::fs::write(place.path("data"), vec![0x5a; 300_000]).expect("writes");
    place.ok(&format!("cp W/data {to} -d W/d1"));
}

#[test]
fn pools_with_few_features_are_whole_and_can_be_upgraded() {
    let choices = [
        "-d",
        "-o compatibility=legacy",
        "-o compatibility=openzfs-2.0-linux",
        "-d -o feature@lz4_compress=enabled",
        "-o feature@log_spacemap=disabled -o feature@extensible_dataset=disabled",
    ];
    for choice in choices {
        let place = Place::new();
        place.file("d1", 96);
        place.ok(&format!("zpool create -m none {choice} p1 W/d1"));
        let check = |when: &str| {
            let found = Zdb::new(place.directory.path(), "p1").check();
            found.unwrap_or_else(|damage| panic!("{choice}, {when}: {damage}"));
        };
        place.ok("zfs create p1/a");
        place.ok("zpool export p1");
        copy_in(&place, "p1/a:/one");
        check("made");
        place.ok("zpool import -d W/ p1");
        let listed = place.ok("zpool upgrade");
        let is_legacy = choice.contains("legacy");
        assert_eq!(
            listed.contains("\nPOOL  FEATURE\n"),
            !is_legacy && !choice.contains("openzfs"),
            "{listed}"
        );
        place.ok("zpool set compatibility=off p1");
        assert!(place.ok("zpool upgrade").contains("\nPOOL  FEATURE\n---------------\np1\n      "));
        assert!(place.ok("zpool upgrade p1").contains("Enabled the following features on 'p1':\n  "));
        assert!(
            place
                .ok("zpool upgrade p1")
                .ends_with("already has all supported and requested features enabled.\n")
        );
        assert!(!place.ok("zpool get -H all p1").contains("feature@zstd_compress\tdisabled"));
        place.ok("zfs create -o compression=zstd -o checksum=blake3 p1/b");
        place.ok("zpool export p1");
        copy_in(&place, "p1/b:/two");
        copy_in(&place, "p1/a:/three");
        check("upgraded");
    }
}

#[test]
fn a_pool_goes_back_to_an_older_state_when_asked() {
    let place = Place::new();
    place.file("d1", 96);
    place.ok("zpool create -m none p1 W/d1");
    place.ok("zfs create p1/a");
    place.ok("zpool export p1");
    assert_eq!(place.ok("zpool import -F -d W/ p1"), "", "what is whole is not rewound");
    place.ok("zpool export p1");
    damage_newest_root(&place.path("d1"));
    let refused = place.run("zpool import -d W/ p1");
    assert_eq!(refused.code, 1, "{}", refused.err);
    let before = std::fs::read(place.path("d1")).expect("reads");
    let tried = place.ok("zpool import -nF -d W/ p1");
    assert!(tried.starts_with("Would be able to return p1 to its state as of "), "{tried}");
    assert!(before == std::fs::read(place.path("d1")).expect("reads"), "nothing was changed");
    let done = place.ok("zpool import -F -d W/ p1");
    assert!(done.starts_with("Pool p1 returned to its state as of "), "{done}");
    assert_eq!(place.ok("zfs list -Ho name"), "p1\np1/a\n");
    place.ok("zfs create p1/b");
    place.ok("zpool export p1");
    Zdb::new(place.directory.path(), "p1").check().unwrap_or_else(|damage| panic!("{damage}"));
    place.ok("zpool import -d W/ p1");
    assert_eq!(place.ok("zfs list -Ho name"), "p1\np1/a\np1/b\n");
}

/// Overwrites every copy of the block that the newest uberblock points to.
fn damage_newest_root(path: &Path) {
    use std::os::unix::fs::FileExt;
    let output = Command::new("timeout").args(["60", "zdb", "-luuuu"]).arg(path).output().expect("zdb runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let newest = text.split("Uberblock[").skip(1).max_by_key(|part| {
        let txg = part.lines().find_map(|line| line.trim().strip_prefix("txg = "));
        txg.and_then(|txg| txg.parse::<u64>().ok())
    });
    let root = newest.and_then(|part| part.lines().find(|line| line.contains("rootbp = "))).expect("a root");
    let file = std::fs::File::options().write(true).open(path).expect("opens");
    for dva in root.split("]=<").skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let words: Vec<u64> = dva.split(':').filter_map(|word| u64::from_str_radix(word, 16).ok()).collect();
        if let [_, offset, asize] = words[..] {
            file.write_all_at(&vec![0xa5; asize as usize], offset + (4 << 20)).expect("writes");
        }
    }
}

#[test]
fn a_scrub_is_told_by_status_and_survives_a_restart() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank mirror W/d1 W/d2");
    assert_eq!(
        place.run("zpool scrub -s tank").err,
        "cannot cancel scrubbing tank: there is no active scrub\n"
    );
    assert_eq!(place.run("zpool scrub nope").err, "cannot open 'nope': no such pool\n");
    assert_eq!(place.run("zpool scrub -sp tank").code, 2);
    assert_eq!(place.ok("zpool wait tank"), "", "there is nothing to wait for");
    assert_eq!(place.run("zpool wait nope").err, "cannot open 'nope': no such pool\n");
    assert!(place.run("zpool wait -t scrub,sleep tank").err.starts_with("invalid activity 'sleep'\n"));
    assert_eq!(place.run("zpool wait -t scrub").code, 2);
    assert_eq!(
        place.run("zpool scrub -p tank").err,
        "cannot pause scrubbing tank: there is no active scrub\n"
    );
    assert!(!place.ok("zpool status tank").contains("scan:"));
    place.ok("zpool scrub -w tank");
    let line = |text: String| text.lines().find(|l| l.starts_with("  scan: ")).unwrap_or_default().to_owned();
    let told = line(place.ok("zpool status tank"));
    assert!(told.starts_with("  scan: scrub repaired 0B in 00:00:0"), "{told}");
    place.ok("zpool scrub tank");
    place.ok("zpool wait -t resilver,scrub tank");
    let told = line(place.ok("zpool status tank"));
    assert!(told.starts_with("  scan: scrub repaired 0B in 00:00:0"), "{told}");
    assert!(told.contains(" with 0 errors on "), "{told}");
    let json = place.ok("zpool status -j tank");
    assert!(json.contains(r#""scan_stats":{"function":"SCRUB","state":"FINISHED","#), "{json}");
    place.kill();
    assert_eq!(line(place.ok("zpool status tank")), told);
    place.ok("zpool clear tank");
    assert_eq!(
        place.run("zpool clear tank W/zz").err,
        "cannot clear errors for W/zz: no such device in pool\n"
    );
}
