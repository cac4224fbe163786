//! Pools that were cut off with work in their intent logs only: importing a copy replays it, and
//! what is there then is what OpenZFS has after the same, but for one fault of its own.
//!
//! Replay sets times of change anew, in OpenZFS too, so they are left out.

use std::sync::Arc;

use oracle::golden;
use oracle::zdb::Zdb;
use tempfile::TempDir;
use vdev::PoolState;

use crate::manifest::{Leave, Manifest};
use crate::walk::walk;
use crate::world::{World, judge};

/// Imports a copy, reads all of it, exports it; `zdb` finds no fault in what is left.
fn replays(name: &str, told: impl FnOnce(&World) -> Manifest) {
    let dir = TempDir::new().expect("a directory");
    let images = golden::copy(name, dir.path());
    let files = std::fs::read_dir(&images).expect("just extracted");
    let world = World::of(name, files.map(|file| file.expect("readable").path()).collect());
    let pool = world.import(false).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let walked = walk(&world.env, &pool);
    judge(name, &walked, &told(&world), Leave { mtime: true });
    drop(walked);
    world.env.block_on(pool.close(PoolState::Exported)).expect("the pool can be exported");
    drop(Arc::into_inner(pool));
    if let Err(error) = Zdb::new(&images, "whirl").check() {
        panic!("{name}: {error}");
    }
}

#[test]
fn g14_log_on_its_own_device_is_replayed_as_openzfs_does() {
    replays("g14-dirty-zil-slog", |world| world.told("manifest.jsonl"));
}

/// Where OpenZFS's own replay of an indirect write made a file longer than anybody wrote it, what
/// the application saw before the crash is right.
pub fn without_growth(world: &World) -> Manifest {
    let (mut told, before) = (world.told("manifest.jsonl"), world.told("before.jsonl"));
    let mut grown = 0;
    for (place, entry) in &mut told {
        let Some(seen) = before.get(place).filter(|seen| seen.size < entry.size) else { continue };
        assert!(place.0.starts_with("whirl/thr"), "only indirect writes do that: {place:?}");
        (entry.size, entry.content) = (seen.size, seen.content.clone());
        grown += 1;
    }
    assert_eq!(grown, 4, "files that OpenZFS's replay made longer");
    told
}

#[test]
fn g15_log_in_the_main_pool_is_replayed_to_what_was_written() {
    replays("g15-dirty-zil-nolog", without_growth);
}
