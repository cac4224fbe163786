//! Pools made by OpenZFS, and ours seen by its tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use device::{Options, RealEnv};
use env::OpenMode;
use futures::executor::block_on;
use oracle::needs::Need;
use units::{Ashift, Guid, Txg, VdevId};

use super::world::{World, ram_of_file};
use crate::*;

/// The images of a pool, at the paths of the folder.
fn golden(name: &str, files: &[&str]) -> (Arc<World>, Vec<PathBuf>) {
    let folder = oracle::golden::path(name);
    let world = World::default();
    let mut paths = Vec::new();
    for file in files {
        let path = folder.join(file);
        world.put(&path, ram_of_file(&path).expect("the image can be read"));
        paths.push(path);
    }
    (Arc::new(world), paths)
}

fn mirror_log() -> (Arc<World>, Candidate) {
    pool("g03-mirror-log", &["a.img", "b.img", "log.img"])
}

/// Raidz pools: name, images, parity.
const RAIDZ: [(&str, &[&str], u8); 2] = [
    ("g05-raidz1", &["d1.img", "d2.img", "d3.img"], 1),
    ("g06-raidz2", &["d1.img", "d2.img", "d3.img", "d4.img"], 2),
];

fn pool(name: &str, files: &[&str]) -> (Arc<World>, Candidate) {
    let (world, paths) = golden(name, files);
    let found = block_on(scan(&world.env(), &paths));
    assert_eq!(found.len(), files.len());
    let mut pools = candidates(&found);
    assert_eq!(pools.len(), 1);
    (world, pools.remove(0))
}

#[test]
fn a_pool_made_by_openzfs_is_found_with_its_uberblock() {
    let (world, pool) = mirror_log();
    assert_eq!(pool.guid, Guid::new(17_016_822_095_617_401_090));
    assert_eq!((pool.pool.name.as_str(), pool.pool.state), ("whirl", PoolState::Exported));
    let uberblock = pool.uberblock.expect("an uberblock");
    assert_eq!(uberblock.txg(), Txg::new(32));
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: &pool.vdev_tree,
        paths: &pool.paths,
        mode: OpenMode::ReadOnly,
    };
    let tree = block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration");
    assert_eq!(tree.state().0, VdevState::Online);
    assert_eq!(tree.guid_sum(), uberblock.guid_sum.get());
    let top = tree.top(VdevId::new(0)).expect("the mirror");
    assert_eq!((top.kind(), top.ashift()), (NodeKind::Mirror, Ashift::new(9)));
    assert_eq!(leaf_asize(top.leaves()[0].psize()), top.config().asize);
    assert_eq!(u64::from(metaslab_shift(top.config().asize)), top.config().metaslab_shift);
    check_root_block(&tree, &uberblock);
}

/// The root block pointer leads to bytes with the checksum it names.
fn check_root_block(tree: &VdevTree, uberblock: &ondisk::UberblockPhys) {
    let bp = uberblock.rootbp;
    let len = usize::try_from(bp.psize().get()).expect("small");
    assert!(bp.dvas().count() > 1);
    for dva in bp.dvas() {
        let verify =
            |bytes: &[u8]| codec::checksum(ondisk::ChecksumKind::Fletcher4, bytes, None) == Ok(bp.checksum());
        block_on(tree.read(Address::now(dva.vdev, dva.offset), len, &verify)).expect("the MOS");
        assert_eq!(
            block_on(tree.scrub(Address::now(dva.vdev, dva.offset), len, &verify)).expect("all of it"),
            0
        );
    }
}

#[test]
fn a_raidz_made_by_openzfs_is_laid_out_as_we_lay_it_out() {
    for (name, files, parity) in RAIDZ {
        let (world, pool) = pool(name, files);
        let uberblock = pool.uberblock.expect("an uberblock");
        let spec = OpenSpec {
            gone: &Default::default(),
            behind: &Default::default(),
            vdev_tree: &pool.vdev_tree,
            paths: &pool.paths,
            mode: OpenMode::ReadOnly,
        };
        let tree = block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration");
        assert_eq!((tree.state().0, tree.guid_sum()), (VdevState::Online, uberblock.guid_sum.get()));
        let top = tree.top(VdevId::new(0)).expect("the raidz");
        assert_eq!((top.kind(), top.leaves().len()), (NodeKind::Raidz { parity }, files.len()));
        assert_eq!(files.len() as u64 * leaf_asize(top.leaves()[0].psize()), top.config().asize);
        assert_eq!(u64::from(metaslab_shift(top.config().asize)), top.config().metaslab_shift);
        check_root_block(&tree, &uberblock);
    }
}

#[test]
fn a_label_made_by_openzfs_is_generated_again_key_for_key() {
    let raidz = RAIDZ.iter().map(|(name, files, _)| super::golden::pool(name, files));
    let widened = pool("g25-expanded", &["a.img", "b.img", "c.img", "d.img"]);
    let draid = pool("g26-draid", &["a.img", "b.img", "c.img", "d.img", "e.img", "f.img", "l.img"]);
    let all = [mirror_log(), widened, draid].into_iter().chain(raidz);
    all.for_each(|(world, pool)| check_labels(&world, &pool));
}

fn check_labels(world: &Arc<World>, pool: &Candidate) {
    let spec = OpenSpec {
        gone: &Default::default(),
        behind: &Default::default(),
        vdev_tree: &pool.vdev_tree,
        paths: &BTreeMap::new(),
        mode: OpenMode::ReadOnly,
    };
    // Closed leaves: the images are elsewhere now, and the label keeps the old path.
    let tree = block_on(VdevTree::open(world.env(), &spec)).expect("a sound configuration");
    for path in pool.paths.values() {
        let device = block_on(world.env().open(path, OpenMode::ReadOnly)).expect("an image");
        let labels = block_on(LeafLabels::read(&device));
        let original = labels.config(None).expect("a label");
        let config = PoolConfig::from_nvlist(original).expect("a pool");
        let leaf = tree.leaf(labels.guid().expect("a guid")).expect("one of the tree");
        let top = tree.top(leaf.vdev()).expect("its vdev");
        assert_eq!(config.label(&tree, &top, &leaf), *original);
        let keys = |list: &ondisk::NvList| list.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
        assert_eq!(keys(&config.label(&tree, &top, &leaf)), keys(original));
        assert_eq!(config.label(&tree, &top, &leaf).encode(), original.encode());
    }
}

/// On files, through the production environment.
#[test]
fn zdb_reads_our_labels_and_uberblocks() {
    let env = RealEnv::new(Options::default());
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["a", "b", "c"].map(|name| folder.path().join(name).to_string_lossy().into_owned());
    for path in &paths {
        std::fs::File::create(path).and_then(|file| file.set_len(64 << 20)).expect("a file");
    }
    let tree = super::tree::made_of(env.clone(), paths.each_ref().map(String::as_str));
    let other = NewVdev {
        paths: vec![(&paths[0]).into()],
        ashift: None,
        bias: crate::Bias::None,
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    assert!(matches!(block_on(tree.add(&other)), Err(VdevError::Open { .. })), "in use");
    for path in &paths {
        let Ok(out) = std::process::Command::new("zdb").arg("-lu").arg(path).output() else {
            Need::Zdb.is_missing("there is no zdb here");
            return;
        };
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{text}");
        // Both the configuration and the one uberblock are in all four labels.
        assert_eq!(text.matches("labels = 0 1 2 3").count(), 2, "{text}");
        for line in ["name: 'tank'", "txg: 4", "metaslab_shift: 24", "txg = 4", "hostname: 'here'"] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
