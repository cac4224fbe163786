//! Pools that the OpenZFS kernel module made, read by us: every object of every dataset, snapshot
//! and volume must be as it saw them.
//!
//! ```text
//!  images ─► Pool::import ─► walk ─► Manifest ─┐
//!  manifest.jsonl (lstat, sha256, getxattr) ───┴─► no difference
//! ```

mod big_endian;
mod dirty;
mod encrypted;
mod hostile;
mod killed;
mod lost;
mod manifest;
mod props;
mod raidz;
mod walk;
mod whole_disk;
mod world;
mod written;

use manifest::Leave;
use world::World;

/// Reads the pool's images and compares all that is in them with its manifest.
fn reads_as_its_manifest_says(name: &str) {
    let world = World::golden(name);
    world.check(&world.told("manifest.jsonl"), Leave::default());
    props::check(&world);
}

/// What OpenZFS says of a removed vdev is said again key for key.
#[test]
fn the_configuration_of_a_removed_vdev_is_kept() {
    let world = World::golden("g23-removed");
    let pool = world.import(true).expect("sound");
    let stored = world.env.block_on(pool.stored_config()).expect("readable");
    let vdev = |tree: &ondisk::NvList| tree.get_nvlist_array("children").expect("three vdevs")[1].encode();
    let stored = stored.get_nvlist("vdev_tree").expect("a tree");
    assert_eq!(vdev(&pool.vdevs().to_nvlist()), vdev(stored));
}

macro_rules! golden {
    ($($test:ident: $pool:literal;)*) => {
        $(
            #[test]
            fn $test() {
                reads_as_its_manifest_says($pool);
            }
        )*
    };
}

golden! {
    g01_without_features: "g01-single-nofeat";
    g02_with_default_features: "g02-single-default";
    g03_mirror_with_log: "g03-mirror-log";
    g05_raidz1: "g05-raidz1";
    g06_raidz2: "g06-raidz2";
    g08_each_compression: "g08-compress";
    g09_each_checksum: "g09-checksums";
    g10_snapshots_and_clones: "g10-snapshots-clones";
    g11_many_kinds_of_files: "g11-many";
    g12_volumes: "g12-zvol";
    g18_version_28: "g18-v28";
    g20_special_and_dedup_vdevs: "g20-special-vdev";
    g21_a_device_being_replaced: "g21-replacing";
    g22_a_spare_at_work: "g22-spare";
    g23_a_vdev_that_was_removed: "g23-removed";
    g24_with_a_checkpoint: "g24-checkpoint";
    g25_a_raidz_that_was_widened: "g25-expanded";
    g26_a_draid: "g26-draid";
}
