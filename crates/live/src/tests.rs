//! Looks that are made up, and what lies between them by hand.

use super::*;
use advise::Rating;
use control::{
    LeafOps, LogDatasetInfo, LogFacts, LogLeafInfo, LogThreadInfo, LogUsers, LogVdevInfo, PoolInfo,
    StorageInfo, VdevClass, VdevInfo, VdevKind, VdevState,
};
use units::LATENCY_BUCKETS;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// Counts with so many in the buckets that end at 2^bucket ns.
fn counts(given: &[(usize, u64)]) -> Vec<u64> {
    let mut all = vec![0; LATENCY_BUCKETS];
    given.iter().for_each(|&(bucket, count)| all[bucket] = count);
    all
}

fn leaf(guid: u64, writes: u64) -> LogLeafInfo {
    LogLeafInfo {
        guid,
        path: "/dev/log".into(),
        kind: VdevKind::Disk,
        state: VdevState::Online,
        size_bytes: 100 * MIB,
        reads: LeafOps::default(),
        writes: LeafOps { ops: writes, bytes: writes * 8_192, nanos: writes * 50_000 },
        flushes: LeafOps { ops: writes / 2, bytes: 0, nanos: writes / 2 * 100_000 },
        flush_times: counts(&[(17, writes / 2)]),
        storage: StorageInfo::default(),
    }
}

fn vdev(id: u64, class: VdevClass, blocks: u64) -> LogVdevInfo {
    LogVdevInfo {
        id,
        class,
        kind: VdevKind::Disk,
        state: VdevState::Online,
        space_bytes: 80 * MIB,
        held_bytes: 20 * MIB,
        blocks,
        block_bytes: blocks * 8_192,
        writes: counts(&[(16, blocks)]),
        flushes: counts(&[]),
        leaves: vec![leaf(100 + id, blocks)],
    }
}

fn pool() -> PoolInfo {
    PoolInfo::new("tank", VdevInfo::new(VdevKind::Root, 0, 1, VdevClass::Normal))
}

fn dataset(objset: u64, commits: u64, latency: &[(usize, u64)]) -> LogDatasetInfo {
    LogDatasetInfo {
        name: format!("tank/{objset}"),
        objset,
        commits,
        commits_empty: 0,
        data_bytes: commits * 4_096,
        written_bytes: commits * 8_192,
        latency: counts(latency),
    }
}

fn thread(thread: u64, process: u64, syncs: u64) -> LogThreadInfo {
    LogThreadInfo {
        dataset: "tank/1".into(),
        thread,
        process,
        command: Some(format!("command{process}")),
        syncs,
        nanos: syncs * 1_000_000,
    }
}

/// A pool that made `commits` in the time that it was open; one of ten had nothing to do and was quick.
fn look(seconds: u64, commits: u64) -> Look {
    let facts = LogFacts {
        open_nanos: seconds * SECOND,
        commits,
        commits_empty: commits / 10,
        batches: commits / 2,
        data_bytes: commits * 4_096,
        written_bytes: commits * 8_192,
        latency: counts(&[(8, commits / 10), (20, commits * 8 / 10), (24, commits / 10)]),
        queue: counts(&[(12, commits)]),
        write: counts(&[(19, commits / 2)]),
        parts_nanos: vec![commits * 4_000, 0, commits * 500_000, commits * 10_000, 0, 0],
        block_sizes: vec![0, commits],
        vdevs: vec![vdev(0, VdevClass::Normal, 0), vdev(1, VdevClass::Log, commits)],
        ..LogFacts::default()
    };
    Look { pool: pool(), facts, users: LogUsers::default() }
}

fn between(early: &Look, late: &Look) -> Interval {
    Interval::between(early, late, None).expect("time went by")
}

#[test]
fn rates_are_of_what_lies_between_two_looks() {
    let interval = between(&look(10, 1_000), &look(12, 3_000));
    assert_eq!((interval.seconds, interval.at_seconds), (2.0, 12.0));
    assert_eq!((interval.load.commits, interval.load.commits_per_second), (1_800, 900.0));
    assert_eq!(interval.load.data_bytes_per_second, 1_000.0 * 4_096.0);
    assert_eq!(interval.block_sizes, [0, 2_000]);
    // The quick ones, which had nothing to do, are left out: of 1,800 there are 1,600 below 2^20 ns.
    let quantiles = interval.quantiles.expect("commits");
    assert_eq!(quantiles.p50_below_us, 1_048.576);
    assert_eq!((quantiles.p99_below_us, quantiles.max_below_us), (16_777.216, 16_777.216));
    assert_eq!(interval.latency.total(), 1_800);
    let stages = interval.stages.each().map(|(name, times)| (name, times.map(|times| times.p50_below_us)));
    assert_eq!(stages[..2], [("queue", Some(4.096)), ("assemble", None)]);
    assert_eq!(stages[2..], [("write", Some(524.288)), ("flush", None), ("wake", None)]);
    // 1,800 commits had something to do. Few of them were flushed.
    let mean = interval.mean;
    assert_eq!((mean.queue_us, mean.write_us, mean.flush_us), (4.0 / 0.9, 500.0 / 0.9, 10.0 / 0.9));
    assert!((mean.each().iter().map(|(_, us)| us).sum::<f64>() - 514.0 / 0.9).abs() < 1e-6, "{mean:?}");
}

#[test]
fn a_log_device_has_rates_a_queue_and_a_fill() {
    let interval = between(&look(10, 1_000), &look(12, 3_000));
    let [log] = interval.logs.as_slice() else { panic!("only the log: {:?}", interval.logs) };
    assert_eq!((log.id, log.is_log, log.writes_per_second), (1, true, 1_000.0));
    assert_eq!((log.bytes_per_second, log.fill_percent()), (8_192_000.0, 25.0));
    // A thousand a second, each of 3/4 of 65,536 ns.
    assert!((log.in_flight - 0.049_152).abs() < 1e-9, "{}", log.in_flight);
    let [device] = log.devices.as_slice() else { panic!("one device") };
    assert_eq!((device.writes_per_second, device.flushes_per_second), (1_000.0, 500.0));
    assert_eq!(device.write_mean_us, Some(50.0));
    // 1,000 * 50 us and 500 * 100 us in each second.
    assert!((device.in_flight - 0.1).abs() < 1e-9, "{}", device.in_flight);
    assert_eq!(device.life, None);
}

#[test]
fn a_life_is_told_by_the_rate_since_the_import() {
    let rating = Some(Rating::TerabytesWritten(1.0));
    let interval = Interval::between(&look(10, 1_000), &look(20, 2_000), rating).expect("time went by");
    let life = interval.logs[0].devices[0].life.expect("it is rated");
    assert_eq!(life.bytes_per_second, 2_000.0 * 8_192.0 / 20.0);
}

#[test]
fn without_logs_the_vdevs_that_took_log_blocks_are_told_of() {
    let mut late = look(12, 3_000);
    late.facts.vdevs = vec![vdev(0, VdevClass::Normal, 40), vdev(2, VdevClass::Normal, 0)];
    let mut early = look(10, 1_000);
    early.facts.vdevs = vec![vdev(0, VdevClass::Normal, 10), vdev(2, VdevClass::Normal, 0)];
    let interval =
        Interval::between(&early, &late, Some(Rating::TerabytesWritten(1.0))).expect("time went by");
    let told: Vec<_> = interval.logs.iter().map(|log| (log.id, log.is_log, log.writes_per_second)).collect();
    assert_eq!(told, [(0, false, 15.0)]);
    assert_eq!(interval.logs[0].devices[0].life, None, "the rating is of log devices");
}

#[test]
fn counters_that_went_back_count_as_new() {
    let mut early = look(10, 1_000);
    let mut late = look(12, 3_000);
    late.facts.latency = counts(&[(20, 500)]);
    late.facts.written_bytes = 100;
    early.users.datasets = vec![dataset(1, 90, &[(20, 90)])];
    late.users.datasets = vec![dataset(1, 40, &[(20, 40)])];
    early.users.threads = vec![thread(5, 5, 100)];
    late.users.threads = vec![thread(5, 5, 30)];
    let interval = between(&early, &late);
    assert_eq!(interval.load.written_bytes_per_second, 50.0);
    assert_eq!(interval.latency.counts[20], 300, "of 500, 200 had nothing to do");
    assert_eq!(interval.datasets[0].commits_per_second, 20.0);
    assert_eq!(interval.processes[0].syncs_per_second, 15.0);
}

#[test]
fn datasets_are_ranked_by_what_they_did_lately() {
    let (mut early, mut late) = (look(10, 1_000), look(12, 3_000));
    early.users.datasets = vec![dataset(1, 1_000, &[(20, 1_000)]), dataset(2, 10, &[(18, 10)])];
    late.users.datasets =
        vec![dataset(1, 1_010, &[(20, 1_010)]), dataset(2, 50, &[(18, 50)]), dataset(3, 30, &[(22, 30)])];
    let told = |interval: Interval| -> Vec<(String, f64)> {
        interval.datasets.into_iter().map(|one| (one.name, one.commits_per_second)).collect()
    };
    let named =
        |all: &[(&str, f64)]| all.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect::<Vec<_>>();
    let all = named(&[("tank/2", 20.0), ("tank/3", 15.0), ("tank/1", 5.0)]);
    assert_eq!(told(between(&early, &late)), all);
    // One that was left out before may have had any counts then.
    early.users.datasets_left_out = 1;
    assert_eq!(told(between(&early, &late)), named(&[("tank/2", 20.0), ("tank/1", 5.0)]));
    // Renamed, it is the same.
    late.users.datasets[1].name = "tank/new".into();
    assert_eq!(told(between(&early, &late)), named(&[("tank/new", 20.0), ("tank/1", 5.0)]));
}

#[test]
fn threads_are_added_up_by_process_and_dataset() {
    let (mut early, mut late) = (look(10, 1_000), look(12, 3_000));
    early.users.threads = vec![thread(5, 5, 100), thread(6, 5, 100), thread(9, 9, 7)];
    late.users.threads = vec![thread(5, 5, 110), thread(6, 5, 120), thread(7, 5, 10), thread(9, 9, 7)];
    let elsewhere = LogThreadInfo { dataset: "tank/2".into(), ..thread(5, 5, 6) };
    late.users.threads.push(elsewhere);
    let interval = between(&early, &late);
    let told: Vec<_> = interval.processes.iter().map(|one| (one.process, one.dataset.as_str())).collect();
    assert_eq!(told, [(5, "tank/1"), (5, "tank/2")], "process 9 did nothing");
    let first = &interval.processes[0];
    assert_eq!((first.syncs_per_second, first.mean_us), (20.0, 1_000.0));
    assert_eq!(first.command.as_deref(), Some("command5"));
}

#[test]
fn a_pool_that_was_opened_anew_begins_a_new_series() {
    let mut monitor = Monitor::new(10, None);
    for (seconds, commits) in [(10, 1_000), (11, 1_100), (12, 1_200)] {
        monitor.look(look(seconds, commits));
    }
    assert_eq!(monitor.series.points().len(), 2);
    // The same answer again tells of no time.
    monitor.look(look(12, 1_200));
    assert_eq!(monitor.series.points().len(), 2);
    monitor.look(look(1, 50));
    assert_eq!((monitor.series.points().len(), monitor.now.is_none()), (0, true));
    monitor.look(look(2, 150));
    assert_eq!(monitor.now.as_ref().map(|now| now.load.commits), Some(90));
    let mut other = look(3, 250);
    other.pool.guid = 2;
    monitor.look(other);
    assert!(monitor.now.is_none(), "another pool of that name");
    assert_eq!(monitor.series.capacity(), 10);
}

#[test]
fn a_series_forgets_its_oldest_points() {
    let mut series = Series::of(3);
    for number in 1..=5 {
        series.push(point(&[], f64::from(number)));
    }
    let kept: Vec<f64> = series.points().map(|point| point.at_seconds).collect();
    assert_eq!((kept, series.forgotten()), (vec![3.0, 4.0, 5.0], 2));
}

fn point(latency: &[(usize, u64)], at_seconds: f64) -> Point {
    let mut point = between(&look(1, 0), &look(2, 0)).point();
    point.latency = units::Latencies::from_counts(&counts(latency));
    Point { at_seconds, ..point }
}

fn series(points: &[&[(usize, u64)]]) -> Series {
    let mut series = Series::of(100);
    points.iter().for_each(|latency| series.push(point(latency, 0.0)));
    series
}

fn rows(map: &HeatMap) -> Vec<(u64, Vec<u64>)> {
    map.rows.iter().map(|row| (row.below_nanos, row.counts.clone())).collect()
}

#[test]
fn a_heat_map_has_time_by_latency() {
    let series = series(&[&[(10, 1)], &[], &[(10, 5), (12, 2)]]);
    let map = HeatMap::of(&series.columns(10, 1), 10);
    let expected = [(1 << 10, vec![1, 0, 5]), (1 << 11, vec![0, 0, 0]), (1 << 12, vec![0, 0, 2])];
    assert_eq!((rows(&map), map.most), (expected.to_vec(), 5));
    // The last two columns.
    assert_eq!(rows(&HeatMap::of(&series.columns(2, 1), 10))[0].1, [0, 5]);
    // Rows 10 and 11 in one, 12 and 13 in the other.
    let map = HeatMap::of(&series.columns(10, 1), 2);
    assert_eq!(rows(&map), [(1 << 11, vec![1, 0, 5]), (1 << 13, vec![0, 0, 2])]);
    assert_eq!(HeatMap::of(&[], 10), HeatMap::default());
}

#[test]
fn a_heat_map_has_no_more_rows_than_it_was_given() {
    for first in 0..LATENCY_BUCKETS {
        for last in first..LATENCY_BUCKETS {
            let columns = [point(&[(first, 1), (last, 1)], 0.0)];
            for given in 1..8 {
                let map = HeatMap::of(&columns, given);
                assert!(
                    (1..=given).contains(&map.rows.len()),
                    "{first} to {last} in {given}: {}",
                    map.rows.len()
                );
                let drawn: u64 = map.rows.iter().flat_map(|row| &row.counts).sum();
                assert_eq!(drawn, if first == last { 1 } else { 2 });
            }
        }
    }
}

#[test]
fn columns_keep_their_points_as_time_goes_on() {
    let mut series = Series::of(9);
    let mut drawn = Vec::new();
    for _ in 0..11 {
        series.push(point(&[(10, 1)], 0.0));
        drawn.push(series.columns(4, 3).iter().map(|column| column.latency.total()).collect::<Vec<_>>());
    }
    // Two are forgotten: the oldest column has one left, the newest two so far.
    assert_eq!(drawn[8..], [vec![3, 3, 3], vec![2, 3, 3, 1], vec![1, 3, 3, 2]]);
}

#[test]
fn a_column_of_several_points_has_their_mean_by_time() {
    let one = point(&[(10, 1)], 1.0);
    let mut series = Series::of(9);
    series.push(Point { seconds: 1.0, commits_per_second: 100.0, ..one });
    series.push(Point { seconds: 3.0, commits_per_second: 20.0, at_seconds: 4.0, ..point(&[(20, 99)], 4.0) });
    let columns = series.columns(5, 2);
    let [column] = columns.as_slice() else { panic!("{columns:?}") };
    assert_eq!((column.seconds, column.at_seconds, column.commits_per_second), (4.0, 4.0, 40.0));
    assert_eq!(column.quantiles.map(|quantiles| quantiles.p50_below_us), Some(1_048.576));
}

#[test]
fn one_among_thousands_is_seen() {
    assert_eq!(density(0, 1_000, 5), 0);
    assert_eq!([1, 10, 100, 1_000].map(|count| density(count, 1_000, 7)), [1, 3, 5, 7]);
    assert_eq!((density(1, 1, 5), density(2, 1, 5), density(3, 9, 0)), (5, 5, 0));
}

#[test]
fn what_a_page_gets_can_be_read() {
    let mut monitor = Monitor::new(10, None);
    [look(1, 0), look(2, 1_000)].into_iter().for_each(|look| monitor.look(look));
    let page = serde_json::to_value(&monitor).expect("JSON");
    let number = |path: &str| page.pointer(path).and_then(serde_json::Value::as_f64);
    assert_eq!(number("/now/load/commits_per_second"), Some(900.0));
    assert_eq!(number("/now/latency/20"), Some(800.0));
    assert_eq!(number("/series/points/0/latency/20"), Some(800.0));
    assert_eq!(number("/series/points/0/quantiles/p50_below_us"), Some(1_048.576));
    assert_eq!(page.pointer("/now/logs/0/kind").and_then(serde_json::Value::as_str), Some("disk"));
}
