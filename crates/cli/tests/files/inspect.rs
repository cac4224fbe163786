//! `sawmill inspect` on golden pools, against what `zdb -l` says of them.

use crate::world::World;
use oracle::golden;
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Two labels, as they lie at either end of a device.
const LABELS_BYTES: usize = 512 << 10;

fn json(world: &World, g: &Path, line: &str) -> Value {
    serde_json::from_str(&world.ok(g, line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// `name: value` lines of `zdb -l`, the first of each name.
fn zdb_label(image: &Path, name: &str) -> String {
    let output = Command::new("zdb").arg("-l").arg(image).output().expect("zdb runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let start = format!("{name}: ");
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&start).map(str::to_owned));
    line.unwrap_or_else(|| panic!("{name} in {text}")).trim_matches('\'').to_owned()
}

#[test]
fn labels_of_every_golden_image_are_as_zdb_has_them() {
    let world = World::new();
    for name in golden::names() {
        let image = golden::images(&name)[0].clone();
        let g = image.parent().expect("a directory");
        let line = format!("inspect -j G/{}", image.file_name().expect("a name").to_string_lossy());
        let found = json(&world, g, &line);
        let config = &found["label 0"]["fields"]["config"]["fields"];
        for field in ["txg", "pool_guid", "top_guid", "guid", "hostid"] {
            assert_eq!(config[field]["value"].to_string(), zdb_label(&image, field), "{name} {field}");
        }
        assert_eq!(config["name"]["value"], zdb_label(&image, "name"), "{name}");
        assert!(config["pool_guid"]["about"].as_str().is_some_and(|about| !about.is_empty()));
        let best = &found["best uberblock"]["fields"];
        assert_eq!(best["magic"]["value"], "0xbab10c", "{name}");
        assert!(best["txg"]["value"].as_u64() >= config["txg"]["value"].as_u64(), "{name}");
        assert_eq!(best["rootbp"]["fields"]["type"]["value"], "DMU objset", "{name}");
    }
}

#[test]
fn objects_blocks_and_space_maps_are_shown_and_explained() {
    let g = golden::path("g10-snapshots-clones");
    let world = World::new();
    let directory = json(&world, &g, "inspect -j -d G/ whirl object mos 1");
    assert_eq!(directory["dnode"]["fields"]["type"]["value"], "object directory");
    let root = directory["entries"]["fields"]["root_dataset"]["value"].as_u64().expect("a number");
    let dir = json(&world, &g, &format!("inspect -j -d G/ whirl object mos {root}"));
    assert_eq!(dir["dnode"]["fields"]["bonus_type"]["value"], "DSL directory");
    let head = dir["bonus"]["fields"]["head_dataset"]["value"].as_u64().expect("a number");
    let datasets = json(&world, &g, "inspect -j -d G/ whirl datasets");
    assert_eq!(datasets["whirl"]["fields"]["objset"]["value"], head);
    assert!(datasets["whirl/promoted@s1"]["fields"]["dataset"]["fields"]["guid"]["value"].is_u64());

    let master = json(&world, &g, "inspect -j -d G/ whirl object whirl/promoted@s1 1");
    let names = &master["entries"]["fields"];
    assert_eq!(names["VERSION"]["value"], 5);
    let root = names["ROOT"]["value"].as_u64().expect("a number");
    let files = json(&world, &g, &format!("inspect -j -d G/ whirl object whirl/promoted@s1 {root}"));
    let hello = files["entries"]["fields"]["t4096"]["value"].as_str().expect("a directory entry").to_owned();
    let object = hello.split([' ', ',']).nth(1).expect("a number");
    let block = json(&world, &g, &format!("inspect -j -d G/ whirl object whirl/promoted@s1 {object} 0"));
    assert_eq!(block["blkptr"]["fields"]["lsize"]["value"], 4096);
    let dva = block["blkptr"]["fields"]["dva0"]["value"].as_str().expect("a place").to_owned();
    assert!(dva.contains(':'), "{dva}");

    let maps = world.ok(&g, "inspect -d G/ whirl spacemaps");
    assert!(maps.contains("metaslab 0: object ") && maps.contains("bytes in use"), "{maps}");
    let config = json(&world, &g, "inspect -j -d G/ whirl config");
    assert_eq!(config["name"]["value"], "whirl");
    let text = world.ok(&g, "inspect -d G/ whirl uberblock");
    assert!(text.contains("# transaction group whose sync wrote it"), "{text}");
    let bytes = world.ok(&g, "inspect -d G/ whirl block 0:0x0:512");
    assert!(bytes.contains("00000000  "), "{bytes}");
}

#[test]
fn what_cannot_be_inspected_is_said() {
    let g = golden::path("g10-snapshots-clones");
    let world = World::new();
    for line in [
        "inspect",
        "inspect -d G/ whirl",
        "inspect -d G/ whirl block 0:1",
        "inspect -d G/ whirl object mos x",
    ] {
        assert!(world.fails(&g, line, 2).contains("usage:"), "{line}");
    }
    let no_object = world.fails(&g, "inspect -d G/ whirl object mos 99999999", 1);
    assert!(no_object.contains("no object 99999999"), "{no_object}");
    assert!(world.fails(&g, "inspect W/none", 1).starts_with("cannot open 'W/none': "));
    let far = world.fails(&g, "inspect -d G/ whirl block 7:0:512", 1);
    assert!(far.starts_with("cannot inspect 'whirl': "), "{far}");
}

#[test]
fn noise_and_torn_labels_are_shown_without_a_panic() {
    let images = golden::images("g01-single-nofeat");
    let world = World::new();
    let image = std::fs::read(&images[0]).expect("images can be read");
    let noise = world.path().join("noise");
    std::fs::copy(&images[0], &noise).expect("copied");
    let noise = std::fs::File::options().write(true).open(noise).expect("a copy");
    // The labels at both ends.
    let end = image.len() - LABELS_BYTES;
    let mut bytes = [&image[..LABELS_BYTES], &image[end..]].concat();
    let mut state = 1_u64;
    for round in 0..12 {
        for _ in 0..1 << round {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = (state % bytes.len() as u64) as usize;
            bytes[at] = (state >> 32) as u8;
        }
        noise.write_all_at(&bytes[..LABELS_BYTES], 0).expect("written");
        noise.write_all_at(&bytes[LABELS_BYTES..], end as u64).expect("written");
        let (text, err, code) = world.run(world.path(), "inspect -a W/noise");
        assert!(text.contains("label 3:"), "{text}");
        // Until nothing of a pool is left: of so little noise it is.
        let is_pools = (code, err.as_str()) == (0, "");
        let is_noise = (code, err.as_str()) == (1, "cannot inspect 'W/noise': nothing of a pool is on it\n");
        assert!(is_pools || (is_noise && round > 5), "round {round}: {code} {err}");
    }
    for size in [0, 1, 511, 512, 4096, 262_144, 524_288] {
        world.file("short", size);
        let (_, err, code) = world.run(world.path(), "inspect W/short");
        assert!(code == 0 || code == 1, "{size}: {code} {err}");
    }
}
