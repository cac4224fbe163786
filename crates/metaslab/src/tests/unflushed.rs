//! The difference between a metaslab's own map and all that was logged since.

use proptest::prelude::*;
use units::{Asize, VdevOffset};

use crate::{Change, ChangeKind, Unflushed};

fn change(kind: ChangeKind, offset: u64, len: u64) -> Change {
    Change { kind, offset: VdevOffset::new(offset), len: Asize::new(len) }
}

proptest! {
    #[test]
    fn unflushed_changes_say_what_all_logged_changes_said(
        flips in proptest::collection::vec((0u64..64, 1u64..16), 0..60)
    ) {
        // Sectors 0..32 are allocated in the own map, the others free.
        let own: Vec<bool> = (0..80).map(|sector| sector < 32).collect();
        let mut now = own.clone();
        let mut unflushed = Unflushed::new();
        for (start, len) in flips {
            // The longest part from `start` that is alike can be allocated, or freed, as one.
            let was = now[start as usize];
            let same = now[start as usize..].iter().take(len as usize).take_while(|&&bit| bit == was);
            let len = same.count() as u64;
            let kind = if was { ChangeKind::Free } else { ChangeKind::Alloc };
            prop_assert!(unflushed.apply(&change(kind, start * 512, len * 512)));
            now[start as usize..][..len as usize].fill(!was);
        }
        let mut replayed = own.clone();
        for change in unflushed.changes() {
            let from = change.offset.get() as usize / 512;
            let bits = &mut replayed[from..][..change.len.get() as usize / 512];
            prop_assert!(bits.iter().all(|&bit| bit == (change.kind == ChangeKind::Free)));
            bits.fill(change.kind == ChangeKind::Alloc);
        }
        prop_assert_eq!(&replayed, &now);
        let sum = |bits: &[bool]| bits.iter().filter(|&&bit| bit).count() as i64 * 512;
        prop_assert_eq!(unflushed.allocated_bytes(), sum(&now) - sum(&own));
    }
}

#[test]
fn what_was_allocated_since_cannot_be_allocated_again() {
    let mut unflushed = Unflushed::new();
    assert!(unflushed.apply(&change(ChangeKind::Alloc, 4096, 4096)));
    assert!(!unflushed.apply(&change(ChangeKind::Alloc, 7680, 1024)));
    assert!(!unflushed.apply(&change(ChangeKind::Alloc, 0, 0)));
    assert!(unflushed.apply(&change(ChangeKind::Free, 4096, 8192)));
    assert!(!unflushed.apply(&change(ChangeKind::Free, 8192, 512)));
    assert_eq!(unflushed.allocated_bytes(), -4096);
}
