use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::bpobj::{self, BpobjPhys};

proptest! {
    #[test]
    fn any_bonus_decodes_to_its_own_bytes_or_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let same = |decoded: Option<Vec<u8>>, size: usize| match decoded {
            Some(again) => bytes[..size] == again,
            None => bytes.len() < size,
        };
        prop_assert!(same(DslDirPhys::decode(&bytes).ok().map(|p| p.as_bytes().to_vec()), DSL_DIR_BYTES));
        prop_assert!(same(DslDatasetPhys::decode(&bytes).ok().map(|p| p.as_bytes().to_vec()), DSL_DATASET_BYTES));
        prop_assert!(same(DslDeadlistPhys::decode(&bytes).ok().map(|p| p.as_bytes().to_vec()), DSL_DEADLIST_BYTES));
        if let Ok(phys) = BpobjPhys::decode(&bytes) {
            let len = bytes.len().min(bpobj::BPOBJ_BYTES);
            prop_assert_eq!(&phys.as_bytes()[..len], &bytes[..len]);
        }
        prop_assert_eq!(bpobj::entries(&bytes).count(), bytes.len() / 128);
    }

    #[test]
    fn scans_and_bookmarks_survive_as_words(words in proptest::collection::vec(any::<u64>(), 0..30)) {
        match ScanPhys::from_words(&words) {
            Ok(scan) => prop_assert_eq!(&scan.to_words()[..], &words[..scan::SCAN_WORDS]),
            Err(_) => prop_assert!(words.len() < scan::SCAN_WORDS),
        }
        match BookmarkPhys::from_words(&words) {
            Ok(bookmark) => {
                let mut expected = words.clone();
                expected.resize(BOOKMARK_WORDS, 0);
                prop_assert_eq!(bookmark.to_words(), expected);
            }
            Err(_) => prop_assert!(words.len() < BOOKMARK_WORDS_V1),
        }
    }
}

#[test]
fn a_snapshot_is_told_by_its_children() {
    let head = DslDatasetPhys::default();
    assert!(!head.is_snapshot());
    assert!(DslDatasetPhys { children: 1.into(), ..head }.is_snapshot());
}

#[test]
fn an_old_bpobj_has_no_subobjs() {
    let bpobj = BpobjPhys::decode(&[1; bpobj::BPOBJ_BYTES_V1]).expect("an old size");
    assert_ne!(bpobj.uncompressed.get(), 0);
    assert_eq!((bpobj.subobjs.get(), bpobj.freed.get()), (0, 0));
    assert!(BpobjPhys::decode(&[1; 15]).is_err());
}
