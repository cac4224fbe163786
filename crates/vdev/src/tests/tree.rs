use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::{BufSlice, DeviceError, Durability, Env, FaultOp, InQueue, IoBuf, OpenMode, Priority, RamDevice};
use futures::executor::block_on;
use ondisk::{NvList, UberblockPhys};
use units::{Ashift, LeafOffset, Txg, VdevId};

use super::world::World;
use crate::*;

pub(crate) fn pool_config() -> PoolConfig {
    let mut features = NvList::new();
    features.add_flag("com.delphix:hole_birth");
    PoolConfig {
        version: 5000,
        name: "tank".into(),
        state: PoolState::Active,
        txg: Txg::new(4),
        errata: 0,
        comment: None,
        compatibility: None,
        hostid: 7,
        hostname: "here".into(),
        features_for_read: features,
        split: None,
    }
}

pub(crate) fn spec(paths: &[&str], is_log: bool) -> NewVdev {
    let paths = paths.iter().map(PathBuf::from).collect();
    NewVdev {
        paths,
        ashift: None,
        bias: crate::Bias::log(is_log),
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    }
}

/// Mirror of a and b, log c, with the labels and uberblock of txg 4.
pub(crate) fn made(world: &Arc<World>) -> VdevTree {
    made_of(world.env(), ["a", "b", "c"])
}

/// The same of three other paths.
pub(crate) fn made_of(env: Arc<dyn Env>, [a, b, c]: [&str; 3]) -> VdevTree {
    let specs = [spec(&[a, b], false), spec(&[c], true)];
    let tree = block_on(VdevTree::create(env, &specs)).expect("devices");
    for top in tree.tops() {
        block_on(init_labels(&tree, &top, &pool_config())).expect("labels");
        top.set_config(|config| config.metaslab_array = 30 + u64::from(top.id().get()));
    }
    sync(&tree, 4).expect("txg 4");
    tree
}

pub(crate) fn uberblock(tree: &VdevTree, txg: u64) -> UberblockPhys {
    UberblockPhys {
        magic: ondisk::UBERBLOCK_MAGIC.into(),
        version: 5000.into(),
        txg: txg.into(),
        guid_sum: tree.guid_sum().into(),
        timestamp: (1_700_000_000 + txg).into(),
        ..Default::default()
    }
}

pub(crate) fn sync(tree: &VdevTree, txg: u64) -> Result<(), VdevError> {
    let dirty = tree.take_changed();
    let pool = PoolConfig { txg: Txg::new(txg), ..pool_config() };
    let written = tree.tops().iter().map(|top| top.id()).collect();
    let sync = LabelSync {
        uberblock: &uberblock(tree, txg),
        pool: &pool,
        dirty: &dirty,
        written: &written,
        multihost: false,
    };
    block_on(tree.sync_labels(&sync))
}

fn import(world: &Arc<World>, paths: &[&str]) -> (Candidate, VdevTree) {
    let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
    let found = block_on(scan(&world.env(), &paths));
    let mut pools = candidates(&found);
    assert_eq!(pools.len(), 1);
    let candidate = pools.remove(0);
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: &candidate.vdev_tree,
        paths: &candidate.paths,
        mode: OpenMode::ReadWrite,
    };
    let tree = block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration");
    (candidate, tree)
}

const SIZE: u64 = 64 << 20;

#[test]
fn a_new_pool_is_found_again_as_it_was_made() {
    let world = World::with(&["a", "b", "c", "other"], SIZE);
    let tree = made(&world);
    let mos = pool_config().mos(&tree);
    let (candidate, found) = import(&world, &["c", "other", "b", "a", "nothing"]);
    assert_eq!(candidate.pool, pool_config());
    assert_eq!(candidate.guid, tree.root().guid);
    assert!(candidate.missing_leaves.is_empty() && candidate.missing_vdevs.is_empty());
    assert_eq!(candidate.uberblock, Some(uberblock(&tree, 4)));
    assert_eq!(found.guid_sum(), tree.guid_sum());
    assert_eq!(found.state().0, VdevState::Online);
    assert_eq!(block_on(found.best_uberblock(None)), candidate.uberblock);
    assert!(found.tops()[1].is_log() && !found.tops()[0].is_log());

    // And the MOS config, with all that labels leave out.
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: mos.get_nvlist("vdev_tree").expect("a tree"),
        paths: &BTreeMap::new(),
        mode: OpenMode::ReadOnly,
    };
    let again = block_on(VdevTree::open(world.env(), &spec)).expect("its own configuration");
    assert_eq!(pool_config().mos(&again), mos);
}

#[test]
fn a_moved_device_is_found_by_its_guid() {
    let world = World::with(&["a", "b", "c"], SIZE);
    made(&world);
    let moved = world.take("b");
    world.put("elsewhere", moved);
    let (_, tree) = import(&world, &["a", "elsewhere", "c"]);
    assert_eq!(tree.state().0, VdevState::Online);
    assert_eq!(tree.leaves()[1].path(), PathBuf::from("elsewhere"));
}

#[test]
fn a_missing_half_leaves_the_mirror_degraded_and_a_missing_log_the_pool() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let (candidate, found) = import(&world, &["a"]);
    assert_eq!(candidate.missing_leaves, [tree.leaves()[1].guid()].into());
    assert_eq!(candidate.missing_vdevs, [VdevId::new(1)].into());
    assert!(found.top(VdevId::new(1)).is_err());
    world.take("b");
    let (_, found) = import(&world, &["a"]);
    assert_eq!(found.leaves()[1].state(), (VdevState::Unavail, VdevAux::OpenFailed));
    assert_eq!(found.state().0, VdevState::Degraded);
}

#[test]
fn a_leaf_that_was_away_while_labels_changed_is_read_last() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    world.faults("b").disappear();
    tree.mark_all_changed();
    sync(&tree, 5).expect("a is there");
    world.faults("b").heal();
    let (_, found) = import(&world, &["a", "b", "c"]);
    let stale: Vec<_> = found.leaves().iter().map(|leaf| leaf.is_stale()).collect();
    assert_eq!(stale, [false, true, false]);
}

#[test]
fn a_leaf_that_was_away_stays_stale_until_it_is_whole() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    world.faults("b").disappear();
    tree.mark_all_changed();
    sync(&tree, 5).expect("a is there");
    world.faults("b").heal();
    let again = || import(&world, &["a", "b", "c"]).1;
    for txg in [6, 7] {
        let found = again();
        assert!(found.leaves()[1].is_stale(), "before txg {txg}");
        found.mark_all_changed();
        sync(&found, txg).expect("both are there");
        assert_eq!(found.state().0, VdevState::Online);
    }
    let found = again();
    found.resilvered(found.leaves()[1].guid(), units::Txg::new(9)).expect("known");
    sync(&found, 8).expect("both are there");
    assert!(again().leaves().iter().all(|leaf| !leaf.is_stale()));
}

#[test]
fn a_leaf_that_fails_every_write_of_a_txg_has_news_but_once() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let leaf = tree.leaves()[1].clone();
    let error = env::DeviceError::Io { op: "write", offset: units::LeafOffset::new(0), len: 512, errno: 5 };
    leaf.keep_owing(&error);
    assert!(!leaf.may_have_labels(), "nobody knows yet");
    tree.note_dtls(Txg::new(5));
    assert!(leaf.take_unrecorded().is_some_and(|missed| missed.contains(Txg::new(5))));
    assert!(leaf.may_have_labels());
    // What is recorded is written, and that fails too.
    leaf.keep_owing(&error);
    assert!(!leaf.may_have_labels(), "until the next pass has looked");
    tree.note_dtls(Txg::new(5));
    assert!(leaf.take_unrecorded().is_none(), "a txg's sync comes to an end");
    assert!(leaf.may_have_labels());
}

#[test]
fn a_leaf_gets_labels_once_what_it_missed_is_recorded() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let leaf = tree.leaves()[1].clone();
    tree.note_dtls(Txg::new(5));
    assert!(leaf.dtl().is_empty(), "all are there");
    world.faults("b").disappear();
    tree.mark_all_changed();
    sync(&tree, 5).expect("a is there");
    assert!(leaf.dtl().is_empty(), "it failed when what was missed had been noted");
    tree.note_dtls(Txg::new(6));
    tree.note_dtls(Txg::new(7));
    assert_eq!(leaf.dtl().bounds(), Some(Txg::new(5)..=Txg::new(7)));
    world.faults("b").heal();
    block_on(tree.reopen(leaf.guid(), None, || Txg::new(9))).expect("back again");
    tree.note_dtls(Txg::new(10));
    assert_eq!(leaf.dtl().bounds(), Some(Txg::new(5)..=Txg::new(9)), "what was open when it came back too");
    let label_txg = |world: &Arc<World>| import(world, &["b"]).0.pool.txg;
    tree.mark_all_changed();
    sync(&tree, 8).expect("both are there");
    assert_eq!(label_txg(&world), Txg::new(4), "nobody knows yet");
    let missed = leaf.take_unrecorded().expect("news");
    assert!(leaf.take_unrecorded().is_none());
    tree.mark_all_changed();
    sync(&tree, 9).expect("both are there");
    assert_eq!(label_txg(&world), Txg::new(9));
    // In the next import the list says it, and labels have nothing to add.
    let found = import(&world, &["a", "b", "c"]).1;
    let again = found.leaves()[1].clone();
    assert!(!again.is_stale());
    again.load_dtl(missed.clone());
    assert!(again.is_stale() && again.dtl() == missed && again.take_unrecorded().is_none());
    assert!(!found.resilvered(again.guid(), Txg::new(6)).expect("known"));
    assert_eq!(again.dtl().bounds(), Some(Txg::new(7)..=Txg::new(9)));
    assert!(found.resilvered(again.guid(), Txg::new(9)).expect("known"));
    assert!(!again.is_stale() && again.take_unrecorded().is_some_and(|missed| missed.is_empty()));
}

#[test]
fn leaves_that_are_all_said_to_miss_something_all_get_labels() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    tree.leaves().iter().for_each(|leaf| leaf.set_stale(true));
    tree.mark_all_changed();
    sync(&tree, 5).expect("all are there");
    for path in ["a", "b", "c"] {
        assert_eq!(import(&world, &[path]).0.uberblock, Some(uberblock(&tree, 5)), "{path}");
    }
}

#[test]
fn a_leaf_missing_at_import_is_stale_when_it_comes_back() {
    let world = World::with(&["a", "b", "c"], SIZE);
    made(&world);
    let away = world.take("b");
    let (_, found) = import(&world, &["a", "c"]);
    world.put("b", away);
    let guid = found.leaves()[1].guid();
    block_on(found.reopen(guid, None, || units::Txg::new(9))).expect("back again");
    assert!(found.leaves()[1].is_stale());
}

#[test]
fn a_leaf_that_somebody_is_letting_go_of_is_waited_for() {
    let world = World::with(&["a", "b", "c"], SIZE);
    made(&world);
    world.hold("b", 20);
    let (_, found) = import(&world, &["a", "b", "c"]);
    assert!(found.leaves().iter().all(|leaf| leaf.is_usable() && !leaf.is_stale()));
    world.hold("b", u32::MAX);
    let (_, found) = import(&world, &["a", "b", "c"]);
    assert_eq!(found.leaves()[1].state(), (VdevState::Unavail, VdevAux::OpenFailed));
}

#[test]
fn a_new_device_that_somebody_is_letting_go_of_is_waited_for() {
    let world = World::with(&["a", "b", "c", "d"], SIZE);
    let (tree, env) = (made(&world), world.env());
    let new = NewLeaf { path: "d".into(), ..NewLeaf::default() };
    type Take<'a> = &'a dyn Fn() -> Result<(), VdevError>;
    let takers: [(&str, Take<'_>); 4] = [
        ("beside another", &|| block_on(tree.plan_leaf(VdevId::new(0), &new)).map(drop)),
        ("as a vdev", &|| block_on(tree.plan(&[spec(&["d"], false)])).map(drop)),
        ("as a spare", &|| block_on(make_spare(&env, "d".as_ref(), 5000)).map(drop)),
        ("as a cache", &|| block_on(make_cache(&env, "d".as_ref(), None, 5000)).map(drop)),
    ];
    for (how, take) in takers {
        world.hold("d", 20);
        take().unwrap_or_else(|error| panic!("{how}: {error}"));
        world.hold("d", u32::MAX);
        let held = take().expect_err("it is held for good");
        assert!(matches!(held, VdevError::Open { source: DeviceError::InUse { .. }, .. }), "{how}: {held}");
        world.hold("d", 0);
    }
}

#[test]
fn a_leaf_of_another_pool_is_not_used() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let other = World::with(&["a", "b", "c"], SIZE);
    other.env().random_u64();
    made(&other);
    let mos = pool_config().mos(&tree);
    world.take("b");
    world.put("b", other.ram("b"));
    world.take("c");
    world.put("c", RamDevice::new(SIZE));
    let paths = BTreeMap::new();
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: mos.get_nvlist("vdev_tree").expect("a tree"),
        paths: &paths,
        mode: OpenMode::ReadWrite,
    };
    let found = block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration");
    let states: Vec<_> = found.leaves().iter().map(|leaf| leaf.state()).collect();
    assert_eq!(states[0].0, VdevState::Online);
    assert_eq!(states[1], (VdevState::Unavail, VdevAux::BadLabel));
    assert_eq!(states[2], (VdevState::Unavail, VdevAux::CorruptData));
}

#[test]
fn faults_and_offlines_outlive_an_import() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let guid = tree.leaves()[1].guid();
    tree.offline(guid).expect("a can do alone");
    assert!(tree.offline(tree.leaves()[0].guid()).is_err(), "now it cannot");
    let mos = pool_config().mos(&tree);
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: mos.get_nvlist("vdev_tree").expect("a tree"),
        paths: &BTreeMap::new(),
        mode: OpenMode::ReadWrite,
    };
    let found = block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration");
    assert_eq!(found.leaves()[1].state().0, VdevState::Offline);
    assert!(found.leaves()[1].is_stale());
    block_on(found.reopen(guid, None, || units::Txg::new(9))).expect("back again");
    assert_eq!(found.leaves()[1].state().0, VdevState::Online);
    assert_eq!(found.state().0, VdevState::Online);
}

#[test]
fn a_leaf_that_is_gone_and_alone_has_something_is_not_taken_out() {
    let tree = made(&World::with(&["a", "b", "c"], SIZE));
    let [a, b, ..] = &tree.leaves()[..] else { panic!("a mirror of two") };
    b.add_to_dtl(Txg::new(1)..=Txg::new(5));
    a.set_state(VdevState::Unavail, VdevAux::OpenFailed);
    let refused = tree.offline(a.guid());
    assert!(matches!(refused, Err(VdevError::NoReplica { .. })), "only it can bring that back");
    a.set_state(VdevState::Online, VdevAux::None);
    b.set_state(VdevState::Unavail, VdevAux::OpenFailed);
    tree.offline(b.guid()).expect("the other has everything");
}

#[test]
fn an_import_tries_a_faulted_device_again_unless_it_was_taken_out_or_is_a_log() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    for (leaf, aux, expected) in [
        (1, VdevAux::IoFailure, VdevState::Online),
        (1, VdevAux::External, VdevState::Faulted),
        (2, VdevAux::IoFailure, VdevState::Faulted),
    ] {
        tree.leaves()[leaf].set_state(VdevState::Faulted, aux);
        let mos = pool_config().mos(&tree);
        let spec = OpenSpec {
            gone: &Default::default(),
            behind: &Default::default(),
            vdev_tree: mos.get_nvlist("vdev_tree").expect("a tree"),
            paths: &BTreeMap::new(),
            mode: OpenMode::ReadWrite,
        };
        let found = block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration");
        assert_eq!(found.leaves()[leaf].state().0, expected, "{leaf}, {aux:?}");
        tree.leaves()[leaf].set_state(VdevState::Online, VdevAux::None);
    }
}

#[test]
fn a_removed_log_leaves_a_hole_that_the_next_vdev_fills() {
    let world = World::with(&["a", "b", "c", "d"], SIZE);
    let tree = made(&world);
    let added = block_on(tree.add(&spec(&["d"], false))).expect("a device");
    assert_eq!(added.id(), VdevId::new(2));
    tree.remove(VdevId::new(1)).expect("the log");
    let mos = pool_config().mos(&tree);
    assert_eq!(mos.get_u64_array("hole_array"), Some([1].as_slice()));
    assert_eq!(mos.get_u64("vdev_children"), Some(3));
    let spec_ = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: mos.get_nvlist("vdev_tree").expect("a tree"),
        paths: &BTreeMap::new(),
        mode: OpenMode::ReadOnly,
    };
    let again = block_on(VdevTree::open(world.env(), &spec_)).expect("its own configuration");
    assert_eq!(again.to_nvlist(), tree.to_nvlist());
    assert_eq!(again.guid_sum(), tree.guid_sum());
    assert_eq!(block_on(tree.add(&spec(&["c"], true))).expect("a device").id(), VdevId::new(1));
    tree.remove(VdevId::new(1)).expect("the log");
    tree.remove(VdevId::new(2)).expect("d");
    assert_eq!(tree.all_tops().len(), 1, "no holes at the end");
}

#[test]
fn devices_too_small_or_missing_make_no_pool() {
    let world = World::with(&["small"], (64 << 20) - 512);
    let create = |paths: &[&str]| block_on(VdevTree::create(world.env(), &[spec(paths, false)])).map(|_| ());
    assert!(matches!(create(&["small"]), Err(VdevError::TooSmall { .. })));
    assert!(matches!(create(&["gone"]), Err(VdevError::Open { .. })));
    assert!(matches!(create(&[]), Err(VdevError::BadConfig { .. })));
}

#[test]
fn unknown_kinds_of_vdevs_are_refused_by_name() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let mut config = tree.to_nvlist();
    let mut children = config.get_nvlist_array("children").expect("children").to_vec();
    children[0].add_str("type", "dspare");
    config.add_nvlist_array("children", children);
    let paths = BTreeMap::new();
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: &config,
        paths: &paths,
        mode: OpenMode::ReadOnly,
    };
    match block_on(VdevTree::open(world.env(), &spec)) {
        Err(VdevError::UnsupportedKind { kind }) => assert_eq!(kind, "dspare"),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn a_device_tells_whom_it_belongs_to() {
    let world = World::with(&["a", "b", "c", "free"], SIZE);
    let label_of = |path: &str| {
        let device = block_on(world.env().open(path.as_ref(), OpenMode::ReadOnly)).expect("a device");
        block_on(label_use(&world.env(), &device)).expect("it answers")
    };
    assert_eq!(label_of("free"), LabelUse::Unused);
    let tree = made(&world);
    let guid = tree.root().guid;
    assert_eq!(label_of("a"), LabelUse::Pool { pool: pool_config(), guid });
    let top = block_on(tree.add(&spec(&["free"], false))).expect("a device");
    block_on(init_labels(&tree, &top, &pool_config())).expect("labels");
    assert_eq!(label_of("free"), LabelUse::NeverUsed);
}

#[test]
fn labels_go_on_when_the_log_or_a_child_fails_and_stop_when_all_do() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    world.faults("c").fail_all(FaultOp::Write);
    tree.mark_all_changed();
    sync(&tree, 5).expect("without the log");
    world.faults("b").fail_all(FaultOp::Flush);
    sync(&tree, 6).expect("without b");
    assert_eq!(tree.leaves()[1].state().0, VdevState::Faulted);
    world.faults("a").fail_all(FaultOp::Write);
    tree.mark_all_changed();
    assert!(matches!(sync(&tree, 7), Err(VdevError::LabelsLost { .. })));
    tree.take_changed();
    assert!(matches!(sync(&tree, 7), Err(VdevError::UberblockLost { .. })));
}

#[test]
fn a_log_that_fails_its_flush_does_not_stop_a_txg_but_every_later_commit_there() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    world.faults("c").fail_nth(FaultOp::Flush, 1);
    sync(&tree, 5).expect("the data are stable");
    assert!(block_on(tree.flush([VdevId::new(1)])).is_err());
    world.faults("a").fail_all(FaultOp::Flush);
    world.faults("b").fail_all(FaultOp::Flush);
    assert!(sync(&tree, 6).is_err());
    let (candidate, _) = import(&world, &["a", "b", "c"]);
    assert_eq!(candidate.uberblock.map(|ub| ub.txg()), Some(Txg::new(5)), "nothing of txg 6");
}

#[test]
fn a_flush_that_failed_for_a_label_fails_for_a_commit_too() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let log = tree.tops().into_iter().find(|top| top.is_log()).expect("c is a log");
    world.faults("c").fail_nth(FaultOp::Flush, 1);
    assert!(block_on(log.leaves()[0].flush()).is_err(), "as labels are flushed");
    assert_eq!(tree.doubtful().into_iter().collect::<Vec<_>>(), [log.id()]);
    assert!(block_on(tree.flush([log.id()])).is_err(), "it may have taken the commit's writes with it");
    block_on(tree.reopen(log.leaves()[0].guid(), None, || units::Txg::new(9))).expect("c is there");
    block_on(tree.flush([log.id()])).expect("a new beginning");
    assert!(tree.doubtful().is_empty());
}

#[test]
fn the_sector_size_of_a_mirror_is_that_of_its_largest() {
    let world = World::with(&["a", "b"], SIZE);
    let new = NewVdev { ashift: Some(Ashift::new(13)), ..spec(&["a", "b"], false) };
    let tree = block_on(VdevTree::create(world.env(), &[new])).expect("devices");
    assert_eq!(tree.min_ashift(), Ashift::new(13));
    assert_eq!(tree.tops()[0].ashift(), Ashift::new(13));
}

#[test]
fn what_a_leafs_queue_has_counted_outlives_the_queue() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let leaf = Arc::clone(&tree.tops().into_iter().find(|top| top.is_log()).expect("c is a log").leaves()[0]);
    let written = |leaf: &Leaf| leaf.queue_stats().priorities[Priority::SyncWrite as usize].alone.counts[4];
    let write = || {
        let bytes = vec![BufSlice::from(IoBuf::zeroed(8192))];
        block_on(leaf.write(LeafOffset::new(8 << 20), bytes, Durability::Stable)).expect("it takes all");
    };
    let before = written(&leaf);
    write();
    block_on(tree.reopen(leaf.guid(), None, || units::Txg::new(9))).expect("c is there");
    write();
    assert_eq!(written(&leaf), before + 2, "of 8 KiB each");
    assert_eq!(leaf.queue_now(), [InQueue::default(); 6]);
    leaf.close();
    assert_eq!((leaf.queue_now(), written(&leaf)), ([InQueue::default(); 6], before + 2));
}

#[test]
fn a_delay_on_order_is_the_devices_and_no_wait_in_the_queue() {
    let world = World::with(&["a", "b", "c"], SIZE);
    let tree = made(&world);
    let leaf = Arc::clone(&tree.tops().into_iter().find(|top| top.is_log()).expect("c is a log").leaves()[0]);
    let delay = Fault::Delayed { latency: Duration::from_millis(20), lanes: 1 };
    let delay = Injection::new(delay, Requests::Write, u32::MAX, false);
    let write = || {
        let bytes = vec![BufSlice::from(IoBuf::zeroed(8192))];
        block_on(leaf.write(LeafOffset::new(8 << 20), bytes, Durability::Stable)).expect("it takes all");
    };
    let slow = || leaf.queue_stats().write.device.counts[25..].iter().sum::<u64>();
    write();
    assert_eq!(slow(), 0, "17 ms and more");
    leaf.inject(&delay);
    write();
    assert_eq!((slow(), delay.counts()), (1, (1, 1)));
    assert!(
        leaf.queue_stats().priorities[Priority::SyncWrite as usize].waits.counts[1..].iter().all(|n| *n == 0)
    );
    leaf.stop_injecting(&delay);
    write();
    assert_eq!((slow(), delay.counts()), (1, (1, 1)));
}
