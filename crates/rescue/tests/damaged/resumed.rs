//! Rescues that are interrupted and resumed.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rescue::{Rescue, RescueError, RescueSelection, RescueWatch};

use crate::told::check_all;
use crate::world::World;

/// Stops the process, as a kill does, after this number of bytes was copied.
struct KillAfter(AtomicU64);

impl RescueWatch for KillAfter {
    fn expect(&self, _: u64) {}

    fn add(&self, bytes: u64) {
        let left = self.0.fetch_sub(bytes.min(self.0.load(Ordering::Relaxed)), Ordering::Relaxed);
        if left <= bytes {
            std::panic::resume_unwind(Box::new("killed"));
        }
    }

    fn begin(&self, _: &str) {}
}

/// Runs until `bytes` were copied. Returns true if the rescue came to its end.
fn run_for(world: &World, bytes: u64) -> bool {
    let root = world.open().expect("a state");
    let killer = KillAfter(AtomicU64::new(bytes));
    let mut rescue = Rescue::begin(&root, &world.target(), &killer).expect("the target");
    rescue.note_every(Duration::ZERO);
    let run = || world.env.block_on(rescue.run(&RescueSelection::default())).expect("no error");
    catch_unwind(AssertUnwindSafe(run)).is_ok()
}

#[test]
fn a_rescue_that_was_killed_goes_on_where_it_was() {
    let whole = World::copy("g10-snapshots-clones");
    let expected = whole.rescue();
    let world = World::copy("g10-snapshots-clones");
    let mut runs = 0;
    // Each run copies a little more than the largest file, so that every run makes progress.
    while !run_for(&world, 2 << 20) {
        runs += 1;
        assert!(runs < 100, "it gets nowhere");
    }
    assert!(runs > 2, "{runs} kills");
    check_all(&world, |_| false);
    assert_eq!(world.rescue(), expected, "what is counted, after {runs} kills");
    let lines =
        |world: &World| world.report().iter().map(|line| format!("{line:?}")).collect::<BTreeSet<_>>();
    assert_eq!(lines(&world), lines(&whole));
}

#[test]
fn a_target_of_another_state_is_refused() {
    let world = World::copy("g02-single-default");
    world.rescue();
    let other = World::copy("g10-snapshots-clones");
    let root = other.open().expect("a state");
    let killer = KillAfter(AtomicU64::new(u64::MAX));
    let refused = Rescue::begin(&root, &world.target(), &killer);
    assert!(matches!(refused, Err(RescueError::OtherState { .. })));
}
