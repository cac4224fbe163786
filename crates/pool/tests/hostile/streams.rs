//! Hostile streams: the records of a sound stream are changed, and sealed again with right checksums.
//!
//! ```text
//!  sound stream ─► records ─► twist ─► seal ─► receive into a pool from its image ─► judge ─► scrub
//!  (golden, ours)             fields, payloads, lists, order
//! ```
//! Checksums find nothing then, and each record is somebody's intent. (One stream in sixteen has
//! wrong checksums.) A stream is received whole or refused. In both cases:
//! - Nothing panics, waits for ever, or takes more memory than the allocator of this program allows.
//! - Datasets outside the target have the same guids and roots as before. A refused stream leaves
//!   nothing, except for a part with a note where the receive was to be resumable.
//! - What was received can be walked, read, written to and sent: each call returns bytes or an error.
//! - A sound stream is received into another dataset afterwards.
//! - The pool is exported and imported again, a scrub finds no error, and the allocated sectors are
//!   those of the blocks that can be reached.
//!
//! The same is done with streams that heal a snapshot with damaged blocks.
//!
//! A lane that is told how long it goes on has the last three of these for one stream in
//! [`WHOLE_ONE_IN`], so that it tries more streams.
//!
//! The environment variables are those of the images. A seed draws the stream, its changes, and the
//! flags of the receive.

mod attempt;
mod census;
mod fields;
mod heal;
mod package;
mod quarry;
mod record;
mod sound;
mod trial;
mod twist;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::lane::{Watch, first_seed, number, without_a_panic};
use attempt::Attempt;
use heal::Healing;
use quarry::{QUARRY, Source};
use trial::{By, Trial};

/// Of all streams, at least one in so many is received, and one in so many refused.
const FAIR_SHARE: u64 = 20;
/// In a long lane, what a pool is judged by takes much longer than the receive.
const WHOLE_ONE_IN: u64 = 8;
/// The outcome of a stream that was received whole.
const RECEIVED: &str = "received";

/// True if all is done with the pool that received the stream of this seed.
fn is_whole(seed: u64) -> bool {
    number("SAWMILL_HOSTILE_SECONDS").is_none() || seed.is_multiple_of(WHOLE_ONE_IN)
}

/// A lane: its name, the streams that it changes, and the number of streams that it tries unless
/// the environment says how long it goes on.
struct StreamLane {
    name: &'static str,
    sources: &'static [Source],
    streams: u64,
}

/// Tries one changed stream after the other. `try_one` returns the outcome.
fn check(lane: &StreamLane, try_one: impl Fn(&Attempt, u64) -> String) {
    let StreamLane { name: lane, sources, streams } = *lane;
    let watch = Watch::new(lane);
    let (begun, span) = (Instant::now(), number("SAWMILL_HOSTILE_SECONDS").map(Duration::from_secs));
    let only = number("SAWMILL_HOSTILE_SEED");
    let goes_on = |seed: u64| span.map_or(seed < first_seed() + streams, |span| begun.elapsed() < span);
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    let (mut seed, mut panics) = (only.unwrap_or_else(first_seed), Vec::new());
    while only.map_or_else(|| goes_on(seed), |only| only == seed) {
        watch.see(seed);
        let attempt = Attempt::of(sources, seed);
        if only.is_some() {
            println!("{}", attempt.story());
        }
        match without_a_panic(|| try_one(&attempt, seed)) {
            Some(outcome) => *outcomes.entry(outcome).or_default() += 1,
            None => panics.push((seed, attempt.source.name)),
        }
        seed += 1;
    }
    let tried: u64 = outcomes.values().sum();
    println!("{lane}: {tried} streams in {:?}: {outcomes:?}", begun.elapsed());
    assert!(panics.is_empty(), "{lane}: seeds and streams that panic: {panics:?}");
    if only.is_none() {
        let received = outcomes.get(RECEIVED).copied().unwrap_or_default();
        let least = received.min(tried - received);
        assert!(least * FAIR_SHARE > tried, "{lane}: {received} of {tried} were received");
    }
}

#[test]
fn sound_streams_are_received() {
    for (by, sources) in [(By::Pool, &QUARRY.sources), (By::Engine, &QUARRY.packages)] {
        let trial = Trial::new(by);
        for source in sources {
            assert_eq!(trial.try_one(&Attempt::sound(source), 1), RECEIVED, "{}", source.name);
        }
    }
    for source in &QUARRY.healers {
        assert_eq!(Healing::new().try_one(&Attempt::sound(source), 1), RECEIVED, "{}", source.name);
    }
}

#[test]
fn streams_sealed_again_are_received_or_refused() {
    let trial = Trial::new(By::Pool);
    let lane = StreamLane { name: "streams", sources: &QUARRY.sources, streams: 45 };
    check(&lane, |attempt, seed| trial.try_one(attempt, seed));
}

#[test]
fn packages_sealed_again_are_received_or_refused() {
    let trial = Trial::new(By::Engine);
    let lane = StreamLane { name: "packages", sources: &QUARRY.packages, streams: 20 };
    check(&lane, |attempt, seed| trial.try_one(attempt, seed));
}

#[test]
fn streams_that_heal_sealed_again_write_over_damaged_blocks_alone() {
    let healing = Healing::new();
    let lane = StreamLane { name: "healing", sources: &QUARRY.healers, streams: 20 };
    check(&lane, |attempt, seed| healing.try_one(attempt, seed));
}
