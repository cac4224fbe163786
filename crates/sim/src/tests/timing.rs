use std::time::Duration;

use env::{Durability, Env};
use futures::future::join_all;

use super::{open, put};
use crate::{DiskModel, DiskSpec, Sim, Slowness};

const TURN: Duration = Duration::from_micros(8333);

fn disk_of(model: DiskModel) -> Sim {
    let sim = Sim::seed(1);
    sim.add_disk("/a", DiskSpec::new(500_000_000_000, model));
    sim
}

/// The mean time of 50 stable writes of 8 KiB, one after another on the disk.
fn log_write(model: DiskModel) -> Duration {
    let sim = disk_of(model);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        for n in 0..50 {
            put(&*disk, n * 16, 16, 1, Durability::Stable).await.expect("written");
        }
    });
    sim.now() / 50
}

#[test]
fn a_log_on_a_platter_waits_a_turn_for_each_write() {
    let mean = log_write(DiskModel::sata_2007());
    assert!(mean > TURN * 9 / 10 && mean < TURN * 11 / 10, "{mean:?}");
}

#[test]
fn disks_are_as_fast_as_their_kind() {
    let ms = Duration::from_millis(1);
    assert_eq!(log_write(DiskModel::instant()), Duration::ZERO);
    let (ssd, plp, nvram) =
        (log_write(DiskModel::ssd()), log_write(DiskModel::ssd_with_plp()), log_write(DiskModel::nvram()));
    assert!(ssd > ms / 2 && ssd < ms * 3, "{ssd:?}");
    assert!(plp > ms / 100 && plp < ms / 10, "{plp:?}");
    assert!(nvram < ms / 100, "{nvram:?}");
}

#[test]
fn random_reads_of_a_platter_take_a_seek_and_half_a_turn() {
    let sim = disk_of(DiskModel::sata_2007());
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        for _ in 0..200 {
            let at = sim.random_u64() % (400 << 30) / 4096 * 4096;
            disk.read(units::LeafOffset::new(at), 4096).await.expect("read");
        }
    });
    let mean = sim.now() / 200;
    assert!(mean > Duration::from_millis(9) && mean < Duration::from_millis(18), "{mean:?}");
}

#[test]
fn a_flush_pays_for_what_the_cache_took() {
    let sim = disk_of(DiskModel::sata_2007());
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        let writes = (0..64).map(|n| put(&*disk, n * 1_000_000, 16, 1, Durability::Cached));
        let writes: Vec<_> = writes.collect();
        for result in join_all(writes).await {
            result.expect("written");
        }
        let cached = sim.now();
        assert!(cached < Duration::from_millis(100), "{cached:?}");
        disk.flush().await.expect("flushed");
        let flushed = sim.now() - cached;
        assert!(flushed > Duration::from_millis(200), "{flushed:?}");
        let before = sim.now();
        disk.flush().await.expect("flushed");
        assert!(sim.now() - before < Duration::from_millis(2), "nothing was left to do");
    });
}

#[test]
fn sequential_writes_reach_the_platters_speed() {
    let sim = disk_of(DiskModel::sata_2007());
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        for n in 0..200 {
            put(&*disk, n * 2048, 2048, 1, Durability::Cached).await.expect("written");
        }
        disk.flush().await.expect("flushed");
    });
    let per_second = (200_u64 << 20) as f64 / sim.now().as_secs_f64() / 1e6;
    assert!((50.0..100.0).contains(&per_second), "{per_second} MB/s");
}

#[test]
fn a_straggler_is_late_by_what_it_was_told() {
    let sim = disk_of(DiskModel::instant());
    sim.disk("/a").set_delay(Duration::from_millis(30));
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 1, 1, Durability::Stable).await.expect("written");
    });
    assert_eq!(sim.now(), Duration::from_millis(30));
}

#[test]
fn a_part_of_the_writes_is_so_many_times_slower() {
    const WRITES: usize = 2000;
    let took = |slowness| {
        let sim = disk_of(DiskModel::nvram());
        sim.disk("/a").slow_down(slowness);
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            let mut took = Vec::new();
            for n in 0..WRITES as u64 {
                let begun = sim.now();
                put(&*disk, n * 16, 16, 1, Durability::Stable).await.expect("written");
                took.push(sim.now() - begun);
            }
            took
        })
    };
    // Nothing takes longer than 20 µs and its transfer there, nor less than 2.
    let slow = |took: &[Duration]| took.iter().filter(|took| **took > Duration::from_micros(100)).count();
    assert_eq!(slow(&took(None)), 0);
    let few = slow(&took(Some(Slowness { one_in: 50, times: 100 })));
    assert!((20..=70).contains(&few), "{few} of {WRITES}");
    assert_eq!(slow(&took(Some(Slowness { one_in: 1, times: 100 }))), WRITES);
}

#[test]
fn parallel_requests_overlap_where_the_disk_can() {
    let time_of = |model| {
        let sim = disk_of(model);
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            let writes = (0..16).map(|n| put(&*disk, n * 64, 8, 1, Durability::Stable));
            let writes: Vec<_> = writes.collect();
            for result in join_all(writes).await {
                result.expect("written");
            }
        });
        sim.now()
    };
    let one_at_a_time = DiskModel { parallel: 1, ..DiskModel::ssd() };
    assert!(time_of(one_at_a_time) > time_of(DiskModel::ssd()) * 2);
}

#[test]
fn a_cache_that_outlives_a_power_cut_makes_writes_stable_at_once() {
    let mean = log_write(DiskModel::sata_2007().with_safe_cache());
    assert!(mean < Duration::from_millis(1), "{mean:?}");
    let sim = disk_of(DiskModel::sata_2007().with_safe_cache());
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 1_000_000, 16, 1, Durability::Cached).await.expect("written");
        let before = sim.now();
        disk.flush().await.expect("flushed");
        assert_eq!(sim.now(), before, "there is nothing to wait for");
    });
}

/// What each of 300 writes of 256 KiB took, one after another: 75 MiB, of which the cache holds 16.
#[test]
fn a_full_cache_takes_more_little_by_little() {
    let sim = disk_of(DiskModel::sata_2007());
    let longest = sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        let mut longest = Duration::ZERO;
        for n in 0..300 {
            let begun = sim.now();
            put(&*disk, n * 512, 512, 1, Durability::Cached).await.expect("written");
            longest = longest.max(sim.now() - begun);
        }
        longest
    });
    assert!(longest < Duration::from_millis(20), "{longest:?}");
}

#[test]
fn the_bytes_of_all_requests_pass_through_one_interface() {
    let model = DiskModel { bytes_per_second: 100_000_000, ..DiskModel::nvram() };
    let sim = disk_of(model);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        let writes: Vec<_> = (0..16).map(|n| put(&*disk, n * 2048, 2048, 1, Durability::Cached)).collect();
        join_all(writes).await.into_iter().for_each(|result| result.expect("written"));
    });
    let seconds = sim.now().as_secs_f64();
    assert!((0.167..0.169).contains(&seconds), "16 MiB took {seconds} s");
}
