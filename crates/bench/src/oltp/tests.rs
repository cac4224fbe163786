use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use device::Options;

use super::report::amplification;
use super::table::ways;
use super::*;

fn load() -> Load {
    Load {
        threads: 2,
        reads: 2,
        writes: 1,
        block: 8 << 10,
        span: 2 << 20,
        wal_record: 16 << 10,
        wal_span: 1 << 20,
        pages: Pages::Cached,
        checkpoint: Duration::from_millis(20),
        rate: Rate::Most,
        ramp: Duration::ZERO,
        time: Duration::from_millis(60),
    }
}

fn device(dir: &tempfile::TempDir, name: &str) -> PathBuf {
    let path = dir.path().join(name);
    File::create(&path).and_then(|file| file.set_len(128 << 20)).expect("room");
    path
}

fn devices(dir: &tempfile::TempDir) -> Devices {
    Devices { main: vec![device(dir, "main")], log: vec![device(dir, "log")], cache: 16 << 20 }
}

fn env() -> Arc<RealEnv> {
    RealEnv::new(Options::default())
}

fn direct(load: Load, devices: &Devices) -> Report {
    let plan = Plan { load, devices: devices.clone(), on: On::Direct { wal_on_log: false } };
    run(&env(), &plan).expect("plain files work")
}

#[test]
fn amplification_is_bytes_moved_for_each_asked_for() {
    assert_eq!(amplification(30, 20), 1.5);
    assert_eq!(amplification(30, 0), 0.0);
    // Two pages of 8 KiB read, one written with a record of 16 KiB, ten times.
    assert_eq!(load().asked_for(10), Moved { read: 160 << 10, written: 240 << 10 });
}

#[test]
fn a_rate_in_percent_is_of_what_the_ramp_found() {
    let rates = [Rate::Most, Rate::PerSecond(30.0), Rate::Percent(60.0)];
    assert_eq!(rates.map(|rate| rate.per_second(200.0)), [0.0, 30.0, 120.0]);
}

#[test]
fn direct_io_moves_what_it_is_asked_for_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = direct(load(), &devices(&dir));
    assert!(report.transactions >= 2, "{report:?}");
    assert_eq!(report.moved, report.asked);
    assert_eq!(report.io_amplification, 1.0);
}

#[test]
fn a_pool_writes_more_than_it_is_asked_for_and_reads_from_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let [.., (_, on)] = &ways(8 << 10, true)[..] else { panic!("there are ways") };
    let pages = Pages::Stable;
    let plan = Plan { load: Load { pages, ..load() }, devices: devices(&dir), on: on.clone() };
    let report = run(&env(), &plan).expect("a pool on files works");
    assert!(report.write_amplification > 1.0, "{report:?}");
    assert!(report.read_amplification < 1.0, "{report:?}");
}

#[test]
fn an_open_loop_asks_for_no_more_than_its_rate() {
    let dir = tempfile::tempdir().expect("a directory");
    let report = direct(Load { rate: Rate::PerSecond(100.0), ..load() }, &devices(&dir));
    // Each thread makes one at least.
    let most = 2.0 + 100.0 * report.seconds;
    assert!(report.transactions as f64 <= most, "{report:?}");
    assert_eq!(report.asked_per_second, Some(100.0));
}

#[test]
fn a_file_without_room_is_refused_and_not_lengthened() {
    let dir = tempfile::tempdir().expect("a directory");
    let plan = Plan {
        load: Load { span: 128 << 20, ..load() },
        devices: devices(&dir),
        on: On::Direct { wal_on_log: false },
    };
    let needed = plan.load.span + plan.load.wal_span;
    let refused = run(&env(), &plan).expect_err("there is no room for the log");
    assert!(matches!(refused, OltpError::TooSmall { needed: told, .. } if told == needed), "{refused}");
}

#[test]
fn the_table_has_each_way_beside_direct_io() {
    let dir = tempfile::tempdir().expect("a directory");
    let load =
        Load { time: Duration::ZERO, rate: Rate::Percent(50.0), ramp: Duration::from_millis(20), ..load() };
    let table = table(&env(), &load, &devices(&dir), 2).expect("all ways work");
    assert_eq!(table.rows.len(), ways(8 << 10, true).len());
    assert_eq!(table.rows[0].of_direct.latency_p99.median, 1.0);
    let asked: Vec<_> =
        table.rows.iter().flat_map(|row| &row.reports).map(|one| one.asked_per_second).collect();
    assert!(asked[0].is_some() && asked.iter().all(|rate| *rate == asked[0]), "{asked:?}");
    assert_eq!(table.text().lines().count(), table.rows.len() + 2);
}

#[test]
fn without_a_log_device_no_way_asks_for_one() {
    let asks = |(_, on): &(_, On)| match on {
        On::Direct { wal_on_log } => *wal_on_log,
        On::Pool(setup) => setup.has_log || setup.wal == WalIn::Pool,
    };
    assert!(!ways(8 << 10, false).iter().any(asks));
    assert_eq!(ways(8 << 10, true).iter().filter(|way| asks(way)).count(), 5);
}
