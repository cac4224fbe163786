//! Mount points in directories of users, and real mounts on them that no server answers for.
//!
//! Each test runs in a mount namespace of its own, in a process of its own: whatever it leaves mounted
//! ends with that process.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use engine::{MountError, MountOptions};
use oracle::needs::{Need, lack_of_fuse};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_move, unmount};
use tempfile::TempDir;

use super::attached::{AttachedMount, MountInUse};
use super::identity::MountIdentity;
use super::mounter::{Attachment, make_point};
use super::point::MountPoint;
use crate::connection;

/// The directory of a test that runs in its namespace.
const INSIDE: &str = "SAWMILL_TEST_DIRECTORY";
pub(super) const USER: u32 = 12_002;
/// A walk or an unmount that waits for a server never ends by itself.
const PATIENCE_SECS: &str = "60";

/// Runs a test in a mount namespace of its own: the test program starts itself again there.
pub(super) fn alone(name: &str, test: impl FnOnce(&Path)) {
    if let Some(dir) = std::env::var_os(INSIDE) {
        let dir = Path::new(&dir);
        // The namespace has copies of all mounts, which would keep those of other tests in use.
        places("fuse.sawmill", Path::new("/")).iter().for_each(|place| {
            let _covered = unmount(place, UnmountFlags::DETACH);
        });
        return test(dir);
    }
    let is_root = rustix::process::geteuid().is_root();
    if let Some(lack) = lack_of_fuse().or((!is_root).then_some("only root can mount")) {
        return Need::Fuse.is_missing(lack);
    }
    let dir = TempDir::new().expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("permissions");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", PATIENCE_SECS, "unshare", "--mount"]);
    command.arg(std::env::current_exe().expect("this program")).args(["--exact", name, "--nocapture"]);
    let output = command.env(INSIDE, dir.path()).output().expect("unshare runs");
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && out.contains("1 passed"), "{}\n{out}{err}", output.status);
}

/// The line of a mount in the kernel's table, from the mount point on.
pub(super) fn line_of(identity: MountIdentity) -> String {
    let table = fs::read("/proc/self/mountinfo").expect("a table");
    let table = String::from_utf8_lossy(&table);
    let number = format!("{} ", identity.id);
    let line = table.lines().find(|line| line.starts_with(&number)).expect("it is mounted");
    line.splitn(5, ' ').last().expect("a mount point").to_owned()
}

/// A directory, given to the user.
pub(super) fn users(dir: &Path) -> PathBuf {
    fs::create_dir_all(dir).expect("made");
    chown(dir, Some(USER), Some(USER)).expect("given");
    dir.to_owned()
}

/// A link of the user's.
fn users_link(target: &Path, link: &Path) {
    symlink(target, link).expect("a link");
    lchown(link, Some(USER), Some(USER)).expect("given");
}

/// Where a walk to a mount point ends.
fn end_of(path: &Path, altroot: Option<&Path>) -> Result<PathBuf, String> {
    let point = MountPoint::make(path, altroot).map_err(|error| error.to_string())?;
    let opened = super::point::path_of(std::os::fd::AsFd::as_fd(&point.directory));
    Ok(fs::read_link(opened).expect("its path"))
}

pub(super) fn attach(path: &Path) -> (Arc<OwnedFd>, AttachedMount) {
    let point = MountPoint::make(path, None).expect("a mount point");
    let options = MountOptions { source: "tank".to_owned(), ..MountOptions::default() };
    AttachedMount::attach(&point, &options).expect("mounted")
}

/// Another file system, at a place that is made.
fn mount_other(place: &Path) {
    fs::create_dir_all(place).expect("a directory");
    mount_over(place);
}

/// The same, at a place that is there. Nobody asks what is there.
pub(super) fn mount_over(place: &Path) {
    mount("other", place, "tmpfs", MountFlags::empty(), None).expect("mounted");
}

/// The places below a directory where file systems of this type are mounted.
fn places(kind: &str, dir: &Path) -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mountinfo").expect("a table");
    let words = format!(" - {kind} ");
    let is_meant = |line: &&[u8]| line.windows(words.len()).any(|part| part == words.as_bytes());
    let lines = table.split(|byte| *byte == b'\n').filter(is_meant);
    let all = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(OsStr::from_bytes);
    all.map(PathBuf::from).filter(|place| place.starts_with(dir)).collect()
}

fn ours(dir: &Path) -> Vec<PathBuf> {
    places("fuse.sawmill", dir)
}

fn is_other(place: &Path) -> bool {
    places("tmpfs", place).first().is_some_and(|first| first == place)
}

#[test]
fn links_are_followed_where_only_root_may_change_them() {
    alone("mount::tests::links_are_followed_where_only_root_may_change_them", |dir| {
        let target = dir.join("target");
        fs::create_dir_all(dir.join("roots")).expect("a directory");
        fs::create_dir(&target).expect("a directory");
        let link = dir.join("roots/link");
        symlink("../target", &link).expect("a link");
        assert_eq!(end_of(&link, None), Ok(target.clone()));
        assert_eq!(end_of(&link.join("made/below"), None), Ok(target.join("made/below")));
        assert_eq!(end_of(&link.join("../roots"), None), Ok(dir.join("roots")), "'..' of the target");
        let refused = |path: &Path, by: &str| {
            let words = format!("'{}' is a symbolic link that {by} may change", link.display());
            assert_eq!(end_of(path, None), Err(words));
        };
        fs::set_permissions(dir.join("roots"), Permissions::from_mode(0o1777)).expect("permissions");
        refused(&link, "other users");
        fs::set_permissions(dir.join("roots"), Permissions::from_mode(0o775)).expect("permissions");
        refused(&link.join("below"), "other users");
        fs::set_permissions(dir.join("roots"), Permissions::from_mode(0o755)).expect("permissions");
        lchown(&link, Some(USER), None).expect("given");
        refused(&link, &format!("uid {USER}"));
        lchown(&link, Some(0), None).expect("given");
        users(&dir.join("roots"));
        refused(&link.join("below"), &format!("uid {USER}"));
        assert!(!target.join("below").exists(), "nothing is made where a refused link leads");
        fs::remove_file(&link).expect("removed");
        symlink("link", &link).expect("a link");
        chown(dir.join("roots"), Some(0), Some(0)).expect("given");
        assert!(end_of(&link, None).is_err_and(|error| error.contains("os error 40")), "it leads to itself");
    });
}

#[test]
fn directories_of_users_are_walked_through_and_made() {
    alone("mount::tests::directories_of_users_are_walked_through_and_made", |dir| {
        let home = users(&dir.join("home"));
        assert_eq!(end_of(&home.join("a/../b/./c"), None), Ok(home.join("b/c")));
        assert!(home.join("a").is_dir(), "as with mkdir");
        let made = fs::metadata(home.join("b")).expect("made");
        assert_eq!((made.uid(), made.mode() & 0o7777), (0, 0o755));
        File::create(home.join("file")).expect("made");
        assert!(end_of(&home.join("file/below"), None).is_err_and(|error| error.contains("os error 20")));
        assert!(MountPoint::find(&home.join("missing")).is_err());
        assert!(!home.join("missing").exists(), "only looked for");
    });
}

#[test]
fn no_link_leads_out_of_an_altroot() {
    alone("mount::tests::no_link_leads_out_of_an_altroot", |dir| {
        let altroot = dir.join("altroot");
        fs::create_dir_all(altroot.join("a")).expect("a directory");
        symlink(dir.join("outside"), altroot.join("absolute")).expect("a link");
        symlink("../../../../../outside", altroot.join("a/relative")).expect("a link");
        let within = altroot.join(dir.strip_prefix("/").expect("absolute")).join("outside");
        for (path, end) in [
            ("absolute", within),
            ("a/relative", altroot.join("outside")),
            ("a/../../../../b", altroot.join("b")),
            ("", altroot.clone()),
        ] {
            assert_eq!(end_of(&altroot.join(path), Some(&altroot)), Ok(end), "{path}");
        }
        assert_eq!(end_of(&altroot.join("absolute"), None), Ok(dir.join("outside")), "without an altroot");
        assert!(end_of(&dir.join("outside"), Some(&altroot)).is_err());
    });
}

#[test]
fn what_another_user_mounted_is_not_entered() {
    alone("mount::tests::what_another_user_mounted_is_not_entered", |dir| {
        let theirs = users(&dir.join("theirs"));
        let device = connection::open().expect("a device");
        let number = std::os::fd::AsRawFd::as_raw_fd(&device);
        let data = format!("fd={number},rootmode=40000,user_id={USER},group_id={USER},allow_other");
        let data = std::ffi::CString::new(data).expect("words");
        mount("theirs", &theirs, "fuse", MountFlags::empty(), data.as_c_str()).expect("mounted");
        let words = format!("uid {USER} has mounted a file system at '{}'", theirs.display());
        assert_eq!(end_of(&theirs, None), Err(words.clone()));
        assert_eq!(end_of(&theirs.join("data"), None), Err(words));
    });
}

#[test]
fn an_unmount_finds_its_mount_where_it_is_now() {
    alone("mount::tests::an_unmount_finds_its_mount_where_it_is_now", |dir| {
        let home = users(&dir.join("home"));
        for name in [OsStr::new("other"), OsStr::from_bytes(b"\xff")] {
            let (_device, mount) = attach(&home.join("sub/data"));
            fs::rename(home.join("sub"), home.join(name)).expect("renamed");
            assert_eq!(ours(dir), [home.join(name).join("data")]);
            assert_eq!(mount.unmount(), Ok(()));
            assert!(ours(dir).is_empty() && mount.is_gone());
        }
        let (_device, mount) = attach(&home.join("data"));
        fs::create_dir(home.join("moved")).expect("a directory");
        mount_move(home.join("data"), home.join("moved")).expect("moved");
        assert_eq!(ours(dir), [home.join("moved")]);
        assert_eq!(mount.unmount(), Ok(()));
        assert!(ours(dir).is_empty());
        let (_device, mount) = attach(Path::new("/"));
        assert_eq!(mount.unmount(), Ok(()));
        assert!(ours(dir).is_empty(), "over the root");
    });
}

#[test]
fn an_unmount_leaves_other_mounts_alone() {
    alone("mount::tests::an_unmount_leaves_other_mounts_alone", |dir| {
        let (home, other) = (dir.join("home"), dir.join("other"));
        fs::create_dir_all(home.join("sub")).expect("a directory");
        mount_other(&other.join("data"));
        // The link by which it was mounted leads elsewhere.
        symlink(home.join("sub"), dir.join("link")).expect("a link");
        let (_device, mount) = attach(&dir.join("link/data"));
        fs::remove_file(dir.join("link")).expect("removed");
        users_link(&other, &dir.join("link"));
        assert_eq!(mount.unmount(), Ok(()));
        assert_eq!((ours(dir), is_other(&other.join("data"))), (vec![], true));
        // Where it was is another mount, and where that directory was is another mount.
        let (_device, mount) = attach(&home.join("sub/data"));
        fs::rename(home.join("sub"), home.join("old")).expect("renamed");
        mount_other(&home.join("sub/data"));
        assert_eq!(mount.unmount(), Ok(()));
        assert_eq!((ours(dir), is_other(&home.join("sub/data"))), (vec![], true));
        // It was taken away already.
        let (_device, mount) = attach(&home.join("old/data"));
        unmount(home.join("old/data"), UnmountFlags::DETACH).expect("unmounted");
        mount_other(&home.join("old/data"));
        assert_eq!(mount.unmount(), Ok(()));
        mount.hang_up();
        assert!(is_other(&home.join("old/data")));
        // It was taken away, and a copy lives on: another mount may get its number.
        let place = home.join("last/data");
        let (_device, mount) = attach(&place);
        fs::create_dir(dir.join("copy")).expect("a directory");
        mount_bind(&place, dir.join("copy")).expect("a copy");
        unmount(&place, UnmountFlags::empty()).expect("unmounted");
        mount_over(&place);
        assert_eq!(mount.unmount(), Ok(()), "it is not mounted here any more");
        let copy = format!("a bind mount at '{}'", dir.join("copy").display());
        assert_eq!((mount.seen_elsewhere(), is_other(&place)), (Some(copy), true));
        mount.hang_up();
        assert!(mount.is_gone() && is_other(&place));
    });
}

#[test]
fn what_is_covered_or_in_use_stays_mounted() {
    alone("mount::tests::what_is_covered_or_in_use_stays_mounted", |dir| {
        let place = dir.join("home/data");
        let (_device, mount) = attach(&place);
        for cover in [&place, &dir.join("home")] {
            mount_over(cover);
            assert_eq!(mount.unmount(), Err(MountInUse));
            assert!(!mount.is_reached() && !mount.is_gone());
            assert!(ours(dir) == [place.as_path()] && is_other(cover));
            unmount(cover, UnmountFlags::empty()).expect("unmounted");
        }
        let root = mount.root().expect("it is reached");
        assert_eq!(mount.unmount(), Err(MountInUse), "somebody is there");
        drop(root);
        let copy = dir.join("copy");
        fs::create_dir(&copy).expect("a directory");
        mount_bind(&place, &copy).expect("a copy");
        let shown = format!("a bind mount at '{}'", copy.display());
        assert_eq!(mount.seen_elsewhere().as_ref(), Some(&shown));
        assert_eq!(mount.unmount(), Ok(()), "it lives on in the copy");
        assert_eq!((ours(dir), mount.is_gone()), (vec![copy.clone()], true));
        assert_eq!(mount.seen_elsewhere(), Some(shown));
        unmount(&copy, UnmountFlags::empty()).expect("unmounted");
        assert_eq!((ours(dir), mount.seen_elsewhere()), (vec![], None));
        let (_device, mount) = attach(&place);
        let root = mount.root().expect("it is reached");
        mount.hang_up();
        assert!(ours(dir).is_empty(), "by force, although somebody is there");
        drop(root);
    });
}

#[test]
fn a_copy_in_another_mount_namespace_is_seen() {
    use std::io::Read;
    use std::process::{Command, Stdio};

    alone("mount::tests::a_copy_in_another_mount_namespace_is_seen", |dir| {
        let place = dir.join("data");
        let (_device, mount) = attach(&place);
        assert_eq!(mount.seen_elsewhere(), None);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", "echo; read -r end"]);
        let mut other = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare runs");
        let out = other.stdout.as_mut().expect("a pipe");
        out.read_exact(&mut [0]).expect("it is there");
        // What was read a moment ago may be kept.
        std::thread::sleep(std::time::Duration::from_secs(1));
        let words = format!("the mount namespace of process {} (sh) at '{}'", other.id(), place.display());
        assert_eq!(mount.seen_elsewhere(), Some(words));
        other.kill().expect("killed");
        other.wait().expect("ended");
        assert_eq!(mount.seen_elsewhere(), None, "a table that shows it is read again");
        assert_eq!(mount.unmount(), Ok(()));
    });
}

#[test]
fn a_mount_without_a_server_makes_place_for_the_next() {
    alone("mount::tests::a_mount_without_a_server_makes_place_for_the_next", |dir| {
        let place = dir.join("data");
        let (device, _mount) = attach(&place);
        drop(device);
        assert_eq!(ours(dir), [place.as_path()]);
        make_point(&place, None, false).expect("a mount point");
        assert!(ours(dir).is_empty());
        File::create(place.join("file")).expect("the directory is there");
        let refused = make_point(&place, None, false).err().expect("refused");
        assert!(matches!(refused, MountError::NotEmpty { .. }));
        make_point(&place, None, true).expect("an overlay");
    });
}
