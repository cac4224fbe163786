use crate::{Format, Looked, PoolLook, body};
use control::*;
use std::collections::BTreeSet;

/// A pool of a mirror, a log and a spare, whose log did something.
fn looked() -> Looked {
    let mut pool = PoolInfo {
        health: PoolHealth::Degraded,
        txg: 42,
        open_nanos: 1_500_000_000,
        spares: vec![file("/s1", 30, VdevClass::Spare)],
        ..PoolInfo::new("tank", VdevInfo::new(VdevKind::Root, 0, 9, VdevClass::Normal))
    };
    let mut mirror = VdevInfo::new(VdevKind::Mirror, 0, 10, VdevClass::Normal);
    mirror.stats.space_bytes = 1 << 30;
    mirror.children = vec![file("/d1", 11, VdevClass::Normal), file("/d2", 12, VdevClass::Normal)];
    let mut log = file("/l1", 20, VdevClass::Log);
    log.id = 1;
    log.state = VdevState::Faulted;
    pool.root.children = vec![mirror, log];
    Looked {
        daemon: DaemonStatus { version: "1.2.3".into(), uptime_secs: 7, ..DaemonStatus::default() },
        pools: vec![PoolLook { pool, logs: Some(facts()), users: LogUsers::default() }],
        datasets: Vec::new(),
    }
}

fn file(path: &str, guid: u64, class: VdevClass) -> VdevInfo {
    let mut leaf = VdevInfo::new(VdevKind::File, 0, guid, class);
    leaf.path = Some(path.into());
    leaf.stats.physical_bytes = 96 << 20;
    leaf.stats.io.written_bytes = 5;
    leaf
}

/// Two commits of less than 4 µs and one of less than 2^20 ns, in blocks of 4, 4 and 8 KiB.
fn facts() -> LogFacts {
    let mut latency = vec![0; 39];
    (latency[12], latency[20]) = (2, 1);
    let vdev = LogVdevInfo {
        id: 1,
        class: VdevClass::Log,
        kind: VdevKind::File,
        state: VdevState::Online,
        space_bytes: 64 << 20,
        held_bytes: 12_288,
        blocks: 3,
        block_bytes: 16 << 10,
        writes: latency.clone(),
        flushes: Vec::new(),
        leaves: vec![LogLeafInfo {
            guid: 20,
            path: "/l1".into(),
            kind: VdevKind::File,
            state: VdevState::Online,
            size_bytes: 64 << 20,
            reads: LeafOps::default(),
            writes: LeafOps { ops: 3, bytes: 16 << 10, nanos: 2_500_000 },
            flushes: LeafOps::default(),
            flush_times: Vec::new(),
            storage: StorageInfo::default(),
        }],
    };
    LogFacts {
        commits: 3,
        latency,
        block_sizes: vec![2, 1],
        written_bytes: 16 << 10,
        vdevs: vec![vdev],
        ..LogFacts::default()
    }
}

/// What a body says of a name with labels.
fn value<'a>(body: &'a str, sample: &str) -> Option<&'a str> {
    body.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))
}

#[track_caller]
fn assert_value(body: &str, sample: &str, expected: &str) {
    assert_eq!(value(body, sample), Some(expected), "{sample} in\n{body}");
}

#[test]
fn a_pool_is_in_one_state_and_tells_of_all() {
    let body = body(&looked(), Format::OpenMetrics);
    assert_value(&body, r#"sawmill_build_info{version="1.2.3"}"#, "1");
    assert_value(&body, r#"sawmill_pool_state{pool="tank",state="degraded"}"#, "1");
    for other in ["online", "faulted", "unavail", "suspended"] {
        assert_value(&body, &format!(r#"sawmill_pool_state{{pool="tank",state="{other}"}}"#), "0");
    }
    assert_value(&body, r#"sawmill_pool_open_seconds{pool="tank"}"#, "1.5");
}

#[test]
fn vdevs_tell_state_and_traffic() {
    let body = body(&looked(), Format::OpenMetrics);
    let log = r#"{pool="tank",class="log",type="file",vdev="/l1",guid="20""#;
    assert_value(&body, &format!("sawmill_vdev_state{log}}}"), "5");
    assert_value(&body, &format!(r#"sawmill_vdev_transferred_bytes_total{log},op="write"}}"#), "5");
    assert_value(&body, &format!(r#"sawmill_device_operation_seconds_total{log},op="write"}}"#), "0.0025");
    let mirror = r#"{pool="tank",class="normal",type="mirror",vdev="mirror-0",guid="10"}"#;
    assert_value(&body, &format!("sawmill_vdev_state{mirror}"), "7");
    assert_value(&body, &format!("sawmill_vdev_size_bytes{mirror}"), "1073741824");
}

#[test]
fn times_are_counted_up_to_ends_in_seconds() {
    let body = body(&looked(), Format::OpenMetrics);
    let below = |le: &str, count: &str| {
        assert_value(&body, &format!(r#"sawmill_log_commit_seconds_bucket{{pool="tank",le="{le}"}}"#), count);
    };
    below("0.000001024", "0");
    below("0.000002048", "0");
    below("0.000004096", "2");
    below("0.001048576", "3");
    below("+Inf", "3");
    assert!(!body.contains("sawmill_log_commit_seconds_sum"), "nobody has added them up");
}

#[test]
fn block_sizes_add_up_to_what_was_written() {
    let body = body(&looked(), Format::OpenMetrics);
    assert_value(&body, r#"sawmill_log_block_bytes_bucket{pool="tank",le="4096"}"#, "2");
    assert_value(&body, r#"sawmill_log_block_bytes_bucket{pool="tank",le="8192"}"#, "3");
    assert_value(&body, r#"sawmill_log_block_bytes_sum{pool="tank"}"#, "16384");
    assert_value(&body, r#"sawmill_log_held_bytes{pool="tank"}"#, "12288");
    assert_value(&body, r#"sawmill_log_space_bytes{pool="tank"}"#, "67108864");
}

#[test]
fn the_formats_differ_in_counters_and_in_the_end() {
    let (new, old) = (body(&looked(), Format::OpenMetrics), body(&looked(), Format::Prometheus));
    assert!(new.contains("# TYPE sawmill_log_commits counter\n"), "{new}");
    assert!(new.contains("# UNIT sawmill_log_data_bytes bytes\n") && new.ends_with("\n# EOF\n"), "{new}");
    assert!(old.contains("# TYPE sawmill_log_commits_total counter\n"), "{old}");
    assert!(!old.contains("# UNIT") && !old.contains("# EOF"), "{old}");
    let count = r#"sawmill_log_commit_seconds_count{pool="tank"}"#;
    assert_eq!((value(&new, count), value(&old, count)), (None, Some("3")));
}

#[test]
fn the_newer_format_is_for_those_who_name_it() {
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
    assert_eq!(Format::accepted("*/*"), Format::Prometheus);
}

#[test]
fn names_of_devices_cannot_break_out_of_their_labels() {
    let mut looked = looked();
    looked.pools[0].pool.root.children[1].path = Some("/a\"} 1\nb\\c".into());
    let body = body(&looked, Format::OpenMetrics);
    assert!(body.contains(r#"vdev="/a\"} 1\nb\\c",guid="20"}"#), "{body}");
    assert!(body.lines().all(|line| line.starts_with("sawmill_") || line.starts_with("# ")), "{body}");
}

#[test]
fn no_two_samples_have_the_same_name_and_labels() {
    let mut looked = looked();
    // A spare that stands in for a device is in two places, and two files may have had the same path.
    let pool = &mut looked.pools[0].pool;
    pool.root.children[0].children.push(file("/s1", 30, VdevClass::Normal));
    pool.root.children[0].children.push(file("/d1", 31, VdevClass::Normal));
    let body = body(&looked, Format::OpenMetrics);
    let mut seen = BTreeSet::new();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let sample = line.rsplit_once(' ').expect("a value").0;
        assert!(seen.insert(sample), "{sample} comes twice");
    }
    assert!(seen.len() > 100, "{}", seen.len());
}

#[test]
fn a_pool_that_was_closed_meanwhile_has_no_log() {
    let mut looked = looked();
    looked.pools[0].logs = None;
    let body = body(&looked, Format::OpenMetrics);
    assert!(body.contains("sawmill_pool_txg") && !body.contains("sawmill_log"), "{body}");
}

#[test]
fn datasets_tell_space_and_snapshots_are_left_out() {
    let dataset = |name: &str, kind| DatasetInfo {
        name: name.into(),
        kind,
        createtxg: 1,
        props: [("used".to_owned(), Prop { value: 8.into(), source: Source::None })].into(),
        received: std::collections::BTreeMap::new(),
    };
    let mut looked = looked();
    looked.datasets =
        vec![dataset("tank/a", DatasetKind::Filesystem), dataset("tank/a@b", DatasetKind::Snapshot)];
    let used = |objset, commits| LogDatasetInfo {
        name: "tank/a".into(),
        objset,
        commits,
        ..LogDatasetInfo::default()
    };
    looked.pools[0].users.datasets = vec![used(7, 1), used(9, 3)];
    let body = body(&looked, Format::OpenMetrics);
    let commits: Vec<&str> =
        body.lines().filter(|line| line.starts_with("sawmill_dataset_commits_total")).collect();
    assert_eq!(commits, [r#"sawmill_dataset_commits_total{pool="tank",dataset="tank/a"} 3"#]);
    let a = r#"sawmill_dataset_used_bytes{pool="tank",dataset="tank/a",type="filesystem"}"#;
    assert_value(&body, a, "8");
    assert!(!body.contains("tank/a@b") && !body.contains("sawmill_dataset_available"), "{body}");
}
