//! What txgs leave in the log, of loads of which it can be told by hand.

use std::sync::Arc;

use pool::{Filesystem, LogPeak, Pool};
use sim::{DiskModel, Sim};
use units::ObjectId;
use zpl::{Cred, NewNode, WriteFlags};

use crate::ground::quiet;
use crate::shape::{LOG, POOL, SINGLE, SINGLE_TWO_LOGS, Shape};
use crate::story::{Tell, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const BLOCK: u64 = 4096;

/// A pool and a file in it, the log's chain begun.
async fn begin(shape: &Shape, sim: &Sim) -> (Arc<Pool>, Arc<Filesystem>, ObjectId) {
    let pool = shape.create(sim, quiet()).await;
    let fs = pool.filesystem(POOL).await.expect("it opens");
    let file = fs.zfs.create(fs.zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
    let file = file.expect("create").object;
    write(&fs, file, 2, 512).await;
    for _ in 0..4 {
        pool.sync_now().await.expect("sync");
    }
    (pool, fs, file)
}

async fn write(fs: &Filesystem, file: ObjectId, times: u64, bytes: usize) {
    for at in 0..times {
        fs.zfs.write(file, at * bytes as u64, &vec![7; bytes], SYNC).await.expect("write");
    }
}

#[test]
fn what_txgs_leave_in_the_log_is_counted_by_txg() {
    let _tell = Tell;
    for (shape, seed) in [(&LOG, 35_000), (&SINGLE_TWO_LOGS, 35_001)] {
        tell(shape.name.into());
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::nvram());
        run(&sim, async {
            let (pool, fs, file) = begin(shape, &sim).await;
            let before = pool.log_load();
            // Each lone commit of 3,000 bytes is a block of 4 KiB: 192 for its record's head, 192 for the chain's.
            let counts = [10, 700, 20, 30, 40, 50];
            for count in counts {
                write(&fs, file, count, 3_000).await;
                pool.sync_now().await.expect("sync");
            }
            let report = pool.log_load();
            let bytes: Vec<u64> = report.txgs.iter().map(|txg| txg.bytes).collect();
            assert_eq!(bytes[bytes.len() - counts.len()..], counts.map(|count| count * BLOCK));
            let peak = LogPeak { held_bytes: 0, ..report.peak };
            let live_bytes = (10 + 700 + 20 + 30).max(700 + 20 + 30 + 40) * BLOCK;
            assert_eq!(peak, LogPeak { txg_bytes: 700 * BLOCK, live_bytes, held_bytes: 0 });
            assert_eq!(report.hour, report.peak);
            // What the allocator has given away is that, and a few blocks for what comes.
            let held = report.peak.held_bytes;
            assert!(held >= live_bytes && held < live_bytes + (1 << 20), "{held} of {live_bytes}");
            let commits = report.stats.commits - before.stats.commits;
            assert_eq!(commits, counts.iter().sum::<u64>());
            assert_eq!(report.stats.copied_bytes - before.stats.copied_bytes, commits * 3_000);
            assert_eq!((report.hurried_txgs, report.blocks_past_logs), (0, 0));
        });
    }
}

#[test]
fn what_a_log_would_have_held_is_known_without_one() {
    let _tell = Tell;
    let sim = Sim::seed(35_002);
    SINGLE.add_disks(&sim, DiskModel::nvram());
    run(&sim, async {
        let (pool, fs, file) = begin(&SINGLE, &sim).await;
        // Large writes go to their places, and the log names them.
        write(&fs, file, 5, 128 << 10).await;
        pool.sync_now().await.expect("sync");
        let report = pool.log_load();
        let last = report.txgs.last().expect("a txg");
        assert!(last.bytes >= 5 * (128 << 10), "{last:?}");
        assert!(last.bytes <= 5 * ((128 << 10) + 2 * BLOCK), "{last:?}");
        assert_eq!(last.held_bytes, 0, "there is no log vdev");
    });
}

#[test]
fn txgs_that_are_cut_short_by_a_small_log_are_counted() {
    let _tell = Tell;
    let sim = Sim::seed(35_003);
    LOG.add_disks(&sim, DiskModel::nvram());
    run(&sim, async {
        let (pool, fs, file) = begin(&LOG, &sim).await;
        // A fifth of 64 MiB, and more.
        write(&fs, file, 200, 100_000).await;
        pool.sync_now().await.expect("sync");
        assert!(pool.log_load().hurried_txgs > 0);
    });
}
