//! Every checksum with every compression: written, read back after an import, and found in order by
//! `zdb`; and those of pools that OpenZFS made.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Options, RealEnv};
use dmu::{Estimate, Objset, ObjsetContext, ObjsetProps};
use dsl::PropValue;
use dsl::features::{BLAKE3, EDONR, EXTENSIBLE_DATASET, SHA512, SKEIN, ZSTD_COMPRESS};
use env::Env;
use ondisk::{ChecksumKind, CompressionKind, props};
use oracle::zdb::Zdb;
use pool::{ImportSpec, Pool, Tuning};
use zio::Bookmark;
use zpl::{Cred, NewNode, WriteFlags};

use crate::dice::Dice;
use crate::world::{Layout, World};

const CHECKSUMS: [&str; 8] =
    ["off", "fletcher2", "fletcher4", "sha256", "sha512", "skein", "edonr", "blake3"];
const COMPRESSIONS: [&str; 11] = [
    "off",
    "on",
    "lzjb",
    "gzip-1",
    "gzip-9",
    "zle",
    "lz4",
    "zstd",
    "zstd-19",
    "zstd-fast-10",
    "zstd-fast-1000",
];

fn word(prop: &str, value: &str) -> u64 {
    props::dataset_index(prop).and_then(|prop| prop.parse(value)).expect("a value of the property")
}

/// What the file of a dataset holds: something for every compression.
fn contents(seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut bytes: Vec<u8> = (0..9000_u32).flat_map(|at| (at / 5).to_le_bytes()).collect();
    bytes.extend(vec![0; 7000]);
    bytes.extend((0..5000).map(|_| dice.word() as u8));
    bytes
}

#[test]
fn every_checksum_and_compression_is_read_back_and_clean() {
    let world = World::new(Layout::new(&[&["a"]], &[], 9));
    let pool = world.create();
    let pairs = CHECKSUMS.iter().flat_map(|checksum| COMPRESSIONS.iter().map(move |how| (*checksum, *how)));
    let pairs: Vec<(String, &str, &str)> =
        pairs.map(|(checksum, how)| (format!("whirl/{checksum}.{how}"), checksum, how)).collect();
    for (seed, (name, checksum, how)) in pairs.iter().enumerate() {
        let props = [("checksum", word("checksum", checksum)), ("compression", word("compression", how))];
        world.create_filesystem(&pool, name, &[&props[..], &[("recordsize", 16 << 10)]].concat());
        let zfs = world.zfs(&pool, name);
        world.run(async {
            let file = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
            zfs.write(file.object, 0, &contents(seed as u64), WriteFlags::default()).await.unwrap();
        });
    }
    world.run(pool.sync_now()).unwrap();
    assert_eq!(features_in_use(&world, &pool), [11, 11, 11, 11, 4 * 8], "datasets that use each");
    world.export(&pool);
    let pool = world.import();
    for (seed, (name, _, _)) in pairs.iter().enumerate() {
        let zfs = world.zfs(&pool, name);
        let expected = contents(seed as u64);
        let mut back = vec![0; expected.len()];
        world.run(async {
            let file = zfs.lookup(zfs.root(), b"file").await.unwrap();
            zfs.read(file.object, 0, &mut back).await.unwrap();
        });
        assert!(back == expected, "{name}");
    }
    for (name, _, _) in pairs.iter().filter(|(_, checksum, how)| *checksum == "skein" || *how == "zstd-19") {
        world.run(pool.destroy_filesystem(name)).unwrap();
    }
    assert_eq!(features_in_use(&world, &pool), [10, 0, 10, 10, 3 * 7], "and after some are gone");
    world.export(&pool);
    world.check("every checksum and compression");
}

fn features_in_use(world: &World, pool: &Pool) -> [u64; 5] {
    [&SHA512, &SKEIN, &EDONR, &BLAKE3, &ZSTD_COMPRESS]
        .map(|feature| world.run(pool.dsl().feature_count(feature)).unwrap().expect("enabled"))
}

#[test]
fn a_level_is_written_as_such_and_metadata_has_the_checksum_of_data() {
    let world = World::new(Layout::new(&[&["a"]], &[], 9));
    let pool = world.create();
    let props = [("checksum", word("checksum", "sha512")), ("compression", word("compression", "zstd-19"))];
    world.create_filesystem(&pool, "whirl/fs", &props);
    assert_eq!(features_in_use(&world, &pool)[4], 1, "noted before there is a block");
    let zfs = world.zfs(&pool, "whirl/fs");
    world.run(async {
        let file = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
        zfs.write(file.object, 0, &contents(1), WriteFlags::default()).await.unwrap();
    });
    drop(zfs);
    world.export(&pool);
    let dump = Zdb::new(world.dir(), "whirl/fs").run(&["-Zddddddd"], &[]).unwrap();
    assert!(dump.contains(":level=19"), "{dump}");
    let root = dump.lines().find(|line| line.contains("[L0 DMU objset]")).expect("the dataset's root");
    assert!(root.contains(" sha512 lz4 "), "{root}");
}

/// What [`every_block`] found: blocks by compression and checksum.
type Census = BTreeMap<(&'static str, &'static str), usize>;

/// Reads every block of every dataset of a golden pool.
fn every_block(name: &str) -> Census {
    let paths = oracle::golden::images(name);
    let env = RealEnv::new(Options::default());
    let mut census = Census::new();
    env.block_on(async {
        let spec = ImportSpec { paths, read_only: true, force: true, ..ImportSpec::default() };
        let pool = Pool::import(env.clone() as Arc<dyn Env>, &spec, Tuning::default()).await.unwrap();
        for dataset in pool.dsl().list("whirl").await.unwrap() {
            let context = ObjsetContext {
                id: dataset.objset(),
                zio: Arc::clone(pool.zio()),
                gate: Arc::clone(pool.txgs()),
                props: ObjsetProps::dataset_default(),
            };
            let root = pool.dsl().dataset(dataset.dataset).await.unwrap().bp;
            let objset = Objset::open(context, root).await.unwrap();
            pool.zio().set_cache_limit(0);
            for bp in objset.all_blocks().await.unwrap() {
                let block = pool.zio().read(&bp, &Bookmark::default()).await;
                assert_eq!(block.map(|block| block.len() as u64).ok(), Some(bp.lsize().get()), "{bp:?}");
                let kinds = (bp.compression().unwrap().name(), bp.checksum_kind().unwrap().name());
                *census.entry(kinds).or_default() += 1;
            }
        }
    });
    census
}

#[test]
fn every_block_of_golden_pools_with_all_codecs_verifies_and_decompresses() {
    let (compressions, checksums) = (every_block("g08-compress"), every_block("g09-checksums"));
    for kind in CompressionKind::ALL {
        let expected = matches!(
            kind.name(),
            "uncompressed" | "lzjb" | "lz4" | "gzip-1" | "gzip-6" | "gzip-9" | "zle" | "zstd"
        );
        assert_eq!(compressions.keys().any(|(how, _)| *how == kind.name()), expected, "{}", kind.name());
    }
    for kind in ChecksumKind::ALL {
        let expected =
            CHECKSUMS.map(|name| if name == "off" { "noparity" } else { name }).contains(&kind.name())
                || kind.name() == "off";
        let found = checksums.keys().any(|(_, checksum)| *checksum == kind.name());
        assert_eq!(found, expected && kind.name() != "noparity", "{}", kind.name());
    }
}

#[test]
fn a_value_whose_feature_is_not_enabled_is_refused() {
    let world = World::new(Layout::new(&[&["a"]], &[], 9));
    let pool = world.create();
    // As a pool has it that was made before there was zstd.
    world.run(async {
        let table = pool.dsl().directory_object("features_for_read").await.unwrap();
        let plan = pool.dsl().mos().plan(Estimate::default()).await.unwrap();
        let table = dmu::zap::Zap::hold(pool.dsl().mos(), table).await.unwrap();
        table.remove(&plan, ZSTD_COMPRESS.guid.as_bytes()).await.unwrap();
        plan.apply().unwrap();
    });
    let zstd = PropValue::Number(word("compression", "zstd-3"));
    let error = world.run(pool.set_prop("whirl", "compression", Some(zstd.clone()))).unwrap_err();
    assert!(error.to_string().contains("zstd_compress"), "{error}");
    let props = vec![("compression".to_owned(), zstd)];
    assert!(world.run(pool.create_filesystem("whirl/fs", props)).is_err());
    assert!(world.run(pool.dsl().resolve("whirl/fs")).is_err(), "nothing was made");
    let skein = PropValue::Number(word("checksum", "skein"));
    world.run(pool.set_prop("whirl", "checksum", Some(skein))).unwrap();
    assert_eq!(world.run(pool.dsl().feature_count(&EXTENSIBLE_DATASET)).unwrap(), Some(1));
    world.export(&pool);
    world.check("without zstd");
}
