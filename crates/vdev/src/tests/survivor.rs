//! What is left of a mirror, when its new labels were never written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::OpenMode;
use futures::executor::block_on;
use ondisk::NvList;
use units::Txg;

use super::tree::{pool_config, spec, sync};
use super::world::World;
use crate::*;

const SIZE: u64 = 64 << 20;

/// Data on a, and a log that was a mirror of b and c. Both went away before any label said that c was detached; gives
/// the configuration of the txg in which it was.
fn detached_unseen() -> (Arc<World>, NvList) {
    let world = World::with(&["a", "b", "c"], SIZE);
    let specs = [spec(&["a"], false), spec(&["b", "c"], true)];
    let tree = block_on(VdevTree::create(world.env(), &specs)).expect("devices");
    for top in tree.tops() {
        block_on(init_labels(&tree, &top, &pool_config())).expect("labels");
    }
    sync(&tree, 4).expect("all are there");
    world.faults("b").disappear();
    tree.take_out(tree.leaves()[2].guid()).expect("b has everything");
    sync(&tree, 5).expect("a is there");
    let config = tree.to_nvlist();
    assert_eq!(tree.leaves()[1].path(), Path::new("b"));
    tree.close();
    world.faults("b").heal();
    (world, config)
}

/// Opens the pool as an import does: as labels have it, and then as the configuration does.
fn open(world: &Arc<World>, config: &NvList, paths: &[&str]) -> (VdevTree, VdevTree) {
    let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
    let found = candidates(&block_on(scan(&world.env(), &paths))).remove(0);
    let (gone, mode) = (&found.gone, OpenMode::ReadWrite);
    let as_labelled = OpenSpec { vdev_tree: &found.vdev_tree, paths: &found.paths, gone, behind: gone, mode };
    let labelled = block_on(VdevTree::open(world.env(), &as_labelled)).expect("a sound configuration");
    let paths = &found.paths_in(config);
    let true_one = OpenSpec { vdev_tree: config, paths, gone, behind: gone, mode };
    let tree = block_on(labelled.open_as(&true_one)).expect("a sound configuration");
    (labelled, tree)
}

fn log(tree: &VdevTree) -> Arc<Leaf> {
    Arc::clone(&tree.leaves()[1])
}

#[test]
fn what_is_left_of_a_mirror_is_known_by_its_older_labels() {
    for moved_to in ["b", "elsewhere"] {
        let (world, config) = detached_unseen();
        world.put(moved_to, world.take("b"));
        let (labelled, tree) = open(&world, &config, &["a", moved_to, "c"]);
        assert_eq!(log(&tree).state(), (VdevState::Online, VdevAux::None), "at {moved_to}");
        assert_eq!(log(&tree).path(), Path::new(moved_to));
        let open_before = labelled.leaves().into_iter().find(|leaf| leaf.path() == Path::new(moved_to));
        let device = |leaf: &Leaf| leaf.device().expect("it is open");
        let is_same = Arc::ptr_eq(&device(&log(&tree)), &device(&open_before.expect("labels name it")));
        assert!(is_same, "it is held already, and cannot be opened twice");
        // Until its labels are new it is looked for, and opened anew.
        block_on(tree.look_for_absent());
        assert!(log(&tree).is_usable());
        block_on(tree.reopen(log(&tree).guid(), None, || Txg::new(6))).expect("it is there");
        tree.mark_all_changed();
        sync(&tree, 6).expect("both are there");
        let labels = block_on(LeafLabels::read(&device(&log(&tree))));
        assert_eq!(labels.guid(), Some(log(&tree).guid()), "from now on by its own");
    }
}

#[test]
fn what_is_left_of_a_mirror_is_known_when_it_comes_back_later() {
    let (world, config) = detached_unseen();
    world.faults("b").disappear();
    let (_, tree) = open(&world, &config, &["a"]);
    assert_eq!(log(&tree).state().0, VdevState::Unavail);
    world.faults("b").heal();
    block_on(tree.reopen(log(&tree).guid(), None, || Txg::new(6))).expect("it is there");
}

#[test]
fn the_side_that_was_taken_out_of_a_mirror_is_not_taken_for_what_is_left() {
    for at in ["c", "b", "elsewhere"] {
        let (world, config) = detached_unseen();
        world.take("b");
        world.put(at, world.take("c"));
        let (_, tree) = open(&world, &config, &["a", at]);
        assert_eq!(log(&tree).state().0, VdevState::Unavail, "c is at {at}");
        let reopened = block_on(tree.reopen(log(&tree).guid(), Some(Path::new(at)), || Txg::new(6)));
        assert!(reopened.is_err(), "c is at {at}");
    }
}
