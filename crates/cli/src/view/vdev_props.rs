//! Properties of a vdev, as `zpool get all POOL VDEV` lists them.

use super::get::Row;
use super::names::{NameStyle, vdev_name};
use super::status::state_word;
use control::{PoolInfo, VdevInfo};
use engine::nice;
use engine::props::Source;

/// The names of the properties, in OpenZFS's order.
pub const NAMES: [&str; 50] = [
    "capacity",
    "state",
    "guid",
    "asize",
    "psize",
    "ashift",
    "size",
    "free",
    "allocated",
    "comment",
    "expandsize",
    "fragmentation",
    "bootsize",
    "parity",
    "path",
    "devid",
    "physpath",
    "encpath",
    "fru",
    "parent",
    "children",
    "numchildren",
    "read_errors",
    "write_errors",
    "checksum_errors",
    "initialize_errors",
    "null_ops",
    "read_ops",
    "write_ops",
    "free_ops",
    "claim_ops",
    "trim_ops",
    "null_bytes",
    "read_bytes",
    "write_bytes",
    "free_bytes",
    "claim_bytes",
    "trim_bytes",
    "removing",
    "allocating",
    "failfast",
    "checksum_n",
    "checksum_t",
    "io_n",
    "io_t",
    "slow_io_n",
    "slow_io_t",
    "trim_support",
    "trim_errors",
    "slow_ios",
];

/// One property of a vdev; none when there is no such property.
pub fn row(pool: &PoolInfo, vdev: &VdevInfo, property: &str, exact: bool) -> Option<Row> {
    let (value, source) = value(pool, vdev, property, exact)?;
    let name = vdev_name(vdev, NameStyle::default());
    Some(Row { name, property: property.to_owned(), value, source, received: None })
}

fn value(pool: &PoolInfo, vdev: &VdevInfo, property: &str, exact: bool) -> Option<(String, Source)> {
    let stats = &vdev.stats;
    let size = |bytes: u64| if exact { bytes.to_string() } else { nice::number(bytes) };
    let percent = |n: u64| if exact { n.to_string() } else { format!("{n}%") };
    let names = NameStyle::default();
    let fact = |value: String| Some((value, Source::None));
    match property {
        "name" => fact(vdev_name(vdev, names)),
        "capacity" => fact(percent(100 * stats.allocated_bytes / stats.space_bytes.max(1))),
        "state" => fact(state_word(vdev).to_owned()),
        "guid" => fact(vdev.guid.to_string()),
        "asize" => fact(size(asize(vdev))),
        // What was set is put in its place.
        "comment" => Some(("-".to_owned(), Source::Default)),
        "bootsize" => Some(("0".to_owned(), Source::Default)),
        "removing" => fact(switch(vdev.removing)),
        "failfast" => Some(("on".to_owned(), Source::Default)),
        "devid" | "physpath" | "encpath" | "fru" => Some(("-".to_owned(), Source::Default)),
        "checksum_n" | "checksum_t" | "io_n" | "io_t" | "slow_io_n" | "slow_io_t" => {
            Some(("-".to_owned(), Source::Default))
        }
        // Sawmill makes no such requests to devices.
        "null_ops" | "free_ops" | "claim_ops" | "null_bytes" | "free_bytes" | "claim_bytes" => {
            fact("0".to_owned())
        }
        // Sawmill does not count these events by vdev.
        "initialize_errors" | "trim_errors" | "trim_ops" | "trim_bytes" => fact("-".to_owned()),
        "trim_support" if vdev.kind.is_leaf() => fact(switch(!vdev.cannot_trim)),
        "trim_support" => fact("-".to_owned()),
        "slow_ios" => fact(size(stats.slow_ios)),
        "psize" => fact(size(stats.physical_bytes)),
        "ashift" => fact(vdev.ashift.to_string()),
        "size" => fact(size(stats.space_bytes)),
        "free" => fact(size(stats.space_bytes.saturating_sub(stats.allocated_bytes))),
        "allocated" => fact(size(stats.allocated_bytes)),
        "expandsize" if stats.expand_bytes == 0 => fact("-".to_owned()),
        "expandsize" => fact(size(stats.expand_bytes)),
        "fragmentation" => fact(stats.fragmentation.map_or("-".to_owned(), percent)),
        "parity" => fact(match vdev.kind {
            control::VdevKind::Raidz { parity } | control::VdevKind::Draid { parity, .. } => {
                parity.to_string()
            }
            _ => "0".to_owned(),
        }),
        "path" => fact(vdev.path.clone().unwrap_or_else(|| "-".to_owned())),
        "parent" => fact(parent_name(pool, vdev)),
        "children" if vdev.children.is_empty() => Some(("-".to_owned(), Source::Default)),
        "children" => fact(vdev.children.iter().map(|c| vdev_name(c, names)).collect::<Vec<_>>().join(",")),
        "numchildren" => fact(vdev.children.len().to_string()),
        "read_errors" => fact(size(stats.read_errors)),
        "write_errors" => fact(size(stats.write_errors)),
        "checksum_errors" => fact(size(stats.checksum_errors)),
        "read_ops" => fact(size(stats.io.reads)),
        "write_ops" => fact(size(stats.io.writes)),
        "read_bytes" => fact(size(stats.io.read_bytes)),
        "write_bytes" => fact(size(stats.io.written_bytes)),
        "allocating" if vdev.non_allocating => Some(("off".to_owned(), Source::Local)),
        "allocating" if is_top_level(pool, vdev) => Some(("on".to_owned(), Source::Default)),
        "allocating" => fact("-".to_owned()),
        _ => None,
    }
}

fn switch(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// What of it could be allocated, but for labels.
fn asize(vdev: &VdevInfo) -> u64 {
    match vdev.kind.is_leaf() {
        true => vdev.stats.physical_bytes.saturating_sub(units::LABEL_START_BYTES + units::LABEL_END_BYTES),
        false => vdev.stats.space_bytes,
    }
}

/// One that was set: a text.
pub fn kept_row(vdev: &VdevInfo, property: &str, value: Option<&str>) -> Row {
    Row {
        name: vdev_name(vdev, NameStyle::default()),
        property: property.to_owned(),
        value: value.unwrap_or("-").to_owned(),
        source: if value.is_some() { Source::Local } else { Source::Default },
        received: None,
    }
}

fn is_top_level(pool: &PoolInfo, vdev: &VdevInfo) -> bool {
    pool.root.children.iter().any(|top| top.guid == vdev.guid)
}

fn parent_name(pool: &PoolInfo, vdev: &VdevInfo) -> String {
    let holds = |parent: &&VdevInfo| parent.children.iter().any(|c| c.guid == vdev.guid);
    match pool.root.walk().find(holds) {
        Some(parent) if parent.guid != pool.root.guid => vdev_name(parent, NameStyle::default()),
        _ => pool.name.clone(),
    }
}
