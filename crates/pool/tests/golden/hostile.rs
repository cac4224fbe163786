//! Golden pools with random damage: what can still be read is right, the rest is an error. Never
//! a panic, a hang, or other data.
//!
//! A round damages some sectors that hold something, reads everything, and mends them again. A
//! failure names pool and round; rounds come again with their seed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oracle::golden;

use crate::manifest::{Leave, Manifest, differences};
use crate::walk::walk;
use crate::world::{World, judge};
use fastrand::Rng;

const SECTOR_BYTES: usize = 512;
/// Longer than this is a hang.
const ROUND_LIMIT: Duration = Duration::from_secs(120);

/// A copy of an image that can be damaged and mended.
struct Victim {
    path: PathBuf,
    file: File,
    original: Vec<u8>,
    /// Sectors that are not all zeros.
    used: Vec<usize>,
    damaged: Vec<usize>,
}

impl Victim {
    fn copy(image: &Path, dir: &Path) -> Self {
        let path = dir.join(image.file_name().expect("images have names"));
        std::fs::copy(image, &path).expect("images can be copied");
        let original = std::fs::read(image).expect("images can be read");
        let sectors = original.chunks(SECTOR_BYTES).enumerate();
        let used = sectors.filter(|(_, bytes)| bytes.iter().any(|&b| b != 0)).map(|(at, _)| at).collect();
        let file = File::options().write(true).open(&path).expect("the copy is ours");
        Self { path, file, original, used, damaged: Vec::new() }
    }

    fn sector(&self, at: usize) -> &[u8] {
        &self.original[at * SECTOR_BYTES..(at + 1) * SECTOR_BYTES]
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, (at * SECTOR_BYTES) as u64).expect("the copy can be written to");
    }

    /// Damages one sector: a flipped bit, noise, zeros, or what another one holds.
    fn damage(&mut self, dice: &mut Rng) {
        let at = self.used[dice.usize(..self.used.len())];
        let mut bytes = self.sector(at).to_vec();
        match dice.usize(..4) {
            0 => bytes[dice.usize(..SECTOR_BYTES)] ^= 1 << dice.usize(..8),
            1 => bytes.fill_with(|| dice.u8(..)),
            2 => bytes.fill(0),
            _ => bytes.copy_from_slice(self.sector(self.used[dice.usize(..self.used.len())])),
        }
        self.put(at, &bytes);
        self.damaged.push(at);
    }

    fn mend(&mut self) {
        for at in std::mem::take(&mut self.damaged) {
            self.put(at, self.sector(at));
        }
    }
}

/// Ends the process, with a word, when it is not dropped in time: a hang ends no other way.
struct Watch(Arc<AtomicBool>);

impl Watch {
    fn over(what: String) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        std::thread::spawn(move || {
            std::thread::sleep(ROUND_LIMIT);
            if !seen.load(Ordering::SeqCst) {
                eprintln!("{what} hangs");
                std::process::abort();
            }
        });
        Self(done)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One round: whatever was read must be as told, and what is missing have left an error.
fn check(world: &World, told: &Manifest, what: &str) -> bool {
    let _watch = Watch::over(what.to_owned());
    let Ok(pool) = world.import(true) else { return false };
    let walked = walk(&world.env, &pool);
    let read: Manifest = told
        .iter()
        .filter(|(place, _)| walked.manifest.contains_key(*place))
        .map(|(p, e)| (p.clone(), e.clone()))
        .collect();
    let wrong = differences(&read, &walked.manifest, Leave::default());
    assert!(wrong.is_empty(), "{what}: wrong data:\n{}", wrong.join("\n"));
    assert!(
        read.len() == told.len() || !walked.errors.is_empty(),
        "{what}: objects are missing without an error"
    );
    !walked.errors.is_empty()
}

fn rounds(name: &str, rounds: u64) {
    let images = golden::images(name);
    let dir = tempfile::tempdir().expect("a directory");
    let mut victim = Victim::copy(&images[0], dir.path());
    let world = World::of(name, vec![victim.path.clone()]);
    let told = world.told("manifest.jsonl");
    let mut hurt = 0;
    for round in 1..=rounds {
        let mut dice = Rng::with_seed(round);
        for _ in 0..1 << (round % 9) {
            victim.damage(&mut dice);
        }
        hurt += u32::from(check(&world, &told, &format!("{name}, round {round}")));
        victim.mend();
    }
    assert!(hurt > 0, "{name}: no round damaged anything that counts");
    world.check(&told, Leave::default());
}

#[test]
fn g01_damaged_reads_right_or_not_at_all() {
    rounds("g01-single-nofeat", 18);
}

#[test]
fn g02_damaged_reads_right_or_not_at_all() {
    rounds("g02-single-default", 18);
}

#[test]
fn g23_damaged_reads_right_or_not_at_all() {
    rounds("g23-removed", 9);
}

#[test]
fn g10_damaged_reads_right_or_not_at_all() {
    rounds("g10-snapshots-clones", 18);
}

#[test]
fn g03_with_damage_on_one_side_of_its_mirror_reads_as_if_nothing_had_happened() {
    let images = golden::images("g03-mirror-log");
    let dir = tempfile::tempdir().expect("a directory");
    for side in 0..2 {
        let mut victim = Victim::copy(&images[side], dir.path());
        let mut paths = images.clone();
        paths[side].clone_from(&victim.path);
        let world = World::of("g03-mirror-log", paths);
        let told = world.told("manifest.jsonl");
        for round in 1..=9 {
            let what = format!("g03, side {side}, round {round}");
            let mut dice = Rng::with_seed(round);
            for _ in 0..1 << round {
                victim.damage(&mut dice);
            }
            let _watch = Watch::over(what.clone());
            judge(&what, &world.read(), &told, Leave::default());
            victim.mend();
        }
    }
}
