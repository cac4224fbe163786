//! Mounts follow their datasets: when a dataset gets another name or mount point, when a change is
//! refused, and when other datasets are mounted above or below.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::mounted::{POOL, World, kernel_mounts};

/// A directory next to the pool's directory.
fn beside(world: &World, name: &str) -> PathBuf {
    world.root().with_file_name(name)
}

/// Lists the mounted datasets, sorted by name, with their mount points relative to the world's
/// directory.
fn mounts(world: &World) -> Vec<String> {
    let dir = world.root().parent().expect("a directory").to_owned();
    let printed = world.zfs_prints("mount");
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, at) = (words.next().expect("a name"), Path::new(words.next().expect("a place")));
        format!("{name} {}", at.strip_prefix(&dir).unwrap_or(at).display())
    };
    let mut mounts: Vec<String> = printed.lines().map(line).collect();
    mounts.sort();
    mounts
}

/// Lists the mount points of our file systems according to the kernel, relative to the world's
/// directory.
fn kernel_places(world: &World) -> Vec<String> {
    let dir = world.root().parent().expect("a directory").to_owned();
    let table = kernel_mounts("/proc/self/mountinfo");
    let places = table.lines().filter_map(|line| line.split(' ').nth(4).map(str::to_owned));
    let mut places: Vec<String> =
        places.filter_map(|at| Some(Path::new(&at).strip_prefix(&dir).ok()?.display().to_string())).collect();
    places.sort();
    places
}

fn property(world: &World, name: &str, dataset: &str) -> String {
    world.zfs_prints(&format!("get -Ho value,source {name} {dataset}")).trim().replace('\t', " ")
}

#[test]
fn a_pool_whose_datasets_are_all_destroyed_stays_mounted() {
    let Some(world) = crate::world(&[]) else { return };
    world.zfs("create -p tank/a/b");
    world.zfs("snapshot -r tank@s");
    let mut file = File::create(world.root().join("file")).expect("a file");
    world.zfs("destroy -r tank");
    file.write_all(b"kept").expect("it is open still");
    assert_eq!(mounts(&world), ["tank mnt"]);
    assert_eq!(world.zfs_prints("list -Ho name -t all"), "tank\n");
    assert_eq!(fs::read(world.root().join("file")).expect("it is there"), b"kept");
    drop(file);
    world.finish();
}

/// Two sessions of one dataset would have two caches, and each would overwrite the changes of the
/// other.
#[test]
fn a_data_set_that_is_renamed_in_place_keeps_its_one_mount() {
    let Some(world) = crate::world(&[]) else { return };
    world.zfs("create -p tank/old/below");
    let at = world.root().join("old");
    let mut file = File::create(at.join("file")).expect("a file");
    world.zfs("rename -u tank/old tank/new");
    let as_it_was = ["tank mnt", "tank/new mnt/old", "tank/new/below mnt/old/below"];
    assert_eq!(mounts(&world), as_it_was);
    assert_eq!(property(&world, "mounted", "tank/new"), "yes -");
    // No dataset is mounted a second time.
    world.zfs("mount -a");
    assert_eq!(mounts(&world), as_it_was);
    assert_eq!(kernel_places(&world), ["mnt", "mnt/old", "mnt/old/below"]);
    let refused = world.zfs_refuses("mount tank/new").expect("it is mounted");
    assert_eq!(refused, "cannot mount 'tank/new': filesystem already mounted\n");
    // A file that is open stays open under the new name of the dataset.
    file.write_all(b"kept").expect("written");
    assert!(world.zfs_refuses("destroy -r tank/new").is_some(), "a file is open");
    drop(file);
    world.zfs("unmount tank/new");
    assert_eq!(mounts(&world), ["tank mnt"]);
    world.zfs("mount -a");
    assert_eq!(mounts(&world), ["tank mnt", "tank/new mnt/new", "tank/new/below mnt/new/below"]);
    assert_eq!(fs::read(world.root().join("new/file")).expect("it is there"), b"kept");
    world.finish();
}

#[test]
fn what_was_mounted_below_is_mounted_again_at_the_new_place() {
    let Some(world) = crate::world(&[]) else { return };
    let (one, two) = (beside(&world, "one"), beside(&world, "two"));
    world.zfs("create -p tank/w/c/d");
    world.zfs(&format!("create -o mountpoint={} tank/w/own", one.display()));
    // In a directory of it, with a mount point of its own.
    world.zfs(&format!("create -o mountpoint={}/in tank/inside", world.root().join("w").display()));
    world.zfs("create -o canmount=noauto tank/w/byhand");
    world.zfs("create -o canmount=noauto tank/w/never");
    world.zfs("mount -o ro tank/w/byhand");
    fs::write(world.root().join("w/c/d/file"), "x").expect("written");
    world.zfs(&format!("set mountpoint={} tank/w", two.display()));
    let moved = [
        "tank mnt",
        "tank/inside mnt/w/in",
        "tank/w two",
        "tank/w/byhand two/byhand",
        "tank/w/c two/c",
        "tank/w/c/d two/c/d",
        "tank/w/own one",
    ];
    assert_eq!(mounts(&world), moved);
    assert_eq!(fs::read(two.join("c/d/file")).expect("it is there"), b"x");
    let refused = fs::write(two.join("byhand/file"), "x").expect_err("its options stay");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    world.zfs("inherit mountpoint tank/w");
    let back = [
        "tank mnt",
        "tank/inside mnt/w/in",
        "tank/w mnt/w",
        "tank/w/byhand mnt/w/byhand",
        "tank/w/c mnt/w/c",
        "tank/w/c/d mnt/w/c/d",
        "tank/w/own one",
    ];
    assert_eq!(mounts(&world), back);
    // Without a mount point, none of them is mounted; with one, all that are mounted automatically.
    world.zfs("set mountpoint=none tank/w");
    assert_eq!(mounts(&world), ["tank mnt", "tank/inside mnt/w/in", "tank/w/own one"]);
    world.zfs("inherit mountpoint tank/w");
    let by_themselves: Vec<&str> = back.into_iter().filter(|line| !line.contains("byhand")).collect();
    assert_eq!(mounts(&world), by_themselves);
    // Setting the present value moves no mount, even if the mount is in use.
    let _open = File::open(world.root().join("w/c/d/file")).expect("it is there");
    let there = world.root().join("w");
    world.zfs(&format!("set -u mountpoint={} tank/w", there.display()));
    world.zfs(&format!("set mountpoint={} tank/w", there.display()));
    assert_eq!(mounts(&world), by_themselves);
    drop(_open);
    world.finish();
}

#[test]
fn what_is_refused_has_changed_nothing() {
    let Some(world) = crate::world(&[]) else { return };
    let new = beside(&world, "new");
    world.zfs("create -p tank/a/b/c");
    world.zfs("mount -a");
    let before = mounts(&world);
    let was = |name: &str| property(&world, name, "tank/a");
    // The deepest dataset is unmounted before the one above it turns out to be in use.
    let open = File::create(world.root().join("a/b/file")).expect("a file");
    let attempts = [
        ("mountpoint", format!("set mountpoint={} tank/a", new.display())),
        ("canmount", "set canmount=off tank/a".to_owned()),
        ("acltype", "set acltype=posix tank/a".to_owned()),
        ("readonly", "set readonly=on tank/a".to_owned()),
        ("compression", format!("set compression=lz4 mountpoint={} tank/a", new.display())),
        ("atime", "set atime=off quota=1G readonly=on tank/a".to_owned()),
        ("quota", "set quota=1G recordsize=16k refquota=1G readonly=on tank/a".to_owned()),
    ];
    for (name, attempt) in attempts {
        let value = was(name);
        let refused = world.zfs_refuses(&attempt).unwrap_or_else(|| panic!("zfs {attempt} was done"));
        assert!(refused.contains("busy"), "{attempt}: {refused}");
        assert_eq!(was(name), value, "{attempt}");
        assert_eq!(mounts(&world), before, "{attempt}");
        fs::write(world.root().join("a/b/c/more"), name).expect("it is mounted and writable");
    }
    // A value that permits mounts leaves a mount that is in use alone.
    for value in ["noauto", "on"] {
        world.zfs(&format!("set canmount={value} tank/a"));
        assert_eq!((was("canmount"), mounts(&world)), (format!("{value} local"), before.clone()));
    }
    for attempt in ["rename tank/a tank/z", "unmount tank/a"] {
        assert!(world.zfs_refuses(attempt).is_some(), "zfs {attempt} was done");
        assert_eq!(mounts(&world), before, "{attempt}");
    }
    drop(open);
    // A place at which nothing can be mounted.
    File::create(&new).expect("a file in the way");
    let refused = world.zfs_refuses(&format!("set mountpoint={}/sub tank/a", new.display()));
    assert!(refused.is_some_and(|line| line.contains("cannot make mount point")));
    assert_eq!(
        (mounts(&world), was("mountpoint")),
        (before.clone(), property(&world, "mountpoint", "tank/a"))
    );
    assert_eq!(was("mountpoint"), format!("{} inherited from tank", world.root().join("a").display()));
    // A property that is set in the same command is restored, and if one of several is refused,
    // none is set.
    world.zfs("set quota=200M tank/a");
    assert!(world.zfs_refuses("set quota=100M reservation=150M tank/a").is_some());
    assert_eq!((was("quota").as_str(), was("reservation").as_str()), ("200M local", "none default"));
    world.zfs("set canmount=off tank/a");
    assert_eq!(mounts(&world), ["tank mnt", "tank/a/b mnt/a/b", "tank/a/b/c mnt/a/b/c"]);
    world.zfs("snapshot tank@1");
    world.zfs("rollback tank@1");
    world.finish();
}

/// OpenZFS does the same since 2.2.
#[test]
fn a_mount_point_that_is_set_mounts_what_was_not_mounted_unless_something_is_in_the_way() {
    let Some(world) = crate::world(&[]) else { return };
    world.zfs("create -p -o overlay=off tank/a/b");
    let place = beside(&world, "place");
    world.zfs("unmount tank/a");
    world.zfs(&format!("set mountpoint={} tank/a", world.root().join("a").display()));
    assert_eq!(
        mounts(&world),
        ["tank mnt", "tank/a mnt/a", "tank/a/b mnt/a/b"],
        "though it is the place of before"
    );
    world.zfs("unmount tank/a/b");
    world.zfs("set canmount=noauto tank/a/b");
    world.zfs(&format!("set mountpoint={} tank/a", world.root().join("z").display()));
    assert_eq!(mounts(&world), ["tank mnt", "tank/a mnt/z"], "it is mounted by name only");
    world.zfs("set canmount=on tank/a/b");
    fs::create_dir(&place).and_then(|()| fs::write(place.join("file"), "x")).expect("written");
    world.zfs(&format!("set mountpoint={} tank/a/b", place.display()));
    assert_eq!(mounts(&world), ["tank mnt", "tank/a mnt/z"], "there is a file, and overlay is off");
    assert!(world.zfs_refuses("mount tank/a/b").is_some_and(|said| said.contains("directory is not empty")));
    fs::remove_file(place.join("file")).expect("removed");
    world.zfs("mount -R tank/a tank");
    assert_eq!(mounts(&world), ["tank mnt", "tank/a mnt/z", "tank/a/b place"]);
    world.finish();
}

/// A process of its own for each pool refuses what the next test has done in one process, because a mount on which
/// another pool is mounted stays where it is.
#[test]
fn a_parent_of_another_pools_mount_is_mounted_over_nothing() {
    let Some(world) = crate::world(&[]) else { return };
    let top = beside(&world, "top");
    let place = |below: &str| format!("{}{below}", top.display());
    let disk = beside(&world, "other");
    File::create(&disk).and_then(|file| file.set_len(128 << 20)).expect("a disk");
    world.zfs(&format!("create -o mountpoint={} tank/m", place("/x")));
    world.zpool(&format!("create -m {} zother {}", place("/x/y"), disk.display()));
    world.zfs(&format!("create -u -o mountpoint={} tank/z", place("")));
    fs::write(top.join("x/y/whose"), "other").expect("written");
    let refused = world.zfs_refuses("mount tank/z").expect("a pool is mounted below");
    assert!(refused.starts_with("cannot mount 'tank/z': it would hide what is mounted below"), "{refused}");
    assert_eq!(mounts(&world), ["tank mnt", "tank/m top/x", "zother top/x/y"]);
    assert_eq!(fs::read_to_string(top.join("x/y/whose")).expect("it is there"), "other");
    world.zpool("destroy zother");
    world.zfs("mount tank/z");
    assert_eq!(mounts(&world), ["tank mnt", "tank/m top/x", "tank/z top"]);
    world.finish();
}

#[test]
fn a_parent_is_never_mounted_over_its_child() {
    let Some(world) = World::in_one_process(crate::VDEVS, crate::DISK_MIB) else { return };
    let top = beside(&world, "top");
    let place = |below: &str| format!("{}{below}", top.display());
    // The names are in the reverse order of the mount points, in two pools.
    let disk = beside(&world, "other");
    File::create(&disk).and_then(|file| file.set_len(128 << 20)).expect("a disk");
    world.zpool(&format!("create -m {} zother {}", place("/x/y"), disk.display()));
    world.zfs(&format!("create -o mountpoint={} tank/z", place("")));
    world.zfs(&format!("create -o mountpoint={} tank/m", place("/x")));
    world.zfs(&format!("create -o mountpoint={} tank/a", place("/x/y/deep")));
    let right = ["tank mnt", "tank/a top/x/y/deep", "tank/m top/x", "tank/z top", "zother top/x/y"];
    assert_eq!(mounts(&world), right);
    for (dir, name) in [("", "z"), ("/x", "m"), ("/x/y", "other"), ("/x/y/deep", "a")] {
        fs::write(top.join(dir.trim_start_matches('/')).join("whose"), name).expect("written");
    }
    let check = |what: &str| {
        assert_eq!(mounts(&world), right, "{what}");
        for (dir, name) in [("", "z"), ("x", "m"), ("x/y", "other"), ("x/y/deep", "a")] {
            let found = fs::read_to_string(top.join(dir).join("whose"));
            assert_eq!(found.ok().as_deref(), Some(name), "{what}: {dir}");
        }
    };
    check("made");
    world.zfs("unmount -a");
    world.zfs("mount -a");
    check("mount -a");
    world.zfs("unmount -a");
    for dataset in ["tank/a", "zother", "tank/m", "tank/z", POOL] {
        world.zfs(&format!("mount {dataset}"));
    }
    check("one by one, the deepest first");
    // A mount that could not be mounted again on top is not covered.
    world.zfs("unmount tank/a");
    world.zfs("unmount zother");
    world.zfs("unmount tank/m");
    world.zfs("mount zother");
    let open = File::open(top.join("x/y/whose")).expect("it is there");
    let refused = world.zfs_refuses("mount tank/m").expect("a file below is open");
    assert!(refused.starts_with("cannot mount 'tank/m': it would hide what is mounted below"), "{refused}");
    assert_eq!(fs::read_to_string(top.join("x/y/whose")).expect("it is there"), "other");
    drop(open);
    world.zfs("mount -a");
    check("the rest");
    world.zfs("unmount -a");
    world.export();
    world.zpool("export zother");
    world.zpool(&format!("import -d {} zother", disk.parent().expect("a directory").display()));
    world.import();
    check("imported, the child's pool first");
    world.kill_daemon();
    world.restart();
    check("brought back");
    world.zfs("unmount -a");
    world.zpool("destroy zother");
    world.finish();
}

#[test]
fn an_unmount_takes_along_its_descendants() {
    let Some(world) = crate::world(&[]) else { return };
    let own = beside(&world, "own");
    world.zfs("create -p tank/f/c/d");
    world.zfs(&format!("create -o mountpoint={} tank/f/own", own.display()));
    let all = ["tank mnt", "tank/f mnt/f", "tank/f/c mnt/f/c", "tank/f/c/d mnt/f/c/d", "tank/f/own own"];
    assert_eq!(mounts(&world), all);
    let open = File::create(world.root().join("f/c/file")).expect("a file");
    let refused = world.zfs_refuses("unmount tank/f").expect("a file below is open");
    let busy = format!("cannot unmount '{}': pool or dataset is busy\n", world.root().join("f/c").display());
    assert_eq!(refused, busy);
    assert_eq!(mounts(&world), all, "none of them");
    drop(open);
    world.zfs("unmount tank/f");
    assert_eq!(mounts(&world), ["tank mnt"], "also the one with a place of its own");
    world.zfs("mount -a");
    world.zfs(&format!("unmount {}", world.root().join("f/c").display()));
    assert_eq!(mounts(&world), ["tank mnt", "tank/f mnt/f", "tank/f/own own"]);
    // Volumes below are not mounted, and do not prevent the change.
    world.zfs("create -V 1M tank/f/v");
    world.zfs(&format!("set mountpoint={} tank/f", beside(&world, "g").display()));
    world.zfs("create -V 1M tank/f/w");
    world.zfs("mount -a");
    world.zfs("unmount -a");
    world.zfs("mount -R tank");
    world.export();
    world.import();
    assert_eq!(
        mounts(&world),
        ["tank mnt", "tank/f g", "tank/f/c g/c", "tank/f/c/d g/c/d", "tank/f/own own"]
    );
    world.finish();
}

/// A replica that was only read can receive the next stream.
#[test]
fn a_mount_alone_writes_nothing_to_a_replica() {
    let Some(world) = crate::world(&["bash"]) else { return };
    let zfs = world.run_dir().with_file_name("bin").join("zfs");
    let pipe = |script: &str| {
        let script = format!("export SAWMILL_RUN={}; {script}", world.run_dir().display());
        crate::shell::sh(&script.replace("zfs", &zfs.display().to_string()), Path::new("/"))
    };
    world.zfs("create tank/from");
    fs::create_dir(world.root().join("from/dir")).expect("made");
    fs::write(world.root().join("from/dir/file"), "one").expect("written");
    world.zfs("snapshot tank/from@1");
    // With atime, reading a file is a change of the replica, which the administrator has chosen.
    for (name, option) in [("tank/plain", "-o atime=off"), ("tank/fixed", "-o readonly=on")] {
        pipe(&format!("zfs send tank/from@1 | zfs receive {option} -u {name}"));
        let look = || {
            world.zfs(&format!("mount {name}"));
            let at = world.root().join(name.trim_start_matches("tank/"));
            let names = crate::shell::sh("ls -la . dir; stat dir/file", &at);
            assert!(names.contains("file"), "{names}");
            world.zfs(&format!("unmount {name}"));
            world.zpool("sync tank");
        };
        look();
        assert_eq!(property(&world, "written", name), "0 -", "{name} was mounted and looked at");
    }
    fs::write(world.root().join("from/dir/file"), "two").expect("written");
    world.zfs("snapshot tank/from@2");
    for name in ["plain", "fixed"] {
        pipe(&format!("zfs send -i @1 tank/from@2 | zfs receive tank/{name}"));
        _ = world.zfs_refuses(&format!("mount tank/{name}"));
        let read = fs::read_to_string(world.root().join(name).join("dir/file")).expect("it is there");
        assert_eq!(read, "two", "{name}");
        assert_eq!(property(&world, "written", &format!("tank/{name}")), "0 -", "{name} is mounted again");
        world.zfs(&format!("unmount tank/{name}"));
        assert_eq!(property(&world, "written", &format!("tank/{name}")), "0 -", "{name}");
    }
    // Writes work as usual, and the first change is as stable as any other.
    world.zfs("mount tank/plain");
    let mut file = File::create(world.root().join("plain/new")).expect("a file");
    file.write_all(b"kept").and_then(|()| file.sync_all()).expect("stable");
    world.kill_daemon();
    world.restart();
    _ = world.zfs_refuses("mount tank/plain");
    assert_eq!(fs::read(world.root().join("plain/new")).expect("it is there"), b"kept");
    world.finish();
}
