//! Space maps over many txgs: logs, flushes, features, judged by `zdb` in between.

use std::sync::Arc;

use dmu::zap::Zap;
use dsl::features::{LOG_SPACEMAP, SPACEMAP_HISTOGRAM, VDEV_ZAPS_V2};
use pool::Pool;
use units::ObjectId;

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Layout, World};

/// Logs that there may be: a round of flushes, and the txg under way.
const LOGS_MAX: u64 = 34;

fn logs(world: &World, pool: &Pool) -> u64 {
    world.run(async {
        let zap = pool.dsl().directory_object("com.delphix:log_spacemap_zap").await.unwrap();
        Zap::hold(pool.dsl().mos(), zap).await.unwrap().count().await.unwrap()
    })
}

#[test]
fn logs_are_few_and_an_export_leaves_hardly_any() {
    let mut dice = Dice::new(77);
    let world = World::new(Layout { device_mib: 2048, ..Layout::new(&[&["a"], &["b"]], &[&["l"]], 12) });
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let mut tree = world.run(Tree::of_empty(&zfs));
    let mut verdicts = Vec::new();
    for group in 1..=120 {
        world.run(tree.steps(&zfs, &mut dice, 6));
        if group % 3 == 0 {
            world.run(zfs.sync()).unwrap();
        }
        world.run(pool.sync_now()).unwrap();
        assert!(logs(&world, &pool) <= LOGS_MAX, "{} logs after group {group}", logs(&world, &pool));
        if [1, 20, 61, 120].contains(&group) {
            verdicts.push(world.copy().check_aside(&format!("group {group}")));
        }
    }
    assert!(logs(&world, &pool) > 2, "changes stay in logs for a while");
    verdicts.into_iter().for_each(|verdict| drop(verdict.wait()));
    world.run(tree.close_orphans(&zfs));
    world.run(tree.check(&zfs));
    drop(zfs);
    world.export(&pool);
    drop(pool);
    world.check("exported");
    let pool = world.import();
    assert!(logs(&world, &pool) <= 4, "{} logs after an export", logs(&world, &pool));
    assert_eq!(count(&world, &pool, &LOG_SPACEMAP), Some(1));
    world.run(tree.check(&world.zfs(&pool, "whirl")));
    world.export(&pool);
    world.check("exported again");
}

fn count(world: &World, pool: &Pool, feature: &dsl::features::Feature) -> Option<u64> {
    world.run(pool.dsl().feature_count(feature)).unwrap()
}

#[test]
fn a_root_zap_is_made_at_the_import_after_its_feature_was_enabled() {
    let world = World::new(Layout::new(&[&["a"]], &[], 12));
    let pool = world.create();
    assert_eq!(count(&world, &pool, &VDEV_ZAPS_V2), None);
    enable(&world, &pool, &VDEV_ZAPS_V2);
    assert_eq!(count(&world, &pool, &VDEV_ZAPS_V2), Some(0));
    world.export(&pool);
    drop(pool);
    let pool = world.import();
    assert_eq!(count(&world, &pool, &VDEV_ZAPS_V2), Some(1));
    assert!(count(&world, &pool, &SPACEMAP_HISTOGRAM) > Some(0));
    let root_zap = pool.vdevs().root().root_zap;
    world.run(Zap::hold(pool.dsl().mos(), ObjectId::new(root_zap))).unwrap();
    world.export(&pool);
    world.check("with a root ZAP");
    let label = world.zdb().run(&["-C"], &[]).unwrap();
    assert!(label.contains(&format!("com.klarasystems:vdev_zap_root: {root_zap}")), "{label}");
    let pool = world.import();
    assert_eq!(pool.vdevs().root().root_zap, root_zap);
    assert_eq!(count(&world, &pool, &VDEV_ZAPS_V2), Some(1));
}

fn enable(world: &World, pool: &Arc<Pool>, feature: &'static dsl::features::Feature) {
    world.run(pool.enable_feature(feature)).unwrap();
}
