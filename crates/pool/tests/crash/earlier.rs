//! The txgs before the last one: what they lead to is neither reused nor discarded yet.
//!
//! ```text
//!   freed in F ─► F+1 stable ─► F+2 stable ─► used again       S stable: S, S-1 and S-2 are whole
//!                                    └ autotrim discards while F+2 is written: S and S-1 are
//! ```
//! An image is opened as of each of these txgs, for reading, and every block that can be reached is read. Uberblocks
//! of later txgs are taken out of the image's labels for that.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use dsl::PropValue;
use metaslab::{Class, Hint};
use ondisk::UberblockPhys;
use ondisk::label::{LABELS, UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET, UBERBLOCK_SHIFT_MIN, label_offset};
use pool::{ImportSpec, Pool, PoolError};
use sim::{CrashImage, DiskModel, Sim};
use units::{BlockId, Level, ObjectId, ObjsetId, Psize, TXG_DEFER};
use zio::Bookmark;
use zpl::{Cred, NewNode, WriteFlags};

use crate::ground::quiet;
use crate::shape::{DISK_BYTES, MIRROR, POOL, RAIDZ, SINGLE, Shape, brisk};
use crate::space;
use crate::story::{Tell, drawn, run, tell};

/// Slots of all disks' rings have this size: their sectors are small.
const SLOT_BYTES: usize = 1 << UBERBLOCK_SHIFT_MIN;
/// Of a lane, spread over all.
const IMAGES: usize = 40;
/// Txgs of a lane.
const ROUNDS: u64 = 20;
const FILE_BYTES: usize = 300 << 10;
/// What is free in one piece, at first.
const ROOM_BYTES: u64 = 1500 << 10;

/// Where the uberblocks of a disk are, and of which txgs.
fn uberblocks(peek: impl Fn(u64, usize) -> Vec<u8>) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for label in 0..LABELS {
        let start = label_offset(DISK_BYTES, label).expect("there is room").get() + UBERBLOCK_RING_OFFSET;
        for at in (start..start + UBERBLOCK_RING_BYTES).step_by(SLOT_BYTES) {
            if let Ok(uberblock) = UberblockPhys::decode(&peek(at, SLOT_BYTES)) {
                found.push((at, uberblock.txg().get()));
            }
        }
    }
    found
}

/// The world of `image`, in which nothing after `txg` ever was.
fn as_of(image: &CrashImage, shape: &Shape, txg: u64) -> Sim {
    let sim = image.boot(txg);
    for path in shape.disks() {
        let disk = sim.disk(&path);
        for (at, _) in uberblocks(|at, len| disk.peek(at, len)).into_iter().filter(|&(_, of)| of > txg) {
            disk.rot(at, &[0; SLOT_BYTES]);
        }
    }
    sim
}

/// The txgs of the newest uberblocks, as many as are whole by promise; newest first.
fn promised(image: &CrashImage, shape: &Shape, trims: bool) -> Vec<u64> {
    let at = |path: &Path| uberblocks(|at, len| image.peek(path, at, len));
    let mut txgs: Vec<u64> = shape.disks().flat_map(|path| at(&path)).map(|(_, txg)| txg).collect();
    txgs.sort_unstable();
    txgs.dedup();
    let newest = *txgs.last().expect("a pool has uberblocks");
    txgs.retain(|txg| txg + TXG_DEFER >= newest + u64::from(trims));
    txgs.reverse();
    txgs
}

async fn open(sim: &Sim, shape: &Shape) -> Result<Arc<Pool>, PoolError> {
    let (paths, name) = (shape.disks().collect(), Some(POOL.into()));
    let spec = ImportSpec { paths, name, read_only: true, ..ImportSpec::default() };
    Pool::import(sim.env(), &spec, brisk()).await
}

/// Reads every block that can be reached; how many.
async fn read_all(sim: &Sim, shape: &Shape) -> Result<usize, Box<dyn Error>> {
    let pool = open(sim, shape).await?;
    let anywhere = Bookmark::new(ObjsetId::MOS, ObjectId::new(0), Level::new(0), BlockId::new(0));
    let blocks = space::reachable(&pool).await?;
    for bp in &blocks {
        pool.zio().read(bp, &anywhere).await.map_err(|error| format!("{error}: {bp:?}"))?;
    }
    Ok(blocks.len())
}

/// Opens the image as of each of these txgs and reads all blocks; how many.
pub fn check(image: &CrashImage, shape: &Shape, trims: bool) -> usize {
    let read = |txg| {
        let sim = as_of(image, shape, txg);
        sim.stop_recording();
        run(&sim, async {
            let blocks = read_all(&sim, shape).await;
            blocks.unwrap_or_else(|error| panic!("as of txg {txg}: {error}"))
        })
    };
    promised(image, shape, trims).into_iter().map(read).sum()
}

/// What a lane saw.
#[derive(Debug, Default)]
struct Seen {
    images: usize,
    blocks: usize,
    discards: usize,
}

/// Leaves nothing free but one long run and many that are too short for a record.
fn wear(pool: &Pool) {
    let txg = pool.txgs().open_txg();
    pool.zio().with_allocator(|allocator| {
        let piece = Psize::new(16 << 10);
        let mut taken = Vec::new();
        while allocator.space(Class::Normal).free.get() > ROOM_BYTES {
            let [dva, ..] =
                allocator.allocate(Class::Normal, piece, 1, txg, Hint::default()).expect("there is room");
            taken.push(dva);
        }
        taken.iter().step_by(2).for_each(|dva| allocator.unalloc(txg, dva));
    });
}

/// Files that are made and removed in each of many txgs. What one txg frees is what the next would like to have.
async fn work(sim: &Sim, pool: &Arc<Pool>, trims: bool) {
    let fs = pool.filesystem(POOL).await.expect("it opens");
    let zfs = &fs.zfs;
    let mut noise = fastrand::Rng::with_seed(sim.seed());
    if trims {
        pool.set_pool_prop("autotrim", Some(PropValue::Number(1))).await.expect("set");
    }
    wear(pool);
    pool.sync_now().await.expect("synced");
    sim.start_recording();
    for round in 0..ROUNDS {
        let name = format!("file{}", round % 3);
        // The first rounds find nothing to remove.
        let _ = zfs.unlink(zfs.root(), name.as_bytes()).await;
        let file = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o600, Cred::default()).await;
        let bytes: Vec<u8> = std::iter::repeat_with(|| noise.u8(..)).take(FILE_BYTES).collect();
        zfs.write(file.expect("created").object, 0, &bytes, WriteFlags::default()).await.expect("written");
        pool.sync_now().await.expect("synced");
    }
}

fn look(shape: &'static Shape, seed: u64, trims: bool) -> Seen {
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::instant());
    sim.stop_recording();
    run(&sim, async {
        let pool = shape.create(&sim, quiet()).await;
        work(&sim, &pool, trims).await;
    });
    let recording = sim.recording();
    drop(sim);
    let mut seen = Seen { discards: recording.discards(), ..Seen::default() };
    for image in drawn(&recording, IMAGES) {
        tell(format!("seed {seed}, shape \"{}\", trims {trims}, {}", shape.name, image.story()));
        seen.images += 1;
        seen.blocks += check(&image, shape, trims);
    }
    println!("\"{}\", trims {trims}: {seen:?}", shape.name);
    seen
}

#[test]
fn the_txgs_before_the_last_are_whole_in_every_image() {
    let _tell = Tell;
    for (shape, seed) in [(&SINGLE, 9100), (&MIRROR, 9200), (&RAIDZ, 9300)] {
        assert_eq!(look(shape, seed, false).discards, 0, "nobody asked for any");
        let seen = look(shape, seed + 1, true);
        assert!(seen.discards > 0 && seen.images > 10 && seen.blocks > 1000, "{seen:?}");
    }
}

#[test]
#[should_panic(expected = "as of txg")]
fn a_planted_early_reuse_is_found() {
    metaslab::plant_rests(0, TXG_DEFER);
    look(&SINGLE, 9100, false);
}

#[test]
#[should_panic(expected = "as of txg")]
fn a_planted_early_discard_is_found() {
    metaslab::plant_rests(TXG_DEFER, TXG_DEFER - 1);
    look(&SINGLE, 9101, true);
}
