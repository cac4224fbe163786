//! Mount points that users choose, by themselves and by names below those of others.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use oracle::needs::{Need, lack_of_fuse};

use super::{NOBODY, Place, as_user, asked_as_user, home, open_place, script_as_user, sent_to_file};

const MADE: &str = "filesystem successfully created, but it may only be mounted by root\n";
const PERMISSIONS: &str = "create,mount,mountpoint,canmount,overlay,rename,clone,receive,promote";

/// A directory of root's with a file in it.
fn roots(place: &Place, name: &str) {
    std::fs::create_dir_all(place.path(name)).expect("made");
    std::fs::write(place.path(name).join("file"), "root's").expect("written");
}

/// A place with a pool, `tank/u` of the user's, a directory `home` of the user's, and `etc` of root's.
fn world() -> Option<Place> {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return None;
    }
    let place = open_place()?;
    home(&place);
    roots(&place, "etc");
    place.ok("zpool create -m none tank W/d1");
    place.ok("zfs create tank/u");
    place.ok(&format!("zfs allow -u {NOBODY} {PERMISSIONS} tank/u"));
    Some(place)
}

/// Runs a command as the user. Returns its exit code and its errors.
fn by_user(place: &Place, line: &str) -> (i32, String) {
    let printed = as_user(place, &[("SAWMILL_RUN", place.path("run"))], &format!("W/sawmill {line}"));
    (printed.code, printed.err)
}

fn not_chosen(doing: &str, at: &str) -> (i32, String) {
    let reason = format!("'{at}' is not a directory that uid {NOBODY} owns or can make");
    (1, format!("cannot {doing}: permission denied\n{reason}\n"))
}

fn not_inherited(doing: &str, at: &str) -> (i32, String) {
    let reason = format!("'{at}' is neither empty nor a directory that uid {NOBODY} owns or can make");
    (1, format!("cannot {doing}: permission denied\n{reason}\n"))
}

fn mountpoint(place: &Place, dataset: &str) -> String {
    place.ok(&format!("zfs get -Ho value,source mountpoint {dataset}")).trim_end().to_owned()
}

/// The next daemon, an import and `zfs mount -a` mount where the properties say.
fn mounts_of_the_next_daemon(place: &Place) -> String {
    place.ok("daemon stop");
    place.ok("zfs mount -a");
    assert_eq!(std::fs::read_to_string(place.path("etc/file")).expect("it is not hidden"), "root's");
    place.ok("zfs mount")
}

#[test]
fn a_user_chooses_only_mount_points_of_the_users_own() {
    let Some(place) = world() else { return };
    let user = |line: &str| by_user(&place, line);
    let made = || (1, MADE.to_owned());
    for (options, name, at) in [
        ("", "tank/u/x", "W/etc"),
        ("", "tank/u/x", "W/etc/new"),
        ("", "tank/u/x", "W/new"),
        ("-p", "tank/u/p/x", "W/etc"),
        ("-o canmount=off", "tank/u/x", "W/etc"),
        ("-u", "tank/u/x", "W/etc"),
    ] {
        let refused = user(&format!("zfs create {options} -o mountpoint={at} {name}"));
        assert_eq!(refused, not_chosen(&format!("create '{name}'"), at));
    }
    assert_eq!(place.ok("zfs list -Hro name tank/u"), "tank/u\n", "nothing is made");
    assert_eq!(user("zfs create -o mountpoint=W/home/x tank/u/x"), made());
    assert_eq!(user("zfs create tank/u/y"), made());
    // Later, and along with other properties.
    for (line, at) in [
        ("zfs set mountpoint=W/etc tank/u/x", "W/etc"),
        ("zfs set mountpoint=/etc tank/u/x", "/etc"),
        ("zfs set mountpoint=/ tank/u/x", "/"),
        ("zfs set -u mountpoint=W/etc tank/u/x", "W/etc"),
        ("zfs set canmount=off mountpoint=W/etc tank/u/x", "W/etc"),
        ("zfs set mountpoint=W/home/x/../../etc tank/u/x", "W/home/x/../../etc"),
    ] {
        let (code, words) = user(line);
        assert_eq!(code, 1, "{line}");
        let first = "cannot set property for 'tank/u/x': permission denied\n";
        assert!(words.starts_with(&format!("{first}'{at}' ")), "{line}: {words}");
    }
    // No command names a property twice, or another user.
    for request in [
        r#"/v1/dataset/set {"name":"tank/u/x","props":[["mountpoint","/etc"],["mountpoint","none"]]}"#,
        r#"/v1/dataset/set {"name":"tank/u/x","props":[["mountpoint","/etc"]],"maker":{"uid":0,"gids":[0]}}"#,
        r#"/v1/dataset/create {"name":"tank/u/z","props":[["mountpoint","/etc"],["mountpoint","none"]]}"#,
    ] {
        let response = asked_as_user(&place, request);
        assert!(response.contains("'/etc' is not a directory that uid"), "{request}: {response}");
    }
    assert_eq!(mountpoint(&place, "tank/u/x"), "W/home/x\tlocal");
    assert_eq!(place.ok("zfs get -Ho value canmount tank/u/x"), "on\n");
    for value in ["none", "legacy", "W/home/deep/er", "W/home"] {
        assert_eq!(user(&format!("zfs set mountpoint={value} tank/u/y")), (0, String::new()), "{value}");
    }
    place.ok("zfs snapshot tank/u/x@1");
    let refused = user("zfs clone -o mountpoint=W/etc tank/u/x@1 tank/u/c");
    assert_eq!(refused, not_chosen("create 'tank/u/c'", "W/etc"));
    assert_eq!(user("zfs clone -o mountpoint=W/home/c tank/u/x@1 tank/u/c"), made());
    // Root may do all that.
    place.ok("zfs create -u -o mountpoint=W/roots tank/u/r");
    let mounts = mounts_of_the_next_daemon(&place);
    assert!(!mounts.contains("etc"), "{mounts}");
    place.ok("zpool export tank");
}

#[test]
fn a_users_dataset_hides_no_directory() {
    let Some(place) = world() else { return };
    roots(&place, "top/etc");
    std::fs::create_dir(place.path("top/empty")).expect("made");
    place.ok("zfs create -o canmount=off -o mountpoint=W/top tank/top");
    place.ok(&format!("zfs allow -u {NOBODY} {PERMISSIONS} tank/top"));
    let user = |line: &str| by_user(&place, line);
    let made = || (1, MADE.to_owned());
    for line in ["zfs create", "zfs create -o canmount=off", "zfs create -u"] {
        let refused = user(&format!("{line} tank/top/etc"));
        assert_eq!(refused, not_inherited("create 'tank/top/etc'", "W/top/etc"), "{line}");
    }
    let refused = user("zfs create -p tank/top/etc/deep");
    assert_eq!(refused, not_inherited("create 'tank/top/etc/deep'", "W/top/etc"));
    let refused = user("zfs create -p -o mountpoint=W/home/deep tank/top/etc/deep");
    assert_eq!(refused, not_inherited("create 'tank/top/etc/deep'", "W/top/etc"));
    assert_eq!(user("zfs create tank/top/new"), made());
    assert_eq!(user("zfs create -p tank/top/empty/deep"), made());
    let refused = user("zfs rename tank/top/new tank/top/etc");
    assert_eq!(refused, not_inherited("rename 'tank/top/new'", "W/top/etc"));
    assert_eq!(user("zfs rename tank/top/new tank/top/newer"), (0, String::new()));
    place.ok("zfs snapshot tank/top/newer@1");
    let refused = user("zfs clone tank/top/newer@1 tank/top/etc");
    assert_eq!(refused, not_inherited("create 'tank/top/etc'", "W/top/etc"));
    // From a parent that is mounted nowhere.
    assert_eq!(user("zfs create tank/u/etc"), made());
    let refused = user("zfs rename tank/u/etc tank/top/etc");
    assert_eq!(refused, not_inherited("rename 'tank/u/etc'", "W/top/etc"));
    let stream = sent_to_file(&place, "tank/top/newer@1");
    let received = script_as_user(&place, &format!("W/sawmill zfs receive tank/top/etc < {stream}"));
    let (_, words) = not_inherited("receive new filesystem stream", "W/top/etc");
    assert_eq!((received.code, received.err), (1, words));
    // What root has made, and does not mount.
    place.ok("zfs create -o canmount=off tank/top/etc");
    let refused = user("zfs set canmount=on tank/top/etc");
    assert_eq!(refused, not_inherited("set property for 'tank/top/etc'", "W/top/etc"));
    place.ok("zfs set mountpoint=none tank/top/etc");
    let refused = user("zfs inherit mountpoint tank/top/etc");
    assert_eq!(refused, not_inherited("inherit property for 'tank/top/etc'", "W/top/etc"));
    place.ok("zfs set overlay=off tank/top");
    place.ok("zfs set mountpoint=W/top/etc tank/top/etc");
    let refused = user("zfs set overlay=on tank/top");
    assert_eq!(refused, not_inherited("set property for 'tank/top'", "W/top"));
    place.ok("zfs destroy tank/top/etc");
    let mounts = mounts_of_the_next_daemon(&place);
    assert!(!mounts.contains("top/etc"), "{mounts}");
    place.ok("zpool export tank");
}

#[test]
fn a_received_mount_point_needs_a_directory_of_the_users() {
    let Some(place) = world() else { return };
    place.ok("zfs create -o canmount=off -o mountpoint=W/etc tank/src");
    place.ok("zfs snapshot tank/src@1");
    let stream = sent_to_file(&place, "-p tank/src@1");
    let receive = |options: &str, name: &str| {
        script_as_user(&place, &format!("W/sawmill zfs receive -u {options} {name} < {stream}"))
    };
    let left_out = |name: &str| {
        let (_, words) = not_chosen("", "W/etc");
        let reason = words.lines().last().map(str::to_owned).expect("a reason");
        format!("cannot receive mountpoint property on {name}: permission denied\n{reason}\n")
    };
    let none = "none\tinherited from tank";
    let received = receive("", "tank/u/a");
    assert!(received.code == 0 && received.err.contains(&left_out("tank/u/a")), "{}", received.err);
    assert_eq!(mountpoint(&place, "tank/u/a"), none);
    let received = receive("-o mountpoint=W/etc", "tank/u/b");
    assert!(received.code == 0 && received.err.contains(&left_out("tank/u/b")), "{}", received.err);
    assert_eq!(mountpoint(&place, "tank/u/b"), none);
    let received = receive("-x mountpoint -o canmount=on", "tank/u/c");
    assert!(!received.err.contains("mountpoint"), "{}", received.err);
    assert_eq!(mountpoint(&place, "tank/u/c"), none);
    let received = receive("-o mountpoint=W/home/d", "tank/u/d");
    assert!(received.code == 0, "{}", received.err);
    assert_eq!(
        mountpoint(&place, "tank/u/d"),
        "W/home/d\tlocal",
        "only the stream's mount point is left out"
    );
    // Root receives the mount point too, and another counts.
    place.ok("zfs create -o mountpoint=none tank/u/roots");
    let mut by_root = place.command("zfs receive -u -o mountpoint=none tank/u/roots/e");
    let received = place.print(by_root.stdin(File::open(&stream).expect("a stream")));
    assert_eq!(received.code, 0, "{}", received.err);
    for line in ["zfs inherit -S mountpoint tank/u/roots/e", "zfs inherit -rS mountpoint tank/u/roots"] {
        let (code, words) = by_user(&place, line);
        assert!(code == 1 && words.contains("'W/etc' is not a directory"), "{line}: {words}");
    }
    assert_eq!(mountpoint(&place, "tank/u/roots/e"), "none\tlocal");
    // A later stream without a mount point takes back none that the user may not set.
    place.ok(&format!("zfs unallow -u {NOBODY} mountpoint tank/u"));
    place.ok("zfs inherit -S mountpoint tank/u/roots/e");
    assert_eq!(mountpoint(&place, "tank/u/roots/e"), "W/etc\treceived");
    place.ok("zfs inherit mountpoint tank/src");
    place.ok("zfs snapshot tank/src@2");
    let stream = sent_to_file(&place, "-p -i @1 tank/src@2");
    let received = script_as_user(&place, &format!("W/sawmill zfs receive -u tank/u/roots/e < {stream}"));
    assert_eq!(received.code, 0, "{}", received.err);
    assert_eq!(mountpoint(&place, "tank/u/roots/e"), "W/etc\treceived");
    place.ok("zfs destroy -r tank/u/roots");
    let mounts = mounts_of_the_next_daemon(&place);
    assert!(!mounts.contains("etc"), "{mounts}");
    place.ok("zpool export tank");
}

#[test]
fn the_root_directory_of_a_file_system_belongs_to_whoever_made_it() {
    let Some(place) = world() else { return };
    let made = by_user(&place, "zfs create -o mountpoint=W/home/x tank/u/x");
    assert_eq!(made, (1, MADE.to_owned()));
    place.ok("zfs mount tank/u/x");
    let owner = |name: &str| std::fs::metadata(place.path(name)).map(|found| found.uid()).expect("mounted");
    assert_eq!(owner("home/x"), NOBODY);
    std::fs::create_dir(place.path("r")).expect("made");
    place.ok("zfs create -o mountpoint=W/r tank/r");
    assert_eq!(owner("r"), 0);
}
