//! What was seen is made up, and screens are compared with text: `tests/*.txt`. `SAWMILL_BLESS=1` writes them anew.

use crate::panels;
use crate::screen::draw;
use crate::watching::{Seen, Then, Watching};
use crate::{Ink, once};
use advise::Rating;
use control::{
    Failure, FailureKind, LeafOps, LogDatasetInfo, LogFacts, LogLeafInfo, LogThreadInfo, LogUsers,
    LogVdevInfo, PoolInfo, StorageInfo, VdevClass, VdevInfo, VdevKind, VdevState,
};
use live::{Interval, Look};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use std::path::Path;
use units::LATENCY_BUCKETS;

const SECOND: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;
const UNICODE: Ink = Ink { colour: true, unicode: true };

fn counts(given: &[(usize, u64)]) -> Vec<u64> {
    let mut all = vec![0; LATENCY_BUCKETS];
    given.iter().for_each(|&(bucket, count)| all[bucket] += count);
    all
}

fn pool(name: &str) -> PoolInfo {
    PoolInfo::new(name, VdevInfo::new(VdevKind::Root, 0, name.len() as u64, VdevClass::Normal))
}

fn leaf(guid: u64, path: &str, writes: u64) -> LogLeafInfo {
    LogLeafInfo {
        guid,
        path: path.into(),
        kind: VdevKind::Disk,
        state: VdevState::Online,
        size_bytes: 100 * MIB,
        reads: LeafOps::default(),
        writes: LeafOps { ops: writes, bytes: writes * 8_192, nanos: writes * 40_000 },
        flushes: LeafOps { ops: writes / 2, bytes: 0, nanos: writes / 2 * 100_000 },
        flush_times: counts(&[(17, writes / 2)]),
        storage: StorageInfo::default(),
    }
}

fn log(id: u64, leaves: Vec<LogLeafInfo>, blocks: u64) -> LogVdevInfo {
    LogVdevInfo {
        id,
        class: VdevClass::Log,
        kind: if leaves.len() > 1 { VdevKind::Mirror } else { VdevKind::Disk },
        state: VdevState::Online,
        space_bytes: 80 * MIB,
        held_bytes: 20 * MIB,
        blocks,
        block_bytes: blocks * 8_192,
        writes: counts(&[(16, blocks)]),
        flushes: counts(&[(17, blocks / 2)]),
        leaves,
    }
}

fn dataset(name: &str, commits: u64) -> LogDatasetInfo {
    LogDatasetInfo {
        name: name.into(),
        objset: name.len() as u64,
        commits,
        commits_empty: 0,
        data_bytes: commits * 4_096,
        written_bytes: commits * 8_192,
        latency: counts(&[(18, commits)]),
    }
}

fn thread(process: u64, command: Option<&str>, dataset: &str, syncs: u64) -> LogThreadInfo {
    LogThreadInfo {
        dataset: dataset.into(),
        thread: process,
        process,
        command: command.map(str::to_owned),
        syncs,
        nanos: syncs * 250_000,
    }
}

/// A look at a pool whose load rises and falls; every eighth second some commits are slow.
fn look(second: u64) -> Look {
    let mut latency = vec![0; LATENCY_BUCKETS];
    let mut commits = 0;
    for past in 1..=second {
        let now = 400 + 300 * (past % 7) + 40 * (past % 3);
        let slow = if past % 8 == 0 { 30 } else { 0 };
        let bucket = if past % 20 < 10 { 17 } else { 18 };
        for (bucket, count) in [(bucket, now - slow - 100), (19, 100), (22, slow / 10 * 9), (24, slow / 10)] {
            latency[bucket] += count;
        }
        commits += now;
    }
    let batches = commits / 2;
    let facts = LogFacts {
        open_nanos: second * SECOND,
        commits,
        batches,
        records: commits,
        data_bytes: commits * 4_096,
        record_bytes: commits * 4_288,
        written_bytes: batches * 12_288,
        latency,
        queue: counts(&[(12, commits)]),
        assemble: counts(&[(13, batches)]),
        write: counts(&[(16, batches)]),
        flush: counts(&[(17, batches / 2)]),
        wake: counts(&[(14, commits)]),
        parts_nanos: [3_000, 6_000, 100_000, 84_000, 12_000, 1_000].map(|nanos| nanos * commits).to_vec(),
        block_sizes: vec![0, batches / 4, batches / 2, batches / 8, 0, 0, 0, batches / 8],
        vdevs: vec![
            log(1, vec![leaf(11, "/dev/disk/by-id/nvme-log0-part1", batches)], batches),
            log(2, vec![leaf(12, "/dev/sdx", batches / 8), leaf(13, "/dev/sdy", batches / 8)], batches / 8),
        ],
        ..LogFacts::default()
    };
    let users = LogUsers {
        datasets: vec![
            dataset("tank/postgres", commits / 2),
            dataset("tank/vm/images/of/the/seventh/host", commits / 4),
            dataset("tank/mail", commits / 8),
            dataset("tank/home/anna", commits / 16),
        ],
        datasets_left_out: 0,
        threads: vec![
            thread(4_711, Some("postgres"), "tank/postgres", commits / 4),
            thread(4_712, Some("qemu-system-x86"), "tank/vm/images/of/the/seventh/host", commits / 4),
            thread(12, None, "tank/mail", commits / 16),
        ],
    };
    Look { pool: pool("tank"), facts, users }
}

fn seen(look: Look) -> Seen {
    Seen { pools: vec![pool("tank"), pool("backup")], look: Some(look) }
}

/// Somebody who has watched for a while.
fn watching() -> Watching {
    let mut watching = Watching::new(None, Some(Rating::TerabytesWritten(600.0)));
    (1..=90).for_each(|second| watching.see(Ok(seen(look(second)))));
    watching
}

fn drawn(watching: &Watching, ink: Ink, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    terminal.draw(|frame| draw(frame, ink, watching)).expect("memory");
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let rows = buffer.content().chunks(buffer.area.width.into());
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n")
        .collect()
}

fn assert_same(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    if std::env::var_os("SAWMILL_BLESS").is_some() {
        std::fs::write(&path, text).expect("the expected text is written");
    }
    let expected = std::fs::read_to_string(&path).expect("the expected text");
    assert!(text == expected, "{name} is\n{text}\nand not\n{expected}");
}

fn press(watching: &mut Watching, code: KeyCode) -> Then {
    watching.press(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn all_is_seen_on_a_small_screen_in_ascii() {
    assert_same("80x24-ascii.txt", &text(&drawn(&watching(), Ink::PLAIN, 80, 24)));
}

#[test]
fn all_is_seen_on_a_small_screen() {
    assert_same("80x24.txt", &text(&drawn(&watching(), UNICODE, 80, 24)));
}

#[test]
fn a_larger_screen_shows_more() {
    assert_same("120x40.txt", &text(&drawn(&watching(), UNICODE, 120, 40)));
}

#[test]
fn before_the_second_look_there_is_a_screen_too() {
    let mut watching = Watching::new(None, None);
    assert_same("80x24-before.txt", &text(&drawn(&watching, Ink::PLAIN, 80, 24)));
    watching.see(Ok(seen(look(1))));
    let text = text(&drawn(&watching, Ink::PLAIN, 80, 24));
    assert!(text.starts_with("sawmill top  tank ONLINE") && text.contains("no commits"), "{text}");
}

#[test]
fn no_size_of_a_screen_is_too_small() {
    let (mut with_choice, watching) = (self::watching(), watching());
    press(&mut with_choice, KeyCode::Char('o'));
    for (width, height) in [(1, 1), (5, 3), (20, 10), (40, 12), (79, 23), (81, 24), (300, 100)] {
        for one in [&with_choice, &watching] {
            assert_eq!(drawn(one, UNICODE, width, height).area.width, width);
        }
    }
}

#[test]
fn without_colour_nothing_is_coloured_and_all_is_said() {
    let colours = |ink| {
        let buffer = drawn(&watching(), ink, 80, 24);
        let coloured =
            buffer.content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        (coloured.count(), text(&buffer))
    };
    let (with, without) = (colours(UNICODE), colours(Ink { colour: false, ..UNICODE }));
    assert!(with.0 > 100, "{}", with.0);
    assert_eq!((without.0, without.1), (0, with.1));
    assert!(text(&drawn(&watching(), Ink::PLAIN, 80, 24)).is_ascii());
}

#[test]
fn what_one_interval_brought_is_told_in_ascii_of_80_columns() {
    let interval = Interval::between(&look(80), &look(90), Some(Rating::TerabytesWritten(600.0)));
    let text = once(&interval.expect("time went by"));
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 80), "{text}");
    assert_same("once.txt", &text);
}

#[test]
fn a_pause_holds_what_is_shown_and_looks_go_on_behind_it() {
    let mut watching = watching();
    press(&mut watching, KeyCode::Char('p'));
    let paused = text(&drawn(&watching, Ink::PLAIN, 80, 24));
    assert!(paused.contains(" paused "), "{paused}");
    (91..=95).for_each(|second| watching.see(Ok(seen(look(second)))));
    assert_eq!(text(&drawn(&watching, Ink::PLAIN, 80, 24)), paused);
    press(&mut watching, KeyCode::Char('p'));
    assert_eq!(watching.now().map(|now| now.at_seconds), Some(95.0));
    assert_eq!(watching.columns(1_000).len(), 94, "none is missing");
}

#[test]
fn a_zoom_puts_several_looks_into_a_column() {
    let mut watching = watching();
    let widths = [89, 18, 3, 89].map(|width| {
        let columns = watching.columns(1_000).len();
        assert_eq!(columns, width);
        press(&mut watching, KeyCode::Char('z'));
        columns
    });
    assert_eq!(widths[0], widths[3]);
}

#[test]
fn another_pool_is_chosen_from_a_list() {
    let mut watching = watching();
    press(&mut watching, KeyCode::Char('o'));
    let list = text(&drawn(&watching, Ink::PLAIN, 80, 24));
    assert!(list.contains("> tank ") && list.contains("  backup "), "{list}");
    press(&mut watching, KeyCode::Down);
    assert_eq!(press(&mut watching, KeyCode::Enter), Then::LookNow);
    assert_eq!((watching.wanted(), watching.now().is_none()), (Some("backup"), true));
    // What was asked for before comes late.
    watching.see(Ok(seen(look(91))));
    assert!(watching.last().is_none());
    // The same again changes nothing.
    press(&mut watching, KeyCode::Char('o'));
    assert_eq!(press(&mut watching, KeyCode::Enter), Then::GoOn);
}

#[test]
fn what_goes_wrong_is_said_and_forgotten_when_it_goes_well() {
    let mut watching = watching();
    watching.see(Err(Failure::new(FailureKind::Other, "the daemon has gone")));
    let first = |watching: &Watching| {
        text(&drawn(watching, Ink::PLAIN, 80, 24)).lines().next().expect("a line").to_owned()
    };
    assert!(first(&watching).contains("the daemon has gone"), "{}", first(&watching));
    watching.see(Ok(seen(look(91))));
    assert!(first(&watching).starts_with("sawmill top  tank ONLINE"), "{}", first(&watching));
    watching.see(Ok(Seen { pools: Vec::new(), look: None }));
    assert!(first(&watching).contains("cannot open 'tank': no such pool"), "{}", first(&watching));
    let mut none = Watching::new(None, None);
    none.see(Ok(Seen { pools: Vec::new(), look: None }));
    assert!(first(&none).contains("no pools are open"), "{}", first(&none));
}

#[test]
fn q_and_control_c_end_it() {
    let mut watching = watching();
    assert_eq!(press(&mut watching, KeyCode::Char('c')), Then::GoOn);
    assert_eq!(press(&mut watching, KeyCode::Char('q')), Then::Quit);
    press(&mut watching, KeyCode::Char('o'));
    assert_eq!(watching.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Then::Quit);
}

#[test]
fn devices_that_are_not_well_and_paths_that_are_odd_are_shown() {
    let mut late = look(2);
    late.facts.vdevs[0].state = VdevState::Faulted;
    late.facts.vdevs[1].leaves[0].path = "/dev/\x1b[2Jx".into();
    let interval = Interval::between(&look(1), &late, None).expect("time went by");
    let lines = panels::devices::lines(Ink::PLAIN, Some(&interval), 80, 24);
    let text: Vec<String> = lines.iter().map(panels::text).collect();
    assert!(text[1].contains("FAULTED") && !text[1].contains('%'), "{text:?}");
    assert!(text[3].starts_with("  /dev/?[2Jx "), "{text:?}");
    let few = panels::devices::lines(Ink::PLAIN, Some(&interval), 80, 4);
    let last = few.last().map(panels::text);
    assert_eq!((few.len(), last.as_deref()), (4, Some("  and 2 more")));
}
