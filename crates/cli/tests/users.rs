//! Ordinary users: pools of their own, and a look at root's.
#![forbid(unsafe_code)]

#[path = "users/floods.rs"]
mod floods;
#[path = "users/mount_points.rs"]
mod mount_points;
mod place;
#[path = "users/requests.rs"]
mod requests;

use oracle::needs::{Need, lack_of_fuse};
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

/// The first request for a pool starts the user's own daemon, even if the request is refused.
#[test]
fn a_daemon_without_pools_hides_no_pool_of_root() {
    let Some(place) = open_place() else { return };
    home(&place);
    let script = r#"
        mount -t tmpfs -o mode=755 tmpfs /run
        mkdir /run/etc /run/work
        mount -t overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/work overlay /etc
        export SAWMILL_RUN=/run/sawmill
        user() {
            env -u SAWMILL_RUN XDG_RUNTIME_DIR=W/home XDG_STATE_HOME=W/home HOME=W/home \
                setpriv --reuid=65534 --regid=65534 --clear-groups W/sawmill "$@"
        }
        W/sawmill zpool create -m none tank W/d1
        user zpool list -Ho name
        user daemon start >W/started
        user zpool list -Ho name
        user zfs list -Ho name
        truncate -s 128M W/home/disk
        chown 65534:65534 W/home/disk
        user zpool create -m none mine W/home/disk
        user zpool list -Ho name
        user daemon stop
        W/sawmill daemon stop
    "#;
    let script = script.replace("W/", &format!("{}/", place.directory.path().display()));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "timeout", "60", "sh", "-ec", &script]);
    let printed = place.print(&mut command);
    assert_eq!((printed.out.as_str(), printed.code), ("tank\ntank\ntank\nmine\n", 0), "{}", printed.err);
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

/// Sends a request, given as a path and a body, to a socket.
const ASK: &str = r#"
import socket, sys
_, path, where, body = sys.argv
asked = socket.socket(socket.AF_UNIX)
asked.connect(path)
head = "POST %s HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
asked.sendall((head % (where, len(body)) + body).encode())
print(b"".join(iter(lambda: asked.recv(4096), b"")).decode())
"#;
/// A request that would add a command that nobody gave to the history of `tank`.
const FORGED: &str = r#"/v1/pool/note {"pool":"tank","said":{"command":"zfs-destroy-tank/a","uid":0}}"#;

/// Sends a request to the public socket as the user, and returns the response.
fn asked_as_user(place: &Place, request: &str) -> String {
    std::fs::write(place.path("ask.py"), ASK).expect("written");
    let printed = as_user(place, &[], &format!("python3 W/ask.py W/run/look {request}"));
    assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{request}");
    printed.out
}

#[test]
fn a_request_that_changes_nothing_is_denied() {
    let Some(place) = open_place() else { return };
    place.ok("zpool create -m none tank W/d1");
    place.ok("zfs create tank/a");
    let history = place.ok("zpool history -l tank");
    for request in [
        r#"/v1/dataset/set {"name":"tank/a","props":[]}"#,
        r#"/v1/snapshot/create {"pool":"tank","names":[]}"#,
        r#"/v1/dataset/allow {"name":"tank/a","changes":{}}"#,
        FORGED,
    ] {
        let response = asked_as_user(&place, request);
        assert!(response.contains("permission denied"), "{request}: {response}");
    }
    assert_eq!(place.ok("zpool history -l tank"), history);
}

/// The name of a stream that every user may read.
fn sent_to_file(place: &Place, what: &str) -> String {
    let path = place.path("stream");
    let stream = std::fs::File::create(&path).expect("a file");
    let sent = place.command(&format!("zfs send {what}")).stdout(stream).status().expect("the program runs");
    assert!(sent.success());
    path.display().to_string()
}

#[test]
fn a_receive_that_makes_nothing_allows_no_record() {
    let Some(place) = open_place() else { return };
    place.ok("zpool create -m none tank W/d1");
    place.ok("zfs create tank/a");
    place.ok("zfs snapshot tank/a@1");
    let stream = sent_to_file(&place, "tank/a@1");
    let history = place.ok("zpool history -l tank");
    let dry = script_as_user(&place, &format!("W/sawmill zfs receive -nv tank/new < {stream}"));
    assert_eq!(
        (dry.out.as_str(), dry.code),
        ("would receive full stream of tank/a@1 into tank/new@1\n", 0),
        "{}",
        dry.err
    );
    assert!(asked_as_user(&place, FORGED).contains("permission denied"));
    assert_eq!(place.ok("zpool history -l tank"), history);
}

#[test]
fn nothing_is_received_on_top_of_what_the_user_may_not_read() {
    let Some(place) = open_place() else { return };
    place.ok("zpool create -m none tank W/d1");
    for name in ["tank/secret", "tank/mine"] {
        place.ok(&format!("zfs create {name}"));
    }
    place.ok("zfs snapshot tank/secret@1");
    place.ok("zfs clone tank/secret@1 tank/clone");
    place.ok("zfs snapshot tank/clone@2");
    place.ok("zfs allow -u 65534 create,mount,receive,send tank/mine");
    let stream = sent_to_file(&place, "-i tank/secret@1 tank/clone@2");
    let receive = || script_as_user(&place, &format!("W/sawmill zfs receive tank/mine/copy < {stream}"));
    let denied = receive();
    assert!(denied.err.contains("permission denied for origin tank/secret@1\n"), "{}", denied.err);
    assert_eq!(place.ok("zfs list -Hro name tank/mine"), "tank/mine\n");
    place.ok("zfs allow -u 65534 send tank/secret");
    let received = receive();
    assert_eq!(place.ok("zfs get -Ho value origin tank/mine/copy"), "tank/secret@1\n", "{}", received.err);
}

#[test]
fn what_a_user_receives_or_clones_has_no_set_id_programs() {
    let Some(place) = open_place() else { return };
    place.ok("zpool create -m none tank W/d1");
    for name in ["tank/src", "tank/mine", "tank/trusted"] {
        place.ok(&format!("zfs create {name}"));
    }
    place.ok("zfs set setuid=on devices=on tank/trusted");
    place.ok("zfs snapshot tank/src@1");
    for name in ["tank/mine", "tank/trusted"] {
        place.ok(&format!("zfs allow -u 65534 create,mount,receive,clone,snapshot {name}"));
    }
    let flags = |name: &str| place.ok(&format!("zfs get -Ho value,source setuid,devices {name}"));
    let off = "off\tlocal\noff\tlocal\n";
    let stream = sent_to_file(&place, "tank/src@1");
    for name in ["mine", "trusted"] {
        script_as_user(&place, &format!("W/sawmill zfs receive tank/{name}/new < {stream}"));
    }
    assert_eq!(flags("tank/mine/new"), off);
    let inherited = "on\tinherited from tank/trusted\n";
    assert_eq!(flags("tank/trusted/new"), inherited.repeat(2), "root has allowed it");
    let user = |line: &str| script_as_user(&place, &format!("W/sawmill {line}"));
    user("zfs clone tank/mine/new@1 tank/mine/copy");
    assert_eq!(flags("tank/mine/copy"), off);
    for line in ["zfs set setuid=on tank/mine/new", "zfs inherit setuid tank/mine/new"] {
        let refused = user(line);
        assert!(refused.err.contains("permission denied"), "{line}: {}", refused.err);
    }
    // What is there already is distrusted, too, unless root has decided.
    place.ok("zfs snapshot tank/src@2");
    for line in ["zfs inherit setuid tank/mine/new", "zfs set devices=on tank/mine/new"] {
        place.ok(line);
    }
    let stream = sent_to_file(&place, "-i @1 tank/src@2");
    user(&format!("zfs receive tank/mine/new < {stream}"));
    assert_eq!(flags("tank/mine/new"), "off\tlocal\non\tlocal\n");
}

#[test]
fn a_command_is_one_line_of_the_history() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1");
    let mut command = place.command("zfs set");
    let printed = place.print(command.args(["org:by=a\n\u{1b}[2Jzfs destroy tank", "tank"]));
    assert_eq!((printed.code, printed.err.as_str()), (0, ""));
    let history = place.ok("zpool history tank");
    let noted = history.lines().find(|line| line.contains("zfs set")).expect("the command");
    assert!(noted.contains("org:by=a??[2Jzfs destroy tank"), "{history}");
}

#[test]
fn a_user_chooses_a_mount_point_and_nothing_is_mounted() {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return;
    }
    let Some(place) = open_place() else { return };
    for line in [
        "zpool create -m none tank W/d1",
        "zfs create -o mountpoint=W/mnt tank/u",
        "zfs allow -u 65534 create,mount,mountpoint,canmount,acltype tank/u",
    ] {
        place.ok(line);
    }
    std::fs::create_dir(place.path("etc")).expect("made");
    chown(place.path("etc"), Some(NOBODY), Some(NOBODY)).expect("given");
    let mounted = |dataset: &str| {
        let mounts = place.ok("zfs mount");
        let place = mounts.lines().find(|line| line.starts_with(&format!("{dataset} ")));
        place.and_then(|line| line.split_whitespace().nth(1)).map(str::to_owned)
    };
    let at = Some("W/mnt".to_owned());
    assert_eq!(mounted("tank/u"), at);
    let run = [("SAWMILL_RUN", place.path("run"))];
    let user = |line: &str| as_user(&place, &run, &format!("W/sawmill {line}"));
    assert_eq!(user("zfs create tank/u/x").code, 1);
    for line in [
        "zfs set mountpoint=W/etc tank/u/x",
        "zfs set canmount=off tank/u/x",
        "zfs set canmount=on tank/u/x",
        "zfs inherit mountpoint tank/u/x",
        "zfs set mountpoint=W/etc tank/u/x",
        "zfs inherit -r mountpoint tank/u/x",
    ] {
        let printed = user(line);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
        assert_eq!(mounted("tank/u/x"), None, "{line}");
    }
    let refused = user("zfs set mountpoint=W/etc tank/u");
    assert_eq!((refused.code, refused.err.as_str()), (1, "cannot unmount 'W/mnt': permission denied\n"));
    // A dataset that is mounted again for a user stays where root has mounted the dataset.
    place.ok("zfs set -u mountpoint=W/etc tank/u");
    assert_eq!(user("zfs set acltype=posix tank/u").code, 0);
    assert_eq!(mounted("tank/u"), at);
    place.ok("zpool export tank");
}

#[test]
fn a_promotion_heeds_the_limit_of_snapshots() {
    let Some(place) = open_place() else { return };
    for line in [
        "zpool create -m none tank W/d1",
        "zfs create tank/from",
        "zfs create tank/to",
        "zfs snapshot tank/from@1",
        "zfs snapshot tank/from@2",
        "zfs snapshot tank/from@3",
        "zfs clone tank/from@2 tank/to/clone",
        "zfs allow -u 65534 promote,mount tank",
        "zfs set snapshot_limit=1 tank/to",
    ] {
        place.ok(line);
    }
    let run = [("SAWMILL_RUN", place.path("run"))];
    let promoted = || {
        let printed = as_user(&place, &run, "W/sawmill zfs promote tank/to/clone");
        (printed.code, printed.err)
    };
    // The clone would get two more snapshots.
    assert_eq!(promoted(), (1, "cannot promote 'tank/to/clone': out of space\n".to_owned()));
    assert_eq!(place.ok("zfs get -Ho value snapshot_count tank/to"), "0\n");
    // Where the limit counts both datasets, the promotion adds nothing.
    place.ok("zfs set snapshot_limit=3 tank");
    place.ok("zfs set snapshot_limit=2 tank/to");
    assert_eq!(promoted(), (0, String::new()));
    assert_eq!(place.ok("zfs get -Ho value snapshot_count tank/to"), "2\n");
}

#[test]
fn what_was_delegated_is_done_for_a_user_and_nothing_else() {
    let Some(place) = open_place() else { return };
    for line in [
        "zpool create -m none tank W/d1",
        "zfs create tank/a",
        "zfs create tank/a/b",
        "zfs create tank/other",
        "zfs allow -s @props compression,rename tank",
        "zfs allow -u 65534 snapshot,mount,create,destroy,userprop,@props tank/a",
        "zfs allow -c rollback tank/a",
        "zfs allow -g 65534 hold tank/other",
        "zfs allow -lu 65534 allow,send,mount,destroy tank/other",
    ] {
        place.ok(line);
    }
    let shown = "---- Permissions on tank/a -------------------------------------------\n\
                 Create time permissions:\n\trollback\n\
                 Local+Descendent permissions:\n\tuser nobody @props,create,destroy,mount,snapshot,userprop\n\
                 ---- Permissions on tank ---------------------------------------------\n\
                 Permission sets:\n\t@props compression,rename\n";
    assert_eq!(place.ok("zfs allow tank/a"), shown);
    let run = [("SAWMILL_RUN", place.path("run"))];
    let user = |line: &str| as_user(&place, &run, &format!("W/sawmill {line}"));
    let may = |line: &str| {
        let printed = user(line);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
        printed.out
    };
    let may_not = |line: &str, words: &str| {
        let printed = user(line);
        assert_eq!((printed.code, printed.err.trim_end()), (1, words), "{line}");
    };
    assert_eq!(may("zfs allow tank/a"), shown);
    may("zfs snapshot tank/a@s");
    may("zfs snapshot -r tank/a@t");
    may_not("zfs snapshot tank/other@s", "cannot create snapshots in 'tank': permission denied");
    may_not(
        "zfs snapshot -r tank@t",
        "cannot create snapshots in 'tank': permission denied\nno snapshots were created",
    );
    let made = "filesystem successfully created, but it may only be mounted by root";
    may_not("zfs create tank/a/c", made);
    may_not("zfs create -o compression=off tank/a/x", made);
    may_not("zfs create -o atime=off tank/a/y", "cannot create 'tank/a/y': permission denied");
    may_not("zfs create tank/c", "cannot create 'tank/c': permission denied");
    assert_eq!(
        may("zfs allow tank/a/c").lines().take(3).collect::<Vec<_>>()[1..],
        ["Local permissions:", "\tuser nobody rollback"]
    );
    may("zfs set compression=off org.example:by=me tank/a/c");
    may_not("zfs set atime=off tank/a/c", "cannot set property for 'tank/a/c': permission denied");
    may_not("zfs set compression=off tank", "cannot set property for 'tank': permission denied");
    may_not("zfs rename tank/a/c tank/c", "cannot rename 'tank/a/c': permission denied");
    may("zfs rename tank/a/c tank/a/d");
    may("zfs destroy tank/a/d");
    may("zfs destroy tank/a@s");
    may_not("zfs destroy tank/a/nothing", "cannot open 'tank/a/nothing': dataset does not exist");
    // What is said of a dataset itself is not said of its snapshots.
    place.ok("zfs snapshot tank/other@s");
    may_not("zfs destroy tank/other@s", "cannot destroy snapshots of 'tank/other': permission denied");
    may_not("zfs destroy -r tank/other", "cannot destroy 'tank/other': permission denied");
    may("zfs hold mine tank/other@s");
    may_not(
        "zfs release mine tank/other@s",
        "cannot release hold from snapshot 'tank/other@s': permission denied",
    );
    may("zfs allow -e send tank/other");
    may_not("zfs allow -e rollback tank/other", "cannot set permissions on 'tank/other': permission denied");
    may_not("zfs allow -e allow tank/other", "cannot set permissions on 'tank/other': permission denied");
    may_not("zfs unallow -e send tank/other", "cannot set permissions on 'tank/other': permission denied");
    may("zfs unallow -u 65534 send tank/other");
    // Everybody may see what he uses himself.
    assert_eq!(may("zfs get -Ho value userused@65534,userused@0 tank/a"), "0B\n-\n");
    may_not("zfs userspace tank/a", "cannot get used/quota for 'tank/a': permission denied");

    // What he has done is in the history, by his name, and nothing that he has not done.
    let history = place.ok("zpool history -l tank");
    for line in ["zfs hold mine tank/other@s", "zfs rename tank/a/c tank/a/d"] {
        assert!(
            history.lines().any(|noted| noted.contains(&format!("{line} [user 65534 (nobody)"))),
            "{history}"
        );
    }
    assert!(!history.contains("atime=off"), "{history}");
    let forged = asked_as_user(&place, FORGED);
    assert!(forged.contains("permission denied"), "{forged}");
    assert_eq!(place.ok("zpool history -l tank"), history);

    // Limits hold those who may not change them.
    place.ok("zfs set snapshot_limit=3 filesystem_limit=3 tank/a");
    assert_eq!(place.ok("zfs get -Ho value filesystem_count,snapshot_count tank/a"), "2\n2\n");
    may("zfs snapshot tank/a@1");
    may_not("zfs snapshot tank/a@2", "cannot create snapshot 'tank/a@2': out of space");
    may_not("zfs snapshot tank/a/b@2", "cannot create snapshot 'tank/a/b@2': out of space");
    place.ok("zfs snapshot -r tank@root");
    assert_eq!(place.ok("zfs get -Ho value snapshot_count tank/a"), "6\n");
    may_not("zfs create tank/a/e", made);
    may_not("zfs create tank/a/f", "cannot create 'tank/a/f': out of space");
    place.ok("zfs create tank/a/f");

    place.ok("zpool set delegation=off tank");
    may_not("zfs destroy tank/a/e", "cannot destroy 'tank/a/e': permission denied");
    place.ok("zpool set delegation=on tank");
    place.ok("zfs unallow -r -u 65534 tank/a");
    may_not("zfs destroy tank/a/e", "cannot destroy 'tank/a/e': permission denied");
    assert!(!place.ok("zfs allow tank/a/e").contains("nobody"));
    // zdb does not follow a table of permissions, and takes what is in it for lost (2.3.2).
    let zdb = oracle::zdb::Zdb::new(place.directory.path(), "tank");
    place.ok("zpool export tank");
    zdb.check_blocks().unwrap_or_else(|damage| panic!("{damage}"));
    place.ok("zpool import -d W/ tank");
    // What is taken back, and what goes with its dataset, leaves nothing.
    place.ok("zfs unallow -s @props tank");
    assert_eq!(place.ok("zfs allow tank"), "");
    place.ok("zfs destroy -r tank/a");
    place.ok("zfs unallow -g 65534 tank/other");
    place.ok("zfs unallow -e tank/other");
    place.ok("zfs unallow -u 65534 tank/other");
    assert_eq!(place.ok("zfs allow tank/other"), "");
    place.ok("zpool export tank");
    zdb.check().unwrap_or_else(|damage| panic!("{damage}"));
}

/// Runs a script as the user, and what it writes to standard output goes nowhere.
fn script_as_user(place: &Place, text: &str) -> Printed {
    let directory = format!("{}/", place.directory.path().display());
    std::fs::write(place.path("script"), text.replace("W/", &directory)).expect("written");
    as_user(place, &[("SAWMILL_RUN", place.path("run"))], "sh -e W/script")
}

#[test]
fn streams_are_sent_and_received_for_whom_that_was_delegated_to() {
    let Some(place) = open_place() else { return };
    std::fs::create_dir(place.path("home")).expect("made");
    chown(place.path("home"), Some(NOBODY), Some(NOBODY)).expect("given");
    for line in [
        "zpool create -m none tank W/d1",
        "zfs create -o compression=gzip -o org.example:by=root tank/a",
        "zfs create tank/in",
        "zfs create tank/other",
        "zfs snapshot tank/a@1",
        "zfs snapshot tank/a@2",
        "zfs snapshot tank/other@1",
    ] {
        place.ok(line);
    }
    let may = |text: &str| {
        let printed = script_as_user(&place, text);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{text}");
    };
    let may_not = |text: &str, words: &str| {
        let printed = script_as_user(&place, text);
        assert_eq!((printed.code, printed.err.as_str()), (1, words), "{text}");
    };
    may_not("W/sawmill zfs send tank/a@1 > W/home/s", "warning: cannot send 'tank/a@1': permission denied\n");
    may("W/sawmill zfs send -nP tank/a@1 > W/home/s");
    // What is said of a dataset alone is not said of its snapshots, as with other permissions.
    place.ok("zfs allow -lu 65534 send tank/a");
    may_not("W/sawmill zfs send tank/a@1 > W/home/s", "warning: cannot send 'tank/a@1': permission denied\n");
    place.ok("zfs allow -u 65534 send tank/a");
    may("W/sawmill zfs send tank/a@1 > W/home/full");
    may("W/sawmill zfs send -p tank/a@1 > W/home/props");
    may("W/sawmill zfs send -i @1 tank/a@2 > W/home/more");
    may("W/sawmill zfs send -I @1 tank/a@2 > W/home/more");
    may_not(
        "W/sawmill zfs send tank/other@1 > W/home/s",
        "warning: cannot send 'tank/other@1': permission denied\n",
    );
    may_not(
        "W/sawmill zfs send -R tank/other@1 > W/home/s",
        "warning: cannot send 'tank/other@1': permission denied\n",
    );

    let new_denied = "cannot receive new filesystem stream: permission denied\n";
    may_not("W/sawmill zfs receive -u tank/in/x < W/home/full", new_denied);
    place.ok("zfs allow -u 65534 receive:append,mount tank/in");
    may_not("W/sawmill zfs receive -u tank/in/x < W/home/full", new_denied);
    place.ok("zfs allow -u 65534 create tank/in");
    place.ok("zfs allow -c hold tank/in");
    may_not("W/sawmill zfs receive -u tank/y < W/home/full", new_denied);
    may_not("W/sawmill zfs receive -uF tank/in/x < W/home/full", new_denied);
    may("W/sawmill zfs receive -u tank/in/x < W/home/full");
    // Who makes a dataset gets what makers get.
    assert!(place.ok("zfs allow tank/in/x").contains("user nobody hold"));
    may("W/sawmill zfs receive tank/in/x < W/home/more");
    assert_eq!(place.ok("zfs list -Ho name -t snapshot tank/in/x"), "tank/in/x@1\ntank/in/x@2\n");
    // Properties that he may not set are left out, which he is told.
    let printed = script_as_user(
        &place,
        "W/sawmill zfs receive -u -o atime=off -o checksum=sha256 tank/in/p < W/home/props",
    );
    assert_eq!(printed.code, 0);
    let told: Vec<&str> = printed.err.lines().collect();
    let of = |name: &str| format!("cannot receive {name} property on tank/in/p: permission denied");
    for name in ["atime", "checksum", "compression", "org.example:by"] {
        assert!(told.contains(&of(name).as_str()), "{told:?}");
    }
    let values = place.ok("zfs get -Ho value atime,checksum,compression,org.example:by tank/in/p");
    assert_eq!(values, "on\non\non\n-\n");
    place.ok("zfs allow -u 65534 receive,compression,userprop tank/in");
    place.ok("zfs destroy -r tank/in/p");
    let printed = script_as_user(&place, "W/sawmill zfs receive -uF tank/in/p < W/home/props");
    assert_eq!((printed.code, printed.err.contains(&of("compression"))), (0, false));
    assert_eq!(place.ok("zfs get -Ho value compression,org.example:by tank/in/p"), "gzip\nroot\n");
    // What is new he may not mount.
    place.ok("zfs set mountpoint=/nowhere tank/in");
    may_not(
        "W/sawmill zfs receive tank/in/m < W/home/full",
        "cannot mount 'tank/in/m': Insufficient privileges\n",
    );
    assert_eq!(place.ok("zfs list -Ho name -t snapshot tank/in/m"), "tank/in/m@1\n");
    // What came in part he may give up if he may destroy it.
    may_not("head -c 20000 W/home/full | W/sawmill zfs receive -su tank/in/part 2>&1 > W/home/said", "");
    may_not("W/sawmill zfs receive -A tank/in/part", "cannot destroy 'tank/in/part': permission denied\n");
    place.ok("zfs allow -u 65534 destroy tank/in");
    may("W/sawmill zfs receive -A tank/in/part");
    // Limits hold him.
    place.ok("zfs set snapshot_limit=5 tank/in");
    assert_eq!(place.ok("zfs get -Ho value snapshot_count tank/in"), "4\n");
    may("W/sawmill zfs receive -u tank/in/l < W/home/full");
    may_not(
        "W/sawmill zfs receive -u tank/in/l2 < W/home/full",
        "cannot receive new filesystem stream: destination tank/in/l2 space quota exceeded.\n",
    );
    place.ok("zpool export tank");
    oracle::zdb::Zdb::new(place.directory.path(), "tank")
        .check_blocks()
        .unwrap_or_else(|damage| panic!("{damage}"));
}

/// A package changes what is there only as far as who receives it might himself.
#[test]
fn packages_rename_and_destroy_only_what_their_receiver_may() {
    let Some(place) = open_place() else { return };
    std::fs::create_dir(place.path("home")).expect("made");
    chown(place.path("home"), Some(NOBODY), Some(NOBODY)).expect("given");
    for line in [
        "zpool create -m none tank W/d1",
        "zfs create tank/a",
        "zfs create tank/a/kid",
        "zfs snapshot -r tank/a@1",
        "zpool create -m none q W/d2",
        "zfs create q/in",
        "zfs allow -u 65534 send tank",
        "zfs allow -u 65534 receive,mount,create q",
    ] {
        place.ok(line);
    }
    let received = |what: &str| {
        let line = format!("W/sawmill zfs send {what} | W/sawmill zfs receive -uF q/in/a");
        script_as_user(&place, &line)
    };
    let receive = |what: &str| {
        let printed = received(what);
        assert_eq!(printed.code, 0, "{}", printed.err);
    };
    let there = || place.ok("zfs list -rHo name -t all q/in/a");
    receive("-R tank/a@1");
    assert_eq!(there(), "q/in/a\nq/in/a@1\nq/in/a/kid\nq/in/a/kid@1\n");
    place.ok("zfs snapshot q/in/a@mine");
    place.ok("zfs rename tank/a/kid tank/a/son");
    place.ok("zfs snapshot -r tank/a@2");
    place.ok("zfs rename -r tank/a@1 tank/a@one");
    // The received datasets are kept. The tree differs from the sender's, and the command prints
    // where.
    let refused = received("-R -i @one tank/a@2");
    assert_eq!(refused.code, 1, "{}", refused.err);
    for words in ["'q/in/a/kid' belongs at 'q/in/a/son'\n", "permission denied\n"] {
        assert!(refused.err.contains(words), "{}", refused.err);
    }
    let kept = there();
    for name in ["q/in/a@1\n", "q/in/a/kid@1\n", "q/in/a/kid@2\n"] {
        assert!(kept.contains(name), "{kept}");
    }
    place.ok("zfs allow -u 65534 rename,destroy q/in");
    receive("-R -i @one tank/a@2");
    assert!(there().contains("q/in/a/son@one\n"), "{}", there());
    place.ok("zfs snapshot q/in/a@mine2");
    place.ok("zfs snapshot -r tank/a@3");
    receive("-R -i @2 tank/a@3");
    assert!(!there().contains("mine2"), "{}", there());
    assert!(there().contains("q/in/a/son@3\n"), "{}", there());
    assert!(!there().contains("q/in/a@1\n"), "{}", there());
    place.ok("zpool export q");
}
