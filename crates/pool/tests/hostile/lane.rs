//! Image after image of one pool, for as long as a lane goes on.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use fastrand::Rng;
use oracle::golden;
use sim::{CrashImage, DiskSpec, Sim};

use crate::disks::Disks;
use crate::forge::{Forge, Kind, Patches};
use crate::mutate::mutate;
use crate::ours;
use crate::work::{Came, exercise};

/// So many images a lane tries, if it is not told how long it goes on: some of each kind, whatever else the machine does.
const IMAGES: u64 = 120;
/// An image that keeps a processor busy for longer is a loop without an end.
const IMAGE_LIMIT: Duration = Duration::from_secs(90);

/// A pool at rest, each of its disks a vdev.
pub struct Victim {
    pub lane: &'static str,
    pub pool: &'static str,
    pub paths: &'static [&'static str],
    pub image: CrashImage,
    pub disk_bytes: u64,
    /// Kinds of blocks for whose sake it is here.
    pub has: &'static [Kind],
    /// Seeds with which a long run has found a panic. The lane tries these seeds first.
    pub panicked: &'static [u64],
}

/// Of pools on one disk.
const ONE: &[&str] = &["/a"];

impl Victim {
    fn golden(lane: &'static str) -> Self {
        let bytes = std::fs::read(&golden::images(lane)[0]).expect("an image can be read");
        let disk_bytes = bytes.len() as u64;
        let sim = Sim::seed(1);
        sim.stop_recording();
        let disk = sim.add_disk(ONE[0], DiskSpec::instant(disk_bytes));
        for (n, page) in bytes.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|&byte| byte != 0))
        {
            disk.rot(n as u64 * 4096, page);
        }
        Self { lane, pool: "whirl", paths: ONE, image: sim.power_cut(0), disk_bytes, has: &[], panicked: &[] }
    }

    fn boot(&self, seed: u64, patches: &Patches) -> Sim {
        let sim = self.image.boot(seed);
        sim.stop_recording();
        patches.iter().for_each(|(disk, at, bytes)| sim.disk(self.paths[*disk]).rot(*at, bytes));
        sim
    }

    fn exercise(&self, sim: &Sim) -> Came {
        exercise(sim, self.pool, self.paths)
    }
}

/// Ends the program when an image takes too long: a loop that never waits ends no other way.
pub struct Watch {
    lane: &'static str,
    beats: Arc<AtomicU64>,
}

impl Watch {
    pub fn new(lane: &'static str) -> Self {
        let beats = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&beats);
        std::thread::spawn(move || {
            let mut last = 0;
            loop {
                std::thread::sleep(IMAGE_LIMIT);
                match seen.load(SeqCst) {
                    u64::MAX => return,
                    now if now == last => {
                        eprintln!("{lane}: image {now} never ends");
                        std::process::abort();
                    }
                    now => last = now,
                }
            }
        });
        Self { lane, beats }
    }

    /// An image is tried now. Its seed is left in the build directory.
    pub fn see(&self, seed: u64) {
        self.beats.store(seed, SeqCst);
        let note = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{}.txt", self.lane));
        let _ = std::fs::write(note, seed.to_string());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.beats.store(u64::MAX, SeqCst);
    }
}

/// By kind, which of the blocks.
type Kinds = BTreeMap<Kind, Vec<usize>>;

/// A change by this seed: of a block of a kind drawn first, so that rare kinds come as often as others.
fn forged(forge: &Forge<'_>, kinds: &Kinds, seed: u64) -> Option<(Kind, Patches)> {
    let mut dice = Rng::with_seed(seed);
    let (&kind, blocks) = kinds.iter().nth(dice.usize(..kinds.len()))?;
    let block = blocks[dice.usize(..blocks.len())];
    let mut data = forge.blocks[block].data.clone();
    mutate(&mut dice, kind, &mut data);
    Some((kind, forge.seal(block, data)?))
}

thread_local! {
    static PANICS: Cell<u64> = const { Cell::new(0) };
}

/// Does `work`, and returns `None` if `work` panics. A pool catches a panic of its txgs and stops, and such a panic
/// counts too.
pub fn without_a_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            print(panic);
        }));
    });
    let before = PANICS.get();
    let done = catch_unwind(AssertUnwindSafe(work)).ok();
    done.filter(|_| PANICS.get() == before)
}

pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The seed of the first image or stream of a lane, so that a run can go on where another has ended.
pub fn first_seed() -> u64 {
    number("SAWMILL_HOSTILE_FIRST").unwrap_or(1)
}

fn check(victim: &Victim) {
    let disks = Disks { image: &victim.image, paths: victim.paths, bytes: victim.disk_bytes };
    let forge = Forge::new(disks);
    let mut kinds = Kinds::new();
    for (n, block) in forge.blocks.iter().enumerate() {
        kinds.entry(block.kind).or_default().push(n);
    }
    for kind in victim.has {
        assert!(kinds.contains_key(kind), "{}: {kind:?} is not among {kinds:?}", victim.lane);
    }
    let untouched = victim.boot(0, &forge.seal(0, forge.blocks[0].data.clone()).expect("it fits"));
    assert_eq!(victim.exercise(&untouched), Came::Exported, "nothing is wrong with it");
    drop(untouched);
    let watch = Watch::new(victim.lane);
    let (begun, span) = (Instant::now(), number("SAWMILL_HOSTILE_SECONDS").map(Duration::from_secs));
    let goes_on = |seed: u64| span.map_or(seed < first_seed() + IMAGES, |span| begun.elapsed() < span);
    let only = number("SAWMILL_HOSTILE_SEED");
    let mut came: BTreeMap<String, usize> = BTreeMap::new();
    let known = victim.panicked.iter().copied().filter(|_| only.is_none());
    let goes_on = |seed: &u64| only.map_or_else(|| goes_on(*seed), |only| *seed == only);
    let more = (only.unwrap_or_else(first_seed)..).take_while(goes_on);
    let (mut tried, mut panics) = (0, Vec::new());
    for seed in known.chain(more) {
        watch.see(seed);
        let Some((kind, patches)) = forged(&forge, &kinds, seed) else { continue };
        let sim = victim.boot(seed, &patches);
        tried += 1;
        match without_a_panic(|| victim.exercise(&sim)) {
            Some(how) => *came.entry(format!("{how:?}")).or_default() += 1,
            None => panics.push((seed, kind)),
        }
    }
    println!(
        "{}: {tried} images, of {} blocks of {} kinds: {came:?}",
        victim.lane,
        forge.blocks.len(),
        kinds.len()
    );
    assert!(panics.is_empty(), "{}: seeds and kinds that panic: {panics:?}", victim.lane);
}

#[test]
fn a_pool_of_ours_sealed_again_is_an_error_or_can_be_used() {
    check(&ours::victim());
}

#[test]
fn gangs_and_logs_of_ours_on_two_disks_sealed_again_are_an_error_or_can_be_used() {
    check(&ours::torn());
}

#[test]
fn g02_sealed_again_is_an_error_or_can_be_used() {
    check(&Victim { panicked: &[4_000_189], ..Victim::golden("g02-single-default") });
}

#[test]
fn g10_sealed_again_is_an_error_or_can_be_used() {
    check(&Victim::golden("g10-snapshots-clones"));
}

#[test]
fn g15_sealed_again_is_an_error_or_can_be_used() {
    check(&Victim { has: &[Kind::Log], ..Victim::golden("g15-dirty-zil-nolog") });
}
