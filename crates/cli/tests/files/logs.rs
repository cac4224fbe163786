//! Intent logs of golden pools that were cut off: `sawmill inspect POOL zil`, and `zpool import
//! --replay-plan`, against what OpenZFS's own `zdb` said of them when they were made.

use crate::world::World;
use oracle::golden;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
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
    let text = golden::text(name, "zil.txt");
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

fn is_log(image: &Path) -> bool {
    image.file_stem().is_some_and(|name| name.to_string_lossy().contains("log"))
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
        let devices = golden::path(name);
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

/// The number of each dataset's objset, as `zdb` told.
fn objsets(name: &str) -> BTreeMap<String, u64> {
    let text = golden::text(name, "zil.txt");
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_line = |words: Vec<&str>| match words.as_slice() {
        ["Dataset", name, _, "ID", id, ..] => Some(((*name).to_owned(), number(Some(id)))),
        _ => None,
    };
    words.filter_map(of_line).collect()
}

#[test]
fn a_log_device_without_its_pool_shows_every_record_that_zdb_shows() {
    let name = "g14-dirty-zil-slog";
    let images = golden::images(name);
    let (devices, world) = (golden::path(name), World::new());
    let log = images.iter().find(|image| is_log(image)).and_then(|image| image.file_name()).expect("a log");
    let found = json(&world, &devices, &format!("inspect -j G/{} zil", log.to_string_lossy()));
    assert_eq!(found["label"]["fields"]["pool"]["value"], "whirl", "{}", found["label"]);
    assert_eq!(found["label"]["fields"]["is_log"]["value"], 1);
    let mut shown = BTreeSet::new();
    for (objset, chains) in fields(&found["logs"]) {
        let objset = number(objset.strip_prefix("objset "));
        for (block, contents) in fields(chains).flat_map(|(_, chain)| fields(chain)) {
            let block = number(block.strip_prefix("block "));
            for (name, record) in fields(contents).filter(|(name, _)| name.starts_with("record ")) {
                let (record, seq) = (&record["fields"], number(name.strip_prefix("record ")));
                let kind = record["type"]["value"].as_str().expect("a kind").to_owned();
                shown.insert((objset, block, kind, record["txg"]["value"].as_u64().expect("a group"), seq));
            }
        }
    }
    let objsets = objsets(name);
    let zdbs = by_zdb(name);
    let missing = zdbs.iter().filter(|(dataset, block, kind, txg, seq)| {
        !shown.contains(&(objsets[dataset], *block, kind.clone(), *txg, *seq))
    });
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&Shown>::new());
    // Blocks of groups that had synced are there still.
    assert!(shown.len() >= zdbs.len(), "{} and {}", shown.len(), zdbs.len());
}

#[test]
fn a_plan_tells_what_waits_for_replay_and_where() {
    let world = World::new();
    for name in DIRTY {
        let devices = golden::path(name);
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
    let devices = golden::path("g14-dirty-zil-slog");
    let world = World::new();
    let images = golden::images("g14-dirty-zil-slog");
    let without: Vec<String> = images
        .iter()
        .filter(|image| !is_log(image.as_path()))
        .map(|image| format!("-d G/{}", image.file_name().expect("a name").to_string_lossy()))
        .collect();
    assert!(without.len() < images.len(), "{images:?}");
    let line = format!("zpool import --replay-plan -f {} whirl", without.join(" "));
    let said = world.ok(&devices, &line);
    assert!(said.contains("lost: the log goes on on vdev 1, which is missing"), "{said}");
}

/// Where the blocks of the log of `dataset` lie that were written: by number, offset and records.
fn blocks(world: &World, devices: &Path, dataset: &str) -> Vec<(u64, u64, u64)> {
    let found = json(world, devices, &format!("inspect -j -f -d {}/ whirl zil {dataset}", devices.display()));
    let blocks = fields(&found[dataset]["fields"]["blocks"]);
    let written = blocks.filter(|(_, block)| block["fields"]["used"].is_object());
    let told = written.map(|(name, block)| {
        let records = fields(block).filter(|(name, _)| name.starts_with("record ")).count() as u64;
        let offset = block["fields"]["offset"]["value"].as_u64().expect("an offset");
        (number(name.strip_prefix("block ")), offset, records)
    });
    let mut told: Vec<_> = told.collect();
    told.sort_unstable();
    told
}

#[test]
fn a_plan_and_an_import_tell_what_lies_behind_a_damaged_block_and_that_a_torn_last_one_is_no_loss() {
    let world = World::new();
    let devices = golden::copy("g14-dirty-zil-slog", world.path());
    let log = std::fs::read_dir(&devices).expect("a directory").map(|entry| entry.expect("readable").path());
    let log = log.into_iter().find(|path| is_log(path)).expect("a log device");
    let log = std::fs::File::options().write(true).open(log).expect("a copy");
    let plan = |line: &str| json(&world, &devices, &format!("zpool import --replay-plan -j -f -d G/ {line}"));
    let damage = |offset: u64| {
        std::os::unix::fs::FileExt::write_all_at(&log, &[7; 512], offset + units::LABEL_START_BYTES)
            .expect("a copy can be written to");
    };
    let all = blocks(&world, &devices, "whirl/std");
    assert!(all.len() > 4, "{all:?}");
    let last = all[all.len() - 1];
    damage(last.1);
    let torn = plan("whirl");
    assert!(torn["datasets"]["whirl/std"].get("loss").is_none(), "{torn}");
    let middle = all[all.len() / 2];
    damage(middle.1);
    let broken = plan("whirl");
    let loss = &broken["datasets"]["whirl/std"]["loss"];
    let behind = &all[all.len() / 2 + 1..all.len() - 1];
    assert_eq!(loss["before_block"].as_u64(), Some(middle.0), "{broken}");
    assert_eq!(loss["blocks"].as_u64(), Some(behind.len() as u64), "{broken}");
    assert_eq!(loss["records"].as_u64(), Some(behind.iter().map(|block| block.2).sum()), "{broken}");
    // A file that was there; those that only the lost records make have no name.
    assert_eq!(loss["objects"]["12"]["path"], "/big2", "{broken}");
    assert!(broken["datasets"]["whirl/always"].get("loss").is_none(), "{broken}");
    let text = world.ok(&devices, "zpool import --replay-plan -f -d G/ whirl");
    let breaks_off = format!("the log breaks off before its block {}", middle.0);
    assert!(text.contains(&format!("lost: {breaks_off}")), "{text}");
    let (out, err, code) = world.run(&devices, "zpool import -N -f -d G/ whirl");
    world.run(&devices, "daemon stop");
    assert_eq!((out.as_str(), code), ("", 0), "{err}");
    assert!(err.starts_with(&format!("warning: whirl/std: {breaks_off}; behind that lie")), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn a_log_left_behind_by_the_bench_is_replayed_whole() {
    let world = World::new();
    world.file("main", 256 << 20);
    world.file("log", 128 << 20);
    let line = "bench replay --main W/main --log W/log --records 1500 --files 7 --span 16m --json";
    let report = json(&world, world.path(), line);
    // A few more than the writes: those at the end of a log block are split.
    assert!((1500..1700).contains(&report["records"].as_u64().expect("a number")), "{report}");
    assert!(report["log_blocks"].as_u64() >= Some(1500 / 32), "{report}");
    assert!(report["log_mib"].as_f64() > Some(1500.0 * 4.0 / 1024.0), "{report}");
}
