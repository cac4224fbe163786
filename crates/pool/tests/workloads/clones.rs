//! Blocks that files share by cloning: space, snapshots, logs, and random histories against a plain model.

use std::collections::BTreeMap;
use std::sync::Arc;

use dsl::features::BLOCK_CLONING;
use pool::{Pool, SharedSpace};
use units::ObjectId;
use zpl::{FilePlace, SetAttributes, WriteFlags, Zfs};

use crate::dice::Dice;
use crate::file::{make, noise};
use crate::layouts::seeds;
use crate::world::{Layout, World};

const ONE: Layout = Layout::new(&[&["a"]], &[], 9);
const STRIPE: Layout = Layout::new(&[&["a"], &["b"]], &[], 12);
const RAIDZ: Layout = Layout { parity: 1, ..Layout::new(&[&["a", "b", "c"]], &[&["l"]], 9) };
const RECORD: u64 = 128 << 10;
const BLOCKS: u64 = 24;

async fn contents(zfs: &Zfs, file: ObjectId) -> Vec<u8> {
    let mut data = vec![0; zfs.attributes(file).await.unwrap().size as usize];
    assert_eq!(zfs.read(file, 0, &mut data).await.unwrap(), data.len());
    data
}

/// All that can be shared of a file, at the same place in another one.
async fn share(from: &Zfs, source: ObjectId, to: &Zfs, target: ObjectId) -> u64 {
    let place = FilePlace { zfs: from, object: source, offset: 0 };
    to.clone_range(place, (target, 0), u64::MAX, WriteFlags::default()).await.unwrap()
}

fn cloned(world: &World, pool: &Pool) -> SharedSpace {
    world.run(pool.facts()).cloned.expect("readable")
}

/// Txgs, so that what was freed can be seen to be free.
async fn settle(pool: &Pool) {
    for _ in 0..4 {
        pool.sync_now().await.unwrap();
    }
}

#[test]
fn a_clone_takes_no_space_and_its_dataset_is_charged_for_it() {
    let world = World::new(ONE);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let data = noise(1, BLOCKS * RECORD + 1000);
    let (used, allocated) = world.run(async {
        let source = make(&zfs, "source", &data).await;
        settle(&pool).await;
        let before = (zfs.space().used_bytes, pool.room().allocated);
        let copy = make(&zfs, "copy", b"").await;
        assert_eq!(share(&zfs, source, &zfs, copy).await, data.len() as u64);
        assert!(contents(&zfs, copy).await == data, "a clone reads before its txg has synced");
        settle(&pool).await;
        assert!(contents(&zfs, copy).await == data);
        assert_eq!(
            zfs.attributes(copy).await.unwrap().sectors,
            zfs.attributes(source).await.unwrap().sectors
        );
        (zfs.space().used_bytes - before.0, pool.room().allocated - before.1)
    });
    let shared = cloned(&world, &pool);
    assert!(used >= BLOCKS * RECORD && allocated < RECORD, "{used} charged, {allocated} allocated");
    assert_eq!(shared.used_bytes, shared.saved_bytes);
    assert!((BLOCKS * RECORD..=(BLOCKS + 1) * RECORD).contains(&shared.used_bytes), "{shared:?}");
    assert_eq!(world.run(pool.dsl().feature_count(&BLOCK_CLONING)).unwrap(), Some(1));
    world.export(&pool);
    world.check("with a clone");
    let table = world.zdb().run(&["-TTT"], &[]).unwrap();
    assert!(table.contains("ratio 2.00x"), "{table}");

    let pool = world.import();
    assert_eq!(cloned(&world, &pool), shared);
    let zfs = world.zfs(&pool, "whirl");
    world.run(async {
        let before = pool.room().allocated;
        zfs.unlink(zfs.root(), b"source").await.unwrap();
        settle(&pool).await;
        assert!(before.saturating_sub(pool.room().allocated) < RECORD, "the clone has the blocks");
        let copy = zfs.lookup(zfs.root(), b"copy").await.unwrap().object;
        assert!(contents(&zfs, copy).await == data);
        assert_eq!(pool.dsl().feature_count(&BLOCK_CLONING).await.unwrap(), Some(0));
        zfs.unlink(zfs.root(), b"copy").await.unwrap();
        settle(&pool).await;
        assert!(before.saturating_sub(pool.room().allocated) > (BLOCKS - 2) * RECORD, "the last reference");
    });
    assert_eq!(cloned(&world, &pool), SharedSpace::default());
    world.export(&pool);
    world.check("without");
}

#[test]
fn a_clone_of_what_is_dirty_waits() {
    let world = World::new(ONE);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    world.run(async {
        let long = noise(2, 5 << 20);
        let (source, copy) = (make(&zfs, "long", &long).await, make(&zfs, "long copy", b"").await);
        let before = pool.txgs().synced_txg();
        assert_eq!(share(&zfs, source, &zfs, copy).await, 5 << 20);
        assert!(pool.txgs().synced_txg() > before, "it waited for a txg");
        assert!(contents(&zfs, copy).await == long);
        let (short, copy) = (make(&zfs, "short", &long[..9000]).await, make(&zfs, "short copy", b"").await);
        let before = pool.txgs().synced_txg();
        assert_eq!(share(&zfs, short, &zfs, copy).await, 0, "a copy is quicker than a txg");
        assert_eq!(pool.txgs().synced_txg(), before);
        assert_eq!(zfs.attributes(copy).await.unwrap().size, 0);
    });
    world.export(&pool);
    world.check("exported");
}

#[test]
fn a_clone_can_be_cloned_before_it_is_on_disk() {
    let world = World::new(STRIPE);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    world.run(async {
        let data = noise(3, 4 * RECORD);
        let source = make(&zfs, "0", &data).await;
        // A hole, and a block that lies in its pointer.
        let sparse = make(&zfs, "sparse", &[7; 100]).await;
        zfs.set_attributes(sparse, SetAttributes { size: Some(3 * RECORD), ..Default::default() })
            .await
            .unwrap();
        zfs.write(sparse, 2 * RECORD, &vec![9; RECORD as usize], WriteFlags::default()).await.unwrap();
        pool.sync_now().await.unwrap();
        for (name, first, bytes) in [("a", source, 4 * RECORD), ("b", sparse, 3 * RECORD)] {
            let txg = pool.txgs().open_txg();
            let one = make(&zfs, &format!("{name}1"), b"").await;
            let two = make(&zfs, &format!("{name}2"), b"").await;
            assert_eq!(share(&zfs, first, &zfs, one).await, bytes);
            assert_eq!(share(&zfs, one, &zfs, two).await, bytes);
            assert_eq!(pool.txgs().open_txg(), txg);
            // The one in the middle changes: a part of a block, and all of another.
            zfs.write(one, 17, b"changed", WriteFlags::default()).await.unwrap();
            zfs.write(one, RECORD, &vec![1; RECORD as usize], WriteFlags::default()).await.unwrap();
            let mut expected = contents(&zfs, first).await;
            assert!(contents(&zfs, two).await == expected, "{name}");
            expected[17..24].copy_from_slice(b"changed");
            expected[RECORD as usize..2 * RECORD as usize].fill(1);
            assert!(contents(&zfs, one).await == expected, "{name}");
            pool.sync_now().await.unwrap();
            assert!(contents(&zfs, one).await == expected, "{name}, on disk");
        }
    });
    world.export(&pool);
    world.check("exported");
}

#[test]
fn a_file_of_a_snapshot_is_brought_back_without_space() {
    let world = World::new(STRIPE);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let data = noise(4, BLOCKS * RECORD);
    world.run(async {
        make(&zfs, "lost", &data).await;
        pool.snapshot(vec!["whirl@a".into()], Vec::new()).await.unwrap();
        zfs.unlink(zfs.root(), b"lost").await.unwrap();
        settle(&pool).await;
        let before = pool.room().allocated;
        let snapshot = pool.snapshot_filesystem("whirl@a").await.unwrap();
        let lost = snapshot.zfs.lookup(snapshot.zfs.root(), b"lost").await.unwrap().object;
        let found = make(&zfs, "found", b"").await;
        assert_eq!(share(&snapshot.zfs, lost, &zfs, found).await, data.len() as u64);
        settle(&pool).await;
        assert!(pool.room().allocated < before + RECORD, "no space");
        drop(snapshot);
        pool.destroy_snapshots(vec!["whirl@a".into()], false).await.unwrap();
        settle(&pool).await;
        assert!(contents(&zfs, found).await == data);
    });
    assert_eq!(cloned(&world, &pool), SharedSpace::default());
    world.export(&pool);
    world.check("without the snapshot");
}

#[test]
fn a_logged_clone_is_replayed_though_its_source_is_gone() {
    for layout in [ONE, RAIDZ] {
        let world = World::new(layout);
        let pool = world.create();
        let zfs = world.zfs(&pool, "whirl");
        let data = noise(5, 4 * RECORD + 77);
        world.run(async {
            let source = make(&zfs, "source", &data).await;
            pool.sync_now().await.unwrap();
            let copy = make(&zfs, "copy", b"").await;
            assert_eq!(share(&zfs, source, &zfs, copy).await, data.len() as u64);
            zfs.fsync(copy, false).await.unwrap();
            zfs.unlink(zfs.root(), b"source").await.unwrap();
            zfs.sync().await.unwrap();
        });
        let crashed = world.copy();
        let logged = crashed.copy().check("crashed");
        assert!(logged.contains_key("TX_CLONE_RANGE"), "{logged:?}");
        let pool = crashed.import();
        let zfs = crashed.zfs(&pool, "whirl");
        crashed.run(async {
            let copy = zfs.lookup(zfs.root(), b"copy").await.unwrap().object;
            assert!(contents(&zfs, copy).await == data);
            assert!(zfs.lookup(zfs.root(), b"source").await.is_err());
            pool.sync_now().await.unwrap();
            assert!(contents(&zfs, copy).await == data);
        });
        // Of the source, of the log and of the clone, one reference is left.
        crashed.export(&pool);
        crashed.check("replayed");
        let pool = crashed.import();
        assert_eq!(cloned(&crashed, &pool), SharedSpace::default());
        crashed.export(&pool);
    }
}

/// Files of heads and snapshots, and what the head of the moment holds.
struct Histories {
    world: World,
    pool: Arc<Pool>,
    dice: Dice,
    files: BTreeMap<String, Vec<u8>>,
    snapshots: Vec<(String, BTreeMap<String, Vec<u8>>)>,
    names: u64,
    shared: u64,
}

impl Histories {
    async fn zfs(&self) -> Arc<Zfs> {
        Arc::clone(&self.pool.filesystem("whirl/h").await.unwrap().zfs)
    }

    fn some_file(&mut self) -> Option<String> {
        let names: Vec<&String> = self.files.keys().collect();
        self.dice.pick(&names).cloned()
    }

    async fn object(zfs: &Zfs, name: &str) -> ObjectId {
        zfs.lookup(zfs.root(), name.as_bytes()).await.unwrap().object
    }

    async fn step(&mut self) {
        match self.dice.below(42) {
            0..6 => self.create().await,
            6..10 => self.overwrite().await,
            10..26 => self.share().await,
            26..29 => self.truncate().await,
            29..32 => self.unlink().await,
            32..34 => self.snapshot().await,
            34 => self.roll_back().await,
            35..37 => self.destroy_snapshot().await,
            37..39 => self.rewrite().await,
            _ => self.pool.sync_now().await.unwrap(),
        }
    }

    async fn create(&mut self) {
        self.names += 1;
        let (zfs, name) = (self.zfs().await, format!("f{}", self.names));
        let len = self.dice.below(12) * 4096 + self.dice.below(2) * 100;
        let data = noise(self.dice.word(), len);
        make(&zfs, &name, &data).await;
        self.files.insert(name, data);
    }

    async fn overwrite(&mut self) {
        let Some(name) = self.some_file() else { return };
        let (zfs, offset) = (self.zfs().await, self.dice.below(50_000));
        let len = 1 + self.dice.below(20_000);
        let data = noise(self.dice.word(), len);
        let object = Self::object(&zfs, &name).await;
        zfs.write(object, offset, &data, WriteFlags::default()).await.unwrap();
        put(self.files.get_mut(&name).unwrap(), offset, &data);
    }

    /// From a file or a snapshot's, to a file.
    async fn share(&mut self) {
        let Some(target) = self.some_file() else { return };
        let zfs = self.zfs().await;
        let old: Vec<usize> = (0..self.snapshots.len()).collect();
        let of_snapshot = self.dice.pick(&old).filter(|_| self.dice.below(3) == 0);
        let (holder, names) = match of_snapshot {
            None => (None, &self.files),
            Some(at) => {
                let name = format!("whirl/h@{}", self.snapshots[at].0);
                (Some(self.pool.snapshot_filesystem(&name).await.unwrap()), &self.snapshots[at].1)
            }
        };
        let all: Vec<&String> = names.keys().collect();
        let Some(source) = self.dice.pick(&all).cloned() else { return };
        let bytes = names[&source].clone();
        let from: &Zfs = holder.as_ref().map_or(&zfs, |fs| &fs.zfs);
        let object = Self::object(from, &source).await;
        let block = 4096;
        let (offset, at) = (self.dice.below(4) * block, self.dice.below(6) * block);
        let len = match self.dice.below(3) {
            0 => u64::MAX,
            _ => 1 + self.dice.below(6) * block,
        };
        let place = FilePlace { zfs: from, object, offset };
        let to = (Self::object(&zfs, &target).await, at);
        let shared = zfs.clone_range(place, to, len, WriteFlags::default()).await.unwrap();
        self.shared += shared;
        if shared > 0 {
            let bytes = bytes[offset as usize..(offset + shared) as usize].to_vec();
            put(self.files.get_mut(&target).unwrap(), at, &bytes);
        }
    }

    async fn rewrite(&mut self) {
        let Some(name) = self.some_file() else { return };
        let (zfs, offset, len) = (self.zfs().await, self.dice.below(30_000), self.dice.below(30_000));
        let object = Self::object(&zfs, &name).await;
        zfs.rewrite(object, offset, len).await.unwrap();
    }

    async fn truncate(&mut self) {
        let Some(name) = self.some_file() else { return };
        let (zfs, size) = (self.zfs().await, self.dice.below(60_000));
        let object = Self::object(&zfs, &name).await;
        zfs.set_attributes(object, SetAttributes { size: Some(size), ..Default::default() }).await.unwrap();
        self.files.get_mut(&name).unwrap().resize(size as usize, 0);
    }

    async fn unlink(&mut self) {
        let Some(name) = self.some_file() else { return };
        let zfs = self.zfs().await;
        zfs.unlink(zfs.root(), name.as_bytes()).await.unwrap();
        self.files.remove(&name);
    }

    async fn snapshot(&mut self) {
        self.names += 1;
        let name = format!("s{}", self.names);
        self.pool.snapshot(vec![format!("whirl/h@{name}")], Vec::new()).await.unwrap();
        self.snapshots.push((name, self.files.clone()));
    }

    async fn roll_back(&mut self) {
        let Some((name, files)) = self.snapshots.last().cloned() else { return };
        self.pool.rollback("whirl/h".into(), format!("whirl/h@{name}")).await.unwrap();
        self.files = files;
    }

    async fn destroy_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let at = self.dice.below(self.snapshots.len() as u64) as usize;
        let (name, _) = self.snapshots.remove(at);
        self.pool.destroy_snapshots(vec![format!("whirl/h@{name}")], false).await.unwrap();
    }

    async fn check(&self) {
        let zfs = self.zfs().await;
        check(&zfs, &self.files).await;
        for (name, files) in &self.snapshots {
            let fs = self.pool.snapshot_filesystem(&format!("whirl/h@{name}")).await.unwrap();
            check(&fs.zfs, files).await;
        }
    }

    /// What a power cut leaves once all was committed: imported, replayed, judged before and after.
    fn crash(&self, when: &str) {
        self.world.run(async { self.zfs().await.sync().await.unwrap() });
        let world = self.world.copy();
        let before = world.copy().check_aside(&format!("{when}, crashed"));
        let pool = world.import();
        let claimed = world.copy().check_aside(&format!("{when}, replayed"));
        world.run(async {
            let fs = pool.filesystem("whirl/h").await.unwrap();
            check(&fs.zfs, &self.files).await;
        });
        world.export(&pool);
        world.check(&format!("{when}, exported"));
        [before, claimed].into_iter().for_each(|verdict| drop(verdict.wait()));
    }
}

fn put(file: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + data.len());
    file.resize(file.len().max(end), 0);
    file[start..end].copy_from_slice(data);
}

async fn check(zfs: &Zfs, files: &BTreeMap<String, Vec<u8>>) {
    let found = zfs.list(zfs.root(), 0, 1 << 20).await.unwrap().len() - 2;
    assert_eq!(found, files.len());
    for (name, data) in files {
        let object = Histories::object(zfs, name).await;
        assert!(contents(zfs, object).await == *data, "{name}");
    }
}

fn live(layout: Layout, seed: u64) {
    let world = World::new(layout);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/h", &[("recordsize", 4096)]);
    let (dice, files) = (Dice::new(seed), BTreeMap::new());
    let mut histories = Histories { world, pool, dice, files, snapshots: Vec::new(), names: 0, shared: 0 };
    let runner = histories.world.runner();
    for round in 0..2 {
        runner.block_on(async {
            for _ in 0..100 {
                histories.step().await;
            }
            histories.check().await;
        });
        histories.crash(&format!("seed {seed}, round {round}"));
    }
    assert!(histories.shared > 256 << 10, "only {} bytes were shared", histories.shared);
    runner.block_on(async {
        let pool = &histories.pool;
        for (name, _) in std::mem::take(&mut histories.snapshots) {
            pool.destroy_snapshots(vec![format!("whirl/h@{name}")], false).await.unwrap();
        }
        pool.destroy_filesystem("whirl/h").await.unwrap();
        while pool.dsl().has_destroyed().await.unwrap() {
            pool.sync_now().await.unwrap();
        }
        settle(pool).await;
    });
    assert_eq!(
        cloned(&histories.world, &histories.pool),
        SharedSpace::default(),
        "nothing is shared any more"
    );
    histories.world.export(&histories.pool);
    histories.world.check(&format!("seed {seed}, all gone"));
}

#[test]
fn random_histories_of_clones_equal_a_plain_model() {
    seeds(1).for_each(|seed| live(STRIPE, seed));
}

#[test]
fn random_histories_of_clones_on_a_raidz_with_a_log_equal_a_plain_model() {
    seeds(11).for_each(|seed| live(RAIDZ, seed));
}
