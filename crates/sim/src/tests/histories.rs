//! All histories of three operations on two sectors, held against a second, simpler way
//! of telling what a power cut may leave.

use std::collections::BTreeSet;

use env::{Device, Durability};

use super::{SECTOR, open, put, sectors, world};
use crate::{CrashPlan, Cuts};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Write { at: u64, count: usize, durability: Durability },
    Flush,
}

const OPS: [Op; 7] = {
    use Durability::{Cached, Stable};
    [
        Op::Write { at: 0, count: 1, durability: Cached },
        Op::Write { at: 1, count: 1, durability: Cached },
        Op::Write { at: 0, count: 2, durability: Cached },
        Op::Write { at: 0, count: 1, durability: Stable },
        Op::Write { at: 1, count: 1, durability: Stable },
        Op::Write { at: 0, count: 2, durability: Stable },
        Op::Flush,
    ]
};

/// Numbers the writes from 1 and writes their numbers.
async fn run(disk: &dyn Device, history: &[Op]) {
    for (n, &op) in history.iter().enumerate() {
        match op {
            Op::Write { at, count, durability } => {
                put(disk, at, count, n as u8 + 1, durability).await.expect("written");
            }
            Op::Flush => disk.flush().await.expect("flushed"),
        }
    }
}

/// What one sector may hold once all of `history` has happened: what was last made stable
/// there, or anything written there since.
fn allowed(history: &[Op], sector: u64) -> BTreeSet<u8> {
    let mut allowed = BTreeSet::from([0]);
    let mut last = 0;
    for (n, &op) in history.iter().enumerate() {
        match op {
            Op::Write { at, count, durability } if (at..at + count as u64).contains(&sector) => {
                last = n as u8 + 1;
                if durability == Durability::Stable {
                    allowed.clear();
                }
                allowed.insert(last);
            }
            Op::Write { .. } => {}
            Op::Flush => allowed = BTreeSet::from([last]),
        }
    }
    allowed
}

fn check(history: &[Op]) {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        run(&*disk, history).await;
        sim.mark("end");
    });
    let plan = CrashPlan { exhaustive_up_to: 3, cuts: Cuts::Everywhere, ..CrashPlan::new(1) };
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    for image in sim.recording().crash_images_by(plan).filter(|image| image.is_after("end")) {
        for (found, byte) in found.iter_mut().zip(sectors(&image.peek("/a", 0, 2 * SECTOR))) {
            found.insert(byte);
        }
    }
    assert_eq!(found, [allowed(history, 0), allowed(history, 1)], "{history:?}");
}

#[test]
fn all_histories_of_three_operations_leave_what_they_may_and_nothing_else() {
    for first in OPS {
        for second in OPS {
            for third in OPS {
                check(&[first, second, third]);
            }
        }
    }
}
