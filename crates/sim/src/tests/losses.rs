use std::collections::BTreeSet;

use env::Durability::{Cached, Stable};
use env::{Device, FaultOp};
use futures::{join, poll};
use units::LeafOffset;

use super::{SECTOR, open, put, sectors, world};
use crate::{DiskModel, DiskSpec, Sim};

/// Returns the contents of the first sectors: one that was stable before, two that were in the
/// cache, and one of the stable write that fails.
async fn found(disk: &dyn Device) -> Vec<u8> {
    sectors(&disk.read(LeafOffset::new(0), 4 * SECTOR).await.expect("read"))
}

#[test]
fn a_stable_write_that_fails_takes_cached_writes_with_it_at_once() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let sim = world(seed, &["/a"]);
        let handle = sim.disk("/a");
        let now = sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            put(&*disk, 0, 3, 1, Stable).await.expect("written");
            put(&*disk, 1, 1, 2, Cached).await.expect("in the cache");
            put(&*disk, 2, 1, 2, Cached).await.expect("in the cache");
            handle.lose_cache_at(2);
            put(&*disk, 9, 1, 9, Stable).await.expect("the first passes");
            assert_eq!(found(&*disk).await, [1, 2, 2, 0]);
            put(&*disk, 3, 1, 3, Stable).await.expect_err("the second fails");
            let now = found(&*disk).await;
            disk.flush().await.expect("the loss was reported");
            assert_eq!(found(&*disk).await, now, "the flush brings nothing back");
            sim.mark("flushed");
            now
        });
        assert_eq!((handle.losses(), handle.peek(9 * 512, 1)[0]), (1, 9));
        assert_eq!(handle.forgotten_writes(), now[1..3].iter().filter(|byte| **byte == 1).count() as u64);
        let recording = sim.recording();
        for image in recording.crash_images().filter(|image| image.is_after("flushed")) {
            let left = sectors(&image.peek("/a", 0, 4 * SECTOR));
            assert_eq!(left[0], 1, "{}", image.story());
            for at in 1..3 {
                assert!(left[at] == 1 || now[at] == 2, "what was forgotten stays so: {}", image.story());
            }
        }
        seen.insert(now);
    }
    let lost = [[2, 2], [1, 2], [2, 1], [1, 1]];
    let expected = lost.iter().flat_map(|[a, b]| [0, 3].map(|failed| vec![1, *a, *b, failed]));
    assert_eq!(seen, expected.collect());
}

#[test]
fn what_a_loss_leaves_is_never_made_stable() {
    let mut kept = 0;
    for seed in 0..100 {
        let sim = world(seed, &["/a"]);
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            put(&*disk, 1, 1, 2, Cached).await.expect("in the cache");
            sim.disk("/a").lose_cache_at(1);
            disk.flush().await.expect_err("it loses the cache");
            disk.flush().await.expect("it has nothing to report");
        });
        let is_kept = sim.disk("/a").peek(512, 1) == [2];
        let left: BTreeSet<u8> =
            sim.recording().crash_images().map(|image| image.peek("/a", 512, 1)[0]).collect();
        assert!(left.contains(&0), "seed {seed}: a power cut takes it");
        kept += u64::from(is_kept);
    }
    assert!((1..100).contains(&kept), "reads found it in {kept} worlds of 100");
}

#[test]
fn a_flush_under_way_when_the_cache_is_lost_fails() {
    let (mut early, mut late) = (0, 0);
    for seed in 0..100 {
        let sim = Sim::seed(seed);
        sim.add_disk("/a", DiskSpec::new(1 << 20, DiskModel::ssd()));
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            put(&*disk, 0, 1, 1, Cached).await.expect("in the cache");
            sim.disk("/a").lose_cache_at(2);
            let mut flush = disk.flush();
            assert!(poll!(&mut flush).is_pending());
            let (failed, flushed) = join!(put(&*disk, 3, 1, 3, Stable), flush);
            failed.expect_err("ordered");
            let is_there = sectors(&disk.read(LeafOffset::new(0), SECTOR).await.expect("read")) == [1];
            // Either the flush ended before the loss, or it fails.
            assert!(flushed.is_err() || is_there);
            (early, late) = (early + u64::from(flushed.is_ok()), late + u64::from(flushed.is_err()));
        });
    }
    assert!(early > 0 && late > 0, "{early} ended before, {late} after");
}

#[test]
fn a_reset_fails_what_is_under_way_and_the_next_flush_and_loses_the_cache() {
    let mut forgotten = 0;
    for seed in 0..50 {
        let sim = world(seed, &["/a"]);
        let handle = sim.disk("/a");
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            put(&*disk, 0, 1, 1, Stable).await.expect("written");
            put(&*disk, 0, 1, 2, Cached).await.expect("in the cache");
            handle.reset_at(3);
            let (write, stable, read) = join!(
                put(&*disk, 5, 1, 5, Cached),
                put(&*disk, 6, 1, 6, Stable),
                disk.read(LeafOffset::new(0), SECTOR),
            );
            assert!(write.is_err() && stable.is_err() && read.is_err(), "all were under way");
            put(&*disk, 7, 1, 7, Cached).await.expect("a cached write knows nothing of it");
            disk.flush().await.expect_err("the reset is reported");
            disk.flush().await.expect("once");
        });
        let is_forgotten = handle.peek(0, 1) == [1];
        assert_eq!(is_forgotten, handle.forgotten_writes() == 1);
        forgotten += u64::from(is_forgotten);
    }
    assert!((1..50).contains(&forgotten), "{forgotten} of 50");
}

#[test]
fn a_disk_without_a_volatile_cache_loses_nothing() {
    let sim = Sim::seed(1);
    let model = DiskModel { has_volatile_cache: false, ..DiskModel::instant() };
    sim.add_disk("/a", DiskSpec::new(1 << 20, model));
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 1, 1, Cached).await.expect("written");
        sim.disk("/a").lose_cache_at(1);
        disk.flush().await.expect_err("ordered");
        assert_eq!(found(&*disk).await[0], 1);
    });
    assert_eq!(sim.disk("/a").forgotten_writes(), 0);
}

#[test]
fn one_seed_gives_one_history_of_losses() {
    let history = |seed: u64| {
        let sim = world(seed, &["/a"]);
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            for round in 0..20 {
                for at in 0..8 {
                    put(&*disk, at, 1, round, Cached).await.expect("in the cache");
                }
                sim.disk("/a").lose_cache_at(1);
                disk.flush().await.expect_err("ordered");
            }
        });
        (sim.recording().digest(), sim.disk("/a").peek(0, 8 * SECTOR))
    };
    assert!(history(5) == history(5));
    assert!(history(5).1 != history(6).1, "another seed loses others");
}

#[test]
fn a_bad_stretch_stays_bad_for_what_it_was_ordered_for() {
    let sim = world(1, &["/a"]);
    let handle = sim.disk("/a");
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 8, 1, Stable).await.expect("written");
        handle.faults().fail_within(FaultOp::Write, 2 * 512..4 * 512);
        handle.faults().fail_within(FaultOp::Read, 5 * 512..6 * 512);
        for _ in 0..3 {
            put(&*disk, 1, 2, 2, Cached).await.expect_err("it touches the stretch");
            put(&*disk, 3, 1, 2, Stable).await.expect_err("it lies in the stretch");
            disk.read(LeafOffset::new(5 * 512), SECTOR).await.expect_err("unreadable");
            put(&*disk, 0, 2, 3, Cached).await.expect("before it");
            put(&*disk, 4, 2, 3, Cached).await.expect("behind it, and only unreadable");
            disk.read(LeafOffset::new(2 * 512), 3 * SECTOR).await.expect("only unwritable");
        }
        handle.faults().heal();
        put(&*disk, 2, 2, 4, Cached).await.expect("well again");
        assert_eq!(
            sectors(&disk.read(LeafOffset::new(0), 6 * SECTOR).await.expect("read")),
            [3, 3, 4, 4, 3, 3]
        );
    });
}
