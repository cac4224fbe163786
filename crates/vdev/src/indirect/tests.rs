use std::collections::BTreeMap;

use ondisk::Dva;
use ondisk::indirect::Entry;
use units::{Asize, Guid, ObjectId, VdevId, VdevOffset};

use super::*;

fn run(vdev: u32, offset: u64, len: u64) -> Run {
    Run { vdev: VdevId::new(vdev), offset: VdevOffset::new(offset), len }
}

fn entry(source: u64, len: u64, vdev: u32, offset: u64) -> Entry {
    let target =
        Dva { vdev: VdevId::new(vdev), offset: VdevOffset::new(offset), asize: Asize::new(len), gang: false };
    Entry { source: VdevOffset::new(source), target }
}

/// Mappings of removed vdevs, by number.
#[derive(Default)]
struct Mappings(BTreeMap<u32, Mapping>);

impl Mappings {
    fn with(mut self, vdev: u32, entries: Vec<Entry>) -> Self {
        let mapping = Mapping::new(entries, 1 << 40).expect("in order");
        self.0.insert(vdev, mapping);
        self
    }

    fn find(&self, run: Run) -> Result<Located, VdevError> {
        Located::find(run, self.0.len(), |vdev| self.0.get(&vdev.get()).map(Some))
    }
}

/// The pools of the theory's drawing.
fn drawn() -> Mappings {
    Mappings::default()
        .with(1, vec![entry(0x2000, 0x2000, 0, 0x91000), entry(0x4000, 0x2800, 2, 0x6000)])
        .with(2, vec![entry(0x6000, 0x400, 0, 0xf3000), entry(0x6400, 0x1c00, 3, 0x1000)])
}

#[test]
fn the_pieces_of_a_run_are_all_of_it_in_order() {
    let found = drawn().find(run(1, 0x3000, 0x1800)).expect("mapped");
    assert_eq!(found.pieces, [run(0, 0x92000, 0x1000), run(0, 0xf3000, 0x400), run(3, 0x1000, 0x400)]);
    assert_eq!(found.passed, [run(1, 0x3000, 0x1800), run(2, 0x6000, 0x800)]);
    // Each byte by itself is where it is as part of a run.
    let bytes =
        found.pieces.iter().flat_map(|piece| (0..piece.len).map(|at| (piece.vdev, piece.offset.get() + at)));
    for (at, place) in bytes.enumerate().step_by(0x101) {
        let alone = drawn().find(run(1, 0x3000 + at as u64, 1)).expect("mapped");
        assert_eq!(alone.pieces, [run(place.0.get(), place.1, 1)]);
    }
}

#[test]
fn what_is_in_use_is_where_it_is() {
    let found = drawn().find(run(0, 0x3000, 0x1000)).expect("nothing to follow");
    assert_eq!(found, Located { pieces: vec![run(0, 0x3000, 0x1000)], passed: Vec::new() });
}

#[test]
fn what_is_not_mapped_is_an_error() {
    for (offset, len) in
        [(0, 0x200), (0x1e00, 0x400), (0x6600, 0x400), (0x6800, 0x200), (u64::MAX - 511, 0x400)]
    {
        let error = drawn().find(run(1, offset, len)).expect_err("not mapped");
        assert!(matches!(error, VdevError::Unmapped { .. }), "{offset:#x}: {error}");
    }
    // A gap between runs.
    let gap = Mappings::default().with(1, vec![entry(0, 0x200, 0, 0), entry(0x400, 0x200, 0, 0x200)]);
    assert!(gap.find(run(1, 0, 0x600)).is_err() && gap.find(run(1, 0x200, 0x200)).is_err());
    assert!(gap.find(run(1, 0x400, 0x200)).is_ok());
    // A target beyond 64 bits.
    let far = Mappings::default().with(1, vec![entry(0, 0x400, 0, u64::MAX - 0x100)]);
    assert!(far.find(run(1, 0x200, 0x200)).is_err());
}

#[test]
fn mappings_in_a_circle_are_an_error() {
    let itself = Mappings::default().with(1, vec![entry(0, 0x1000, 1, 0)]);
    assert!(matches!(itself.find(run(1, 0, 0x200)), Err(VdevError::Unmapped { .. })));
    let both = Mappings::default()
        .with(1, vec![entry(0, 0x800, 2, 0), entry(0x800, 0x800, 2, 0x800)])
        .with(2, vec![entry(0, 0x1000, 1, 0)]);
    assert!(matches!(both.find(run(1, 0, 0x1000)), Err(VdevError::Unmapped { .. })));
}

#[test]
fn a_mapping_out_of_order_or_beyond_its_vdev_is_damage() {
    let is_whole = |entries: &[Entry]| Mapping::new(entries.to_vec(), 0x1000).is_some();
    assert!(is_whole(&[]) && is_whole(&[entry(0, 0x800, 0, 0), entry(0x800, 0x800, 0, 0)]));
    assert!(!is_whole(&[entry(0, 0x800, 0, 0), entry(0x600, 0x800, 0, 0)]), "overlapping");
    assert!(!is_whole(&[entry(0x800, 0x800, 0, 0), entry(0, 0x800, 0, 0)]), "out of order");
    assert!(!is_whole(&[entry(0x800, 0xa00, 0, 0)]), "beyond the end");
    assert!(!is_whole(&[entry(u64::MAX - 0x1ff, 0x400, 0, 0)]), "beyond 64 bits");
    assert!(!is_whole(&[entry(0, 0, 0, 0)]), "of no length");
}

#[test]
fn what_was_copied_is_known_by_where_it_is_too() {
    let removed = Removed::new(RemovedConfig {
        guid: Guid::new(1),
        mapping: ObjectId::new(1),
        births: ObjectId::new(2),
        previous: None,
        whole_disk: None,
        non_allocating: None,
    });
    assert!(!removed.was_copied_to(run(0, 0, 1 << 40)), "nothing is known of it yet");
    let entries = vec![entry(0x2000, 0x2000, 2, 0x91000), entry(0x4000, 0x2800, 0, 0x6000)];
    removed.set_mapping(Mapping::new(entries, 1 << 40).expect("in order"));
    for (vdev, offset, len, copied) in [
        (0, 0x5fff, 1, false),
        (0, 0x5fff, 2, true),
        (0, 0x87ff, 1, true),
        (0, 0x8800, 0x100000, false),
        (1, 0x6000, 0x2000, false),
        (2, 0x90000, 0x1000, false),
        (2, 0x90000, 0x4000, true),
        (2, 0x93000, 0x1000, false),
    ] {
        assert_eq!(removed.was_copied_to(run(vdev, offset, len)), copied, "{vdev}:{offset:x}:{len:x}");
    }
}
