//! Pools of big-endian machines: golden pools rewritten as such a machine would have written them.
//! `zdb` finds no fault with the rewritten pool, and it reads as its twin does.

use std::collections::BTreeMap;
use std::sync::Arc;

use ondisk::ByteOrder;
use oracle::zdb::Zdb;
use oracle::{big_endian, golden};
use pool::PoolError;
use tempfile::TempDir;
use vdev::PoolState;
use zpl::SaTables;

use crate::manifest::Leave;
use crate::walk::{filesystem, names};
use crate::world::World;

/// The attribute tables of every file system, by its dataset's object.
fn tables(world: &World) -> BTreeMap<u64, SaTables> {
    let pool = world.import(true).unwrap_or_else(|error| panic!("{}: {error:?}", world.name));
    let all = world.env.block_on(async {
        let mut all = BTreeMap::new();
        for name in names(&pool).await.expect("datasets can be listed") {
            let fs = filesystem(&pool, &name).await.expect("a file system");
            all.insert(fs.zfs.objset().id().get(), fs.zfs.attribute_tables());
        }
        all
    });
    world.env.block_on(pool.close(PoolState::Exported)).expect("it was only read");
    drop(Arc::into_inner(pool));
    all
}

fn reads_when_big_endian(name: &str) {
    let original = World::golden(name);
    let dir = TempDir::new().expect("a directory");
    let images = golden::copy(name, dir.path());
    let tables = tables(&original);
    let copy = images.join(original.paths[0].file_name().expect("a file"));
    big_endian::rewrite(&original.paths[0], &copy, &|dataset, bytes| {
        tables[&dataset].turn(bytes, ByteOrder::Little).expect("sound attributes");
    });
    Zdb::new(&images, "whirl").check().unwrap_or_else(|error| panic!("{name}: {error}"));
    let world = World::of(name, vec![copy]);
    world.check(&world.told("manifest.jsonl"), Leave::default());
    crate::props::check(&world);
    match world.import(false) {
        Err(PoolError::UnsupportedFeatures { features, readable: true }) => {
            assert_eq!(
                features.iter().map(|f| f.guid.as_str()).collect::<Vec<_>>(),
                ["big-endian byte order"]
            );
        }
        Err(other) => panic!("{name}: {other:?}"),
        Ok(_) => panic!("{name}: opened for writing"),
    }
}

#[test]
fn g01_of_a_big_endian_machine() {
    reads_when_big_endian("g01-single-nofeat");
}

/// With old znodes, and a snapshot.
#[test]
fn g18_of_a_big_endian_machine() {
    reads_when_big_endian("g18-v28");
}
