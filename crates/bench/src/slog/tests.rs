use sim::DiskModel;

use super::*;

/// What the table is simulated on; short, for the program that tests is slower than the one that is used.
fn plan(rows: &[Logs], columns: &[usize], flushes: &[bool], time: Duration) -> Plan {
    let hardware = Hardware {
        disk_name: "hdd-2007".into(),
        disk: DiskModel::sata_2007(),
        fast_name: "nvram".into(),
        fast: DiskModel::nvram(),
        processors: Processors::CLASSIC,
        seed: 1,
    };
    let load = Load {
        threads: 32,
        size_bytes: 8 << 10,
        span_bytes: 400 << 20,
        ramp: Duration::from_millis(500),
        time,
    };
    Plan {
        load,
        columns: columns.into(),
        rows: rows.into(),
        flushes: flushes.into(),
        ground: Ground::Simulated(Box::new(hardware)),
    }
}

fn measured(plan: &Plan) -> Report {
    match run(plan, &|| ()) {
        Ok(report) => report,
        Err(crate::Refusal::Usage(why) | crate::Refusal::Failed(why)) => panic!("{why}"),
    }
}

fn rate(table: &Table, row: usize, column: usize) -> f64 {
    table.rows[row].cells[column].mb_per_second
}

#[test]
fn one_seed_gives_one_table() {
    let plan = plan(&[Logs::Disks(0), Logs::Disks(2)], &[1, 2], &[true], Duration::from_millis(500));
    let report = measured(&plan);
    let again = measured(&plan);
    assert_eq!((report.csv(), report.html(), report.text()), (again.csv(), again.html(), again.text()));
    let Ground::Simulated(hardware) = &plan.ground else { panic!("it is simulated") };
    let other = Hardware { seed: 2, ..(**hardware).clone() };
    let other = measured(&Plan { ground: Ground::Simulated(Box::new(other)), ..plan.clone() });
    assert_ne!(report.tables, other.tables);
}

/// Cells end when the file is written once over, or after five seconds, in which slow pools sync a txg or more.
#[test]
fn the_table_has_the_shape_that_logs_are_bought_for() {
    let plan = plan(&Logs::CLASSIC, &[1, 2, 4, 32], &[true, false], Duration::from_secs(2));
    let report = measured(&plan);
    let [flushed, safe] = report.tables.as_slice() else { panic!("two tables") };
    for table in &report.tables {
        for row in &table.rows {
            for (cell, original) in row.cells.iter().zip(&row.original) {
                let original = original.expect("each of these was measured in 2007");
                let (ours, theirs) = (cell.mb_per_second, f64::from(original.mb_per_second));
                assert!(ours >= theirs, "{}, flushes {}: {ours} and {theirs}", row.name, table.with_flushes);
            }
        }
    }
    let (none, nvram) = (0, 5);
    assert!(rate(flushed, nvram, 0) >= 15.0 * rate(flushed, none, 0), "one disk that is flushed");
    assert!(rate(safe, none, 3) >= 2.0 * rate(safe, none, 0), "more disks help where nothing is flushed");
}

/// So much is written that disks' caches are full most of the time, and a log is as fast as its platter.
#[test]
fn logs_scale() {
    let logs = [1, 2, 4, 8];
    let mut plan = plan(&logs.map(Logs::Disks), &[32], &[false], Duration::from_secs(1));
    plan.load.span_bytes = 1 << 30;
    // Of 32 writers eight logs have four each: most wait for a block before theirs in the chain, and for no log.
    plan.load.threads = 64;
    let report = measured(&plan);
    let rates: Vec<f64> = (0..logs.len()).map(|row| rate(&report.tables[0], row, 0)).collect();
    let least = [1.0, 1.5, 3.0, 7.0];
    let scale = || rates.iter().map(|rate| rate / rates[0]);
    assert!(scale().zip(least).all(|(scale, least)| scale >= least), "{:?}", scale().collect::<Vec<_>>());
}

#[test]
fn rates_are_told_in_every_form() {
    let cell = Cell {
        mb_per_second: 123.4,
        commits_per_second: 15_063.0,
        p50_us: 2.0,
        p99_us: 3.0,
        mean_us: 2.1,
        commits: 9,
    };
    let row = |name: &str, logs, cells: [Cell; 2], original| Row {
        name: name.into(),
        logs,
        cells: cells.into(),
        original,
    };
    let slow = Cell { mb_per_second: 12.34, ..cell };
    let known = |mb_per_second, is_exact| Some(Original { mb_per_second, is_exact });
    let rows = vec![
        row("no log", Logs::Disks(0), [slow, slow], vec![known(11, true), None]),
        row("<fast>", Logs::Fast, [cell, cell], vec![known(218, false), None]),
    ];
    let table = Table { with_flushes: true, columns: vec![1, 3], rows };
    let load = plan(&[], &[], &[], Duration::from_secs(1)).load;
    let report = Report { ground: "simulated: a < b".into(), load, tables: vec![table] };
    let text = report.text();
    assert!(text.contains("\nno log     12.3 (11)        12.3\n"), "{text}");
    assert!(text.contains("\n<fast>    123 (~218)         123\n"), "{text}");
    assert!(text.contains(", 1 data disk\n") && text.contains(", 3 data disks\n"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    assert!(text.contains(&format!("\n<fast>   {} 123\n", "#".repeat(52))), "{text}");
    let csv = report.csv();
    assert_eq!(csv.lines().nth(1), Some("yes,no log,1,12.34,15063.0,2.1,2.0,3.0,9,11"));
    assert_eq!(csv.lines().nth(4), Some("yes,<fast>,3,123.40,15063.0,2.1,2.0,3.0,9,"));
    let html = report.html();
    assert!(
        html.contains("a &lt; b") && html.contains("&lt;fast&gt;") && !html.contains("<fast>"),
        "escaped"
    );
    assert!(!html.contains("http"), "it needs no network");
}

#[test]
fn large_figures_keep_their_distance() {
    let cell = Cell { mb_per_second: 2_184.6, ..Cell::default() };
    let original = Some(Original { mb_per_second: 218, is_exact: false });
    let row =
        Row { name: "nvram".into(), logs: Logs::Fast, cells: vec![cell; 6], original: vec![original; 6] };
    let table = Table { with_flushes: true, columns: CLASSIC_COLUMNS.into(), rows: vec![row] };
    let load = plan(&[], &[], &[], Duration::from_secs(1)).load;
    let text = Report { ground: "simulated".into(), load, tables: vec![table] }.text();
    let line = text.lines().find(|line| line.starts_with("nvram ")).expect("a row");
    assert_eq!(line, format!("nvram   {}", " 2185 (~218)".repeat(6)));
    assert_eq!(line.len(), 80);
}
