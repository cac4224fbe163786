//! Snapshots of file systems that are being written, and what a power cut leaves of snapshots and clones.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use dsl::PropValue;
use dsl::features::LIVELIST;
use env::Env;
use futures::future::{join, join_all};
use pool::{Pool, PoolError, Tuning};
use sim::{DiskModel, Sim};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::checkpoints::{each_image, first_state, is_first_state, is_later_state, later_state, world};
use crate::ground::quiet;
use crate::shape::{LOG, MIRRORED_LOG, POOL, RAIDZ, SINGLE, STRIPE, brisk};
use crate::space;
use crate::story::{Tell, run};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const WRITERS: usize = 4;
const SNAPSHOTS: usize = 12;
const BULK_BYTES: usize = 1 << 20;

fn one(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

async fn file(zfs: &Zfs, number: usize) -> ObjectId {
    let name = format!("w{number}").into_bytes();
    zfs.create(zfs.root(), &name, NewNode::File, 0o644, Cred::default()).await.expect("created").object
}

/// The number that a file holds.
async fn number_in(zfs: &Zfs, file: ObjectId) -> u64 {
    let mut word = [0; 8];
    zfs.read(file, 0, &mut word).await.expect("it reads");
    u64::from_le_bytes(word)
}

/// Writes one number after the other into a file, stably, until told to stop; `acknowledged` is the last.
async fn count(zfs: &Zfs, file: ObjectId, acknowledged: &Cell<u64>, is_over: &Cell<bool>) {
    while !is_over.get() {
        let next = acknowledged.get() + 1;
        zfs.write(file, 0, &next.to_le_bytes(), SYNC).await.expect("written");
        acknowledged.set(next);
    }
}

/// Takes snapshots while files are written and txgs turn, and looks what each has.
async fn take_snapshots(sim: &Sim, pool: &Arc<Pool>, files: &[ObjectId], acknowledged: &[Cell<u64>]) {
    for turn in 0..SNAPSHOTS {
        sim.sleep(Duration::from_micros(700 + 137 * turn as u64)).await;
        let promised: Vec<u64> = acknowledged.iter().map(Cell::get).collect();
        let name = format!("{POOL}@{turn}");
        pool.snapshot(one(&name), Vec::new()).await.expect("made");
        let snapshot = pool.snapshot_filesystem(&name).await.expect("it opens");
        for (file, promised) in files.iter().zip(promised) {
            let found = number_in(&snapshot.zfs, *file).await;
            assert!(found >= promised, "{name} has {found} where {promised} had been promised");
        }
    }
}

#[test]
fn a_snapshot_has_what_was_acknowledged_before_it() {
    let _tell = Tell;
    for (shape, seed) in [(&SINGLE, 91_000), (&LOG, 91_001), (&RAIDZ, 91_002)] {
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::ssd());
        run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            let mut files = Vec::new();
            for number in 0..WRITERS {
                files.push(file(&fs.zfs, number).await);
            }
            let acknowledged: Vec<Cell<u64>> = (0..WRITERS).map(|_| Cell::new(0)).collect();
            let is_over = Cell::new(false);
            let writers = files.iter().zip(&acknowledged);
            let writers = join_all(writers.map(|(file, last)| count(&fs.zfs, *file, last, &is_over)));
            // Each txg has so much to write that writers go on in the next one for a while.
            let bulk = file(&fs.zfs, WRITERS).await;
            let turning = async {
                let mut noise = vec![0; BULK_BYTES];
                while !is_over.get() {
                    fastrand::Rng::with_seed(pool.txgs().open_txg().get()).fill(&mut noise);
                    fs.zfs.write(bulk, 0, &noise, WriteFlags::default()).await.expect("written");
                    pool.sync_now().await.expect("txgs turn");
                }
            };
            let taking = async {
                take_snapshots(&sim, &pool, &files, &acknowledged).await;
                is_over.set(true);
            };
            join(taking, join(writers, turning)).await;
            assert!(acknowledged.iter().all(|last| last.get() > SNAPSHOTS as u64), "{acknowledged:?}");
            drop(fs);
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        space::judged_by_zdb(shape, &sim);
    }
}

#[test]
fn a_snapshot_has_what_a_log_still_has_to_replay() {
    let _tell = Tell;
    let sim = Sim::seed(91_050);
    LOG.add_disks(&sim, DiskModel::ssd());
    let (stable, waiting) = run(&sim, async {
        let pool = LOG.create(&sim, quiet()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        let first = file(&fs.zfs, 1).await;
        fs.zfs.write(first, 0, &7_u64.to_le_bytes(), SYNC).await.expect("written");
        pool.sync_now().await.expect("stable");
        let second = file(&fs.zfs, 2).await;
        fs.zfs.write(second, 0, &8_u64.to_le_bytes(), SYNC).await.expect("written");
        (first, second)
    });
    let sim = sim.power_cut(1).boot(1);
    run(&sim, async {
        let pool = LOG.import(&sim, quiet(), false).await.expect("it imports");
        pool.snapshot(one("whirl@a"), Vec::new()).await.expect("made");
        let snapshot = pool.snapshot_filesystem("whirl@a").await.expect("it opens");
        assert_eq!(number_in(&snapshot.zfs, stable).await, 7);
        assert_eq!(number_in(&snapshot.zfs, waiting).await, 8, "it was promised");
        // The log's header in the snapshot is none of a clone's: its blocks are the first's to give back.
        let fs = pool.filesystem(POOL).await.expect("it opens");
        fs.zfs.write(stable, 0, &9_u64.to_le_bytes(), SYNC).await.expect("written");
        pool.snapshot(one("whirl@b"), Vec::new()).await.expect("made");
        pool.clone_snapshot("whirl@b".into(), "whirl/c".into(), Vec::new()).await.expect("made");
        fs.zfs.write(stable, 0, &10_u64.to_le_bytes(), SYNC).await.expect("written");
    });
    let sim = sim.power_cut(2).boot(2);
    run(&sim, async {
        let pool = LOG.import(&sim, quiet(), false).await.expect("each log block is claimed once");
        for (name, number) in [(POOL, 10), ("whirl/c", 9)] {
            let fs = pool.filesystem(name).await.expect("its log is whole");
            assert_eq!(number_in(&fs.zfs, stable).await, number, "{name}");
        }
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

/// Whether a snapshot is there that holds the first state, or the later one.
async fn has(pool: &Arc<Pool>, name: &str, is_first: bool) -> bool {
    match pool.snapshot_filesystem(name).await {
        Ok(fs) if is_first => {
            assert!(is_first_state(&fs.zfs).await, "{name} is not what it was made of");
            true
        }
        Ok(fs) => {
            assert!(is_later_state(&fs.zfs).await, "{name} is not what it was made of");
            true
        }
        Err(PoolError::Dsl(dsl::DslError::NoSuchDataset { .. })) => false,
        Err(error) => panic!("{name}: {error}"),
    }
}

#[test]
fn a_power_cut_leaves_snapshots_and_clones_whole_or_not_there() {
    let _tell = Tell;
    for (shape, seed) in [(&STRIPE, 91_100), (&LOG, 91_101), (&MIRRORED_LOG, 91_102), (&RAIDZ, 91_103)] {
        let sim = world(shape, seed);
        run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            first_state(&pool, &fs.zfs).await;
            sim.start_recording();
            pool.snapshot(one("whirl@a"), Vec::new()).await.expect("made");
            sim.mark("first kept");
            later_state(&pool, &fs.zfs).await;
            pool.snapshot(one("whirl@b"), Vec::new()).await.expect("made");
            sim.mark("later kept");
            pool.clone_snapshot("whirl@a".into(), "whirl/c".into(), Vec::new()).await.expect("made");
            sim.mark("cloned");
            drop(fs);
            pool.destroy_snapshots(one("whirl@b"), false).await.expect("nobody has it");
            sim.mark("later destroyed");
            pool.rollback(POOL.into(), "whirl@a".into()).await.expect("it is the latest");
            sim.mark("rolled back");
            pool.promote("whirl/c".into()).await.expect("it is a clone");
            sim.mark("promoted");
            for turn in 0..6 {
                pool.set_comment(Some(format!("{turn}"))).await.expect("txgs turn");
            }
        });
        let mut seen = [0; 4];
        each_image(&sim, seed, |image, sim, with_zdb| {
            if with_zdb {
                space::judged_by_zdb(shape, &sim);
            }
            run(&sim, async {
                let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
                let (here, there) = (has(&pool, "whirl@a", true).await, has(&pool, "whirl/c@a", true).await);
                assert!(!(here && there), "a snapshot is in one dataset");
                assert!(here || there || !image.is_after("first kept"), "it was made");
                assert!(there || !image.is_after("promoted"), "it has moved");
                let later = has(&pool, "whirl@b", false).await;
                let is_destroyed = image.is_after("later destroyed");
                assert!(!(later && is_destroyed), "it was destroyed");
                let clone = pool.filesystem("whirl/c").await;
                assert!(clone.is_ok() || !image.is_after("cloned"), "it was made");
                if let Ok(clone) = &clone {
                    assert!(is_first_state(&clone.zfs).await, "a clone begins as its snapshot");
                }
                let fs = pool.filesystem(POOL).await.expect("its log is whole");
                let is_first = is_first_state(&fs.zfs).await;
                assert!(is_first || !image.is_after("rolled back"), "it was rolled back");
                let is_later = is_later_state(&fs.zfs).await;
                let turned = is_destroyed || !image.is_after("later kept");
                assert!(is_later || turned, "it was stable");
                for (count, is_so) in seen.iter_mut().zip([here, there, later, clone.is_ok() && !is_first]) {
                    *count += usize::from(is_so);
                }
                drop((fs, clone));
                space::check(&pool).await;
                pool.close(PoolState::Exported).await.expect("it closes");
            });
        });
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}: all were seen");
    }
}

#[test]
fn a_snapshot_that_is_read_stays() {
    let sim = Sim::seed(91_200);
    SINGLE.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = SINGLE.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        first_state(&pool, &fs.zfs).await;
        pool.snapshot(one("whirl@a"), Vec::new()).await.expect("made");
        later_state(&pool, &fs.zfs).await;
        let reader = pool.snapshot_filesystem("whirl@a").await.expect("it opens");
        let refused = pool.destroy_snapshots(one("whirl@a"), false).await;
        assert!(matches!(refused, Err(PoolError::Busy { .. })), "{refused:?}");
        assert!(is_first_state(&reader.zfs).await);
        drop(reader);
        pool.destroy_snapshots(one("whirl@a"), false).await.expect("nobody reads it");
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(&SINGLE, &sim);
}

/// A clone writes over few of the records of its origin, so that its livelist stays; a txg frees one of its blocks.
const RECORD: u64 = 4096;
const RECORDS: u64 = 300;

fn sparing() -> Tuning {
    Tuning { freed_blocks: 1, livelist_entries: 8, ..brisk() }
}

/// What the clone's file has after so many changes.
fn cloned_bytes(changes: u64) -> Vec<u8> {
    let mut bytes = vec![0; (RECORDS * RECORD) as usize];
    fastrand::Rng::with_seed(5).fill(&mut bytes);
    for change in 0..changes {
        let at = (change % 4 * RECORD) as usize;
        bytes[at..at + 100].fill(change as u8);
    }
    bytes
}

async fn change(zfs: &Zfs, file: ObjectId, change: u64) {
    let at = change % 4 * RECORD;
    zfs.write(file, at, &[change as u8; 100], WriteFlags::default()).await.expect("written");
}

const CHANGES: u64 = 14;

/// A clone that is written to in many txgs and then destroyed, with `whirl/fs@a` its origin.
async fn live_and_die(sim: &Sim, pool: &Arc<Pool>) {
    let props = || vec![("recordsize".to_owned(), PropValue::Number(RECORD))];
    pool.create_filesystem("whirl/fs", props()).await.expect("made");
    let fs = pool.filesystem("whirl/fs").await.expect("it opens");
    let file = file(&fs.zfs, 0).await;
    fs.zfs.write(file, 0, &cloned_bytes(0), WriteFlags::default()).await.expect("written");
    pool.snapshot(one("whirl/fs@a"), Vec::new()).await.expect("made");
    sim.start_recording();
    pool.clone_snapshot("whirl/fs@a".into(), "whirl/c".into(), props()).await.expect("made");
    sim.mark("cloned");
    let clone = pool.filesystem("whirl/c").await.expect("it opens");
    for number in 0..CHANGES {
        change(&clone.zfs, file, number).await;
        pool.sync_now().await.expect("txgs turn");
    }
    sim.mark("changed");
    assert_eq!(pool.dsl().feature_count(&LIVELIST).await.expect("it reads"), Some(1));
    drop((fs, clone));
    pool.destroy_filesystem("whirl/c").await.expect("nobody has it");
    sim.mark("destroyed");
    while pool.dsl().has_destroyed().await.expect("it reads") {
        pool.sync_now().await.expect("txgs turn");
    }
    for turn in 0..3 {
        pool.set_comment(Some(format!("{turn}"))).await.expect("txgs turn");
    }
}

#[test]
fn a_power_cut_leaves_a_clone_whole_or_its_livelist_to_be_freed() {
    let _tell = Tell;
    for (shape, seed) in [(&STRIPE, 91_300), (&RAIDZ, 91_301)] {
        let sim = world(shape, seed);
        run(&sim, async {
            let pool = shape.create(&sim, sparing()).await;
            live_and_die(&sim, &pool).await;
        });
        let (mut lived, mut half, mut gone) = (0, 0, 0);
        each_image(&sim, seed, |image, sim, with_zdb| {
            if with_zdb {
                space::judged_by_zdb(shape, &sim);
            }
            run(&sim, async {
                let pool = shape.import(&sim, sparing(), false).await.expect("every crash state imports");
                let waits = pool.dsl().freeing_bytes().await.expect("it reads") > 0;
                drop(pool.filesystem("whirl/fs").await.expect("its log is whole"));
                if let Ok(clone) = pool.filesystem("whirl/c").await {
                    assert!(!image.is_after("destroyed"), "it was destroyed");
                    lived += 1;
                    let file = clone.zfs.lookup(clone.zfs.root(), b"w0").await.expect("it is there").object;
                    let mut bytes = vec![0; (RECORDS * RECORD) as usize];
                    assert_eq!(clone.zfs.read(file, 0, &mut bytes).await.expect("it reads"), bytes.len());
                    let state = (0..=CHANGES).find(|changes| cloned_bytes(*changes) == bytes);
                    assert!(state.is_some(), "a state that there was");
                    // It goes on from here, and goes.
                    change(&clone.zfs, file, 3).await;
                    pool.sync_now().await.expect("txgs turn");
                    drop(clone);
                    pool.destroy_filesystem("whirl/c").await.expect("nobody has it");
                } else {
                    assert!(!image.is_after("cloned") || image.is_after("changed"), "it was there");
                    *(if waits { &mut half } else { &mut gone }) += 1;
                }
                space::check(&pool).await;
                assert_eq!(pool.dsl().feature_count(&LIVELIST).await.expect("it reads"), Some(0));
                pool.close(PoolState::Exported).await.expect("it closes");
            });
            if with_zdb {
                space::judged_by_zdb(shape, &sim);
            }
        });
        assert!(
            lived > 0 && half > 0 && gone > 0,
            "{lived} lived, {half} were being freed, {gone} were gone"
        );
    }
}
