use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use env::{BufSlice, Device, Durability, FaultOp, IoBuf, RamDevice};
use futures::executor::block_on;
use ondisk::label::LABELS;
use ondisk::{NvList, UberblockPhys};
use units::{LABEL_BYTES, Txg};

use crate::tests::tree::{made, pool_config, spec, sync};
use crate::tests::world::{Event, World};
use crate::*;

use super::{seal_part, verify_part};

const SIZE: u64 = 64 << 20;

#[test]
fn a_part_of_another_place_or_with_a_flipped_bit_does_not_verify() {
    let mut part = vec![0x5a; 1024];
    seal_part(&mut part, [4096, 0, 0, 0]);
    assert!(verify_part(&part, [4096, 0, 0, 0]));
    assert!(!verify_part(&part, [8192, 0, 0, 0]), "another place");
    for at in 0..part.len() {
        let mut bad = part.clone();
        bad[at] ^= 0x10;
        assert!(!verify_part(&bad, [4096, 0, 0, 0]), "byte {at}");
    }
    for len in 0..64 {
        assert!(!verify_part(&part[..len], [4096, 0, 0, 0]));
    }
}

fn ub(txg: u64, timestamp: u64, heartbeat: u16) -> UberblockPhys {
    let mmp = ondisk::MmpConfig { sequence: Some(heartbeat), ..Default::default() };
    UberblockPhys {
        magic: ondisk::UBERBLOCK_MAGIC.into(),
        txg: txg.into(),
        timestamp: timestamp.into(),
        mmp_magic: ondisk::MMP_MAGIC.into(),
        mmp_config: mmp.to_word().into(),
        ..Default::default()
    }
}

#[test]
fn the_uberblock_that_counts_follows_the_table() {
    // Every pair of all combinations of three values in three fields.
    let values = || (0..27).map(|n| ub(4 + n / 9, 100 + n / 3 % 3, (n % 3) as u16));
    for a in values() {
        for b in values() {
            let best = best_uberblock([&a, &b], None).expect("two to choose from");
            let key = |u: &UberblockPhys| (u.txg.get(), u.timestamp.get(), u.mmp().and_then(|m| m.sequence));
            assert_eq!(key(best), key(&a).max(key(&b)));
            let limited = best_uberblock([&a, &b], Some(Txg::new(4)));
            assert!(limited.is_none_or(|found| found.txg() == Txg::new(4)));
            assert_eq!(limited.is_none(), a.txg().get() > 4 && b.txg().get() > 4);
        }
    }
    assert!(best_uberblock([], None).is_none());
}

#[test]
fn the_label_that_counts_is_the_newest_that_is_not_too_new() {
    let label = |txg: u64| {
        let mut list = NvList::new();
        list.add_u64("txg", txg);
        list
    };
    let labels = [label(7), label(9), label(8), label(0)];
    let best =
        |max: Option<u64>| best_config(&labels, max.map(Txg::new)).and_then(|label| label.get_u64("txg"));
    assert_eq!(best(None), Some(9));
    assert_eq!(best(Some(8)), Some(8));
    assert_eq!(best(Some(6)), Some(0));
    assert_eq!(best_config([&label(9)], Some(Txg::new(8))), None);
}

#[test]
fn damaged_labels_are_passed_over() {
    let world = World::with(&["a", "b", "c"], SIZE);
    made(&world);
    let ram: Arc<dyn Device> = Arc::new(world.ram("a"));
    let whole = block_on(LeafLabels::read(&ram));
    assert_eq!(whole.configs.iter().flatten().count(), 4);
    assert_eq!(whole.uberblocks.len(), 4);
    // Ruin L0 and L1 altogether: config, ring, all.
    let junk = BufSlice::from(IoBuf::copy_of(&vec![0xa5; 512 << 10]));
    block_on(ram.write(units::LeafOffset::new(0), vec![junk], Durability::Cached)).expect("in range");
    let half = block_on(LeafLabels::read(&ram));
    assert_eq!(half.configs.iter().flatten().count(), 2);
    assert_eq!(half.uberblocks.len(), 2);
    assert_eq!(half.config(None), whole.config(None));
}

/// What each device holds for sure, and what it may hold beside.
struct Device_ {
    stable: Vec<(u64, Vec<u8>)>,
    volatile: Vec<(u64, Vec<u8>)>,
}

type Disks = BTreeMap<PathBuf, Device_>;

fn play(events: &[Event]) -> Disks {
    let mut disks = Disks::new();
    for event in events {
        let (Event::Write { path, .. } | Event::Flush { path }) = event;
        let disk =
            disks.entry(path.clone()).or_insert_with(|| Device_ { stable: Vec::new(), volatile: Vec::new() });
        match event {
            Event::Write { offset, bytes, .. } => disk.volatile.push((offset.get(), bytes.clone())),
            Event::Flush { .. } => disk.stable.append(&mut disk.volatile),
        }
    }
    disks
}

/// An image with those volatile writes that `keeps` keeps, by number over all devices; the first
/// one that is not kept is torn in its middle when `tears`.
fn image(disks: &Disks, keeps: impl Fn(usize) -> bool, tears: bool) -> Arc<World> {
    let world = World::default();
    let mut number = 0;
    let mut torn = !tears;
    for (path, disk) in disks {
        let ram = RamDevice::new(SIZE);
        let put = |at: u64, bytes: &[u8]| {
            let slice = BufSlice::from(IoBuf::copy_of(bytes));
            block_on(ram.write(units::LeafOffset::new(at), vec![slice], Durability::Cached)).expect("fits");
        };
        disk.stable.iter().for_each(|(at, bytes)| put(*at, bytes));
        for (at, bytes) in &disk.volatile {
            if keeps(number) {
                put(*at, bytes);
            } else if !torn {
                torn = true;
                put(*at, &bytes[..512]);
            }
            number += 1;
        }
        world.put(path.clone(), ram);
    }
    Arc::new(world)
}

/// The txg that an import of this image would come up with; checks that some label fits it.
fn recovered(world: &Arc<World>) -> Txg {
    let paths = ["a", "b", "c"].map(PathBuf::from);
    let found = block_on(scan(&world.env(), &paths));
    let all = found.iter().flat_map(|leaf| &leaf.labels.uberblocks).map(|found| &found.uberblock);
    let best = *best_uberblock(all, None).expect("an uberblock");
    // As OpenZFS does: a label no younger than the uberblock, on a device that has it.
    let fits = found.iter().any(|leaf| {
        leaf.labels.uberblock(None).is_some_and(|own| own.rank() == best.rank())
            && leaf.labels.config(Some(best.txg())).is_some_and(|config| config.get_u64("txg") != Some(0))
    });
    assert!(fits, "no label fits the uberblock of txg {}", best.txg());
    let pool = candidates(&found).remove(0);
    assert_eq!(pool.uberblock, Some(best));
    assert!(pool.pool.txg <= best.txg(), "the pool as of a txg that never happened");
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: &pool.vdev_tree,
        paths: &pool.paths,
        mode: env::OpenMode::ReadWrite,
    };
    let tree = block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration");
    assert_eq!(tree.state().0, VdevState::Online);
    assert!(tree.leaves().iter().all(|leaf| !leaf.is_stale()), "nobody was away");
    best.txg()
}

/// All ways to lose volatile writes when there are few, else each alone, all but each, and a
/// spread of others.
fn losses(count: usize) -> Vec<u64> {
    if count <= 6 {
        return (0..1 << count).collect();
    }
    let all = (1_u64 << count) - 1;
    let mut masks: BTreeSet<u64> = [0, all].into();
    for bit in 0..count {
        masks.insert(1 << bit);
        masks.insert(all ^ (1 << bit));
    }
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..12 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        masks.insert((state >> 20) & all);
    }
    masks.into_iter().collect()
}

#[test]
fn every_crash_leaves_an_uberblock_and_a_label_that_fits() {
    let images = crash_everywhere(&[]);
    assert!(images > 100, "{images} images");
}

/// Sets of labels of `a`, `b` and `c` that cannot be written. Each half of each leaf keeps one good
/// label.
const BAD: [&[(&str, usize)]; 6] = [
    &[("a", 0)],
    &[("a", 3)],
    &[("a", 2), ("a", 3), ("b", 0), ("b", 1)],
    &[("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)],
    &[("a", 0), ("a", 3), ("b", 1), ("b", 2)],
    &[("c", 1), ("c", 2)],
];

#[test]
fn every_crash_with_labels_that_cannot_be_written_leaves_an_uberblock_and_a_label_that_fits() {
    for bad in BAD {
        let images = crash_everywhere(bad);
        assert!(images > 100, "{bad:?}: {images} images");
    }
}

/// Makes writes to a label fail.
fn spoil_label(world: &World, path: &str, label: usize) {
    let start = ondisk::label::label_offset(SIZE, label).expect("a label").get();
    world.faults(path).fail_within(FaultOp::Write, start..start + LABEL_BYTES);
}

/// Syncs txgs with and without changes of the configuration, and cuts the power at every moment.
/// Returns the number of crash images.
fn crash_everywhere(bad: &[(&str, usize)]) -> usize {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    bad.iter().for_each(|(path, label)| spoil_label(&world, path, *label));
    let mut promised = vec![(world.record().len(), 4)];
    for (txg, dirty) in [(5, true), (6, false), (7, true)] {
        if dirty {
            tree.mark_all_changed();
        }
        sync(&tree, txg).expect("a label of each half can be written");
        promised.push((world.record().len(), txg));
    }
    assert_eq!(tree.state().0, VdevState::Online, "nobody is out of use for a label");
    let record = world.record();
    let mut images = 0;
    for cut in promised[0].0..=record.len() {
        // Only cuts where something new was just written or flushed away matter: all of them.
        let disks = play(&record[..cut]);
        let volatile: usize = disks.values().map(|disk| disk.volatile.len()).sum();
        let stable = promised.iter().rfind(|(at, _)| *at <= cut).expect("txg 4 at least").1;
        for (index, mask) in losses(volatile).into_iter().enumerate() {
            let image = image(&disks, |number| mask >> number & 1 == 1, index % 2 == 1);
            let txg = recovered(&image).get();
            assert!(txg == stable || txg == stable + 1, "txg {txg} after {stable} was promised");
            images += 1;
        }
    }
    images
}

/// Tries every set of labels that cannot be written, on a vdev of one leaf.
#[test]
fn one_label_of_each_half_is_enough_and_none_is_not() {
    for bad in 0..1_usize << LABELS {
        let world = World::with(&["a"], SIZE);
        let tree = block_on(VdevTree::create(world.env(), &[spec(&["a"], false)])).expect("a device");
        block_on(init_labels(&tree, &tree.tops()[0], &pool_config())).expect("labels");
        let is_bad = |label: usize| bad >> label & 1 == 1;
        (0..LABELS).filter(|label| is_bad(*label)).for_each(|label| spoil_label(&world, "a", label));
        tree.mark_all_changed();
        let synced = sync(&tree, 5);
        let (even, odd) = (!(is_bad(0) && is_bad(2)), !(is_bad(1) && is_bad(3)));
        assert_eq!(synced.is_ok(), even && odd, "labels {bad:04b}: {synced:?}");
        let ram: Arc<dyn Device> = Arc::new(world.ram("a"));
        let labels = block_on(LeafLabels::read(&ram));
        let newest = labels.uberblock(None).map(UberblockPhys::txg);
        assert_eq!(newest == Some(Txg::new(5)), even, "labels {bad:04b}: an uberblock before its labels");
        assert!(synced.is_err() || tree.leaves()[0].state().0 == VdevState::Online);
        world.faults("a").heal();
        sync(&tree, 5).expect("the same once more");
    }
}

#[test]
fn one_slot_of_four_is_enough_for_an_uberblock_and_none_is_not() {
    for bad in 0..1_usize << LABELS {
        let world = World::with(&["a", "b", "c"], SIZE);
        let tree = made(&world);
        for label in (0..LABELS).filter(|label| bad >> label & 1 == 1) {
            ["a", "b"].into_iter().for_each(|path| spoil_label(&world, path, label));
        }
        let synced = sync(&tree, 5);
        assert_eq!(synced.is_ok(), bad != 0b1111, "labels {bad:04b}: {synced:?}");
        if bad == 0b1111 {
            assert!(matches!(synced, Err(VdevError::UberblockLost { .. })), "{synced:?}");
        }
    }
}

#[test]
fn heartbeats_go_to_labels_that_can_be_written() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    spoil_label(&world, "a", 0);
    sync(&tree, 5).expect("three labels are left");
    let leaf = tree.leaves()[0].clone();
    block_on(tree.beat(&leaf, 0, &ub(5, 1_700_000_100, 1))).expect("the next label can be written");
    block_on(tree.beat_everywhere(&ub(5, 1_700_000_200, 2))).expect("one label is enough");
    assert!(!leaf.is_suspect() && tree.state().0 == VdevState::Online);
    let newest = block_on(tree.newest()).expect("an uberblock").uberblock;
    assert_eq!(newest.timestamp.get(), 1_700_000_200);
}
