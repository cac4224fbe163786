//! `zed`: programs that run for events, by the real commands and the real daemon.
#![forbid(unsafe_code)]

mod place;

use oracle::needs::Need;
use place::Place;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The programs that OpenZFS's event daemon runs, as `scripts/setup test` takes them out of Debian's `zfs-zed`.
const OPENZFS: &str = "/usr/local/lib/zfs-linux/zed.d";
const PATIENCE: Duration = Duration::from_secs(30);

/// A place with a pool of a mirror, and a directory for zedlets.
fn world() -> Place {
    let place = Place::with_files();
    std::fs::create_dir(place.path("zed.d")).expect("a directory");
    place.ok("zpool create -m none tank mirror W/d1 W/d2");
    place
}

fn zedlet(place: &Place, name: &str, mode: u32, text: &str) {
    let path = place.path("zed.d").join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
}

/// A `zed` in the foreground, which ends with this.
struct Zed(Child);

impl Zed {
    fn start(place: &Place, more: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
        command.args(["zed", "-F", "-d"]).arg(place.path("zed.d")).args(more.split_whitespace());
        command.env("SAWMILL_RUN", place.path("run")).stdout(Stdio::null());
        let said =
            std::fs::File::options().create(true).append(true).open(place.path("said")).expect("a file");
        Self(command.stderr(said).spawn().expect("it starts"))
    }
}

impl Drop for Zed {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Waits until a file has this text.
fn wait_for(path: &Path, text: &str) -> String {
    let started = Instant::now();
    loop {
        let found = std::fs::read_to_string(path).unwrap_or_default();
        if found.contains(text) {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "no '{text}' in {}: {found}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn programs_run_once_for_each_event_of_their_class() {
    let place = world();
    let seen = place.path("seen");
    let line = "echo $ZEVENT_SUBCLASS:$ZEVENT_VDEV_STATE_STR:${ZEVENT_VDEV_PATH##*/}:$HOME >>$ZED_ZEDLET_DIR/../seen";
    zedlet(&place, "statechange-note.sh", 0o755, line);
    zedlet(&place, "pool_export", 0o755, line);
    zedlet(&place, "all-open.sh", 0o777, "echo open >>$ZED_ZEDLET_DIR/../seen");
    {
        let _zed = Zed::start(&place, "");
        place.ok("zpool offline tank W/d2");
        assert_eq!(wait_for(&seen, "statechange"), "statechange:OFFLINE:d2:\n");
        let second = place.run(&format!("zed -F -d {}", place.path("zed.d").display()));
        assert_eq!((second.code, second.err.as_str()), (1, "zed runs already\n"));
    }
    // What happens meanwhile is handled by the next one, and what was handled is not.
    place.ok("zpool online tank W/d2");
    let _zed = Zed::start(&place, "");
    wait_for(&seen, "statechange:ONLINE:d2:\n");
    place.ok("zpool export tank");
    let all = wait_for(&seen, "pool_export");
    assert_eq!(all, "statechange:OFFLINE:d2:\nstatechange:ONLINE:d2:\npool_export:::\n");
    let said = std::fs::read_to_string(place.path("said")).expect("a file");
    let refusal = format!(
        "zed: '{}' is not run: others than the owner may write\n",
        place.path("zed.d").join("all-open.sh").display()
    );
    assert_eq!(said, refusal.repeat(2), "once by each of the two");
}

#[test]
fn a_daemon_that_is_killed_leaves_zed_waiting_for_the_next_one() {
    let place = world();
    zedlet(&place, "statechange-note.sh", 0o755, "echo $ZEVENT_EID >>$ZED_ZEDLET_DIR/../seen");
    let mut zed = Zed::start(&place, "-v");
    place.ok("zpool offline tank W/d2");
    wait_for(&place.path("seen"), "\n");
    place.kill();
    std::fs::remove_file(place.path("seen")).expect("it was there");
    place.ok("zpool online tank W/d2");
    wait_for(&place.path("seen"), "\n");
    assert!(zed.0.try_wait().expect("a status").is_none(), "it runs still");
    wait_for(&place.path("said"), "statechange-note.sh' has ended after ");
}

#[test]
fn without_a_flag_zed_goes_to_the_background() {
    let place = world();
    zedlet(&place, "all-note.sh", 0o755, "echo $ZEVENT_SUBCLASS >>$ZED_ZEDLET_DIR/../seen");
    place.ok(&format!("zed -d {}", place.path("zed.d").display()));
    place.ok("zpool offline tank W/d2");
    wait_for(&place.path("seen"), "statechange");
    let pid = wait_for(&place.path("run/zed.pid"), "\n");
    let ended = Command::new("kill").arg(pid.trim()).status().expect("kill runs");
    assert!(ended.success());
    place::wait_for_the_end_of(pid.trim());
}

#[test]
fn a_directory_that_others_can_change_is_not_used() {
    let place = world();
    let dir = place.path("zed.d");
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).expect("a mode");
    let refused = place.run(&format!("zed -F -d {}", dir.display()));
    let reason =
        "'W/zed.d' is not used: others than the owner may write; -f uses the directory nevertheless\n";
    assert_eq!((refused.code, refused.err.as_str()), (1, reason));
    let missing = place.run("zed -F -d W/nowhere");
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (1, "cannot read 'W/nowhere': No such file or directory\n")
    );
}

/// A directory with these programs of OpenZFS's, whose mail goes to a file.
fn openzfs_programs(place: &Place, names: &[&str]) -> PathBuf {
    let dir = place.path("zed.d");
    for name in names.iter().chain(&["zed-functions.sh"]) {
        std::fs::copy(Path::new(OPENZFS).join(name), dir.join(name)).expect("it was installed");
    }
    let mail = place.path("mail");
    zedlet(place, ".mail", 0o755, &format!("{{ echo \"subject: $2\"; cat; }} >>{}", mail.display()));
    let lines = [
        "ZED_EMAIL_ADDR=root".to_owned(),
        format!("ZED_EMAIL_PROG={}", dir.join(".mail").display()),
        "ZED_NOTIFY_INTERVAL_SECS=0".to_owned(),
        "ZED_NOTIFY_VERBOSE=1".to_owned(),
        format!("ZED_LOCKDIR={}", place.directory.path().display()),
        format!("ZED_RUNDIR={}", place.directory.path().display()),
        format!("ZED_DEBUG_LOG={}", place.path("debug").display()),
    ];
    std::fs::write(dir.join("zed.rc"), lines.join("\n")).expect("written");
    mail
}

#[test]
fn programs_of_openzfs_run_unchanged() {
    if !Path::new(OPENZFS).join("statechange-notify.sh").exists() {
        return Need::Program("zed.d").is_missing(&format!("no {OPENZFS}/statechange-notify.sh"));
    }
    let place = world();
    let mail = openzfs_programs(&place, &["statechange-notify.sh", "scrub_finish-notify.sh", "all-debug.sh"]);
    let programs = place.path("bin");
    std::fs::create_dir(&programs).expect("a directory");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sawmill"), programs.join("zpool")).expect("a link");
    let _zed = Zed::start(&place, &format!("-v -P {}:/usr/bin:/bin", programs.display()));
    place.ok("zinject -d W/d2 -A fault tank");
    let fault = wait_for(&mail, "pool: tank (0x");
    for line in
        ["subject: ZFS device fault for pool tank on ", "class: statechange", "state: FAULTED", "vpath: "]
    {
        assert!(fault.contains(line), "{line}: {fault}");
    }
    place.ok("zpool clear tank");
    place.ok("zpool scrub -w tank");
    // The program asks `$ZPOOL status`: so the commands were found, and the daemon was the right one.
    let all = wait_for(&mail, "scan: scrub repaired");
    assert!(all.contains("ZFS has finished a scrub:"), "{all}");
    let debug = wait_for(&place.path("debug"), "ZEVENT_SUBCLASS=scrub_finish");
    for line in ["ZEVENT_POOL=tank", "ZEVENT_VDEV_STATE_STR=FAULTED", "ZEVENT_VDEV_LASTSTATE_STR=ONLINE"] {
        assert!(debug.lines().any(|found| found == line), "{line}: {debug}");
    }
}
