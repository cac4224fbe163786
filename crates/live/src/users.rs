//! Who used the logs between two looks.

use crate::interval::{Quantiles, rate};
use advise::{counts, more, worked};
use control::{LogDatasetInfo, LogThreadInfo, LogUsers};
use serde::Serialize;
use std::collections::BTreeMap;

/// A dataset that made commits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DatasetUse {
    /// Its name.
    pub name: String,
    /// Commits that had something to do, a second.
    pub commits_per_second: f64,
    /// Data that was made stable, in bytes a second.
    pub data_bytes_per_second: f64,
    /// Bytes of log blocks a second.
    pub written_bytes_per_second: f64,
    /// How long commits took.
    pub quantiles: Option<Quantiles>,
}

/// A process that asked for something to be stable, in one dataset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessUse {
    /// Its number.
    pub process: u64,
    /// Its command; none where it was gone before anybody looked.
    pub command: Option<String>,
    /// The dataset.
    pub dataset: String,
    /// How often it asked, a second.
    pub syncs_per_second: f64,
    /// How long it waited each time on the mean, in microseconds.
    pub mean_us: f64,
}

pub(crate) fn datasets(early: &LogUsers, late: &LogUsers, seconds: f64) -> Vec<DatasetUse> {
    let before: BTreeMap<u64, &LogDatasetInfo> = early.datasets.iter().map(|one| (one.objset, one)).collect();
    let nothing = LogDatasetInfo::default();
    // Where some were left out, one that was not there may have been among them, with any counts.
    let unseen = (early.datasets_left_out == 0).then_some(&nothing);
    let each = late.datasets.iter().filter_map(|now| {
        let before = before.get(&now.objset).copied().or(unseen)?;
        Some(dataset(before, now, seconds))
    });
    let mut all: Vec<DatasetUse> = each.filter(|one| one.commits_per_second > 0.0).collect();
    all.sort_by(|a, b| {
        b.commits_per_second.total_cmp(&a.commits_per_second).then_with(|| a.name.cmp(&b.name))
    });
    all
}

fn dataset(before: &LogDatasetInfo, now: &LogDatasetInfo, seconds: f64) -> DatasetUse {
    let empty = more(now.commits_empty, before.commits_empty);
    let commits = more(now.commits, before.commits).saturating_sub(empty);
    DatasetUse {
        name: now.name.clone(),
        commits_per_second: rate(commits, seconds),
        data_bytes_per_second: rate(more(now.data_bytes, before.data_bytes), seconds),
        written_bytes_per_second: rate(more(now.written_bytes, before.written_bytes), seconds),
        quantiles: Quantiles::of(&worked(&counts(&now.latency, &before.latency), empty)),
    }
}

/// Differences are taken thread by thread, for threads come and go, and only then added up by process.
pub(crate) fn processes(early: &LogUsers, late: &LogUsers, seconds: f64) -> Vec<ProcessUse> {
    let key = |one: &LogThreadInfo| (one.dataset.clone(), one.thread);
    let before: BTreeMap<_, &LogThreadInfo> = early.threads.iter().map(|one| (key(one), one)).collect();
    let mut sums = BTreeMap::<(u64, &str), (u64, u64, &LogThreadInfo)>::new();
    for now in &late.threads {
        let (syncs, nanos) = before.get(&key(now)).map_or((0, 0), |one| (one.syncs, one.nanos));
        let sum = sums.entry((now.process, &now.dataset)).or_insert((0, 0, now));
        // One that was forgotten meanwhile and came back counts from nothing, in both.
        let is_new = now.syncs < syncs;
        sum.0 += if is_new { now.syncs } else { now.syncs - syncs };
        sum.1 += if is_new { now.nanos } else { now.nanos.saturating_sub(nanos) };
    }
    let each = sums.into_values().filter(|(syncs, ..)| *syncs > 0).map(|(syncs, nanos, of)| ProcessUse {
        process: of.process,
        command: of.command.clone(),
        dataset: of.dataset.clone(),
        syncs_per_second: rate(syncs, seconds),
        mean_us: nanos as f64 / syncs as f64 / 1e3,
    });
    let mut all: Vec<ProcessUse> = each.collect();
    all.sort_by(|a, b| b.syncs_per_second.total_cmp(&a.syncs_per_second).then(a.process.cmp(&b.process)));
    all
}
