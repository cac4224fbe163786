//! Livelists of clones: `zdb` compares them with what the clone has written, and looks for what their end leaves.

use std::sync::Arc;

use dsl::features::LIVELIST;
use pool::Pool;
use zpl::{FilePlace, WriteFlags, Zfs};

use crate::dice::Dice;
use crate::file::{make, noise};
use crate::world::{Layout, World};

const ONE: Layout = Layout::new(&[&["a"]], &[], 9);
const RAIDZ: Layout = Layout { parity: 1, ..Layout::new(&[&["a", "b", "c"]], &[&["l"]], 12) };
const RECORD: u64 = 4096;
const RECORDS: u64 = 2000;
const ROUNDS: u64 = 8;

/// A pool with a file system of one large file, a snapshot, and a clone of that.
fn start(world: &World) -> Arc<Pool> {
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[("recordsize", RECORD)]);
    let zfs = world.zfs(&pool, "whirl/fs");
    world.run(async {
        make(&zfs, "file", &noise(1, RECORDS * RECORD)).await;
        pool.snapshot(vec!["whirl/fs@s".into()], Vec::new()).await.unwrap();
        let props = vec![("recordsize".to_owned(), dsl::PropValue::Number(RECORD))];
        pool.clone_snapshot("whirl/fs@s".into(), "whirl/c".into(), props).await.unwrap();
    });
    pool
}

async fn livelists(pool: &Pool) -> u64 {
    pool.dsl().feature_count(&LIVELIST).await.unwrap().expect("new pools have it")
}

/// Writes over some records of the clone, makes files, lets some go, and has blocks of the origin's shared once more.
async fn change(zfs: &Zfs, dice: &mut Dice, round: u64) {
    let file = zfs.lookup(zfs.root(), b"file").await.unwrap().object;
    for _ in 0..20 {
        let at = dice.below(RECORDS / 40) * RECORD + dice.below(RECORD);
        zfs.write(file, at, &noise(dice.word(), 3000), WriteFlags::default()).await.unwrap();
    }
    let copy = make(zfs, &format!("copy{round}"), b"").await;
    let place = FilePlace { zfs, object: file, offset: (100 + round % 100) * RECORD };
    zfs.clone_range(place, (copy, 0), 10 * RECORD, WriteFlags::default()).await.unwrap();
    make(zfs, &format!("small{round}"), &noise(dice.word(), 700)).await;
    for old in ["copy", "small"] {
        _ = zfs.unlink(zfs.root(), format!("{old}{}", round.wrapping_sub(2)).as_bytes()).await;
    }
}

/// Until what was destroyed is freed: no txg syncs by itself after that.
async fn settle(pool: &Pool) {
    while pool.dsl().has_destroyed().await.unwrap() {
        pool.sync_now().await.unwrap();
    }
    pool.sync_now().await.unwrap();
}

async fn live(pool: &Arc<Pool>, name: &str, seed: u64) {
    let mut dice = Dice::new(seed);
    for round in 0..ROUNDS {
        let fs = pool.filesystem(name).await.unwrap();
        change(&fs.zfs, &mut dice, seed * 100 + round).await;
        pool.sync_now().await.unwrap();
        match round {
            2 => pool.snapshot(vec![format!("{name}@own")], Vec::new()).await.unwrap(),
            5 => pool.destroy_snapshots(vec![format!("{name}@own")], false).await.unwrap(),
            _ => {}
        }
    }
}

#[test]
fn a_livelist_is_what_its_clone_has_written_and_frees_it() {
    for (layout, seed) in [(ONE, 1), (RAIDZ, 2)] {
        let world = World::new(layout).with_livelists(60).freeing(1);
        let pool = start(&world);
        let before = world.run(async {
            pool.sync_now().await.unwrap();
            pool.room().allocated
        });
        world.run(live(&pool, "whirl/c", seed));
        assert_eq!(world.run(livelists(&pool)), 1);
        world.run(settle(&pool));
        let crashed = world.copy().check_aside("amid its life");
        world.export(&pool);
        world.check("at the end of its life");
        drop(crashed.wait());

        let pool = world.import();
        world.run(async {
            live(&pool, "whirl/c", seed + 10).await;
            assert_eq!(livelists(&pool).await, 1, "it goes on after an import");
            pool.destroy_filesystem("whirl/c").await.unwrap();
            assert!(pool.dsl().has_destroyed().await.unwrap());
        });
        world.export(&pool);
        world.check("amid its end");
        let pool = world.import();
        world.run(async {
            let left = pool.dsl().freeing_bytes().await.unwrap();
            assert!(left > 0, "some of it waits for the next import");
            settle(&pool).await;
            for _ in 0..4 {
                pool.sync_now().await.unwrap();
            }
            assert_eq!(livelists(&pool).await, 0);
            assert_eq!(pool.dsl().freeing_bytes().await.unwrap(), 0);
            let allocated = pool.room().allocated;
            assert!(allocated < before + (1 << 20), "{before} bytes without the clone, {allocated} after it");
        });
        world.export(&pool);
        world.check("gone");
    }
}

#[test]
fn a_clone_that_shares_little_has_no_livelist() {
    let world = World::new(ONE);
    let pool = start(&world);
    world.run(async {
        pool.clone_snapshot("whirl/fs@s".into(), "whirl/d".into(), Vec::new()).await.unwrap();
        assert_eq!(livelists(&pool).await, 2);
        let fs = pool.filesystem("whirl/c").await.unwrap();
        let file = fs.zfs.lookup(fs.zfs.root(), b"file").await.unwrap().object;
        let third = RECORDS / 3 * RECORD;
        fs.zfs.write(file, 0, &noise(5, third), WriteFlags::default()).await.unwrap();
        pool.sync_now().await.unwrap();
        assert_eq!(livelists(&pool).await, 1);
        drop(fs);
        // Nor has one that was promoted.
        pool.promote("whirl/d".into()).await.unwrap();
        assert_eq!(livelists(&pool).await, 0);
    });
    world.export(&pool);
    world.check("without livelists");
    let pool = world.import();
    world.run(async {
        for name in ["whirl/c", "whirl/fs"] {
            pool.destroy_filesystem(name).await.unwrap();
        }
        while pool.dsl().has_destroyed().await.unwrap() {
            pool.sync_now().await.unwrap();
        }
    });
    world.export(&pool);
    world.check("destroyed");
}

/// Of two references to one block, the older one goes before the list is shortened, and the younger one after that.
#[test]
fn a_shorter_livelist_keeps_the_reference_that_is_left() {
    let world = World::new(ONE).with_livelists(60);
    let pool = start(&world);
    world.run(async {
        pool.sync_now().await.unwrap();
        let fs = pool.filesystem("whirl/c").await.unwrap();
        let zfs = &fs.zfs;
        let file = zfs.lookup(zfs.root(), b"file").await.unwrap().object;
        for name in ["older", "younger"] {
            let copy = make(zfs, name, b"").await;
            let place = FilePlace { zfs, object: file, offset: 0 };
            let shared = zfs.clone_range(place, (copy, 0), 10 * RECORD, WriteFlags::default()).await;
            assert_eq!(shared.unwrap(), 10 * RECORD);
            pool.sync_now().await.unwrap();
        }
        zfs.unlink(zfs.root(), b"older").await.unwrap();
        pool.sync_now().await.unwrap();
        // Each of these files fills a sublist. The third one finds two sublists that have hardly anything left.
        for round in 0..3 {
            if round == 2 {
                for name in [b"fill0", b"fill1"] {
                    zfs.unlink(zfs.root(), name).await.unwrap();
                }
                pool.sync_now().await.unwrap();
            }
            make(zfs, &format!("fill{round}"), &noise(round, 80 * RECORD)).await;
            pool.sync_now().await.unwrap();
        }
        zfs.unlink(zfs.root(), b"younger").await.unwrap();
        pool.sync_now().await.unwrap();
        assert_eq!(livelists(&pool).await, 1);
    });
    world.export(&pool);
    world.check("shortened");
}
