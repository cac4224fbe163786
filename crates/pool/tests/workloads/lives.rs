//! Random lives of datasets: snapshots, clones, promotions, rollbacks, each with its files, against models of all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dsl::{DatasetName, DslError};
use pool::{Pool, PoolError};
use units::ObjectId;

use crate::dice::Dice;
use crate::layouts::seeds;
use crate::tree::Tree;
use crate::world::{Layout, Verdict, World};

const ROUNDS: usize = 60;
const STRIPE: Layout = Layout::new(&[&["a"], &["b"]], &[], 9);
const MIRROR: Layout = Layout::new(&[&["a", "b"]], &[&["l"]], 12);
const RAIDZ: Layout = Layout { parity: 1, ..Layout::new(&[&["a", "b", "c"]], &[], 9) };

/// What every dataset holds, by its object: heads and snapshots.
#[derive(Clone)]
struct Model(BTreeMap<ObjectId, Tree>);

struct Lives {
    world: World,
    pool: Arc<Pool>,
    model: Model,
    dice: Dice,
    names: usize,
}

impl Lives {
    fn new(layout: Layout, seed: u64) -> Self {
        let world = World::new(layout);
        let pool = world.create();
        let root = world.run(pool.dsl().resolve("whirl")).unwrap();
        let tree = world.run(Tree::of_empty(&world.zfs(&pool, "whirl")));
        let model = Model(BTreeMap::from([(root.dataset, tree)]));
        Self { world, pool, model, dice: Dice::new(seed), names: 0 }
    }

    async fn heads(&self) -> Vec<DatasetName> {
        self.pool.dsl().list("whirl").await.unwrap()
    }

    async fn snapshots(&self) -> Vec<DatasetName> {
        let mut all = Vec::new();
        for head in self.heads().await {
            all.extend(self.pool.dsl().snapshots(&head).await.unwrap());
        }
        all
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    fn one_of(&mut self, all: &[DatasetName]) -> Option<DatasetName> {
        if all.is_empty() { None } else { Some(all[self.dice.below(all.len() as u64) as usize].clone()) }
    }

    async fn step(&mut self) {
        let (heads, snapshots) = (self.heads().await, self.snapshots().await);
        let head = self.one_of(&heads).expect("the root is there");
        let snapshot = self.one_of(&snapshots);
        match (self.dice.below(20), snapshot) {
            (0..=6, _) => self.work(&head).await,
            (7..=9, _) => self.snapshot(&[head]).await,
            (10, _) => self.snapshot(&heads).await,
            (11, _) => self.roll_back(&head).await,
            (12, _) => self.destroy(&head).await,
            (13..=14, _) => self.promote(&head).await,
            (15..=16, Some(snapshot)) => self.clone_of(&snapshot).await,
            (17..=19, Some(snapshot)) => self.destroy_snapshot(&snapshot).await,
            _ => self.work(&head).await,
        }
    }

    async fn work(&mut self, head: &DatasetName) {
        let zfs = Arc::clone(&self.pool.filesystem(&head.name).await.unwrap().zfs);
        let tree = self.model.0.get_mut(&head.dataset).expect("every head has a model");
        tree.steps(&zfs, &mut self.dice, 12).await;
        tree.close_orphans(&zfs).await;
        if self.dice.below(3) == 0 {
            self.pool.sync_now().await.unwrap();
        }
    }

    async fn snapshot(&mut self, of: &[DatasetName]) {
        let name = self.name();
        let names: Vec<String> = of.iter().map(|head| format!("{}@{name}", head.name)).collect();
        self.pool.snapshot(names.clone(), Vec::new()).await.unwrap();
        for (head, name) in of.iter().zip(&names) {
            let made = self.pool.dsl().resolve(name).await.unwrap();
            self.model.0.insert(made.dataset, self.model.0[&head.dataset].clone());
        }
    }

    async fn roll_back(&mut self, head: &DatasetName) {
        let before = self.pool.dsl().dataset(head.dataset).await.unwrap().prev_snapshot.get();
        let before = ObjectId::new(before);
        let own = self.pool.dsl().snapshots(head).await.unwrap();
        if let Some(latest) = own.into_iter().find(|snapshot| snapshot.dataset == before) {
            self.pool.rollback(head.name.clone(), latest.name).await.unwrap();
            self.model.0.insert(head.dataset, self.model.0[&before].clone());
        }
    }

    async fn destroy(&mut self, head: &DatasetName) {
        match self.pool.destroy_filesystem(&head.name).await {
            Ok(()) => drop(self.model.0.remove(&head.dataset)),
            Err(PoolError::Dsl(
                DslError::HasSnapshots { .. } | DslError::HasChildren { .. } | DslError::InUse { .. },
            )) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn promote(&mut self, head: &DatasetName) {
        match self.pool.promote(head.name.clone()).await {
            Ok(()) | Err(PoolError::Dsl(DslError::NotClone { .. } | DslError::Exists { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn clone_of(&mut self, snapshot: &DatasetName) {
        let name = format!("whirl/{}", self.name());
        self.pool.clone_snapshot(snapshot.name.clone(), name.clone(), Vec::new()).await.unwrap();
        let made = self.pool.dsl().resolve(&name).await.unwrap();
        self.model.0.insert(made.dataset, self.model.0[&snapshot.dataset].clone());
    }

    async fn destroy_snapshot(&mut self, snapshot: &DatasetName) {
        let later = self.dice.below(2) == 0;
        let mut names = vec![snapshot.name.clone()];
        if self.dice.below(3) == 0 {
            // With all that are of the same dataset, or none of them if one cannot go.
            let (head, _) = snapshot.name.split_once('@').expect("a snapshot's name");
            let head = self.pool.dsl().resolve(head).await.unwrap();
            let all = self.pool.dsl().snapshots(&head).await.unwrap();
            names = all.into_iter().map(|snapshot| snapshot.name).collect();
        }
        match self.pool.destroy_snapshots(names, later).await {
            Ok(()) | Err(PoolError::Dsl(DslError::HasClones { .. })) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Every dataset holds what its model does; models of those that are gone are given up.
    async fn check(&mut self) {
        let mut there = BTreeSet::new();
        for head in self.heads().await {
            let fs = self.pool.filesystem(&head.name).await.unwrap();
            self.model.0[&head.dataset].check(&fs.zfs).await;
            there.insert(head.dataset);
        }
        for snapshot in self.snapshots().await {
            let fs = self.pool.snapshot_filesystem(&snapshot.name).await.unwrap();
            self.model.0[&snapshot.dataset].check(&fs.zfs).await;
            there.insert(snapshot.dataset);
        }
        self.model.0.retain(|object, _| there.contains(object));
    }

    /// What a power cut would leave here: all of it, for all of it is stable.
    fn cut(&mut self, when: &str) -> Verdict {
        self.world.run(self.pool.sync_now()).unwrap();
        let world = self.world.copy();
        let pool = world.import();
        let mut after =
            Lives { world, pool, model: self.model.clone(), dice: Dice::new(1), names: 1000 + self.names };
        let runner = after.world.runner();
        runner.block_on(after.check());
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
        if round % 20 == 19 {
            verdicts.push(lives.cut(&format!("seed {seed}, round {round}")));
        }
    }
    lives.world.export(&lives.pool);
    lives.world.check(&format!("seed {seed}, at the end"));
    verdicts.into_iter().for_each(|verdict| drop(verdict.wait()));
}

#[test]
fn datasets_of_a_stripe_live_as_their_models_do() {
    seeds(1).for_each(|seed| live(STRIPE, seed));
}

#[test]
fn datasets_of_a_mirror_with_a_log_live_as_their_models_do() {
    seeds(11).for_each(|seed| live(MIRROR, seed));
}

#[test]
fn datasets_of_a_raidz_live_as_their_models_do() {
    seeds(21).for_each(|seed| live(RAIDZ, seed));
}
