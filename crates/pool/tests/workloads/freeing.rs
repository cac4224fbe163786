//! A destroyed dataset is freed by several txgs, and the pool tells how much is left.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dmu::Hold;
use futures::poll;
use pool::Pool;
use zpl::{Cred, NewNode, WriteFlags};

use crate::world::{Layout, World};

const SINGLE: Layout = Layout { device_mib: 128, ..Layout::new(&[&["a"]], &[], 9) };
/// A txg frees about 20,000 of them.
const BLOCKS: usize = 50_000;
const BLOCK_BYTES: usize = 512;

/// Does `work`, and lets no txg behind the one that ends it be synced while the [`Hold`] lives: there is
/// always somebody in the newest txg.
async fn and_no_further<T>(pool: &Arc<Pool>, work: impl Future<Output = T>) -> (T, Hold) {
    let begin = || pool.txgs().join().unwrap();
    let mut work = pin!(work);
    let mut held = begin();
    loop {
        // Looked at first: a txg that follows is opened after `work` was told of its own.
        let is_old = pool.txgs().open_txg() > held.txg();
        if let std::task::Poll::Ready(done) = poll!(work.as_mut()) {
            return (done, held);
        }
        if is_old {
            held = begin();
        }
        pool.env().sleep(Duration::from_millis(1)).await;
    }
}

fn freeing(world: &World, pool: &Pool) -> u64 {
    world.run(pool.facts()).freeing_bytes.unwrap()
}

#[test]
fn a_destroyed_dataset_is_freeing_until_its_last_block_is_free() {
    let world = World::new(SINGLE);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[("recordsize", BLOCK_BYTES as u64), ("compression", 2)]);
    let zfs = world.zfs(&pool, "whirl/fs");
    world.run(async {
        let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
        let data: Vec<u8> =
            (0..BLOCKS * BLOCK_BYTES / 4).flat_map(|n| (n as u32 + 1).to_le_bytes()).collect();
        zfs.write(made.object, 0, &data, WriteFlags::default()).await.unwrap();
        pool.sync_now().await.unwrap();
    });
    drop(zfs);
    let used = pool.room().allocated;
    assert_eq!(freeing(&world, &pool), 0);

    let (destroyed, held) = world.run(and_no_further(&pool, pool.destroy_filesystem("whirl/fs")));
    destroyed.unwrap();
    let (first, data) = (freeing(&world, &pool), (BLOCKS * BLOCK_BYTES) as u64);
    assert!(first > data / 4 && first < data, "{first} of {data} bytes are left after one group");

    // What a power cut leaves here is freed by whoever imports it.
    let crashed = world.copy();
    let next = async {
        let txg = held.txg();
        drop(held);
        pool.txgs().wait_synced(txg).await
    };
    let (synced, held) = world.run(and_no_further(&pool, next));
    synced.unwrap();
    let second = freeing(&world, &pool);
    assert!(second < first && second > 0, "{second} bytes of {first} are left after one more");
    drop(held);
    until_freed(&world, &pool);
    assert!(pool.room().allocated < used - data);
    world.export(&pool);
    world.check("freed");

    let pool = crashed.import();
    until_freed(&crashed, &pool);
    crashed.export(&pool);
    crashed.check("freed after a crash");
}

/// Txgs that have something to free follow one another by themselves.
fn until_freed(world: &World, pool: &Pool) {
    for _ in 0..20 {
        if freeing(world, pool) == 0 {
            // What was freed rests for a while.
            (0..4).for_each(|_| world.run(pool.sync_now()).unwrap());
            return;
        }
        world.run(pool.sync_now()).unwrap();
    }
    panic!("{} bytes are never freed", freeing(world, pool));
}
