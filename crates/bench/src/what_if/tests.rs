use control::{
    BatchIo, CommitInfo, LeafOps, LogFacts, LogLeafInfo, LogVdevInfo, StorageInfo, VdevKind, VdevState,
};

use super::*;

const MS: u64 = 1_000_000;

/// A data vdev of which the counters know only that its writes and flushes take about so long.
fn data_vdev(nanos: u64) -> LogVdevInfo {
    let ops = LeafOps { ops: 100, bytes: 100 << 13, nanos: 100 * nanos };
    let mut flush_times = vec![0; 40];
    flush_times[nanos.ilog2() as usize + 1] = 100;
    let leaf = LogLeafInfo {
        guid: 7,
        path: "/a".into(),
        kind: VdevKind::File,
        state: VdevState::Online,
        size_bytes: 1 << 30,
        reads: ops,
        writes: ops,
        flushes: ops,
        flush_times,
        storage: StorageInfo::default(),
    };
    LogVdevInfo {
        id: 0,
        class: VdevClass::Normal,
        kind: VdevKind::File,
        state: VdevState::Online,
        space_bytes: 1 << 30,
        held_bytes: 0,
        blocks: 0,
        block_bytes: 0,
        writes: Vec::new(),
        flushes: Vec::new(),
        leaves: vec![leaf],
    }
}

/// A lone writer whose commits take 6 ms on the data vdev, with 4 ms between them.
fn recording() -> LogRecording {
    let count = 200;
    let commit = |n| CommitInfo {
        objset: 54,
        began: n * 10 * MS,
        took: 6 * MS,
        records: 1,
        bytes: 8192,
        batch: Some(n),
        ..CommitInfo::default()
    };
    let batch = |n| BatchInfo {
        objset: 54,
        id: n,
        begun: n * 10 * MS,
        sent: n * 10 * MS,
        ended: (n * 10 + 6) * MS,
        records: 1,
        writes: vec![BatchIo { vdev: 0, bytes: 12 << 10, took: 6 * MS, is_failed: false }],
        ..BatchInfo::default()
    };
    let before = LogFacts { open_nanos: 1_000 * MS, vdevs: vec![data_vdev(MS)], ..LogFacts::default() };
    let mut latency = vec![0; 40];
    latency[23] = count;
    let after = LogFacts {
        open_nanos: before.open_nanos + count * 10 * MS,
        commits: count,
        data_bytes: count * 8192,
        latency,
        ..before.clone()
    };
    LogRecording {
        span_nanos: count * 10 * MS,
        commits: (0..count).map(commit).collect(),
        batches: (0..count).map(batch).collect(),
        before,
        after,
        ..LogRecording::default()
    }
}

#[test]
fn a_recorded_load_goes_as_it_went_and_faster_with_a_log() {
    let log = DiskModel::named("ssd-plp").expect("there is one");
    let answer = run(&recording(), log, 1).expect("a simulated pool works").expect("there is enough");
    assert_eq!((answer.commits, answer.writers, answer.has_logs), (200, 1, false));
    assert_eq!((answer.recorded.p50_us, answer.recorded.commits_per_second), (6_000.0, 100.0));
    let without = range(answer.without.iter().map(|outcome| outcome.p50_us));
    assert!((5_900.0..6_100.0).contains(&without.start) && without.end < 6_100.0, "{without:?}");
    let rate = answer.without[0].commits_per_second;
    assert!((95.0..105.0).contains(&rate), "{rate}");
    let factor = answer.factor(|outcome| outcome.p50_us);
    assert!(factor.start > 100.0 && factor.end < 600.0, "6 ms by some 20 to 40 µs: {factor:?}");
    assert_eq!(run(&recording(), log, 1).expect("it works"), Some(answer));
}

#[test]
fn a_disk_that_was_seen_to_change_is_told_of_as_doubt() {
    let mut recording = recording();
    // In the second half the disk takes a fourth.
    for (commit, batch) in recording.commits.iter_mut().zip(&mut recording.batches).skip(100) {
        (commit.took, batch.writes[0].took, batch.ended) = (3 * MS / 2, 3 * MS / 2, batch.sent + 3 * MS / 2);
    }
    let log = DiskModel::named("ssd-plp").expect("there is one");
    let answer = run(&recording, log, 1).expect("a simulated pool works").expect("there is enough");
    let factor = answer.factor(|outcome| outcome.p50_us);
    assert!(factor.end > 3.0 * factor.start, "{factor:?}");
}

#[test]
fn a_pool_that_has_logs_is_compared_with_what_it_was() {
    let mut recording = recording();
    recording.after.vdevs.push(LogVdevInfo { id: 1, class: VdevClass::Log, ..data_vdev(MS) });
    let log = DiskModel::named("ssd-plp").expect("there is one");
    let answer = run(&recording, log, 1).expect("a simulated pool works").expect("there is enough");
    assert!(answer.has_logs);
    let factor = answer.factor(|outcome| outcome.p50_us);
    let least =
        answer.with.iter().map(|with| answer.recorded.p50_us / with.p50_us).fold(f64::INFINITY, f64::min);
    assert!((factor.start - least).abs() < 1e-9, "{factor:?} {least}");
    let slower = Answer { without: vec![Outcome { p50_us: 1e9, ..answer.recorded }; 9], ..answer.clone() };
    assert_eq!(slower.factor(|outcome| outcome.p50_us), factor, "what nobody has seen counts nothing");
}

#[test]
fn nothing_is_told_of_nothing() {
    let log = DiskModel::nvram();
    assert_eq!(run(&LogRecording::default(), log, 1).expect("no simulation"), None);
    let idle = LogRecording { commits: Vec::new(), ..recording() };
    assert_eq!(run(&idle, log, 1).expect("no simulation"), None);
}
