//! Labels and uberblocks torn at every sector.
//!
//! ```text
//!  before ─► labels 0, 2 ─► uberblock ─► labels 1, 3 ─► after
//!              torn at        torn at       torn at
//! ```
//! A txg that changes the configuration writes in this order, with flushes between. Of each
//! step every prefix of sectors is tried, on all disks at once, with and without a sector of noise
//! where the prefix ends. The pool must be there, as of this txg once its uberblock is whole, as
//! of the last one before.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::time::Duration;

use ondisk::label::{CONFIG_BYTES, CONFIG_OFFSET, LABELS, label_offset};
use ondisk::label::{UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET};
use pool::Tuning;
use sim::{CrashImage, DiskModel, Sim};
use zpl::{Cred, NewNode, WriteFlags};

use crate::shape::{DISK_BYTES, LOG, MIRROR, POOL, SINGLE, STRIPE, Shape};
use crate::space;
use crate::story::{Tell, run, tell};

const SECTOR: usize = 512;
/// Sectors of a configuration that are tried one by one at its start and end; of those between,
/// which are zeros for the most part, one in so many.
const EDGE_SECTORS: usize = 12;
const MIDDLE_STEP: usize = 24;
const OLD: &[u8] = b"as it was";
const NEW: &[u8] = b"as it is.";

/// Txgs end when the test says so.
fn patient() -> Tuning {
    Tuning { txg_timeout: Duration::from_secs(100_000), ..Tuning::default() }
}

/// A part of a label, the same on every disk.
#[derive(Clone, Copy)]
struct Part {
    label: usize,
    offset: u64,
    bytes: usize,
}

const fn config(label: usize) -> Part {
    Part { label, offset: CONFIG_OFFSET, bytes: CONFIG_BYTES }
}

const fn ring(label: usize) -> Part {
    Part { label, offset: UBERBLOCK_RING_OFFSET, bytes: UBERBLOCK_RING_BYTES as usize }
}

impl Part {
    fn on_disk(self) -> u64 {
        label_offset(DISK_BYTES, self.label).expect("the disk has labels").get() + self.offset
    }

    fn of(self, peek: impl Fn(u64, usize) -> Vec<u8>) -> Vec<u8> {
        peek(self.on_disk(), self.bytes)
    }
}

/// All label parts of a disk.
struct Labels {
    path: PathBuf,
    configs: Vec<Vec<u8>>,
    rings: Vec<Vec<u8>>,
}

impl Labels {
    fn of(sim: &Sim, path: PathBuf) -> Self {
        let disk = sim.disk(&path);
        let all = |part: fn(usize) -> Part| {
            (0..LABELS).map(|label| part(label).of(|at, len| disk.peek(at, len))).collect()
        };
        Self { configs: all(config), rings: all(ring), path }
    }

    /// The first and last sector of the ring that `other` has otherwise: the uberblock's slot.
    fn slot(&self, other: &Self) -> std::ops::Range<usize> {
        let pairs = self.rings[0].chunks(SECTOR).zip(other.rings[0].chunks(SECTOR));
        let differing: Vec<usize> =
            pairs.enumerate().filter(|(_, (a, b))| a != b).map(|(sector, _)| sector).collect();
        match (differing.first(), differing.last()) {
            (Some(first), Some(last)) => *first..*last + 1,
            _ => 0..0,
        }
    }
}

/// What a txg did, and the states of the labels on either side of it.
struct Group {
    shape: &'static Shape,
    after_image: CrashImage,
    before: Vec<Labels>,
    after: Vec<Labels>,
}

impl Group {
    /// One that changes a file and the configuration.
    fn record(shape: &'static Shape) -> Self {
        let sim = Sim::seed(77);
        shape.add_disks(&sim, DiskModel::instant());
        let labels = || shape.disks().map(|path| Labels::of(&sim, path)).collect();
        let (before, after) = run(&sim, async {
            let pool = shape.create(&sim, patient()).await;
            let zfs = pool.filesystem(POOL).await.expect("the root file system opens").zfs.clone();
            let node = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
            let file = node.expect("create").object;
            zfs.write(file, 0, OLD, WriteFlags::default()).await.expect("write");
            pool.set_comment(Some("before".into())).await.expect("a comment");
            pool.sync_now().await.expect("sync");
            let before: Vec<Labels> = labels();
            sim.start_recording();
            zfs.write(file, 0, NEW, WriteFlags::default()).await.expect("write");
            pool.set_comment(Some("after".into())).await.expect("a comment");
            (before, labels())
        });
        let after_image = sim.recording().crash_images().last().expect("there is a last state");
        Self { shape, after_image, before, after }
    }

    /// The disks as `choose` says: a part as before or after.
    fn boot(&self, tear: &Tear) -> Sim {
        let sim = self.after_image.boot(5);
        for (before, after) in self.before.iter().zip(&self.after) {
            let disk = sim.disk(&before.path);
            let slot = after.slot(before);
            for label in 0..LABELS {
                let progress = tear.config(label);
                let bytes = progress.mix(0, &before.configs[label], &after.configs[label]);
                disk.rot(config(label).on_disk(), &bytes);
                let bytes = tear.slot().mix(slot.start, &before.rings[label], &after.rings[label]);
                disk.rot(ring(label).on_disk(), &bytes);
            }
        }
        sim
    }

    fn check(&self, tear: &Tear) {
        tell(format!("shape \"{}\", {tear:?}", self.shape.name));
        let sim = self.boot(tear);
        run(&sim, async {
            let pool = self.shape.import(&sim, patient(), false).await.expect("a torn label is no obstacle");
            let zfs = pool.filesystem(POOL).await.expect("the file system opens").zfs.clone();
            let file = zfs.lookup(zfs.root(), b"file").await.expect("the file is there").object;
            let mut found = vec![0; NEW.len()];
            zfs.read(file, 0, &mut found).await.expect("it reads");
            let comment = pool.comment().expect("there is one");
            match tear.step {
                Step::Even => assert_eq!((&*found, &*comment), (OLD, "before")),
                Step::Odd => assert_eq!((&*found, &*comment), (NEW, "after")),
                // A ring's slot is there or not; part of it is as good as nothing.
                Step::Uberblock => {
                    let pair = (&*found, &*comment);
                    assert!(pair == (OLD, "before") || pair == (NEW, "after"), "half a group: {pair:?}");
                }
            }
            drop(zfs);
            space::check(&pool).await;
        });
    }
}

/// In their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Even,
    Uberblock,
    Odd,
}

/// Where the power went.
#[derive(Debug)]
struct Tear {
    step: Step,
    /// So many sectors of the step's writes are on the disk.
    sectors: usize,
    /// The next one is neither old nor new.
    noise: bool,
}

impl Tear {
    fn config(&self, label: usize) -> Progress {
        let step = if label.is_multiple_of(2) { Step::Even } else { Step::Odd };
        self.progress(step)
    }

    fn slot(&self) -> Progress {
        self.progress(Step::Uberblock)
    }

    fn progress(&self, step: Step) -> Progress {
        match step.cmp(&self.step) {
            Ordering::Less => Progress::Done,
            Ordering::Equal => Progress::Torn { sectors: self.sectors, noise: self.noise },
            Ordering::Greater => Progress::Ahead,
        }
    }
}

/// How far a write had got.
enum Progress {
    Ahead,
    Torn { sectors: usize, noise: bool },
    Done,
}

impl Progress {
    /// What is on the disk of a write that began at sector `start`.
    fn mix(&self, start: usize, before: &[u8], after: &[u8]) -> Vec<u8> {
        let (sectors, noise) = match self {
            Self::Ahead => return before.to_vec(),
            Self::Done => return after.to_vec(),
            Self::Torn { sectors, noise } => (*sectors, *noise),
        };
        let cut = ((start + sectors) * SECTOR).min(after.len());
        let mut mixed = [&after[..cut], &before[cut..]].concat();
        if noise && before[cut..] != after[cut..] {
            mixed[cut..cut + SECTOR].fill(0xa5);
        }
        mixed
    }
}

/// Every place where a write of `all` sectors can end.
fn places(all: usize) -> impl Iterator<Item = usize> {
    (0..=all).filter(move |sector| {
        *sector < EDGE_SECTORS || *sector + EDGE_SECTORS > all || sector.is_multiple_of(MIDDLE_STEP)
    })
}

fn tear_everywhere(shape: &'static Shape) {
    let _tell = Tell;
    let group = Group::record(shape);
    let slot = group.after[0].slot(&group.before[0]).len();
    assert!(slot > 0, "the group has an uberblock");
    let configs = CONFIG_BYTES / SECTOR;
    for (step, all) in [(Step::Even, configs), (Step::Uberblock, slot), (Step::Odd, configs)] {
        for sectors in places(all) {
            for noise in [false, true] {
                group.check(&Tear { step, sectors, noise });
            }
        }
    }
}

#[test]
fn a_single_disk_outlives_labels_torn_at_any_sector() {
    tear_everywhere(&SINGLE);
}

#[test]
fn a_stripe_outlives_labels_torn_at_any_sector() {
    tear_everywhere(&STRIPE);
}

#[test]
fn a_mirror_outlives_labels_torn_at_any_sector() {
    tear_everywhere(&MIRROR);
}

#[test]
fn a_pool_with_a_log_outlives_labels_torn_at_any_sector() {
    tear_everywhere(&LOG);
}
