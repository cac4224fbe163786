//! Trees that are opened for a rescue, whatever their labels contain.

use std::collections::BTreeMap;
use std::path::PathBuf;

use env::{BufSlice, Durability, IoBuf};
use futures::executor::block_on;
use units::{VdevId, VdevOffset};

use super::tree::{pool_config, spec, sync};
use super::world::World;
use crate::*;

const SIZE: u64 = 64 << 20;

#[test]
fn a_leaf_without_labels_is_read_and_a_missing_one_is_not() {
    let world = World::with(&["a", "b"], SIZE);
    let tree = block_on(VdevTree::create(world.env(), &[spec(&["a"], false), spec(&["b"], false)]))
        .expect("devices");
    for top in tree.tops() {
        block_on(init_labels(&tree, &top, &pool_config())).expect("labels");
    }
    sync(&tree, 4).expect("all are there");
    let place = |vdev| Address::now(VdevId::new(vdev), VdevOffset::new(1 << 20));
    let slices = || vec![BufSlice::from(IoBuf::copy_of(&[7; 4096]))];
    for vdev in 0..2 {
        block_on(tree.write(place(vdev), slices(), Durability::Stable)).expect("written");
    }
    let config = tree.to_nvlist();
    for leaf in tree.leaves() {
        let device = leaf.device().expect("open");
        assert_eq!(block_on(clear_labels(&device)).expect("cleared"), 4);
    }
    let paths: BTreeMap<_, _> = [(tree.leaves()[0].guid(), PathBuf::from("a"))].into();
    tree.close();
    drop(tree);
    let rescued = block_on(VdevTree::open_for_rescue(world.env(), &config, &paths)).expect("a configuration");
    let is_written = |bytes: &[u8]| bytes == [7; 4096];
    assert!(block_on(rescued.read(place(0), 4096, &is_written)).is_ok());
    assert!(block_on(rescued.read(place(1), 4096, &is_written)).is_err());
    assert_eq!(rescued.leaves()[1].state(), (VdevState::Unavail, VdevAux::OpenFailed));
    let written = block_on(rescued.write(place(0), slices(), Durability::Stable));
    assert!(matches!(written, Err(VdevError::ReadOnly)));
}
