//! What is being tried, for whoever reads that it failed.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use env::Env;
use futures::future::{Either, select};
use sim::{CrashImage, Recording, Sim};

/// Nothing tried here takes that long in virtual time.
const LONG: Duration = Duration::from_secs(3600);

thread_local! {
    static STORY: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Tells the story when its test fails.
pub struct Tell;

impl Drop for Tell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            STORY.with_borrow(|story| eprintln!("FAILED: {story}"));
        }
    }
}

/// From now on this is what is being tried.
pub fn tell(story: String) {
    STORY.set(story);
}

/// A number from the environment.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text}")))
}

/// Crash states spread over all of a run's, about `usual` of them, or as many as the environment asks for. They are made
/// one at a time, for each is a whole world.
pub fn drawn(recording: &Recording, usual: usize) -> impl Iterator<Item = CrashImage> {
    let wanted = number("SAWMILL_CRASH_IMAGES").map_or(usual, |count| count as usize);
    let all = recording.crash_images().count();
    recording.crash_images().step_by(all.div_ceil(wanted))
}

/// Runs a world until `work` is done. A world in which nothing gets done any more, though its
/// clocks tick, is stopped.
pub fn run<T>(sim: &Sim, work: impl Future<Output = T>) -> T {
    let limit = sim.sleep(LONG);
    sim.run_until(async {
        match select(pin!(work), limit).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => panic!("not done after {LONG:?} of virtual time: somebody waits for ever"),
        }
    })
}
