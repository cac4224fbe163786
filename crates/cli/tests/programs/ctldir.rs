//! `.zfs/snapshot` on a mount: what is in snapshots, who keeps them from being destroyed, and what is made, destroyed and
//! renamed there.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirEntryExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, RawDir, RenameFlags, renameat_with, statfs, statvfs};
use rustix::io::Errno;

use crate::mounted::{POOL, World};
use crate::shell::sh;

/// OpenZFS's inodes of `.zfs` and `.zfs/snapshot`.
const CTLDIR_INODE: u64 = 0xffff_ffff_ffff;
const SNAPDIR_INODE: u64 = 0xffff_ffff_fffd;
const MANY: usize = 300;

fn snapdir(world: &World) -> PathBuf {
    world.root().join(".zfs/snapshot")
}

fn names(dir: &Path) -> Vec<String> {
    let all = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> =
        all.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

fn errno<T>(done: io::Result<T>) -> Option<Errno> {
    done.err().and_then(|error| Errno::from_io_error(&error))
}

#[test]
fn a_snapshot_shows_the_files_as_they_were() {
    let Some(world) = crate::world(&["setfattr", "getfattr", "tar", "diff"]) else { return };
    let (root, snapdir) = (world.root(), snapdir(&world));
    sh(
        "mkdir -p tree/deep; head -c 3000000 /dev/urandom > tree/big; echo one > tree/deep/file
         ln tree/deep/file tree/again; ln -s deep/file tree/link
         setfattr -n user.note -v old tree/big; chmod 640 tree/big; chown 12:34 tree/deep
         touch -d '2001-02-03 04:05:06.123456789' tree/deep/file
         cp -a tree copy; mkfifo copy/pipe; for i in {1..600}; do echo $i > tree/many-$i; done",
        &root,
    );
    world.zfs(&format!("snapshot {POOL}@one"));
    sh(
        "echo two >> tree/deep/file; rm tree/link tree/many-*; truncate -s 5 tree/big; setfattr -n user.note -v new tree/big
         chmod 600 tree/big; echo new > tree/new",
        &root,
    );
    let one = snapdir.join("one");
    let file = one.join("tree/deep/file");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "one\n");
    let stat = fs::metadata(&file).expect("it is there");
    assert_eq!((stat.len(), stat.nlink(), stat.mtime(), stat.mtime_nsec()), (4, 2, 981_173_106, 123_456_789));
    let big = fs::metadata(one.join("tree/big")).expect("it is there");
    assert_eq!((big.len(), big.mode() & 0o7777), (3_000_000, 0o640));
    let deep = fs::metadata(one.join("tree/deep")).expect("it is there");
    assert_eq!((deep.uid(), deep.gid()), (12, 34));
    assert_eq!(fs::read_link(one.join("tree/link")).expect("a link"), Path::new("deep/file"));
    assert_eq!(fs::read_to_string(one.join("tree/link")).expect("where it leads"), "one\n");
    assert_eq!(names(&one.join("tree")).len(), 600 + 4);
    assert!(!one.join("tree/new").exists());
    assert_eq!(sh("getfattr --only-values -n user.note tree/big", &one), "old");
    // Programs that read all of it, and compare.
    sh("cmp .zfs/snapshot/one/copy/big .zfs/snapshot/one/tree/big", &root);
    // It calls two pipes different.
    sh("diff -r --no-dereference -x pipe .zfs/snapshot/one/copy copy", &root);
    sh(
        "cp -a .zfs/snapshot/one/copy back; diff -r --no-dereference -x pipe copy back; test -p back/pipe",
        &root,
    );
    sh(
        "tar --sort=name -cf a.tar -C .zfs/snapshot/one copy; tar --sort=name -cf b.tar -C . copy
         cmp <(tar -tvf a.tar) <(tar -tvf b.tar)",
        &root,
    );
    let inodes = |stat: &fs::Metadata| (stat.dev(), stat.ino());
    let again = fs::metadata(one.join("tree/again")).expect("it is there");
    assert_eq!(inodes(&again), inodes(&stat), "a hard link");
    let live = fs::metadata(root.join("tree/deep/file")).expect("it is there");
    assert_ne!(inodes(&live), inodes(&stat), "another file");
    world.finish();
}

#[test]
fn snapshots_are_read_only_and_refuse_with_openzfs_numbers() {
    let Some(world) = crate::world(&[]) else { return };
    let root = world.root();
    fs::write(root.join("f"), "x").expect("written");
    fs::create_dir(root.join("d")).expect("made");
    world.zfs(&format!("snapshot {POOL}@s"));
    let (ctldir, snapdir, s) = (root.join(".zfs"), snapdir(&world), snapdir(&world).join("s"));
    let write = OpenOptions::new().write(true).open(s.join("f"));
    assert_eq!(errno(write), Some(Errno::ROFS));
    assert_eq!(errno(File::create(s.join("new"))), Some(Errno::ROFS));
    assert_eq!(errno(fs::create_dir(s.join("new"))), Some(Errno::ROFS));
    assert_eq!(errno(fs::remove_file(s.join("f"))), Some(Errno::ROFS));
    assert_eq!(errno(fs::remove_dir(s.join("d"))), Some(Errno::ROFS));
    assert_eq!(errno(fs::rename(s.join("f"), s.join("g"))), Some(Errno::ROFS));
    assert_eq!(errno(fs::set_permissions(s.join("f"), PermissionsExt::from_mode(0o600))), Some(Errno::ROFS));
    assert_eq!(errno(std::os::unix::fs::symlink("a", s.join("l"))), Some(Errno::ROFS));
    // Other file systems, though they share the mount.
    assert_eq!(errno(fs::hard_link(s.join("f"), root.join("linked"))), Some(Errno::XDEV));
    assert_eq!(errno(fs::rename(root.join("f"), s.join("d/f"))), Some(Errno::XDEV));
    assert_eq!(errno(fs::rename(root.join("d"), snapdir.join("d"))), Some(Errno::XDEV));
    assert_eq!(errno(fs::rename(&s, root.join("out"))), Some(Errno::INVAL));
    // The control directory itself.
    assert_eq!(errno(fs::create_dir(ctldir.join("x"))), Some(Errno::PERM));
    assert_eq!(errno(File::create(ctldir.join("x"))), Some(Errno::ACCESS));
    assert_eq!(errno(File::create(snapdir.join("x"))), Some(Errno::ACCESS));
    assert_eq!(errno(fs::remove_dir(&snapdir)), Some(Errno::PERM));
    assert_eq!(errno(fs::rename(&snapdir, ctldir.join("y"))), Some(Errno::PERM));
    assert_eq!(errno(std::os::unix::fs::symlink("a", snapdir.join("l"))), Some(Errno::PERM));
    assert_eq!(errno(fs::set_permissions(&ctldir, PermissionsExt::from_mode(0o700))), Some(Errno::PERM));
    // The engine decides who may change snapshots.
    for (name, mode) in [(".zfs", 0o555), (".zfs/snapshot", 0o777)] {
        let stat = fs::metadata(root.join(name)).expect("it is there");
        assert_eq!((stat.mode() & 0o7777, stat.uid(), stat.gid()), (mode, 0, 0), "{name}");
    }
    assert_eq!(errno(fs::remove_dir(&ctldir)), Some(Errno::EXIST));
    assert_eq!(errno(fs::create_dir(&ctldir)), Some(Errno::EXIST));
    assert_eq!(errno(fs::rename(root.join("d"), &ctldir)), Some(Errno::EXIST));
    assert_eq!(fs::read_to_string(s.join("f")).expect("it is there"), "x");
    world.finish();
}

#[test]
fn the_control_directory_is_listed_as_snapdir_says_at_once() {
    let Some(world) = crate::world(&["find"]) else { return };
    let root = world.root();
    fs::write(root.join("f"), "x").expect("written");
    world.zfs(&format!("snapshot {POOL}@s"));
    let found = |file: &str| sh(&format!("find . -xdev -name {file}"), &root).lines().count();
    assert_eq!((names(&root), found("f")), (vec!["f".to_owned()], 1), "hidden");
    let inode = |path: &Path| fs::metadata(path).expect("it is there").ino();
    assert_eq!(inode(&root.join(".zfs")), CTLDIR_INODE, "found by its name");
    assert_eq!(inode(&snapdir(&world)), SNAPDIR_INODE);
    assert_eq!(names(&root.join(".zfs")), ["snapshot"]);
    for _ in 0..2 {
        world.zfs(&format!("set snapdir=visible {POOL}"));
        assert_eq!(names(&root), [".zfs", "f"], "visible");
        assert_eq!(found("f"), 2);
        let all: BTreeSet<u64> =
            fs::read_dir(&root).expect("a directory").map(|entry| entry.expect("an entry").ino()).collect();
        assert!(all.contains(&CTLDIR_INODE), "{all:?}");
        world.zfs(&format!("set snapdir=hidden {POOL}"));
        assert_eq!(names(&root), ["f"], "hidden again");
    }
    world.zfs(&format!("set snapdir=disabled {POOL}"));
    assert_eq!(errno(fs::metadata(root.join(".zfs"))), Some(Errno::NOENT));
    assert_eq!(errno(fs::create_dir(root.join(".zfs"))), Some(Errno::EXIST));
    world.zfs(&format!("inherit snapdir {POOL}"));
    assert_eq!(names(&snapdir(&world)), ["s"]);
    // One that is empty, and one that has more than an answer holds.
    world.zfs(&format!("create -o snapdir=visible {POOL}/v"));
    let below = root.join("v");
    assert_eq!(names(&below), [".zfs"]);
    (0..1000).for_each(|n| fs::write(below.join(format!("f{n}")), "").expect("written"));
    assert_eq!(names(&below).len(), 1001);
    world.finish();
}

#[test]
fn snapshots_are_made_destroyed_and_renamed_there() {
    let Some(world) = crate::world(&["mv", "setpriv"]) else { return };
    makes_destroys_and_renames(&world);
    world.finish();
}

pub fn makes_destroys_and_renames(world: &World) {
    let (root, snapdir) = (world.root(), snapdir(world));
    fs::write(root.join("f"), "one").expect("written");
    assert!(names(&snapdir).is_empty());
    fs::create_dir(snapdir.join("a")).expect("a snapshot");
    fs::write(root.join("f"), "two").expect("written");
    fs::create_dir(snapdir.join("b")).expect("a snapshot");
    assert_eq!(fs::metadata(&snapdir).expect("it is there").nlink(), 4);
    let listed = || world.zfs_prints(&format!("list -Ho name -t snapshot {POOL}"));
    assert_eq!(listed(), format!("{POOL}@a\n{POOL}@b\n"));
    assert_eq!(errno(fs::create_dir(snapdir.join("b"))), Some(Errno::EXIST));
    assert_eq!(errno(fs::create_dir(snapdir.join("b%c"))), Some(Errno::ILSEQ));
    assert_eq!(errno(fs::create_dir(snapdir.join("x".repeat(254)))), Some(Errno::NAMETOOLONG));

    // What is open goes on, under whatever name.
    let mut open = File::open(snapdir.join("a/f")).expect("it opens");
    sh("mv .zfs/snapshot/a .zfs/snapshot/c", &root);
    assert_eq!(names(&snapdir), ["b", "c"]);
    assert_eq!(errno(fs::metadata(snapdir.join("a"))), Some(Errno::NOENT));
    let mut text = String::new();
    open.read_to_string(&mut text).expect("it is read");
    assert_eq!(text, "one");
    assert_eq!(fs::read_to_string(snapdir.join("c/f")).expect("it is there"), "one");
    let clash = renameat_with(CWD, snapdir.join("b"), CWD, snapdir.join("c"), RenameFlags::empty());
    assert_eq!(clash, Err(Errno::EXIST));
    let exchanged = renameat_with(CWD, snapdir.join("b"), CWD, snapdir.join("c"), RenameFlags::EXCHANGE);
    assert_eq!(exchanged, Err(Errno::INVAL));

    // The command renames as well, and another takes the old name.
    world.zfs(&format!("rename {POOL}@c {POOL}@d"));
    world.zfs(&format!("rename {POOL}@b {POOL}@c"));
    assert_eq!(fs::read_to_string(snapdir.join("d/f")).expect("it is there"), "one");
    assert_eq!(fs::read_to_string(snapdir.join("c/f")).expect("it is there"), "two");

    assert_eq!(errno(fs::remove_dir(snapdir.join("d"))), Some(Errno::BUSY), "a file of it is open");
    drop(open);
    fs::remove_dir(snapdir.join("d")).expect("nothing is open");
    assert_eq!(errno(fs::remove_dir(snapdir.join("d"))), Some(Errno::NOENT));
    world.zfs(&format!("hold tag {POOL}@c"));
    assert_eq!(errno(fs::remove_dir(snapdir.join("c"))), Some(Errno::BUSY), "it is held");
    world.zfs(&format!("release tag {POOL}@c"));
    fs::remove_dir(snapdir.join("c")).expect("nothing keeps it");
    assert!(names(&snapdir).is_empty());
    assert_eq!(listed(), "");
    // Users may look.
    fs::create_dir(snapdir.join("e")).expect("a snapshot");
    let as_user = "setpriv --reuid 1234 --regid 1234 --clear-groups";
    assert_eq!(sh(&format!("{as_user} cat .zfs/snapshot/e/f"), &root), "two");
    let refused =
        sh(&format!("! {as_user} mkdir .zfs/snapshot/x 2>&1; ! {as_user} rmdir .zfs/snapshot/e 2>&1"), &root);
    assert_eq!(refused.matches("Operation not permitted").count(), 2, "{refused}");
    let history = world.zpool(&format!("history -i {POOL}"));
    assert!(history.contains("snapshot") && history.contains("rename"), "{history}");
}

/// As with the commands, each change needs its permission.
#[test]
fn users_change_snapshots_as_far_as_that_was_delegated() {
    let Some(world) = crate::world(&["setpriv"]) else { return };
    let (root, snapdir) = (world.root(), snapdir(&world));
    fs::create_dir(snapdir.join("roots")).expect("root makes snapshots");
    let changes =
        ["mkdir .zfs/snapshot/new", "mv .zfs/snapshot/new .zfs/snapshot/other", "rmdir .zfs/snapshot/other"];
    let by = |ids: &str, change: &str| {
        sh(&format!("setpriv {ids} --clear-groups {change} 2>&1 || echo refused"), &root)
    };
    let (user, of_group) = ("--reuid 1234 --regid 1234", "--reuid 1235 --regid 4321");
    world.zfs(&format!("allow -u 1234 snapshot {POOL}"));
    world.zfs(&format!("allow -g 4321 snapshot,rename,mount,create,destroy {POOL}"));
    assert_eq!(by(user, changes[0]), "");
    for change in [changes[1], "rmdir .zfs/snapshot/new"] {
        let refused = by(user, change);
        assert!(refused.contains("Operation not permitted"), "{change}: {refused}");
    }
    assert_eq!(names(&snapdir), ["new", "roots"]);
    for change in &changes[1..] {
        assert_eq!(by(of_group, change), "", "{change}");
    }
    world.zfs(&format!("unallow -u 1234 {POOL}"));
    assert!(by(user, changes[0]).contains("Operation not permitted"));
    assert_eq!(names(&snapdir), ["roots"]);
    // zdb (2.3.2) takes the object of an entry that is there for a leak.
    world.zfs(&format!("unallow -g 4321 {POOL}"));
    world.finish();
}

/// The capabilities of root in a container, as container engines leave them.
const CONTAINER: &str = "chown,+dac_override,+fowner,+fsetid,+setgid,+setuid,+mknod,+net_raw,+sys_chroot";

#[test]
fn snapshots_are_not_destroyed_by_root_of_a_container() {
    let Some(world) = crate::world(&["setpriv", "unshare"]) else { return };
    let (root, snapdir) = (world.root(), snapdir(&world));
    fs::create_dir(snapdir.join("kept")).expect("root of the system makes snapshots");
    let as_container = format!("setpriv --bounding-set -all,+{CONTAINER} --inh-caps -all");
    let with_capability =
        "setpriv --reuid 12002 --clear-groups --inh-caps +dac_override --ambient-caps +dac_override";
    // All capabilities, in a user namespace of its own.
    let in_namespace = "unshare --user --map-root-user";
    for prefix in [as_container.as_str(), with_capability, in_namespace] {
        for change in [
            "mkdir .zfs/snapshot/new",
            "rmdir .zfs/snapshot/kept",
            "mv .zfs/snapshot/kept .zfs/snapshot/gone",
        ] {
            let refused = sh(&format!("! {prefix} {change} 2>&1"), &root);
            assert!(refused.contains("Operation not permitted"), "{prefix} {change}: {refused}");
        }
    }
    assert_eq!(names(&snapdir), ["kept"]);
    fs::remove_dir(snapdir.join("kept")).expect("root of the system destroys snapshots");
    world.finish();
}

#[test]
fn a_snapshot_that_was_looked_at_is_destroyed_and_one_with_an_open_file_is_not() {
    let Some(world) = crate::world(&[]) else { return };
    let (root, snapdir) = (world.root(), snapdir(&world));
    fs::create_dir(root.join("d")).expect("made");
    fs::write(root.join("d/f"), vec![7; 1 << 20]).expect("written");
    for name in ["looked", "open", "mapped"] {
        world.zfs(&format!("snapshot {POOL}@{name}"));
        assert_eq!(fs::read(snapdir.join(name).join("d/f")).expect("it is there").len(), 1 << 20);
        assert_eq!(names(&snapdir.join(name)), ["d"]);
    }
    // A directory that a program is in is let go of, and is stale from then on.
    let inside = rustix::fs::open(snapdir.join("looked/d"), rustix::fs::OFlags::DIRECTORY, 0.into())
        .expect("a directory");
    world.zfs(&format!("destroy {POOL}@looked"));
    assert_eq!(errno(fs::metadata(snapdir.join("looked"))), Some(Errno::NOENT));
    assert_eq!(names(&snapdir), ["mapped", "open"]);
    let mut room = Vec::with_capacity(4096);
    let read = RawDir::new(&inside, room.spare_capacity_mut()).next().map(|entry| entry.map(drop));
    // The kernel may have kept the list.
    assert!(matches!(read, None | Some(Ok(()) | Err(Errno::STALE))), "{read:?}");
    let gone = rustix::fs::openat(&inside, "f", rustix::fs::OFlags::RDONLY, 0.into()).map(drop);
    assert_eq!(gone, Err(Errno::STALE));
    drop(inside);

    let open = File::open(snapdir.join("open/d/f")).expect("it opens");
    let refused = world.zfs_refuses(&format!("destroy {POOL}@open")).expect("a file is open");
    assert!(refused.contains("dataset is busy"), "{refused}");
    let refused = world.zfs_refuses(&format!("destroy {POOL}@%")).expect("a file is open");
    assert!(refused.contains("dataset is busy"), "{refused}");
    assert_eq!(names(&snapdir), ["mapped", "open"], "none of them or all");
    drop(open);
    world.zfs(&format!("destroy {POOL}@%"));
    assert!(names(&snapdir).is_empty());

    // One that is to go with its hold does not go while a file is open.
    world.zfs(&format!("snapshot {POOL}@later"));
    world.zfs(&format!("hold tag {POOL}@later"));
    world.zfs(&format!("destroy -d {POOL}@later"));
    let open = File::open(snapdir.join("later/d/f")).expect("it opens");
    let refused = world.zfs_refuses(&format!("release tag {POOL}@later")).expect("a file is open");
    assert!(refused.contains("busy"), "{refused}");
    drop(open);
    world.zfs(&format!("release tag {POOL}@later"));
    assert!(names(&snapdir).is_empty());
    // The same with a clone.
    world.zfs(&format!("snapshot {POOL}@origin"));
    world.zfs(&format!("clone {POOL}@origin {POOL}/clone"));
    world.zfs(&format!("destroy -d {POOL}@origin"));
    let open = File::open(snapdir.join("origin/d/f")).expect("it opens");
    assert!(world.zfs_refuses(&format!("destroy {POOL}/clone")).is_some(), "a file is open");
    drop(open);
    world.zfs(&format!("destroy {POOL}/clone"));
    assert!(names(&snapdir).is_empty());
    world.finish();
}

#[test]
fn a_snapshot_that_was_looked_at_goes_to_another_file_system_with_a_promotion() {
    let Some(world) = crate::world(&[]) else { return };
    let root = world.root();
    world.zfs(&format!("create {POOL}/old"));
    let [old, new] = ["old", "new"].map(|name| root.join(name).join(".zfs/snapshot"));
    fs::write(root.join("old/f"), "text").expect("written");
    fs::create_dir(old.join("s")).expect("a snapshot");
    world.zfs(&format!("clone {POOL}/old@s {POOL}/new"));
    assert_eq!((names(&old), names(&new)), (vec!["s".to_owned()], Vec::new()));
    let mut open = File::open(old.join("s/f")).expect("it opens");
    world.zfs(&format!("promote {POOL}/new"));
    assert_eq!((names(&old), names(&new)), (Vec::new(), vec!["s".to_owned()]));
    assert_eq!(errno(fs::metadata(old.join("s"))), Some(Errno::NOENT));
    assert_eq!(fs::read_to_string(new.join("s/f")).expect("it is there"), "text");
    let mut text = String::new();
    open.read_to_string(&mut text).expect("it is read");
    assert_eq!(text, "text");
    assert!(
        world.zfs_refuses(&format!("destroy -R {POOL}/new@s")).is_some(),
        "a file is open, and files are mounted"
    );
    drop(open);
    world.zfs(&format!("destroy -r {POOL}/old"));
    world.zfs(&format!("destroy {POOL}/new@s"));
    assert!(names(&new).is_empty());
    world.finish();
}

#[test]
fn acls_of_a_snapshot_are_those_of_then_and_count() {
    let Some(world) = crate::world(&["setfacl", "getfacl", "setpriv"]) else { return };
    world.zfs(&format!("create -o acltype=posix {POOL}/acl"));
    let root = world.root().join("acl");
    sh("echo secret > f; chmod 640 f; setfacl -m u:1234:r f", &root);
    world.zfs(&format!("snapshot {POOL}/acl@s"));
    sh("setfacl -b f", &root);
    let told = sh("getfacl -cn .zfs/snapshot/s/f", &root);
    assert!(told.contains("user:1234:r--"), "{told}");
    let read = |user: u32, file: &str| {
        sh(
            &format!("setpriv --reuid {user} --regid {user} --clear-groups cat {file} 2> /dev/null || true"),
            &root,
        )
    };
    let then = ".zfs/snapshot/s/f";
    assert_eq!(
        (read(1234, then), read(1234, "f"), read(1235, then)),
        ("secret\n".into(), String::new(), String::new())
    );
    world.finish();
}

#[test]
fn many_snapshots_are_looked_at_and_destroyed_and_no_two_files_have_one_inode() {
    let Some(world) = crate::world(&[]) else { return };
    world.zfs(&format!("create {POOL}/fs"));
    let root = world.root().join("fs");
    let snapdir = root.join(".zfs/snapshot");
    fs::create_dir(root.join("d")).expect("made");
    let mut inodes = BTreeSet::new();
    let mut see = |path: &Path| {
        let stat = fs::metadata(path).expect("it is there");
        assert!(inodes.insert((stat.dev(), stat.ino())), "{}: {}", path.display(), stat.ino());
    };
    for n in 0..MANY {
        fs::write(root.join("d/f"), n.to_string()).expect("written");
        fs::create_dir(snapdir.join(format!("s{n}"))).expect("a snapshot");
    }
    assert_eq!(names(&snapdir).len(), MANY);
    ["", "d", "d/f"].iter().for_each(|below| see(&root.join(below)));
    for n in 0..MANY {
        let dir = snapdir.join(format!("s{n}"));
        assert_eq!(fs::read_to_string(dir.join("d/f")).expect("it is there"), n.to_string());
        ["", "d", "d/f"].iter().for_each(|below| see(&dir.join(below)));
    }
    // Most have been let go of meanwhile, and come again with the same inodes.
    let first = File::open(snapdir.join("s0/d/f")).expect("it opens");
    assert!(inodes.contains(&first.metadata().map(|stat| (stat.dev(), stat.ino())).expect("open")));
    drop(first);
    world.zfs(&format!("destroy {POOL}/fs@%"));
    assert!(names(&snapdir).is_empty());
    assert!(world.daemon().is_some(), "the daemon lives");
    // The object numbers are used again; nothing is taken for what was there before.
    for n in 0..20 {
        fs::write(root.join("d/f"), format!("again {n}")).expect("written");
        fs::create_dir(snapdir.join(format!("s{n}"))).expect("a snapshot");
        assert_eq!(
            fs::read_to_string(snapdir.join(format!("s{n}/d/f"))).expect("it is there"),
            format!("again {n}")
        );
    }
    // With all that is in it, though it was looked at.
    world.zfs(&format!("destroy -r {POOL}/fs"));
    world.finish();
}

#[test]
fn snapshots_are_there_after_a_restart_and_a_rollback() {
    let Some(world) = crate::world(&[]) else { return };
    let (root, snapdir) = (world.root(), snapdir(&world));
    fs::write(root.join("f"), "one").expect("written");
    world.zfs(&format!("snapshot {POOL}@a"));
    fs::write(root.join("f"), "two").expect("written");
    let read = |name: &str| fs::read_to_string(snapdir.join(name).join("f")).expect("it is there");
    assert_eq!(read("a"), "one");
    world.zfs(&format!("snapshot {POOL}@b"));
    world.kill_daemon();
    world.restart();
    assert_eq!(
        (read("a"), read("b"), names(&snapdir)),
        ("one".into(), "two".into(), vec!["a".to_owned(), "b".to_owned()])
    );
    world.stop_daemon();
    world.restart();
    assert_eq!((read("a"), read("b")), ("one".into(), "two".into()));
    world.zfs(&format!("rollback -r {POOL}@a"));
    assert_eq!((read("a"), names(&snapdir)), ("one".into(), vec!["a".to_owned()]));
    assert_eq!(fs::read_to_string(root.join("f")).expect("it is there"), "one");
    // Nothing of a snapshot keeps the pool from being closed.
    world.export();
    world.import();
    assert_eq!(read("a"), "one");
    world.finish();
}

#[test]
fn space_in_a_snapshot_is_the_snapshots() {
    let Some(world) = crate::world(&[]) else { return };
    let (root, snapdir) = (world.root(), snapdir(&world));
    sh("head -c 8388608 /dev/urandom > f", &root);
    world.zfs(&format!("snapshot {POOL}@full"));
    fs::remove_file(root.join("f")).expect("removed");
    world.zpool(&format!("sync {POOL}"));
    let space = statvfs(snapdir.join("full")).expect("it is told");
    let used = space.f_blocks * space.f_frsize;
    assert!(space.f_bavail == 0 && used >= 8 << 20, "{used}");
    let live = statvfs(&root).expect("it is told");
    assert!(live.f_bavail > 0);
    let ctldir = statvfs(&snapdir).expect("it is told");
    assert_eq!((ctldir.f_blocks, ctldir.f_bavail), (live.f_blocks, live.f_bavail));
    assert_eq!(statfs(&snapdir).expect("it is told").f_type, statfs(&root).expect("it is told").f_type);
    world.finish();
}

#[test]
fn who_looks_while_snapshots_come_and_go_sees_one_or_none() {
    let Some(world) = crate::world(&[]) else { return };
    let (root, snapdir) = (world.root(), snapdir(&world));
    fs::write(root.join("f"), "same").expect("written");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let looks = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        use std::sync::atomic::Ordering::SeqCst;
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    for name in names(&snapdir) {
                        match fs::read_to_string(snapdir.join(&name).join("f")) {
                            Ok(text) => assert_eq!(text, "same"),
                            Err(error) => assert!(
                                matches!(errno::<()>(Err(error)), Some(Errno::NOENT | Errno::STALE)),
                                "{name}"
                            ),
                        }
                        looks.fetch_add(1, SeqCst);
                    }
                }
            });
        }
        for n in 0..60 {
            fs::create_dir(snapdir.join(format!("s{n}"))).expect("a snapshot");
            std::thread::sleep(Duration::from_millis(5));
            if n % 3 == 1 {
                world.zfs(&format!("rename {POOL}@s{n} {POOL}@t{n}"));
            }
            // A reader may have a file open just then.
            while n % 3 == 2 && errno(fs::remove_dir(snapdir.join(format!("s{n}")))) == Some(Errno::BUSY) {}
        }
        is_over.store(true, SeqCst);
    });
    assert!(looks.into_inner() > 100, "somebody looked");
    assert_eq!(names(&snapdir).len(), 40);
    world.zfs(&format!("destroy {POOL}@%"));
    assert!(names(&snapdir).is_empty());
    world.finish();
}
