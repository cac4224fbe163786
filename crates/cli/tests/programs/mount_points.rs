//! Mount points in directories that users own.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};

use crate::mounted::{World, kernel_mounts};
use crate::shell::sh;

const USER: u32 = 12_002;
const AS_USER: &str = "setpriv --reuid=12002 --regid=12002 --clear-groups";

/// A world, and a directory of a user's beside its root file system.
fn world_of_a_user() -> Option<(World, PathBuf)> {
    let world = crate::world(&["setpriv", "mount", "umount"])?;
    let home = world.root().parent().expect("the world's directory").join("home");
    fs::create_dir(&home).expect("a directory");
    chown(&home, Some(USER), Some(USER)).expect("given");
    Some((world, home))
}

fn is_mounted(at: &Path) -> bool {
    let table = kernel_mounts("/proc/self/mountinfo");
    table.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| Path::new(place) == at)
}

fn count(world: &World) -> usize {
    world.zfs_prints("mount").lines().count()
}

#[test]
fn a_mount_point_behind_a_users_link_is_refused() {
    let Some((world, home)) = world_of_a_user() else { return };
    let target = home.with_file_name("target");
    fs::create_dir(&target).expect("a directory");
    for (link, place) in [("last", "last"), ("middle", "middle/data")] {
        let (link, place) = (home.join(link), home.join(place));
        sh(&format!("{AS_USER} ln -s {} {}", target.display(), link.display()), Path::new("/"));
        world.zfs(&format!("create -u -o mountpoint={} tank/data", place.display()));
        let words = format!("'{}' is a symbolic link that uid {USER} may change", link.display());
        for command in ["mount tank/data", "mount -O tank/data", "mount -a"] {
            let refused = world.zfs_refuses(command).expect("the user's link is in the way");
            assert!(refused.contains(&words), "{command}: {refused}");
        }
        assert_eq!(count(&world), 1, "only the pool's root");
        let made = fs::read_dir(&target).expect("a directory").count();
        assert_eq!(made, 0, "nothing is made where the link leads");
        world.zfs("destroy tank/data");
    }
    world.finish();
}

#[test]
fn a_link_of_roots_is_followed_and_what_it_leads_to_later_stays_mounted() {
    let Some((world, home)) = world_of_a_user() else { return };
    let (link, real, other) = (home.with_file_name("link"), home.join("real"), home.join("other"));
    symlink(&real, &link).expect("a link");
    fs::create_dir(&real).expect("a directory");
    world.zfs(&format!("create -o mountpoint={} tank/data", link.join("fs").display()));
    world.zfs(&format!("create -o mountpoint={} tank/other", other.join("fs").display()));
    assert!(is_mounted(&real.join("fs")));
    fs::remove_file(&link).expect("removed");
    symlink(&other, &link).expect("a link");
    lchown(&link, Some(USER), Some(USER)).expect("given");
    world.zfs("set readonly=on tank/data");
    fs::write(other.join("fs/file"), "x").expect("the other one stays writable");
    world.zfs("unmount tank/data");
    assert!(!is_mounted(&real.join("fs")) && is_mounted(&other.join("fs")));
    let refused = world.zfs_refuses("mount tank/data").expect("the link is the user's by now");
    assert!(refused.contains("is a symbolic link"), "{refused}");
    assert_eq!(count(&world), 2);
    world.finish();
}

#[test]
fn a_file_system_is_unmounted_whatever_its_parent_directory_is_called() {
    let Some((world, home)) = world_of_a_user() else { return };
    let place = home.join("sub/data");
    world.zfs(&format!("create -o mountpoint={} tank/data", place.display()));
    chown(home.join("sub"), Some(USER), Some(USER)).expect("given");
    // The second name is no text.
    for name in ["sub2", "$'\\xff'"] {
        fs::write(home.join("sub/data/file"), name).expect("written");
        sh(&format!("{AS_USER} mv sub {name}"), &home);
        world.zfs("snapshot tank/data@a");
        world.zfs("rollback tank/data@a");
        world.zfs("unmount tank/data");
        assert_eq!(count(&world), 1, "only the pool's root");
        sh(&format!("[ ! -e {name}/data/file ]; mv {name} sub"), &home);
        world.zfs("destroy tank/data@a");
        world.zfs("mount tank/data");
        assert_eq!(fs::read_to_string(place.join("file")).expect("it is there"), name);
    }
    sh(&format!("{AS_USER} mv sub sub2"), &home);
    world.zfs("unmount -f tank/data");
    assert!(!is_mounted(&home.join("sub2/data")));
    world.finish();
}

/// The owners of files in a pool may be a stranger's choice, as those of a received stream.
#[test]
fn a_link_in_a_pool_decides_no_mount_point() {
    let Some((world, home)) = world_of_a_user() else { return };
    let (link, target) = (world.root().join("link"), home.with_file_name("target"));
    fs::create_dir(&target).expect("a directory");
    symlink(&target, &link).expect("a link of root's");
    world.zfs(&format!("create -u -o mountpoint={} tank/data", link.join("data").display()));
    let refused = world.zfs_refuses("mount tank/data").expect("the link is in the way");
    let words = format!("'{}' is a symbolic link in a FUSE file system", link.display());
    assert!(refused.contains(&words), "{refused}");
    assert_eq!(fs::read_dir(&target).expect("a directory").count(), 0);
    world.finish();
}
