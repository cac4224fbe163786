//! Running a target on many mutants.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::{Corpus, Mutator, Target};

/// A mutant that keeps a processor busy for longer makes somebody hang. Decoders wait for nothing.
const ONE_CASE_MAX: Duration = Duration::from_secs(5);
/// Every so many cases the bytes are random altogether.
const NOISE_EVERY: u64 = 16;

/// A target that did not answer as it should.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which.
    pub target: &'static str,
    /// The seed of the mutant.
    pub seed: u64,
    /// Where the bytes were put.
    pub kept_in: PathBuf,
    /// What happened.
    pub what: String,
}

/// Runs `target` on the mutants of seeds from `first_seed` on, until `enough` says so of the number
/// of cases run.
///
/// # Errors
/// The first mutant that made it panic, or take too long.
pub fn run(
    target: &Target,
    corpus: &Corpus,
    first_seed: u64,
    enough: impl Fn(u64) -> bool,
) -> Result<u64, Failure> {
    let samples = corpus.of(target.eats);
    let mut cases = 0;
    while !enough(cases) {
        let seed = first_seed.wrapping_add(cases);
        one_case(target, &input(seed, &samples)).map_err(|(what, bytes)| Failure {
            target: target.name,
            seed,
            kept_in: keep(target, &bytes),
            what,
        })?;
        cases += 1;
    }
    Ok(cases)
}

fn input(seed: u64, samples: &[&[u8]]) -> Vec<u8> {
    let mut mutator = Mutator::new(seed);
    if samples.is_empty() || seed.is_multiple_of(NOISE_EVERY) {
        let len = mutator.below(4096);
        return std::iter::repeat_with(|| mutator.draw() as u8).take(len).collect();
    }
    let (bytes, other) = (*mutator.pick(samples), *mutator.pick(samples));
    mutator.mutant(bytes, other)
}

fn one_case(target: &Target, bytes: &[u8]) -> Result<(), (String, Vec<u8>)> {
    let start = busy_time();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    let took = busy_time().saturating_sub(start);
    match outcome {
        Err(panic) => Err((said(&*panic), bytes.to_vec())),
        Ok(()) if took > ONE_CASE_MAX => Err((format!("took {took:?}"), bytes.to_vec())),
        Ok(()) => Ok(()),
    }
}

/// Of this thread, whatever else the machine does.
pub fn busy_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

fn keep(target: &Target, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("fuzz-{}-{:016x}", target.name, digest(bytes)));
    match std::fs::write(&path, bytes) {
        Ok(()) => path,
        Err(_) => PathBuf::from("(could not be kept)"),
    }
}

/// Tells files of different bytes apart (FNV-1a).
fn digest(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
