//! File systems that are closed while their pool goes on.

use crate::file::{make, noise};
use crate::world::{Layout, World};

const ONE: Layout = Layout::new(&[&["a"]], &[], 12);

#[test]
fn what_was_written_is_stable_when_its_file_system_is_closed() {
    let world = World::new(ONE);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[]);
    let data = noise(1, 300_000);
    let zfs = world.zfs(&pool, "whirl/fs");
    let file = world.run(make(&zfs, "file", &data));
    drop(zfs);
    world.run(pool.close_filesystem("whirl/fs")).unwrap();
    let crashed = world.copy();
    // Where nothing was changed, one txg gives the log back, and nothing else is waited for.
    drop(world.zfs(&pool, "whirl/fs"));
    let txg = pool.txgs().open_txg();
    world.run(pool.close_filesystem("whirl/fs")).unwrap();
    assert_eq!(pool.txgs().open_txg(), txg.next());
    world.export(&pool);
    world.check("closed");

    let pool = crashed.import();
    let zfs = crashed.zfs(&pool, "whirl/fs");
    let mut found = vec![0; data.len()];
    assert_eq!(crashed.run(zfs.read(file, 0, &mut found)).unwrap(), data.len());
    assert!(found == data);
    drop(zfs);
    crashed.export(&pool);
    crashed.check("after a crash");
}
