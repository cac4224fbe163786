//! Pools as wholes.

use crate::PoolLook;
use crate::family::{Family, Known, Values, maybe, one, seconds, write as write_all};
use crate::text::{Text, Unit, Value};
use control::{PoolHealth, PoolInfo, Value as Property};

const FAMILIES: &[Family<PoolInfo>] = &[
    Family::gauge(
        "sawmill_pool_state",
        Unit::None,
        "Whether the pool is in the state of the label: 1 for just one state.",
        states,
    )
    .by("state"),
    Family::gauge(
        "sawmill_pool_stopped",
        Unit::None,
        "1 once the pool has stopped for good, for a reason that is no device's.",
        |pool| one(pool.stopped),
    ),
    Family::gauge("sawmill_pool_open", Unit::Seconds, "How long the pool has been open.", |pool| {
        one(seconds(pool.open_nanos))
    }),
    Family::gauge("sawmill_pool_txg", Unit::None, "The last transaction group that was synced.", |pool| {
        one(pool.txg)
    }),
    Family::gauge("sawmill_pool_size", Unit::Bytes, "Allocatable space, parity included.", |pool| {
        one(pool.root.stats.space_bytes)
    }),
    Family::gauge("sawmill_pool_allocated", Unit::Bytes, "Space that is allocated.", |pool| {
        one(pool.root.stats.allocated_bytes)
    }),
    Family::gauge("sawmill_pool_freeing", Unit::Bytes, "Space that is still being freed.", |pool| {
        maybe(number(pool, "freeing"))
    }),
    Family::gauge(
        "sawmill_pool_leaked",
        Unit::Bytes,
        "Space that could not be freed after an error.",
        |pool| maybe(number(pool, "leaked")),
    ),
    Family::gauge("sawmill_pool_checkpoint", Unit::Bytes, "Space kept for the checkpoint alone.", |pool| {
        maybe(pool.checkpoint.map(|kept| kept.kept_bytes))
    }),
    Family::gauge(
        "sawmill_pool_fragmentation",
        Unit::Ratio,
        "How scattered free space is, from 0 to 1.",
        |pool| {
            let percent = pool.root.stats.fragmentation;
            percent.map(|percent| ("", Value::Real(percent as f64 / 100.0))).into_iter().collect()
        },
    ),
    Family::gauge("sawmill_pool_data_errors", Unit::None, "Known errors in data.", |pool| {
        one(pool.error_count)
    }),
    Family::gauge("sawmill_pool_replays", Unit::None, "Replays of intent logs under way.", |pool| {
        one(pool.replays.len() as u64)
    }),
];

fn states(pool: &PoolInfo) -> Values {
    use PoolHealth::{Degraded, Faulted, Online, Suspended, Unavail};
    let all = [
        ("online", Online),
        ("degraded", Degraded),
        ("faulted", Faulted),
        ("unavail", Unavail),
        ("suspended", Suspended),
    ];
    all.map(|(word, state)| (word, Value::from(pool.health == state))).into()
}

fn number(pool: &PoolInfo, property: &str) -> Option<u64> {
    match pool.props.get(property)?.value {
        Property::Number(number) => Some(number),
        Property::Text(_) | Property::Absent => None,
    }
}

pub(crate) fn write(text: &mut Text, pools: &[PoolLook]) {
    let by_name =
        pools.iter().map(|look| Known { labels: vec![("pool", look.pool.name.as_str())], thing: &look.pool });
    write_all(text, FAMILIES, &by_name.collect::<Vec<_>>());
}
