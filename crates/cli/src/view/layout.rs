//! The trees of `create -n` and `add -n`: what is there and what would come.

use super::names::{NameStyle, vdev_name};
use super::sections::{flatten, heading};
use control::{PoolInfo, VdevClass};
use engine::spec::{Layout, VdevSpec};
use std::fmt::Write;

const CLASSES: [VdevClass; 6] = [
    VdevClass::Normal,
    VdevClass::Dedup,
    VdevClass::Special,
    VdevClass::Log,
    VdevClass::Cache,
    VdevClass::Spare,
];

/// The tree of `name` with the vdevs of `pool`, if there is one, and the new ones after
/// them in each section. Only data vdevs that exist carry their number.
pub fn layout(name: &str, pool: Option<&PoolInfo>, specs: &[VdevSpec], names: NameStyle) -> String {
    let mut text = format!("\t{name}\n");
    for class in CLASSES {
        let mut rows = String::new();
        if let Some(pool) = pool {
            push_old(&mut rows, pool, class, names);
        }
        for spec in specs.iter().filter(|s| s.class == class) {
            push_new(&mut rows, spec);
        }
        if class != VdevClass::Normal && !rows.is_empty() {
            _ = writeln!(text, "\t{}", heading(class));
        }
        text.push_str(&rows);
    }
    text
}

fn push_old(rows: &mut String, pool: &PoolInfo, class: VdevClass, names: NameStyle) {
    let vdevs: Vec<_> = match class {
        VdevClass::Cache => pool.caches.iter().collect(),
        VdevClass::Spare => pool.spares.iter().collect(),
        class => pool.tops(class).collect(),
    };
    for (depth, vdev) in vdevs.into_iter().flat_map(|v| flatten(v, 1)) {
        let name = match vdev.kind.is_leaf() || class == VdevClass::Normal {
            true => vdev_name(vdev, names),
            false => vdev.kind.word().to_owned(),
        };
        _ = writeln!(rows, "\t{:1$}{name}", "", 2 * depth);
    }
}

fn push_new(rows: &mut String, spec: &VdevSpec) {
    let group = match spec.layout {
        Layout::Single => None,
        Layout::Mirror => Some("mirror".to_owned()),
        Layout::Raidz { parity } => Some(format!("raidz{parity}")),
        Layout::Draid { parity, data } => Some(format!("draid{parity}:{data}d:{}c:0s", spec.devices.len())),
    };
    let depth = if group.is_some() { 4 } else { 2 };
    if let Some(group) = group {
        _ = writeln!(rows, "\t  {group}");
    }
    for device in &spec.devices {
        _ = writeln!(rows, "\t{:depth$}{device}", "");
    }
}

#[cfg(test)]
mod tests;
