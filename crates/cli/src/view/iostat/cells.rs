//! The figures of a row: average times, queues, and the columns of histograms.

use control::{Counts, DeviceIo};
use engine::nice;
use units::{LATENCY_BUCKETS, Latencies, SIZE_BUCKETS, Sizes};

/// No sequential rebuild here: its columns are OpenZFS's.
const NO_REBUILD: &Counts = &Counts(Vec::new());

/// Rows of OpenZFS's histogram of times: row `i` counts from 2^i ns to below twice that.
const TIME_ROWS: usize = 37;

/// The histograms that `-l` averages and `-w` shows, in the order of their columns.
pub fn times(io: &DeviceIo) -> [&Counts; 11] {
    [
        &io.read.total,
        &io.write.total,
        &io.read.disk,
        &io.write.disk,
        &io.sync_read.waits,
        &io.sync_write.waits,
        &io.async_read.waits,
        &io.async_write.waits,
        &io.scrub.waits,
        &io.trim.waits,
        NO_REBUILD,
    ]
}

/// `-l`: the average of each, `-` where nothing took any time.
pub fn averages(io: &DeviceIo, exact: bool) -> Vec<String> {
    let average = |counts: &Counts| {
        let mean = Latencies::from_counts(&counts.0).mean().as_nanos();
        match u64::try_from(mean).unwrap_or(u64::MAX) {
            0 => "-".to_owned(),
            nanos if exact => nanos.to_string(),
            nanos => nice::time(nanos),
        }
    };
    times(io).map(average).to_vec()
}

/// `-q`: how many wait, and how many the device has.
pub fn queues(io: &DeviceIo, exact: bool) -> Vec<String> {
    let now = io.priorities().map(|priority| [priority.pending, priority.active]);
    let number = |number: u64| if exact { number.to_string() } else { nice::number(number) };
    now.into_iter().chain([[0, 0]]).flatten().map(number).collect()
}

/// A row of a histogram: what it is called in exact numbers, and how many there are in each column.
pub struct Row {
    /// The end of a time, or the beginning of a size.
    pub label: u64,
    /// By column.
    pub counts: Vec<u64>,
}

/// `-w`: rows are called by the last nanosecond that they count.
pub fn time_rows(io: &DeviceIo) -> Vec<Row> {
    let columns = times(io);
    let row = |row: usize| Row {
        label: (2 << row) - 1,
        counts: columns.iter().map(|counts| in_row(counts, row)).collect(),
    };
    (0..TIME_ROWS).map(row).collect()
}

/// The buckets of [`Latencies`] that a row has: those of no time go to the first, what is longer than all to the last.
fn in_row(counts: &Counts, row: usize) -> u64 {
    let buckets = match row {
        0 => 0..2,
        row if row + 1 == TIME_ROWS => row + 1..LATENCY_BUCKETS,
        row => row + 1..row + 2,
    };
    buckets.map(|bucket| counts.at(bucket)).sum()
}

/// `-r`: rows are called by the smallest size that they count, in bytes.
pub fn size_rows(io: &DeviceIo) -> Vec<Row> {
    let mut columns: Vec<&Counts> = io
        .priorities()
        .into_iter()
        .flat_map(|priority| [&priority.individual, &priority.aggregate])
        .collect();
    columns.extend([NO_REBUILD, NO_REBUILD]);
    let row = |bucket: usize| Row {
        label: Sizes::start_bytes(bucket),
        counts: columns.iter().map(|counts| counts.at(bucket)).collect(),
    };
    (0..SIZE_BUCKETS).map(row).collect()
}
