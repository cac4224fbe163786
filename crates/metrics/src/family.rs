//! Tables of families: what each is called, and how it is had of a thing.

use crate::buckets::Buckets;
use crate::text::{Kind, Text, Unit, Value};

/// Block sizes of the log are counted in steps of so many bytes.
const BLOCK_STEP_BYTES: u64 = 4 << 10;

/// Several values of one thing, told apart by a label's value.
pub(crate) type Values = Vec<(&'static str, Value)>;

/// A family of metrics of one kind of thing.
pub(crate) struct Family<T> {
    name: &'static str,
    kind: Kind,
    unit: Unit,
    help: &'static str,
    /// The label that tells a thing's values apart; empty where it has but one.
    by: &'static str,
    values: fn(&T) -> Values,
}

impl<T> Family<T> {
    /// What goes up and down.
    pub(crate) const fn gauge(
        name: &'static str,
        unit: Unit,
        help: &'static str,
        values: fn(&T) -> Values,
    ) -> Self {
        Self { name, kind: Kind::Gauge, unit, help, by: "", values }
    }

    /// What grows.
    pub(crate) const fn counter(
        name: &'static str,
        unit: Unit,
        help: &'static str,
        values: fn(&T) -> Values,
    ) -> Self {
        Self { name, kind: Kind::Counter, unit, help, by: "", values }
    }

    /// Counts by size.
    pub(crate) const fn histogram(
        name: &'static str,
        unit: Unit,
        help: &'static str,
        values: fn(&T) -> Values,
    ) -> Self {
        Self { name, kind: Kind::Histogram, unit, help, by: "", values }
    }

    /// With several values of each thing.
    pub(crate) const fn by(mut self, label: &'static str) -> Self {
        self.by = label;
        self
    }
}

/// The one value of a thing.
pub(crate) fn one(value: impl Into<Value>) -> Values {
    vec![("", value.into())]
}

/// The one value of a thing that may have none.
pub(crate) fn maybe(value: Option<u64>) -> Values {
    value.map(|value| ("", value.into())).into_iter().collect()
}

/// Nanoseconds as seconds.
pub(crate) fn seconds(nanos: u64) -> Value {
    Value::Real(nanos as f64 / 1e9)
}

/// Counts of times.
pub(crate) fn times(counts: &[u64]) -> Value {
    Value::Histogram(Buckets::of_times(counts))
}

/// Counts of block sizes.
pub(crate) fn sizes(counts: &[u64], sum_bytes: u64) -> Value {
    Value::Histogram(Buckets::of_sizes(counts, BLOCK_STEP_BYTES, sum_bytes))
}

/// A thing, and the labels by which it is known.
pub(crate) struct Known<'a, T> {
    pub(crate) labels: Vec<(&'static str, &'a str)>,
    pub(crate) thing: &'a T,
}

/// Every family of the table, each with all things. A family that nothing has is left out.
pub(crate) fn write<T>(text: &mut Text, families: &[Family<T>], things: &[Known<'_, T>]) {
    for family in families {
        let measured: Vec<_> = things.iter().map(|known| (known, (family.values)(known.thing))).collect();
        if measured.iter().all(|(_, values)| values.is_empty()) {
            continue;
        }
        let mut series = text.family(family.name, family.kind, family.unit, family.help);
        for (known, values) in measured {
            for (which, value) in values {
                let mut labels = known.labels.clone();
                labels.extend((!family.by.is_empty()).then_some((family.by, which)));
                series.sample(&labels, &value);
            }
        }
    }
}
