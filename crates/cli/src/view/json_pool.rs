//! Pools and vdevs as `-j` shows them.

use super::condition::{PAGES, condition};
use super::json::Json;
use super::names::{NameStyle, vdev_name};
use super::scripts::ScriptColumns;
use super::sections::sections;
use super::status::{removed_name, state_word};
use control::{
    CheckpointInfo, PoolInfo, RemovalInfo, ReplayInfo, ScanFunction, ScanInfo, ScanState, SweepInfo,
    SweepState, VdevClass, VdevInfo, VdevKind,
};
use engine::nice;

/// How numbers and vdevs are shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonStyle<'a> {
    /// Numbers as numbers.
    pub as_int: bool,
    /// Exact numbers.
    pub exact: bool,
    /// All vdevs in one object.
    pub flat: bool,
    /// Pools keyed by guid.
    pub key_by_guid: bool,
    /// How vdevs are named.
    pub names: NameStyle,
    /// Tell how far vdevs are initialized.
    pub initialized: bool,
    /// Tell how far vdevs are trimmed.
    pub trimmed: bool,
    /// What scripts say of leaves.
    pub scripts: Option<&'a ScriptColumns>,
}

impl JsonStyle<'_> {
    fn id(self, number: u64) -> Json {
        Json::number(number, self.as_int)
    }

    fn bytes(self, number: u64) -> Json {
        match (self.as_int, self.exact) {
            (true, _) => Json::Number(number),
            (_, true) => Json::text(number.to_string()),
            _ => Json::text(nice::bytes(number)),
        }
    }

    fn time(self, secs: u64) -> Json {
        match (self.as_int, self.exact) {
            (true, _) => Json::Number(secs),
            (_, true) => Json::text(secs.to_string()),
            _ => Json::text(engine::props::ctime(secs)),
        }
    }

    fn count(self, number: u64) -> Json {
        match (self.as_int, self.exact) {
            (true, _) => Json::Number(number),
            (_, true) => Json::text(number.to_string()),
            _ => Json::text(nice::number(number)),
        }
    }

    /// What a pool is keyed by.
    pub fn key(self, pool: &PoolInfo) -> String {
        if self.key_by_guid { pool.guid.to_string() } else { pool.name.clone() }
    }
}

/// Name, state, guid, txg and versions.
pub fn pool_head(pool: &PoolInfo, kind: Option<&str>, style: JsonStyle) -> Json {
    let mut head = Json::object().with("name", Json::text(&pool.name));
    if let Some(kind) = kind {
        head.put("type", Json::text(kind));
    }
    head.with("state", Json::text(pool.health.word()))
        .with("pool_guid", style.id(pool.guid))
        .with("txg", style.id(pool.txg))
        .with("spa_version", style.id(pool.version))
        .with("zpl_version", style.id(5))
}

/// One vdev without its children.
pub fn vdev_head(vdev: &VdevInfo, name: &str, kind: Option<&str>, style: JsonStyle) -> Json {
    let mut head = Json::object().with("name", Json::text(name));
    if let Some(kind) = kind {
        head.put("type", Json::text(kind));
    }
    head.put("vdev_type", Json::text(vdev.kind.word()));
    head.put("guid", style.id(vdev.guid));
    if let Some(path) = &vdev.path {
        head.put("path", Json::text(path));
    }
    head.with("class", Json::text(vdev.class.word())).with("state", Json::text(vdev.state.raw_word()))
}

/// Everything `zpool status -j` tells of a pool.
pub fn status(pool: &PoolInfo, style: JsonStyle) -> Json {
    let mut json = pool_head(pool, None, style);
    if let Some(words) = condition(pool).words() {
        json.put("status", Json::text(words.status.join("\n\t")));
        json.put("action", Json::text(words.action.join("\n\t")));
        if let Some(id) = words.message_id {
            json.put("msgid", Json::text(id));
            json.put("moreinfo", Json::text(format!("{PAGES}{id}")));
        }
    }
    if let Some(scan) = pool.scan {
        json.put("scan_stats", scan_stats(scan, style));
    }
    if let Some(removal) = pool.removal {
        json.put("removal_stats", removal_stats(pool, removal, style));
    }
    if let Some(checkpoint) = pool.checkpoint {
        json.put("checkpoint_stats", checkpoint_stats(checkpoint, style));
    }
    let json = json.with_some("replays", replays(pool, style));
    let json = if style.flat { flat(json, pool, style) } else { nested(json, pool, style) };
    json.with("error_count", style.count(pool.error_count))
}

fn replays(pool: &PoolInfo, style: JsonStyle) -> Json {
    let one = |replay: &ReplayInfo| {
        Json::object()
            .with("records", style.id(replay.records))
            .with("total_records", style.id(replay.total_records))
            .with("seconds_left", replay.left_secs.map_or(Json::text("-"), |left| style.id(left)))
    };
    pool.replays.iter().fold(Json::object(), |all, replay| all.with(&replay.dataset, one(replay)))
}

fn nested(json: Json, pool: &PoolInfo, style: JsonStyle) -> Json {
    let of = |vdevs: Vec<&VdevInfo>| group(vdevs, None, style);
    let tops = |class| of(pool.tops(class).collect());
    let root = vdev(&pool.root, &pool.name, None, style).with_some("vdevs", tops(VdevClass::Normal));
    json.with("vdevs", Json::object().with(&pool.name, root))
        .with_some("dedup", tops(VdevClass::Dedup))
        .with_some("special", tops(VdevClass::Special))
        .with_some("logs", tops(VdevClass::Log))
        .with_some("l2cache", of(pool.caches.iter().collect()))
        .with_some("spares", of(pool.spares.iter().collect()))
}

/// All in one object, leaves before their parents, data before the pool, logs after it.
fn flat(json: Json, pool: &PoolInfo, style: JsonStyle) -> Json {
    let mut data = Json::object();
    for top in pool.tops(VdevClass::Normal) {
        put_flat(&mut data, top, Some(&pool.name), style);
    }
    let root = vdev(&pool.root, &pool.name, None, style).with_some("vdevs", data.clone());
    let mut all = data.with(&pool.name, root);
    for other in sections(pool).into_iter().flat_map(|s| s.vdevs) {
        put_flat(&mut all, other, None, style);
    }
    json.with("vdevs", all)
}

fn put_flat(all: &mut Json, one: &VdevInfo, parent: Option<&str>, style: JsonStyle) {
    let name = vdev_name(one, style.names);
    for child in one.shown_children() {
        put_flat(all, child, Some(&name), style);
    }
    let below = group(one.shown_children().collect(), Some(&name), style);
    all.put(&name, vdev(one, &name, parent, style).with_some("vdevs", below));
}

fn group(vdevs: Vec<&VdevInfo>, parent: Option<&str>, style: JsonStyle) -> Json {
    let mut all = Json::object();
    for one in vdevs {
        let name = vdev_name(one, style.names);
        let inner = parent.map(|_| name.as_str());
        let below = group(one.shown_children().collect(), inner, style);
        all.put(&name, vdev(one, &name, parent, style).with_some("vdevs", below));
    }
    all
}

fn vdev(vdev: &VdevInfo, name: &str, parent: Option<&str>, style: JsonStyle) -> Json {
    let mut json = vdev_head(vdev, name, None, style);
    if let Some(parent) = parent {
        json.put("parent", Json::text(parent));
    }
    if vdev.class == VdevClass::Spare {
        json.put("state", Json::text(state_word(vdev)));
    } else {
        put_stats(&mut json, vdev, style);
    }
    if let (Some(scripts), Some(path)) = (style.scripts, &vdev.path) {
        scripts.values(path).for_each(|(name, value)| json.put(name, Json::text(value)));
    }
    match (&vdev.path, vdev.not_present) {
        (Some(path), true) => json.with("not_present", style.id(1)).with("was", Json::text(path)),
        _ if vdev.aux.reason().is_some() => json.with("aux", Json::text(vdev.aux.json_word())),
        _ => json,
    }
}

fn put_stats(json: &mut Json, vdev: &VdevInfo, style: JsonStyle) {
    let stats = &vdev.stats;
    let sizes = [
        ("alloc_space", stats.allocated_bytes),
        ("total_space", stats.space_bytes),
        ("def_space", stats.deflated_bytes),
        ("rep_dev_size", stats.replace_bytes),
        ("ex_dev_size", stats.expand_bytes),
        ("phys_space", stats.physical_bytes),
    ];
    for (key, size) in sizes.into_iter().filter(|(_, size)| *size != 0) {
        json.put(key, style.bytes(size));
    }
    json.put("read_errors", style.count(stats.read_errors));
    json.put("write_errors", style.count(stats.write_errors));
    json.put("checksum_errors", style.count(stats.checksum_errors));
    if stats.checkpoint_bytes != 0 {
        json.put("checkpoint_space", style.bytes(stats.checkpoint_bytes));
    }
    if vdev.children.is_empty() && vdev.kind != VdevKind::Root {
        json.put("slow_ios", style.count(stats.slow_ios));
        put_sweeps(json, vdev, style);
    }
}

fn put_sweeps(json: &mut Json, vdev: &VdevInfo, style: JsonStyle) {
    if style.initialized {
        let keys = ["init_state", "initialized", "to_initialize", "init_time", "init_errors"];
        put_sweep(json, vdev.initialize, keys, "UNINITIALIZED", style);
    }
    if style.trimmed {
        if !vdev.cannot_trim {
            let keys = ["trim_state", "trimmed", "to_trim", "trim_time", "trim_errors"];
            put_sweep(json, vdev.trim, keys, "UNTRIMMED", style);
        }
        json.put("trim_notsup", style.id(vdev.cannot_trim.into()));
    }
}

fn put_sweep(json: &mut Json, sweep: SweepInfo, keys: [&str; 5], never: &str, style: JsonStyle) {
    let state = match sweep.state {
        SweepState::None => return json.put(keys[0], Json::text(never)),
        SweepState::Active => "ACTIVE",
        SweepState::Canceled => "CANCELED",
        SweepState::Suspended => "SUSPENDED",
        SweepState::Complete => "COMPLETE",
    };
    json.put(keys[0], Json::text(state));
    json.put(keys[1], style.bytes(sweep.done_bytes));
    json.put(keys[2], style.bytes(sweep.total_bytes));
    json.put(keys[3], style.time(sweep.changed_secs));
    json.put(keys[4], style.count(sweep.errors));
}

fn removal_stats(pool: &PoolInfo, removal: RemovalInfo, style: JsonStyle) -> Json {
    let mut json = Json::object().with("name", Json::text(removed_name(pool, removal)));
    if let Some(top) = pool.root.children.iter().find(|top| top.id == removal.vdev) {
        json.put("vdev_type", Json::text(top.kind.word()));
        json.put("guid", style.id(top.guid));
        json.put("class", Json::text(top.class.word()));
    }
    json.with("state", Json::text(scan_state(removal.state)))
        .with("removing_vdev", style.id(removal.vdev))
        .with("start_time", style.time(removal.start_secs))
        .with("end_time", style.time(removal.end_secs))
        .with("to_copy", style.bytes(removal.to_copy_bytes))
        .with("copied", style.bytes(removal.copied_bytes))
        .with("mapping_memory", style.bytes(removal.mapping_bytes))
}

const fn scan_state(state: ScanState) -> &'static str {
    match state {
        ScanState::Scanning => "SCANNING",
        ScanState::Finished => "FINISHED",
        ScanState::Canceled => "CANCELED",
    }
}

fn checkpoint_stats(checkpoint: CheckpointInfo, style: JsonStyle) -> Json {
    let state = if checkpoint.is_discarding { "DISCARDING" } else { "EXISTS" };
    Json::object()
        .with("state", Json::text(state))
        .with("start_time", style.time(checkpoint.created_secs))
        .with("space", style.bytes(checkpoint.kept_bytes))
}

fn scan_stats(scan: ScanInfo, style: JsonStyle) -> Json {
    let function = match scan.function {
        ScanFunction::Scrub => "SCRUB",
        ScanFunction::Resilver => "RESILVER",
    };
    let state = scan_state(scan.state);
    let time = |secs| style.time(secs);
    Json::object()
        .with("function", Json::text(function))
        .with("state", Json::text(state))
        .with("start_time", time(scan.start_secs))
        .with("end_time", time(scan.end_secs))
        .with("to_examine", style.bytes(scan.total_bytes))
        .with("examined", style.bytes(scan.issued_bytes))
        .with("skipped", style.bytes(0))
        .with("processed", style.bytes(scan.repaired_bytes))
        .with("errors", style.count(scan.errors))
        .with("bytes_per_scan", style.bytes(scan.pass_bytes))
        .with("pass_start", style.id(scan.pass_start_secs))
        .with("scrub_pause", scan.paused_secs.map_or(Json::text("-"), time))
        .with("scrub_spent_paused", style.count(0))
        .with("issued_bytes_per_scan", style.bytes(scan.pass_bytes))
        .with("issued", style.bytes(scan.issued_bytes))
}

#[cfg(test)]
mod tests;
