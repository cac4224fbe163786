//! What a power cut leaves of files that share blocks, with their clones only in the log, or half on disk, and some of them
//! written anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use pool::Pool;
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, FilePlace, NewNode, SetAttributes, WriteFlags, Zfs};

use crate::checkpoints::{each_image, world};
use crate::shape::{DRAID, LOG, MIRROR, POOL, RAIDZ, STRIPE, Shape, brisk};
use crate::space;
use crate::story::{Tell, run};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const BLOCK: u64 = 16 << 10;
const FILE_BYTES: u64 = 5 * BLOCK + 100;
/// So few that their record fits in one log block: of a longer write a cut may leave the beginning.
const WRITE_BYTES: usize = 1000;
/// After so many steps a txg turns by order of somebody, too.
const TURN: usize = 3;

type Files = BTreeMap<&'static str, Vec<u8>>;

/// Each is stable when it returns.
#[derive(Clone, Copy)]
enum Step {
    /// A file gets the blocks of another, which is on disk.
    Share(&'static str, &'static str),
    /// Some bytes from that block on are others.
    Write(&'static str, u64, u8),
    Truncate(&'static str, u64),
    /// Its blocks are written anew.
    Rewrite(&'static str),
    Unlink(&'static str),
}

use Step::{Rewrite, Share, Truncate, Unlink, Write};

const STEPS: [Step; 17] = [
    Share("a", "b"),
    Rewrite("b"),
    Unlink("a"),
    Share("b", "c"),
    Write("b", 1, 11),
    Share("c", "d"),
    Share("c", "e"),
    Rewrite("c"),
    Unlink("c"),
    Truncate("d", BLOCK),
    Share("e", "d"),
    Write("e", 0, 12),
    Unlink("d"),
    Share("e", "f"),
    Rewrite("f"),
    Unlink("e"),
    Truncate("f", 0),
];

fn noise() -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES as usize];
    fastrand::Rng::with_seed(77).fill(&mut bytes);
    bytes
}

fn change(files: &mut Files, step: Step) {
    match step {
        Share(from, to) => drop(files.insert(to, files[from].clone())),
        Write(name, block, byte) => {
            let at = (block * BLOCK) as usize;
            files.get_mut(name).expect("is there")[at..at + WRITE_BYTES].fill(byte);
        }
        Truncate(name, size) => files.get_mut(name).expect("is there").truncate(size as usize),
        Rewrite(_) => {}
        Unlink(name) => drop(files.remove(name)),
    }
}

async fn object(zfs: &Zfs, name: &str) -> Option<ObjectId> {
    zfs.lookup(zfs.root(), name.as_bytes()).await.ok().map(|found| found.object)
}

async fn make(zfs: &Zfs, name: &str) -> ObjectId {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
    made.expect("created").object
}

async fn carry_out(pool: &Pool, zfs: &Zfs, step: Step) {
    match step {
        Share(from, to) => {
            let source = object(zfs, from).await.expect("is there");
            let target = match object(zfs, to).await {
                Some(there) => there,
                None => make(zfs, to).await,
            };
            let place = FilePlace { zfs, object: source, offset: 0 };
            // What its last step changed is on disk after a txg.
            for _ in 0..2 {
                let shared = zfs.clone_range(place, (target, 0), u64::MAX, SYNC).await.expect("shared");
                if shared == zfs.attributes(source).await.expect("is there").size {
                    return;
                }
                pool.sync_now().await.expect("txgs turn");
            }
            panic!("{from} is not shared");
        }
        Write(name, block, byte) => {
            let file = object(zfs, name).await.expect("is there");
            zfs.write(file, block * BLOCK, &[byte; WRITE_BYTES], SYNC).await.expect("written");
        }
        Truncate(name, size) => {
            let file = object(zfs, name).await.expect("is there");
            let attributes = SetAttributes { size: Some(size), ..Default::default() };
            zfs.set_attributes(file, attributes).await.expect("cut off");
            zfs.fsync(file, false).await.expect("stable");
        }
        Rewrite(name) => {
            let file = object(zfs, name).await.expect("is there");
            zfs.rewrite(file, 0, 0).await.expect("rewritten");
        }
        Unlink(name) => {
            zfs.unlink(zfs.root(), name.as_bytes()).await.expect("is there");
            zfs.sync().await.expect("stable");
        }
    }
}

async fn found(zfs: &Zfs) -> Files {
    let mut files = Files::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        if let Some(file) = object(zfs, name).await {
            let mut data = vec![0; zfs.attributes(file).await.expect("is there").size as usize];
            assert_eq!(zfs.read(file, 0, &mut data).await.expect("it reads"), data.len());
            files.insert(name, data);
        }
    }
    files
}

/// A clone makes its target and then fills it: in between there is an empty file, or one as it was.
fn is_state(files: &Files, states: &[Files], done: usize) -> bool {
    let (before, after) = (&states[done], states.get(done + 1));
    let half = STEPS.get(done).and_then(|step| match step {
        Share(_, to) if !before.contains_key(to) => {
            let mut half = before.clone();
            half.insert(to, Vec::new());
            Some(half)
        }
        _ => None,
    });
    files == before || Some(files) == after || half.as_ref() == Some(files)
}

async fn judge(pool: &Arc<Pool>, states: &[Files], done: usize) {
    let fs = pool.filesystem(POOL).await.expect("its log is whole");
    let files = found(&fs.zfs).await;
    let names: Vec<_> = files.iter().map(|(name, data)| (name, data.len())).collect();
    assert!(is_state(&files, states, done), "after {done} steps: {names:?}");
}

fn cut(shape: &'static Shape, seed: u64) {
    let sim = world(shape, seed);
    let mut states = vec![Files::from([("a", noise())])];
    for step in STEPS {
        let mut next = states.last().expect("the first").clone();
        change(&mut next, step);
        states.push(next);
    }
    run(&sim, async {
        let pool = shape.create_with(&sim, brisk(), &[("recordsize", BLOCK)]).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        let file = make(&fs.zfs, "a").await;
        fs.zfs.write(file, 0, &noise(), WriteFlags::default()).await.expect("written");
        pool.sync_now().await.expect("txgs turn");
        sim.start_recording();
        for (number, step) in STEPS.into_iter().enumerate() {
            carry_out(&pool, &fs.zfs, step).await;
            sim.mark(format!("step {number}"));
            if number % TURN == 0 {
                pool.sync_now().await.expect("txgs turn");
            }
        }
    });
    let mut turn = 0;
    each_image(&sim, seed, |image, sim, with_zdb| {
        if with_zdb {
            space::judged_by_zdb(shape, &sim);
        }
        let done = (0..STEPS.len()).filter(|step| image.is_after(&format!("step {step}"))).count();
        turn += 1;
        let sim = if turn % 4 == 0 {
            // The power goes again, while what was claimed is replayed or has been.
            run(&sim, async {
                let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
                judge(&pool, &states, done).await;
            });
            sim.power_cut(turn).boot(seed)
        } else {
            sim
        };
        run(&sim, async {
            let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
            judge(&pool, &states, done).await;
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        if with_zdb {
            space::judged_by_zdb(shape, &sim);
        }
    });
}

#[test]
fn a_power_cut_leaves_clones_whole_on_a_stripe() {
    let _tell = Tell;
    cut(&STRIPE, 92_000);
}

#[test]
fn a_power_cut_leaves_clones_whole_on_a_pool_with_a_log() {
    let _tell = Tell;
    cut(&LOG, 92_001);
}

#[test]
fn a_power_cut_leaves_clones_whole_on_mirrors_and_raidz() {
    let _tell = Tell;
    cut(&MIRROR, 92_002);
    cut(&RAIDZ, 92_003);
    cut(&DRAID, 92_004);
}
