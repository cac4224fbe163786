//! Pools with redundancy, with devices missing or overwritten: as long as what is left suffices,
//! everything reads as if nothing had happened.

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use oracle::golden;
use pool::PoolError;

use crate::manifest::Leave;
use crate::world::World;
use fastrand::Rng;

/// Noise lies between the labels at both ends, so that the device is still taken for what it was.
const NOISE_FROM_BYTES: u64 = 4 << 20;
const LABELS_AT_END_BYTES: u64 = 512 << 10;

/// Reads the pool without the images of these names.
fn reads_without(pool: &str, missing: &[&str]) {
    let mut world = World::golden(pool);
    world.without_logs = missing.contains(&"log");
    world.paths.retain(|path| !is_one_of(path, missing));
    world.check(&world.told("manifest.jsonl"), Leave::default());
}

/// Reads the pool when these images hold noise where their data were.
fn reads_over_noise(pool: &str, noisy: &[&str]) {
    reads_over_noise_without(pool, noisy, &[]);
}

fn is_one_of(path: &Path, names: &[&str]) -> bool {
    names.iter().any(|name| path.file_stem().is_some_and(|stem| stem == *name))
}

/// A copy that has the labels of the original, and noise between them.
fn noisy_copy(image: &Path, dir: &Path) -> PathBuf {
    let copy = dir.join(image.file_name().expect("images have names"));
    std::fs::copy(image, &copy).expect("images can be copied");
    let mut file = std::fs::File::options().write(true).open(&copy).expect("the copy is ours");
    file.seek(SeekFrom::Start(NOISE_FROM_BYTES)).expect("a file");
    let mut left = file.metadata().expect("just opened").len() - NOISE_FROM_BYTES - LABELS_AT_END_BYTES;
    let mut dice = Rng::with_seed(1);
    let mut noise = vec![0; 1 << 20];
    while left > 0 {
        dice.fill(&mut noise);
        let count = left.min(noise.len() as u64);
        file.write_all(&noise[..count as usize]).expect("room for the copy");
        left -= count;
    }
    copy
}

/// Reads the pool when some of its images are noise, and others are missing.
fn reads_over_noise_without(pool: &str, noisy: &[&str], missing: &[&str]) {
    let images = golden::images(pool);
    let dir = tempfile::tempdir().expect("a directory");
    let left = images.into_iter().filter(|path| !is_one_of(path, missing));
    let damaged = left.map(|path| match is_one_of(&path, noisy) {
        true => noisy_copy(&path, dir.path()),
        false => path,
    });
    let world = World::of(pool, damaged.collect());
    world.check(&world.told("manifest.jsonl"), Leave::default());
}

#[test]
fn g05_reads_without_any_one_of_its_devices_or_when_it_is_noise() {
    for bad in ["d1", "d2", "d3"] {
        reads_without("g05-raidz1", &[bad]);
        reads_over_noise("g05-raidz1", &[bad]);
    }
}

#[test]
fn g06_reads_without_any_two_of_its_devices_or_when_they_are_noise() {
    for (one, two) in [("d1", "d2"), ("d1", "d3"), ("d1", "d4"), ("d2", "d3"), ("d2", "d4"), ("d3", "d4")] {
        reads_without("g06-raidz2", &[one, two]);
        reads_over_noise("g06-raidz2", &[one, two]);
        reads_over_noise_without("g06-raidz2", &[one], &[two]);
    }
}

#[test]
fn g06_without_three_devices_is_refused_by_the_name_of_its_vdev() {
    let mut world = World::golden("g06-raidz2");
    world.paths.truncate(1);
    match world.import(true).map(|_| ()) {
        Err(PoolError::MissingVdev { vdev }) => assert_eq!(vdev.get(), 0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn g25_reads_without_any_one_of_its_devices_or_when_it_is_noise() {
    for bad in ["a", "b", "c", "d"] {
        reads_without("g25-expanded", &[bad]);
        reads_over_noise("g25-expanded", &[bad]);
    }
}

#[test]
fn g26_reads_without_any_one_of_its_devices_or_when_it_is_noise() {
    for bad in ["a", "b", "c", "d", "e", "f"] {
        reads_without("g26-draid", &[bad]);
        reads_over_noise("g26-draid", &[bad]);
    }
}

#[test]
fn g03_reads_from_either_side_of_the_mirror_and_without_its_log() {
    for missing in [["a"].as_slice(), &["b"], &["log"], &["a", "log"]] {
        reads_without("g03-mirror-log", missing);
    }
}

#[test]
fn g03_reads_when_either_side_of_the_mirror_is_noise() {
    for noisy in ["a", "b"] {
        reads_over_noise("g03-mirror-log", &[noisy]);
    }
}

#[test]
fn g05_reads_without_any_one_device() {
    for missing in ["d1", "d2", "d3"] {
        reads_without("g05-raidz1", &[missing]);
    }
}

#[test]
fn g05_reads_when_any_one_device_is_noise() {
    for noisy in ["d1", "d2", "d3"] {
        reads_over_noise("g05-raidz1", &[noisy]);
    }
}

#[test]
fn g06_reads_without_any_two_devices() {
    for missing in pairs() {
        reads_without("g06-raidz2", &missing);
    }
}

#[test]
fn g06_reads_when_any_two_devices_are_noise() {
    for noisy in pairs() {
        reads_over_noise("g06-raidz2", &noisy);
    }
}

fn pairs() -> impl Iterator<Item = [&'static str; 2]> {
    let names = ["d1", "d2", "d3", "d4"];
    (0..4).flat_map(move |one| (one + 1..4).map(move |two| [names[one], names[two]]))
}
