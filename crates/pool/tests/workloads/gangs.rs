//! Pools in which hardly any block lies in one piece.

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Layout, World};

/// Longer blocks become gangs.
const LONGEST_RUN: u64 = 8192;

fn ganged(layout: Layout, seed: u64) {
    let world = World::new(layout);
    let mut dice = Dice::new(seed);
    let mut pool = world.create();
    pool.zio().set_longest_run(LONGEST_RUN);
    world.create_filesystem(&pool, "whirl/fs", &[("copies", 2), ("compression", 2)]);
    let mut tree = world.run(Tree::of_empty(&world.zfs(&pool, "whirl/fs")));
    let zfs = world.zfs(&pool, "whirl/fs");
    world.run(tree.steps(&zfs, &mut dice, 80));
    world.run(pool.sync_now()).unwrap();
    world.run(tree.steps(&zfs, &mut dice, 40));
    world.run(zfs.sync()).unwrap();
    let crashed = world.copy();
    let crashed_verdict = crashed.copy().check_aside("crashed");
    drop(zfs);
    tree.forget_orphans();
    world.export(&pool);
    let listing = world.zdb().check_blocks().unwrap();
    assert!(listing.contains("ganged count:"), "{listing}");
    let mut after = tree.clone();
    pool = world.import();
    pool.zio().set_longest_run(LONGEST_RUN);
    let zfs = world.zfs(&pool, "whirl/fs");
    world.run(async {
        tree.check(&zfs).await;
        tree.steps(&zfs, &mut dice, 40).await;
        tree.clear(&zfs).await;
    });
    drop(zfs);
    world.run(pool.destroy_filesystem("whirl/fs")).unwrap();
    world.export(&pool);
    let emptied = world.check_aside("everything in pieces freed");
    let pool = crashed.import();
    let zfs = crashed.zfs(&pool, "whirl/fs");
    after.forget_orphans();
    crashed.run(after.check(&zfs));
    drop(zfs);
    crashed.export(&pool);
    crashed.check("replayed");
    crashed_verdict.wait();
    emptied.wait();
}

#[test]
fn a_pool_of_gangs_stays_whole() {
    ganged(Layout::new(&[&["a"]], &[], 9), 1);
}

#[test]
fn a_mirror_of_gangs_beside_a_log_stays_whole() {
    ganged(Layout::new(&[&["a", "b"], &["c"]], &[&["l"]], 12), 2);
}

/// Each block of the meta-objset that a sync writes more than once would take new places each time, and each change of space
/// is a change of the meta-objset.
#[test]
fn a_sync_whose_own_blocks_are_gangs_ends() {
    let world = World::new(Layout::new(&[&["a"]], &[], 9));
    let pool = world.create();
    pool.zio().set_longest_run(512);
    for number in 0..40 {
        world.create_filesystem(&pool, &format!("whirl/fs{number}"), &[]);
        world.run(pool.snapshot(vec![format!("whirl/fs{number}@s")], Vec::new())).unwrap();
    }
    world.export(&pool);
    let listing = world.zdb().check_blocks().unwrap();
    assert!(listing.contains("ganged count:"), "{listing}");
}
