//! Changes of one pool, one after another, each recorded by itself, and the power cut at each flush of it.
//!
//! ```text
//!   state 0 ── change 1 ──► state 1 ── change 2 ──► state 2 ── …
//!               │  recorded: images, before the mark of change 1 and after it
//!               ▼
//!          before the mark of change 1: state 0 or state 1        after it: state 1
//! ```
//! What a state is, `outlook` says: an image that is neither of two states has half a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use pool::{ImportSpec, Pool};
use sim::{CrashImage, CrashPlan, DiskModel, Recording, Sim};
use vdev::PoolState;
use zpl::{Cred, NewNode, QuotaFor, QuotaKind, QuotaOf, WriteFlags, Zfs};

use crate::ground::quiet;
use crate::outlook::{bring_up, end_scrub, label_state, look};
use crate::shape::{POOL, Shape};
use crate::space;
use crate::story::{number, run, tell};

/// One in so many images is judged by `zdb`, before the import and after it.
const ZDB_ONE_IN: usize = 60;
/// Of a change that writes all labels anew there are hundreds: so many are imported, unless `SAWMILL_CRASH_IMAGES` says
/// how many.
const IMAGES_MAX: usize = 16;
/// A change is one txg or two, of few cuts: more of what each can leave than usual.
const SUBSETS: usize = 6;
const TEARS: usize = 3;
pub const FILE_BYTES: usize = 300_000;

/// Of the quotas that a file system may have, these are looked at.
const QUOTA: QuotaKind = (QuotaOf::User, QuotaFor::Space);

/// The change that closes the pool.
pub const CLOSE: &str = "close";

pub async fn write(zfs: &Zfs, name: &[u8], len: usize) {
    let made = zfs.create(zfs.root(), name, NewNode::File, 0o644, Cred::default()).await;
    let flags = WriteFlags { sync: true, ..WriteFlags::default() };
    zfs.write(made.expect("created").object, 0, &contents(len), flags).await.expect("written");
}

pub fn contents(len: usize) -> Vec<u8> {
    let mut noise = vec![0; len];
    fastrand::Rng::with_seed(len as u64).fill(&mut noise);
    noise
}

/// What was promised before any of it is there.
async fn check_file(pool: &Arc<Pool>) {
    let fs = pool.filesystem(POOL).await.expect("its log is whole");
    let file = fs.zfs.lookup(fs.zfs.root(), b"kept").await.expect("it was promised").object;
    let mut found = vec![0; FILE_BYTES];
    assert_eq!(fs.zfs.read(file, 0, &mut found).await.expect("it reads"), FILE_BYTES);
    assert!(found == contents(FILE_BYTES), "what it holds");
}

/// A pool with the changes so far, and what was seen of them.
pub struct Cuts {
    shape: &'static Shape,
    seed: u64,
    pub sim: Sim,
    /// So many images of each change are imported.
    images_max: usize,
    /// Whether `zdb` judges some of them.
    pub with_zdb: bool,
    pub images: usize,
    /// Flushes amid which the power was cut.
    pub cuts: BTreeSet<(String, usize)>,
    pub judged_by_zdb: usize,
}

impl Cuts {
    pub fn new(shape: &'static Shape, seed: u64) -> Self {
        Self::with_images(shape, seed, IMAGES_MAX)
    }

    /// Returns the same pool, of which each change has `usual` images. `SAWMILL_CRASH_IMAGES` sets
    /// another number.
    pub fn with_images(shape: &'static Shape, seed: u64, usual: usize) -> Self {
        let images_max = number("SAWMILL_CRASH_IMAGES").map_or(usual, |count| count as usize);
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::ssd());
        sim.stop_recording();
        Self {
            shape,
            seed,
            sim,
            images_max,
            with_zdb: true,
            images: 0,
            cuts: BTreeSet::new(),
            judged_by_zdb: 0,
        }
    }

    /// A new pool with a file, and the state that it is in.
    pub fn make(&self) -> (Arc<Pool>, Vec<String>) {
        let pool = run(&self.sim, async {
            let pool = self.shape.create(&self.sim, quiet()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            write(&fs.zfs, b"kept", FILE_BYTES).await;
            pool
        });
        let (done, recording) = self.record("make", pool.sync_now());
        done.expect("txgs turn");
        (pool, self.state_after(&recording))
    }

    /// What the pool is in, brought up after a power cut.
    async fn state(&self, sim: &Sim) -> Vec<String> {
        let label = label_state(sim, self.shape).await;
        let how = ImportSpec { destroyed: label == Some(PoolState::Destroyed), ..ImportSpec::default() };
        let pool = self.shape.import_as(sim, quiet(), how).await.expect("every crash state imports");
        let mut seen = look(&pool).await;
        check_file(&pool).await;
        while pool.facts().await.freeing_bytes != Some(0) {
            pool.sync_now().await.expect("txgs turn");
        }
        end_scrub(sim, &pool).await;
        if seen[0].contains("checkpoint: true") {
            pool.discard_checkpoint().await.expect("there is one");
            pool.wait_discarded().await.expect("txgs turn");
        }
        seen.push(format!("{:?}", pool.facts().await.cloned));
        for dataset in pool.dsl().list(POOL).await.expect("it lists") {
            bring_up(&pool, &dataset.name).await;
            if let Ok(fs) = pool.filesystem(&dataset.name).await {
                seen.push(format!("{} has quotas {:?}", dataset.name, fs.zfs.quotas_of(QUOTA)));
            }
            pool.close_filesystem(&dataset.name).await.expect("it closes");
        }
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        seen.push(format!("{label:?}"));
        seen
    }

    /// Does something, marks that it has ended, and says what came of it and what the disks did meanwhile.
    pub fn record<T>(&self, name: &str, act: impl Future<Output = T>) -> (T, Recording) {
        run(&self.sim, async {
            self.sim.start_recording();
            let done = act.await;
            self.sim.mark(name);
            let recording = self.sim.recording();
            self.sim.stop_recording();
            (done, recording)
        })
    }

    /// The state in which a power cut at the end of the recording leaves the pool.
    pub fn state_after(&self, recording: &Recording) -> Vec<String> {
        let sim = recording.crash_images().last().expect("there is a cut at the end").boot(self.seed);
        sim.stop_recording();
        run(&sim, self.state(&sim))
    }

    /// Whether a power cut at the end of the recording leaves another state.
    pub fn differs(&self, recording: &Recording, before: &[String]) -> bool {
        self.state_after(recording) != before
    }

    /// Each image is in the state before the change or in the one after it, and in the second when that was promised; both
    /// are seen. Gives the second.
    pub fn judge(&mut self, name: &str, recording: &Recording, before: Vec<String>) -> Vec<String> {
        let states = [before, self.state_after(recording)];
        assert_ne!(states[0], states[1], "{name}: nothing has changed");
        let mut seen = [0; 2];
        let plan = CrashPlan { subsets: SUBSETS, tears: TEARS, ..CrashPlan::new(self.seed) };
        let count = recording.crash_images_by(plan).count();
        let step = count.div_ceil(self.images_max);
        // The last one is among them.
        let chosen = recording
            .crash_images_by(plan)
            .enumerate()
            .filter(|(at, _)| (count - 1 - at).is_multiple_of(step));
        for (_, image) in chosen {
            tell(format!("seed {}, \"{}\", {name}, {}", self.seed, self.shape.name, image.story()));
            let sim = image.boot(self.seed);
            sim.stop_recording();
            let with_zdb = self.with_zdb && self.images % ZDB_ONE_IN == ZDB_ONE_IN / 2;
            // What may be destroyed is nothing that `zdb` opens.
            if with_zdb && name != CLOSE {
                self.by_zdb(&sim);
            }
            let state = run(&sim, self.state(&sim));
            let which = usize::from(state == states[1]);
            assert_eq!(state, states[which], "neither what was nor what is to be: {:?}", states[1]);
            assert!(which == 1 || !image.is_after(name), "it was done");
            if with_zdb {
                self.by_zdb(&sim);
            }
            seen[which] += 1;
            self.note(name, &image);
        }
        println!("\"{}\", {name}: {seen:?}", self.shape.name);
        assert!(seen[0] > self.images_max / 20 && seen[1] > 0, "{name}: {seen:?}, both were seen");
        let [_, after] = states;
        after
    }

    fn note(&mut self, name: &str, image: &CrashImage) {
        self.images += 1;
        self.cuts.insert((name.to_owned(), image.position().0));
    }

    fn by_zdb(&mut self, sim: &Sim) {
        space::judged_by_zdb(self.shape, sim);
        self.judged_by_zdb += 1;
    }
}
