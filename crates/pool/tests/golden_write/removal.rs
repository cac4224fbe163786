//! Logs, caches, spares and data vdevs that OpenZFS added, taken out of its pools.

use pool::PoolError;
use units::VdevId;

use crate::world::World;

const DATASETS: [&str; 4] = ["whirl/std", "whirl/always", "whirl/dirxattr", "whirl/r16k"];

#[test]
fn a_log_of_openzfs_is_removed_and_what_waited_there_is_in_the_files() {
    let replayed = World::copy_of("g14-dirty-zil-slog");
    let pool = replayed.import();
    let want = DATASETS.map(|name| replayed.contents(&pool, name));
    replayed.export(&pool);
    drop(pool);

    let removed = World::copy_of("g14-dirty-zil-slog");
    let pool = removed.import();
    let log = pool.vdevs().tops().iter().find(|top| top.is_log()).map(|top| top.id());
    assert_eq!(log, Some(VdevId::new(1)));
    // Nobody has used a dataset.
    removed.run(pool.remove_log(VdevId::new(1))).unwrap();
    removed.export(&pool);
    drop(pool);
    removed.check("without its log");
    let said = removed.zdb("-C");
    assert!(!said.contains("'hole'") && !said.contains("is_log: 1"), "{said}");
    std::fs::remove_file(removed.images().join("log.img")).unwrap();
    let pool = removed.import();
    for (name, want) in DATASETS.iter().zip(want) {
        assert!(removed.contents(&pool, name) == want, "{name}");
    }
}

#[test]
fn a_spare_is_removed_unless_it_is_at_work() {
    let world = World::copy_of("g22-spare");
    let pool = world.import();
    let (spares, caches) = (pool.spares(), pool.caches());
    let at_work = world.run(pool.remove_auxiliary(spares[0].guid));
    assert!(matches!(at_work, Err(PoolError::Removal(_))), "{at_work:?}");
    world.run(pool.remove_auxiliary(spares[1].guid)).unwrap();
    world.run(pool.remove_auxiliary(caches[0].guid)).unwrap();
    assert!(world.run(pool.remove_auxiliary(caches[0].guid)).is_err(), "it is gone");
    let left = (pool.spares(), pool.caches());
    assert_eq!(left, (spares[..1].to_vec(), Vec::new()));
    world.export(&pool);
    drop(pool);
    world.check("without a cache");
    assert_eq!(world.read_only(|pool| (pool.spares(), pool.caches())), left);
}

/// In a pool of OpenZFS from which it had removed another vdev before, and with blocks of that on the one that goes.
#[test]
fn a_data_vdev_is_removed_from_a_pool_with_a_removed_one() {
    let world = World::copy_of("g23-removed");
    let before =
        world.read_only(|pool| ["whirl/fs", "whirl/fs@before"].map(|name| world.contents(pool, name)));
    let new = world.images().join("new.img");
    std::fs::File::create(&new).unwrap().set_len(1 << 30).unwrap();
    let pool = world.import();
    let spec = vdev::NewVdev {
        paths: vec![new],
        ashift: Some(units::Ashift::new(9)),
        bias: vdev::Bias::None,
        create_txg: 0,
        parity: 0,
        ..vdev::NewVdev::default()
    };
    world.run(pool.add(vec![spec], false)).unwrap();
    world.run(pool.evacuate(VdevId::new(0))).unwrap();
    world.run(async {
        while pool.evacuation().is_some_and(|report| report.phys.is_under_way()) {
            pool.sync_now().await.unwrap();
        }
    });
    assert!(pool.vdevs().top(VdevId::new(0)).unwrap().is_removed());
    world.export(&pool);
    drop(pool);
    world.check("without the vdev that had everything");
    std::fs::remove_file(world.images().join("a.img")).unwrap();
    world.read_only(|pool| {
        assert!(["whirl/fs", "whirl/fs@before"].map(|name| world.contents(pool, name)) == before);
    });
    let said = world.zdb("-C");
    assert!(said.contains("com.delphix:prev_indirect_vdev: 1"), "{said}");
}
