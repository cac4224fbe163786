use std::collections::BTreeMap;

use env::OpenMode;
use futures::executor::block_on;
use ondisk::NvList;

use super::key;
use crate::node::tests::Nested;
use crate::tests::tree::pool_config;
use crate::*;

/// Opens what a `vdev_tree` says, on devices that are not there.
fn opened(nested: &Nested, vdev_tree: &NvList) -> Result<VdevTree, VdevError> {
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree,
        paths: &BTreeMap::new(),
        mode: OpenMode::ReadOnly,
    };
    block_on(VdevTree::open(nested.world.env(), &spec))
}

#[test]
fn nested_vdevs_go_in_and_out_unchanged() {
    let mut nested = Nested::new(3, 1);
    let new = nested.put_beside(nested.guid("b"), NodeKind::Replacing, 7);
    let spare = nested.put_beside(new.guid(), NodeKind::Spare, 8);
    spare.set_config(|config| config.is_spare = true);
    new.set_config(|config| (config.resilver_txg, config.unspare) = (22, true));
    new.set_state(VdevState::Offline, VdevAux::None);
    let written = nested.tree.to_nvlist();
    let found = opened(&nested, &written).expect("a sound configuration");
    assert_eq!(found.to_nvlist().encode(), written.encode());
    assert_eq!(found.guid_sum(), nested.tree.guid_sum());
    let kinds = |tree: &VdevTree| format!("{:?}", shape(tree.tops()[0].node()));
    assert_eq!(kinds(&found), kinds(&nested.tree));
    assert_eq!(
        kinds(&found),
        "\"Raidz { parity: 1 }[Leaf[], Replacing[Leaf[], Spare[Leaf[], Leaf[]]], Leaf[]]\""
    );
    let label = pool_config().label(&nested.tree, &nested.top(), &spare);
    assert_eq!(label.get_u64(key::IS_SPARE), Some(1));
}

fn shape(node: &Node) -> String {
    let children: Vec<_> = node.children().iter().map(shape).collect();
    format!("{:?}[{}]", node.kind(), children.join(", "))
}

/// A copy of `list` with what `change` makes of its list of children.
fn with_children(list: &NvList, change: impl FnOnce(&mut Vec<NvList>)) -> NvList {
    let mut children = list.get_nvlist_array(key::CHILDREN).expect("children").to_vec();
    change(&mut children);
    let mut out = list.clone();
    out.add_nvlist_array(key::CHILDREN, children);
    out
}

#[test]
fn trees_that_no_pool_can_have_are_refused() {
    let mut nested = Nested::new(3, 1);
    nested.put_beside(nested.guid("b"), NodeKind::Replacing, 7);
    let written = nested.tree.to_nvlist();
    let is_refused = |change: &dyn Fn(&mut NvList)| {
        let bad = with_children(&written, |tops| {
            tops[0] = with_children(&tops[0], |children| change(&mut children[1]));
        });
        matches!(opened(&nested, &bad), Err(VdevError::BadConfig { .. }))
    };
    assert!(!is_refused(&|_| {}), "as it was written");
    assert!(is_refused(&|replacing| _ = replacing.add_str(key::TYPE, "mirror")), "a mirror below a raidz");
    assert!(is_refused(&|replacing| _ = replacing.add_str(key::TYPE, "raidz")), "a raidz below a raidz");
    assert!(is_refused(&|replacing| *replacing = with_children(replacing, Vec::clear)), "an empty group");
    for (depth, expected) in [(4, false), (5, true), (20, true)] {
        let deep = |replacing: &mut NvList| {
            for number in 0..depth {
                let inner = replacing.clone();
                *replacing = with_children(replacing, |children| {
                    _ = children[0].add_u64(key::GUID, number + 1);
                    children[1] = inner;
                });
            }
        };
        assert_eq!(is_refused(&deep), expected, "{depth} more");
    }
    let odd = with_children(&written, |tops| {
        tops[0] = with_children(&tops[0], |children| _ = children[1].add_str(key::TYPE, "dspare"));
    });
    assert!(matches!(opened(&nested, &odd), Err(VdevError::UnsupportedKind { kind }) if kind == "dspare"));
}

/// Who is asked for a leaf twice cannot tell which is meant.
#[test]
fn a_guid_that_two_leaves_have_is_refused() {
    let nested = Nested::new(2, 0);
    let written = nested.tree.to_nvlist();
    let twice = with_children(&written, |tops| {
        tops[0] = with_children(&tops[0], |children| children[1] = children[0].clone());
    });
    assert!(matches!(opened(&nested, &twice), Err(VdevError::BadConfig { .. })));
}
