//! What is done to datasets, in an order drawn from a seed, with the power cut at each flush of each: snapshots of all at
//! once, ranges destroyed, holds, bookmarks, clones, promotions, rollbacks, other names, quotas, volumes resized, blocks
//! shared. (Streams are in `receives`: they take several txgs.)

use std::sync::Arc;

use dsl::DatasetName;
use env::BoxFuture;
use pool::{Pool, PoolError, VolumeSpec};
use zpl::{Cred, FilePlace, NewNode, QuotaFor, QuotaOf, WriteFlags};

use crate::cuts::Cuts;
use crate::dice::Dice;
use crate::shape::{DRAID, MIRRORED_LOG, POOL, RAIDZ, STRIPE, Shape};
use crate::story::{Tell, run, tell};

/// So many are tried of each history; what cannot be done changes nothing.
const CHANGES: usize = 30;
/// Of each change so many images are imported.
const IMAGES: usize = 8;

/// Something that may be done to a pool.
type Change = BoxFuture<'static, Result<(), PoolError>>;

/// What there is that something can be done to.
struct There {
    pool: Arc<Pool>,
    heads: Vec<DatasetName>,
    /// The oldest first, of each head.
    snapshots: Vec<Vec<String>>,
    number: usize,
}

impl There {
    async fn look(pool: &Arc<Pool>, number: usize) -> Self {
        let heads = pool.dsl().list(POOL).await.expect("it lists");
        let mut snapshots = Vec::new();
        for head in &heads {
            let names = pool.dsl().snapshots(head).await.expect("they are listed").into_iter();
            let names: Vec<String> = names.map(|snapshot| snapshot.name).collect();
            let sorted = pool.dsl().oldest_first(&names).await.expect("they are there");
            snapshots.push(sorted.into_iter().map(|snapshot| snapshot.name).collect());
        }
        Self { pool: Arc::clone(pool), heads, snapshots, number }
    }

    fn some_head(&self, dice: &mut Dice) -> (String, Vec<String>) {
        let which = dice.below(self.heads.len() as u64) as usize;
        (self.heads[which].name.clone(), self.snapshots[which].clone())
    }

    fn some_snapshot(&self, dice: &mut Dice) -> Option<String> {
        let all: Vec<&String> = self.snapshots.iter().flatten().collect();
        dice.pick(&all).map(|name| (*name).clone())
    }

    fn draw(&self, dice: &mut Dice) -> Option<(&'static str, Change)> {
        let (pool, number) = (Arc::clone(&self.pool), self.number);
        let (head, own) = self.some_head(dice);
        let new = format!("{POOL}/n{number}");
        Some(match dice.below(16) {
            0 | 1 => {
                let names = self.heads.iter().map(|head| format!("{}@n{number}", head.name)).collect();
                ("snapshots of all", Box::pin(async move { pool.snapshot(names, Vec::new()).await }))
            }
            2 => {
                let names = vec![format!("{head}@n{number}")];
                ("a snapshot", Box::pin(async move { pool.snapshot(names, Vec::new()).await }))
            }
            3 | 4 => {
                let first = dice.below(own.len().max(1) as u64) as usize;
                let (names, later) = (own.get(first..)?.to_vec(), dice.one_in(2));
                ("a range destroyed", Box::pin(async move { pool.destroy_snapshots(names, later).await }))
            }
            5 => {
                let name = self.some_snapshot(dice)?;
                ("a hold", Box::pin(async move { pool.hold("tag".to_owned(), vec![name]).await }))
            }
            6 => {
                let name = self.some_snapshot(dice)?;
                ("a release", Box::pin(async move { pool.release("tag".to_owned(), vec![name]).await }))
            }
            7 => {
                let name = self.some_snapshot(dice)?;
                let mark = format!("{}#n{number}", name.split('@').next()?);
                ("a bookmark", Box::pin(async move { pool.bookmark(name, mark).await }))
            }
            8 | 9 => {
                let name = self.some_snapshot(dice)?;
                ("a clone", Box::pin(async move { pool.clone_snapshot(name, new, Vec::new()).await }))
            }
            10 => ("a promotion", Box::pin(async move { pool.promote(head).await })),
            11 => {
                let latest = own.last()?.clone();
                ("a rollback", Box::pin(async move { pool.rollback(head, latest).await }))
            }
            12 => {
                let old = self.some_snapshot(dice)?;
                let ending = format!("@{}", old.split('@').nth(1)?);
                let all = self.snapshots.iter().flatten().filter(|name| name.ends_with(&ending));
                let renamed = |name: &String| (name.clone(), name.replace(&ending, &format!("@n{number}")));
                let pairs: Vec<_> = all.map(renamed).collect();
                ("other names", Box::pin(async move { pool.rename_snapshots(pairs).await }))
            }
            13 => {
                let to = format!("{}/n{number}", self.some_head(dice).0);
                ("another place", Box::pin(async move { pool.rename_dataset(&head, &to).await }))
            }
            14 => ("a quota", Box::pin(async move { set_quota(&pool, &head, number).await })),
            _ => ("shared blocks", Box::pin(async move { share(&pool, &head, number).await })),
        })
    }
}

/// Volumes are nobody's.
async fn set_quota(pool: &Arc<Pool>, name: &str, number: usize) -> Result<(), PoolError> {
    let fs = pool.filesystem(name).await?;
    fs.zfs.set_quota((QuotaOf::User, QuotaFor::Space), 7, (1 << 40) + number as u64).await?;
    pool.sync_now().await
}

/// A new file shares the blocks of the pool's first one; a volume gets another size.
async fn share(pool: &Arc<Pool>, name: &str, number: usize) -> Result<(), PoolError> {
    let fs = match pool.filesystem(name).await {
        Ok(fs) => fs,
        Err(PoolError::NotFilesystem { .. }) => {
            return pool.resize_volume(name, (1 + number as u64 % 50) * 8192).await;
        }
        Err(error) => return Err(error),
    };
    let root = pool.filesystem(POOL).await?;
    let kept = root.zfs.lookup(root.zfs.root(), b"kept").await?.object;
    let (dir, name) = (fs.zfs.root(), format!("g{number}"));
    let made = fs.zfs.create(dir, name.as_bytes(), NewNode::File, 0o644, Cred::default()).await?;
    let place = FilePlace { zfs: &root.zfs, object: kept, offset: 0 };
    fs.zfs.clone_range(place, (made.object, 0), u64::MAX, WriteFlags::default()).await?;
    pool.sync_now().await
}

/// Draws changes and makes those that can be made; how many were.
fn live(shape: &'static Shape, seed: u64) -> usize {
    let mut cuts = Cuts::with_images(shape, seed, IMAGES);
    let (pool, _) = cuts.make();
    let (begun, recording) = cuts.record("begin", async {
        let spec = VolumeSpec { size_bytes: 1 << 18, block_bytes: 8192 };
        pool.create_volume("whirl/v", spec, Vec::new()).await?;
        pool.create_filesystem("whirl/a", Vec::new()).await
    });
    begun.expect("nothing is in its way");
    let mut before = cuts.state_after(&recording);
    let mut dice = Dice::new(seed, 5);
    let mut made = 0;
    for number in 0..CHANGES {
        let there = run(&cuts.sim, There::look(&pool, number));
        let Some((what, change)) = there.draw(&mut dice) else { continue };
        let name = format!("{number}, {what}");
        tell(format!("seed {seed}, \"{}\", {name}", shape.name));
        let (done, recording) = cuts.record(&name, change);
        match done {
            Ok(()) if cuts.differs(&recording, &before) => {
                before = cuts.judge(&name, &recording, before);
                made += 1;
            }
            Ok(()) => {}
            Err(error) => assert!(
                matches!(error, PoolError::Dsl(_) | PoolError::NotFilesystem { .. }),
                "{name}: {error}"
            ),
        }
    }
    println!("\"{}\": {made} changes, {} images of {} cuts", shape.name, cuts.images, cuts.cuts.len());
    made
}

fn lives(shape: &'static Shape, seed: u64) {
    let _tell = Tell;
    let made = live(shape, seed);
    assert!(made > CHANGES / 3, "{made} changes");
}

#[test]
fn a_power_cut_amid_a_history_of_datasets_leaves_what_was_or_what_is_to_be() {
    lives(&STRIPE, 61_000);
}

#[test]
fn a_power_cut_amid_a_history_of_datasets_on_a_raidz_leaves_what_was_or_what_is_to_be() {
    lives(&RAIDZ, 61_001);
}

#[test]
fn a_power_cut_amid_a_history_of_datasets_on_mirrors_leaves_what_was_or_what_is_to_be() {
    lives(&MIRRORED_LOG, 61_002);
}

#[test]
fn a_power_cut_amid_a_history_of_datasets_on_a_draid_leaves_what_was_or_what_is_to_be() {
    lives(&DRAID, 61_003);
}
