//! Checkpoints made, discarded and returned to, with the power cut in the middle, and in a pool that is full.

use std::sync::Arc;
use std::time::Duration;

use env::{Env, FaultOp};
use pool::{CheckpointRefusal, ImportSpec, Pool, PoolError};
use sim::{CrashImage, DiskModel, Sim};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs, ZplError};

use crate::failures::resilvered;
use crate::shape::{GROWN, LOG, MIRROR, POOL, SINGLE, STRIPE, Shape, brisk};
use crate::space;
use crate::story::{Tell, drawn, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
/// Images of one run that are imported, of all that there are.
const IMAGES_MAX: usize = 120;
/// Of these, one in so many is judged by `zdb`.
const ZDB_ONE_IN: usize = 40;
/// Files of the state that is kept.
const FILES: u64 = 12;
const FILE_BYTES: usize = 40_000;

const TO_CHECKPOINT: fn(bool) -> ImportSpec =
    |read_only| ImportSpec { read_only, to_checkpoint: true, ..ImportSpec::default() };

fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

/// What a file holds in the state that is kept, and later.
fn bytes(number: u64, round: u64) -> Vec<u8> {
    let mut noise = vec![0; FILE_BYTES];
    fastrand::Rng::with_seed(number << 8 | round).fill(&mut noise);
    noise
}

async fn object(zfs: &Zfs, number: u64) -> Option<ObjectId> {
    zfs.lookup(zfs.root(), &name(number)).await.ok().map(|found| found.object)
}

async fn write(zfs: &Zfs, number: u64, round: u64, flags: WriteFlags) {
    let file = match object(zfs, number).await {
        Some(file) => file,
        None => {
            let made = zfs.create(zfs.root(), &name(number), NewNode::File, 0o644, Cred::default()).await;
            made.expect("create").object
        }
    };
    zfs.write(file, 0, &bytes(number, round), flags).await.expect("write");
}

/// The files of the state that is kept, some of them only in the log so far.
pub async fn first_state(pool: &Pool, zfs: &Zfs) {
    for number in 0..FILES {
        write(zfs, number, 0, if number % 3 == 0 { SYNC } else { WriteFlags::default() }).await;
    }
    pool.sync_now().await.expect("txgs turn");
    write(zfs, 0, 0, SYNC).await;
}

/// Files of that state written over and removed in several txgs, and one that is new and was promised.
pub async fn later_state(pool: &Pool, zfs: &Zfs) {
    for number in 0..FILES {
        match number % 4 {
            0 => write(zfs, number, 1, SYNC).await,
            1 => write(zfs, number, 1, WriteFlags::default()).await,
            2 => zfs.unlink(zfs.root(), &name(number)).await.expect("unlink"),
            _ => {}
        }
        if number % 3 == 0 {
            pool.sync_now().await.expect("txgs turn");
        }
    }
    write(zfs, FILES, 1, SYNC).await;
}

async fn holds(zfs: &Zfs, number: u64, round: u64) -> bool {
    let Some(file) = object(zfs, number).await else { return false };
    let mut found = vec![0; FILE_BYTES + 1];
    zfs.read(file, 0, &mut found).await.expect("it reads") == FILE_BYTES
        && found[..FILE_BYTES] == bytes(number, round)
}

pub async fn is_first_state(zfs: &Zfs) -> bool {
    for number in 0..FILES {
        if !holds(zfs, number, 0).await {
            return false;
        }
    }
    object(zfs, FILES).await.is_none()
}

pub async fn is_later_state(zfs: &Zfs) -> bool {
    for number in 0..=FILES {
        let is_there = match number % 4 {
            _ if number == FILES => holds(zfs, number, 1).await,
            0 | 1 => holds(zfs, number, 1).await,
            2 => object(zfs, number).await.is_none(),
            _ => holds(zfs, number, 0).await,
        };
        if !is_there {
            return false;
        }
    }
    true
}

pub fn world(shape: &Shape, seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::ssd());
    sim
}

/// Whether the pool has a checkpoint that can be read, which is then the first state.
async fn has_checkpoint(shape: &Shape, sim: &Sim) -> bool {
    let pool = match shape.import_as(sim, brisk(), TO_CHECKPOINT(true)).await {
        Ok(pool) => pool,
        Err(PoolError::Checkpoint(CheckpointRefusal::None)) => return false,
        Err(error) => panic!("a checkpoint is whole or not there: {error}"),
    };
    let fs = pool.filesystem(POOL).await.expect("it opens");
    assert!(is_first_state(&fs.zfs).await, "the checkpoint is not what it was");
    drop(fs);
    pool.close(PoolState::Exported).await.expect("it closes");
    true
}

/// Whether the pool has given up a checkpoint, and not freed yet all that was kept for it.
async fn is_discarding(shape: &Shape, sim: &Sim) -> bool {
    let look = ImportSpec { read_only: true, ..ImportSpec::default() };
    let pool = shape.import_as(sim, brisk(), look).await.expect("every crash state imports");
    let is_discarding = pool.checkpoint().is_some_and(|checkpoint| checkpoint.is_discarding);
    pool.close(PoolState::Exported).await.expect("it closes");
    is_discarding
}

/// Draws images of all of a run's crash states, and judges each.
pub fn each_image(sim: &Sim, seed: u64, mut judge: impl FnMut(&CrashImage, Sim, bool)) {
    for (turn, image) in drawn(&sim.recording(), IMAGES_MAX).enumerate() {
        tell(format!("seed {seed}, {}", image.story()));
        let sim = image.boot(seed);
        sim.stop_recording();
        judge(&image, sim, turn % ZDB_ONE_IN == 0);
    }
}

/// Checks a pool after a power cut: its space adds up, whatever is kept or being given up.
async fn sound(pool: &Arc<Pool>) {
    pool.wait_discarded().await.expect("txgs turn");
    space::check(pool).await;
    if pool.checkpoint().is_none() {
        assert_eq!(pool.room().kept, 0, "kept for nobody");
    }
}

#[test]
fn a_power_cut_leaves_a_checkpoint_whole_or_none() {
    let _tell = Tell;
    for (shape, seed) in [(&STRIPE, 50_000), (&LOG, 50_001)] {
        let sim = world(shape, seed);
        run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            first_state(&pool, &fs.zfs).await;
            sim.start_recording();
            pool.make_checkpoint().await.expect("the feature is enabled");
            sim.mark("kept");
            later_state(&pool, &fs.zfs).await;
            pool.sync_now().await.expect("txgs turn");
            sim.mark("changed");
        });
        let mut seen = [0; 2];
        each_image(&sim, seed, |image, sim, with_zdb| {
            if with_zdb {
                space::judged_by_zdb(shape, &sim);
            }
            let is_kept = run(&sim, has_checkpoint(shape, &sim));
            assert!(is_kept || !image.is_after("kept"), "it was made");
            seen[usize::from(is_kept)] += 1;
            run(&sim, async {
                let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
                let fs = pool.filesystem(POOL).await.expect("its log is whole");
                assert!(!image.is_after("changed") || is_later_state(&fs.zfs).await, "it was stable");
                drop(fs);
                sound(&pool).await;
                pool.close(PoolState::Exported).await.expect("it closes");
            });
            assert_eq!(run(&sim, has_checkpoint(shape, &sim)), is_kept);
        });
        assert!(seen[0] > 2 && seen[1] > 10, "{seen:?}: both were seen");
    }
}

#[test]
fn a_power_cut_while_a_checkpoint_is_discarded_leaks_nothing() {
    let _tell = Tell;
    let (shape, seed) = (&STRIPE, 50_100);
    let sim = world(shape, seed);
    run(&sim, async {
        let pool = shape.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        first_state(&pool, &fs.zfs).await;
        pool.make_checkpoint().await.expect("the feature is enabled");
        later_state(&pool, &fs.zfs).await;
        pool.sync_now().await.expect("txgs turn");
        sim.start_recording();
        sim.mark("giving up");
        pool.discard_checkpoint().await.expect("there is one");
        sim.mark("given up");
        pool.wait_discarded().await.expect("txgs turn");
        sim.mark("over");
        write(&fs.zfs, FILES + 1, 2, SYNC).await;
        pool.sync_now().await.expect("txgs turn");
    });
    let (mut kept, mut half) = (0, 0);
    each_image(&sim, seed, |image, sim, with_zdb| {
        if with_zdb {
            space::judged_by_zdb(shape, &sim);
        }
        let is_kept = run(&sim, has_checkpoint(shape, &sim));
        assert!(!is_kept || !image.is_after("given up"), "it was given up");
        kept += usize::from(is_kept);
        half += usize::from(run(&sim, is_discarding(shape, &sim)));
        run(&sim, async {
            let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
            assert!(!image.is_after("over") || pool.checkpoint().is_none(), "it was over");
            let fs = pool.filesystem(POOL).await.expect("its log is whole");
            assert!(is_later_state(&fs.zfs).await, "it was stable");
            drop(fs);
            sound(&pool).await;
            assert_eq!(pool.checkpoint().is_some(), is_kept);
            pool.close(PoolState::Exported).await.expect("it closes");
        });
    });
    assert!(kept > 2 && half > 2, "{kept} with the checkpoint, {half} that were discarding it");
}

#[test]
fn a_power_cut_while_the_pool_returns_leaves_one_of_the_two_states() {
    let _tell = Tell;
    for (shape, seed) in [(&STRIPE, 50_200), (&LOG, 50_201)] {
        let sim = world(shape, seed);
        run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            first_state(&pool, &fs.zfs).await;
            pool.make_checkpoint().await.expect("the feature is enabled");
            later_state(&pool, &fs.zfs).await;
        });
        // Logs are as a power cut leaves them, in both states.
        let sim = sim.power_cut(seed).boot(seed);
        run(&sim, async {
            sim.start_recording();
            let pool = shape.import_as(&sim, brisk(), TO_CHECKPOINT(false)).await.expect("it is whole");
            sim.mark("returned");
            let fs = pool.filesystem(POOL).await.expect("it opens");
            assert!(is_first_state(&fs.zfs).await);
            write(&fs.zfs, FILES + 1, 2, SYNC).await;
            sim.mark("promised");
            pool.sync_now().await.expect("txgs turn");
        });
        let mut seen = [0; 2];
        each_image(&sim, seed, |image, sim, with_zdb| {
            if with_zdb {
                space::judged_by_zdb(shape, &sim);
            }
            run(&sim, async {
                let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
                let has_returned = pool.checkpoint().is_none();
                assert!(has_returned || !image.is_after("returned"), "it had returned");
                seen[usize::from(has_returned)] += 1;
                let fs = pool.filesystem(POOL).await.expect("its log is whole");
                assert!(!image.is_after("promised") || holds(&fs.zfs, FILES + 1, 2).await, "it was promised");
                match has_returned {
                    true => assert!(is_first_state(&fs.zfs).await, "all of the first state"),
                    false => assert!(is_later_state(&fs.zfs).await, "all of the later state"),
                }
                drop(fs);
                sound(&pool).await;
                pool.close(PoolState::Exported).await.expect("it closes");
            });
        });
        assert!(seen[0] > 2 && seen[1] > 2, "{seen:?}: both were seen");
    }
}

/// Writes until there is no room; how many bytes that were, none if not even a file could be made.
async fn fill(zfs: &Zfs, name: &[u8]) -> Option<u64> {
    let made = zfs.create(zfs.root(), name, NewNode::File, 0o644, Cred::default()).await;
    let file = match made {
        Ok(made) => made.object,
        Err(ZplError::NoSpace) => return None,
        Err(error) => panic!("{error}"),
    };
    let mut at = 0;
    loop {
        match zfs.write(file, at, &bytes(at, 3), WriteFlags::default()).await {
            Ok(_) => at += FILE_BYTES as u64,
            Err(ZplError::NoSpace) => return Some(at),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_full_pool_with_a_checkpoint_refuses_writes_and_is_not_harmed() {
    let _tell = Tell;
    let (shape, seed) = (&STRIPE, 50_300);
    let sim = world(shape, seed);
    run(&sim, async {
        let pool = shape.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        let zfs = &fs.zfs;
        let filled = fill(zfs, b"all").await.expect("there is room");
        assert!(filled > 20 << 20, "{filled}");
        pool.make_checkpoint().await.expect("it takes hardly any room");
        zfs.unlink(zfs.root(), b"all").await.expect("half of what is kept back is there for it");
        for _ in 0..5 {
            pool.sync_now().await.expect("txgs turn");
        }
        assert!(pool.room().kept > filled, "{:?}", pool.room());
        let mut refused = 0;
        for round in 0..20_u8 {
            let again = fill(zfs, &[b'a' + round]).await;
            refused += usize::from(again.is_none());
            if let Some(bytes) = again {
                assert!(bytes < 4 << 20, "{bytes} bytes were to be had in round {round}");
                let gone = zfs.unlink(zfs.root(), &[b'a' + round]).await;
                assert!(matches!(gone, Ok(()) | Err(ZplError::NoSpace)), "{gone:?}");
            }
            pool.sync_now().await.expect("txgs turn");
        }
        assert!(refused > 0, "not even a file could be made at last");
        assert_eq!(pool.stopped(), None);
        pool.discard_checkpoint().await.expect("it is always possible");
        pool.wait_discarded().await.expect("txgs turn");
        for _ in 0..3 {
            pool.sync_now().await.expect("txgs turn");
        }
        let again = fill(zfs, b"again").await.expect("there is room");
        assert!(again > filled - (2 << 20), "{again} of {filled}");
        drop(fs);
        sound(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(shape, &sim);
}

#[test]
fn a_device_that_missed_what_is_kept_is_behind_until_the_checkpoint_is_gone() {
    let _tell = Tell;
    let (shape, seed) = (&MIRROR, 50_400);
    let sim = world(shape, seed);
    let behind = |pool: &Pool| pool.vdevs().leaves().iter().any(|leaf| !leaf.dtl().is_empty());
    run(&sim, async {
        let pool = shape.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        sim.disk("/b").faults().fail_all(FaultOp::Write);
        first_state(&pool, &fs.zfs).await;
        pool.make_checkpoint().await.expect("the feature is enabled");
        later_state(&pool, &fs.zfs).await;
        pool.sync_now().await.expect("txgs turn");
        sim.disk("/b").faults().heal();
        pool.clear(&|_| true).await.expect("it works again");
        resilvered(&pool).await;
        assert!(behind(&pool), "nobody has read what is kept");
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    for is_kept in [true, false] {
        run(&sim, async {
            let pool = shape.import(&sim, brisk(), false).await.expect("it imports");
            resilvered(&pool).await;
            assert_eq!(behind(&pool), is_kept);
            let fs = pool.filesystem(POOL).await.expect("it opens");
            assert!(is_later_state(&fs.zfs).await);
            drop(fs);
            if is_kept {
                pool.discard_checkpoint().await.expect("there is one");
                pool.wait_discarded().await.expect("txgs turn");
                // Nobody has to ask for it.
                while behind(&pool) {
                    sim.sleep(Duration::from_millis(5)).await;
                }
            }
            pool.close(PoolState::Exported).await.expect("it closes");
        });
    }
}

#[test]
fn vdevs_added_since_are_out_of_the_pool_after_a_return() {
    let _tell = Tell;
    let sim = world(&GROWN, 50_500);
    let tops = |pool: &Pool| pool.vdevs().tops().len();
    run(&sim, async {
        let pool = SINGLE.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        first_state(&pool, &fs.zfs).await;
        pool.make_checkpoint().await.expect("the feature is enabled");
        pool.add(GROWN.vdevs_from(1), false).await.expect("a checkpoint does not mind");
        later_state(&pool, &fs.zfs).await;
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(&GROWN, &sim);
    run(&sim, async {
        let pool = GROWN.import_as(&sim, brisk(), TO_CHECKPOINT(false)).await.expect("it is whole");
        assert_eq!(tops(&pool), 1);
        pool.close(PoolState::Exported).await.expect("it closes");
        let pool =
            GROWN.import(&sim, brisk(), false).await.expect("old labels of the others count for nothing");
        assert_eq!(tops(&pool), 1);
        let fs = pool.filesystem(POOL).await.expect("it opens");
        assert!(is_first_state(&fs.zfs).await);
        drop(fs);
        sound(&pool).await;
        pool.add(GROWN.vdevs_from(1), true).await.expect("their disks may be had again");
        assert_eq!(tops(&pool), 3);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(&GROWN, &sim);
}
