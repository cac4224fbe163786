//! `cp` on a mount: files share blocks, and the pool says how much that saves.

use std::fs;

use crate::mounted::{POOL, World};
use crate::shell::sh;

const MIB: usize = 1 << 20;

/// `bcloneused`, `bclonesaved` and `bcloneratio` in hundredths.
fn cloned(world: &World) -> (u64, u64, u64) {
    let told = world.zpool(&format!("get -Hpo value bcloneused,bclonesaved,bcloneratio {POOL}"));
    let mut lines = told.lines();
    let mut bytes = || lines.next().expect("three of them").parse().expect("a number");
    let (used, saved) = (bytes(), bytes());
    let ratio: f64 = lines.next().expect("the third").trim_end_matches('x').parse().expect("a number");
    (used, saved, (ratio * 100.0).round() as u64)
}

#[test]
fn cp_shares_what_it_can_and_copies_the_rest() {
    let Some(world) = crate::world(&["cp", "cmp", "dd"]) else { return };
    let root = world.root();
    sh(
        "head -c 20000000 /dev/urandom > a; head -c 3000 /dev/urandom > small; truncate -s 9M sparse; sync",
        &root,
    );
    world.zpool(&format!("sync {POOL}"));
    let before = world.zpool(&format!("get -Hpo value allocated {POOL}"));
    sh(
        "cp --reflink=auto a b; cp small small2; cp sparse sparse2; cmp a b; cmp small small2; cmp sparse sparse2",
        &root,
    );
    world.zpool(&format!("sync {POOL}"));
    let (used, saved, ratio) = cloned(&world);
    assert!(saved >= 19 * MIB as u64 && used == saved && ratio == 200, "{used} {saved} {ratio}");
    let after = world.zpool(&format!("get -Hpo value allocated {POOL}"));
    let grown = [after, before].map(|text| text.trim().parse::<u64>().expect("bytes"));
    assert!(grown[0] - grown[1] < 2 * MIB as u64, "{grown:?}: nothing was copied");
    // From the middle of a file, neither of whose ends lies where a block does.
    sh(
        "dd if=b of=part bs=1 seek=5 count=0 status=none
         python3 - <<'END' || true
import os
a, b = os.open('a', os.O_RDONLY), os.open('part', os.O_RDWR)
off = 100
while off < 3000000:
    off += os.copy_file_range(a, b, 3000000 - off, off, off)
END",
        &root,
    );
    let (a, part) = (fs::read(root.join("a")).expect("reads"), fs::read(root.join("part")).expect("reads"));
    assert!(part.len() <= 100 || part[100..] == a[100..part.len()], "what was copied is the same");
    // What was written to one is not in the other.
    sh(
        "printf changed | dd of=a conv=notrunc bs=1 seek=1000000 status=none; ! cmp -s a b; rm a; sha256sum b",
        &root,
    );
    world.export();
    world.import();
    assert!(fs::read(root.join("b")).expect("reads").len() == 20_000_000);
    sh("rm b part", &root);
    world.zpool(&format!("sync {POOL}"));
    world.finish();
}

#[test]
fn a_file_is_brought_back_from_a_snapshot_without_space() {
    let Some(world) = crate::world(&["cp", "cmp"]) else { return };
    let root = world.root();
    sh("head -c 8000000 /dev/urandom > lost; cp lost kept", &root);
    world.zfs(&format!("snapshot {POOL}@s"));
    let (_, before, _) = cloned(&world);
    sh("rm lost; cp .zfs/snapshot/s/lost lost; cmp lost kept", &root);
    world.zpool(&format!("sync {POOL}"));
    let (_, saved, _) = cloned(&world);
    assert!(saved >= before + 7 * MIB as u64, "{before} before, {saved} after");
    world.finish();
}

#[test]
fn clones_outlive_a_kill_of_the_daemon_once_they_were_synced() {
    let Some(world) = crate::world(&["cp", "cmp"]) else { return };
    let root = world.root();
    sh("head -c 8000000 /dev/urandom > a; sync", &root);
    world.zpool(&format!("sync {POOL}"));
    let sum = sh("sha256sum < a", &root);
    sh("cp a b; sync b; rm a; sync .", &root);
    world.kill_daemon();
    world.restart();
    assert_eq!(sh("sha256sum < b", &root), sum);
    world.finish();
}
