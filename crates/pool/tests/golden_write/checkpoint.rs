//! A pool of OpenZFS that has a checkpoint: changed, its checkpoint looked at, discarded, and returned to.

use std::collections::BTreeMap;
use std::sync::Arc;

use dsl::features::ZPOOL_CHECKPOINT;
use pool::{CheckpointRefusal, ImportSpec, Pool, PoolError};

use crate::contents::File;
use crate::world::World;
use crate::{second_work, work};

const NAME: &str = "g24-checkpoint";

type Contents = BTreeMap<String, BTreeMap<String, File>>;

fn names(world: &World, pool: &Pool) -> Vec<String> {
    let all = world.run(pool.dsl().list("whirl")).unwrap();
    all.into_iter().map(|dataset| dataset.name).collect()
}

fn all(world: &World, pool: &Arc<Pool>) -> Contents {
    names(world, pool).into_iter().map(|name| (name.clone(), world.contents(pool, &name))).collect()
}

/// Files changed, made and removed in several txgs, and a dataset destroyed and one made.
fn work_on(world: &World, pool: &Arc<Pool>) {
    for name in ["whirl/fs", "whirl/new"] {
        let before = world.contents(pool, name);
        let zfs = world.zfs(pool, name);
        world.run(work(&zfs, &before));
        world.run(pool.sync_now()).unwrap();
        world.run(second_work(&zfs));
        world.run(pool.sync_now()).unwrap();
    }
    world.run(async {
        pool.destroy_filesystem("whirl/fs").await.unwrap();
        pool.create_filesystem("whirl/newest", Vec::new()).await.unwrap();
        for _ in 0..4 {
            pool.sync_now().await.unwrap();
        }
    });
}

fn kept_bytes(pool: &Pool) -> u64 {
    pool.checkpoint().expect("there is one").kept_bytes
}

/// The state that OpenZFS kept, as its commands tell of it.
fn check_as_it_was_made(kept: &Contents) {
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["whirl", "whirl/fs", "whirl/gone"]);
    for dataset in ["whirl/fs", "whirl/gone"] {
        let size = |name: &str| kept[dataset].get(name).map(|file| file.size);
        assert_eq!((size("/t4096"), size("/m1000000")), (Some(4096), Some(1_000_000)), "{dataset}");
    }
}

#[test]
fn a_checkpoint_stays_whole_while_the_pool_is_worked_on() {
    let world = World::copy_of(NAME);
    let before = world.checkpointed(|pool| all(&world, pool));
    check_as_it_was_made(&before);
    // `zpool status` showed 965K, and the export freed a little more.
    let told = world.read_only(|pool| pool.checkpoint().expect("there is one"));
    assert!((965..975).contains(&(told.kept_bytes >> 10)), "{told:?}");
    assert_eq!((told.created_secs, told.is_discarding), (1_795_387_792, false));
    let pool = world.import();
    assert_eq!(kept_bytes(&pool), told.kept_bytes);
    work_on(&world, &pool);
    assert!(kept_bytes(&pool) > told.kept_bytes + (64 << 10), "{} bytes kept", kept_bytes(&pool));
    let (now, kept) = (all(&world, &pool), kept_bytes(&pool));
    world.export(&pool);
    drop(pool);
    world.check("after");
    world.check_checkpoint("after");
    assert_eq!(world.checkpointed(|pool| all(&world, pool)), before);
    world.read_only(|pool| assert_eq!((all(&world, pool), kept_bytes(pool)), (now, kept)));
}

#[test]
fn a_discarded_checkpoint_gives_back_all_that_was_kept_for_it() {
    let world = World::copy_of(NAME);
    let pool = world.import();
    work_on(&world, &pool);
    let (before, kept, room) = (all(&world, &pool), kept_bytes(&pool), pool.room());
    assert_eq!(room.kept, kept);
    world.run(async {
        pool.discard_checkpoint().await.unwrap();
        pool.wait_discarded().await.unwrap();
        for _ in 0..4 {
            pool.sync_now().await.unwrap();
        }
        assert_eq!(pool.checkpoint(), None);
        assert_eq!(pool.dsl().feature_count(&ZPOOL_CHECKPOINT).await.unwrap(), Some(0));
        let refused = pool.discard_checkpoint().await;
        assert!(matches!(refused, Err(PoolError::Checkpoint(CheckpointRefusal::None))), "{refused:?}");
    });
    let freed = room.allocated - pool.room().allocated;
    assert!(freed > kept - (100 << 10), "{freed} of {kept} bytes came back");
    world.export(&pool);
    drop(pool);
    world.check("after");
    world.read_only(|pool| assert_eq!((all(&world, pool), pool.checkpoint()), (before, None)));
    match world.import_as(ImportSpec { to_checkpoint: true, ..ImportSpec::default() }) {
        Err(PoolError::Checkpoint(CheckpointRefusal::None)) => {}
        other => panic!("{other:?}", other = other.map(drop)),
    }
}

#[test]
fn a_pool_returns_to_its_checkpoint_and_is_worked_on() {
    let world = World::copy_of(NAME);
    let before = world.checkpointed(|pool| all(&world, pool));
    let pool = world.import();
    work_on(&world, &pool);
    world.export(&pool);
    drop(pool);
    let pool = world.return_to_checkpoint();
    assert_eq!(pool.checkpoint(), None);
    assert_eq!(all(&world, &pool), before);
    world.export(&pool);
    drop(pool);
    world.check("returned");
    let pool = world.import();
    let zfs = world.zfs(&pool, "whirl/gone");
    world.run(work(&zfs, &before["whirl/gone"]));
    world.run(pool.make_checkpoint()).unwrap();
    world.run(second_work(&zfs));
    world.run(pool.sync_now()).unwrap();
    drop(zfs);
    world.export(&pool);
    drop(pool);
    world.check("worked on");
    world.check_checkpoint("worked on");
    world.read_only(|pool| assert_eq!(world.contents(pool, "whirl/fs"), before["whirl/fs"]));
}
