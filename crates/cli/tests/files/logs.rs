//! Intent logs of golden pools that were cut off: `sawmill inspect POOL zil`, and `zpool import
//! --replay-plan`, against what OpenZFS's own `zdb` said of them when they were made.

use crate::world::World;
use oracle::golden;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

const DIRTY: [&str; 2] = ["g14-dirty-zil-slog", "g15-dirty-zil-nolog"];

/// Dataset, block, kind, group and number of a record.
type Shown = (String, u64, String, u64, u64);

fn number(word: Option<&str>) -> u64 {
    word.and_then(|word| word.trim_end_matches(',').parse().ok()).expect("a number")
}

/// `zdb -iiii`, as it was printed when the pool was made.
fn by_zdb(name: &str) -> BTreeSet<Shown> {
    // Where it shows the value of an attribute, no line ends.
    let text = golden::text(name, "zil.txt").expect("it is there");
    let text = text.replace("Block seqno", "\nBlock seqno").replace("TX_", "\nTX_");
    let (mut dataset, mut block, mut shown) = (String::new(), 0, BTreeSet::new());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Dataset", name, ..] => dataset = (*name).to_owned(),
            ["Block", "seqno", seq, ..] => block = number(Some(seq)),
            [kind, "len", _, "txg", txg, "seq", seq] => {
                let record = (number(Some(txg)), number(Some(seq)));
                shown.insert((dataset.clone(), block, (*kind).to_owned(), record.0, record.1));
            }
            _ => {}
        }
    }
    assert!(shown.len() > 100, "{} records in {name}", shown.len());
    shown
}

fn json(world: &World, devices: &Path, line: &str) -> Value {
    serde_json::from_str(&world.ok(devices, line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value["fields"].as_object().expect("fields").iter()
}

fn by_us(world: &World, devices: &Path) -> BTreeSet<Shown> {
    let found = json(world, devices, "inspect -j -f -d G/ whirl zil");
    let mut shown = BTreeSet::new();
    for (dataset, log) in found.as_object().expect("datasets") {
        for (block, contents) in fields(&log["fields"]["blocks"]) {
            let block = number(block.strip_prefix("block "));
            for (name, record) in fields(contents).filter(|(name, _)| name.starts_with("record ")) {
                let record = &record["fields"];
                let kind = record["type"]["value"].as_str().expect("a kind").to_owned();
                let txg = record["txg"]["value"].as_u64().expect("a group");
                shown.insert((dataset.clone(), block, kind, txg, number(name.strip_prefix("record "))));
            }
        }
    }
    shown
}

#[test]
fn every_record_is_shown_that_zdb_shows() {
    let world = World::new();
    for name in DIRTY {
        let Some(devices) = golden::path(name) else { return };
        let (ours, zdbs) = (by_us(&world, &devices), by_zdb(name));
        assert_eq!(zdbs.difference(&ours).next(), None, "{name}");
        // The golden text's lines are cut, and so is a record that shares one with such a value.
        for (dataset, _, _, _, seq) in ours.difference(&zdbs) {
            let is_before = |shown: &&Shown| shown.0 == *dataset && shown.4 + 1 == *seq;
            let before = ours.iter().find(is_before).expect("a record before it");
            assert_eq!(before.2, "TX_SETSAXATTR", "{name}: record {seq}");
        }
    }
}

#[test]
fn a_plan_tells_what_waits_for_replay_and_where() {
    let world = World::new();
    for name in DIRTY {
        let Some(devices) = golden::path(name) else { return };
        let synced = json(&world, &devices, "inspect -j -f -d G/ whirl uberblock")["txg"]["value"].as_u64();
        let plan = json(&world, &devices, "zpool import --replay-plan -j -f -d G/ whirl");
        for (dataset, plan) in plan["datasets"].as_object().expect("datasets") {
            let waits = |shown: &&Shown| shown.0 == *dataset && Some(shown.3) > synced;
            let records = by_us(&world, &devices).iter().filter(waits).count() as u64;
            assert_eq!(plan["records"].as_u64(), Some(records), "{name} {dataset}");
            assert!(plan.get("lost").is_none(), "{plan}");
            let of_names: u64 =
                plan["names"].as_object().expect("names").values().filter_map(Value::as_u64).sum();
            let objects = plan["objects"].as_object().expect("objects");
            let counts =
                objects.values().flat_map(|object| object["changes"].as_object().expect("changes").values());
            assert_eq!(of_names + counts.filter_map(Value::as_u64).sum::<u64>(), records, "{name} {dataset}");
        }
    }
}

#[test]
fn a_plan_tells_what_a_missing_log_takes_along() {
    let Some(devices) = golden::path("g14-dirty-zil-slog") else { return };
    let world = World::new();
    let images = golden::images("g14-dirty-zil-slog").expect("they are there");
    let is_log = |image: &&std::path::PathBuf| {
        image.file_stem().is_some_and(|name| name.to_string_lossy().contains("log"))
    };
    let without: Vec<String> = images
        .iter()
        .filter(|image| !is_log(image))
        .map(|image| format!("-d G/{}", image.file_name().expect("a name").to_string_lossy()))
        .collect();
    assert!(without.len() < images.len(), "{images:?}");
    let line = format!("zpool import --replay-plan -f {} whirl", without.join(" "));
    let said = world.ok(&devices, &line);
    assert!(said.contains("lost: the log goes on on vdev 1, which is missing"), "{said}");
}
