use super::*;
use crate::view::testing::{captured, p1};

fn whole(pool: &PoolInfo, style: &IostatStyle, earlier: Option<&Sample>) -> String {
    let width = style.name_width(&[pool]);
    let header = if style.scripted { String::new() } else { style.header(width) };
    header + &style.pool(pool, earlier, width)
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
    let before = Sample::of(&pool);
    let mut after = pool;
    after.open_nanos += 2_000_000_000;
    after.root.stats.io.writes += 10;
    after.root.stats.io.written_bytes += 4096;
    let style = IostatStyle { scripted: true, ..IostatStyle::default() };
    assert_eq!(whole(&after, &style, Some(&before)), "p1\t727K\t143M\t0\t5\t0\t2K\n");
}
