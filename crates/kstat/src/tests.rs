use crate::{KstatFile, KstatPath, MemorySeen, Observed, PoolSeen, Stamp, files};
use control::*;
use std::collections::{BTreeMap, BTreeSet};

const STAMP: Stamp = Stamp { kid: 7, created_nanos: 5_214_787_391, taken_nanos: 73_405_258_558_961 };

/// A pool with one dataset that was written to.
fn pool(name: &str) -> PoolSeen {
    let log = LogCounted {
        commits: 12,
        writes: 9,
        records: 30,
        copied: LogWrites { records: 12, bytes: 84_000 },
        slog: LogBlocks { count: 9, used_bytes: 90_000, written_bytes: 98_304, allocated_bytes: 98_304 },
        ..LogCounted::default()
    };
    let uses = UsesCounted {
        reads: 3,
        read_bytes: 300,
        writes: 12,
        written_bytes: 84_000,
        ..UsesCounted::default()
    };
    let txg = TxgCounted {
        txg: 4711,
        state: TxgState::Committed,
        birth_nanos: 1_000,
        dirty_bytes: 131_072,
        io: IoCounters { reads: 0, writes: 38, read_bytes: 0, written_bytes: 540_672 },
        open_nanos: 5_001_234_567,
        quiesce_nanos: 10_234,
        sync_nanos: 38_123_456,
    };
    let cache = CacheCounted {
        data: LookupsCounted { hits: 100, joined: 4, misses: 10 },
        metadata: LookupsCounted { hits: 50, joined: 0, misses: 5 },
        data_ahead: LookupsCounted { hits: 1, joined: 2, misses: 30 },
        bytes: 1_000_000,
        beside_bytes: 2_000,
        limit_bytes: 100 << 20,
        small_limit_bytes: 10 << 20,
        limit_most_bytes: 100 << 20,
        small: BytesByKind { data: 500_000, metadata: 100_000 },
        main: BytesByKind { data: 250_000, metadata: 100_000 },
        ..CacheCounted::default()
    };
    let counted = PoolCounted {
        name: name.into(),
        guid: 12_345,
        health: Some(PoolHealth::Degraded),
        io: IoCounters { reads: 7, writes: 123_456_789, read_bytes: 7_000, written_bytes: 999 },
        busy: BusyInfo { waiting: 2, active: 1, active_nanos: 55 },
        cache,
        blocks: IoCounters { reads: 45, writes: 38, read_bytes: 300_000, written_bytes: 540_672 },
        trims: TrimsCounted { discarded: 2, discarded_bytes: 65_536, ..TrimsCounted::default() },
        auto_trims: TrimsCounted { skipped: 3, skipped_bytes: 12_288, failed: 1, ..TrimsCounted::default() },
        changes: ChangesCounted { joined: 42, ..ChangesCounted::default() },
        txgs: vec![txg, TxgCounted { txg: 4712, birth_nanos: 2_000, ..TxgCounted::default() }],
        datasets: vec![DatasetCounted { name: format!("{name}/a b"), objset: 54, uses, log }],
        ..PoolCounted::default()
    };
    PoolSeen { counted, clock_start_nanos: 5_214_786_391 }
}

fn observed(pools: &[&str]) -> Observed {
    let memory = MemorySeen { limit_bytes: 8 << 30, free_bytes: 2 << 30, to_stay_free_bytes: 1 << 30 };
    Observed {
        memory: Some(memory),
        pools: pools.iter().map(|name| pool(name)).collect(),
        absent: Vec::new(),
    }
}

fn find<'a>(files: &'a [KstatFile], pool: Option<&str>, name: &str) -> &'a KstatFile {
    let path = KstatPath { pool: pool.map(str::to_owned), name: name.into() };
    files.iter().find(|file| file.path == path).expect("the file")
}

/// Names and numbers as node_exporter reads them: after the line `name type data`, three fields a line.
fn numbers(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let lines = lines.skip_while(|fields| fields != &["name", "type", "data"]).skip(1);
    let numbers = lines.filter(|fields| fields[1] == "4" || fields[1] == "3");
    numbers.map(|fields| (fields[0].to_owned(), fields[2].parse().expect("a number"))).collect()
}

#[test]
fn a_named_kstat_has_the_columns_of_openzfs() {
    let files = files(&observed(&["tank"]));
    let text = find(&files, Some("tank"), "objset-0x36").text(&STAMP);
    let begin = "\
7 1 0x01 27 7600 5214787391 73405258558961
name                            type data
dataset_name                    7    tank/a b
writes                          4    12
nwritten                        4    84000
reads                           4    3
nread                           4    300
nunlinks                        4    0
nunlinked                       4    0
zil_commit_count                4    12
zil_commit_writer_count         4    9
";
    assert_eq!(&text[..begin.len()], begin);
    assert!(text.ends_with("zil_itx_metaslab_slog_alloc     4    98304\n"), "{text}");
}

#[test]
fn an_io_kstat_has_twelve_columns_of_eight() {
    let files = files(&observed(&["tank"]));
    let expected = "\
7 3 0x00 1 80 5214787391 73405258558961
nread    nwritten reads    writes   wtime    wlentime wupdate  rtime    rlentime rupdate  wcnt     rcnt    \n\
7000     999      7        123456789 0        0        0        0        55       0        2        1       \n";
    assert_eq!(find(&files, Some("tank"), "io").text(&STAMP), expected);
}

#[test]
fn iostats_has_the_names_of_openzfs() {
    let files = files(&observed(&["tank"]));
    let text = find(&files, Some("tank"), "iostats").text(&STAMP);
    // 18 names of trims, 8 of reads and writes.
    assert!(text.starts_with("7 1 0x01 26 7072 5214787391 73405258558961\n"), "{text}");
    let numbers = numbers(&text);
    let of = |names: &[&str]| names.iter().map(|name| numbers[*name]).collect::<Vec<_>>();
    assert_eq!(of(&["trim_extents_written", "trim_bytes_written", "trim_bytes_failed"]), [2, 65_536, 0]);
    let auto = ["autotrim_extents_skipped", "autotrim_bytes_skipped", "autotrim_extents_failed"];
    assert_eq!(of(&auto), [3, 12_288, 1]);
    let blocks = ["arc_read_count", "arc_read_bytes", "arc_write_count", "arc_write_bytes"];
    assert_eq!(of(&blocks), [45, 300_000, 38, 540_672]);
    assert_eq!(of(&["direct_read_count", "direct_write_bytes", "simple_trim_extents_written"]), [0, 0, 0]);
}

#[test]
fn states_guids_and_txgs_have_no_first_line() {
    let files = files(&observed(&["tank"]));
    let text = |name| find(&files, Some("tank"), name).text(&STAMP);
    assert_eq!((text("state"), text("guid")), ("DEGRADED\n".into(), "12345\n".into()));
    let expected = "\
txg      birth            state ndirty       nread        nwritten     reads    writes   otime        qtime        wtime        stime       \n\
4711     5214787391       C     131072       0            540672       0        38       5001234567   10234        0            38123456    \n\
4712     5214788391       O     0            0            0            0        0        0            0            0            0           \n";
    assert_eq!(text("txgs"), expected);
}

#[test]
fn figures_of_pools_are_added() {
    let of = |pools: &[&str], name| numbers(&find(&files(&observed(pools)), None, name).text(&STAMP));
    for name in ["zil", "dmu_tx", "zfetchstats"] {
        let (one, two) = (of(&["a"], name), of(&["a", "b"], name));
        assert!(one.iter().all(|(name, number)| two[name] == 2 * number), "{two:?}");
    }
    let arc = of(&["a", "b"], "arcstats");
    assert_eq!((arc["hits"], arc["iohits"], arc["misses"]), (302, 12, 90));
    assert_eq!((arc["size"], arc["c"]), (2_000_000, 200 << 20));
    assert_eq!((arc["pd"], arc["meta"]), ((1_u64 << 32) / 10, (1_u64 << 32) * 20 / 95));
    assert_eq!(of(&[], "arcstats")["size"], 0, "no pool is open");
}

#[test]
fn the_parts_of_the_cache_are_its_size() {
    let arc = numbers(&find(&files(&observed(&["a"])), None, "arcstats").text(&STAMP));
    let sum = |names: &[&str]| names.iter().map(|name| arc[*name]).sum::<u64>();
    assert_eq!(sum(&["data_size", "metadata_size", "hdr_size", "abd_chunk_waste_size"]), arc["size"]);
    assert_eq!(sum(&["mru_size", "mfu_size"]), sum(&["data_size", "metadata_size"]));
}

#[test]
fn what_is_not_known_is_left_out() {
    let names = |observed: &Observed| numbers(&find(&files(observed), None, "arcstats").text(&STAMP));
    let mut seen = observed(&["a", "b"]);
    let all = names(&seen);
    // OpenZFS 2.3 has 147.
    assert_eq!(all.len(), 147, "{all:?}");
    assert_eq!((all["l2_size"], all["memory_available_bytes"]), (0, 1 << 30));
    seen.memory = None;
    assert!(!names(&seen).contains_key("memory_all_bytes"));
    let devices = CacheDevicesCounted { hits: 5, bytes: 6, ..CacheDevicesCounted::default() };
    seen.pools[1].counted.cache_devices = Some(devices);
    let with_devices = names(&seen);
    assert_eq!((with_devices["l2_hits"], with_devices["l2_asize"]), (5, 6));
    assert!(!with_devices.contains_key("l2_size"), "nothing counts it");
}

#[test]
fn an_absent_pool_has_a_state_and_nothing_else() {
    let files = files(&Observed { absent: vec!["gone".into()], ..observed(&[]) });
    let of_pool: Vec<_> = files.iter().filter(|file| file.path.pool.as_deref() == Some("gone")).collect();
    assert_eq!(of_pool.len(), 1);
    assert_eq!(of_pool[0].text(&STAMP), "UNAVAIL\n");
}

#[test]
fn names_make_no_lines_and_no_paths() {
    let mut seen = observed(&["..", "a/b", "", ".new", "arcstats", "tank"]);
    seen.pools[5].counted.datasets[0].name = "tank/a\nwrites 4 9".into();
    let files = files(&seen);
    let pools: BTreeSet<_> = files.iter().filter_map(|file| file.path.pool.as_deref()).collect();
    assert_eq!(pools, BTreeSet::from(["tank"]), "a pool with the name of a file is left out, too");
    let text = find(&files, Some("tank"), "objset-0x36").text(&STAMP);
    assert!(text.contains("dataset_name                    7    tank/a?writes 4 9\nwrites "), "{text}");
    let paths: BTreeSet<_> = files.iter().map(|file| &file.path).collect();
    assert_eq!(paths.len(), files.len(), "no two files have one path");
}
