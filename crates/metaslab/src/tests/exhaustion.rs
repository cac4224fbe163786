//! The last sectors.

use super::*;
use crate::AllocError;

#[test]
fn a_nearly_full_metaslab_is_filled_to_the_last_sector() {
    for sizes in [&[512][..], &[8 * KIB, 512], &[128 * KIB, 4 * KIB, 16 * KIB, 512]] {
        let mut space = normal(2, 4 * MIB, 20);
        let mut blocks: Vec<Dva> = Vec::new();
        for &bytes in sizes {
            while let Ok(block) = space.try_one(10, bytes) {
                blocks.push(block);
            }
        }
        let figures = space.space(Class::Normal);
        assert_eq!((figures.free.get(), figures.allocated.get()), (0, 8 * MIB), "{sizes:?}");
        blocks.sort_by_key(|dva| (dva.vdev, dva.offset));
        assert!(blocks.windows(2).all(|pair| !overlap(&pair[0], &pair[1])));
    }
}

#[test]
fn what_does_not_fit_says_how_much_would() {
    let mut space = normal(1, 64 * KIB, 16);
    space.one(10, 60 * KIB);
    let error = space.try_one(10, 8 * KIB).unwrap_err();
    let (free, longest) = (Asize::new(4 * KIB), Asize::new(4 * KIB));
    let psize = Psize::new(8 * KIB);
    assert_eq!(error, AllocError::NoSpace { class: Class::Normal, psize, copies: 1, free, longest });
    assert_eq!(space.one(10, longest.get()).asize, longest);
}

#[test]
fn copies_are_found_all_or_none() {
    let mut space = normal(1, 64 * KIB, 16);
    let error = space.allocate(Class::Normal, Psize::new(24 * KIB), 3, txg(10), Hint::default());
    assert!(matches!(error, Err(AllocError::NoSpace { copies: 3, .. })));
    assert_eq!(space.space(Class::Normal).free.get(), 64 * KIB, "the two that fitted were given back");
    assert!(space.take_changes(txg(10)).is_empty());
}

#[test]
fn a_block_longer_than_a_metaslab_never_fits() {
    let mut space = normal(1, MIB, 16);
    assert!(space.try_one(10, 64 * KIB + 512).is_err());
    space.one(10, 64 * KIB);
}
