//! A pool gets another guid, and the power is cut meanwhile.

use std::time::Duration;

use env::Env;
use pool::{Tuning, find_pools};
use sim::{CrashImage, DiskModel, Sim};
use units::Guid;
use vdev::PoolState;

use crate::attached::{check, promise};
use crate::shape::{LOG, MIRROR, POOL, RAIDZ, SINGLE, Shape, brisk};
use crate::space;
use crate::story::{Tell, number, run, tell};

const NEW: Guid = Guid::new(0x5eed);

/// The devices are of one pool, under one of both guids.
fn judge(image: &CrashImage, shape: &Shape, seed: u64) -> bool {
    let sim = image.boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let paths: Vec<_> = shape.disks().collect();
        let found = find_pools(&sim.env(), &paths).await;
        assert_eq!(found.len(), 1, "one pool");
        assert!(found[0].missing_leaves.is_empty(), "{:?}", found[0].missing_leaves);
        let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
        assert!(
            pool.vdevs().leaves().iter().all(|leaf| leaf.is_usable() && !leaf.is_stale()),
            "all are there"
        );
        assert_eq!(found[0].guid, pool.guid(), "what is listed is what is imported");
        let is_new = pool.guid() == NEW;
        assert!(is_new || !image.is_after("changed"), "it was changed");
        let fs = pool.filesystem(POOL).await.expect("its log is whole");
        for number in (0..).take_while(|number| image.is_after(&format!("promised {number}"))) {
            check(&fs.zfs, number).await;
        }
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        is_new
    })
}

#[test]
fn a_power_cut_while_a_guid_is_changed_leaves_one_pool() {
    let _tell = Tell;
    for (seed, shape) in [(48_000, &LOG), (48_001, &MIRROR), (48_002, &RAIDZ)] {
        let seed = number("SAWMILL_CRASH_SEED").unwrap_or(seed);
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::ssd());
        run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            promise(&sim, &fs.zfs, 0).await;
            sim.start_recording();
            promise(&sim, &fs.zfs, 1).await;
            pool.change_guid(Some(NEW)).await.expect("all devices are there");
            sim.mark("changed");
            assert_eq!(pool.guid(), NEW);
            promise(&sim, &fs.zfs, 2).await;
            pool.sync_all().await.expect("txgs turn");
        });
        let mut seen = [0; 2];
        for image in sim.recording().crash_images().step_by(5) {
            tell(format!("seed {seed}, {}, {}", shape.name, image.story()));
            seen[usize::from(judge(&image, shape, seed))] += 1;
        }
        println!("{}: {seen:?} crash states with the old guid and with the new one", shape.name);
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
        space::judged_by_zdb(shape, &sim);
    }
}

#[test]
fn a_device_that_fails_while_a_guid_is_changed_comes_back() {
    let _tell = Tell;
    let hasty = || Tuning { retry_after: Duration::from_millis(50), ..brisk() };
    for nth in 1..40 {
        tell(format!("the device goes at request {nth}"));
        let sim = Sim::seed(48_100 + nth);
        SINGLE.add_disks(&sim, DiskModel::ssd());
        run(&sim, async {
            let pool = SINGLE.create(&sim, hasty()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            promise(&sim, &fs.zfs, 0).await;
            sim.disk("/a").faults().disappear_at(nth);
            let healed = async {
                sim.sleep(Duration::from_secs(1)).await;
                sim.disk("/a").faults().heal();
            };
            let (changed, ()) = futures::join!(pool.change_guid(Some(NEW)), healed);
            changed.expect("it is changed once the device is back");
            promise(&sim, &fs.zfs, 1).await;
            drop(fs);
            pool.close(PoolState::Exported).await.expect("it closes");
            let pool = SINGLE.import(&sim, brisk(), false).await.expect("it imports");
            assert_eq!(pool.guid(), NEW);
            let fs = pool.filesystem(POOL).await.expect("it opens");
            check(&fs.zfs, 0).await;
            check(&fs.zfs, 1).await;
        });
    }
}
