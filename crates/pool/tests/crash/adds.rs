//! Vdevs added to a pool: while clients write, with devices that fail, and with the power cut in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use dsl::PropValue;
use env::FaultOp;
use metaslab::Class;
use pool::{Pool, Tuning};
use sim::{CrashImage, DiskModel, Sim};
use units::Ashift;
use vdev::{NewVdev, PoolState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::shape::{GROWN, POOL, SINGLE, brisk};
use crate::space;
use crate::story::{Tell, drawn, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
/// Images that are imported, of all that there are.
const IMAGES_MAX: usize = 300;
/// Of these, one in so many is judged by `zdb`.
const ZDB_ONE_IN: usize = 60;

fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

fn bytes(number: u64) -> Vec<u8> {
    vec![number as u8 + 1; 5_000]
}

/// Makes a file and says so once that is promised.
async fn promise(sim: &Sim, zfs: &Zfs, number: u64) {
    let made = zfs.create(zfs.root(), &name(number), NewNode::File, 0o644, Cred::default()).await;
    let file = made.expect("create").object;
    zfs.write(file, 0, &bytes(number), SYNC).await.expect("write");
    sim.mark(format!("promised {number}"));
}

async fn check(zfs: &Zfs, number: u64) {
    let file = zfs.lookup(zfs.root(), &name(number)).await.expect("it was promised").object;
    let mut found = vec![0; 6_000];
    assert_eq!(zfs.read(file, 0, &mut found).await.expect("read"), 5_000);
    assert_eq!(found[..5_000], bytes(number));
}

fn tops(pool: &Pool) -> usize {
    pool.vdevs().tops().len()
}

/// A pool on one disk, and disks for more.
fn disks(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    GROWN.add_disks(&sim, DiskModel::ssd());
    sim
}

#[test]
fn added_vdevs_are_used_and_are_there_after_an_import() {
    let _tell = Tell;
    tell("an add".into());
    let sim = disks(40_000);
    run(&sim, async {
        let pool = SINGLE.create(&sim, brisk()).await;
        let room = pool.zio().with_allocator(|allocator| allocator.space(Class::Normal).capacity);
        pool.add(GROWN.vdevs_from(1), false).await.expect("they are good");
        assert_eq!(tops(&pool), 3);
        let grown = pool.zio().with_allocator(|allocator| allocator.space(Class::Normal).capacity);
        assert!(grown.get() > room.get() * 19 / 10, "{room:?} to {grown:?}");
        let fs = pool.filesystem(POOL).await.expect("it opens");
        for number in 0..40 {
            promise(&sim, &fs.zfs, number).await;
        }
        let big = fs.zfs.create(fs.zfs.root(), b"big", NewNode::File, 0o644, Cred::default()).await;
        let mut noise = vec![0; 8 << 20];
        fastrand::Rng::with_seed(1).fill(&mut noise);
        fs.zfs.write(big.expect("create").object, 0, &noise, WriteFlags::default()).await.expect("write");
        pool.sync_now().await.expect("txgs turn");
        for top in pool.vdevs().tops() {
            let written = top.stats().snapshot().write.bytes;
            assert!(written > 100_000, "{written} bytes to vdev {}", top.id());
        }
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(&GROWN, &sim);
    run(&sim, async {
        let pool = GROWN.import(&sim, brisk(), false).await.expect("all are there");
        assert_eq!(tops(&pool), 3);
        let fs = pool.filesystem(POOL).await.expect("it opens");
        for number in 0..40 {
            check(&fs.zfs, number).await;
        }
    });
}

#[test]
fn new_vdevs_have_the_sector_size_that_the_pool_was_told() {
    let _tell = Tell;
    for (set, asked, expected) in
        [(None, None, 9), (Some(10), None, 10), (Some(10), Some(12), 12), (Some(0), None, 9)]
    {
        tell(format!("ashift {set:?} set, {asked:?} asked for"));
        let sim = disks(40_100);
        run(&sim, async {
            let pool = SINGLE.create(&sim, brisk()).await;
            if let Some(bits) = set {
                pool.set_pool_prop("ashift", Some(PropValue::Number(bits))).await.expect("it is kept");
            }
            let asked = |vdev| NewVdev { ashift: asked.map(Ashift::new), ..vdev };
            let vdevs = GROWN.vdevs_from(1).into_iter().map(asked).collect();
            pool.add(vdevs, false).await.expect("they are good");
            let ashifts: Vec<u8> = pool.vdevs().tops().iter().map(|top| top.ashift().get()).collect();
            assert_eq!(ashifts, [9, expected, expected]);
        });
    }
}

/// What tells whether a pool has changed.
async fn figures(pool: &Arc<Pool>) -> (usize, u64, Vec<u8>, u64) {
    let config = pool.stored_config().await.expect("it has one").encode();
    let space = pool.zio().with_allocator(|allocator| allocator.space(Class::Normal).capacity.get());
    (tops(pool), pool.vdevs().guid_sum(), config, space)
}

#[test]
fn an_add_that_fails_leaves_the_pool_as_it_was() {
    let _tell = Tell;
    // The last of three devices fails, or is not there.
    for what in ["a write", "a flush", "no device"] {
        tell(format!("{what} fails"));
        let sim = disks(40_200);
        let pool = run(&sim, async {
            let pool = SINGLE.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            promise(&sim, &fs.zfs, 0).await;
            let before = figures(&pool).await;
            let mut vdevs = GROWN.vdevs_from(1);
            match what {
                "a write" => sim.disk("/l").faults().fail_all(FaultOp::Write),
                "a flush" => sim.disk("/l").faults().fail_all(FaultOp::Flush),
                _ => vdevs[1].paths = vec!["/nowhere".into()],
            }
            pool.add(vdevs, false).await.expect_err("it must not start with a bad device");
            assert_eq!(figures(&pool).await, before);
            promise(&sim, &fs.zfs, 1).await;
            pool.sync_now().await.expect("txgs turn");
            assert_eq!(figures(&pool).await, before);
            pool
        });
        run(&sim, async {
            // The devices may be had again.
            sim.disk("/l").faults().heal();
            pool.add(GROWN.vdevs_from(1), true).await.expect("now they are good");
            assert_eq!(tops(&pool), 3);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        space::judged_by_zdb(&GROWN, &sim);
    }
}

/// Imports what a power cut left: all new vdevs or none, all that was promised.
fn judge(image: &CrashImage, seed: u64, with_zdb: bool) -> usize {
    let sim = image.boot(seed);
    if with_zdb && image.is_after("added") {
        space::judged_by_zdb(&GROWN, &sim);
    }
    sim.stop_recording();
    run(&sim, async {
        let pool = GROWN.import(&sim, brisk(), false).await.expect("every crash state imports");
        let count = tops(&pool);
        assert!(count == 1 || count == 3, "{count} of 3 vdevs");
        assert!(count == 3 || !image.is_after("added"), "they were added");
        let fs = pool.filesystem(POOL).await.expect("its log is whole");
        for number in (0..).take_while(|number| image.is_after(&format!("promised {number}"))) {
            check(&fs.zfs, number).await;
        }
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        count
    })
}

#[test]
fn a_power_cut_while_vdevs_are_added_leaves_all_of_them_or_none() {
    let _tell = Tell;
    let (mut judged, mut counts) = (0, [0; 4]);
    for seed in 40_300..40_303 {
        tell(format!("seed {seed}"));
        let sim = disks(seed);
        run(&sim, async {
            // A txg takes long enough for promises to be made while it syncs.
            let pool = SINGLE
                .create(&sim, Tuning { txg_timeout: std::time::Duration::from_millis(5), ..brisk() })
                .await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            promise(&sim, &fs.zfs, 0).await;
            sim.start_recording();
            let has_added = AtomicBool::new(false);
            let client = async {
                let mut number = 1;
                let mut last = 0;
                while last < 5 {
                    last += u64::from(has_added.load(SeqCst));
                    promise(&sim, &fs.zfs, number).await;
                    number += 1;
                }
            };
            let add = async {
                pool.add(GROWN.vdevs_from(1), false).await.expect("they are good");
                sim.mark("added");
                has_added.store(true, SeqCst);
            };
            futures::join!(client, add);
        });
        for image in drawn(&sim.recording(), IMAGES_MAX / 3) {
            tell(format!("seed {seed}, {}", image.story()));
            counts[judge(&image, seed, judged % ZDB_ONE_IN == 0)] += 1;
            judged += 1;
        }
    }
    assert!(counts[1] > 10 && counts[3] > 10, "{counts:?}: both were seen");
}
