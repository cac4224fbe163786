//! Datasets: for those who ask, since there may be many thousands of them.

use crate::PoolLook;
use crate::family::{Family, Known, Values, maybe, one, times, write as write_all};
use crate::text::{Text, Unit};
use control::{DatasetInfo, DatasetKind, LogDatasetInfo, Value, pool_of};
use std::collections::BTreeMap;

const FAMILIES: &[Family<DatasetInfo>] = &[
    Family::gauge(
        "sawmill_dataset_used",
        Unit::Bytes,
        "Space used by the dataset and all below it.",
        |dataset| number(dataset, "used"),
    ),
    Family::gauge("sawmill_dataset_available", Unit::Bytes, "Space that it could still take.", |dataset| {
        number(dataset, "available")
    }),
    Family::gauge("sawmill_dataset_referenced", Unit::Bytes, "Space that it refers to.", |dataset| {
        number(dataset, "referenced")
    }),
];

const LOGS: &[Family<LogDatasetInfo>] = &[
    Family::counter("sawmill_dataset_commits", Unit::None, "Commits of the dataset.", |log| one(log.commits)),
    Family::counter(
        "sawmill_dataset_commits_empty",
        Unit::None,
        "Of the commits, those that found everything stable.",
        |log| one(log.commits_empty),
    ),
    Family::counter("sawmill_dataset_log_data", Unit::Bytes, "Data that was made stable.", |log| {
        one(log.data_bytes)
    }),
    Family::counter("sawmill_dataset_log_written", Unit::Bytes, "Log blocks written for it.", |log| {
        one(log.written_bytes)
    }),
    Family::histogram("sawmill_dataset_commit", Unit::Seconds, "How long commits took.", |log| {
        one(times(&log.latency))
    }),
];

fn number(dataset: &DatasetInfo, property: &str) -> Values {
    maybe(match dataset.props.get(property).map(|prop| &prop.value) {
        Some(Value::Number(number)) => Some(*number),
        Some(Value::Text(_) | Value::Absent) | None => None,
    })
}

pub(crate) fn write(text: &mut Text, datasets: &[DatasetInfo], pools: &[PoolLook]) {
    let lasting = datasets.iter().filter(|dataset| dataset.kind != DatasetKind::Snapshot);
    let known = lasting.map(|dataset| Known {
        labels: vec![
            ("pool", pool_of(&dataset.name)),
            ("dataset", dataset.name.as_str()),
            ("type", dataset.kind.word()),
        ],
        thing: dataset,
    });
    write_all(text, FAMILIES, &known.collect::<Vec<_>>());
    // By name: one that was destroyed may still be remembered beside one that was made in its place.
    let logs = pools.iter().flat_map(|look| &look.users.datasets);
    let logs: BTreeMap<&str, &LogDatasetInfo> = logs.map(|log| (log.name.as_str(), log)).collect();
    let known = logs.iter().map(|(name, thing)| Known {
        labels: vec![("pool", pool_of(name)), ("dataset", name)],
        thing: *thing,
    });
    write_all(text, LOGS, &known.collect::<Vec<_>>());
}
