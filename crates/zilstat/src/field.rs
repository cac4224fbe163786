//! The fields: how each is called, how wide it is, and where its value comes from.
//!
//! ```text
//!   OpenZFS's counter           Sawmill's
//!   zil_commit_writer_count     writes to the log, each of one or more blocks
//!   zil_commit_error_count      commits that waited for a txg, because a log block failed or found no room
//!   zil_commit_stall_count      times a log block found no room
//!   zil_commit_suspend_count    always 0: no log is suspended here
//!   zil_itx_copied, needcopy    records of writes with their data in the log: there when they were logged, or fetched later
//!   zil_itx_metaslab_*          log blocks, by where they went: bytes of records and what ties blocks together; bytes
//!                               written; bytes allocated
//! ```

use control::{Counts, LogBlocks, LogInfo};
use units::Latencies;

/// What a field's number is divided by until it is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// It is no number.
    Text,
    /// By 1000: how many there were.
    Count,
    /// By 1024: bytes.
    Bytes,
    /// It is a part of 100.
    Percent,
    /// By 1000: microseconds, of the time in question.
    Micros,
}

/// One column that can be asked for.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// What heads the column, and what is asked for.
    pub name: &'static str,
    /// At least so wide.
    pub width: usize,
    /// How its number is shortened.
    pub scale: Scale,
    /// What it is: the counter, or which counters it is made of.
    pub meaning: &'static str,
    /// Its value; a text has none.
    pub value: fn(&LogInfo) -> u64,
}

const fn text(name: &'static str, width: usize, meaning: &'static str) -> Field {
    Field { name, width, scale: Scale::Text, meaning, value: |_| 0 }
}

const fn count(name: &'static str, width: usize, meaning: &'static str, value: fn(&LogInfo) -> u64) -> Field {
    Field { name, width, scale: Scale::Count, meaning, value }
}

const fn bytes(name: &'static str, width: usize, meaning: &'static str, value: fn(&LogInfo) -> u64) -> Field {
    Field { name, width, scale: Scale::Bytes, meaning, value }
}

const fn percent(
    name: &'static str,
    width: usize,
    meaning: &'static str,
    value: fn(&LogInfo) -> u64,
) -> Field {
    Field { name, width, scale: Scale::Percent, meaning, value }
}

const fn micros(name: &'static str, meaning: &'static str, value: fn(&LogInfo) -> u64) -> Field {
    Field { name, width: 6, scale: Scale::Micros, meaning, value }
}

/// OpenZFS's fields, in its order.
pub const FIELDS: [Field; 38] = [
    text("time", 8, "time"),
    text("pool", 12, "pool"),
    text("ds", 12, "dataset_name"),
    text("obj", 12, "objset"),
    count("cc", 5, "zil_commit_count", |log| log.commits),
    count("cwc", 5, "zil_commit_writer_count", |log| log.writes),
    count("cec", 5, "zil_commit_error_count", |log| log.fallbacks),
    count("csc", 5, "zil_commit_stall_count", |log| log.no_space),
    count("cSc", 5, "zil_commit_suspend_count", |_| 0),
    count("ic", 5, "zil_itx_count", |log| log.records),
    count("iic", 5, "zil_itx_indirect_count", |log| log.indirect.records),
    bytes("iib", 5, "zil_itx_indirect_bytes", |log| log.indirect.bytes),
    count("icc", 5, "zil_itx_copied_count", |log| log.copied.records),
    bytes("icb", 5, "zil_itx_copied_bytes", |log| log.copied.bytes),
    count("inc", 5, "zil_itx_needcopy_count", |log| log.needcopy.records),
    bytes("inb", 5, "zil_itx_needcopy_bytes", |log| log.needcopy.bytes),
    count("idc", 5, "icc+inc", |log| log.copied.records + log.needcopy.records),
    bytes("idb", 5, "icb+inb", |log| log.copied.bytes + log.needcopy.bytes),
    count("iwc", 5, "iic+idc", |log| log.indirect.records + log.copied.records + log.needcopy.records),
    bytes("iwb", 5, "iib+idb", |log| log.indirect.bytes + log.copied.bytes + log.needcopy.bytes),
    count("imnc", 6, "zil_itx_metaslab_normal_count", |log| log.normal.count),
    bytes("imnb", 6, "zil_itx_metaslab_normal_bytes", |log| log.normal.used_bytes),
    bytes("imnw", 6, "zil_itx_metaslab_normal_write", |log| log.normal.written_bytes),
    bytes("imna", 6, "zil_itx_metaslab_normal_alloc", |log| log.normal.allocated_bytes),
    count("imsc", 6, "zil_itx_metaslab_slog_count", |log| log.slog.count),
    bytes("imsb", 6, "zil_itx_metaslab_slog_bytes", |log| log.slog.used_bytes),
    bytes("imsw", 6, "zil_itx_metaslab_slog_write", |log| log.slog.written_bytes),
    bytes("imsa", 6, "zil_itx_metaslab_slog_alloc", |log| log.slog.allocated_bytes),
    count("imc", 5, "imnc+imsc", |log| both(log).count),
    bytes("imb", 5, "imnb+imsb", |log| both(log).used_bytes),
    bytes("imw", 5, "imnw+imsw", |log| both(log).written_bytes),
    bytes("ima", 5, "imna+imsa", |log| both(log).allocated_bytes),
    percent("se%", 3, "imb/ima", |log| space_percent(&both(log))),
    percent("sen%", 4, "imnb/imna", |log| space_percent(&log.normal)),
    percent("ses%", 4, "imsb/imsa", |log| space_percent(&log.slog)),
    percent("te%", 3, "imb/imw", |log| traffic_percent(&both(log))),
    percent("ten%", 4, "imnb/imnw", |log| traffic_percent(&log.normal)),
    percent("tes%", 4, "imsb/imsw", |log| traffic_percent(&log.slog)),
];

/// What OpenZFS does not count. Times are ends of powers of two: at most twice the true ones.
pub const EXTRA: [Field; 8] = [
    micros("p50", "us in which half of the commits were done", |log| percentile(&log.latency, 50.0)),
    micros("p99", "us in which 99% of the commits were done", |log| percentile(&log.latency, 99.0)),
    micros("q99", "us that 99% of the writes waited to be begun", |log| percentile(&log.queue, 99.0)),
    micros("w99", "us in which 99% of the writes were at the devices", |log| percentile(&log.write, 99.0)),
    micros("f99", "us in which 99% of the flushes after them were done", |log| percentile(&log.flush, 99.0)),
    count("cnc", 5, "commits that found everything stable", |log| log.commits_empty),
    count("wec", 5, "writes of log blocks that failed", |log| log.failed_writes),
    count("fec", 5, "flushes that failed", |log| log.failed_flushes),
];

/// What is shown of datasets.
pub const DATASET_DEFAULT: [&str; 12] =
    ["time", "ds", "cc", "ic", "idc", "idb", "iic", "iib", "imnc", "imnw", "imsc", "imsw"];

/// What is shown of all together.
pub const GLOBAL_DEFAULT: [&str; 11] =
    ["time", "cc", "ic", "idc", "idb", "iic", "iib", "imnc", "imnw", "imsc", "imsw"];

/// The field of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().chain(&EXTRA).find(|field| field.name == name)
}

fn both(log: &LogInfo) -> LogBlocks {
    let mut both = log.normal;
    both += log.slog;
    both
}

/// How much of what was allocated was needed; all of it where nothing was.
fn space_percent(blocks: &LogBlocks) -> u64 {
    part(blocks.used_bytes, blocks.allocated_bytes)
}

/// How much of what was written was needed.
fn traffic_percent(blocks: &LogBlocks) -> u64 {
    part(blocks.used_bytes, blocks.written_bytes)
}

fn part(used: u64, of: u64) -> u64 {
    (100 * used).checked_div(of).unwrap_or(100)
}

fn percentile(times: &Counts, percent: f64) -> u64 {
    let nanos = Latencies::from_counts(&times.0).percentile(percent).as_nanos();
    u64::try_from(nanos / 1000).unwrap_or(u64::MAX)
}
