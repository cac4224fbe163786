//! Scrub: everything is read, what is damaged is mended or named, and nothing else is touched.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dmu::{Objset, Place, Reach};
use dsl::features::HEAD_ERRLOG;
use ondisk::Blkptr;
use ondisk::dsl::scan::{ScanPhys, state};
use pool::{BackgroundWork, Pool, PoolError, ScanReport, ScrubRefusal};
use units::{ObjectId, ObjsetId, Txg};
use vdev::VdevState;
use zio::Bookmark;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::dice::Dice;
use crate::world::{Layout, World};

const MIRROR: Layout = Layout { device_mib: 128, ..Layout::new(&[&["a", "b"]], &[], 12) };
/// For scrubs that are still under way when somebody on a busy machine comes to look.
const LARGE: Layout = Layout { device_mib: 512, ..MIRROR };
const LARGE_FILES: u64 = 160;
const SINGLE: Layout = Layout { device_mib: 128, ..Layout::new(&[&["a"]], &[], 9) };

async fn write(zfs: &Zfs, name: &str, data: &[u8]) -> ObjectId {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await.unwrap();
    zfs.write(made.object, 0, data, WriteFlags::default()).await.unwrap();
    made.object
}

/// What does not compress, another for each seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    std::iter::repeat_with(|| (dice.below(256)) as u8).take(len).collect()
}

fn report(pool: &Pool) -> ScanReport {
    pool.scan().expect("there was a scan")
}

async fn finished(pool: &Arc<Pool>) -> ScanReport {
    for _ in 0..600 {
        if report(pool).phys.state.get() != state::SCANNING {
            return report(pool);
        }
        let waiting = pool.env().sleep(Duration::from_millis(50));
        // The txgs of this pool turn only when somebody waits for one.
        pool.sync_now().await.unwrap();
        waiting.await;
    }
    panic!("the scrub does not end: {:?}", report(pool));
}

/// Overwrites every place of the device where these bytes begin a sector.
fn damage(path: PathBuf, bytes: &[u8]) -> usize {
    let mut image = std::fs::read(&path).unwrap();
    let places: Vec<usize> = (4 << 20..image.len() - 512)
        .step_by(512)
        .filter(|&at| image[at..].starts_with(&bytes[..32]))
        .collect();
    for at in &places {
        image[*at..*at + 16].fill(0xdb);
    }
    std::fs::write(path, image).unwrap();
    places.len()
}

#[test]
fn every_block_of_a_pool_is_scrubbed_once() {
    let world = World::new(MIRROR);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[]);
    let zfs = world.zfs(&pool, "whirl/fs");
    world.run(async {
        write(&zfs, "big", &noise(1, 3_000_000)).await;
        for i in 0..200 {
            write(&zfs, &format!("small {i}"), &noise(i, 100)).await;
        }
        pool.sync_now().await.unwrap();
        assert_eq!(pool.facts().await.last_scrubbed_txg, Some(0));
        pool.scrub().await.unwrap();
        let done = finished(&pool).await;
        assert_eq!(done.phys.state.get(), state::FINISHED);
        assert_eq!(pool.facts().await.last_scrubbed_txg, Some(done.phys.max_txg.get()));
        assert_eq!((done.phys.errors.get(), done.phys.processed.get()), (0, 0));
        // What the scrub itself wrote into the meta-objset is younger than its beginning.
        let (examined, all) = (done.phys.examined.get(), done.phys.to_examine.get());
        assert!(examined <= all && all - examined < 200 << 10, "{examined} of {all}");
    });
    drop(zfs);
    world.export(&pool);
    world.check("after a scrub");
}

#[test]
fn damage_on_one_side_is_mended_and_on_both_it_is_named() {
    let world = World::new(MIRROR);
    let (one, both) = (noise(21, 500_000), noise(22, 500_000));
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[("compression", 2)]);
    let zfs = world.zfs(&pool, "whirl/fs");
    let file = world.run(async {
        write(&zfs, "one", &one).await;
        write(&zfs, "both", &both).await
    });
    drop(zfs);
    world.export(&pool);
    drop(pool);
    let second_block = &both[128 << 10..];
    assert_eq!(damage(world.path("a"), &one), 1);
    assert_eq!(damage(world.path("a"), second_block) + damage(world.path("b"), second_block), 2);
    let pool = world.import();
    world.run(async {
        pool.scrub().await.unwrap();
        let done = finished(&pool).await;
        assert_eq!((done.phys.errors.get(), done.phys.processed.get()), (1, 128 << 10));
        let damaged = pool.damaged_objects().await;
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!(damaged[0].object, file);
        assert_eq!(damaged[0].dataset.as_deref(), Some("whirl/fs"));
        assert_eq!(damaged[0].path.as_deref(), Some("/both"));
        assert_eq!(pool.data_errors().await.len(), 1);
        // The file is written anew; the next scrub finds nothing, and forgets.
        let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.unwrap().zfs);
        zfs.write(file, 128 << 10, &noise(23, 128 << 10), WriteFlags::default()).await.unwrap();
        pool.sync_now().await.unwrap();
        assert_eq!(pool.data_errors().await.len(), 1);
        pool.scrub().await.unwrap();
        let done = finished(&pool).await;
        assert_eq!((done.phys.errors.get(), done.phys.processed.get()), (0, 0));
        assert_eq!(pool.data_errors().await.len(), 0);
    });
    let errors = |leaf: &Arc<vdev::Leaf>| leaf.stats().snapshot().checksum_errors;
    assert!(pool.vdevs().leaves().iter().all(|leaf| errors(leaf) > 0));
    world.export(&pool);
    world.check("mended");
}

#[test]
fn a_read_that_fails_is_remembered_without_a_scrub() {
    let world = World::new(SINGLE);
    let data = noise(31, 300_000);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let file = world.run(write(&zfs, "file", &data));
    drop(zfs);
    world.export(&pool);
    drop(pool);
    assert_eq!(damage(world.path("a"), &data[128 << 10..]), 1);
    let pool = world.import();
    world.run(async {
        assert_eq!(pool.data_errors().await.len(), 0);
        let zfs = Arc::clone(&pool.filesystem("whirl").await.unwrap().zfs);
        let mut back = vec![0; data.len()];
        zfs.read(file, 0, &mut back).await.expect_err("damaged");
        let damaged = pool.damaged_objects().await;
        assert_eq!(damaged[0].path.as_deref(), Some("/file"));
    });
    world.export(&pool);
}

#[test]
fn errors_outlive_an_export_until_a_scrub_finds_them_gone() {
    let world = World::new(SINGLE);
    let data = noise(41, 300_000);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[("compression", 2)]);
    let zfs = world.zfs(&pool, "whirl/fs");
    let file = world.run(write(&zfs, "file", &data));
    drop(zfs);
    world.export(&pool);
    drop(pool);
    assert_eq!(damage(world.path("a"), &data[128 << 10..]), 1);
    let named = |pool: &Arc<Pool>| {
        let damaged = world.run(pool.damaged_objects());
        let one = |d: &pool::DamagedObject| (d.dataset.clone().unwrap(), d.path.clone().unwrap());
        damaged.iter().map(one).collect::<Vec<_>>()
    };
    let file_of_ours = [("whirl/fs".to_owned(), "/file".to_owned())];
    // Found by a read, then by a scrub that is done: each outlives the pool's closing.
    for by_scrub in [false, true] {
        let pool = world.import();
        world.run(async {
            if by_scrub {
                pool.scrub().await.unwrap();
                assert_eq!(finished(&pool).await.phys.errors.get(), 1);
            } else {
                assert_eq!(pool.data_errors().await.len(), 0);
                let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.unwrap().zfs);
                let mut back = vec![0; data.len()];
                zfs.read(file, 0, &mut back).await.expect_err("damaged");
            }
        });
        assert_eq!(named(&pool), file_of_ours);
        world.export(&pool);
        drop(pool);
        let pool = world.import();
        assert_eq!(named(&pool), file_of_ours, "by a scrub: {by_scrub}");
        world.export(&pool);
    }
    let pool = world.import();
    world.run(async {
        let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.unwrap().zfs);
        zfs.write(file, 128 << 10, &noise(42, 128 << 10), WriteFlags::default()).await.unwrap();
    });
    world.export(&pool);
    drop(pool);
    // Well again, and still in the log: zdb knows the log's objects, or would report them leaked.
    world.check("with a log of errors");
    let pool = world.import();
    assert_eq!(named(&pool), file_of_ours);
    world.run(async {
        pool.scrub().await.unwrap();
        assert_eq!(finished(&pool).await.phys.errors.get(), 0);
    });
    assert_eq!(named(&pool), []);
    world.export(&pool);
    drop(pool);
    world.check("with an empty log");
    let pool = world.import();
    assert_eq!(named(&pool), []);
    world.export(&pool);
}

#[test]
fn a_scrub_of_what_is_new_leaves_what_is_old() {
    let world = World::new(SINGLE);
    let (old, new) = (noise(51, 300_000), noise(52, 300_000));
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let (old_file, scrubbed) = world.run(async {
        let old_file = write(&zfs, "old", &old).await;
        pool.scrub().await.unwrap();
        let scrubbed = finished(&pool).await.phys.max_txg.get();
        write(&zfs, "new", &new).await;
        (old_file, scrubbed)
    });
    drop(zfs);
    world.export(&pool);
    drop(pool);
    for data in [&old, &new] {
        assert_eq!(damage(world.path("a"), &data[128 << 10..]), 1);
    }
    let pool = world.import();
    let named = || {
        let damaged = world.run(pool.damaged_objects());
        damaged.into_iter().map(|one| one.path.unwrap()).collect::<Vec<_>>()
    };
    let errors = |whole: bool| {
        world.run(async {
            if whole {
                pool.scrub().await.unwrap()
            } else {
                pool.scrub_since_last().await.unwrap()
            }
            let phys = finished(&pool).await.phys;
            (phys.min_txg.get(), phys.errors.get())
        })
    };
    assert_eq!(errors(false), (scrubbed, 1));
    assert_eq!(named(), ["/new"]);
    world.run(async {
        let zfs = Arc::clone(&pool.filesystem("whirl").await.unwrap().zfs);
        let mut back = vec![0; old.len()];
        zfs.read(old_file, 0, &mut back).await.expect_err("damaged");
    });
    // Both are older than the last scrub, and stay errors.
    let (since, found) = errors(false);
    assert!(since > scrubbed && found == 0, "{since} {found}");
    assert_eq!(named(), ["/old", "/new"]);
    assert_eq!(errors(true), (0, 2));
    assert_eq!(named(), ["/old", "/new"]);
    world.export(&pool);
}

#[test]
fn a_block_that_was_freed_is_no_error() {
    let world = World::new(SINGLE);
    let data = noise(43, 100_000);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let (old, name) = world.run(async {
        let file = write(&zfs, "file", &data).await;
        pool.sync_now().await.unwrap();
        let (bookmark, bp) = first_block(&pool, file).await;
        // The reader still has the pointer when the file is written anew elsewhere.
        zfs.write(file, 0, &noise(44, 100_000), WriteFlags::default()).await.unwrap();
        pool.sync_now().await.unwrap();
        (bp, bookmark)
    });
    let gone = old.with_checksum(old.checksum().map(|word| !word));
    world.run(async {
        pool.zio().read(&gone, &name).await.expect_err("not what the pointer means");
        assert_eq!(pool.data_errors().await.len(), 0);
    });
    drop(zfs);
    world.export(&pool);
}

#[test]
fn a_scrub_that_was_left_goes_on_after_import_and_a_paused_one_waits() {
    let world = World::new(LARGE);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    world.run(async {
        for i in 0..LARGE_FILES {
            write(&zfs, &format!("file {i}"), &noise(i, 1 << 20)).await;
        }
        pool.sync_now().await.unwrap();
        assert!(matches!(pool.cancel_scrub().await, Err(PoolError::Scrub(ScrubRefusal::None))));
        pool.scrub().await.unwrap();
        assert!(matches!(pool.scrub().await, Err(PoolError::Scrub(ScrubRefusal::Running))));
    });
    drop(zfs);
    world.export(&pool);
    let left = report(&pool).phys;
    assert_eq!(left.state.get(), state::SCANNING);
    assert!(left.examined.get() < left.to_examine.get(), "it was left half-way");
    drop(pool);
    // zdb knows the queue of a scrub under way, or would report it leaked.
    world.check("left half-way");
    let pool = world.import();
    world.run(async {
        pool.pause_scrub().await.unwrap();
        assert!(matches!(pool.pause_scrub().await, Err(PoolError::Scrub(ScrubRefusal::Paused))));
    });
    world.export(&pool);
    drop(pool);
    let pool = world.import();
    world.run(async {
        let paused = report(&pool);
        assert!(paused.paused_at.is_some() && paused.phys.state.get() == state::SCANNING);
        assert!(paused.phys.examined.get() >= left.examined.get());
        pool.scrub().await.unwrap();
        let done = finished(&pool).await;
        assert_eq!((done.phys.state.get(), done.phys.errors.get()), (state::FINISHED, 0));
        let (examined, all) = (done.phys.examined.get(), done.phys.to_examine.get());
        assert!(examined >= all - (1 << 20) && examined < all + (32 << 20), "{examined} of {all}");
    });
    world.export(&pool);
    world.check("scrubbed in three parts");
}

/// A filesystem whose scrub takes long enough to do something meanwhile; its object.
fn big(world: &World, pool: &Arc<Pool>) -> u64 {
    world.create_filesystem(pool, "whirl/big", &[]);
    world.run(async {
        let open = pool.filesystem("whirl/big").await.unwrap();
        for i in 0..LARGE_FILES {
            write(&open.zfs, &format!("file {i}"), &noise(i, 1 << 20)).await;
        }
        pool.sync_now().await.unwrap();
        pool.dsl().resolve("whirl/big").await.unwrap().dataset.get()
    })
}

/// Waits until the scrub visits a dataset.
async fn visits(pool: &Pool, dataset: u64) {
    while report(pool).phys.bookmark[0].get() != dataset {
        assert_eq!(report(pool).phys.state.get(), state::SCANNING);
        pool.env().sleep(Duration::from_millis(1)).await;
    }
}

/// Begins a scrub, and has it wait when it is between two datasets and most is still to be read.
async fn pause_between(pool: &Arc<Pool>) {
    for _ in 0..100 {
        pool.scrub().await.unwrap();
        while report(pool).phys.bookmark[0].get() == ObjsetId::MOS.get() {
            pool.env().sleep(Duration::from_micros(100)).await;
        }
        match pool.pause_scrub().await {
            Ok(()) if is_between(&report(pool).phys) => return,
            // Too far: the next one begins anew.
            Ok(()) => pool.cancel_scrub().await.unwrap(),
            Err(PoolError::Scrub(ScrubRefusal::None)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("never between two datasets: {:?}", report(pool));
}

fn is_between(scan: &ScanPhys) -> bool {
    scan.bookmark[0].get() == u64::MAX && scan.examined.get() < scan.to_examine.get() / 2
}

#[test]
fn a_scrub_left_between_two_datasets_goes_on_after_import() {
    let world = World::new(LARGE);
    let pool = world.create();
    (0..40).for_each(|i| world.create_filesystem(&pool, &format!("whirl/fs{i}"), &[]));
    let big = big(&world, &pool);
    // The big one is the newest, so the last: it is still to come.
    world.run(pause_between(&pool));
    world.export(&pool);
    drop(pool);
    let pool = world.import();
    world.run(async {
        pool.scrub().await.unwrap();
        visits(&pool, big).await;
        // Its state is stored in the middle of a dataset now.
        pool.pause_scrub().await.unwrap();
        assert_eq!(report(&pool).phys.bookmark[0].get(), big);
        pool.scrub().await.unwrap();
        let done = finished(&pool).await.phys;
        assert_eq!((done.state.get(), done.errors.get()), (state::FINISHED, 0));
        let (examined, all) = (done.examined.get(), done.to_examine.get());
        assert!(examined >= all - (1 << 20) && examined < all + (16 << 20), "{examined} of {all}");
    });
    world.export(&pool);
    world.check("left between two datasets");
}

#[test]
fn a_cancelled_scrub_leaves_nothing_behind() {
    let world = World::new(SINGLE);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    world.run(async {
        write(&zfs, "file", &noise(5, 20 << 20)).await;
        pool.sync_now().await.unwrap();
        loop {
            pool.scrub().await.unwrap();
            match pool.cancel_scrub().await {
                Ok(()) => break,
                // It was at its end already.
                Err(PoolError::Scrub(ScrubRefusal::None)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(report(&pool).phys.state.get(), state::CANCELED);
    });
    drop(zfs);
    world.export(&pool);
    world.check("cancelled");
}

#[test]
fn a_scrub_beside_writers_damages_nothing() {
    let world = World::new(MIRROR);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let contents = world.run(async {
        let mut dice = Dice::new(77);
        let mut files = Vec::new();
        for i in 0..24_u64 {
            let data = noise(i, 600_000);
            files.push((write(&zfs, &format!("file {i}"), &data).await, data));
        }
        pool.sync_now().await.unwrap();
        for round in 0..12_u64 {
            if report_of(&pool) != state::SCANNING {
                pool.scrub().await.unwrap();
            }
            for _ in 0..40 {
                let (object, data) = &mut files[dice.below(24) as usize];
                let at = dice.below(590_000) as usize;
                let new = noise(round * 1000 + at as u64, 9_000);
                zfs.write(*object, at as u64, &new, WriteFlags::default()).await.unwrap();
                data[at..at + 9_000].copy_from_slice(&new);
            }
            pool.sync_now().await.unwrap();
        }
        let done = finished(&pool).await;
        assert_eq!((done.phys.errors.get(), done.phys.processed.get()), (0, 0));
        files
    });
    drop(zfs);
    world.export(&pool);
    drop(pool);
    world.check("scrubbed beside writers");
    let pool = world.import();
    let zfs = world.zfs(&pool, "whirl");
    world.run(async {
        for (object, data) in contents {
            let mut back = vec![0; data.len()];
            zfs.read(object, 0, &mut back).await.unwrap();
            assert!(back == data, "object {object}");
        }
    });
    world.export(&pool);
}

fn report_of(pool: &Pool) -> u64 {
    pool.scan().map_or(state::NONE, |scan| scan.phys.state.get())
}

/// The first block of a file of the pool's root.
async fn first_block(pool: &Pool, file: ObjectId) -> (Bookmark, Blkptr) {
    let name = pool.dsl().resolve("whirl").await.unwrap();
    let phys = pool.dsl().dataset(name.dataset).await.unwrap();
    let reach = Reach { from: Place::START, born_after: Txg::ZERO, limit: 10_000 };
    let seen = Objset::visit(pool.zio(), name.objset(), &phys.bp, reach).await;
    let is_first = |(bookmark, _): &(Bookmark, Blkptr)| bookmark.object == file && bookmark.level.get() == 0;
    seen.blocks.into_iter().find(is_first).expect("the file has a block")
}

#[test]
fn a_scrub_finds_out_that_a_device_is_not_there_any_more() {
    let world = World::new(MIRROR);
    let pool = world.create();
    std::fs::remove_file(world.path("b")).expect("it was there");
    world.run(async {
        assert_eq!(pool.vdevs().state().0, VdevState::Online, "nobody has looked");
        pool.scrub().await.expect("a scrub begins");
        finished(&pool).await;
        let states: Vec<_> = pool.vdevs().leaves().iter().map(|leaf| leaf.state().0).collect();
        assert_eq!(states, [VdevState::Online, VdevState::Unavail]);
        assert_eq!(pool.vdevs().state().0, VdevState::Degraded);
    });
}

/// A pool with the damaged files `rewritten`, `removed` and `damaged`, whose errors are known, by
/// head.
fn with_errors(world: &World) -> Arc<Pool> {
    let names = ["rewritten", "removed", "damaged"];
    let pool = world.create();
    world.run(pool.enable_feature(&HEAD_ERRLOG)).unwrap();
    world.create_filesystem(&pool, "whirl/fs", &[("compression", 2)]);
    let zfs = world.zfs(&pool, "whirl/fs");
    let data: Vec<_> = (0..3).map(|seed| noise(50 + seed, 128 << 10)).collect();
    let files: Vec<_> =
        names.iter().zip(&data).map(|(name, data)| world.run(write(&zfs, name, data))).collect();
    drop(zfs);
    world.export(&pool);
    drop(pool);
    data.iter().for_each(|data| assert_eq!(damage(world.path("a"), data), 1));
    let pool = world.import();
    world.run(async {
        let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.unwrap().zfs);
        for file in files {
            zfs.read(file, 0, &mut vec![0; 128 << 10]).await.expect_err("damaged");
        }
        pool.sync_now().await.unwrap();
        assert_eq!(pool.data_errors().await.len(), 3);
    });
    pool
}

/// Waits for the end of the error scrub. Returns the number of blocks that the error scrub read,
/// and the number of blocks that are still damaged.
async fn errors_scrubbed(pool: &Arc<Pool>) -> (u64, u64) {
    loop {
        let report = pool.error_scrub().expect("there is one");
        if report.phys.state.get() == state::FINISHED {
            return (report.phys.examined.get(), report.phys.errors.get());
        }
        let waiting = pool.env().sleep(Duration::from_millis(10));
        pool.sync_now().await.unwrap();
        waiting.await;
    }
}

#[test]
fn an_error_scrub_takes_off_the_list_what_is_whole_again_or_gone_and_nothing_else() {
    let world = World::new(SINGLE);
    let pool = with_errors(&world);
    let named = |pool: &Arc<Pool>| -> Vec<String> {
        world.run(pool.damaged_objects()).into_iter().map(|damaged| damaged.path.expect("a path")).collect()
    };
    world.run(async {
        let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.unwrap().zfs);
        let rewritten = zfs.lookup(zfs.root(), b"rewritten").await.unwrap().object;
        zfs.write(rewritten, 0, &noise(60, 128 << 10), WriteFlags::default()).await.unwrap();
        zfs.unlink(zfs.root(), b"removed").await.unwrap();
        pool.scrub_errors().await.unwrap();
        assert_eq!(errors_scrubbed(&pool).await, (3, 1));
    });
    assert_eq!(named(&pool), ["/damaged"]);
    world.export(&pool);
    drop(pool);
    let pool = world.import();
    assert_eq!(named(&pool), ["/damaged"]);
    let report = pool.error_scrub().expect("it outlives an export");
    assert_eq!((report.phys.state.get(), report.phys.examined.get()), (state::FINISHED, 3));
    world.run(async {
        let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.unwrap().zfs);
        zfs.unlink(zfs.root(), b"damaged").await.unwrap();
        pool.scrub_errors().await.unwrap();
        assert_eq!(errors_scrubbed(&pool).await, (1, 0));
    });
    assert_eq!(named(&pool), [""; 0]);
    world.export(&pool);
    world.check("after the last error");
}

/// The list of errors on disk names the head, even if the damaged block is in a snapshot only.
#[test]
fn an_error_scrub_leaves_what_a_snapshot_still_has_on_the_list() {
    let world = World::new(SINGLE);
    let pool = with_errors(&world);
    world.run(async {
        pool.snapshot(vec!["whirl/fs@1".into()], Vec::new()).await.unwrap();
        let zfs = Arc::clone(&pool.filesystem("whirl/fs").await.unwrap().zfs);
        for name in ["removed", "damaged"] {
            zfs.unlink(zfs.root(), name.as_bytes()).await.unwrap();
        }
        let rewritten = zfs.lookup(zfs.root(), b"rewritten").await.unwrap().object;
        zfs.write(rewritten, 0, &noise(60, 128 << 10), WriteFlags::default()).await.unwrap();
    });
    world.export(&pool);
    drop(pool);
    let pool = world.import();
    world.run(async {
        pool.scrub_errors().await.unwrap();
        assert_eq!(errors_scrubbed(&pool).await, (3, 3));
        assert_eq!(pool.data_errors().await.len(), 3);
        pool.destroy_snapshots(vec!["whirl/fs@1".into()], false).await.unwrap();
        pool.scrub_errors().await.unwrap();
        assert_eq!(errors_scrubbed(&pool).await, (3, 0));
        assert_eq!(pool.data_errors().await.len(), 0);
    });
    world.export(&pool);
    world.check("without a snapshot");
}

#[test]
fn an_error_scrub_and_a_scrub_exclude_each_other() {
    let refusal = |refused: Result<(), PoolError>| match refused {
        Err(PoolError::Scrub(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let world = World::new(SINGLE);
    let pool = with_errors(&world);
    pool.hold_work(BackgroundWork::Scans, true);
    world.run(async {
        pool.scrub().await.unwrap();
        pool.pause_scrub().await.unwrap();
        assert_eq!(refusal(pool.scrub_errors().await), ScrubRefusal::PausedToCancel);
        pool.cancel_scrub().await.unwrap();
        pool.scrub_errors().await.unwrap();
        assert_eq!(refusal(pool.scrub_errors().await), ScrubRefusal::ErrorScrubbing);
        pool.pause_scrub().await.unwrap();
        assert!(pool.error_scrub().is_some_and(|report| report.paused_at.is_some()));
        assert_eq!(refusal(pool.scrub().await), ScrubRefusal::ErrorScrubbing);
        assert_eq!(refusal(pool.pause_scrub().await), ScrubRefusal::ErrorScrubPaused);
    });
    world.export(&pool);
    drop(pool);
    let pool = world.import();
    world.run(async {
        assert!(pool.error_scrub().is_some_and(|report| report.paused_at.is_some()), "it waits");
        assert_eq!(refusal(pool.scrub().await), ScrubRefusal::ErrorScrubbing);
        pool.scrub_errors().await.unwrap();
        assert_eq!(errors_scrubbed(&pool).await.1, 3);
        assert_eq!(refusal(pool.cancel_scrub().await), ScrubRefusal::None);
        pool.scrub().await.unwrap();
        finished(&pool).await;
    });
    world.export(&pool);
}
