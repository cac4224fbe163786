//! What recordings of commits tell people, in 80 columns.

use crate::view::page::{Page, count, micros, rate, size_of};
use advise::recorded::{Explained, Parts, explained, span};
use bench::gain::Outcome;
use bench::what_if::{Answer, range};
use control::{BatchIo, LogRecording, VdevClass, VdevKind};
use std::ops::Range;
use std::time::Duration;

/// Commits slower than so many percent are the slow ones.
const TAIL_PERCENT: usize = 99;

/// After a recording was made.
pub fn recorded(recording: &LogRecording, file: &str) -> String {
    let left_out = match recording.left_out {
        0 => String::new(),
        left_out => format!("; {left_out} more were left out (--commits)"),
    };
    let commits = count(recording.commits.len() as u64, "commit");
    format!("{commits} in {:.1} s, in '{file}'{left_out}\n", seconds(recording.span_nanos))
}

/// Where the time went, and the slowest one by one.
pub fn shown(recording: &LogRecording, slowest: usize, slower_than: Duration) -> String {
    let mut page = Page::default();
    let all = explained(recording);
    page.line(&format!(
        "pool '{}', recorded for {:.1} s: {}",
        recording.pool,
        seconds(recording.span_nanos),
        count(all.len() as u64, "commit")
    ));
    if recording.left_out > 0 {
        page.line(&format!("{} after those are left out.", count(recording.left_out, "commit")));
    }
    // Those that take longest come first.
    let at = |percent: usize| all[(all.len() - 1) * (100 - percent) / 100].commit.took;
    if let Some(longest) = all.first() {
        page.line(&format!(
            "{} a second; half took less than {}, 99% less than {}, the longest {}",
            rate(all.len() as f64 / span(recording).as_secs_f64().max(f64::MIN_POSITIVE)),
            nanos(at(50)),
            nanos(at(TAIL_PERCENT)),
            nanos(longest.commit.took)
        ));
        page.0.push_str(&parts_table(&all));
    }
    let meant = |one: &&Explained<'_>| u128::from(one.commit.took) > slower_than.as_nanos();
    let mut slow = all.iter().filter(meant).take(slowest).peekable();
    if slow.peek().is_some() {
        page.head("the slowest");
        slow.for_each(|one| commit(&mut page, recording, one));
    }
    page.0
}

/// Parts of the time of all commits, and of the slow ones.
fn parts_table(all: &[Explained<'_>]) -> String {
    let slow = &all[..all.len().div_ceil(100)];
    let sum = |some: &[Explained<'_>]| {
        let mut sum = Parts::default();
        some.iter().for_each(|one| sum += one.parts);
        let parts = sum.each();
        let whole = parts.iter().map(|(_, nanos)| nanos).sum::<u64>().max(1);
        parts.map(|(name, nanos)| (name, nanos as f64 * 100.0 / whole as f64))
    };
    let rows = sum(all).into_iter().zip(sum(slow));
    let row = |((name, all), (_, slow)): ((&str, f64), (&str, f64))| {
        format!("  {name:<18}{all:>8.1}%{slow:>10.1}%\n")
    };
    let heading = format!("\nwhere their time went{:>8}{:>11}\n", "all", "slowest 1%");
    heading + &rows.map(row).collect::<String>()
}

fn commit(page: &mut Page, recording: &LogRecording, one: &Explained<'_>) {
    let commit = one.commit;
    let dataset = recording.datasets.iter().find(|(objset, _)| *objset == commit.objset);
    let dataset = dataset.map_or_else(|| format!("objset {}", commit.objset), |(_, name)| name.clone());
    let object = commit.object.map_or_else(|| "all of it".to_owned(), |object| format!("object {object}"));
    page.item(&format!(
        "{}: {dataset}, {object}, at {:.3} s, with {} of {}",
        nanos(commit.took),
        seconds(commit.began),
        count(commit.records, "record"),
        size_of(commit.bytes as f64)
    ));
    if let Some(txg) = commit.txg {
        page.below(&format!(
            "waited for transaction group {txg}: the log could not take it, or had to begin a chain"
        ));
        return;
    }
    let parts = one.parts.each().into_iter().filter(|&(_, time)| time > 0);
    let parts: Vec<String> = parts.map(|(name, time)| format!("{name} {}", nanos(time))).collect();
    page.below(&parts.join(", "));
    let Some(batch) = one.batch else { return };
    let beside = match batch.beside {
        0 => String::new(),
        others => format!(", beside {} under way", count(others, "other")),
    };
    let blocks = batch.writes.iter().map(|write| write.bytes).sum::<u64>();
    page.below(&format!(
        "in a batch of {}, {} in {}{beside}",
        count(batch.records, "record"),
        size_of(blocks as f64),
        count(batch.writes.len() as u64, "write")
    ));
    if let Some(io) = one.slowest_io() {
        page.below(&slowest(recording, io));
    }
}

/// What took longest of a batch.
fn slowest(recording: &LogRecording, io: &BatchIo) -> String {
    let what = match io.bytes {
        0 => "a flush".to_owned(),
        bytes => format!("a write of {}", size_of(bytes as f64)),
    };
    let how = if io.is_failed { "failed after" } else { "took" };
    format!("longest: {what} of {} {how} {}", vdev(recording, io.vdev), nanos(io.took))
}

/// A top-level vdev as `zpool status` calls it.
fn vdev(recording: &LogRecording, id: u64) -> String {
    let Some(vdev) = recording.after.vdevs.iter().find(|vdev| vdev.id == id) else {
        return format!("vdev {id}");
    };
    let of_logs = if vdev.class == VdevClass::Log { " (logs)" } else { "" };
    match (vdev.kind, vdev.leaves.as_slice()) {
        (VdevKind::File | VdevKind::Disk, [leaf]) => format!("{}{of_logs}", leaf.path),
        (VdevKind::Raidz { parity }, _) => format!("raidz{parity}-{id}{of_logs}"),
        (kind, _) => format!("{}-{id}{of_logs}", kind.word()),
    }
}

/// What a log would bring.
pub fn answer(recording: &LogRecording, answer: &Answer, log: &str) -> String {
    let mut page = Page::default();
    page.line(&format!(
        "pool '{}', recorded for {:.1} s: {} by {}, made again {} times",
        recording.pool,
        seconds(recording.span_nanos),
        count(answer.commits as u64, "commit"),
        count(answer.writers as u64, "writer"),
        answer.without.len()
    ));
    let recorded = std::slice::from_ref(&answer.recorded);
    let with = format!("with a log: {log}");
    let mut rows = vec![("recorded", recorded), (&with, answer.with.as_slice())];
    if !answer.has_logs {
        rows.insert(1, ("simulated, no log device", &answer.without));
    }
    page.0.push_str(&format!("\n{:<28}{:>16}{:>16}{:>16}\n", "", "half below", "99% below", "mean"));
    rows.into_iter().for_each(|(name, outcomes)| page.0.push_str(&row(name, outcomes)));
    page.head("what the log brings");
    page.item(&format!(
        "half of all commits: {} times shorter, 99%: {} times",
        factor(&answer.factor(|one| one.p50_us)),
        factor(&answer.factor(|one| one.p99_us))
    ));
    page.item("least and most of nine simulations: disks as in all of the recording and in each half of it, three seeds");
    page.item(&match answer.has_logs {
        true => "in terms of what was recorded, with the log devices that the pool has".to_owned(),
        false => off(answer),
    });
    page.0
}

/// How well the recorded load was met.
fn off(answer: &Answer) -> String {
    let simulated = range(answer.without.iter().map(|one| one.p50_us));
    let middle = (simulated.start + simulated.end) / 2.0;
    let off = (middle / answer.recorded.p50_us.max(f64::MIN_POSITIVE) - 1.0) * 100.0;
    let side = if off < 0.0 { "below" } else { "above" };
    format!("without a log the simulation's median is {:.0}% {side} what was recorded", off.abs())
}

fn row(name: &str, outcomes: &[Outcome]) -> String {
    let cell = |figure: fn(&Outcome) -> f64| of_range(&range(outcomes.iter().map(figure)));
    let (p50, p99, mean) = (cell(|one| one.p50_us), cell(|one| one.p99_us), cell(|one| one.mean_us));
    let name = if name.chars().count() > 27 { format!("{name}\n{:<28}", "") } else { format!("{name:<28}") };
    format!("{name}{p50:>16}{p99:>16}{mean:>16}\n")
}

fn of_range(range: &Range<f64>) -> String {
    let (from, to) = (micros(range.start), micros(range.end));
    if from == to { from } else { format!("{}-{to}", from.split(' ').next().unwrap_or_default()) }
}

fn factor(range: &Range<f64>) -> String {
    let (from, to) = (rate(range.start), rate(range.end));
    if from == to { from } else { format!("{from} to {to}") }
}

fn nanos(nanos: u64) -> String {
    micros(nanos as f64 / 1e3)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
