//! Cache devices that fail, lie and hang, and that the power is cut under: every read gives what was written.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use env::{Env, FaultOp};
use pool::{ImportSpec, Pool, Tuning};
use sim::{DiskModel, DiskSpec, Mischief, Sim};
use units::{LABEL_END_BYTES, LABEL_START_BYTES, ObjectId};
use vdev::{PoolState, VdevState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::shape::{DISK_BYTES, POOL, SINGLE, brisk};
use crate::story::{Tell, drawn, number, run, tell};

const BLOCK_BYTES: usize = 128 << 10;
/// A little more than the device has room for.
const BLOCKS: usize = 500;
const LIMIT: Duration = Duration::from_secs(1);
const IMAGES: usize = 16;

/// Memory for a part of the file.
fn small() -> Tuning {
    let retry_after = Duration::from_secs(3600);
    Tuning { cache_bytes: 4 << 20, log_deadman: LIMIT, retry_after, ..brisk() }
}

fn world(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    sim.add_disk("/a", DiskSpec::new(4 * DISK_BYTES, DiskModel::ssd()));
    sim.add_disk("/k", DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    sim
}

/// Noise, a little further on for each block.
fn block(number: usize) -> &'static [u8] {
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut random = fastrand::Rng::with_seed(1);
        (0..BLOCK_BYTES + BLOCKS).map(|_| random.u8(..)).collect()
    });
    &NOISE[number..number + BLOCK_BYTES]
}

async fn import(sim: &Sim) -> Arc<Pool> {
    let paths = ["/a", "/k"].map(PathBuf::from).to_vec();
    let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
    Pool::import(sim.env(), &spec, small()).await.expect("a cache device keeps nobody from an import")
}

async fn zfs(pool: &Arc<Pool>) -> Arc<Zfs> {
    Arc::clone(&pool.filesystem(POOL).await.expect("it opens").zfs)
}

/// A pool with a cache device, and a file on it.
async fn made(sim: &Sim) -> (Arc<Pool>, Arc<Zfs>, ObjectId) {
    let pool = SINGLE.create(sim, small()).await;
    pool.add_caches(&["/k".into()], None).await.expect("added");
    let zfs = zfs(&pool).await;
    let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
    let file = made.expect("made").object;
    for number in 0..BLOCKS {
        let at = (number * BLOCK_BYTES) as u64;
        zfs.write(file, at, block(number), WriteFlags::default()).await.expect("written");
    }
    pool.sync_now().await.expect("synced");
    (pool, zfs, file)
}

/// Reads the file and makes sure of each byte; how long the slowest block took.
async fn read(sim: &Sim, zfs: &Zfs, file: ObjectId) -> Duration {
    let (mut found, mut longest) = (vec![0; BLOCK_BYTES], Duration::ZERO);
    for number in 0..BLOCKS {
        let begun = sim.now();
        let at = (number * BLOCK_BYTES) as u64;
        assert_eq!(zfs.read(file, at, &mut found).await.expect("it reads"), BLOCK_BYTES);
        assert!(found == block(number), "block {number}");
        longest = longest.max(sim.now() - begun);
    }
    longest
}

/// Reads it until much of it is on the cache device.
async fn fill(sim: &Sim, pool: &Arc<Pool>, zfs: &Zfs, file: ObjectId) {
    for _ in 0..100 {
        read(sim, zfs, file).await;
        sim.sleep(LIMIT).await;
        if pool.cache_device_stats().hits > 100 {
            return;
        }
    }
    panic!("{:?}", pool.cache_device_stats());
}

/// What befalls a cache device: what is done to it, and how it has to be afterwards.
struct Mishap {
    what: &'static str,
    befall: fn(&Sim),
    state: VdevState,
}

fn rot(sim: &Sim) {
    const PIECE_BYTES: usize = 1 << 20;
    let mut at = LABEL_START_BYTES + 4096;
    while at + (PIECE_BYTES as u64) < DISK_BYTES - LABEL_END_BYTES {
        sim.disk("/k").rot(at, &vec![0xa5; PIECE_BYTES]);
        at += PIECE_BYTES as u64;
    }
}

const MISHAPS: [Mishap; 6] = [
    Mishap { what: "gone", befall: |sim| sim.disk("/k").faults().disappear(), state: VdevState::Faulted },
    Mishap {
        what: "writes fail",
        befall: |sim| sim.disk("/k").faults().fail_all(FaultOp::Write),
        state: VdevState::Faulted,
    },
    Mishap {
        what: "reads fail",
        befall: |sim| sim.disk("/k").faults().fail_all(FaultOp::Read),
        state: VdevState::Faulted,
    },
    Mishap { what: "other bytes", befall: rot, state: VdevState::Online },
    Mishap {
        what: "writes forgotten",
        befall: |sim| (1..500).for_each(|nth| sim.disk("/k").misbehave(nth, Mischief::Forget)),
        state: VdevState::Online,
    },
    Mishap { what: "no answer", befall: |sim| sim.disk("/k").hang_from(1), state: VdevState::Faulted },
];

#[test]
fn a_cache_device_may_fail_lie_or_hang() {
    let _tell = Tell;
    for (Mishap { what, befall, state }, seed) in MISHAPS.into_iter().zip(71_000..) {
        tell(format!("seed {seed}, {what}"));
        let sim = world(seed);
        run(&sim, async {
            let (pool, zfs, file) = made(&sim).await;
            fill(&sim, &pool, &zfs, file).await;
            befall(&sim);
            let mut longest = Duration::ZERO;
            for _ in 0..6 {
                longest = longest.max(read(&sim, &zfs, file).await);
                sim.sleep(LIMIT).await;
            }
            assert!(longest < Duration::from_millis(200), "{what}: a read took {longest:?}");
            let leaf = Arc::clone(&pool.cache_leaves()[0]);
            assert_eq!(leaf.state().0, state, "{what}: {:?}", pool.cache_device_stats());
            assert!(pool.suspended().is_none() && pool.vdevs().state().0 == VdevState::Online, "{what}");
            // What is well again is used again once somebody says so.
            sim.disk("/k").faults().heal();
            sim.disk("/k").answer();
            pool.clear(&|_| true).await.expect("cleared");
            assert_eq!(leaf.state().0, VdevState::Online, "{what}");
            let before = pool.cache_device_stats().hits;
            for _ in 0..20 {
                read(&sim, &zfs, file).await;
                sim.sleep(LIMIT).await;
            }
            assert!(pool.cache_device_stats().hits > before, "{what}: {:?}", pool.cache_device_stats());
            drop(zfs);
            pool.close(PoolState::Exported).await.expect("it closes");
        });
    }
}

#[test]
fn a_power_cut_leaves_a_cache_device_that_is_used_again() {
    let _tell = Tell;
    let seed = number("SAWMILL_CRASH_SEED").unwrap_or(72_000);
    let sim = world(seed);
    run(&sim, async {
        let (pool, zfs, file) = made(&sim).await;
        sim.start_recording();
        fill(&sim, &pool, &zfs, file).await;
        for _ in 0..4 {
            read(&sim, &zfs, file).await;
            sim.sleep(LIMIT).await;
        }
    });
    let mut rebuilt = 0;
    for image in drawn(&sim.recording(), IMAGES) {
        tell(format!("seed {seed}, {}", image.story()));
        let sim = image.boot(seed);
        sim.stop_recording();
        run(&sim, async {
            let pool = import(&sim).await;
            let zfs = zfs(&pool).await;
            let file = zfs.lookup(zfs.root(), b"file").await.expect("it is there").object;
            for _ in 0..3 {
                read(&sim, &zfs, file).await;
                sim.sleep(LIMIT).await;
            }
            rebuilt += u64::from(pool.cache_device_stats().rebuilt > 0);
            assert_eq!(pool.cache_leaves()[0].state().0, VdevState::Online);
            drop(zfs);
            pool.close(PoolState::Exported).await.expect("it closes");
        });
    }
    println!("{rebuilt} of {IMAGES} crash states had blocks on the cache device");
    assert!(rebuilt > 0, "no crash state had any");
}
