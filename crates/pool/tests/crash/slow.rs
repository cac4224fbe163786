//! Slow disks, and whom they do not hold up.

use std::sync::Arc;
use std::time::Duration;

use env::{Env, FaultOp};
use futures::FutureExt;
use futures::future::{Either, join, select};
use pool::Pool;
use sim::{DiskModel, Sim};
use zpl::{Cred, NewNode, WriteFlags};

use crate::ground::quiet;
use crate::shape::{POOL, SINGLE};
use crate::story::{Tell, run};

const SLOW: Duration = Duration::from_secs(1);

async fn import(sim: &Sim) -> Arc<Pool> {
    SINGLE.import(sim, quiet(), false).await.expect("a sound pool imports")
}

#[test]
fn looking_for_damaged_blocks_holds_up_no_txg() {
    let _tell = Tell;
    let sim = Sim::seed(34_000);
    SINGLE.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = SINGLE.create(&sim, quiet()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        let made = fs.zfs.create(fs.zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
        let object = made.expect("create").object;
        let bytes: Vec<u8> = (0..900_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs.zfs.write(object, 0, &bytes, WriteFlags::default()).await.expect("write");
        pool.sync_now().await.expect("sync");
        // Nothing is found in memory; what leads to the block is read well, the block itself is not.
        pool.zio().set_cache_limit(0);
        let disk = sim.disk("/a");
        disk.faults().fail_range(FaultOp::Read, 2, u64::MAX);
        fs.zfs.read(object, 0, &mut [0; 512]).await.expect_err("the disk fails");
        disk.faults().heal();
        disk.set_delay(SLOW);
        let txg = pool.txgs().open_txg();
        let mut looking = Box::pin(pool.data_errors());
        assert!(looking.as_mut().now_or_never().is_none(), "it reads what leads to the block");
        pool.txgs().hurry(txg);
        sim.sleep(SLOW / 10).await;
        assert_eq!(pool.txgs().open_txg(), txg.next());
        assert!(pool.txgs().try_join(txg).is_none(), "who looks is in no txg");
        disk.set_delay(Duration::ZERO);
        assert!(!looking.await.is_empty());
    });
}

#[test]
fn nobody_waits_for_the_replay_of_another_dataset() {
    let _tell = Tell;
    let sim = Sim::seed(34_100);
    SINGLE.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = SINGLE.create(&sim, quiet()).await;
        for name in ["whirl/a", "whirl/b"] {
            pool.create_filesystem(name, vec![]).await.expect("a file system is made");
        }
        let fs = pool.filesystem("whirl/a").await.expect("it opens");
        pool.sync_now().await.expect("sync");
        for n in 0..50 {
            let name = format!("file{n}");
            let made = fs.zfs.create(fs.zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default());
            let object = made.await.expect("create").object;
            fs.zfs.write(object, 0, &[7; 5000], WriteFlags::default()).await.expect("write");
            fs.zfs.fsync(object, false).await.expect("fsync");
        }
    });
    let sim = sim.power_cut(1).boot(2);
    run(&sim, async {
        let pool = import(&sim).await;
        pool.filesystem("whirl/b").await.expect("it opens");
        sim.disk("/a").set_delay(SLOW);
        // One brings the dataset up, the other waits to close it.
        let replay = pool.filesystem("whirl/a").map(|replayed| replayed.map(drop));
        let both = Box::pin(join(replay, pool.close_filesystem("whirl/a")));
        let Either::Right(((), both)) = select(both, sim.sleep(SLOW / 2)).await else {
            panic!("the replay is over before anything could wait for it")
        };
        let looked_up = Box::pin(pool.filesystem("whirl/b"));
        match select(looked_up, sim.sleep(SLOW * 60)).await {
            Either::Left((found, _)) => _ = found.expect("it is open"),
            Either::Right(_) => panic!("it waits for the replay of another"),
        }
        sim.disk("/a").set_delay(Duration::ZERO);
        let (replayed, closed) = both.await;
        replayed.expect("the log replays");
        closed.expect("it closes");
    });
}

#[test]
fn naming_damaged_files_replays_no_log() {
    let _tell = Tell;
    let sim = Sim::seed(34_200);
    SINGLE.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = SINGLE.create(&sim, quiet()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        let made = fs.zfs.create(fs.zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
        let object = made.expect("create").object;
        fs.zfs.write(object, 0, &[7; 100_000], WriteFlags::default()).await.expect("write");
        pool.sync_now().await.expect("sync");
        fs.zfs.fsync(object, false).await.expect("fsync");
        pool.zio().set_cache_limit(0);
        sim.disk("/a").faults().fail_range(FaultOp::Read, 1, u64::MAX);
        fs.zfs.read(object, 0, &mut [0; 512]).await.expect_err("the disk fails");
        sim.disk("/a").faults().heal();
        pool.sync_now().await.expect("the error is noted");
        fs.zfs.write(object, 0, &[8; 100], WriteFlags::default()).await.expect("write");
        fs.zfs.fsync(object, false).await.expect("fsync");
    });
    let sim = sim.power_cut(1).boot(2);
    run(&sim, async {
        let pool = import(&sim).await;
        let damaged = pool.damaged_objects().await;
        assert_eq!(damaged.first().and_then(|object| object.path.as_deref()), Some("/file"), "{damaged:?}");
        pool.sync_now().await.expect("sync");
        let open = pool.datasets_attended();
        pool.sync_now().await.expect("sync");
        assert_eq!(pool.datasets_attended(), open, "no dataset was brought up");
    });
}
