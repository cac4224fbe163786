use std::collections::BTreeSet;

use env::{Durability, FaultOp};
use futures::future::join;
use units::LeafOffset;

use super::{SECTOR, open, put, world};
use crate::{CrashPlan, Sim};

const LEN: u64 = 4 * SECTOR as u64;

/// A disk with four sectors of ones, made stable, which are discarded then.
fn discarded(seed: u64) -> Sim {
    let sim = world(seed, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 4, 1, Durability::Stable).await.expect("written");
        sim.start_recording();
        disk.discard(LeafOffset::new(0), LEN).await.expect("discarded");
        sim.mark("discarded");
    });
    sim
}

fn found(sim: &Sim) -> Vec<u8> {
    sim.disk("/a").peek(0, LEN as usize)
}

#[test]
fn what_is_discarded_is_anything_and_stays_so() {
    let mut kinds = [0; 3];
    for seed in 0..40 {
        let sim = discarded(seed);
        let now = found(&sim);
        assert_eq!(now, found(&sim), "it does not change from one look to the next");
        sim.run_until(async { open(&sim.env(), "/a").await.flush().await.expect("flushed") });
        assert_eq!(found(&sim.power_cut(1).boot(1)), now, "seed {seed}");
        let kind = [vec![1; LEN as usize], vec![0; LEN as usize]].iter().position(|plain| *plain == now);
        kinds[kind.unwrap_or(2)] += 1;
    }
    assert!(kinds.iter().all(|&count| count > 4), "old bytes, zeros, noise: {kinds:?}");
}

#[test]
fn a_cut_leaves_a_discard_done_or_not_done() {
    let mut changed = 0;
    for seed in 0..10 {
        let sim = discarded(seed);
        let recording = sim.recording();
        assert_eq!(recording.discards(), 1);
        let images =
            recording.crash_images_by(CrashPlan::new(seed)).filter(|image| image.is_after("discarded"));
        let states: BTreeSet<Vec<u8>> = images.map(|image| image.peek("/a", 0, LEN as usize)).collect();
        assert!(states.contains(&vec![1; LEN as usize]) && states.contains(&found(&sim)), "seed {seed}");
        changed += usize::from(states.len() > 1);
    }
    assert!(changed > 4, "{changed} of 10");
}

#[test]
fn a_write_amid_a_discard_may_be_lost_with_it() {
    let lost = (0..40).filter(|&seed| {
        let sim = world(seed, &["/a"]);
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            let discard = disk.discard(LeafOffset::new(0), LEN);
            let (done, written) = join(discard, put(&*disk, 0, 4, 2, Durability::Stable)).await;
            done.and(written).expect("both are acknowledged");
        });
        found(&sim) != vec![2; LEN as usize]
    });
    assert!((1..40).contains(&lost.count()));
}

#[test]
fn a_discard_that_fails_changes_nothing() {
    for seed in 0..10 {
        let sim = world(seed, &["/a"]);
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            put(&*disk, 0, 4, 1, Durability::Stable).await.expect("written");
            sim.disk("/a").faults().fail_all(FaultOp::Discard);
            disk.discard(LeafOffset::new(0), LEN).await.expect_err("as ordered");
            disk.flush().await.expect("flushed");
        });
        assert_eq!(found(&sim.power_cut(1).boot(1)), vec![1; LEN as usize]);
    }
}
