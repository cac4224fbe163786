//! Before and after a log was added, or removed.
//!
//! ```text
//!   the mark before it, or the oldest tick ──before──► mark ──after──► the next mark (the log failed, perhaps), or now
//! ```
//! Only ticks in which something was committed count: how long nobody did anything tells nothing of a log.

use crate::history::{Happened, History, Mark};
use crate::tick::Tick;
use serde::Serialize;
use units::Latencies;

/// The last time that a log was added or removed, with what was so before and after it.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    mark: Mark,
    before: Means,
    after: Means,
}

/// Means over some ticks. Rates are a second's, times in microseconds.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Means {
    /// How long somebody committed, in seconds.
    seconds: f64,
    commits: f64,
    /// Commits that were under way at a time: the load.
    under_way: f64,
    data_bytes: f64,
    mean_us: f64,
    p99_below_us: f64,
    /// Operations under way at a time on devices of data vdevs, and of log vdevs: how busy they are.
    data_in_flight: f64,
    log_in_flight: f64,
}

impl Comparison {
    /// None unless something was committed both before and after.
    pub(crate) fn of(history: &History) -> Option<Self> {
        let turns = |mark: &&Mark| matches!(mark.what, Happened::Added | Happened::Removed);
        let mark = history.marks().rfind(turns)?;
        let begin = history.marks().rfind(|other| other.number < mark.number).map_or(0, |other| other.number);
        let end =
            history.marks().find(|other| other.number > mark.number).map_or(u64::MAX, |other| other.number);
        let before = history.ticks_from(begin).take_while(|tick| tick.number < mark.number);
        let after = history.ticks_from(mark.number).take_while(|tick| tick.number < end);
        Some(Self { mark: mark.clone(), before: Means::of(before)?, after: Means::of(after)? })
    }
}

impl Means {
    /// None when nothing was committed.
    fn of<'a>(ticks: impl Iterator<Item = &'a Tick>) -> Option<Self> {
        let busy: Vec<&Tick> = ticks.filter(|tick| tick.commits > 0.0).collect();
        let seconds: f64 = busy.iter().map(|tick| tick.seconds).sum();
        let mean = |value: fn(&Tick) -> f64| {
            busy.iter().map(|tick| value(tick) * tick.seconds).sum::<f64>() / seconds
        };
        let mut latency = Latencies::default();
        busy.iter().for_each(|tick| latency += tick.latency);
        (seconds > 0.0).then(|| Self {
            seconds,
            commits: mean(|tick| tick.commits),
            under_way: mean(|tick| tick.under_way),
            data_bytes: mean(|tick| tick.data_bytes),
            mean_us: latency.mean().as_secs_f64() * 1e6,
            p99_below_us: latency.percentile(99.0).as_secs_f64() * 1e6,
            data_in_flight: mean(|tick| tick.data_in_flight),
            log_in_flight: mean(|tick| tick.log_in_flight),
        })
    }
}
