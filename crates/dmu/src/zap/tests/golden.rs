//! A ZAP that OpenZFS wrote: the object directory of the golden pool `g03-mirror-log`
//! (`zdb -e -p . -R whirl 0:12800:4000/1000:dr`; header fields from `zdb -dddd whirl 1`).

use futures::executor::block_on;

use super::memory::{Memory, TX};
use crate::zap::bytes::put_u64;
use crate::zap::header::{Header, Params, embedded_shift};
use crate::zap::key::hash_name;
use crate::zap::{NORM_TOUPPER, Zap, ZapValue};

const LEAF: &[u8] = include_bytes!("golden/object_directory_leaf.bin");
const SALT: u64 = 0x7d1_17b3;

/// Names and values in the order in which zdb, and so OpenZFS's cursor, gives them.
const ENTRIES: [(&str, u64); 15] = [
    ("free_bpobj", 41),
    ("history", 60),
    ("com.delphix:vdev_zap_map", 128),
    ("features_for_write", 52),
    ("empty_bpobj", 149),
    ("sync_bplist", 62),
    ("features_for_read", 51),
    ("config", 61),
    ("com.delphix:log_spacemap_zap", 137),
    ("feature_enabled_txg", 63),
    ("feature_descriptions", 53),
    ("deflate", 1),
    ("root_dataset", 32),
    ("org.illumos:checksum_salt", 0),
    ("creation_version", 5000),
];

fn directory() -> Vec<Vec<u8>> {
    let params = Params { salt: SALT, ..Params::default() };
    let mut first = vec![0; 16 << 10];
    Header { entries: 15, ..Header::new(14, params) }.encode(&mut first);
    for index in 0..1 << embedded_shift(14) {
        put_u64(&mut first, (8 << 10) + 8 * index, 1);
    }
    vec![first, LEAF.to_vec()]
}

#[test]
fn a_leaf_of_openzfs_reads_as_zdb_shows_it() {
    block_on(async {
        let zap = Zap::open(Memory::of_blocks(&directory())).await.unwrap();
        let all = zap.all().await.unwrap();
        let names: Vec<_> = all.iter().map(|entry| String::from_utf8_lossy(&entry.name)).collect();
        assert_eq!(names, ENTRIES.map(|(name, _)| name));
        for (name, value) in ENTRIES {
            if value != 0 {
                assert_eq!(zap.lookup_u64(name.as_bytes()).await.unwrap(), Some(value));
            }
        }
        let salt = zap.lookup(b"org.illumos:checksum_salt").await.unwrap().unwrap();
        let ZapValue::U8(salt) = salt else { panic!("{salt:?}") };
        assert_eq!((salt.len(), &salt[..4]), (32, &[0x24, 0xaf, 0x0b, 0x28][..]));
    });
}

#[test]
fn a_leaf_of_openzfs_takes_changes() {
    block_on(async {
        let zap = Zap::open(Memory::of_blocks(&directory())).await.unwrap();
        for (name, _) in ENTRIES {
            zap.update(&TX, name.as_bytes(), &ZapValue::text(name)).await.unwrap();
        }
        for number in 0..500_u64 {
            zap.add_u64(&TX, format!("{number}").as_bytes(), number).await.unwrap();
        }
        for (name, _) in ENTRIES {
            assert_eq!(zap.lookup(name.as_bytes()).await.unwrap(), Some(ZapValue::text(name)));
            zap.remove(&TX, name.as_bytes()).await.unwrap();
        }
        assert_eq!(zap.all().await.unwrap().len(), 500);
    });
}

/// The bookmark `b1` of the golden pool `g10-snapshots-clones`, in a ZAP that folds case.
#[test]
fn names_are_folded_before_they_hash_as_openzfs_does() {
    let params = Params { salt: 0x566_bb3f, normflags: NORM_TOUPPER, flags: 0 };
    assert_eq!(hash_name(&params, b"b1"), 0xae22_88c0_0000_0000);
}
