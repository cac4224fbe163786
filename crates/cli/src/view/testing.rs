//! The pool of the captured sessions, and the captures themselves.

use control::{IoCounters, PoolInfo, ReplayInfo, VdevClass, VdevInfo, VdevKind};
use engine::props::{Prop, Props, Source, Value};

const MIB: u64 = 1 << 20;

/// What a captured session printed for a command line: without the `$` and `^I` that
/// made line ends and tabs visible, and without what went to standard error.
pub fn captured(command: &str) -> String {
    captured_in(include_str!("../../tests/golden/sessions.txt"), command)
}

/// The same of another capture.
pub fn captured_in(text: &str, command: &str) -> String {
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
        txg: 4,
        open_nanos: 1_000_000_000,
        props: props(),
        caches: vec![cache],
        spares: vec![leaf("s1", 0, 7_480_303_256_425_706_180, VdevClass::Spare, 80)],
        ..PoolInfo::new("p1", root)
    }
}

/// Two replays, one of them just begun.
pub fn replays() -> Vec<ReplayInfo> {
    let replay = |dataset: &str, records, left_secs| ReplayInfo {
        dataset: dataset.to_owned(),
        records,
        total_records: 1_000_000,
        left_secs,
    };
    vec![replay("p1", 12_345, Some(64)), replay("p1/a", 0, None)]
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

/// `p1` of the JSON captures: as [`p1`], with a lone log besides, and little written.
pub fn json_p1() -> PoolInfo {
    let mut pool = p1();
    (pool.guid, pool.txg) = (18_438_446_227_704_591_178, 8);
    pool.root.guid = pool.guid;
    pool.root.stats.allocated_bytes = 224_256;
    let data = &mut pool.root.children[0];
    (data.guid, data.stats.allocated_bytes, data.stats.replace_bytes) =
        (4_579_412_524_865_941_879, 224_256, 144 * MIB);
    data.children[0].guid = 3_056_076_413_086_258_538;
    data.children[1].guid = 9_977_433_186_291_778_085;
    let log = &mut pool.root.children[1];
    (log.guid, log.stats.allocated_bytes, log.stats.replace_bytes) = (670_108_565_804_083_673, 0, 64 * MIB);
    log.stats.fragmentation = Some(0);
    log.children[0].guid = 5_193_298_928_405_467_442;
    log.children[1].guid = 7_277_734_419_887_653_730;
    let mut lone = leaf("l3", 2, 10_985_802_132_979_349_881, VdevClass::Log, 80);
    space(&mut lone, 0, 64 * MIB, Some(0));
    lone.stats.replace_bytes = 71_827_456;
    pool.root.children.push(lone);
    (pool.caches[0].guid, pool.caches[0].stats.allocated_bytes) = (9_654_378_324_143_611_355, 8704);
    pool.spares[0].guid = 8_283_499_335_556_082_310;
    let mut set = |name: &str, value: u64| {
        pool.props.insert(name.to_owned(), Prop { value: Value::Number(value), source: Source::None });
    };
    set("allocated", 224_256);
    set("free", 144 * MIB - 224_256);
    pool
}
