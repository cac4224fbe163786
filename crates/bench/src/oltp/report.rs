//! What was measured.

use std::time::Duration;

use super::load::{Driven, Load, Pages};
use super::store::Moved;

/// What was measured of one load.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// Threads.
    pub threads: usize,
    /// Bytes of a page.
    pub block_bytes: usize,
    /// Bytes that a transaction appends to the log.
    pub wal_record_bytes: usize,
    /// When pages were stable.
    pub pages: Pages,
    /// Transactions a second that were asked for; none when as many as possible.
    pub asked_per_second: Option<f64>,
    /// Transactions made.
    pub transactions: u64,
    /// Seconds that took.
    pub seconds: f64,
    /// Transactions a second.
    pub transactions_per_second: f64,
    /// Microseconds of a transaction, from when it was due, mean.
    pub latency_mean_us: f64,
    /// The same, median.
    pub latency_p50_us: f64,
    /// 99 %.
    pub latency_p99_us: f64,
    /// 99.9 %.
    pub latency_p999_us: f64,
    /// CPU microseconds of the process for each, with the writing afterwards.
    pub cpu_us_per_transaction: f64,
    /// Transactions of which the records went out as one append.
    pub transactions_per_append: f64,
    /// Bytes that the database read and wrote.
    pub asked: Moved,
    /// Bytes that devices read and wrote for it.
    pub moved: Moved,
    /// The latter in terms of the former, read.
    pub read_amplification: f64,
    /// Written.
    pub write_amplification: f64,
    /// Both together.
    pub io_amplification: f64,
}

impl Report {
    pub(crate) fn new(load: &Load, rate: f64, driven: Driven, moved: Moved, cpu: Duration) -> Self {
        let (per_second, seconds) = (driven.rate(), driven.took.as_secs_f64());
        let latencies = driven.latencies.sorted();
        let transactions = latencies.count();
        let asked = load.asked_for(transactions);
        Self {
            threads: load.threads,
            block_bytes: load.block,
            wal_record_bytes: load.wal_record,
            pages: load.pages,
            asked_per_second: (rate > 0.0).then_some(rate),
            transactions,
            seconds,
            transactions_per_second: per_second,
            latency_mean_us: latencies.mean_us(),
            latency_p50_us: latencies.at_us(0.5),
            latency_p99_us: latencies.at_us(0.99),
            latency_p999_us: latencies.at_us(0.999),
            cpu_us_per_transaction: cpu.as_secs_f64() * 1e6 / transactions.max(1) as f64,
            transactions_per_append: transactions as f64 / driven.appends.max(1) as f64,
            asked,
            moved,
            read_amplification: amplification(moved.read, asked.read),
            write_amplification: amplification(moved.written, asked.written),
            io_amplification: amplification(moved.bytes(), asked.bytes()),
        }
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let rate = self.asked_per_second.map(|rate| format!(" of {rate:.0} asked for")).unwrap_or_default();
        format!(
            "{} threads, pages of {} B, log records of {} B: {:.0} transactions/s{rate}, latency mean {:.0} p50 {:.0} p99 {:.0} \
             p99.9 {:.0} µs, {:.0} µs CPU each, {:.1} of them in one append, devices moved {:.2} bytes for each asked for \
             (read {:.2}, written {:.2})",
            self.threads,
            self.block_bytes,
            self.wal_record_bytes,
            self.transactions_per_second,
            self.latency_mean_us,
            self.latency_p50_us,
            self.latency_p99_us,
            self.latency_p999_us,
            self.cpu_us_per_transaction,
            self.transactions_per_append,
            self.io_amplification,
            self.read_amplification,
            self.write_amplification,
        )
    }
}

/// Bytes of devices for each byte that was asked for; 0 where nothing was.
pub(crate) fn amplification(moved: u64, asked: u64) -> f64 {
    if asked == 0 { 0.0 } else { moved as f64 / asked as f64 }
}
