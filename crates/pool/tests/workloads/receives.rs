//! What is left in memory of what was received.

use crate::file::{make, noise};
use crate::streams::{WHOLE_FORM, receive, sent};
use crate::world::{Layout, World};

const ONE: Layout = Layout::new(&[&["a"]], &[], 12);

#[test]
fn what_is_received_stays_out_of_the_cache() {
    let world = World::new(ONE);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[]);
    let data = noise(1, 8 << 20);
    let zfs = world.zfs(&pool, "whirl/fs");
    world.run(async {
        make(&zfs, "file", &data).await;
        pool.snapshot(vec!["whirl/fs@s".into()], Vec::new()).await.unwrap();
        let stream = sent(&pool, "whirl/fs@s", None, WHOLE_FORM, None).await;
        let cached = || pool.zio().cache_stats().bytes;
        let before = cached();
        receive(&pool, &stream, "whirl/copy@s", |_| ()).await.unwrap();
        assert!(cached() < before + (1 << 20), "{before} bytes are cached before, {} after", cached());
        // What is read from then on does stay.
        let copy = pool.filesystem("whirl/copy").await.unwrap();
        let file = copy.zfs.lookup(copy.zfs.root(), b"file").await.unwrap().object;
        let mut found = vec![0; data.len()];
        copy.zfs.read(file, 0, &mut found).await.unwrap();
        assert!(found == data && cached() > before + (7 << 20), "{} bytes are cached", cached());
    });
    drop(zfs);
    world.export(&pool);
    world.check("received");
}
