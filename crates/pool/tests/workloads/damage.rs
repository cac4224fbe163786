//! What the other tests here rely on: damage does not go unnoticed.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use dmu::Estimate;
use oracle::zdb::ZdbError;
use pool::Pool;
use zio::LogHint;
use zpl::{Cred, NewNode, WriteFlags};

use crate::world::{Layout, World};

const ONE_DEVICE: Layout = Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[], 9) };

fn verdict(world: &World) -> String {
    match world.zdb().check_closely() {
        Ok(_) => String::new(),
        Err(ZdbError::Unhappy { verdict, output, .. }) => format!("{verdict}\n{output}"),
        Err(ZdbError::Missing(error)) => panic!("{error}"),
    }
}

/// A pool with one file that begins with this text, and does not compress.
fn pool_with_a_file(text: &[u8]) -> World {
    let world = World::new(ONE_DEVICE);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/plain", &[("compression", 2)]);
    let zfs = world.zfs(&pool, "whirl/plain");
    world.run(async {
        let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
        zfs.write(made.object, 0, text, WriteFlags::default()).await.unwrap();
    });
    world.export(&pool);
    world
}

#[test]
fn an_empty_pool_is_clean() {
    for layout in [ONE_DEVICE, Layout::new(&[&["a", "b"], &["c"]], &[&["l", "m"]], 12)] {
        let world = World::new(layout);
        let pool = world.create();
        world.export(&pool);
        assert_eq!(verdict(&world), "");
    }
}

#[test]
fn a_flipped_bit_in_a_file_is_found() {
    let text = b"no other block of this pool begins with these words";
    let world = pool_with_a_file(text);
    assert_eq!(verdict(&world), "");
    let mut image = std::fs::read(world.path("a")).unwrap();
    let at = image.windows(text.len()).position(|window| window == text).expect("the file is there");
    image[at] ^= 1;
    std::fs::write(world.path("a"), image).unwrap();
    let verdict = verdict(&world);
    assert!(verdict.contains("Got error 52"), "{verdict}");
}

#[test]
fn a_leaked_block_is_found() {
    let world = World::new(ONE_DEVICE);
    let pool = world.create();
    let tx = pool.txgs().join().unwrap();
    let hint = LogHint { avoid: &[], prefer: None };
    pool.zio().allocate_log(tx.txg(), 4096, &hint).unwrap();
    drop(tx);
    world.export(&pool);
    let verdict = verdict(&world);
    assert!(verdict.contains("leaked space"), "{verdict}");
}

#[test]
fn a_dataset_that_is_gone_is_found() {
    let world = World::new(ONE_DEVICE);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/gone", &[]);
    world.run(async {
        let gone = pool.dsl().resolve("whirl/gone").await.unwrap();
        let plan = pool.dsl().mos().plan(Estimate::default()).await.unwrap();
        pool.dsl().mos().free_object(&plan, gone.dataset).await.unwrap();
        plan.apply().unwrap();
    });
    world.export(&pool);
    let verdict = verdict(&world);
    assert!(verdict.contains("(DSL directory) leaked"), "{verdict}");
}

/// Reads the file at the start of which the text is; what came.
fn read_back(world: &World, pool: &Arc<Pool>, len: usize) -> Vec<u8> {
    let zfs = world.zfs(pool, "whirl/plain");
    let mut back = vec![0; len];
    world.run(async {
        let file = zfs.lookup(zfs.root(), b"file").await.unwrap();
        zfs.read(file.object, 0, &mut back).await.unwrap();
    });
    back
}

#[test]
fn a_bad_copy_that_a_read_met_is_repaired_with_the_next_group() {
    let text = b"two copies of these words, of which one goes bad";
    let world = World::new(Layout { device_mib: 64, ..Layout::new(&[&["a"], &["b"]], &[], 9) });
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/plain", &[("compression", 2), ("copies", 2)]);
    let zfs = world.zfs(&pool, "whirl/plain");
    world.run(async {
        let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
        zfs.write(made.object, 0, text, WriteFlags::default()).await.unwrap();
    });
    drop(zfs);
    world.export(&pool);
    let mut met = 0;
    for device in ["a", "b"] {
        let whole = std::fs::read(world.path(device)).unwrap();
        let at = whole.windows(text.len()).position(|window| window == text).expect("a copy on each");
        let write = |byte: u8| {
            let file = std::fs::File::options().write(true).open(world.path(device)).unwrap();
            file.write_all_at(&[byte], at as u64).unwrap();
        };
        write(!whole[at]);
        let pool = world.import();
        assert_eq!(read_back(&world, &pool, text.len()), text, "from the good copy");
        let is_met = pool.zio().has_damaged();
        world.run(pool.sync_now()).unwrap();
        let now = std::fs::read(world.path(device)).unwrap()[at];
        assert_eq!(now == whole[at], is_met, "repaired if it was met");
        assert_eq!(pool.zio().stats().repaired_copies, u64::from(is_met));
        assert!(!pool.zio().has_damaged());
        met += u32::from(is_met);
        world.export(&pool);
        write(whole[at]);
    }
    assert_eq!(met, 1, "one of the two is the first copy");
    world.check("repaired");
}
