//! Replay that cannot go on, and replay of many logs at once.

use std::sync::Arc;

use device::FaultOp;
use futures::future::join_all;
use pool::Pool;
use sim::{DiskModel, Sim};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::shape::{LOG, POOL, brisk};
use crate::space;
use crate::story::{Tell, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const FILES: u64 = 20;

fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

async fn fill(zfs: &Zfs) {
    for number in 0..FILES {
        let file = zfs.create(zfs.root(), &name(number), NewNode::File, 0o644, Cred::default()).await;
        let file = file.expect("create").object;
        zfs.write(file, 0, &vec![number as u8 + 1; 9_000], SYNC).await.expect("write");
    }
}

async fn check(zfs: &Zfs) {
    for number in 0..FILES {
        let file = zfs.lookup(zfs.root(), &name(number)).await.expect("it was promised").object;
        let mut bytes = vec![0; 9_000];
        assert_eq!(zfs.read(file, 0, &mut bytes).await.expect("read"), 9_000);
        assert!(bytes.iter().all(|&byte| byte == number as u8 + 1));
    }
}

/// A pool of several datasets with a log, cut off with work in the logs of all of them.
fn cut_off(seed: u64, datasets: &[&str]) -> Sim {
    let sim = Sim::seed(seed);
    LOG.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let tuning = pool::Tuning { txg_timeout: std::time::Duration::from_secs(100_000), ..brisk() };
        let pool = LOG.create(&sim, tuning).await;
        for dataset in datasets.iter().filter(|name| **name != POOL) {
            pool.create_filesystem(dataset, Vec::new()).await.expect("a dataset");
        }
        pool.sync_now().await.expect("sync");
        let all = datasets.iter().map(|dataset| {
            let pool = Arc::clone(&pool);
            async move { fill(&pool.filesystem(dataset).await.expect("it opens").zfs).await }
        });
        join_all(all).await;
    });
    sim.power_cut(seed).boot(seed)
}

async fn close(pool: Arc<Pool>) {
    space::check(&pool).await;
    pool.close(PoolState::Exported).await.expect("a pool closes");
}

#[test]
fn replay_that_stopped_goes_on_at_the_next_use() {
    let _tell = Tell;
    for nth in [1, 2, 5, 9] {
        tell(format!("read {nth} of the log fails, and those after it"));
        let sim = cut_off(30_000 + nth, &[POOL]);
        run(&sim, async {
            let pool = LOG.import(&sim, brisk(), false).await.expect("the log is claimed");
            let faults = sim.disk("/l");
            faults.faults().fail_range(FaultOp::Read, nth, u64::MAX);
            let stopped = pool.filesystem(POOL).await.map(drop);
            stopped.expect_err("the log cannot be read");
            assert!(pool.filesystem(POOL).await.is_err(), "nor the second time");
            pool.sync_now().await.expect("groups go on");
            faults.faults().heal();
            check(&pool.filesystem(POOL).await.expect("now it can").zfs).await;
            close(pool).await;
        });
    }
}

#[test]
fn logs_of_many_datasets_are_replayed_at_once() {
    let _tell = Tell;
    tell("several logs".into());
    let datasets = ["whirl", "whirl/a", "whirl/b", "whirl/a/c", "whirl/d"];
    let sim = cut_off(30_100, &datasets);
    run(&sim, async {
        let pool = LOG.import(&sim, brisk(), false).await.expect("the logs are claimed");
        // Somebody else may want one of them meanwhile.
        let (replayed, early) = futures::join!(pool.replay_logs(), pool.filesystem("whirl/b"));
        replayed.expect("all logs are sound");
        check(&early.expect("it opens").zfs).await;
        for dataset in datasets {
            let fs = pool.filesystem(dataset).await.expect("it opens");
            // The first ones were made stable by a group.
            assert!(fs.log.as_ref().expect("a log").stats().replayed > FILES, "{dataset}");
            check(&fs.zfs).await;
            drop(fs);
            pool.close_filesystem(dataset).await.expect("it closes");
        }
        close(pool).await;
    });
}
