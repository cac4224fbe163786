//! What txgs leave in the log, of loads of which it can be told by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pool::{Filesystem, LogPeak, Pool, PoolSpec, Tuning};
use sim::{DiskModel, DiskSpec, Sim};
use units::ObjectId;
use vdev::{Bias, NewVdev};
use zpl::{Cred, NewNode, WriteFlags};

const POOL: &str = "whirl";
const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const BLOCK: u64 = 4096;

/// A world with a pool of one disk and so many logs, of which no txg ends by itself; and a file in it, the log's chain begun.
async fn begin(sim: &Sim, logs: usize) -> (Arc<Pool>, Arc<Filesystem>, ObjectId) {
    let paths = std::iter::once("/a".to_owned()).chain((0..logs).map(|log| format!("/l{log}")));
    let vdevs = paths.map(PathBuf::from).map(|path| {
        sim.add_disk(path.clone(), DiskSpec::new(64 << 20, DiskModel::nvram()));
        let bias = Bias::log(path.as_os_str() != "/a");
        NewVdev { paths: vec![path], ashift: None, bias, create_txg: 4, parity: 0, ..NewVdev::default() }
    });
    let (name, vdevs) = (POOL.to_owned(), vdevs.collect());
    let spec =
        PoolSpec { name, stored_name: None, vdevs, root_props: Vec::new(), comment: None, force: false };
    let tuning = Tuning { txg_timeout: Duration::from_secs(100_000), ..Tuning::default() };
    let pool = Pool::create(sim.env(), spec, tuning).await.expect("a pool is made of new disks");
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
    for logs in [1, 2] {
        let sim = Sim::seed(35_000 + logs as u64);
        sim.run_until(async {
            let (pool, fs, file) = begin(&sim, logs).await;
            let before = pool.log_load();
            // Each lone commit of 3,000 bytes is a block of 4 KiB: 192 for its record's head, 192 for the chain's.
            let counts = [10, 700, 20, 30, 40, 50];
            for count in counts {
                write(&fs, file, count, 3_000).await;
                assert_eq!(pool.log_load().open.bytes, count * BLOCK, "what is there so far is known, too");
                pool.sync_now().await.expect("sync");
            }
            let report = pool.log_load();
            let bytes: Vec<u64> = report.txgs.iter().map(|txg| txg.bytes).collect();
            assert_eq!(bytes[bytes.len() - counts.len()..], counts.map(|count| count * BLOCK));
            let peak = LogPeak { held_bytes: 0, ..report.peak };
            // Of any four, one after another, these are the most.
            let live_bytes = (700 + 20 + 30 + 40) * BLOCK;
            assert_eq!(peak, LogPeak { txg_bytes: 700 * BLOCK, live_bytes, held_bytes: 0 });
            assert_eq!(report.hour, report.peak);
            // The allocator says the same of three of them, and of a block for what comes: nothing is written
            // here while a txg is synced, so that the open one has nothing yet.
            let held = (report.peak.held_bytes / BLOCK, report.peak.held_bytes % BLOCK);
            let three = 700 + 20 + 30;
            assert!((three..=three + 4).contains(&held.0) && held.1 == 0, "{held:?} of {three}");
            let commits = report.stats.commits - before.stats.commits;
            assert_eq!(commits, counts.iter().sum::<u64>());
            assert_eq!(report.stats.copied_bytes - before.stats.copied_bytes, commits * 3_000);
            assert_eq!((report.hurried_txgs, report.blocks_past_logs), (0, 0));
        });
    }
}

#[test]
fn commits_are_counted_by_dataset() {
    let sim = Sim::seed(35_004);
    sim.run_until(async {
        let (pool, fs, file) = begin(&sim, 1).await;
        pool.create_filesystem("whirl/b", Vec::new()).await.expect("a dataset");
        let other = pool.filesystem("whirl/b").await.expect("it opens");
        let in_other = other.zfs.create(other.zfs.root(), b"f", NewNode::File, 0o644, Cred::default()).await;
        let in_other = in_other.expect("create").object;
        let counts = || {
            let of_each = pool.dataset_logs().into_iter().filter(|one| one.stats.commits > 0);
            of_each
                .map(|one| (one.name, (one.stats.commits, one.stats.copied_bytes)))
                .collect::<BTreeMap<_, _>>()
        };
        let before = counts();
        assert_eq!(before.keys().collect::<Vec<_>>(), ["whirl"], "who committed nothing is not told of");
        // The first commit has no chain yet and waits for a txg.
        write(&other, in_other, 1, 1_000).await;
        assert_eq!(counts()["whirl/b"], (1, 0));
        write(&fs, file, 7, 3_000).await;
        write(&other, in_other, 5, 1_000).await;
        let after = counts();
        let (commits, bytes) = before["whirl"];
        assert_eq!(after["whirl"], (commits + 7, bytes + 7 * 3_000));
        assert_eq!(after["whirl/b"], (6, 5_000));
    });
}

#[test]
fn what_a_log_would_have_held_is_known_without_one() {
    let sim = Sim::seed(35_002);
    sim.run_until(async {
        let (pool, fs, file) = begin(&sim, 0).await;
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
    let sim = Sim::seed(35_003);
    sim.run_until(async {
        let (pool, fs, file) = begin(&sim, 1).await;
        // A fifth of 64 MiB, and more.
        write(&fs, file, 200, 100_000).await;
        pool.sync_now().await.expect("sync");
        assert!(pool.log_load().hurried_txgs > 0);
    });
}
