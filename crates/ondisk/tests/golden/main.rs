//! Structures that OpenZFS wrote, in the golden pools: each must decode, and encode to the same
//! bytes again.

mod log;
mod structures;

use std::collections::BTreeMap;
use std::fs::File;

use ondisk::config::{self, PoolState};
use ondisk::label::{self, BOOT_ENV_BYTES, BOOT_ENV_OFFSET, LABELS};
use ondisk::{Feature, NvList, ObjsetPhys, ObjsetType, UberblockPhys, props};
use oracle::golden;
use oracle::image::{Image, eck_holds, label_config, read_at, uberblocks};
use units::{Ashift, LeafOffset};
use zerocopy::IntoBytes;

/// Pools whose blocks lie on plain files or mirrors, in OpenZFS's own features.
const WALKED: &[&str] = &[
    "g02-single-default",
    "g03-mirror-log",
    "g08-compress",
    "g10-snapshots-clones",
    "g11-many",
    "g12-zvol",
    "g14-dirty-zil-slog",
    "g15-dirty-zil-nolog",
    "g19-encrypted",
    "g20-special-vdev",
];

/// The walked pools.
fn walked() -> impl Iterator<Item = (&'static str, Image)> {
    WALKED.iter().map(|name| (*name, Image::open(&golden::images(name)).expect("files and mirrors only")))
}

#[test]
fn labels_made_by_openzfs_encode_to_the_same_bytes() {
    for name in golden::names() {
        for path in golden::images(&name) {
            let file = File::open(&path).expect("the image is there");
            for index in 0..LABELS {
                let (part, config) = label_config(&file, index);
                let bytes = config.encode();
                assert_eq!(part[..bytes.len()], bytes, "{name} {path:?} label {index}");
                assert_eq!(NvList::decode(&config.encode_native()), Ok(config));
            }
        }
    }
}

#[test]
fn labels_say_what_a_pool_is() {
    for name in golden::names() {
        for path in golden::images(&name) {
            let file = File::open(&path).expect("the image is there");
            let (_, config) = label_config(&file, 3);
            assert_eq!(config.lookup_str(config::POOL_NAME), Ok("whirl"));
            let state = PoolState::from_raw(config.lookup_u64(config::POOL_STATE).expect("has it"));
            let dirty = name.contains("dirty");
            assert_eq!(state, Some(if dirty { PoolState::Active } else { PoolState::Exported }));
            let Some(features) = config.get_nvlist(config::FEATURES_FOR_READ) else { continue };
            for (guid, _) in features.iter() {
                assert!(Feature::from_guid(guid).expect("known").info().mos(), "{guid}");
            }
        }
    }
}

#[test]
fn boot_environments_verify_and_are_the_empty_one() {
    for name in golden::names().into_iter().filter(|name| name != "g18-v28") {
        for path in golden::images(&name) {
            let file = File::open(&path).expect("the image is there");
            let at = LeafOffset::new(
                label::label_offset(file.metadata().expect("there").len(), 2).expect("labels").get()
                    + BOOT_ENV_OFFSET,
            );
            let part = read_at(&file, at.get(), BOOT_ENV_BYTES);
            assert!(eck_holds(&part, label::label_verifier(at)), "{name} {path:?}");
            assert_eq!(part[..BOOT_ENV_BYTES - 40], label::empty_boot_env([0; 4])[..BOOT_ENV_BYTES - 40]);
        }
    }
}

#[test]
fn uberblocks_lie_in_the_slots_of_their_txgs() {
    for name in golden::names() {
        for path in golden::images(&name) {
            let file = File::open(&path).expect("the image is there");
            let (_, config) = label_config(&file, 0);
            let top = config.lookup_nvlist(config::VDEV_TREE).expect("has it");
            let ashift =
                Ashift::new(u8::try_from(top.lookup_u64(config::ASHIFT).expect("has it")).expect("small"));
            let all = uberblocks(&file, 0, ashift);
            assert!(!all.is_empty(), "{name} {path:?}");
            let slot_bytes = usize::try_from(label::uberblock_slot_bytes(ashift)).expect("small");
            for uberblock in &all {
                let slot = UberblockPhys::slot_of(uberblock.txg(), ashift, false).expect("a slot");
                let offset = label::uberblock_slot_offset(ashift, slot);
                let stored = read_at(&file, offset, slot_bytes);
                assert_eq!(stored[..216], *uberblock.as_bytes(), "{name} txg {}", uberblock.txg());
                let written = uberblock.encode_slot(slot_bytes, [0; 4]);
                assert_eq!(stored[..slot_bytes - 40], written[..slot_bytes - 40]);
                assert!(uberblock.mmp().is_some());
            }
        }
    }
}

#[test]
fn the_root_blkptr_leads_to_the_mos() {
    for (name, image) in walked() {
        let block = image.read(&image.uberblock.rootbp).expect("the MOS is lz4");
        let objset = ObjsetPhys::decode(&block).expect("OpenZFS wrote it");
        assert_eq!(objset.kind(), Ok(ObjsetType::Meta), "{name}");
        assert_eq!(objset.encode(block.len()), block);
        assert!(image.objects(&image.uberblock.rootbp).len() > 30, "{name}");
    }
}

#[test]
fn every_structure_in_every_pool_encodes_to_the_same_bytes() {
    for (name, image) in walked() {
        let seen = structures::walk(name, &image);
        structures::check_seen(name, &seen);
    }
}

#[test]
fn every_log_record_openzfs_wrote_encodes_to_the_same_bytes() {
    for name in ["g14-dirty-zil-slog", "g15-dirty-zil-nolog"] {
        let images = golden::images(name);
        let image = Image::open(&images).expect("plain files");
        let seen = log::walk(&image);
        let dump = golden::text(name, "zil.txt");
        let said: BTreeMap<String, usize> = log::said_by_zdb(&dump);
        assert_eq!(seen, said, "{name}");
    }
}

#[test]
fn defaults_of_properties_are_those_of_openzfs() {
    let mut compared = 0;
    for name in golden::names().into_iter().filter(|name| name != "g18-v28") {
        let info = golden::text(&name, "info.txt");
        for line in info.lines() {
            let mut words = line.split_whitespace();
            let (Some(_), Some(prop), Some(value), Some("default")) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Some(prop) = props::dataset_index(prop) else { continue };
            assert_eq!(prop.display(prop.default), Some(value), "{name}: {line}");
            compared += 1;
        }
    }
    assert!(compared > 100);
}
