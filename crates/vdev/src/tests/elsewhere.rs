//! Devices that were written without the rest of the pool, and copies of devices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{BufSlice, Device, Durability, OpenMode, RamDevice};
use futures::executor::block_on;
use ondisk::Blkptr;
use units::{LeafOffset, Txg};

use super::tree::{made, pool_config, uberblock};
use super::world::{Event, World};
use crate::*;

const SIZE: u64 = 64 << 20;

/// Syncs a txg whose root identifies the history.
fn sync(tree: &VdevTree, txg: u64, history: u64) {
    let rootbp = Blkptr::HOLE.with_checksum([txg, history, 0, 0]);
    let uberblock = ondisk::UberblockPhys { rootbp, ..uberblock(tree, txg) };
    let pool = PoolConfig { txg: Txg::new(txg), ..pool_config() };
    let dirty = tree.take_changed();
    let written = tree.tops().iter().map(|top| top.id()).collect();
    let sync =
        LabelSync { uberblock: &uberblock, pool: &pool, dirty: &dirty, written: &written, multihost: false };
    block_on(tree.sync_labels(&sync)).expect("a device is there");
}

fn found(world: &Arc<World>, paths: &[&str]) -> Vec<FoundLeaf> {
    let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
    block_on(scan(&world.env(), &paths))
}

fn open(world: &Arc<World>, candidate: &Candidate) -> VdevTree {
    let Candidate { vdev_tree, paths, gone, behind, .. } = candidate;
    let spec = OpenSpec { vdev_tree, paths, gone, behind, mode: OpenMode::ReadWrite };
    block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration")
}

fn import(world: &Arc<World>, paths: &[&str]) -> (Candidate, VdevTree) {
    let candidate = candidates(&found(world, paths)).remove(0);
    let tree = open(world, &candidate);
    (candidate, tree)
}

/// A second device with the same bytes in its labels.
fn copy_of(ram: &RamDevice) -> RamDevice {
    const LABELS_LEN: u64 = 512 << 10;
    let copy = RamDevice::new(SIZE);
    for at in [0, SIZE - LABELS_LEN].map(LeafOffset::new) {
        let bytes = block_on(ram.read(at, LABELS_LEN as usize)).expect("memory");
        block_on(copy.write(at, vec![BufSlice::from(bytes)], Durability::Cached)).expect("memory");
    }
    copy
}

fn writes_to(world: &World, path: &str) -> usize {
    let is_it = |event: &Event| matches!(event, Event::Write { path: to, .. } if to == Path::new(path));
    world.record().iter().filter(|event| is_it(event)).count()
}

/// A mirror of a and b that continued without b from txg 6 on. b was imported without a, and synced
/// `txgs` since then. Returns the pool, whose last txg is 6.
fn parted(world: &Arc<World>, txgs: std::ops::RangeInclusive<u64>) -> VdevTree {
    let tree = made(world);
    sync(&tree, 5, 1);
    // Not by a command, so the configuration does not record it.
    tree.leaves()[1].take_out_of_use(VdevState::Unavail, VdevAux::OpenFailed);
    let (a, c) = (world.take("a"), world.take("c"));
    let (_, elsewhere) = import(world, &["b"]);
    for txg in txgs {
        elsewhere.mark_all_changed();
        sync(&elsewhere, txg, 2);
    }
    elsewhere.close();
    world.put("a", a);
    world.put("c", c);
    tree.note_dtls(Txg::new(6));
    sync(&tree, 6, 1);
    tree
}

#[test]
fn a_leaf_that_was_written_elsewhere_is_refused_when_it_comes_back() {
    // The same txg; later txgs; so many that the rings of b hold no txg of the shared history.
    for txgs in [6..=6, 6..=9, 6..=300] {
        let world = World::with(&["a", "b", "c"], SIZE);
        let tree = parted(&world, txgs.clone());
        let b = tree.leaves()[1].clone();
        let before = writes_to(&world, "b");
        let refused = block_on(tree.reopen(b.guid(), None, || Txg::new(8)));
        assert!(matches!(refused, Err(VdevError::WrittenElsewhere { .. })), "{txgs:?}: {refused:?}");
        assert_eq!(b.state(), (VdevState::Unavail, VdevAux::Elsewhere));
        sync(&tree, 7, 1);
        assert_eq!(writes_to(&world, "b"), before, "{txgs:?}");
    }
}

#[test]
fn a_leaf_that_was_written_elsewhere_long_ago_is_known_by_the_notes_of_what_it_missed() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = parted(&world, 6..=9);
    let b = tree.leaves()[1].clone();
    for txg in 7..=700 {
        tree.note_dtls(Txg::new(txg));
        sync(&tree, txg, 1);
    }
    let refused = block_on(tree.reopen(b.guid(), None, || Txg::new(702)));
    assert!(matches!(refused, Err(VdevError::WrittenElsewhere { .. })), "{refused:?}");

    // No txg after the parting is on both halves.
    let (candidate, found) = import(&world, &["a", "b", "c"]);
    assert_eq!(candidate.foreign().count(), 0);
    let leaf = found.leaf(b.guid()).expect("a leaf");
    leaf.load_dtl(b.dtl());
    let refused = found.refuse_noted_foreign();
    assert_eq!(refused.iter().map(|other| other.path.as_path()).collect::<Vec<_>>(), [Path::new("b")]);
    assert_eq!(leaf.state(), (VdevState::Unavail, VdevAux::Elsewhere));
}

#[test]
fn a_leaf_that_was_only_away_is_taken_back_however_long_that_was() {
    for last in [6, 100, 700] {
        let world = World::with(&["a", "b", "c"], SIZE);
        let tree = made(&world);
        sync(&tree, 5, 1);
        let b = tree.leaves()[1].clone();
        tree.offline(b.guid()).expect("a can do alone");
        for txg in 6..=last {
            tree.note_dtls(Txg::new(txg));
            sync(&tree, txg, 1);
        }
        block_on(tree.reopen(b.guid(), None, || Txg::new(last + 2))).expect("it is the pool's");
        assert!(b.is_usable() && b.is_stale(), "txg {last}");
        // The leaf fails during its resilver, is away for many txgs, and returns.
        sync(&tree, last + 1, 1);
        tree.offline(b.guid()).expect("a can do alone");
        for txg in last + 2..=last + 700 {
            tree.note_dtls(Txg::new(txg));
            sync(&tree, txg, 1);
        }
        block_on(tree.reopen(b.guid(), None, || Txg::new(last + 702))).expect("it is the pool's");
    }
}

/// b is replaced by a copy of txg 5, when its last txg was 9: while the pool is in use, and between an export and
/// an import. No label of b says that b missed anything.
#[test]
fn an_old_copy_of_a_leaf_lacks_all_that_came_after_the_copy() {
    for is_in_use in [true, false] {
        let world = World::with(&["a", "b", "c"], SIZE);
        let mut tree = made(&world);
        sync(&tree, 5, 1);
        let old = copy_of(&world.ram("b"));
        (6..=9).for_each(|txg| sync(&tree, txg, 1));
        let b = tree.leaves()[1].guid();
        if is_in_use {
            tree.offline(b).expect("a can do alone");
            for txg in 10..=12 {
                tree.note_dtls(Txg::new(txg));
                sync(&tree, txg, 1);
            }
            world.put("b", old);
            block_on(tree.reopen(b, None, || Txg::new(14))).expect("it is the pool's");
        } else {
            tree.close();
            world.put("b", old);
            tree = import(&world, &["a", "b", "c"]).1;
        }
        let leaf = tree.leaf(b).expect("a leaf");
        let last = if is_in_use { 14 } else { 9 };
        assert!(leaf.is_usable() && leaf.is_stale());
        assert_eq!(leaf.dtl().iter().collect::<Vec<_>>(), [Txg::new(6)..=Txg::new(last)], "{is_in_use}");
    }
}

#[test]
fn of_two_histories_none_is_chosen() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = parted(&world, 6..=9);
    let [a, b] = [0, 1].map(|at| tree.leaves()[at].guid());
    tree.close();
    for order in [["a", "b", "c"], ["c", "b", "a"]] {
        let candidate = candidates(&found(&world, &order)).remove(0);
        let foreign: Vec<_> = candidate.foreign().map(|other| (other.leaf, other.path.clone())).collect();
        assert_eq!(foreign, [(a, PathBuf::from("a"))], "b has the later txg: {:?}", candidate.others);
        let others: Vec<_> =
            candidate.others.iter().map(|other| (other.txg.get(), other.kept_txg.get())).collect();
        assert_eq!(others, [(6, 9)]);
    }
    // Where this host knows that b lacks data, the history of the other leaf counts.
    let behind = BTreeSet::from([b]);
    let candidate = candidates_without(&found(&world, &["a", "b", "c"]), &behind).remove(0);
    assert_eq!(candidate.uberblock.map(|uberblock| uberblock.txg()), Some(Txg::new(6)));
    let tree = open(&world, &candidate);
    assert_eq!(tree.leaf(a).expect("a leaf").state().0, VdevState::Online);
    assert_eq!(tree.leaf(b).expect("a leaf").state(), (VdevState::Unavail, VdevAux::Elsewhere));
    assert_eq!(tree.uberblock_at_open().map(|uberblock| uberblock.txg()), Some(Txg::new(6)));
}

#[test]
fn a_device_that_was_not_asked_for_does_not_speak_for_the_pool() {
    let world = World::with(&["a", "b", "c"], SIZE);
    parted(&world, 6..=9).close();
    for (asked, txg, other) in [("a", 6, 1), ("b", 9, 0)] {
        let (_, tree) = import(&world, &[asked, "c"]);
        assert_eq!(tree.uberblock_at_open().map(|uberblock| uberblock.txg()), Some(Txg::new(txg)));
        assert_eq!(
            tree.leaves()[other].state(),
            (VdevState::Unavail, VdevAux::Elsewhere),
            "asked for {asked}"
        );
    }
}

#[test]
fn a_leaf_that_is_behind_does_not_speak_for_the_pool() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    sync(&tree, 5, 1);
    let b = tree.leaves()[1].guid();
    let behind = BTreeSet::from([b]);
    tree.close();
    let alone = candidates_without(&found(&world, &["b"]), &behind).remove(0);
    assert_eq!(alone.uberblock, None);
    world.take("a");
    assert!(open(&world, &alone).depends_on(&behind));
    assert!(!open(&world, &alone).depends_on(&BTreeSet::new()));
}

#[test]
fn the_newest_copy_of_a_leaf_counts_whatever_its_name() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let old = ["a1", "b9"].map(|name| (name, copy_of(&world.ram(&name[..1]))));
    sync(&tree, 5, 1);
    let same = copy_of(&world.ram("b"));
    tree.close();
    old.into_iter().for_each(|(name, ram)| world.put(name, ram));
    world.put("0", same);
    let names = ["0", "a", "a1", "b", "b9", "c"];
    for order in [names.to_vec(), names.into_iter().rev().collect()] {
        let (candidate, tree) = import(&world, &order);
        let paths: BTreeMap<_, _> = candidate.paths.clone();
        let used: BTreeSet<_> = paths.values().map(|path| path.to_string_lossy().into_owned()).collect();
        assert_eq!(used, BTreeSet::from(["a", "b", "c"].map(str::to_owned)), "the own path of b counts");
        let mut others: Vec<_> =
            candidate.others.iter().map(|o| (&*o.path, &*o.kept, o.is_foreign)).collect();
        others.sort();
        let [a, b] = [("a1", "a"), ("b9", "b")].map(|(path, kept)| (Path::new(path), Path::new(kept), false));
        assert_eq!(others, [a, b], "a copy with the same states is no conflict");
        assert_eq!(tree.uberblock_at_open().map(|uberblock| uberblock.txg()), Some(Txg::new(5)));
        tree.close();
    }
    // A copy with a history of its own is not an older copy.
    for path in ["a", "b", "c", "0", "b9"] {
        world.take(path);
    }
    world.put("a", copy_of(&world.ram("a1")));
    let (_, elsewhere) = import(&world, &["a1"]);
    sync(&elsewhere, 5, 2);
    elsewhere.close();
    let (_, again) = import(&world, &["a"]);
    sync(&again, 5, 3);
    sync(&again, 6, 3);
    again.close();
    let candidate = candidates(&found(&world, &["a", "a1"])).remove(0);
    assert_eq!(candidate.foreign().map(|other| &*other.path).collect::<Vec<_>>(), [Path::new("a1")]);
}
