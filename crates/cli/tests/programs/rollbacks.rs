//! Going back on a mount: what is newer is told, given up when asked, and kept where something is held.

use std::fs;

use crate::mounted::World;

/// What is kept of `tank/fs`, one after the other.
fn kept(world: &World) -> String {
    let listed = world.zfs_prints("list -Ho name -t snapshot,bookmark -r tank/fs");
    listed.lines().map(|name| name.trim_start_matches("tank/fs")).collect::<Vec<_>>().join(" ")
}

fn refused(world: &World, line: &str) -> String {
    world.zfs_refuses(line).unwrap_or_else(|| panic!("zfs {line} was done"))
}

#[test]
fn a_rollback_gives_up_what_is_newer_and_nothing_that_is_held() {
    let Some(world) = crate::world(&[]) else { return };
    world.zfs("create tank/fs");
    let file = world.root().join("fs/f");
    for turn in 1..=2 {
        fs::write(&file, turn.to_string()).expect("written");
        world.zfs(&format!("snapshot tank/fs@{turn}"));
    }
    world.zfs("bookmark tank/fs@2 tank/fs#b");
    world.zfs("hold keep tank/fs@2");
    fs::write(&file, "3").expect("written");
    let told = refused(&world, "rollback tank/fs@1");
    assert!(told.contains("more recent snapshots or bookmarks exist"), "{told}");
    assert!(told.contains("tank/fs@2\n") && told.contains("tank/fs#b"), "{told}");
    // Whatever would take the held one along takes nothing.
    for line in ["rollback -r tank/fs@1", "destroy -r tank/fs", "destroy tank/fs@1%2", "destroy tank/fs@2"] {
        let told = refused(&world, line);
        assert!(told.contains("tank/fs@2: it's being held. "), "{line}: {told}");
        assert_eq!(kept(&world), "@1 @2 #b", "{line}");
        assert_eq!(fs::read_to_string(&file).expect("it is mounted"), "3", "{line}");
    }
    world.zfs("release keep tank/fs@2");
    world.zfs("rollback -r tank/fs@1");
    assert_eq!(
        (kept(&world).as_str(), fs::read_to_string(&file).expect("it is mounted").as_str()),
        ("@1", "1")
    );
    // A bookmark is newer, too, though its snapshot is gone.
    world.zfs("snapshot tank/fs@3");
    world.zfs("bookmark tank/fs@3 tank/fs#late");
    world.zfs("destroy tank/fs@3");
    fs::write(&file, "4").expect("written");
    let told = refused(&world, "rollback tank/fs@1");
    assert!(told.contains("tank/fs#late"), "{told}");
    world.zfs("rollback -r tank/fs@1");
    assert_eq!(
        (kept(&world).as_str(), fs::read_to_string(&file).expect("it is mounted").as_str()),
        ("@1", "1")
    );
    world.finish();
}
