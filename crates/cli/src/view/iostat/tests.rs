use super::*;
use crate::view::testing::{captured, captured_in, p1};
use control::{Counts, DeviceIo, IoCounters, PoolIoInfo, PriorityIo};

fn whole(pool: &PoolInfo, style: &IostatStyle, earlier: Option<&Sample>) -> String {
    shown(&sample(pool), style, earlier)
}

fn shown(sample: &Sample, style: &IostatStyle, earlier: Option<&Sample>) -> String {
    let width = style.name_width(&[&sample.pool]);
    let has_heading = !style.scripted && style.histogram.is_none();
    let header = if has_heading { style.header(width) } else { String::new() };
    header + &style.pool(sample, earlier, width)
}

fn sample(pool: &PoolInfo) -> Sample {
    Sample { pool: pool.clone(), io: None }
}

/// So many in one place.
fn only(place: usize, count: u64) -> Counts {
    let mut counts = vec![0; place + 1];
    counts[place] = count;
    Counts(counts)
}

/// `count` in the bucket that `zpool` calls `bucket`, and half as many in that of 3 ns.
fn times(bucket: usize, count: u64) -> Counts {
    let mut counts = only(bucket + 1, count);
    counts += &only(2, count / 2);
    counts
}

/// The figures that OpenZFS's `zpool` was given of a device; each other device has a multiple of them.
fn device(guid: u64, multiple: u64) -> DeviceIo {
    let time = |number: u64| times(8 + 2 * number as usize, multiple * (number + 1) * 200);
    let priority = |number: u64| PriorityIo {
        waits: if number < 6 { time(4 + number) } else { Counts::default() },
        individual: only(number as usize, multiple * (number + 1) * 200),
        aggregate: only(7 + number as usize, multiple * (number + 8) * 200),
        pending: multiple * (number + 8),
        active: multiple * (number + 1),
    };
    DeviceIo {
        guid,
        read: control::IoTimes { total: time(0), disk: time(2) },
        write: control::IoTimes { total: time(1), disk: time(3) },
        flush: only(3, 77),
        sync_read: priority(0),
        sync_write: priority(1),
        async_read: priority(2),
        async_write: priority(3),
        scrub: priority(4),
        trim: priority(5),
    }
}

/// `p1` after such a second.
fn busy() -> Sample {
    fn put(vdev: &mut VdevInfo, multiple: u64) {
        vdev.stats.io = IoCounters {
            reads: 5 * multiple,
            writes: 20 * multiple,
            read_bytes: 2048 * multiple,
            written_bytes: 8192 * multiple,
        };
    }
    let mut pool = p1();
    let mut devices = vec![device(pool.caches[0].guid, 3)];
    put(&mut pool.caches[0], 3);
    put(&mut pool.root, 4);
    for top in &mut pool.root.children {
        put(top, 2);
        top.children.iter_mut().for_each(|leaf| put(leaf, 1));
        devices.extend(top.children.iter().map(|leaf| device(leaf.guid, 1)));
    }
    let io = PoolIoInfo { open_nanos: pool.open_nanos, devices };
    Sample { pool, io: Some(io) }
}

fn style(flags: &str) -> IostatStyle {
    let has = |flag| flags.contains(flag);
    IostatStyle {
        scripted: has('H'),
        exact: has('p'),
        verbose: has('v'),
        latency: has('l'),
        queues: has('q'),
        histogram: match (has('w'), has('r')) {
            (true, _) => Some(Histogram::Latency),
            (_, true) => Some(Histogram::Size),
            _ => None,
        },
        ..IostatStyle::default()
    }
}

#[test]
fn times_queues_and_histograms_read_as_openzfs_prints_the_same_figures() {
    let capture = include_str!("../../../tests/golden/iostat.txt");
    for flags in ["lq", "vl", "vlqH", "vlqp", "w", "wp", "wHp", "r", "rp", "rvH"] {
        let want = captured_in(capture, &format!("zpool iostat -{flags} p1"));
        assert_eq!(shown(&busy(), &style(flags), None), want, "-{flags}");
    }
}

#[test]
fn a_later_look_averages_what_was_added_and_shows_histograms_by_the_second() {
    let before = busy();
    let mut after = before.clone();
    after.pool.open_nanos += 4_000_000_000;
    let io = after.io.as_mut().expect("counted");
    io.open_nanos += 4_000_000_000;
    let log = io.devices.iter_mut().find(|device| device.guid == 3_579_974_902_565_991_528).expect("l1");
    log.sync_write.individual += &only(4, 40);
    log.sync_write.waits += &only(0, 40);
    log.write.total += &times(10, 40);
    log.sync_write.pending = 5;
    let cells = |flags: &str| {
        let only = vec!["/tmp/w/l1".to_owned()];
        let style = IostatStyle { verbose: true, only, ..style(flags) };
        let text = shown(&after, &style, Some(&before));
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let sizes = cells("rH");
    let row = sizes.iter().find(|row| row[0] == "8192").expect("8K");
    assert_eq!(row[3], "10", "40 in four seconds");
    assert_eq!(sizes.iter().flat_map(|row| &row[1..]).filter(|cell| *cell != "0").count(), 1);
    let row = cells("lqH").into_iter().find(|row| row[0] == "/tmp/w/l1").expect("l1");
    // (40 * 1,536 + 20 * 3) / 60; nothing waited, nothing else was done; what is in the queue is what is there now.
    assert_eq!(row[7..18], ["-", "1us", "-", "-", "-", "-", "-", "-", "-", "-", "-"]);
    assert_eq!(row[18..22], ["8", "1", "5", "2"]);
}

#[test]
fn no_time_is_in_the_first_row_and_every_time_in_some() {
    let mut all = busy();
    let io = all.io.as_mut().expect("counted");
    io.devices = vec![DeviceIo { guid: all.pool.root.children[0].children[0].guid, ..DeviceIo::default() }];
    io.devices[0].sync_write.waits = Counts(vec![1; units::LATENCY_BUCKETS]);
    let text = shown(&all, &style("wHp"), None);
    let column = text.lines().skip(2).map(|row| row.split('\t').nth(6).expect("a column"));
    let column: Vec<u64> = column.map(|cell| cell.parse().expect("a number")).collect();
    assert_eq!((column.len(), column[0], column[36]), (37, 2, 2));
    assert!(column[1..36].iter().all(|count| *count == 1), "{column:?}");
}

/// The figures differ from sample to sample in the captures; the layout does not.
fn layout(text: &str) -> Vec<String> {
    let blank = |c: char| if c.is_ascii_digit() { '9' } else { c };
    text.lines().map(|line| line.chars().map(blank).collect()).collect()
}

#[test]
fn exact_figures_for_programs_read_as_captured() {
    let style = IostatStyle { scripted: true, exact: true, verbose: true, ..IostatStyle::default() };
    assert_eq!(whole(&p1(), &style, None), captured("zpool iostat -vHp p1"));
}

#[test]
fn the_header_reads_as_captured() {
    let head = |text: &str| text.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
    let plain = IostatStyle::default();
    assert_eq!(head(&whole(&p1(), &plain, None)), head(&captured("zpool iostat")));
    let verbose = IostatStyle { verbose: true, ..IostatStyle::default() };
    assert_eq!(head(&whole(&p1(), &verbose, None)), head(&captured("zpool iostat -v p1")));
    let exact = IostatStyle { verbose: true, exact: true, ..IostatStyle::default() };
    assert_eq!(head(&whole(&p1(), &exact, None)), head(&captured("zpool iostat -vp p1")));
}

#[test]
fn every_row_stands_where_the_capture_has_it() {
    let exact = IostatStyle { verbose: true, exact: true, ..IostatStyle::default() };
    let (got, want) = (whole(&p1(), &exact, None), captured("zpool iostat -vp p1"));
    let (got, want) = (layout(&got), layout(&want));
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got.len(), want.len(), "{got}");
        assert_eq!(got.split_whitespace().next(), want.split_whitespace().next());
    }
}

#[test]
fn single_vdevs_are_shown_as_captured() {
    let style = IostatStyle { verbose: true, only: vec!["/tmp/w/l1".into()], ..IostatStyle::default() };
    let mut pool = p1();
    let log = &mut pool.root.children[1].children[0].stats.io;
    (log.read_bytes, log.written_bytes) = (421, 39_117);
    assert_eq!(whole(&pool, &style, None), captured("zpool iostat p1 /tmp/w/l1"));
}

#[test]
fn later_rounds_show_what_was_added_per_second() {
    let pool = p1();
    let before = sample(&pool);
    let mut after = pool;
    after.open_nanos += 2_000_000_000;
    after.root.stats.io.writes += 10;
    after.root.stats.io.written_bytes += 4096;
    let style = IostatStyle { scripted: true, ..IostatStyle::default() };
    assert_eq!(whole(&after, &style, Some(&before)), "p1\t727K\t143M\t0\t5\t0\t2K\n");
}
