//! Frees below a damaged block: the lost space is counted and reported, and everything else is
//! freed.

use std::sync::Arc;

use ondisk::ObjectType;
use ondisk::mos::directory::SYNC_BPOBJ;
use pool::{ImportSpec, Pool};
use sim::{CrashImage, DiskModel, Sim};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::lost::{LossKind, VictimBlock, image, lose, targets, tuning};
use crate::shape::{POOL, SINGLE};
use crate::story::{Tell, run, tell};

/// A list with this number of entries is too long to be embedded in a block pointer.
const ENOUGH_ENTRIES: usize = 2;
const PLAIN: WriteFlags = WriteFlags { append: false, sync: false, drop_setid: false };

/// Returns the image and its blocks that `is_meant` selects.
fn found(is_meant: impl Fn(&VictimBlock) -> bool) -> (CrashImage, Vec<VictimBlock>) {
    let image = image(72_000);
    let found: Vec<VictimBlock> = targets(&image).into_iter().filter(is_meant).collect();
    assert!(!found.is_empty(), "nothing to be lost");
    (image, found)
}

fn world(image: &CrashImage, lost: &[VictimBlock], way: LossKind) -> Sim {
    tell(format!("{way:?} of {lost:?}"));
    let sim = image.boot(2);
    sim.stop_recording();
    lost.iter().for_each(|target| lose(&sim, target, way));
    sim
}

async fn leaked(pool: &Pool) -> u64 {
    pool.dsl().leaked_bytes().await.expect("it reads")
}

/// Syncs until nothing is left to free.
async fn settle(pool: &Arc<Pool>) {
    for _ in 0..100 {
        pool.sync_now().await.expect("txgs turn");
        if !pool.dsl().has_destroyed().await.expect("it reads") {
            return;
        }
    }
    panic!("what was destroyed is never freed");
}

fn is_of(target: &VictimBlock, kind: ObjectType, level: u8) -> bool {
    target.kind.object_type == kind.raw() && target.kind.level == level
}

/// Returns the first indirect block of a file in a file system without snapshots.
fn below_victim(image: &CrashImage) -> [VictimBlock; 1] {
    let sim = image.boot(3);
    sim.stop_recording();
    let victim = run(&sim, async {
        let how = ImportSpec { read_only: true, ..ImportSpec::default() };
        let pool = SINGLE.import_as(&sim, tuning(), how).await.expect("it imports");
        pool.dsl().resolve("whirl/victim").await.expect("it is there").objset()
    });
    let is_meant = |target: &VictimBlock| {
        target.bookmark.objset == victim && is_of(target, ObjectType::PLAIN_FILE_CONTENTS, 1)
    };
    [targets(image).into_iter().find(is_meant).expect("a file with an indirect block")]
}

/// Checks the size of the space below a block. The last record may need less space because of
/// compression.
fn check_leaked(bytes: u64, lost: &VictimBlock) {
    let below = lost.bp.fill() * 4096;
    assert!((below - 4096..=below).contains(&bytes), "{bytes} bytes leaked, of {below}");
}

#[test]
fn what_lies_below_a_damaged_indirect_block_is_leaked_counted_and_named() {
    let _tell = Tell;
    let image = image(72_000);
    let lost = below_victim(&image);
    for way in [LossKind::Checksum, LossKind::ReadError] {
        let sim = world(&image, &lost, way);
        run(&sim, async {
            let pool = SINGLE.import(&sim, tuning(), false).await.expect("it imports");
            settle(&pool).await;
            let before = leaked(&pool).await;
            let fs = pool.filesystem("whirl/victim").await.expect("it opens");
            for number in 0..5 {
                let name = format!("file{number}");
                fs.zfs.unlink(fs.zfs.root(), name.as_bytes()).await.expect("removed");
            }
            for _ in 0..4 {
                pool.sync_now().await.expect("txgs turn");
            }
            assert_eq!((pool.suspended(), pool.stopped()), (None, None));
            check_leaked(leaked(&pool).await - before, &lost[0]);
            let errors = pool.data_errors().await;
            assert!(errors.contains(&lost[0].bookmark), "{errors:?}");
            drop(fs);
            pool.close(PoolState::Exported).await.expect("it is exported");
            let pool = SINGLE.import(&sim, tuning(), false).await.expect("it imports");
            let errors = pool.data_errors().await;
            assert!(errors.contains(&lost[0].bookmark), "known to the next import: {errors:?}");
            pool.close(PoolState::Exported).await.expect("it is exported");
        });
    }
}

#[test]
fn a_gang_whose_header_is_damaged_is_freed_without_its_members() {
    let _tell = Tell;
    let (image, all) = found(|target| target.kind.gang && is_of(target, ObjectType::PLAIN_FILE_CONTENTS, 0));
    for way in [LossKind::Checksum, LossKind::ReadError] {
        let sim = world(&image, &all[..1], way);
        run(&sim, async {
            let pool = SINGLE.import(&sim, tuning(), false).await.expect("it imports");
            let before = leaked(&pool).await;
            for snapshot in ["whirl@one", "whirl@three"] {
                pool.destroy_snapshots(vec![snapshot.to_owned()], false).await.expect("destroyed");
            }
            pool.destroy_filesystem("whirl/clone").await.expect("destroyed");
            pool.destroy_snapshots(vec!["whirl@two".to_owned()], false).await.expect("destroyed");
            let fs = pool.filesystem(POOL).await.expect("it opens");
            fs.zfs.unlink(fs.zfs.root(), b"gang").await.expect("removed");
            drop(fs);
            settle(&pool).await;
            pool.sync_now().await.expect("txgs turn");
            let members = pool.zio().charged_bytes(&all[0].bp) - 512 * all[0].bp.dvas().count() as u64;
            assert_eq!(leaked(&pool).await - before, members);
            assert_eq!((pool.suspended(), pool.stopped()), (None, None));
            pool.close(PoolState::Exported).await.expect("it is exported");
        });
    }
}

#[test]
fn a_damaged_block_of_a_destroyed_file_system_costs_what_lies_below_it() {
    let _tell = Tell;
    let image = image(72_000);
    let lost = below_victim(&image);
    for way in [LossKind::Checksum, LossKind::ReadError] {
        let sim = world(&image, &lost, way);
        run(&sim, async {
            let pool = SINGLE.import(&sim, tuning(), false).await.expect("it imports");
            settle(&pool).await;
            let before = leaked(&pool).await;
            pool.destroy_filesystem("whirl/victim").await.expect("destroyed");
            settle(&pool).await;
            check_leaked(leaked(&pool).await - before, &lost[0]);
            assert_eq!(pool.dsl().freeing_bytes().await.expect("it reads"), 0);
            pool.close(PoolState::Exported).await.expect("it is exported");
        });
    }
}

#[test]
fn a_damaged_bpobj_gives_what_can_be_read_and_counts_the_rest() {
    let _tell = Tell;
    let (image, all) = found(|target| target.kind.of_mos && is_of(target, ObjectType::BPOBJ, 0));
    for way in [LossKind::Checksum, LossKind::ReadError] {
        let sim = world(&image, &all, way);
        run(&sim, async {
            let pool = SINGLE.import(&sim, tuning(), false).await.expect("it imports");
            settle(&pool).await;
            let before = leaked(&pool).await;
            for snapshot in ["whirl@one", "whirl@three"] {
                pool.destroy_snapshots(vec![snapshot.to_owned()], false).await.expect("destroyed");
            }
            settle(&pool).await;
            assert!(leaked(&pool).await > before, "what was on the deadlists is counted");
            assert_eq!(pool.dsl().freeing_bytes().await.expect("it reads"), 0);
            assert_eq!((pool.suspended(), pool.stopped()), (None, None));
            pool.close(PoolState::Exported).await.expect("it is exported");
        });
    }
}

#[test]
fn a_damaged_space_map_takes_its_metaslab_out_of_use() {
    let _tell = Tell;
    let (image, all) = found(|target| target.kind.of_mos && is_of(target, ObjectType::SPACE_MAP, 0));
    for way in [LossKind::Checksum, LossKind::ReadError] {
        let mut sealed = 0;
        for lost in &all {
            let sim = world(&image, &[*lost], way);
            run(&sim, async {
                let how = ImportSpec { read_only: true, ..ImportSpec::default() };
                let pool = SINGLE.import_as(&sim, tuning(), how).await.expect("it can be looked at");
                pool.close(PoolState::Exported).await.expect("it closes");
                // A log of space maps belongs to no single metaslab, so a pool without it may be
                // refused.
                let Ok(pool) = SINGLE.import(&sim, tuning(), false).await else { return };
                let out: Vec<_> = pool.lost_metaslabs();
                sealed += out.len();
                let bounds: Vec<_> = pool.zio().with_allocator(|allocator| {
                    let metaslab = |&(vdev, id)| allocator.metaslab(vdev, id).expect("it is there").bounds();
                    out.iter().map(metaslab).collect()
                });
                let fs = pool.filesystem(POOL).await.expect("it opens");
                for number in 0..20 {
                    let name = format!("new{number}");
                    let new =
                        fs.zfs.create(fs.zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default());
                    let bytes = vec![number; 200_000];
                    fs.zfs.write(new.await.expect("made").object, 0, &bytes, PLAIN).await.expect("written");
                }
                let first = pool.txgs().open_txg();
                fs.zfs.unlink(fs.zfs.root(), b"copy").await.expect("removed");
                pool.sync_now().await.expect("txgs turn");
                drop(fs);
                assert_eq!((pool.suspended(), pool.stopped()), (None, None));
                pool.close(PoolState::Exported).await.expect("it is exported");
                let how = ImportSpec { read_only: true, ..ImportSpec::default() };
                let pool = SINGLE.import_as(&sim, tuning(), how).await.expect("it can be looked at again");
                for bp in crate::space::reachable(&pool).await.expect("it reads") {
                    let is_new = bp.physical_birth() >= first;
                    let is_out = |at: u64| bounds.iter().any(|run| (run.start..run.end).contains(&at));
                    let inside = bp.dvas().any(|dva| is_out(dva.offset.get()));
                    assert!(!is_new || !inside, "{bp:?} was allocated in a metaslab that is out of use");
                }
                pool.close(PoolState::Exported).await.expect("it closes");
                // The map can be read again, and the frees in the meantime are known.
                sim.disk("/a").faults().heal();
                let pool = SINGLE.import(&sim, tuning(), false).await.expect("it imports again");
                pool.close(PoolState::Exported).await.expect("it is exported");
            });
        }
        assert!(sealed > 0, "no metaslab was taken out of use");
    }
}

#[test]
fn a_damaged_history_begins_anew() {
    let _tell = Tell;
    let (image, all) = found(|target| target.kind.of_mos && is_of(target, ObjectType::SPA_HISTORY, 0));
    for way in [LossKind::Checksum, LossKind::ReadError] {
        let sim = world(&image, &all, way);
        run(&sim, async {
            let pool = SINGLE.import(&sim, tuning(), false).await.expect("it imports");
            let records = pool.history().await.expect("it reads");
            assert!((1..=3).contains(&records.len()), "the import, and no more: {records:?}");
            pool.close(PoolState::Exported).await.expect("it is exported");
        });
    }
}

/// Returns the image of a pool whose last txg deferred frees, and the object of their list.
fn with_deferred_frees() -> (CrashImage, ObjectId) {
    let sim = Sim::seed(73_000);
    SINGLE.add_disks(&sim, DiskModel::instant());
    sim.stop_recording();
    let list = run(&sim, async {
        let pool = SINGLE.create(&sim, tuning()).await;
        let list = pool.dsl().directory_object(SYNC_BPOBJ).await.expect("it is there");
        for round in 0..40 {
            // A txg that changes only the comment allocates nothing in its first pass.
            let name = format!("{POOL}/set{round}");
            pool.create_filesystem(&name, Vec::new()).await.expect("there is room");
            pool.set_comment(Some(format!("round {round}"))).await.expect("there is room");
            let entries = pool.dsl().bpobj_entries(list).await.expect("it reads").len();
            if entries >= ENOUGH_ENTRIES {
                return list;
            }
        }
        panic!("no txg leaves enough frees to the next");
    });
    (sim.power_cut(1), list)
}

#[test]
fn a_damaged_list_of_deferred_frees_is_replaced() {
    let _tell = Tell;
    let (image, list) = with_deferred_frees();
    let of_list = |target: &VictimBlock| target.kind.of_mos && target.bookmark.object == list;
    let lost: Vec<VictimBlock> = targets(&image).into_iter().filter(of_list).collect();
    assert!(!lost.is_empty(), "the list lies in its pointer");
    for way in [LossKind::Checksum, LossKind::ReadError] {
        let sim = world(&image, &lost, way);
        run(&sim, async {
            let pool = SINGLE.import(&sim, tuning(), false).await.expect("it imports");
            for _ in 0..3 {
                pool.sync_now().await.expect("txgs turn");
            }
            assert!(leaked(&pool).await > 0, "what was on the list is counted");
            pool.close(PoolState::Exported).await.expect("it is exported");
        });
    }
}
