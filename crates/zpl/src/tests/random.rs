//! Random operations beside the model, with syncs, remounts and crashes between them.

use std::sync::Arc;

use super::model::{Dice, Model};
use super::world::{World, run_with};
use crate::*;

fn histories(seeds: std::ops::Range<u64>, steps: u64, options: ZfsOptions, crashes: bool) {
    for seed in seeds {
        run_with(options, async |world: Arc<World>, zfs| {
            let mut dice = Dice::new(seed);
            let mut zfs = zfs;
            let mut model = Model::of_empty(&zfs).await;
            for _ in 0..steps {
                model.step(&zfs, &mut dice).await;
                match dice.below(40) {
                    0 => world.sync(&zfs).await,
                    1 => zfs = world.remount(zfs).await,
                    2 if crashes => {
                        // Everything is committed, so everything must be there.
                        zfs.sync().await.unwrap();
                        (zfs, _) = world.crash(zfs).await;
                        model.check(&zfs).await;
                    }
                    _ => {}
                }
            }
            model.check(&zfs).await;
            zfs = world.remount(zfs).await;
            model.check(&zfs).await;
        });
    }
}

#[test]
fn a_file_system_behaves_as_a_tree_of_byte_vectors() {
    histories(0..20, 300, ZfsOptions::default(), false);
}

#[test]
fn what_was_committed_survives_crashes_in_random_histories() {
    histories(100..125, 200, ZfsOptions::default(), true);
}

#[test]
fn small_records_and_large_dnodes_change_nothing() {
    let options = ZfsOptions { record_bytes: 4096, dnode_slots: 2, ..ZfsOptions::default() };
    histories(200..210, 200, options, true);
}

#[test]
fn with_sync_always_every_operation_survives() {
    let options = ZfsOptions { sync: SyncPolicy::Always, ..ZfsOptions::default() };
    for seed in 300..315 {
        run_with(options, async |world: Arc<World>, zfs| {
            let mut dice = Dice::new(seed);
            let mut zfs = zfs;
            let mut model = Model::of_empty(&zfs).await;
            for _ in 0..10 {
                for _ in 0..dice.below(15) {
                    model.step(&zfs, &mut dice).await;
                }
                (zfs, _) = world.crash(zfs).await;
                model.check(&zfs).await;
            }
        });
    }
}

#[test]
fn with_attributes_in_files_nothing_else_changes() {
    let options = ZfsOptions { xattr: XattrPolicy::Directory, ..ZfsOptions::default() };
    histories(400..410, 200, options, true);
}
