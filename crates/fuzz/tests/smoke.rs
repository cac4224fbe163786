//! A short run of every target, and two that must fail.

use std::sync::LazyLock;
use std::time::Duration;

use fuzz::{Corpus, Kind, TARGETS, Target, busy_time, run};
use rustix::process::{Resource, Rlimit, setrlimit};

const CASES: u64 = 20_000;
/// Of the program's address space: a decoder that believes a length goes beyond.
const MEMORY_MAX_BYTES: u64 = 4 << 30;

static CORPUS: LazyLock<Corpus> = LazyLock::new(|| {
    let limit = Rlimit { current: Some(MEMORY_MAX_BYTES), maximum: Some(MEMORY_MAX_BYTES) };
    setrlimit(Resource::As, limit).expect("memory can be limited");
    Corpus::golden()
});

#[test]
fn no_bytes_make_a_decoder_panic_or_hang() {
    for target in TARGETS {
        let ran = run(target, &CORPUS, 1, |cases| cases == CASES);
        assert_eq!(ran.map_err(|failure| format!("{failure:#?}")), Ok(CASES));
    }
}

#[test]
fn the_corpus_has_something_for_everybody() {
    for target in TARGETS {
        assert!(!CORPUS.of(target.eats).is_empty(), "nothing for {}", target.name);
    }
}

/// Trusts a length behind the magic number of an uberblock.
fn trusting(bytes: &[u8]) {
    if ondisk::UberblockPhys::decode(bytes).is_ok() {
        let len = bytes[8] as usize;
        assert!(bytes[..len].len() >= 16, "version 5000 says 136");
    }
}

#[test]
fn a_decoder_that_trusts_a_length_is_found() {
    let canary = Target { name: "canary", eats: Kind::Uberblock, run: trusting };
    let failure = run(&canary, &CORPUS, 1, |cases| cases == CASES).expect_err("the canary must be found");
    std::fs::remove_file(failure.kept_in).expect("what was found is kept");
}

/// Takes too long on a byte in a place where few mutants have it.
fn slow(bytes: &[u8]) {
    if bytes.first() == Some(&0xff) {
        let enough = busy_time() + Duration::from_millis(5100);
        while busy_time() < enough {}
    }
}

#[test]
fn a_decoder_that_hangs_is_found() {
    let canary = Target { name: "slow", eats: Kind::Label, run: slow };
    let failure =
        run(&canary, &Corpus::default(), 0, |cases| cases == 100_000).expect_err("it must be found");
    std::fs::remove_file(failure.kept_in).expect("what was found is kept");
}
