//! The power is cut while a pool is made, administered and exported: at each flush, in several ways.
//!
//! ```text
//!   state 0 ── change 1 ──► state 1 ── change 2 ──► state 2 ── … ──► exported
//!               │  recorded: images, before the mark of change 1 and after it
//!               ▼
//!          before the mark of change 1: state 0 or state 1        after it: state 1
//! ```
//! The changes are made to one pool, one after another, and each is recorded by itself. What a state is, `outlook`
//! says: an image that is neither of two states has half a change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dsl::PropValue;
use env::BoxFuture;
use pool::{ImportSpec, Inherit, Pool, PoolError, PoolSpec, VolumeSpec};
use sim::{CrashImage, CrashPlan, DiskModel, Recording, Sim};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::ground::quiet;
use crate::outlook::{bring_up, end_scrub, label_state, look};
use crate::shape::{LOG, MIRROR, POOL, Shape};
use crate::space;
use crate::story::{Tell, run, tell};

/// One in so many images is judged by `zdb`, before the import and after it.
const ZDB_ONE_IN: usize = 60;
/// Of a change that writes all labels anew there are hundreds: so many are imported.
const IMAGES_MAX: usize = 50;
/// Of the images of a pool that is made, one in so many.
const MADE_ONE_IN: usize = 3;
/// A change is one txg or two, of few cuts: more of what each can leave than usual.
const SUBSETS: usize = 6;
const TEARS: usize = 3;
const FILE_BYTES: usize = 300_000;

/// The last change.
const CLOSE: &str = "close";

/// While there are permissions `zdb` takes what they lie in for lost (2.3.2).
const DELEGATE: &str = "delegate permissions";
const TAKE_BACK: &str = "take them back";

type Change = (&'static str, fn(Arc<Pool>) -> BoxFuture<'static, Result<(), PoolError>>);

/// All that is done to a pool before it is closed.
const CHANGES: [Change; 34] = [
    ("create a file system", |pool| {
        Box::pin(async move {
            let props = vec![("recordsize".to_owned(), PropValue::Number(8192))];
            pool.create_filesystem("whirl/made", props).await
        })
    }),
    ("create one below it", |pool| {
        Box::pin(async move { pool.create_filesystem("whirl/made/below", Vec::new()).await })
    }),
    ("fill it", |pool| {
        Box::pin(async move {
            let fs = pool.filesystem("whirl/made/below").await?;
            write(&fs.zfs, b"large", 8 * FILE_BYTES).await;
            pool.set_prop("whirl/made/below", "atime", Some(PropValue::Number(0))).await
        })
    }),
    ("limit what is below", |pool| {
        Box::pin(async move { pool.set_prop(POOL, "snapshot_limit", Some(PropValue::Number(9))).await })
    }),
    ("make snapshots", |pool| {
        Box::pin(
            async move { pool.snapshot(texts(["whirl/made@s", "whirl/made/below@s"]), Vec::new()).await },
        )
    }),
    ("hold them", |pool| {
        Box::pin(
            async move { pool.hold("tag".to_owned(), texts(["whirl/made@s", "whirl/made/below@s"])).await },
        )
    }),
    ("make a bookmark", |pool| {
        Box::pin(async move { pool.bookmark("whirl/made@s".to_owned(), "whirl/made#b".to_owned()).await })
    }),
    ("clone one", |pool| {
        Box::pin(async move {
            let (of, name) = ("whirl/made/below@s".to_owned(), "whirl/clone".to_owned());
            pool.clone_snapshot(of, name, Vec::new()).await
        })
    }),
    ("promote the clone", |pool| Box::pin(async move { pool.promote("whirl/clone".to_owned()).await })),
    ("rename a snapshot", |pool| {
        Box::pin(async move {
            pool.rename_snapshots(vec![("whirl/made@s".to_owned(), "whirl/made@t".to_owned())]).await
        })
    }),
    ("change what it was made of", |pool| {
        Box::pin(async move {
            let fs = pool.filesystem("whirl/made").await?;
            write(&fs.zfs, b"goes", FILE_BYTES).await;
            pool.sync_now().await
        })
    }),
    ("roll back", |pool| {
        Box::pin(async move { pool.rollback("whirl/made".to_owned(), "whirl/made@t".to_owned()).await })
    }),
    ("destroy a snapshot once its hold is gone", |pool| {
        Box::pin(async move { pool.destroy_snapshots(texts(["whirl/made@t"]), true).await })
    }),
    ("release it", |pool| {
        Box::pin(async move { pool.release("tag".to_owned(), texts(["whirl/made@t"])).await })
    }),
    ("destroy the bookmark", |pool| {
        Box::pin(async move { pool.destroy_bookmark("whirl/made#b".to_owned()).await })
    }),
    ("set a property", |pool| {
        Box::pin(async move { pool.set_prop("whirl/made", "compression", Some(PropValue::Number(15))).await })
    }),
    ("inherit it", |pool| {
        Box::pin(async move { pool.inherit_prop("whirl/made", "compression", Inherit::default()).await })
    }),
    (DELEGATE, |pool| Box::pin(async move { pool.allow("whirl/made".to_owned(), permissions()).await })),
    (TAKE_BACK, |pool| {
        Box::pin(async move {
            let all = permissions().into_keys().map(|key| (key, None)).collect();
            pool.unallow("whirl/made".to_owned(), all).await
        })
    }),
    ("rename", |pool| Box::pin(async move { pool.rename_dataset("whirl/made", "whirl/moved").await })),
    ("destroy", |pool| Box::pin(async move { pool.destroy_filesystem("whirl/moved/below").await })),
    ("create a volume", |pool| {
        Box::pin(async move {
            let spec = VolumeSpec { size_bytes: 1 << 20, block_bytes: 8192 };
            let reserved = ("refreservation".to_owned(), PropValue::Number(2 << 20));
            pool.create_volume("whirl/volume", spec, vec![reserved]).await
        })
    }),
    ("make it smaller", |pool| {
        Box::pin(async move {
            let volume = pool.open_volume("whirl/volume").await?;
            volume.write(0, &contents(1 << 20), true).await?;
            pool.resize_volume("whirl/volume", 1 << 19).await
        })
    }),
    ("destroy it", |pool| Box::pin(async move { pool.destroy_filesystem("whirl/volume").await })),
    ("set a property of the pool", |pool| {
        Box::pin(async move { pool.set_pool_prop("failmode", Some(PropValue::Number(1))).await })
    }),
    ("set its comment", |pool| Box::pin(async move { pool.set_comment(Some("a remark".to_owned())).await })),
    ("enable a feature", |pool| {
        Box::pin(async move { pool.enable_feature(&dsl::features::HEAD_ERRLOG).await })
    }),
    ("begin a scrub", |pool| Box::pin(async move { pool.scrub().await })),
    ("pause it", |pool| Box::pin(async move { pool.pause_scrub().await })),
    ("go on with it", |pool| Box::pin(async move { pool.scrub().await })),
    ("pause it again", |pool| Box::pin(async move { pool.pause_scrub().await })),
    ("cancel it", |pool| Box::pin(async move { pool.cancel_scrub().await })),
    ("scrub to the end", |pool| {
        Box::pin(async move {
            pool.scrub().await?;
            while pool.scan().is_none_or(|scan| scan.phys.end_time.get() == 0) {
                pool.env().sleep(Duration::from_millis(1)).await;
            }
            pool.sync_now().await
        })
    }),
    ("make a checkpoint", |pool| Box::pin(async move { pool.make_checkpoint().await })),
];

fn permissions() -> dsl::Permissions {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let of = [("ul$7", names(&["snapshot", "mount"])), ("s-$@set", names(&["create"]))];
    of.map(|(key, granted)| (key.to_owned(), granted)).into()
}

fn texts<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

async fn write(zfs: &Zfs, name: &[u8], len: usize) {
    let made = zfs.create(zfs.root(), name, NewNode::File, 0o644, Cred::default()).await;
    let flags = WriteFlags { sync: true, ..WriteFlags::default() };
    zfs.write(made.expect("created").object, 0, &contents(len), flags).await.expect("written");
}

fn contents(len: usize) -> Vec<u8> {
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
struct Life {
    shape: &'static Shape,
    seed: u64,
    sim: Sim,
    images: usize,
    cuts: BTreeSet<(&'static str, usize)>,
    judged_by_zdb: usize,
}

impl Life {
    fn new(shape: &'static Shape, seed: u64) -> Self {
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::ssd());
        sim.stop_recording();
        Self { shape, seed, sim, images: 0, cuts: BTreeSet::new(), judged_by_zdb: 0 }
    }

    /// What the pool is in, brought up after a power cut.
    async fn state(&self, sim: &Sim) -> Vec<String> {
        let label = label_state(sim, self.shape).await;
        let how = ImportSpec { destroyed: label == Some(PoolState::Destroyed), ..ImportSpec::default() };
        let pool = self.shape.import_as(sim, quiet(), how).await.expect("every crash state imports");
        let mut seen = look(&pool).await;
        seen.push(format!("{label:?}"));
        check_file(&pool).await;
        while pool.facts().await.freeing_bytes != Some(0) {
            pool.sync_now().await.expect("txgs turn");
        }
        end_scrub(sim, &pool).await;
        if seen[0].contains("checkpoint: true") {
            pool.discard_checkpoint().await.expect("there is one");
            pool.wait_discarded().await.expect("txgs turn");
        }
        for dataset in pool.dsl().list(POOL).await.expect("it lists") {
            bring_up(&pool, &dataset.name).await;
            pool.close_filesystem(&dataset.name).await.expect("it closes");
        }
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        seen
    }

    /// Does something, marks that it is done, and says what the disks did meanwhile.
    fn record(&self, name: &str, act: impl Future<Output = Result<(), PoolError>>) -> Recording {
        run(&self.sim, async {
            self.sim.start_recording();
            act.await.expect("nothing is in its way");
            self.sim.mark(name);
            let recording = self.sim.recording();
            self.sim.stop_recording();
            recording
        })
    }

    /// The state in which a power cut at the end of the recording leaves the pool.
    fn state_after(&self, recording: &Recording) -> Vec<String> {
        let sim = recording.crash_images().last().expect("there is a cut at the end").boot(self.seed);
        sim.stop_recording();
        run(&sim, self.state(&sim))
    }

    /// Each image is in one of the two states, and in the second when that was promised; both are seen.
    fn judge(&mut self, name: &'static str, recording: &Recording, states: [&[String]; 2]) {
        assert_ne!(states[0], states[1], "{name}: nothing has changed");
        let mut seen = [0; 2];
        let plan = CrashPlan { subsets: SUBSETS, tears: TEARS, ..CrashPlan::new(self.seed) };
        let step = recording.crash_images_by(plan).count().div_ceil(IMAGES_MAX);
        for image in recording.crash_images_by(plan).step_by(step) {
            tell(format!("seed {}, \"{}\", {name}, {}", self.seed, self.shape.name, image.story()));
            let sim = image.boot(self.seed);
            sim.stop_recording();
            let is_chosen = self.images % ZDB_ONE_IN == ZDB_ONE_IN / 2;
            let with_zdb = is_chosen && ![DELEGATE, TAKE_BACK].contains(&name);
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
        assert!(seen[0] > 2 && seen[1] > 0, "{name}: {seen:?}, both were seen");
    }

    fn note(&mut self, name: &'static str, image: &CrashImage) {
        self.images += 1;
        self.cuts.insert((name, image.position().0));
    }

    fn by_zdb(&mut self, sim: &Sim) {
        space::judged_by_zdb(self.shape, sim);
        self.judged_by_zdb += 1;
    }

    /// Makes all the changes to a pool that is new, and closes it in the end.
    fn live(&mut self, end: PoolState) {
        let pool = run(&self.sim, async {
            let pool = self.shape.create(&self.sim, quiet()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            write(&fs.zfs, b"kept", FILE_BYTES).await;
            pool
        });
        let mut before = self.state_after(&self.record("make", pool.sync_now()));
        for (name, change) in CHANGES {
            tell(format!("seed {}, \"{}\", {name}", self.seed, self.shape.name));
            let recording = self.record(name, change(Arc::clone(&pool)));
            let after = self.state_after(&recording);
            self.judge(name, &recording, [&before, &after]);
            before = after;
        }
        let recording = self.record(CLOSE, pool.close(end));
        let after = self.state_after(&recording);
        assert_eq!(after.last(), Some(&format!("{:?}", Some(end))));
        self.judge(CLOSE, &recording, [&before, &after]);
    }
}

#[test]
fn a_power_cut_amid_administration_leaves_what_was_or_what_is_to_be() {
    let _tell = Tell;
    for (shape, seed, end) in [(&LOG, 60_000, PoolState::Exported), (&MIRROR, 60_001, PoolState::Destroyed)] {
        let mut life = Life::new(shape, seed);
        life.live(end);
        let (images, cuts, judged) = (life.images, life.cuts.len(), life.judged_by_zdb);
        println!("\"{}\": {images} images of {cuts} cuts, {judged} times judged by zdb", shape.name);
        assert!(cuts > 60 && images > 250, "{images} images of {cuts} cuts");
        assert!(judged > 5, "{judged} times judged");
    }
}

/// Whether there is a pool after a power cut while it was made; where there is none, one can be made.
async fn is_made(shape: &Shape, sim: &Sim, image: &CrashImage) -> bool {
    let found = shape.import(sim, quiet(), false).await;
    let is_there = found.is_ok();
    let pool = match found {
        Ok(pool) => pool,
        Err(error) => {
            assert!(!image.is_after("made"), "it was made: {error}");
            let vdevs = shape.vdevs_from(0);
            let spec =
                PoolSpec { name: POOL.into(), vdevs, root_props: Vec::new(), comment: None, force: true };
            Pool::create(sim.env(), spec, quiet()).await.expect("a pool is made of what was none")
        }
    };
    pool.filesystem(POOL).await.expect("its file system is there");
    space::check(&pool).await;
    pool.close(PoolState::Exported).await.expect("it closes");
    is_there
}

#[test]
fn a_power_cut_while_a_pool_is_made_leaves_it_whole_or_none() {
    let _tell = Tell;
    for (shape, seed) in [(&LOG, 60_100), (&MIRROR, 60_101)] {
        let life = Life::new(shape, seed);
        let recording =
            life.record("made", async { shape.create(&life.sim, quiet()).await.sync_now().await });
        let mut seen = [0; 2];
        for image in recording.crash_images().step_by(MADE_ONE_IN) {
            tell(format!("seed {seed}, \"{}\", {}", shape.name, image.story()));
            let sim = image.boot(seed);
            sim.stop_recording();
            let is_there = run(&sim, is_made(shape, &sim, &image));
            if seen[usize::from(is_there)] == 0 {
                space::judged_by_zdb(shape, &sim);
            }
            seen[usize::from(is_there)] += 1;
        }
        println!("\"{}\": {seen:?}, none and whole", shape.name);
        assert!(seen[0] > 20 && seen[1] > 20, "{seen:?}: both were seen");
    }
}
