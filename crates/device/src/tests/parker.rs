use std::sync::Arc;
use std::time::Duration;

use crate::exec::parker::{ATTEMPT, Parker, Patience};

#[test]
fn waits_that_are_long_are_attempted_ever_less_and_one_that_is_short_changes_that() {
    let patience = Patience::default();
    let mut skipped = 0;
    let skips: Vec<u32> = std::iter::repeat_with(|| {
        while !patience.is_due() {
            skipped += 1;
        }
        patience.learn(false);
        std::mem::take(&mut skipped)
    })
    .take(9)
    .collect();
    assert_eq!(skips, [0, 1, 2, 4, 8, 16, 32, 64, 64]);
    while !patience.is_due() {}
    patience.learn(true);
    assert!(patience.is_due() && patience.is_due());
}

#[test]
fn a_wake_is_seen_whether_it_comes_before_in_time_or_late() {
    let parker = Arc::new(Parker::new());
    for pause in [Duration::ZERO, ATTEMPT / 2, ATTEMPT * 100] {
        parker.begin_poll();
        let waker = Arc::clone(&parker);
        let other = std::thread::spawn(move || {
            std::thread::sleep(pause);
            waker.notify();
        });
        while !parker.is_notified() {
            parker.park(None);
        }
        other.join().expect("a thread that only wakes");
    }
}
