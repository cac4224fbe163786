//! A pool is split while clients write, and the power is cut meanwhile.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use pool::{ImportSpec, Pool, find_pools};
use sim::{CrashImage, DiskModel, Sim};
use vdev::PoolState;

use crate::attached::{check, promise, whole};
use crate::shape::{MIRROR, MIRRORS_AND_LOG, POOL, Shape, brisk};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};

const TWIN: &str = "twin";
/// Promises made before the split is asked for.
const BEFORE: u64 = 2;
const PAUSE: Duration = Duration::from_millis(1);

async fn import(sim: &Sim, shape: &Shape, name: &str) -> Arc<Pool> {
    let spec =
        ImportSpec { paths: shape.disks().collect(), name: Some(name.into()), ..ImportSpec::default() };
    Pool::import(sim.env(), &spec, brisk()).await.unwrap_or_else(|error| panic!("{name} imports: {error}"))
}

/// What each pool that is found has.
async fn found(sim: &Sim, shape: &Shape) -> Vec<(String, BTreeSet<PathBuf>)> {
    let paths: Vec<_> = shape.disks().collect();
    let found = find_pools(&sim.env(), &paths).await;
    let mut pools: Vec<_> = found
        .into_iter()
        .map(|found| (found.pool.name, found.paths.into_values().collect::<BTreeSet<_>>()))
        .collect();
    pools.sort();
    let all: usize = pools.iter().map(|(_, paths)| paths.len()).sum();
    let different: BTreeSet<_> = pools.iter().flat_map(|(_, paths)| paths).collect();
    assert_eq!(all, different.len(), "a device is of one pool: {pools:?}");
    pools
}

async fn check_promises(pool: &Arc<Pool>, image: &CrashImage, numbers: std::ops::Range<u64>) {
    let fs = pool.filesystem(&pool.name()).await.expect("its log is whole");
    for number in numbers.filter(|number| image.is_after(&format!("promised {number}"))) {
        check(&fs.zfs, number).await;
    }
}

/// Both pools, or the one there is; whether it was split.
fn judge(image: &CrashImage, shape: &Shape, seed: u64, promised: u64) -> bool {
    let sim = image.boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let pools = found(&sim, shape).await;
        let is_split = pools.iter().any(|(name, _)| name == TWIN);
        assert_eq!(pools.len(), 1 + usize::from(is_split), "{pools:?}");
        assert!(is_split || !image.is_after("split"), "it was split");
        let twin_first = is_split && seed % 2 == 1;
        if twin_first {
            let twin = import(&sim, shape, TWIN).await;
            check_promises(&twin, image, 0..BEFORE).await;
            space::check(&twin).await;
            twin.close(PoolState::Exported).await.expect("it closes");
        }
        let pool = import(&sim, shape, POOL).await;
        whole(&sim, &pool).await;
        let paths: BTreeSet<_> = pool.vdevs().leaves().iter().map(|leaf| leaf.path()).collect();
        let states: Vec<_> = pool.vdevs().leaves().iter().map(|leaf| (leaf.path(), leaf.state())).collect();
        assert!(pool.vdevs().leaves().iter().all(|leaf| leaf.is_usable()), "{states:?}");
        let gone = ["/b", "/d"].iter().any(|gone| paths.contains(&PathBuf::from(gone)));
        assert_eq!(!gone, is_split, "{states:?}");
        check_promises(&pool, image, 0..promised).await;
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        if is_split && !twin_first {
            let twin = import(&sim, shape, TWIN).await;
            check_promises(&twin, image, 0..BEFORE).await;
            space::check(&twin).await;
            twin.close(PoolState::Exported).await.expect("it closes");
        }
        assert_eq!(found(&sim, shape).await.len(), 1 + usize::from(is_split));
        is_split
    })
}

async fn client(sim: &Sim, zfs: &zpl::Zfs, next: &AtomicU64, ends: &AtomicBool) {
    while !ends.load(SeqCst) {
        promise(sim, zfs, next.fetch_add(1, SeqCst)).await;
        sim.env().sleep(PAUSE).await;
    }
}

#[test]
fn a_power_cut_while_a_pool_is_split_leaves_every_device_to_one_pool() {
    let _tell = Tell;
    for (seed, shape) in [(51_000, &MIRRORS_AND_LOG), (51_001, &MIRROR)] {
        let seed = number("SAWMILL_CRASH_SEED").unwrap_or(seed);
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::ssd());
        let promised = run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            for number in 0..BEFORE {
                promise(&sim, &fs.zfs, number).await;
            }
            let (next, ends) = (AtomicU64::new(BEFORE), AtomicBool::new(false));
            let split = async {
                sim.env().sleep(PAUSE * 5).await;
                sim.start_recording();
                let twin = pool.split(TWIN, &[], brisk()).await.expect("it is split");
                sim.mark("split");
                twin.close(PoolState::Exported).await.expect("it closes");
                sim.mark("closed");
                sim.env().sleep(PAUSE * 30).await;
                ends.store(true, SeqCst);
            };
            futures::join!(split, client(&sim, &fs.zfs, &next, &ends), client(&sim, &fs.zfs, &next, &ends));
            next.load(SeqCst)
        });
        let mut seen = [0; 2];
        for (image, nth) in drawn(&sim.recording(), 100).zip(0..) {
            tell(format!("seed {seed}, {}, {}", shape.name, image.story()));
            seen[usize::from(judge(&image, shape, seed + nth, promised))] += 1;
        }
        println!("{}: {seen:?} crash states of one pool and of two, {promised} promises", shape.name);
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
    }
}
