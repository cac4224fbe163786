//! The pool of the captured sessions, and the captures themselves.

use control::props::{Prop, Props, Source, Value};
use control::{IoCounters, PoolHealth, PoolInfo, VdevClass, VdevInfo, VdevKind};

const MIB: u64 = 1 << 20;

/// What a captured session printed for a command line: without the `$` and `^I` that
/// made line ends and tabs visible, and without what went to standard error.
pub fn captured(command: &str) -> String {
    let text = include_str!("../../tests/golden/sessions.txt");
    let start = format!("$ {command}\n");
    let at = text.find(&start).unwrap_or_else(|| panic!("no capture of '{command}'"));
    let mut out = String::new();
    for line in text[at + start.len()..].lines() {
        if line.starts_with("[rc ") {
            break;
        }
        if !line.starts_with("[stderr] ") {
            out.push_str(line.strip_suffix('$').unwrap_or(line));
            out.push('\n');
        }
    }
    out.replace("^I", "\t")
}

fn leaf(name: &str, id: u64, guid: u64, class: VdevClass, mib: u64) -> VdevInfo {
    let mut vdev = VdevInfo::new(VdevKind::File, id, guid, class);
    vdev.path = Some(format!("/tmp/w/{name}"));
    vdev.stats.physical_bytes = mib * MIB;
    vdev.stats.replace_bytes = mib * MIB;
    vdev
}

fn mirror(id: u64, guid: u64, class: VdevClass, children: Vec<VdevInfo>) -> VdevInfo {
    let mut vdev = VdevInfo::new(VdevKind::Mirror, id, guid, class);
    vdev.children = children;
    vdev
}

fn space(vdev: &mut VdevInfo, allocated: u64, space: u64, fragmentation: Option<u64>) {
    vdev.stats.allocated_bytes = allocated;
    vdev.stats.space_bytes = space;
    vdev.stats.deflated_bytes = space;
    vdev.stats.fragmentation = fragmentation;
}

fn io(vdev: &mut VdevInfo, reads: u64, writes: u64, read_bytes: u64, written_bytes: u64) {
    vdev.stats.io = IoCounters { reads, writes, read_bytes, written_bytes };
}

/// `p1` of the first captured session: a mirror, a mirrored log, a cache and a spare.
/// Its counters are those of a pool open for one second.
pub fn p1() -> PoolInfo {
    let normal = VdevClass::Normal;
    let mut data = mirror(
        0,
        2_049_442_804_642_559_665,
        normal,
        vec![
            leaf("d1", 0, 16_100_056_065_999_359_670, normal, 160),
            leaf("d2", 1, 8_015_763_127_249_562_630, normal, 160),
        ],
    );
    space(&mut data, 744_448, 144 * MIB, Some(7));
    io(&mut data, 0, 17, 1043, 131_522);
    io(&mut data.children[0], 0, 8, 521, 65_760);
    io(&mut data.children[1], 0, 8, 521, 65_760);
    let class = VdevClass::Log;
    let mut log = mirror(
        1,
        9_005_382_936_874_706_294,
        class,
        vec![
            leaf("l1", 0, 3_579_974_902_565_991_528, class, 80),
            leaf("l2", 1, 14_806_248_008_568_854_328, class, 80),
        ],
    );
    space(&mut log, 12_288, 64 * MIB, Some(6));
    io(&mut log, 0, 3, 1043, 96_869);
    io(&mut log.children[0], 0, 1, 521, 48_434);
    io(&mut log.children[1], 0, 1, 521, 48_434);
    let mut cache = leaf("c1", 0, 6_336_376_620_386_955_089, VdevClass::Cache, 80);
    space(&mut cache, 6656, 79_166_976, Some(0));
    cache.stats.deflated_bytes = 0;
    io(&mut cache, 0, 0, 10_415, 948);
    let mut root = VdevInfo::new(VdevKind::Root, 0, 3_501_313_898_872_035_394, normal);
    space(&mut root, 744_448, 144 * MIB, Some(7));
    io(&mut root, 0, 21, 2086, 228_386);
    root.children = vec![data, log];
    PoolInfo {
        name: "p1".into(),
        guid: root.guid,
        health: PoolHealth::Online,
        txg: 4,
        version: 5000,
        open_nanos: 1_000_000_000,
        props: props(),
        root,
        caches: vec![cache],
        spares: vec![leaf("s1", 0, 7_480_303_256_425_706_180, VdevClass::Spare, 80)],
        scan: None,
        error_count: 0,
        error_files: Vec::new(),
        bad_log: false,
    }
}

fn props() -> Props {
    let facts = [
        ("size", Value::Number(144 * MIB)),
        ("allocated", Value::Number(744_448)),
        ("free", Value::Number(144 * MIB - 744_448)),
        ("fragmentation", Value::Number(7)),
        ("capacity", Value::Number(0)),
        ("dedupratio", Value::Number(100)),
        ("health", Value::from("ONLINE")),
        ("guid", Value::Number(3_501_313_898_872_035_394)),
    ];
    facts.map(|(name, value)| (name.to_owned(), Prop { value, source: Source::None })).into()
}
