//! What articles on databases on ZFS advise, as one measured table: each way to set up a pool beside direct I/O.

use std::sync::Arc;

use device::RealEnv;

use super::pooled::RECORD_DEFAULT;
use super::{Devices, Load, OltpError, On, Plan, Rate, Report, Setup, WalIn, run};
use crate::spread::Spread;

/// All ways, the baseline first.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Table {
    /// Rounds.
    pub rounds: usize,
    /// A row for each way.
    pub rows: Vec<Row>,
}

/// One way.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Row {
    /// What is set.
    pub name: &'static str,
    /// What was measured in each round.
    pub reports: Vec<Report>,
    /// The same in terms of the first row's in the same round.
    pub of_direct: Ratios,
}

/// Figures in terms of the baseline's.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Ratios {
    /// Transactions a second: more is better.
    pub transactions_per_second: Spread,
    /// Less is better, here and below.
    pub latency_p50: Spread,
    /// 99 %.
    pub latency_p99: Spread,
    /// CPU of a transaction.
    pub cpu: Spread,
    /// Bytes that devices moved for each that was asked for.
    pub io_amplification: Spread,
}

impl Ratios {
    /// Of at least one round.
    fn of(reports: &[Report], direct: &[Report]) -> Self {
        let spread = |figure: fn(&Report) -> f64| {
            let ratio = |(one, base): (&Report, &Report)| figure(one) / figure(base).max(f64::MIN_POSITIVE);
            Spread::of(reports.iter().zip(direct).map(ratio))
        };
        Self {
            transactions_per_second: spread(|report| report.transactions_per_second),
            latency_p50: spread(|report| report.latency_p50_us),
            latency_p99: spread(|report| report.latency_p99_us),
            cpu: spread(|report| report.cpu_us_per_transaction),
            io_amplification: spread(|report| report.io_amplification),
        }
    }
}

/// The ways that these devices allow, the baseline first.
pub(crate) fn ways(block: usize, has_log: bool) -> Vec<(&'static str, On)> {
    let base = Setup::matched(block);
    let logged = || Setup { has_log: true, ..base.clone() };
    let mut ways = vec![
        ("direct I/O", On::Direct { wal_on_log: false }),
        (
            "recordsize=128K, log in the same dataset",
            On::Pool(Setup { record: RECORD_DEFAULT, wal: WalIn::Same, ..base.clone() }),
        ),
        ("recordsize matched, same dataset", On::Pool(Setup { wal: WalIn::Same, ..base.clone() })),
        ("matched, log in its own dataset", On::Pool(base.clone())),
        ("the same, logbias=throughput for pages", On::Pool(Setup { throughput: true, ..base.clone() })),
        ("the same, checksum=off", On::Pool(Setup { no_checksum: true, ..base.clone() })),
    ];
    if has_log {
        ways.extend([
            ("direct I/O, its log on the log device", On::Direct { wal_on_log: true }),
            ("matched, log in its own pool there", On::Pool(Setup { wal: WalIn::Pool, ..base.clone() })),
            (
                "recordsize=128K, same dataset, log device",
                On::Pool(Setup { record: RECORD_DEFAULT, wal: WalIn::Same, ..logged() }),
            ),
            ("matched, own dataset, log device", On::Pool(logged())),
            ("the same, checksum=off, log device", On::Pool(Setup { no_checksum: true, ..logged() })),
        ]);
    }
    ways
}

/// Measures all ways in turn, so many times. A rate in percent is of what direct I/O can do in the first round, so that
/// all ways are asked for as many transactions.
///
/// # Errors
/// Those of the first that fails.
pub fn table(env: &Arc<RealEnv>, load: &Load, devices: &Devices, rounds: usize) -> Result<Table, OltpError> {
    let ways = ways(load.block, !devices.log.is_empty());
    let mut load = load.clone();
    let mut measured = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for ((_, on), reports) in ways.iter().zip(&mut measured) {
            let plan = Plan { load: load.clone(), devices: devices.clone(), on: on.clone() };
            let report = run(env, &plan)?;
            load.rate = report.asked_per_second.map_or(Rate::Most, Rate::PerSecond);
            reports.push(report);
        }
    }
    let direct = measured[0].clone();
    let row = |((name, _), reports): ((&'static str, On), Vec<Report>)| Row {
        name,
        of_direct: Ratios::of(&reports, &direct),
        reports,
    };
    Ok(Table { rounds, rows: ways.into_iter().zip(measured).map(row).collect() })
}

impl Table {
    /// For people: the baseline's figures, and then what the others are in terms of them.
    #[must_use]
    pub fn text(&self) -> String {
        let heads = ["transactions/s", "p50", "p99", "CPU", "bytes moved"];
        let mut lines = vec![line("", heads.map(str::to_owned))];
        let (first, others) = self.rows.split_first().expect("the baseline is there");
        lines.push(line(first.name, first.figures()));
        lines.extend(others.iter().map(|row| line(row.name, row.ratios())));
        lines.push(format!(
            "Each line after the first in terms of it, {}.",
            if self.rounds > 1 { "of the same round: the median (least to most)" } else { "one round" }
        ));
        lines.join("\n")
    }
}

impl Row {
    fn figures(&self) -> [String; 5] {
        let median = |figure: fn(&Report) -> f64| Spread::of(self.reports.iter().map(figure)).median;
        [
            format!("{:.0}", median(|report| report.transactions_per_second)),
            format!("{:.0} µs", median(|report| report.latency_p50_us)),
            format!("{:.0} µs", median(|report| report.latency_p99_us)),
            format!("{:.0} µs", median(|report| report.cpu_us_per_transaction)),
            format!("{:.2}", median(|report| report.io_amplification)),
        ]
    }

    fn ratios(&self) -> [String; 5] {
        let Ratios { transactions_per_second, latency_p50, latency_p99, cpu, io_amplification } =
            self.of_direct;
        [transactions_per_second, latency_p50, latency_p99, cpu, io_amplification].map(|spread| {
            if self.reports.len() == 1 {
                format!("{:.2}", spread.median)
            } else {
                format!("{:.2} ({:.2} to {:.2})", spread.median, spread.min, spread.max)
            }
        })
    }
}

fn line(name: &str, cells: [String; 5]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>20}")).collect();
    format!("{name:<44}{}", cells.concat()).trim_end().to_owned()
}
