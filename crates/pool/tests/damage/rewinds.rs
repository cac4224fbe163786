//! Pools whose newest state is damaged, and that are imported in an older state
//! (`zpool import -F`).
//!
//! ```text
//!   txg   S-1    S      N        the root of N's meta-objset is damaged in all copies
//!          ●─────●─────✕
//!                └ opened; later writes have txg N+1 and later
//!   log   ▓▓▓▓▓▓▓▓▓░░░░░░        ▓ allocated as of S   ░ abandoned: free, perhaps reused
//! ```
//! Each crash image of a run with many stable writes is damaged in this way and imported with every
//! option. A rewind discards the logs, because the space maps of the older state do not include
//! their last blocks.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use ondisk::UberblockPhys;
use ondisk::label::{LABELS, UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET, UBERBLOCK_SHIFT_MIN, label_offset};
use pool::{ImportSpec, Rewind};
use sim::{CrashImage, DiskModel, Recording, Sim};
use units::VdevOffset;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::shape::{DISK_BYTES, LOG, MIRROR, POOL, SINGLE, Shape, brisk};
use crate::space;
use crate::story::{Tell, drawn, run, tell};

/// The number of images of one run that are imported.
const IMAGES: usize = 24;
/// One in this many imported images is checked by `zdb`.
const ZDB_ONE_IN: usize = 12;
const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
/// The slot size of the rings of all disks, because their sectors are small.
const SLOT_BYTES: usize = 1 << UBERBLOCK_SHIFT_MIN;
/// The number of txgs before the first image.
const OLDER_STATES: usize = 4;
const WRITERS: u64 = 4;
const WRITES: u64 = 40;
const SECTOR: [u8; 512] = [0xa5; 512];

const REWIND: fn() -> ImportSpec = || ImportSpec { rewind: Rewind::Recent, ..PLAIN };
const PLAIN: ImportSpec = ImportSpec {
    paths: Vec::new(),
    own_paths: false,
    name: None,
    guid: None,
    new_name: None,
    is_name_temporary: false,
    force: false,
    left: None,
    read_only: false,
    without_logs: false,
    destroyed: false,
    to_checkpoint: false,
    rewind: Rewind::Never,
    replay_watch: None,
};

/// The counts of a lane.
#[derive(Debug, Default)]
struct RewindCounts {
    images: usize,
    /// Images that were opened in an older state.
    rewound: usize,
    /// Those among them in which a log of the opened state had blocks.
    with_logs: usize,
}

/// Runs writers, each with a file of its own that it writes stably and sometimes creates again,
/// while txgs pass.
fn record(shape: &Shape, seed: u64) -> Recording {
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = shape.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        // Every image must have older states.
        for _ in 0..OLDER_STATES {
            pool.sync_now().await.expect("txgs turn");
        }
        sim.start_recording();
        let writers = (0..WRITERS).map(|number| write_for_a_while(&sim, &fs.zfs, number));
        join_all(writers).await;
    });
    sim.recording()
}

async fn write_for_a_while(sim: &Sim, zfs: &Zfs, number: u64) {
    let name = format!("file{number}");
    let mut dice = fastrand::Rng::with_seed(sim.seed() + number);
    for round in 0..WRITES {
        if round % 9 == 8 {
            zfs.unlink(zfs.root(), name.as_bytes()).await.expect("removed");
        }
        if round % 9 == 8 || round == 0 {
            let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
            made.expect("created");
        }
        let file = zfs.lookup(zfs.root(), name.as_bytes()).await.expect("it is there").object;
        let len = [100, 5000, 70_000][dice.usize(..3)];
        let bytes: Vec<u8> = std::iter::repeat_with(|| dice.u8(..)).take(len).collect();
        zfs.write(file, dice.u64(..50_000), &bytes, SYNC).await.expect("written");
        sim.env().sleep(Duration::from_micros(dice.u64(..6000))).await;
    }
}

/// Returns the newest uberblock on a world's disks.
fn newest_uberblock(sim: &Sim, shape: &Shape) -> UberblockPhys {
    let mut found: Vec<UberblockPhys> = Vec::new();
    for path in shape.disks() {
        let disk = sim.disk(&path);
        for label in 0..LABELS {
            let start = label_offset(DISK_BYTES, label).expect("there is room").get() + UBERBLOCK_RING_OFFSET;
            for at in (start..start + UBERBLOCK_RING_BYTES).step_by(SLOT_BYTES) {
                found.extend(UberblockPhys::decode(&disk.peek(at, SLOT_BYTES)));
            }
        }
    }
    found.into_iter().max_by_key(|uberblock| uberblock.txg()).expect("a pool has uberblocks")
}

/// Damages every copy of the root that the newest uberblock names. All shapes here have one data
/// vdev whose disks are copies of each other.
fn damage_newest(sim: &Sim, shape: &Shape) -> UberblockPhys {
    let disks: Vec<_> = shape.disks().filter(|path| !path.ends_with("l")).collect();
    let newest = newest_uberblock(sim, shape);
    for dva in newest.rootbp.dvas() {
        for path in &disks {
            let at = VdevOffset::new(dva.offset.get()).on_leaf().expect("it lies on the device");
            sim.disk(path).rot(at.get(), &SECTOR);
        }
    }
    newest
}

fn damaged(image: &CrashImage, shape: &Shape, seed: u64) -> (Sim, UberblockPhys) {
    let sim = image.boot(seed);
    sim.stop_recording();
    let newest = damage_newest(&sim, shape);
    (sim, newest)
}

/// Creates a file with a stable write.
async fn promise(zfs: &Zfs, name: &[u8]) {
    let made = zfs.create(zfs.root(), name, NewNode::File, 0o644, Cred::default()).await.expect("create");
    zfs.write(made.object, 0, name, SYNC).await.expect("write");
}

async fn is_kept(zfs: &Zfs, name: &[u8]) -> bool {
    let Ok(found) = zfs.lookup(zfs.root(), name).await else { return false };
    let mut bytes = vec![0; name.len() + 1];
    zfs.read(found.object, 0, &mut bytes).await.expect("it reads") == name.len() && bytes.starts_with(name)
}

/// Opens the older state for writing, uses it, cuts the power, and imports the result.
fn use_older(sim: &Sim, shape: &Shape, how: ImportSpec, seed: u64, newest: u64) -> (Sim, bool) {
    let had_log = run(sim, async {
        let pool = shape.import_as(sim, brisk(), how).await.expect("an older state opens");
        assert!(pool.opened_txg().get() < newest, "the newest state is damaged");
        let mut had_log = false;
        for log in pool.logs().await.expect("datasets read") {
            had_log |= !log.header.log.is_hole();
        }
        pool.replay_logs().await.expect("a log that was given up holds nothing");
        let fs = pool.filesystem(POOL).await.expect("the file system opens");
        promise(&fs.zfs, b"after").await;
        pool.sync_now().await.expect("txgs turn");
        promise(&fs.zfs, b"at last").await;
        had_log
    });
    let sim = sim.power_cut(seed).boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let pool = shape.import_as(&sim, brisk(), PLAIN).await.expect("the pool imports after a rewind");
        let fs = pool.filesystem(POOL).await.expect("the log replays");
        assert!(is_kept(&fs.zfs, b"after").await && is_kept(&fs.zfs, b"at last").await);
        drop(fs);
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("a pool closes");
        let pool = shape.import_as(&sim, brisk(), PLAIN).await.expect("and imports again");
        pool.close(PoolState::Exported).await.expect("a pool closes");
    });
    (sim, had_log)
}

fn check(image: &CrashImage, shape: &Shape, seed: u64, by_zdb: bool, seen: &mut RewindCounts) {
    seen.images += 1;
    let (sim, newest) = damaged(image, shape, seed);
    let newest = newest.txg().get();
    run(&sim, async {
        for how in [PLAIN, ImportSpec { read_only: true, ..PLAIN }] {
            let opened = shape.import_as(&sim, brisk(), how).await;
            assert!(opened.is_err(), "the newest state is damaged, and nobody asked for another");
        }
        let how = ImportSpec { read_only: true, ..REWIND() };
        let pool = shape.import_as(&sim, brisk(), how).await.expect("an older state can be looked at");
        assert!(pool.opened_txg().get() < newest);
        space::reachable(&pool).await.expect("all of it reads");
        pool.close(PoolState::Exported).await.expect("a pool closes");
    });
    drop(sim);
    for how in [REWIND(), ImportSpec { without_logs: true, ..REWIND() }] {
        let (sim, _) = damaged(image, shape, seed);
        let (sim, had_log) = use_older(&sim, shape, how, seed, newest);
        seen.rewound += 1;
        seen.with_logs += usize::from(had_log);
        if by_zdb {
            space::judged_by_zdb(shape, &sim);
        }
    }
}

#[test]
fn a_rewind_discards_logs_and_leaves_a_sound_pool() {
    let _tell = Tell;
    oracle::told::to_the_test();
    let mut kinds = BTreeSet::new();
    for (shape, seed) in [(&SINGLE, 61_000), (&MIRROR, 61_101), (&LOG, 61_201)] {
        let mut seen = RewindCounts::default();
        for (turn, image) in drawn(&record(shape, seed), IMAGES).enumerate() {
            tell(format!("seed {seed}, shape \"{}\", {}", shape.name, image.story()));
            check(&image, shape, seed, turn % ZDB_ONE_IN == 0, &mut seen);
        }
        println!("\"{}\": {seen:?}", shape.name);
        assert!(seen.images >= 10 && seen.with_logs >= 10, "{seen:?}");
        assert_eq!(seen.rewound, seen.images * 2, "each image in two ways");
        kinds.insert(shape.name);
    }
    assert_eq!(kinds.len(), 3);
}
