use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::executor::block_on;
use units::{Ashift, LABEL_START_BYTES, LeafOffset, VdevOffset};

use crate::tests::world::World;
use crate::{NewVdev, Top, VdevTree};

const SECTOR: u64 = 512;

fn top(children: usize, parity: u8) -> Arc<Top> {
    let paths = &["a", "b", "c", "d", "e"][..children];
    let world = World::with(paths, 64 << 20);
    let paths = paths.iter().map(PathBuf::from).collect();
    let spec = NewVdev { paths, parity, ashift: Some(Ashift::new(9)), ..NewVdev::default() };
    let tree = block_on(VdevTree::create(world.env(), &[spec])).expect("devices");
    Arc::clone(&tree.tops()[0])
}

/// Sectors of each leaf that belong to the sectors `start..end` of the vdev, each with how often it was named.
fn sectors(top: &Top, start: u64, end: u64) -> BTreeMap<(usize, u64), u32> {
    let mut named = BTreeMap::new();
    for (child, leaf) in top.leaves().iter().enumerate() {
        let share = top.share_of(leaf, VdevOffset::new(start * SECTOR), (end - start) * SECTOR);
        let Some(share) = share.expect("in range") else { continue };
        let first = (share.start.get() - LABEL_START_BYTES) / SECTOR;
        (first..first + share.len / SECTOR).for_each(|at| *named.entry((child, at)).or_default() += 1);
    }
    named
}

#[test]
fn the_shares_of_all_leaves_are_the_stretch() {
    for (children, parity) in [(3, 1), (5, 2)] {
        let (top, width) = (top(children, parity), children as u64);
        for (start, end) in [(0, 1), (4, 12), (7, 7 + 3 * width), (2, 2 + width - 1), (1, 90)] {
            let expected = (start..end).map(|at| (((at % width) as usize, at / width), 1)).collect();
            assert_eq!(sectors(&top, start, end), expected, "sectors {start} to {end} of {children}");
        }
    }
    let mirror = top(2, 0);
    let expected = (0..2).flat_map(|leaf| (5..9).map(move |at| ((leaf, at), 1))).collect();
    assert_eq!(sectors(&mirror, 5, 9), expected, "all of it is on each leaf of a mirror");
}

#[test]
fn a_share_leads_back_to_where_it_begins() {
    for (children, parity) in [(1, 0), (2, 0), (3, 1), (5, 2)] {
        let top = top(children, parity);
        for leaf in top.leaves() {
            for sector in 0..40 {
                let (at, len) = (VdevOffset::new(sector * SECTOR), 64 * SECTOR);
                let share = top.share_of(leaf, at, len).expect("in range").expect("every leaf has some");
                let back = top.offset_from(leaf, share.start);
                assert!(back >= at, "{back} is not before {at}");
                let gap = back.get() - at.get();
                assert!(gap < children as u64 * SECTOR, "{gap} bytes are not another leaf's");
            }
            assert_eq!(
                top.offset_from(leaf, LeafOffset::new(0)).get() / SECTOR,
                top.offset_from(leaf, LeafOffset::new(4096)).get() / SECTOR
            );
        }
    }
}

#[test]
fn what_is_past_the_end_has_no_share() {
    let top = top(3, 1);
    let end = VdevOffset::new(top.config().asize - SECTOR);
    let leaf = &top.leaves()[0];
    assert!(top.share_of(leaf, end, 9 * SECTOR).is_err());
    assert!(top.share_of(leaf, VdevOffset::new(u64::MAX), 9).is_err());
}
