//! Volumes under random work: written, freed, resized, kept, rolled back, cloned and sent, against models of their bytes.

use std::sync::Arc;

use dsl::{DslError, PropValue};
use oracle::zdb::Zdb;
use pool::{Pool, PoolError, Volume, VolumeSpec};

use crate::dice::Dice;
use crate::layouts::seeds;
use crate::world::{Layout, Verdict, World};

const ROUNDS: usize = 90;
const STRIPE: Layout = Layout::new(&[&["a"], &["b"]], &[], 9);
const MIRROR: Layout = Layout::new(&[&["a", "b"]], &[&["l"]], 12);
const RAIDZ: Layout = Layout { parity: 1, ..Layout::new(&[&["a", "b", "c"]], &[], 9) };

/// Blocks that a volume has at most.
const BLOCKS_MAX: u64 = 200;
const THROUGHPUT: u64 = 1;
const COMPRESSION_OFF: u64 = 2;

/// A volume, and what it and its snapshots should hold.
#[derive(Clone)]
struct Model {
    name: String,
    block_bytes: u32,
    bytes: Vec<u8>,
    snapshots: Vec<(String, Vec<u8>)>,
}

struct Lives {
    world: World,
    pool: Arc<Pool>,
    volumes: Vec<Model>,
    dice: Dice,
    names: usize,
}

async fn contents(volume: &Volume) -> Vec<u8> {
    let mut bytes = vec![0; volume.size_bytes() as usize];
    assert_eq!(volume.read(0, &mut bytes).await.unwrap(), bytes.len());
    bytes
}

impl Lives {
    fn new(layout: Layout, seed: u64) -> Self {
        let world = World::new(layout);
        let pool = world.create();
        let mut lives = Self { world, pool, volumes: Vec::new(), dice: Dice::new(seed), names: 0 };
        let kinds: [(u32, &[(&str, u64)]); 4] = [
            (512, &[("compression", COMPRESSION_OFF)]),
            (4096, &[("logbias", THROUGHPUT), ("copies", 2)]),
            (16 << 10, &[("sync", 1)]),
            (256 << 10, &[]),
        ];
        for (block_bytes, props) in kinds {
            lives.create(block_bytes, props);
        }
        lives
    }

    fn create(&mut self, block_bytes: u32, props: &[(&str, u64)]) {
        let name = format!("whirl/v{block_bytes}");
        let size_bytes =
            (1 + self.dice.below(if block_bytes > 16 << 10 { 20 } else { 100 })) * u64::from(block_bytes);
        let props = props.iter().map(|&(name, value)| (name.to_owned(), PropValue::Number(value))).collect();
        let spec = VolumeSpec { size_bytes, block_bytes };
        self.world.run(self.pool.create_volume(&name, spec, props)).unwrap();
        let bytes = vec![0; size_bytes as usize];
        self.volumes.push(Model { name, block_bytes, bytes, snapshots: Vec::new() });
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    async fn step(&mut self) {
        let which = self.dice.below(self.volumes.len() as u64) as usize;
        match self.dice.below(20) {
            0..=8 => self.write(which).await,
            9..=11 => self.free(which).await,
            12 | 13 => self.resize(which).await,
            14 | 15 => self.snapshot(which).await,
            16 => self.roll_back(which).await,
            17 => self.clone_of(which).await,
            18 => self.lose_snapshot(which).await,
            _ => self.destroy(which).await,
        }
        if self.dice.below(8) == 0 {
            self.pool.sync_now().await.unwrap();
        }
    }

    /// A range of a volume of so many bytes: whole blocks or not.
    fn range(&mut self, which: usize) -> (usize, usize) {
        let Model { block_bytes, bytes, .. } = &self.volumes[which];
        let (block, size) = (*block_bytes as usize, bytes.len());
        let at = self.dice.below(size as u64) as usize;
        let len = self.dice.below(block as u64 * 5) as usize;
        match self.dice.below(3) {
            0 => (at, len.min(size - at)),
            1 => (at / block * block, block),
            _ => (at / block * block, len.next_multiple_of(block).min(size - at / block * block)),
        }
    }

    async fn write(&mut self, which: usize) {
        let (at, len) = self.range(which);
        let data = self.dice.bytes(len);
        let volume = self.pool.open_volume(&self.volumes[which].name).await.unwrap();
        volume.write(at as u64, &data, self.dice.below(2) == 0).await.unwrap();
        self.volumes[which].bytes[at..at + len].copy_from_slice(&data);
        let size = volume.size_bytes();
        let past = volume.write(size - 1, &[1, 2], false).await;
        assert!(matches!(past, Err(pool::ZvolError::TooFar { .. })), "{past:?}");
    }

    async fn free(&mut self, which: usize) {
        let (at, mut len) = self.range(which);
        if self.dice.below(4) == 0 {
            len = self.volumes[which].bytes.len() - at;
        }
        let volume = self.pool.open_volume(&self.volumes[which].name).await.unwrap();
        volume.free(at as u64, len as u64, self.dice.below(2) == 0).await.unwrap();
        self.volumes[which].bytes[at..at + len].fill(0);
    }

    async fn resize(&mut self, which: usize) {
        let most = if self.volumes[which].block_bytes > 16 << 10 { 30 } else { BLOCKS_MAX };
        let size = (1 + self.dice.below(most)) * u64::from(self.volumes[which].block_bytes);
        self.pool.resize_volume(&self.volumes[which].name, size).await.unwrap();
        self.volumes[which].bytes.resize(size as usize, 0);
        let refused = self.pool.resize_volume(&self.volumes[which].name, size + 1).await;
        assert!(refused.is_err(), "no part of a block");
    }

    async fn snapshot(&mut self, which: usize) {
        let snapshot = self.name();
        let name = format!("{}@{snapshot}", self.volumes[which].name);
        self.pool.snapshot(vec![name.clone()], Vec::new()).await.unwrap();
        let bytes = self.volumes[which].bytes.clone();
        self.volumes[which].snapshots.push((name, bytes));
    }

    async fn roll_back(&mut self, which: usize) {
        let model = &mut self.volumes[which];
        let Some((snapshot, bytes)) = model.snapshots.last().cloned() else { return };
        let before = self.pool.open_volume(&model.name).await.unwrap();
        self.pool.rollback(model.name.clone(), snapshot).await.unwrap();
        model.bytes = bytes;
        let closed = before.write(0, &[1], false).await;
        assert!(matches!(closed, Err(pool::ZvolError::Closed)), "{closed:?}");
    }

    async fn clone_of(&mut self, which: usize) {
        let Some((snapshot, bytes)) = self.volumes[which].snapshots.first().cloned() else { return };
        let name = format!("whirl/{}", self.name());
        self.pool.clone_snapshot(snapshot, name.clone(), Vec::new()).await.unwrap();
        let block_bytes = self.volumes[which].block_bytes;
        self.volumes.push(Model { name, block_bytes, bytes, snapshots: Vec::new() });
    }

    async fn lose_snapshot(&mut self, which: usize) {
        let model = &mut self.volumes[which];
        let Some((snapshot, _)) = model.snapshots.first().cloned() else { return };
        match self.pool.destroy_snapshots(vec![snapshot], false).await {
            Ok(()) => drop(model.snapshots.remove(0)),
            Err(PoolError::Dsl(DslError::HasClones { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn destroy(&mut self, which: usize) {
        if self.volumes.len() <= 4 || !self.volumes[which].snapshots.is_empty() {
            return;
        }
        let gone = self.volumes.remove(which);
        self.pool.destroy_filesystem(&gone.name).await.unwrap();
        assert!(self.pool.open_volume(&gone.name).await.is_err());
    }

    /// Every volume holds what its model does.
    async fn check(&self) {
        for model in &self.volumes {
            let volume = self.pool.open_volume(&model.name).await.unwrap();
            assert!(contents(&volume).await == model.bytes, "{}", model.name);
            assert_eq!(volume.block_bytes(), model.block_bytes);
            for (name, bytes) in &model.snapshots {
                assert!(contents(&self.pool.volume(name).await.unwrap()).await == *bytes, "{name}");
            }
        }
    }

    /// What a power cut would leave here, after what was promised: the logs hold what no txg has.
    fn cut(&mut self, when: &str) -> Verdict {
        self.world.run(async {
            for model in &self.volumes {
                self.pool.open_volume(&model.name).await.unwrap().flush().await.unwrap();
            }
        });
        let world = self.world.copy();
        let pool = world.import();
        let (volumes, dice) = (self.volumes.clone(), Dice::new(1));
        let after = Lives { world, pool, volumes, dice, names: 0 };
        after.world.run(after.pool.replay_logs()).unwrap();
        after.world.run(after.check());
        after.world.export(&after.pool);
        after.world.check_aside(when)
    }
}

fn live(layout: Layout, seed: u64) {
    let mut lives = Lives::new(layout, seed);
    let mut verdicts = Vec::new();
    for round in 0..ROUNDS {
        let runner = lives.world.runner();
        runner.block_on(async {
            lives.step().await;
            if round % 5 == 4 {
                lives.check().await;
            }
        });
        if round % 30 == 29 {
            verdicts.push(lives.cut(&format!("seed {seed}, round {round}")));
        }
    }
    lives.world.export(&lives.pool);
    lives.world.check(&format!("seed {seed}, at the end"));
    verdicts.into_iter().for_each(|verdict| drop(verdict.wait()));
}

#[test]
fn volumes_of_a_stripe_live_as_their_models_do() {
    seeds(1).for_each(|seed| live(STRIPE, seed));
}

#[test]
fn volumes_of_a_mirror_with_a_log_live_as_their_models_do() {
    seeds(11).for_each(|seed| live(MIRROR, seed));
}

#[test]
fn volumes_of_a_raidz_live_as_their_models_do() {
    seeds(21).for_each(|seed| live(RAIDZ, seed));
}

/// The part of what `zdb` says that is about an object.
fn object<'a>(said: &'a str, kind: &str) -> &'a str {
    let line = said.lines().find(|line| line.ends_with(kind)).unwrap_or_else(|| panic!("no {kind}: {said}"));
    line.trim_start()
}

#[test]
fn a_new_volume_is_what_openzfs_makes() {
    let world = World::new(MIRROR);
    let pool = world.create();
    let spec = VolumeSpec { size_bytes: 1 << 30, block_bytes: 16 << 10 };
    world.run(pool.create_volume("whirl/v", spec, Vec::new())).unwrap();
    let spec = VolumeSpec { size_bytes: 1 << 30, block_bytes: 1000 };
    for bad in [VolumeSpec { size_bytes: 0, ..spec }, VolumeSpec { size_bytes: 1001, ..spec }] {
        assert!(world.run(pool.create_volume("whirl/bad", bad, Vec::new())).is_err());
    }
    world.export(&pool);
    world.check("a new volume");
    let said = Zdb::new(world.dir(), "whirl/v").run(&["-dddd"], &[]).unwrap();
    assert!(said.contains("[ZVOL]"), "{said}");
    // Object, levels, sizes of indirect and data blocks.
    let words: Vec<&str> = object(&said, "zvol object").split_whitespace().collect();
    assert_eq!(words[..4], ["1", "1", "128K", "16K"], "{said}");
    let words: Vec<&str> = object(&said, "zvol prop").split_whitespace().collect();
    assert_eq!(words[..4], ["2", "1", "128K", "512"], "{said}");
    assert!(said.contains("size = 1073741824"), "{said}");
}

#[test]
fn what_shrinking_took_away_does_not_come_back() {
    let world = World::new(STRIPE);
    let pool = world.create();
    let block = 4096;
    world.run(async {
        let spec = VolumeSpec { size_bytes: 100 * block, block_bytes: block as u32 };
        pool.create_volume("whirl/v", spec, Vec::new()).await.unwrap();
        let volume = pool.open_volume("whirl/v").await.unwrap();
        volume.write(0, &vec![7; 100 * block as usize], true).await.unwrap();
        // The log still has records that lead past the end.
        pool.resize_volume("whirl/v", 10 * block).await.unwrap();
        volume.write(9 * block, &[8; 4096], true).await.unwrap();
    });
    let cut = world.copy();
    let pool = cut.import();
    cut.run(async {
        pool.replay_logs().await.unwrap();
        pool.resize_volume("whirl/v", 50 * block).await.unwrap();
        let volume = pool.open_volume("whirl/v").await.unwrap();
        let bytes = contents(&volume).await;
        let (kept, new) = bytes.split_at(9 * block as usize);
        assert!(kept.iter().all(|&byte| byte == 7));
        assert!(new[..block as usize].iter().all(|&byte| byte == 8), "it was promised");
        assert!(new[block as usize..].iter().all(|&byte| byte == 0), "it was taken away");
    });
    cut.export(&pool);
    cut.check("after a crash");
}

#[test]
fn what_is_set_aside_for_a_volume_is_its_own() {
    let world = World::new(STRIPE);
    let pool = world.create();
    let mib = 1_u64 << 20;
    world.run(async {
        let spec = VolumeSpec { size_bytes: 64 * mib, block_bytes: 16 << 10 };
        let room = pool.volume_room(spec.size_bytes, spec.block_bytes);
        assert_eq!(room, 64 * mib + 2 * (7 + 5) * (128 << 10), "4096 blocks, 4 + 1 that point to them");
        let reserved = vec![("refreservation".to_owned(), PropValue::Number(room))];
        pool.create_volume("whirl/v", spec, reserved).await.unwrap();
        let usage = async || {
            let dataset = pool.dsl().resolve("whirl/v").await.unwrap();
            let dir = pool.dsl().dir(dataset.dir).await.unwrap();
            let part = dir.used_breakdown[ondisk::dsl::used::REFRESERVATION].get();
            (dir.used_bytes.get(), part)
        };
        let (used, unused) = usage().await;
        assert_eq!(used, room, "all of it counts");
        let volume = pool.open_volume("whirl/v").await.unwrap();
        let mut dice = Dice::new(5);
        let noise: Vec<u8> = (0..16 * mib).map(|_| dice.word() as u8).collect();
        volume.write(0, &noise, false).await.unwrap();
        pool.sync_now().await.unwrap();
        let (used, less) = usage().await;
        assert_eq!(used, room, "what is written was counted before");
        assert!(unused - less >= 16 * mib && unused - less < 17 * mib, "{unused} {less}");
        // A snapshot keeps what is written, and the volume keeps its claim to as much again.
        pool.snapshot(vec!["whirl/v@s".into()], Vec::new()).await.unwrap();
        let (used, again) = usage().await;
        assert!(again > less + 16 * mib && used >= room + 16 * mib, "{used} {again}");
        let all = vec![("refreservation".to_owned(), PropValue::Number(1 << 40))];
        let spec = VolumeSpec { size_bytes: 1 << 40, ..spec };
        let full = pool.create_volume("whirl/w", spec, all).await;
        assert!(matches!(full, Err(PoolError::Dsl(DslError::NoSpace { .. }))), "{full:?}");
        assert!(pool.dsl().resolve("whirl/w").await.is_err(), "nothing was made");
        pool.create_volume("whirl/sparse", spec, Vec::new()).await.unwrap();
    });
    world.export(&pool);
    world.check("at the end");
}
