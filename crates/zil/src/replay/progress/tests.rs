use units::{Txg, ZilSeq};

use super::Progress;

fn seq(raw: u64) -> ZilSeq {
    ZilSeq::new(raw)
}

fn txg(raw: u64) -> Txg {
    Txg::new(raw)
}

fn begun(covered: u64, count: u64) -> Progress {
    let mut progress = Progress::new(seq(covered));
    (covered + 1..=covered + count).for_each(|raw| progress.begin(seq(raw)));
    progress
}

#[test]
fn the_header_covers_only_what_is_stable_with_it() {
    let mut progress = begun(3, 5);
    for (raw, in_txg) in [(5, 8), (8, 8), (4, 9), (7, 9)] {
        progress.note(seq(raw), txg(in_txg), true);
    }
    assert_eq!(progress.sync(txg(8)), seq(3));
    assert_eq!(progress.sync(txg(9)), seq(5));
    progress.note(seq(6), txg(10), true);
    assert_eq!(progress.sync(txg(10)), seq(8));
}

#[test]
fn records_without_effect_hold_nothing_up() {
    let mut progress = begun(0, 3);
    progress.end(seq(1));
    progress.note(seq(2), txg(5), false);
    progress.end(seq(2));
    progress.end(seq(3));
    assert_eq!(progress.sync(txg(4)), seq(1));
    assert_eq!(progress.sync(txg(5)), seq(3));
}

#[test]
fn a_record_of_several_transactions_is_stable_with_the_last() {
    let mut progress = begun(0, 1);
    progress.note(seq(1), txg(5), false);
    assert_eq!(progress.sync(txg(5)), seq(0), "the other part is still to come");
    progress.note(seq(1), txg(6), false);
    progress.end(seq(1));
    assert_eq!(progress.sync(txg(5)), seq(0));
    assert_eq!(progress.sync(txg(6)), seq(1));
    progress.end(seq(1));
}

#[test]
fn another_attempt_begins_behind_the_first_gap() {
    let mut progress = begun(0, 4);
    for raw in [1, 2, 4] {
        progress.note(seq(raw), txg(7), true);
    }
    assert_eq!(progress.restart(), seq(2));
    progress.begin(seq(3));
    assert_eq!(progress.sync(txg(7)), seq(2));
}

#[test]
fn numbers_that_no_record_has_take_no_memory() {
    let mut progress = Progress::new(seq(0));
    let numbers = [u64::MAX - 10, u64::MAX - 1, u64::MAX];
    for raw in numbers {
        progress.begin(seq(raw));
        progress.note(seq(raw), txg(4), true);
    }
    assert!(progress.marks.capacity() < 100, "{} marks for 3 records", progress.marks.capacity());
    assert_eq!(progress.sync(txg(3)), seq(0), "none of them is stable");
    assert_eq!(progress.sync(txg(4)), seq(u64::MAX));
}
