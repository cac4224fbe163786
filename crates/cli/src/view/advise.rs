//! What `sawmill advise log` tells people: sentences in 80 columns.

use crate::advise::{Answer, Gain};
use crate::view::page::{Page, count, micros, rate, size_of};
use advise::{Advice, Device, Doubt, Life, Load, Mirror, Peak, Size, Times};
use bench::gain::Outcome;
use engine::nice::bytes;

/// Measured for less than this, averages say little.
const SHORT_SECS: f64 = 60.0;

/// All of it.
pub fn text(answer: &Answer) -> String {
    let advice = &answer.advice;
    let mut page = Page::default();
    let since = if advice.is_since_import { ", since it was opened" } else { "" };
    page.line(&format!("pool '{}', measured for {}{since}", answer.pool, span(advice.seconds)));
    if advice.seconds < SHORT_SECS {
        page.line("That is short: what follows is of this time only.");
    }
    if advice.has_gaps {
        page.line("Txgs went by faster than they were looked at: peaks may have been higher.");
    }
    if advice.load.commits == 0 {
        page.head("load");
        page.item(
            "No commits: nobody asked for anything to be stable at once (fsync, O_DSYNC, sync=always). A log \
                   device would change nothing.",
        );
    } else {
        load(&mut page, &advice.load);
        size(&mut page, &advice.size);
    }
    if let Some(gain) = &answer.gain {
        self::gain(&mut page, advice, gain);
    }
    endurance(&mut page, advice);
    mirror(&mut page, &advice.mirror);
    devices(&mut page, &advice.devices);
    page.0
}

fn load(page: &mut Page, load: &Load) {
    page.head("load");
    page.item(&format!(
        "{}, {} a second, {:.2} under way at a time",
        count(load.commits, "commit"),
        rate(load.commits_per_second),
        load.under_way
    ));
    if let Some(latency) = load.latency {
        page.item(&format!("a commit took {}", times(&latency)));
    }
    page.item(&format!("{} a second made stable", size_of(load.data_bytes_per_second)));
    page.item(&format!(
        "{} a second written as log blocks, {} each for {:.1} commits: {:.0}% data, {:.0}% heads of records and \
         changes of names, {:.0}% padding and chain",
        size_of(load.written_bytes_per_second),
        size_of(load.block_bytes),
        load.commits_per_batch,
        load.data_percent,
        load.head_percent,
        load.padding_percent
    ));
    if load.log_bytes_per_second > load.written_bytes_per_second {
        page.item(&format!(
            "{} a second would go to a log device: without one, large writes go to their places and the log names them",
            size_of(load.log_bytes_per_second)
        ));
    }
    if load.waited_for_txg > 0 {
        page.item(&format!("{} had to wait for a txg", count(load.waited_for_txg, "commit")));
    }
    if load.errors > 0 {
        page.item(&format!("{} writes or flushes of the log failed", load.errors));
    }
}

fn size(page: &mut Page, size: &Size) {
    page.head("size");
    let Size { peak, live_txgs, .. } = size;
    let holds = if size.has_logs { "left in the log" } else { "would have left in a log" };
    page.item(&format!(
        "a txg {holds}: {} on the mean, {} at most",
        bytes(size.mean_txg_bytes),
        bytes(peak.txg_bytes)
    ));
    page.item(&format!(
        "{live_txgs} txgs one after another, which have blocks there at once: {} at most",
        bytes(peak.live_bytes)
    ));
    if size.has_logs {
        page.item(&format!(
            "allocated there at once: {} at most, of {}",
            bytes(peak.held_bytes),
            bytes(size.room_bytes)
        ));
    }
    if size.cut_txgs > 0 {
        page.item(&format!(
            "{} txgs were synced early because the log was too small for them",
            size.cut_txgs
        ));
    }
    if let Some(uncut) = size.uncut_txg_bytes {
        page.item(&format!("the largest of the last ones would have been {} in its full time", bytes(uncut)));
    }
    if size.blocks_past_logs > 0 {
        page.item(&format!(
            "{} log blocks went to data vdevs because no log took them",
            size.blocks_past_logs
        ));
    }
    page.item(&enough(size, peak));
    if let Some(hour) = size.hour.filter(|hour| hour.txg_bytes != peak.txg_bytes) {
        page.item(&format!(
            "in the last hour: {} in a txg at most, for which {} would do",
            bytes(hour.txg_bytes),
            bytes(hour.enough_bytes)
        ));
    }
}

fn enough(size: &Size, peak: &Peak) -> String {
    if size.enough_bytes <= size.min_bytes {
        let least = bytes(size.min_bytes);
        return format!("enough: {least}, the smallest device that the format takes");
    }
    let largest = size.uncut_txg_bytes.map_or(peak.txg_bytes, |uncut| uncut.max(peak.txg_bytes));
    format!(
        "enough: {}, all log vdevs together: {} times the largest txg ({}), so that none takes more than {}% of what \
         is free when it begins; and labels",
        bytes(size.enough_bytes),
        100 / size.share_percent.max(1) + 1,
        bytes(largest),
        size.share_percent
    )
}

/// A model that is further off than this is not to be relied on.
const OFF_MAX: f64 = 2.0;

fn gain(page: &mut Page, advice: &Advice, gain: &Gain) {
    page.head("what a log brings, simulated");
    let load = &gain.load;
    page.item(&format!(
        "the load made again: {}, {} at a time, {} of rest between, on {} fitted to what was measured of it (seed {})",
        count(load.writers.into(), "writer"),
        bytes(load.bytes.into()),
        micros(load.rest.as_secs_f64() * 1e6),
        count(load.vdevs.len() as u64, "data vdev"),
        gain.seed
    ));
    page.0.push_str(&format!(
        "    {:12}{:>12}{:>12}{:>12}{:>12}{:>8}\n",
        "log", "half below", "99% below", "commits/s", "mean", "gain"
    ));
    let mut row = |name: &str, outcome: &Outcome, factor: String| {
        let (half, most) = (micros(outcome.p50_us), micros(outcome.p99_us));
        let (rate, mean) = (rate(outcome.commits_per_second), micros(outcome.mean_us));
        page.0.push_str(&format!("    {name:12}{half:>12}{most:>12}{rate:>12}{mean:>12}{factor:>8}\n"));
    };
    if let Some(now) = advice.load.latency {
        let outcome = Outcome {
            commits_per_second: advice.load.commits_per_second,
            mean_us: now.mean_us,
            p50_us: now.p50_below_us,
            p99_us: now.p99_below_us,
        };
        row("measured", &outcome, "-".to_owned());
    }
    row("none", &gain.without, "-".to_owned());
    for of in &gain.with {
        row(of.model, &of.outcome, format!("{}x", rate(of.factor)));
    }
    let Some(measured) = advice.load.latency.filter(|_| !advice.size.has_logs) else { return };
    let off = measured.mean_us / gain.without.mean_us.max(f64::MIN_POSITIVE);
    if !(1.0 / OFF_MAX..=OFF_MAX).contains(&off) {
        page.item(&format!(
            "Take this with care: without a log, commits took {} on the mean, and {} in the simulation.",
            micros(measured.mean_us),
            micros(gain.without.mean_us)
        ));
    }
}

fn endurance(page: &mut Page, advice: &Advice) {
    let lives = advice.devices.iter().filter_map(|device| Some((device.path.as_str(), device.life?)));
    let mut lives: Vec<(&str, Life)> = lives.collect();
    lives.extend(advice.life_of_new.map(|life| ("a new log device of 100 GB", life)));
    if lives.is_empty() {
        return;
    }
    page.head("endurance");
    for (name, life) in lives {
        let lasts = match life.years {
            None => "nothing was written to it".to_owned(),
            Some(years) => format!("{} at {} a second", years_of(years), size_of(life.bytes_per_second)),
        };
        page.item(&format!(
            "{name}: {lasts}; rated for {} TB, its size is written {} times a day",
            rate(life.rated_bytes / 1e12),
            rate(life.writes_of_device_per_day)
        ));
    }
    page.item("as written by this host; what a device writes beside that is in its maker's TBW, and not in P/E cycles");
}

fn mirror(page: &mut Page, mirror: &Mirror) {
    let (Some(fastest), Some(slowest)) = (mirror.fastest_us, mirror.slowest_us) else { return };
    page.head("mirrors");
    match mirror.mirrors {
        0 => page.item(&format!(
            "the log has one copy: what it holds is lost if its device fails at a crash. A mirror would write each \
             byte twice, and take as long as its slower device: {} here, if the other is no slower",
            micros(slowest)
        )),
        _ => page.item(&format!(
            "each byte of the log is written {:.1} times, and a commit waits for the slowest copy: {} on the mean, \
             the fastest takes {}",
            mirror.copies,
            micros(slowest),
            micros(fastest)
        )),
    }
}

fn devices(page: &mut Page, devices: &[Device]) {
    for is_log in [true, false] {
        let of_kind = || devices.iter().filter(move |device| device.is_log == is_log);
        if of_kind().next().is_some() {
            page.head(if is_log { "log devices" } else { "data devices" });
        }
        of_kind().for_each(|device| self::device(page, device));
    }
}

fn device(page: &mut Page, device: &Device) {
    page.item(&format!("{}, {}: {}", device.path, bytes(device.size_bytes), lies_on(device)));
    let wrote = device.write_mean_us.map(|mean| format!("a write takes {} on the mean", micros(mean)));
    let flushed = device.flush.map(|flush| format!("a flush {} ({} flushes)", times(&flush), device.flushes));
    let took: Vec<String> = wrote.into_iter().chain(flushed).collect();
    if !took.is_empty() {
        page.below(&took.join("; "));
    }
    if let Some(doubt) = device.doubt {
        page.below(&doubtful(&doubt));
    }
}

fn lies_on(device: &Device) -> String {
    let mut words = Vec::new();
    if let Some(kind) = &device.file_system {
        words.push(format!("a file in {kind}"));
    }
    for disk in &device.disks {
        let model = disk.model.as_ref().map(|model| format!(" ({model})")).unwrap_or_default();
        words.push(format!("on {}{model}", disk.name));
    }
    if device.disks.is_empty() {
        words.push("its disk is not told by the system".to_owned());
        return words.join(", ");
    }
    if device.is_virtual {
        words.push(
            "virtual: whether it turns, and what the host does with a flush, is not to be seen from here"
                .to_owned(),
        );
    }
    let turning = |turns| match turns {
        Some(true) => "which turns".to_owned(),
        Some(false) => "which does not turn".to_owned(),
        None => "turning or not: unknown".to_owned(),
    };
    words.extend((!device.is_virtual).then(|| turning(device.is_rotational)));
    words.push(match device.has_volatile_cache {
        Some(true) => "volatile write cache".to_owned(),
        Some(false) => "no volatile write cache".to_owned(),
        None => "write cache unknown".to_owned(),
    });
    words.join(", ")
}

fn doubtful(doubt: &Doubt) -> String {
    match doubt {
        Doubt::InMemory => "This is memory: nothing of it outlives a power cut.".to_owned(),
        Doubt::FlushFasterThanTurn { p90_below_us } => format!(
            "Suspicion: nine of ten flushes took less than {}, faster than a disk that turns reaches a place. Its \
             cache may be protected by a controller, or flushes are not carried out. Ask the maker, or pull the plug.",
            micros(*p90_below_us)
        ),
        Doubt::FlushFasterThanFlash { p90_below_us } => format!(
            "Suspicion: nine of ten flushes took less than {}, faster than flash keeps anything. Its cache may be \
             protected and not say so, or flushes are not carried out. Ask the maker, or pull the plug.",
            micros(*p90_below_us)
        ),
    }
}

fn times(times: &Times) -> String {
    format!(
        "about {} on the mean, half below {}, 99% below {}",
        micros(times.mean_us),
        micros(times.p50_below_us),
        micros(times.p99_below_us)
    )
}

fn years_of(years: f64) -> String {
    match years {
        years if years >= 1000.0 => "more than 1000 years".to_owned(),
        years if years >= 2.0 => format!("{} years", rate(years)),
        years => format!("{} days", rate(years * 365.25)),
    }
}

fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_units_that_fit() {
        assert_eq!([0.5, 3.0, 5000.0].map(years_of), ["183 days", "3.00 years", "more than 1000 years"]);
        assert_eq!([5.0, 65.0, 7_300.0, 90_000.0].map(span), ["5.0 s", "1 min 5 s", "2 h 1 min", "1 d 1 h"]);
    }
}
