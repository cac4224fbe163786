//! Raidz pools that lose devices, get them back, or find noise on them: nothing is lost, and
//! `zdb` finds every block where it belongs.

use std::io::{Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use ondisk::dsl::scan::{func, state};
use pool::Pool;
use vdev::VdevState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Layout, World};

const STEPS: usize = 80;
const RAIDZ1: Layout =
    Layout { parity: 1, device_mib: 256, ..Layout::new(&[&["a", "b", "c", "d"]], &[], 12) };
const DRAID1: Layout =
    Layout { parity: 1, columns: 2, device_mib: 256, ..Layout::new(&[&["a", "b", "c", "d", "e"]], &[], 12) };
const DRAID2: Layout = Layout {
    parity: 2,
    columns: 3,
    device_mib: 256,
    ..Layout::new(&[&["a", "b", "c", "d", "e", "f"]], &[], 9)
};
const RAIDZ2: Layout =
    Layout { parity: 2, device_mib: 256, ..Layout::new(&[&["a", "b", "c", "d", "e"]], &[], 9) };

/// A pool, and what its files should be.
struct Life {
    world: World,
    tree: Tree,
    dice: Dice,
}

impl Life {
    fn new(layout: Layout, seed: u64) -> Self {
        let world = World::new(layout);
        let pool = world.create();
        let tree = world.run(Tree::of_empty(&world.zfs(&pool, "whirl")));
        let mut life = Self { world, tree, dice: Dice::new(seed) };
        life.work_and_export(pool);
        life
    }

    fn work_and_export(&mut self, pool: Arc<Pool>) {
        let zfs = self.world.zfs(&pool, "whirl");
        self.world.run(async {
            self.tree.check(&zfs).await;
            self.tree.steps(&zfs, &mut self.dice, STEPS).await;
            self.tree.close_orphans(&zfs).await;
        });
        drop(zfs);
        self.world.export(&pool);
    }

    fn check_and_export(&mut self, pool: Arc<Pool>) {
        let zfs = self.world.zfs(&pool, "whirl");
        self.world.run(self.tree.check(&zfs));
        drop(zfs);
        self.world.export(&pool);
    }

    /// Where a device is kept while it is away.
    fn aside(&self, name: &str) -> std::path::PathBuf {
        self.world.dir().with_extension(format!("away-{name}"))
    }

    fn take_away(&self, name: &str) {
        std::fs::rename(self.world.path(name), self.aside(name)).unwrap();
    }

    fn bring_back(&self, name: &str) {
        std::fs::rename(self.aside(name), self.world.path(name)).unwrap();
    }

    fn import(&self, expected: VdevState) -> Arc<Pool> {
        let pool = self.world.import();
        assert_eq!(pool.vdevs().state().0, expected);
        pool
    }

    /// Scrubs to the end; says how many bytes were repaired.
    fn scrub(&self, pool: &Arc<Pool>) -> u64 {
        self.world.run(pool.scrub()).unwrap();
        self.scanned(pool, func::SCRUB)
    }

    /// Waits for the end of the scan; says how many bytes were repaired.
    fn scanned(&self, pool: &Arc<Pool>, what: u64) -> u64 {
        self.world.run(async {
            for _ in 0..600 {
                let phys = pool.scan().expect("there is a scan").phys;
                assert_eq!(phys.func.get(), what);
                if phys.state.get() != state::SCANNING {
                    assert_eq!((phys.state.get(), phys.errors.get()), (state::FINISHED, 0));
                    return phys.processed.get();
                }
                pool.env().sleep(Duration::from_millis(50)).await;
                pool.sync_now().await.unwrap();
            }
            panic!("the scan does not end");
        })
    }

    /// How many leaves have a list of txgs that they missed, as `zdb` sees it.
    fn lists(&self) -> usize {
        let config = self.world.zdb().run(&["-C"], &[]).unwrap();
        config.lines().filter(|line| line.trim().starts_with("DTL: ")).count()
    }

    /// Noise everywhere between the labels.
    fn ruin(&mut self, name: &str) {
        let mut file = std::fs::File::options().write(true).open(self.world.path(name)).unwrap();
        let end = file.metadata().unwrap().len() - (512 << 10);
        file.seek(SeekFrom::Start(4 << 20)).unwrap();
        let noise: Vec<u8> = (0..1 << 20).map(|_| self.dice.below(256) as u8).collect();
        let mut left = (end - (4 << 20)) as usize;
        while left > 0 {
            let count = left.min(noise.len());
            file.write_all(&noise[..count]).unwrap();
            left -= count;
        }
    }
}

fn stale(pool: &Pool) -> Vec<bool> {
    pool.vdevs().leaves().iter().map(|leaf| leaf.is_stale()).collect()
}

/// Devices go, are missed, come back and are brought up to date; then as many others go.
fn a_returned_device_is_resilvered_and_holds_all(layout: Layout, away: &[&str], later: &[&str]) {
    let mut life = Life::new(layout, 31);
    assert_eq!(life.lists(), 0, "nothing was missed");
    away.iter().for_each(|name| life.take_away(name));
    for _ in 0..2 {
        let pool = life.import(VdevState::Degraded);
        life.work_and_export(pool);
    }
    life.world.check("worked on without a device");
    assert_eq!(life.lists(), away.len());
    away.iter().for_each(|name| life.bring_back(name));
    // A resilver that does not come to its end: what was missed is not forgotten.
    let pool = life.import(VdevState::Online);
    let whole = |pool: &Pool| !stale(pool).contains(&true);
    life.world.export(&pool);
    // Both resilvers count: the first may have mended all and only not have said so.
    let begun = pool.scan().map_or(0, |scan| scan.phys.processed.get());
    // It may have come to its end all the same, even while the pool closed.
    let lists = life.lists();
    let ended = lists == 0;
    assert!(ended || lists == away.len(), "{lists} lists");
    life.world.check("with a device that missed something");
    let pool = life.import(VdevState::Online);
    if !ended {
        let repaired = life.scanned(&pool, func::RESILVER);
        assert!(begun + repaired > 0);
        assert!(pool.scan().unwrap().phys.min_txg.get() > 4, "what is older was not read");
    }
    assert!(whole(&pool), "whole again");
    life.world.run(pool.sync_now()).unwrap();
    assert_eq!(life.scrub(&pool), 0, "all is there");
    life.work_and_export(pool);
    assert_eq!(life.lists(), 0);
    life.world.check("resilvered");
    // Now others can go: those that were away have everything.
    later.iter().for_each(|name| life.take_away(name));
    let pool = life.import(VdevState::Degraded);
    life.work_and_export(pool);
    life.world.check("without other devices");
    later.iter().for_each(|name| std::fs::remove_file(life.aside(name)).unwrap());
}

#[test]
fn a_raidz1_works_without_a_device_and_takes_it_back() {
    a_returned_device_is_resilvered_and_holds_all(RAIDZ1, &["b"], &["c"]);
}

#[test]
fn a_raidz2_works_without_two_devices_and_takes_them_back() {
    a_returned_device_is_resilvered_and_holds_all(RAIDZ2, &["a", "d"], &["b", "e"]);
}

#[test]
fn a_draid1_works_without_a_device_and_takes_it_back() {
    a_returned_device_is_resilvered_and_holds_all(DRAID1, &["b"], &["d"]);
}

#[test]
fn a_draid2_works_without_two_devices_and_takes_them_back() {
    a_returned_device_is_resilvered_and_holds_all(DRAID2, &["a", "d"], &["b", "f"]);
}

#[test]
fn a_mirror_works_without_a_device_and_takes_it_back() {
    let mirror = Layout { device_mib: 256, ..Layout::new(&[&["a", "b"]], &[], 12) };
    a_returned_device_is_resilvered_and_holds_all(mirror, &["a"], &["b"]);
}

/// Nothing tells old bytes from new ones then but the list of what was missed.
#[test]
fn blocks_without_checksums_are_resilvered_too() {
    let layout = Layout { device_mib: 64, ..Layout::new(&[&["a", "b"]], &[], 12) };
    let world = World::new(layout);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/plain", &[("compression", 2), ("checksum", 2)]);
    let life =
        Life { tree: world.run(Tree::of_empty(&world.zfs(&pool, "whirl"))), world, dice: Dice::new(1) };
    let write = |pool: &Arc<Pool>, byte: u8| {
        let zfs = life.world.zfs(pool, "whirl/plain");
        life.world.run(async {
            let root = zfs.root();
            let file = match zfs.lookup(root, b"file").await {
                Ok(file) => file.object,
                Err(_) => {
                    zfs.create(root, b"file", NewNode::File, 0o644, Cred::default()).await.unwrap().object
                }
            };
            zfs.write(file, 0, &vec![byte; 3 << 20], WriteFlags::default()).await.unwrap();
        });
    };
    write(&pool, 1);
    life.world.export(&pool);
    life.take_away("a");
    let pool = life.import(VdevState::Degraded);
    write(&pool, 2);
    life.world.export(&pool);
    life.bring_back("a");
    let pool = life.import(VdevState::Online);
    assert!(life.scanned(&pool, func::RESILVER) >= 3 << 20);
    life.world.export(&pool);
    life.take_away("b");
    let pool = life.import(VdevState::Degraded);
    let zfs = life.world.zfs(&pool, "whirl/plain");
    let mut back = vec![0; 3 << 20];
    life.world.run(async {
        let file = zfs.lookup(zfs.root(), b"file").await.unwrap();
        zfs.read(file.object, 0, &mut back).await.unwrap();
    });
    assert!(back.iter().all(|byte| *byte == 2));
    drop(zfs);
    life.world.export(&pool);
    std::fs::remove_file(life.aside("b")).unwrap();
}

#[test]
fn noise_on_as_many_devices_as_parity_is_read_through_and_repaired() {
    for (layout, noisy, later) in [
        (RAIDZ1, &["a"][..], &["d"][..]),
        (RAIDZ2, &["b", "c"], &["a", "e"]),
        (DRAID1, &["c"], &["e"]),
        (DRAID2, &["b", "f"], &["a", "c"]),
    ] {
        let mut life = Life::new(layout, 32);
        noisy.iter().for_each(|name| life.ruin(name));
        let pool = life.import(VdevState::Online);
        life.work_and_export(pool);
        let pool = life.import(VdevState::Online);
        assert!(life.scrub(&pool) > 0);
        for leaf in pool.vdevs().leaves() {
            let was_noisy = noisy.iter().any(|name| leaf.path().ends_with(name));
            assert_eq!(leaf.stats().snapshot().checksum_errors > 0, was_noisy, "{:?}", leaf.path());
        }
        assert_eq!(life.scrub(&pool), 0, "all repaired");
        life.check_and_export(pool);
        life.world.check("repaired");
        later.iter().for_each(|name| life.take_away(name));
        let pool = life.import(VdevState::Degraded);
        life.check_and_export(pool);
        later.iter().for_each(|name| std::fs::remove_file(life.aside(name)).unwrap());
    }
}

#[test]
fn what_a_log_holds_is_replayed_before_a_device_is_whole() {
    let layout = Layout { device_mib: 64, ..Layout::new(&[&["a", "b"]], &[], 12) };
    let world = World::new(layout);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/fs", &[]);
    let tree = world.run(Tree::of_empty(&world.zfs(&pool, "whirl")));
    let life = Life { tree, world, dice: Dice::new(1) };
    life.world.export(&pool);
    life.take_away("a");
    let pool = life.import(VdevState::Degraded);
    let zfs = life.world.zfs(&pool, "whirl/fs");
    life.world.run(async {
        let file = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
        // The first one waits for the txg that tells where the log begins.
        for promise in [b"whatever", b"promised"] {
            zfs.write(file.object, 0, promise, WriteFlags::default()).await.unwrap();
            zfs.fsync(file.object, false).await.unwrap();
        }
    });
    // A power cut, and the device is back before the next import.
    life.bring_back("a");
    let crashed = Life { world: life.world.copy(), tree: life.tree, dice: life.dice };
    let logged = crashed.world.check("crashed");
    assert!(logged.contains_key("TX_WRITE"), "in the log, which one device has: {logged:?}");
    let pool = crashed.import(VdevState::Online);
    assert!(crashed.scanned(&pool, func::RESILVER) > 0);
    assert!(!stale(&pool).contains(&true), "whole again");
    crashed.world.run(pool.leave()).unwrap();
    let logged = crashed.world.check("whole again");
    assert!(!logged.contains_key("TX_WRITE"), "replayed: {logged:?}");
    crashed.take_away("b");
    let pool = crashed.import(VdevState::Degraded);
    let zfs = crashed.world.zfs(&pool, "whirl/fs");
    crashed.world.run(async {
        let file = zfs.lookup(zfs.root(), b"file").await.expect("it was promised");
        let mut back = [0; 8];
        zfs.read(file.object, 0, &mut back).await.unwrap();
        assert_eq!(&back, b"promised");
    });
    drop(zfs);
    crashed.world.export(&pool);
    std::fs::remove_file(crashed.aside("b")).unwrap();
}
