//! Vdevs of every kind, and the devices of data and log vdevs.

use crate::PoolLook;
use crate::family::{Family, Known, Values, maybe, one, seconds, times, write as write_all};
use crate::name::Name;
use crate::text::{Text, Unit, Value};
use control::{LeafOps, LogLeafInfo, VdevInfo, VdevState};
use std::collections::BTreeMap;

const FAMILIES: &[Family<VdevInfo>] = &[
    Family::gauge(
        "sawmill_vdev_state",
        Unit::None,
        "State by its number in the format: 1 closed, 2 offline, 3 removed, 4 cannot be opened, 5 faulted, 6 degraded, 7 online.",
        |vdev| one(state_number(vdev.state)),
    ),
    Family::gauge("sawmill_vdev_resilvering", Unit::None, "1 while it is brought up to date.", |vdev| {
        leaf(vdev, vdev.resilvering)
    }),
    Family::gauge(
        "sawmill_vdev_size",
        Unit::Bytes,
        "Allocatable space of a top-level vdev; of a device, its size.",
        |vdev| maybe(size(vdev)),
    ),
    Family::gauge(
        "sawmill_vdev_allocated",
        Unit::Bytes,
        "Space of a top-level vdev that is allocated.",
        |vdev| maybe(Some(vdev.stats.allocated_bytes).filter(|_| vdev.stats.space_bytes > 0)),
    ),
    Family::counter(
        "sawmill_vdev_errors",
        Unit::None,
        "Operations that failed, and blocks that did not match their checksum; 0 again after zpool clear.",
        |vdev: &VdevInfo| {
            let stats = &vdev.stats;
            vec![
                ("read", stats.read_errors.into()),
                ("write", stats.write_errors.into()),
                ("checksum", stats.checksum_errors.into()),
            ]
        },
    )
    .by("kind"),
    Family::counter(
        "sawmill_vdev_slow_operations",
        Unit::None,
        "Operations that took more than 30 seconds.",
        |vdev| one(vdev.stats.slow_ios),
    ),
    Family::counter("sawmill_vdev_operations", Unit::None, "Reads and writes.", |vdev: &VdevInfo| {
        vec![("read", vdev.stats.io.reads.into()), ("write", vdev.stats.io.writes.into())]
    })
    .by("op"),
    Family::counter("sawmill_vdev_transferred", Unit::Bytes, "Bytes read and written.", |vdev: &VdevInfo| {
        vec![("read", vdev.stats.io.read_bytes.into()), ("write", vdev.stats.io.written_bytes.into())]
    })
    .by("op"),
];

const DEVICES: &[Family<LogLeafInfo>] = &[
    Family::counter(
        "sawmill_device_operations",
        Unit::None,
        "Operations that were sent to the device.",
        |leaf: &LogLeafInfo| ops(leaf, |ops| ops.ops.into()),
    )
    .by("op"),
    Family::counter(
        "sawmill_device_operation",
        Unit::Seconds,
        "What operations took, added up: divided by their number, the mean; by the time that went by, how many were under way.",
        |leaf: &LogLeafInfo| ops(leaf, |ops| seconds(ops.nanos)),
    )
    .by("op"),
    Family::histogram(
        "sawmill_device_flush",
        Unit::Seconds,
        "How long flushes took.",
        |leaf| one(times(&leaf.flush_times)),
    ),
];

fn leaf(vdev: &VdevInfo, value: bool) -> Values {
    maybe(vdev.kind.is_leaf().then_some(value.into()))
}

fn size(vdev: &VdevInfo) -> Option<u64> {
    let sizes = [vdev.stats.space_bytes, vdev.stats.physical_bytes];
    sizes.into_iter().find(|bytes| *bytes > 0)
}

fn ops(leaf: &LogLeafInfo, of: fn(&LeafOps) -> Value) -> Values {
    vec![("read", of(&leaf.reads)), ("write", of(&leaf.writes)), ("flush", of(&leaf.flushes))]
}

fn state_number(state: VdevState) -> u64 {
    match state {
        VdevState::Closed => 1,
        VdevState::Offline => 2,
        VdevState::Removed => 3,
        VdevState::CantOpen => 4,
        VdevState::Faulted => 5,
        VdevState::Degraded => 6,
        VdevState::Online => 7,
    }
}

pub(crate) fn write(text: &mut Text, pools: &[PoolLook]) {
    let all: Vec<_> = pools.iter().flat_map(vdevs).collect();
    let known: Vec<_> =
        all.iter().map(|(name, thing)| Known { labels: name.labels(), thing: *thing }).collect();
    write_all(text, FAMILIES, &known);
    let devices: Vec<_> = pools.iter().flat_map(devices).collect();
    let known = devices.iter().map(|(name, thing)| Known { labels: name.labels(), thing: *thing });
    write_all(text, DEVICES, &known.collect::<Vec<_>>());
}

/// All vdevs of a pool, caches and spares too, but for holes.
fn vdevs(look: &PoolLook) -> Vec<(Name<'_>, &VdevInfo)> {
    let pool = &look.pool;
    let beside = pool.caches.iter().chain(&pool.spares);
    let all = std::iter::once(&pool.root).chain(beside).flat_map(VdevInfo::walk);
    all.filter(|vdev| vdev.is_shown()).map(|vdev| (Name::of(&pool.name, vdev), vdev)).collect()
}

/// The devices of data and log vdevs.
fn devices(look: &PoolLook) -> Vec<(Name<'_>, &LogLeafInfo)> {
    let all: BTreeMap<u64, &VdevInfo> = look.pool.root.leaves().map(|vdev| (vdev.guid, vdev)).collect();
    let leaves = look.logs.iter().flat_map(|logs| &logs.vdevs).flat_map(|top| &top.leaves);
    let named = leaves.filter_map(|leaf| Some((Name::of(&look.pool.name, all.get(&leaf.guid)?), leaf)));
    named.collect()
}
