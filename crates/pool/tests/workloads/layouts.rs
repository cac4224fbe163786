//! Every layout of a pool under random work: exported, crashed, claimed, replayed, `zdb` finds
//! no fault, and the files are what the model says.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pool::Pool;
use zpl::Zfs;

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Devices, Layout, Verdict, World};

const ROUNDS: usize = 1;
const STEPS: usize = 120;

/// Compression by its number in the format.
const OFF: u64 = 2;
const LZJB: u64 = 3;
const GZIP_6: u64 = 10;
const ZLE: u64 = 14;

const DNODE_AUTO: u64 = 1;
const XATTR_DIR: u64 = 1;
const ACLTYPE_POSIX: u64 = 1;

/// The datasets of every pool here, and what they differ in.
const DATASETS: &[(&str, &[(&str, u64)])] = &[
    ("whirl/small", &[("recordsize", 4096), ("compression", GZIP_6)]),
    ("whirl/plain", &[("recordsize", 16 << 10), ("compression", OFF), ("copies", 2)]),
    ("whirl/plain/deep", &[("compression", ZLE), ("copies", 3)]),
    ("whirl/large", &[("recordsize", 1 << 20), ("dnodesize", DNODE_AUTO)]),
    ("whirl/files", &[("xattr", XATTR_DIR), ("acltype", ACLTYPE_POSIX)]),
    ("whirl/always", &[("sync", 1), ("compression", LZJB)]),
];

/// What each dataset should hold.
#[derive(Clone)]
struct Forest(BTreeMap<String, Tree>);

impl Forest {
    fn plant(world: &World, pool: &Arc<Pool>) -> Self {
        let mut forest = Self(BTreeMap::new());
        forest.add(world, pool, "whirl");
        for (name, props) in DATASETS {
            world.create_filesystem(pool, name, props);
            forest.add(world, pool, name);
        }
        forest
    }

    fn add(&mut self, world: &World, pool: &Arc<Pool>, name: &str) {
        let tree = world.run(Tree::of_empty(&world.zfs(pool, name)));
        self.0.insert(name.to_owned(), tree);
    }

    /// `work` with each dataset.
    fn each(&mut self, world: &World, pool: &Arc<Pool>, mut work: impl AsyncFnMut(&Zfs, &mut Tree)) {
        for (name, tree) in &mut self.0 {
            let zfs = world.zfs(pool, name);
            world.run(work(&zfs, tree));
        }
    }

    fn grow(&mut self, world: &World, pool: &Arc<Pool>, dice: &mut Dice) {
        self.each(world, pool, async |zfs, tree| tree.steps(zfs, dice, STEPS).await);
    }

    fn check(&mut self, world: &World, pool: &Arc<Pool>) {
        self.each(world, pool, async |zfs, tree| {
            tree.check(zfs).await;
            let os = zfs.objset();
            os.txgs().wait_synced(os.txgs().open_txg()).await.unwrap();
            assert_eq!(os.accounts().await.unwrap(), os.recount().await.unwrap());
        });
    }

    fn commit(&mut self, world: &World, pool: &Arc<Pool>) {
        self.each(world, pool, async |zfs, _| zfs.sync().await.unwrap());
    }

    fn forget_orphans(&mut self) {
        self.0.values_mut().for_each(Tree::forget_orphans);
    }
}

/// More seeds than usual: `SAWMILL_SEEDS=FROM-TO`.
pub fn seeds(usual: u64) -> Range<u64> {
    let Ok(wanted) = std::env::var("SAWMILL_SEEDS") else { return usual..usual + 1 };
    let (from, to) = wanted.split_once('-').expect("SAWMILL_SEEDS=FROM-TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn work_on(layout: Layout, usual_seed: u64) {
    for seed in seeds(usual_seed) {
        one_life(layout, seed);
    }
}

fn one_life(layout: Layout, seed: u64) {
    let mut dice = Dice::new(seed);
    let world = World::new(layout);
    let mut pool = world.create();
    let mut forest = Forest::plant(&world, &pool);
    for round in 0..ROUNDS {
        world.create_filesystem(&pool, "whirl/passing", &[("recordsize", 8192)]);
        forest.add(&world, &pool, "whirl/passing");
        forest.grow(&world, &pool, &mut dice);
        world.run(pool.sync_now()).unwrap();
        world.run(pool.destroy_filesystem("whirl/passing")).unwrap();
        forest.0.remove("whirl/passing");
        forest.grow(&world, &pool, &mut dice);
        forest.commit(&world, &pool);
        let verdicts = after_a_crash(world.copy(), forest.clone(), &format!("seed {seed}, round {round}"));
        forest.grow(&world, &pool, &mut dice);
        forest.each(&world, &pool, async |zfs, tree| tree.close_orphans(zfs).await);
        forest.check(&world, &pool);
        world.export(&pool);
        let exported = world.copy().check_aside(&format!("seed {seed}, round {round}, exported"));
        pool = world.import();
        forest.check(&world, &pool);
        verdicts.into_iter().chain([exported]).for_each(|verdict| drop(verdict.wait()));
    }
}

/// Everything was committed when the power went: `zdb` agrees before, between and after, and
/// nothing is missing.
fn after_a_crash(world: World, mut forest: Forest, when: &str) -> [Verdict; 2] {
    forest.forget_orphans();
    let crashed = world.copy().check_aside(&format!("{when}, crashed"));
    let pool = world.import();
    let claimed = world.copy().check_aside(&format!("{when}, claimed"));
    forest.check(&world, &pool);
    world.export(&pool);
    let logged = crashed.wait();
    for kind in ["TX_CREATE", "TX_WRITE"] {
        assert!(logged.contains_key(kind), "{when}: no {kind} in {logged:?}");
    }
    [claimed, world.check_aside(&format!("{when}, replayed"))]
}

#[test]
fn a_stripe_stays_whole() {
    work_on(Layout::new(&[&["a"], &["b"]], &[], 9), 1);
}

#[test]
fn a_mirror_stays_whole() {
    work_on(Layout::new(&[&["a", "b"]], &[], 12), 2);
}

#[test]
fn a_pool_with_a_log_stays_whole() {
    work_on(Layout::new(&[&["a"]], &[&["l"]], 12), 3);
}

#[test]
fn a_pool_with_two_logs_stays_whole() {
    work_on(Layout::new(&[&["a"]], &[&["l"], &["m"]], 9), 4);
}

#[test]
fn a_raidz1_stays_whole() {
    work_on(raidz(1, &[&["a", "b", "c"]], &[], 9), 6);
    work_on(raidz(1, &[&["a", "b", "c", "d"]], &[&["l"]], 12), 7);
}

#[test]
fn a_raidz2_stays_whole() {
    work_on(raidz(2, &[&["a", "b", "c", "d", "e"]], &[], 12), 8);
}

#[test]
fn a_raidz3_stays_whole() {
    work_on(raidz(3, &[&["a", "b", "c", "d", "e", "f"]], &[&["l", "m"]], 9), 9);
}

const fn raidz(parity: u8, data: &'static [Devices], logs: &'static [Devices], ashift: u8) -> Layout {
    Layout { parity, device_mib: 512, ..Layout::new(data, logs, ashift) }
}

#[test]
fn a_pool_with_a_mirrored_log_stays_whole() {
    work_on(Layout::new(&[&["a"], &["b"]], &[&["l", "m"]], 12), 5);
}
