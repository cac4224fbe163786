//! File systems of old versions on a mount: used, listed, upgraded.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use crate::mounted::World;

/// Makes a tree below a directory, of what each version has its own form of.
fn fill(dir: &Path) {
    fs::create_dir_all(dir.join("d/e")).expect("made");
    fs::write(dir.join("d/file"), "content").expect("written");
    fs::hard_link(dir.join("d/file"), dir.join("d/e/other")).expect("linked");
    symlink("short", dir.join("short")).expect("linked");
    symlink("long/".repeat(100), dir.join("long")).expect("linked");
    fs::rename(dir.join("d/e"), dir.join("e")).expect("renamed");
    xattr(dir, "d/file", "user.x", "value");
}

fn xattr(dir: &Path, file: &str, name: &str, value: &str) {
    rustix::fs::setxattr(dir.join(file), name, value.as_bytes(), rustix::fs::XattrFlags::empty())
        .expect("set");
}

fn check(dir: &Path) {
    for file in ["d/file", "e/other"] {
        assert_eq!(fs::read_to_string(dir.join(file)).expect("read"), "content", "{file}");
    }
    assert_eq!(fs::metadata(dir.join("d/file")).expect("there").nlink(), 2);
    for (link, text) in [("short", "short".to_owned()), ("long", "long/".repeat(100))] {
        assert_eq!(fs::read_link(dir.join(link)).expect("read").display().to_string(), text);
    }
    let mut value = [0; 64];
    let len = rustix::fs::getxattr(dir.join("d/file"), "user.x", &mut value[..]).expect("there");
    assert_eq!(value[..len], *b"value");
    let mut names: Vec<_> = fs::read_dir(dir).expect("listed").map(|entry| entry.expect("read")).collect();
    names.sort_by_key(|entry| entry.file_name());
    let kinds: Vec<_> = names.iter().map(|entry| entry.file_type().expect("known").is_dir()).collect();
    assert_eq!(kinds, [true, true, false, false]);
}

#[test]
fn file_systems_of_old_versions_are_used_and_upgraded() {
    let Some(world) = World::new("a", 256) else { return };
    let dirs: Vec<_> = (1..5).map(|version| world.root().join(format!("v{version}"))).collect();
    for (version, dir) in (1..).zip(&dirs) {
        world.zfs(&format!("create -o version={version} tank/v{version}"));
        assert_eq!(
            world.zfs_prints(&format!("get -Hpo value version tank/v{version}")),
            format!("{version}\n")
        );
        fill(dir);
        check(dir);
    }
    world.finish();
    world.import();
    dirs.iter().for_each(|dir| check(dir));
    let listed = world.zfs_prints("upgrade");
    let old = "VER  FILESYSTEM\n---  ------------\n 1   tank/v1\n 2   tank/v2\n 3   tank/v3\n 4   tank/v4\n";
    assert!(listed.ends_with(old), "{listed}");
    world.zfs("set version=3 tank/v1");
    let refused = world.zfs_refuses("set version=1 tank/v1").expect("refused");
    assert_eq!(refused, "cannot set property for 'tank/v1': Can not downgrade; already at version 3\n");
    let upgraded = world.zfs_prints("upgrade -a");
    assert_eq!(upgraded, "4 filesystems upgraded\n1 filesystems already at this version\n");
    for dir in &dirs {
        check(dir);
        // A new name and a new file in an old directory, and an attribute beside the old one.
        fs::write(dir.join("d/new"), "new").expect("written");
        xattr(dir, "d/new", "user.y", "more");
        xattr(dir, "d/file", "user.z", "more");
    }
    world.finish();
    world.import();
    for dir in &dirs {
        assert_eq!(fs::read_to_string(dir.join("d/new")).expect("read"), "new");
        fs::remove_file(dir.join("d/new")).expect("removed");
        check(dir);
        fs::remove_dir_all(dir.join("d")).expect("removed");
    }
    world.finish();
}
