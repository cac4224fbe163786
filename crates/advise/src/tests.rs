//! Cases that are computed by hand.

use super::*;
use control::{
    DiskInfo, LeafOps, LogFacts, LogLeafInfo, LogPeakInfo, LogVdevInfo, StorageInfo, TxgLogInfo, VdevClass,
    VdevKind, VdevState,
};

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

/// Counts with `count` in the bucket that ends at 2^`bucket` ns.
fn counts(counts: &[(usize, u64)]) -> Vec<u64> {
    let mut all = vec![0; units::LATENCY_BUCKETS];
    counts.iter().for_each(|&(bucket, count)| all[bucket] = count);
    all
}

fn leaf(path: &str, ops: u64, nanos: u64, storage: StorageInfo, flushes: &[(usize, u64)]) -> LogLeafInfo {
    LogLeafInfo {
        guid: path.len() as u64,
        path: path.into(),
        kind: VdevKind::Disk,
        state: VdevState::Online,
        size_bytes: 100 * MIB,
        reads: LeafOps::default(),
        writes: LeafOps { ops, bytes: ops * 10_000, nanos },
        flushes: LeafOps::default(),
        flush_times: counts(flushes),
        storage,
    }
}

fn disk(is_rotational: Option<bool>, has_volatile_cache: Option<bool>) -> StorageInfo {
    let disk = DiskInfo { name: "x".into(), is_rotational, has_volatile_cache, ..DiskInfo::default() };
    StorageInfo { file_system: None, disks: vec![disk] }
}

fn vdev(id: u64, class: VdevClass, leaves: Vec<LogLeafInfo>) -> LogVdevInfo {
    LogVdevInfo {
        id,
        class,
        kind: if leaves.len() > 1 { VdevKind::Mirror } else { VdevKind::Disk },
        state: VdevState::Online,
        space_bytes: 80 * MIB,
        held_bytes: 0,
        blocks: 0,
        block_bytes: 0,
        writes: counts(&[]),
        flushes: counts(&[]),
        leaves,
    }
}

/// Ten seconds with 1,000 commits and 24 more that had nothing to do.
fn facts() -> LogFacts {
    LogFacts {
        open_nanos: 10 * SECOND,
        txg_timeout_nanos: 5 * SECOND,
        commits: 1_024,
        commits_empty: 24,
        batches: 500,
        records: 1_000,
        data_bytes: 3_000_000,
        record_bytes: 3_200_000,
        written_bytes: 4_000_000,
        allocated_bytes: 4_096_000,
        latency: counts(&[(8, 24), (20, 900), (24, 100)]),
        block_sizes: vec![400, 100],
        live_txgs: 4,
        share_percent: 20,
        txgs: [10, 30, 20, 40].iter().zip(1..).map(|(mib, txg)| txg_log(txg, mib * MIB, txg * 5)).collect(),
        peak: LogPeakInfo { txg_bytes: 40 * MIB, live_bytes: 100 * MIB, held_bytes: 104 * MIB },
        hour: LogPeakInfo { txg_bytes: 5 * MIB, live_bytes: 10 * MIB, held_bytes: 11 * MIB },
        ..LogFacts::default()
    }
}

fn txg_log(txg: u64, bytes: u64, seconds: u64) -> TxgLogInfo {
    TxgLogInfo { txg, at_nanos: seconds * SECOND, bytes, held_bytes: bytes + MIB }
}

fn advice(facts: LogFacts) -> Advice {
    Advice::of(&Measured::since_import(facts), None)
}

#[test]
fn rates_latencies_and_fill_are_those_of_the_counters() {
    let load = advice(facts()).load;
    assert_eq!((load.commits, load.commits_per_second), (1_000, 100.0));
    let latency = load.latency.expect("there were commits");
    // Middles of buckets: 0.75 * 2^20 ns and 0.75 * 2^24 ns.
    let mean = (900.0 * 786_432.0 + 100.0 * 12_582_912.0) / 1_000.0 / 1e3;
    assert!((latency.mean_us - mean).abs() < 0.01, "{latency:?}");
    assert_eq!((latency.p50_below_us, latency.p99_below_us), (1_048.576, 16_777.216));
    assert!((load.under_way - 100.0 * mean / 1e6).abs() < 1e-6);
    assert_eq!(load.commits_per_batch, 2.0);
    assert_eq!((load.data_bytes_per_second, load.written_bytes_per_second), (300_000.0, 400_000.0));
    assert_eq!(load.block_bytes, 8_000.0);
    assert_eq!((load.data_percent, load.head_percent, load.padding_percent), (75.0, 5.0, 20.0));
}

#[test]
fn a_log_is_enough_when_no_txg_is_cut_short() {
    let size = advice(facts()).size;
    assert_eq!(size.mean_txg_bytes, 25 * MIB);
    // Six times 40 MiB is 240; a device of 245 MiB has 240.5 between its labels, and metaslabs of 16 MiB: 15 of them.
    assert_eq!(size.peak.enough_bytes, 245 * MIB);
    assert_eq!(size.enough_bytes, 245 * MIB);
    let hour = size.hour.expect("it is known");
    // 30 MiB: two metaslabs; the format takes no device below 64 MiB.
    assert_eq!((hour.txg_bytes, hour.enough_bytes), (5 * MIB, 64 * MIB));
    assert_eq!((size.cut_txgs, size.uncut_txg_bytes), (0, None));
}

#[test]
fn what_is_allocated_counts_where_it_is_more_than_follows_from_txgs() {
    let peak = LogPeakInfo { txg_bytes: MIB, live_bytes: 4 * MIB, held_bytes: 64 * MIB };
    // 64 MiB are four metaslabs, and labels.
    assert_eq!(advice(LogFacts { peak, ..facts() }).size.enough_bytes, 69 * MIB);
}

#[test]
fn a_txg_that_was_cut_short_is_taken_for_what_it_would_have_been() {
    // A second instead of five: 40 MiB would have been 200.
    let txgs = vec![txg_log(1, MIB, 10), txg_log(2, 40 * MIB, 11), txg_log(3, 50 * MIB, 16)];
    let size = advice(LogFacts { hurried_txgs: 1, txgs, ..facts() }).size;
    assert_eq!((size.cut_txgs, size.uncut_txg_bytes), (1, Some(200 * MIB)));
    // 1,200 MiB; metaslabs are 128 MiB each from 1,024 MiB on: ten of them.
    assert_eq!(size.enough_bytes, (1_280 + 5) * MIB);
}

#[test]
fn without_commits_a_log_has_nothing_to_do() {
    let advice =
        advice(LogFacts { open_nanos: SECOND, live_txgs: 4, share_percent: 20, ..LogFacts::default() });
    assert_eq!((advice.load.commits, advice.load.latency), (0, None));
    assert_eq!(advice.size.enough_bytes, 64 * MIB);
    let measured = Measured::since_import(LogFacts::default());
    assert_eq!(LoadShape::of(&measured), None, "and no time passed either");
    assert_eq!(Load::of(&measured).commits_per_second, 0.0);
}

#[test]
fn a_device_lives_as_long_as_its_rating_and_the_rate_say() {
    // 1,000 writes of 10,000 bytes in ten seconds: 1 MB a second, 31.5576 TB a year.
    let log = vdev(1, VdevClass::Log, vec![leaf("/l", 1_000, 0, StorageInfo::default(), &[])]);
    let facts = LogFacts { vdevs: vec![log], ..facts() };
    let life = |rating| {
        let advice = Advice::of(&Measured::since_import(facts.clone()), Some(rating));
        assert_eq!(advice.life_of_new, None);
        advice.devices[0].life.expect("it is rated")
    };
    let tbw = life(Rating::TerabytesWritten(315.576));
    assert!((tbw.years.expect("it is written to") - 10.0).abs() < 1e-9, "{tbw:?}");
    // 3,000 times 100 MiB are 0.3145728 TB.
    let cycles = life(Rating::ProgramEraseCycles(3_000.0));
    assert!((cycles.years.expect("it is written to") - 0.314_572_8 / 31.557_6).abs() < 1e-9, "{cycles:?}");
    assert!((cycles.writes_of_device_per_day - 86_400e6 / (100 * MIB) as f64).abs() < 1e-9);
}

#[test]
fn without_a_log_it_is_told_how_long_a_new_one_would_live() {
    let facts = LogFacts { beside_bytes: 6_000_000, ..facts() };
    let advice = Advice::of(&Measured::since_import(facts), Some(Rating::TerabytesWritten(31.5576)));
    // 4 MB of blocks and 6 MB beside them in ten seconds.
    let life = advice.life_of_new.expect("it is rated");
    assert_eq!(life.bytes_per_second, 1e6);
    assert!((life.years.expect("it would be written to") - 1.0).abs() < 1e-9);
    assert!(!advice.size.has_logs);
}

#[test]
fn a_mirror_waits_for_its_slower_device() {
    let leaves = vec![
        leaf("/l", 100, 100 * 20_000, StorageInfo::default(), &[]),
        leaf("/mm", 100, 100 * 90_000, StorageInfo::default(), &[]),
    ];
    let single = vdev(2, VdevClass::Log, vec![leaf("/nnn", 100, 100 * 5_000, StorageInfo::default(), &[])]);
    let vdevs = vec![vdev(1, VdevClass::Log, leaves), single];
    let mirror = advice(LogFacts { vdevs, ..facts() }).mirror;
    let wanted =
        Mirror { mirrors: 1, singles: 1, copies: 1.5, fastest_us: Some(20.0), slowest_us: Some(90.0) };
    assert_eq!(mirror, wanted);
}

/// A device, how many of its flushes took how long (powers of two of nanoseconds), and what is thought of that.
type FlushCase<'a> = (&'a StorageInfo, &'a [(usize, u64)], Option<Doubt>);

#[test]
fn a_flush_that_is_too_fast_is_a_suspicion_and_no_more() {
    let tmpfs = StorageInfo { file_system: Some("tmpfs".into()), disks: Vec::new() };
    let (turns, flash) = (disk(Some(true), Some(true)), disk(Some(false), Some(true)));
    let mut guest = disk(Some(true), Some(true));
    guest.disks[0].is_virtual = true;
    // 2^14 ns are 16 µs, 2^20 a millisecond, 2^23 eight.
    let (quick, dirty_is_slow) = ([(14, 95), (23, 5)], [(14, 66), (23, 34)]);
    let turn = Some(Doubt::FlushFasterThanTurn { p90_below_us: 16.384 });
    let cases: [FlushCase<'_>; 10] = [
        (&tmpfs, &[], Some(Doubt::InMemory)),
        (&turns, &quick, turn),
        (&turns, &dirty_is_slow, None),
        (&turns, &[(20, 100)], Some(Doubt::FlushFasterThanTurn { p90_below_us: 1_048.576 })),
        (&turns, &[(14, 15)], None),
        (&flash, &quick, Some(Doubt::FlushFasterThanFlash { p90_below_us: 16.384 })),
        (&flash, &[(20, 100)], None),
        (&disk(Some(false), Some(false)), &quick, None),
        (&disk(None, None), &quick, None),
        (&guest, &quick, None),
    ];
    for (storage, flushes, wanted) in cases {
        let top = vdev(0, VdevClass::Normal, vec![leaf("/d", 1, 1, storage.clone(), flushes)]);
        let devices = advice(LogFacts { vdevs: vec![top], ..facts() }).devices;
        assert_eq!(devices[0].doubt, wanted, "{storage:?} {flushes:?}");
    }
}

#[test]
fn what_one_of_several_disks_does_the_device_does() {
    let both = |a: Option<bool>, b: Option<bool>| {
        let mut storage = disk(a, None);
        storage.disks.extend(disk(b, None).disks);
        let top = vdev(0, VdevClass::Normal, vec![leaf("/d", 1, 1, storage, &[])]);
        advice(LogFacts { vdevs: vec![top], ..facts() }).devices[0].is_rotational
    };
    assert_eq!(both(Some(true), None), Some(true));
    assert_eq!(both(Some(false), None), None);
    assert_eq!(both(Some(false), Some(false)), Some(false));
}

/// With a data vdev of which something is known.
fn with_data(facts: LogFacts) -> LogFacts {
    let known = leaf("/d", 10, 1_000_000, StorageInfo::default(), &[(20, 4)]);
    LogFacts { vdevs: vec![vdev(0, VdevClass::Normal, vec![known])], ..facts }
}

#[test]
fn what_nothing_is_known_of_is_not_simulated() {
    assert_eq!(LoadShape::of(&Measured::since_import(facts())), None);
    let shape = LoadShape::of(&Measured::since_import(with_data(facts()))).expect("there is a data vdev");
    assert_eq!(shape.vdevs[0].write_mean.as_micros(), 100);
    assert_eq!(shape.vdevs[0].flushes.total(), 4);
}

#[test]
fn a_load_is_so_many_writers_that_rest_between_writes() {
    let shape = LoadShape::of(&Measured::since_import(with_data(facts()))).expect("there were commits");
    // 100 a second of about 2 ms each: 0.2 under way, so one writer, each 10 ms.
    assert_eq!((shape.writers, shape.bytes), (1, 3_000));
    let latency = (900.0 * 786_432.0 + 100.0 * 12_582_912.0) / 1_000.0 / 1e9;
    assert!((shape.rest.as_secs_f64() - (0.01 - latency)).abs() < 1e-6, "{shape:?}");
    let busy = LogFacts { commits: 40_024, latency: counts(&[(8, 24), (20, 40_000)]), ..facts() };
    let shape = LoadShape::of(&Measured::since_import(with_data(busy))).expect("there were commits");
    // 4,000 a second of 0.786432 ms: 3.15 under way.
    assert_eq!(shape.writers, 4);
    assert!((shape.rest.as_secs_f64() - (0.001 - 0.000_786_432)).abs() < 1e-6, "{shape:?}");
}

#[test]
fn what_is_watched_counts_from_the_first_look() {
    let early = facts();
    let mut watch = Watch::begin(early.clone());
    let mut late = early.clone();
    late.open_nanos += 20 * SECOND;
    late.commits += 50;
    late.latency[20] += 50;
    late.hurried_txgs += 1;
    late.txgs.extend([txg_log(5, 3 * MIB, 25), txg_log(6, 7 * MIB, 30)]);
    assert!(watch.look(late.clone()));
    late.txgs = vec![txg_log(8, MIB, 40)];
    late.open = txg_log(9, 2 * MIB, 41);
    assert!(watch.look(late.clone()));
    assert!(!watch.clone().look(LogFacts::default()), "another import");
    let measured = watch.measured();
    assert_eq!((measured.span.as_secs(), measured.is_since_import, measured.has_gaps), (20, false, true));
    let facts = &measured.facts;
    assert_eq!((facts.commits, facts.commits_empty, facts.hurried_txgs, facts.data_bytes), (50, 0, 1, 0));
    assert_eq!(facts.latency.iter().sum::<u64>(), 50);
    assert_eq!(facts.peak, LogPeakInfo { txg_bytes: 7 * MIB, live_bytes: 11 * MIB, held_bytes: 8 * MIB });
    assert_eq!(Advice::of(&measured, None).size.hour, None);
}
