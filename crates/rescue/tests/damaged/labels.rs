//! Devices whose labels are lost.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use env::Env;
use ondisk::label::{
    CONFIG_BYTES, CONFIG_OFFSET, LABELS, UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET, label_offset,
};
use rescue::{DraidHint, Geometry, LayoutHint, RescueView, Scanner, read_labels};
use units::LABEL_START_BYTES;

use crate::told::{ManifestEntry, all, all_in, check_all, digest};
use crate::world::{NoProgress, World};

/// The part of every label of a device that is wiped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wiped {
    Configurations,
    Uberblocks,
    Everything,
}

fn wipe(path: &std::path::Path, what: Wiped) {
    let file = File::options().write(true).open(path).expect("the copy is ours");
    let size = file.metadata().expect("just opened").len();
    for label in 0..LABELS {
        let start = label_offset(size, label).expect("room for labels").get();
        if what != Wiped::Uberblocks {
            file.write_all_at(&vec![0; CONFIG_BYTES], start + CONFIG_OFFSET).expect("written");
        }
        if what != Wiped::Configurations {
            let ring = vec![0; usize::try_from(UBERBLOCK_RING_BYTES).expect("small")];
            file.write_all_at(&ring, start + UBERBLOCK_RING_OFFSET).expect("written");
        }
    }
}

fn wipe_all(world: &World, what: Wiped) {
    world.search.devices.iter().for_each(|path| wipe(path, what));
}

/// True if the object cannot be read without a key.
fn is_encrypted(told: &ManifestEntry) -> bool {
    ["whirl/ccm", "whirl/gcm", "whirl/gcm/kid", "whirl/raw"].contains(&told.dataset.as_str())
}

/// Rescues all files of a pool without damage to its blocks.
fn comes_back_whole(world: &World) {
    let before = world.devices();
    let summary = world.rescue();
    check_all(world, is_encrypted);
    assert!(before == world.devices(), "{}: a device was written to", world.name);
    let has_key = world.name != "g19-encrypted";
    assert_eq!(summary.is_whole(), has_key, "{}: {summary:?}, {:?}", world.name, world.report());
}

#[test]
fn a_pool_whose_labels_are_whole_comes_back() {
    comes_back_whole(&World::copy("g02-single-default"));
}

#[test]
fn a_rescue_leaves_every_device_as_it_was() {
    let world = World::copy("g01-single-nofeat");
    wipe_all(&world, Wiped::Configurations);
    comes_back_whole(&world);
}

#[test]
fn pools_on_one_device_need_no_configurations_in_their_labels() {
    for name in [
        "g02-single-default",
        "g09-checksums",
        "g10-snapshots-clones",
        "g12-zvol",
        "g18-v28",
        "g19-encrypted",
    ] {
        let world = World::copy(name);
        wipe_all(&world, Wiped::Configurations);
        comes_back_whole(&world);
    }
}

#[test]
fn many_files_come_back() {
    let world = World::copy("g11-many");
    wipe_all(&world, Wiped::Configurations);
    comes_back_whole(&world);
}

#[test]
fn every_algorithm_of_compression_comes_back() {
    let world = World::copy("g08-compress");
    wipe_all(&world, Wiped::Configurations);
    comes_back_whole(&world);
}

#[test]
fn a_raidz_is_found_by_its_one_label_with_a_leaf_missing() {
    let mut world = World::copy("g05-raidz1");
    wipe(&world.search.devices[0], Wiped::Configurations);
    world.search.devices.remove(2);
    comes_back_whole(&world);
}

#[test]
fn a_raidz_without_configurations_is_arranged_as_options_say() {
    let world = World::copy("g06-raidz2");
    wipe_all(&world, Wiped::Configurations);
    let mut children: Vec<_> = world.search.devices.iter().cloned().map(Some).collect();
    children[1] = None;
    comes_back_whole(&world.hint(LayoutHint { raidz: Some(2), children, ..LayoutHint::default() }));
}

#[test]
fn a_raidz_without_configurations_is_guessed_from_the_order_of_devices() {
    let world = World::copy("g05-raidz1");
    wipe_all(&world, Wiped::Configurations);
    comes_back_whole(&world);
}

#[test]
fn without_labels_the_roots_are_found_by_their_content() {
    for name in ["g02-single-default", "g18-v28", "g10-snapshots-clones"] {
        let world = World::copy(name);
        wipe_all(&world, Wiped::Everything);
        comes_back_whole(&world);
    }
}

#[test]
fn without_labels_a_raidz_is_scanned_too() {
    for (name, parity) in [("g05-raidz1", 1), ("g06-raidz2", 2)] {
        let world = World::copy(name);
        wipe_all(&world, Wiped::Everything);
        let hint = LayoutHint { raidz: Some(parity), ..LayoutHint::default() };
        comes_back_whole(&world.hint(hint));
    }
}

#[test]
fn without_labels_a_draid_is_scanned_as_options_say() {
    let draid = Some(DraidHint { parity: 1, data: 2, spares: 1 });
    for missing in [None, Some(3)] {
        let mut world = World::copy("g26-draid");
        wipe_all(&world, Wiped::Everything);
        world.search.devices.retain(|path| !path.ends_with("l.img"));
        let mut children: Vec<_> = world.search.devices.iter().cloned().map(Some).collect();
        missing.iter().for_each(|&child: &usize| children[child] = None);
        comes_back_whole(&world.hint(LayoutHint { draid, children, ..LayoutHint::default() }));
    }
}

#[test]
fn without_uberblocks_a_draid_is_scanned_as_its_labels_say() {
    let world = World::copy("g26-draid");
    wipe_all(&world, Wiped::Uberblocks);
    comes_back_whole(&world);
}

#[test]
fn removed_vdevs_and_several_classes_are_found_by_the_configuration_in_the_pool() {
    for name in ["g23-removed", "g20-special-vdev", "g25-expanded", "g26-draid", "g21-replacing", "g22-spare"]
    {
        comes_back_whole(&World::copy(name));
    }
}

/// Overwrites every meta-objset that a scan finds.
fn overwrite_pool_roots(world: &World) {
    let shared: Arc<dyn Env> = world.env.clone();
    let found = world.env.block_on(async {
        let labels = read_labels(&shared, &world.search.devices).await.expect("readable");
        let geometry = Geometry::possible(&labels, &LayoutHint::default()).expect("one device").remove(0);
        let view = RescueView::open(&shared, &geometry).await.expect("one device");
        Scanner::new(&view, &NoProgress).run().await
    });
    assert!(!found.pools.is_empty() && !found.datasets.is_empty());
    let file = File::options().write(true).open(&world.search.devices[0]).expect("the copy is ours");
    for dva in found.pools.iter().flat_map(|root| root.root.dvas()) {
        file.write_all_at(&[0; 512], dva.offset.get() + LABEL_START_BYTES).expect("written");
    }
}

#[test]
fn without_any_root_of_the_pool_datasets_come_back_without_their_names() {
    let world = World::copy("g10-snapshots-clones");
    wipe_all(&world, Wiped::Everything);
    overwrite_pool_roots(&world);
    world.rescue();
    let mut digests = BTreeSet::new();
    for place in all_in(&world.target()) {
        if place.is_file() {
            digests.insert(digest(&place));
        }
    }
    // A clone has the same root directory as its origin, so a scan finds only one of them.
    let told = all(&world.name);
    let kid = told.iter().filter(|one| one.dataset == "whirl/parent/kid" && one.kind() == "f");
    let missing: Vec<_> =
        kid.filter(|one| !digests.contains(one.line["sha256"].as_str().expect("told"))).collect();
    assert!(missing.is_empty(), "{:?}", missing.iter().map(|one| &one.place).collect::<Vec<_>>());
}
