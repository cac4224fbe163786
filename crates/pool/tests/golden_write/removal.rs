//! Logs, caches and spares that OpenZFS added, taken out of its pools.

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
