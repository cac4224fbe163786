//! Datasets: for those who ask, since there may be many thousands of them.

use crate::family::{Family, Known, Values, maybe, write as write_all};
use crate::text::{Text, Unit};
use control::{DatasetInfo, DatasetKind, Value};

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

fn number(dataset: &DatasetInfo, property: &str) -> Values {
    maybe(match dataset.props.get(property).map(|prop| &prop.value) {
        Some(Value::Number(number)) => Some(*number),
        Some(Value::Text(_) | Value::Absent) | None => None,
    })
}

pub(crate) fn write(text: &mut Text, datasets: &[DatasetInfo]) {
    let lasting = datasets.iter().filter(|dataset| dataset.kind != DatasetKind::Snapshot);
    let known = lasting.map(|dataset| Known {
        labels: vec![
            ("pool", control::pool_of(&dataset.name)),
            ("dataset", dataset.name.as_str()),
            ("type", dataset.kind.word()),
        ],
        thing: dataset,
    });
    write_all(text, FAMILIES, &known.collect::<Vec<_>>());
}
