//! The parts of a pool in the order tables show them.

use control::{PoolInfo, VdevClass, VdevInfo};

/// Vdevs of one class, under one heading.
pub struct Section<'a> {
    /// What they are for.
    pub class: VdevClass,
    /// In order of their ids.
    pub vdevs: Vec<&'a VdevInfo>,
}

/// All sections but the data vdevs, empty ones left out: dedup, special, logs, cache, spares.
pub fn sections(pool: &PoolInfo) -> Vec<Section<'_>> {
    let tops = [VdevClass::Dedup, VdevClass::Special, VdevClass::Log]
        .map(|class| Section { class, vdevs: pool.tops(class).collect() });
    let cache = Section { class: VdevClass::Cache, vdevs: pool.caches.iter().collect() };
    let spares = Section { class: VdevClass::Spare, vdevs: pool.spares.iter().collect() };
    tops.into_iter().chain([cache, spares]).filter(|s| !s.vdevs.is_empty()).collect()
}

/// The heading of a class in `zpool status` and layouts.
pub fn heading(class: VdevClass) -> &'static str {
    match class {
        VdevClass::Normal => "",
        VdevClass::Dedup => "dedup",
        VdevClass::Special => "special",
        VdevClass::Log => "logs",
        VdevClass::Cache => "cache",
        VdevClass::Spare => "spares",
    }
}

/// A vdev and how deep it stands, parents first; holes left out.
pub fn flatten(vdev: &VdevInfo, depth: usize) -> Vec<(usize, &VdevInfo)> {
    let below = vdev.shown_children().flat_map(|c| flatten(c, depth + 1));
    std::iter::once((depth, vdev)).chain(below).collect()
}

/// Every row of a pool's tree with its depth: the pool itself is not among them.
pub fn all_rows(pool: &PoolInfo) -> Vec<(usize, &VdevInfo)> {
    let data = pool.tops(VdevClass::Normal).flat_map(|v| flatten(v, 1));
    let rest = sections(pool).into_iter().flat_map(|s| s.vdevs).flat_map(|v| flatten(v, 1));
    data.chain(rest).collect()
}
