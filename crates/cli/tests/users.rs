//! Ordinary users: pools of their own, and a look at root's.
#![forbid(unsafe_code)]

mod place;

use oracle::needs::Need;
use place::{Place, Printed};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

const NOBODY: u32 = 65534;

/// A place that every user reaches, and the program in it. Only root can be somebody else.
fn open_place() -> Option<Place> {
    if !rustix::process::geteuid().is_root() {
        Need::Root.is_missing("only root can run commands as another user");
        return None;
    }
    let place = Place::with_files();
    std::fs::set_permissions(place.directory.path(), Permissions::from_mode(0o755)).expect("set");
    std::fs::copy(env!("CARGO_BIN_EXE_sawmill"), place.path("sawmill")).expect("copied");
    Some(place)
}

/// A directory of the user's own.
fn home(place: &Place) -> PathBuf {
    let home = place.path("home");
    std::fs::create_dir(&home).expect("made");
    chown(&home, Some(NOBODY), Some(NOBODY)).expect("given");
    home
}

/// Runs a command as the user, with these variables in place of those of a session.
fn as_user(place: &Place, variables: &[(&str, PathBuf)], line: &str) -> Printed {
    let directory = format!("{}/", place.directory.path().display());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "timeout", "60"]);
    command.args(line.split_whitespace().map(|word| word.replace("W/", &directory)));
    for session in ["SAWMILL_RUN", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"] {
        command.env_remove(session);
    }
    command.envs(variables.iter().map(|(name, value)| (name, value))).current_dir("/");
    place.print(&mut command)
}

#[test]
fn other_users_see_roots_pools_and_change_nothing() {
    let Some(place) = open_place() else { return };
    place.ok("zpool create -m none tank W/d1");
    place.ok("zfs create tank/a");
    let run = [("SAWMILL_RUN", place.path("run"))];
    let ok = |line: &str| {
        let printed = as_user(&place, &run, &format!("W/sawmill {line}"));
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
        printed.out
    };
    assert_eq!(ok("zpool list -Ho name,health"), "tank\tONLINE\n");
    assert!(ok("zpool status").starts_with("  pool: tank\n state: ONLINE\n"));
    assert_eq!(ok("zpool get -Ho value health tank"), "ONLINE\n");
    assert!(ok("zpool iostat tank").contains("\ntank "));
    assert!(ok("zpool history tank").contains("zfs create tank/a\n"));
    assert!(ok("zpool version").starts_with("sawmill-"), "{}", ok("zpool version"));
    assert_eq!(ok("zfs list -Ho name"), "tank\ntank/a\n");
    assert_eq!(ok("zfs get -Ho value compression tank"), "on\n");
    assert_eq!(ok("zfs mount"), "");
    let before = ok("zpool history tank");
    for (line, words) in [
        ("zpool destroy tank", "cannot destroy 'tank': permission denied\n"),
        ("zpool export tank", "cannot export 'tank': permission denied\n"),
        ("zpool scrub tank", "cannot scrub 'tank': permission denied\n"),
        ("zpool set comment=x tank", "cannot set property for 'tank': permission denied\n"),
        ("zpool create -m none x W/d2", "cannot create 'x': permission denied\n"),
        ("zfs create tank/b", "cannot create 'tank/b': permission denied\n"),
        ("zfs destroy tank/a", "cannot destroy 'tank/a': permission denied\n"),
        ("zfs set atime=off tank", "cannot set property for 'tank': permission denied\n"),
        ("zpool import -d W/", "permission denied\n"),
    ] {
        let printed = as_user(&place, &run, &format!("W/sawmill {line}"));
        assert_eq!((printed.err.as_str(), printed.code), (words, 1), "{line}");
    }
    assert_eq!(ok("zpool history tank"), before);
}

#[test]
fn a_users_pool_is_the_users_to_write_to() {
    let Some(place) = open_place() else { return };
    let home = home(&place);
    let variables = [("SAWMILL_RUN", home.join("run"))];
    let ok = |line: &str| {
        let printed = as_user(&place, &variables, line);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
        printed.out
    };
    ok("truncate -s 96M W/home/d1");
    ok("W/sawmill zpool create -m none mine W/home/d1");
    ok("W/sawmill zfs create mine/a");
    ok("W/sawmill zpool export mine");
    // Of the root directory and of one below a dataset of the user's own.
    for dataset in ["mine", "mine/a"] {
        let listed = place.ok(&format!("ls -lna -d W/home {dataset}:/"));
        assert!(listed.lines().any(|line| line.contains(" 65534 ") && line.ends_with(" .")), "{listed}");
    }
    if as_user(&place, &[], "test -r /dev/fuse -a -w /dev/fuse").code == 0 {
        ok("W/sawmill zpool import -d W/home -N mine");
        // The set-uid helper cannot reach a place on a mount that is the user's alone.
        ok("W/sawmill zfs set mountpoint=W/home/a mine/a");
        ok("W/sawmill zfs set mountpoint=W/home/mnt mine");
        ok("cp /etc/passwd W/home/mnt/file");
        ok("mkdir W/home/a/dir");
        ok("W/sawmill zpool export mine");
    } else {
        Need::Fuse.is_missing("only root may open /dev/fuse");
    }
    as_user(&place, &variables, "W/sawmill daemon stop");
}

#[test]
fn without_a_session_a_user_gets_a_directory_nobody_else_can_prepare() {
    let Some(place) = open_place() else { return };
    let home = home(&place);
    let run = PathBuf::from(format!("/tmp/sawmill-{NOBODY}"));
    _ = as_user(&place, &[("HOME", home.clone())], "W/sawmill daemon stop");
    _ = std::fs::remove_dir_all(&run);
    let variables = [("HOME", home)];
    let run_as_user = |line: &str| as_user(&place, &variables, line);
    let listed = run_as_user("W/sawmill daemon start");
    assert_eq!((listed.code, listed.err.as_str()), (0, ""));
    let mode = std::fs::metadata(&run).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(run_as_user("W/sawmill daemon stop").code, 0);
    std::fs::remove_dir_all(&run).expect("removed");
    // Somebody else was there first.
    std::fs::create_dir(&run).expect("made");
    chown(&run, Some(NOBODY - 1), None).expect("given");
    let told = run_as_user("W/sawmill zpool list");
    let words = format!(
        "cannot use the run-time directory: {} belongs to another user; set SAWMILL_RUN to a directory of \
         your own\n",
        run.display()
    );
    assert_eq!((told.err, told.code), (words, 1));
    std::fs::remove_dir_all(&run).expect("removed");
}
