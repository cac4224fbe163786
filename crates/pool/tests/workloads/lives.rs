//! Random lives of datasets, of file systems and volumes: worked on, kept, held, bookmarked, rolled back, cloned, promoted,
//! renamed, sent and received, limited, destroyed, against a plain model of all.
//!
//! ```text
//!  a step, drawn ─► pool
//!       └─────────► model ══ names, origins, holds, bookmarks, counts, contents; and space, as the blocks add up
//! ```
//! A power cut is a copy of the files after all was committed: logs have what no txg has, and are replayed.

pub mod bytes;
mod family;
mod model;
mod past;
mod space;
mod transfers;

use std::sync::Arc;

use dsl::{Counted, DslError, PropValue};
use pool::{Pool, PoolError, VolumeSpec};
use zpl::{QuotaFor, QuotaOf};

use self::model::{Contents, Head, Model};
use crate::dice::Dice;
use crate::layouts::seeds;
use crate::tree::Tree;
use crate::world::{Layout, Verdict, World};

const ROUNDS: usize = 100;
/// So many datasets, and then some go before there are more.
const HEADS_MAX: usize = 14;
const ROOT: &str = "whirl";
const THROUGHPUT: u64 = 1;
const COMPRESSION_OFF: u64 = 2;
/// No limit that is set here is ever met.
const FAR_BYTES: u64 = 1 << 40;

struct Lives {
    world: World,
    pool: Arc<Pool>,
    model: Model,
    dice: Dice,
    names: usize,
    /// Streams that were received, whole or in parts.
    received: usize,
}

impl Lives {
    fn new(layout: Layout, seed: u64) -> Self {
        let world = World::new(layout);
        let pool = world.create();
        let mut lives =
            Self { world, pool, model: Model::default(), dice: Dice::new(seed), names: 0, received: 0 };
        let runner = lives.world.runner();
        runner.block_on(async {
            lives.know_filesystem(ROOT).await;
            let kinds: [(u32, &[(&str, u64)]); 3] = [
                (512, &[("compression", COMPRESSION_OFF)]),
                (4096, &[("logbias", THROUGHPUT), ("copies", 2)]),
                (256 << 10, &[("sync", 1)]),
            ];
            for (block_bytes, props) in kinds {
                lives.create_volume(block_bytes, props).await;
            }
        });
        lives
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    /// Adds a new file system to the model.
    async fn know_filesystem(&mut self, name: &str) {
        let object = self.pool.dsl().resolve(name).await.unwrap().dataset;
        let tree = Tree::of_empty(&self.pool.filesystem(name).await.unwrap().zfs).await;
        self.model.heads.insert(name.to_owned(), Head::new(object, Contents::of(tree)));
    }

    async fn create_filesystem(&mut self) {
        let parent = self.some_filesystem();
        let name = format!("{parent}/{}", self.name());
        self.pool.create_filesystem(&name, Vec::new()).await.unwrap();
        self.know_filesystem(&name).await;
    }

    async fn create_volume(&mut self, block_bytes: u32, props: &[(&str, u64)]) {
        let name = format!("{ROOT}/{}", self.name());
        let size_bytes = (1 + self.dice.below(bytes::blocks_max(block_bytes))) * u64::from(block_bytes);
        let props = props.iter().map(|&(name, value)| (name.to_owned(), PropValue::Number(value))).collect();
        self.pool.create_volume(&name, VolumeSpec { size_bytes, block_bytes }, props).await.unwrap();
        let object = self.pool.dsl().resolve(&name).await.unwrap().dataset;
        let contents = Contents::Volume { block_bytes, bytes: vec![0; size_bytes as usize] };
        self.model.heads.insert(name, Head::new(object, contents));
    }

    fn some_head(&mut self) -> String {
        let names: Vec<&String> = self.model.heads.keys().collect();
        self.dice.pick(&names).expect("the root is there").clone()
    }

    fn some_filesystem(&mut self) -> String {
        let heads = self.model.heads.iter().filter(|(_, head)| head.contents.is_files());
        let names: Vec<&String> = heads.map(|(name, _)| name).collect();
        self.dice.pick(&names).expect("the root is there").clone()
    }

    async fn step(&mut self) {
        let head = self.some_head();
        match self.dice.below(48) {
            0..14 => self.work(&head).await,
            14 => self.set_quota().await,
            15 => self.reserve(&head).await,
            16 => self.limit(&head).await,
            17..21 => self.snapshot(&[head]).await,
            21 => self.snapshot(&self.model.heads.keys().cloned().collect::<Vec<_>>()).await,
            22 => self.roll_back(&head).await,
            23 => self.roll_far_back(&head).await,
            24..27 => self.promote(&head).await,
            27 => self.rename(&head).await,
            28 => self.rename_snapshots().await,
            29..34 => self.destroy_snapshots(&head).await,
            34 => self.hold().await,
            35 => self.release().await,
            36..38 => self.bookmark().await,
            38 => self.destroy_bookmark(&head).await,
            39 => self.destroy(&head).await,
            _ if self.model.heads.len() > HEADS_MAX => self.destroy(&head).await,
            40..43 => self.clone_of().await,
            43..46 => self.transfer().await,
            46 => self.create_filesystem().await,
            _ => self.create_volume(16 << 10, &[]).await,
        }
        if self.dice.below(8) == 0 {
            self.pool.sync_now().await.unwrap();
        }
    }

    async fn work(&mut self, name: &str) {
        let head = self.model.heads.get_mut(name).expect("every head has a model");
        match &mut head.contents {
            Contents::Files { tree, .. } => {
                let zfs = Arc::clone(&self.pool.filesystem(name).await.unwrap().zfs);
                tree.steps(&zfs, &mut self.dice, 12).await;
                tree.close_orphans(&zfs).await;
            }
            Contents::Volume { block_bytes, bytes } => {
                for _ in 0..3 {
                    bytes::change(&self.pool, name, *block_bytes, bytes, &mut self.dice).await;
                }
            }
        }
    }

    /// A quota of somebody's, by number; it is of the file system's contents.
    async fn set_quota(&mut self) {
        let name = self.some_filesystem();
        let kind = [(QuotaOf::User, QuotaFor::Space), (QuotaOf::Group, QuotaFor::Objects)]
            [self.dice.below(2) as usize];
        let (id, limit) = (self.dice.below(3), self.dice.below(3) * FAR_BYTES);
        let zfs = Arc::clone(&self.pool.filesystem(&name).await.unwrap().zfs);
        zfs.set_quota(kind, id, limit).await.unwrap();
        // No log has it.
        self.pool.sync_now().await.unwrap();
        let head = self.model.heads.get_mut(&name).expect("every head has a model");
        head.contents.set_quota(kind, id, limit);
    }

    async fn reserve(&mut self, name: &str) {
        let bytes = self.dice.below(3) << 20;
        let value = PropValue::Number(bytes);
        self.pool.set_prop(name, "refreservation", Some(value)).await.unwrap();
        self.model.heads.get_mut(name).expect("every head has a model").reserved_bytes = bytes;
    }

    /// From now on all below a dataset is counted.
    async fn limit(&mut self, name: &str) {
        let what = if self.dice.below(2) == 0 { Counted::Filesystems } else { Counted::Snapshots };
        self.pool.set_prop(name, what.limit(), Some(PropValue::Number(FAR_BYTES))).await.unwrap();
        self.model.heads.get_mut(name).expect("every head has a model").is_counted = true;
    }

    /// What a power cut would leave here, after what was promised.
    fn cut(&self, when: &str) -> Verdict {
        let runner = self.world.runner();
        runner.block_on(async {
            for (name, head) in &self.model.heads {
                match head.contents.is_files() {
                    true => self.pool.filesystem(name).await.unwrap().zfs.sync().await.unwrap(),
                    false => self.pool.open_volume(name).await.unwrap().flush().await.unwrap(),
                }
            }
        });
        let world = self.world.copy();
        let pool = world.import();
        runner.block_on(async {
            pool.replay_logs().await.unwrap();
            self.model.check(&pool).await;
        });
        world.export(&pool);
        world.check_aside(when)
    }
}

fn live(layout: Layout, seed: u64) {
    let mut lives = Lives::new(layout, seed);
    let runner = lives.world.runner();
    let mut verdicts = Vec::new();
    for round in 1..=ROUNDS {
        runner.block_on(async {
            lives.step().await;
            if round % 10 == 0 {
                lives.model.check(&lives.pool).await;
            }
        });
        if round % 50 == 0 {
            verdicts.push(lives.cut(&format!("seed {seed}, round {round}")));
        }
    }
    assert!(lives.received > 0, "seed {seed}: nothing was received");
    lives.world.export(&lives.pool);
    lives.world.check(&format!("seed {seed}, at the end"));
    verdicts.into_iter().for_each(|verdict| drop(verdict.wait()));
}

#[test]
fn datasets_of_a_stripe_live_as_their_model_does() {
    seeds(1).for_each(|seed| live(Layout::new(&[&["a"], &["b"]], &[], 9), seed));
}

#[test]
fn datasets_of_a_mirror_with_a_log_live_as_their_model_does() {
    seeds(11).for_each(|seed| live(Layout::new(&[&["a", "b"]], &[&["l"]], 12), seed));
}

#[test]
fn datasets_of_a_raidz_live_as_their_model_does() {
    let raidz = |parity, devices| Layout { parity, device_mib: 512, ..Layout::new(devices, &[], 9) };
    seeds(21).for_each(|seed| live(raidz(1, &[&["a", "b", "c"]]), seed));
    seeds(22).for_each(|seed| live(raidz(2, &[&["a", "b", "c", "d"]]), seed));
    seeds(23).for_each(|seed| live(raidz(3, &[&["a", "b", "c", "d", "e"]]), seed));
}

#[test]
fn datasets_of_a_draid_live_as_their_model_does() {
    let draid = |parity, columns, devices, ashift| Layout {
        parity,
        columns,
        device_mib: 512,
        ..Layout::new(devices, &[], ashift)
    };
    seeds(41).for_each(|seed| live(draid(1, 2, &[&["a", "b", "c", "d", "e"]], 9), seed));
    seeds(42).for_each(|seed| live(draid(2, 3, &[&["a", "b", "c", "d", "e"]], 12), seed));
}

#[test]
fn datasets_of_a_pool_with_devices_for_all_there_is_live_as_their_model_does() {
    let classes = Layout {
        special: &[&["s", "t"]],
        dedup: &[&["d"]],
        special_mib: 256,
        ..Layout::new(&[&["a"], &["b"]], &[&["l", "m"]], 12)
    };
    seeds(31).for_each(|seed| live(classes, seed));
}

/// What keeps a snapshot is asked here, too, whoever has asked before.
#[test]
fn a_held_snapshot_is_not_destroyed_and_nobody_goes_back_past_a_bookmark() {
    let world = World::new(Layout::new(&[&["a"]], &[], 12));
    let pool = world.create();
    world.run(async {
        let all = |name: &str| vec![name.to_owned()];
        pool.snapshot(all("whirl@a"), Vec::new()).await.unwrap();
        pool.hold("tag".to_owned(), all("whirl@a")).await.unwrap();
        let held = pool.destroy_snapshots(all("whirl@a"), false).await;
        assert!(matches!(held, Err(PoolError::Dsl(DslError::HasHolds { .. }))), "{held:?}");
        pool.snapshot(all("whirl@b"), Vec::new()).await.unwrap();
        pool.bookmark("whirl@b".to_owned(), "whirl#b".to_owned()).await.unwrap();
        pool.destroy_snapshots(all("whirl@b"), false).await.unwrap();
        let past = pool.rollback("whirl".to_owned(), "whirl@a".to_owned()).await;
        assert!(matches!(past, Err(PoolError::Dsl(DslError::NotLatest { .. }))), "{past:?}");
        pool.destroy_bookmark("whirl#b".to_owned()).await.unwrap();
        pool.rollback("whirl".to_owned(), "whirl@a".to_owned()).await.unwrap();
    });
    world.export(&pool);
    world.check("rolled back");
}
