//! Many datasets open, few in use.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use device::{Options, RealEnv};
use env::Env;
use futures::future::try_join_all;
use oracle::zdb::Zdb;
use pool::{ImportSpec, Pool, PoolError, PoolSpec, Tuning};
use tempfile::TempDir;
use units::ObjectId;
use vdev::{NewVdev, PoolState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

const NAME: &str = "throng";
const DATASETS: usize = 300;
/// A log rests a few txgs after its last use.
const GROUPS_TO_REST: usize = 6;

struct World {
    env: Arc<RealEnv>,
    dir: TempDir,
    path: PathBuf,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("disk");
        std::fs::File::create(&path).unwrap().set_len(768 << 20).unwrap();
        Self { env: RealEnv::new(Options::default()), dir, path }
    }

    fn create(&self) -> Arc<Pool> {
        let disk = NewVdev {
            paths: vec![self.path.clone()],
            ashift: None,
            bias: vdev::Bias::log(false),
            create_txg: 4,
            parity: 0,
            ..NewVdev::default()
        };
        let spec = PoolSpec {
            name: NAME.into(),
            stored_name: None,
            vdevs: vec![disk],
            root_props: vec![],
            comment: None,
            force: false,
        };
        let env: Arc<dyn Env> = self.env.clone();
        // Txgs come when a test asks for them: a copy taken while one is written would be of no moment that ever was.
        let tuning = Tuning { txg_timeout: Duration::from_secs(3600), ..Tuning::default() };
        self.env.block_on(Pool::create(env, spec, tuning)).unwrap()
    }

    fn import(&self) -> Arc<Pool> {
        let spec = ImportSpec { paths: vec![self.path.clone()], ..ImportSpec::default() };
        let env: Arc<dyn Env> = self.env.clone();
        self.env.block_on(Pool::import(env, &spec, Tuning::default())).unwrap()
    }

    fn copy(&self) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("disk");
        std::fs::copy(&self.path, &path).unwrap();
        Self { env: Arc::clone(&self.env), dir, path }
    }

    fn check(&self) {
        if let Err(error) = Zdb::new(self.dir.path(), NAME).check() {
            panic!("{error}");
        }
    }
}

fn name(number: usize) -> String {
    format!("{NAME}/d{number}")
}

/// Datasets with one file each, all made side by side.
async fn make(pool: &Arc<Pool>) -> Result<Vec<(Arc<Zfs>, ObjectId)>, PoolError> {
    try_join_all((0..DATASETS).map(|number| async move {
        pool.create_filesystem(&name(number), Vec::new()).await?;
        let zfs = Arc::clone(&pool.filesystem(&name(number)).await?.zfs);
        let file = zfs.create(zfs.root(), b"file", NewNode::File, 0o600, Cred::default()).await?.object;
        write(&zfs, file, number as u64, true).await?;
        Ok((zfs, file))
    }))
    .await
}

async fn write(zfs: &Zfs, file: ObjectId, value: u64, sync: bool) -> Result<(), PoolError> {
    let flags = WriteFlags { sync, ..WriteFlags::default() };
    zfs.write(file, 0, &value.to_le_bytes(), flags).await?;
    Ok(())
}

async fn read(pool: &Arc<Pool>, number: usize) -> u64 {
    let zfs = Arc::clone(&pool.filesystem(&name(number)).await.unwrap().zfs);
    let file = zfs.lookup(zfs.root(), b"file").await.unwrap().object;
    let mut bytes = [0; 8];
    zfs.read(file, 0, &mut bytes).await.unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn a_group_costs_what_is_used_and_not_what_is_open() {
    let world = World::new();
    let pool = world.create();
    world.env.block_on(async {
        let before = pool.txgs().synced_txg();
        let made = make(&pool).await.unwrap();
        let groups = pool.txgs().synced_txg().get() - before.get();
        assert!(groups < DATASETS as u64 / 4, "{groups} groups for {DATASETS} datasets made side by side");
        for _ in 0..GROUPS_TO_REST {
            pool.sync_now().await.unwrap();
        }
        let idle = pool.datasets_attended();
        for _ in 0..5 {
            pool.sync_now().await.unwrap();
        }
        assert_eq!(pool.datasets_attended() - idle, 0, "nobody uses anything");
        let (zfs, file) = &made[DATASETS / 2];
        for value in 0..5 {
            write(zfs, *file, value, true).await.unwrap();
            pool.sync_now().await.unwrap();
        }
        let attended = pool.datasets_attended() - idle;
        // Its log before and after, what was written, its log's header.
        assert!((5..=5 * 4).contains(&attended), "attended to {attended} for one dataset in five groups");
        pool.close(PoolState::Exported).await.unwrap();
    });
    world.check();
}

/// Which datasets are written to in a round, and how: some with a commit, some without; every one
/// rests for rounds, and comes back.
fn joins(number: usize, round: u64) -> bool {
    (number as u64).wrapping_mul(0x9e37_79b9).wrapping_add(round * 7).is_multiple_of(11)
}

#[test]
fn datasets_that_come_back_from_rest_lose_nothing() {
    let world = World::new();
    let pool = world.create();
    let mut expected: Vec<u64> = (0..DATASETS as u64).collect();
    world.env.block_on(async {
        let made = make(&pool).await.unwrap();
        for round in 1..40 {
            let (pool, made) = (&pool, &made);
            let joined: Vec<usize> = (0..DATASETS).filter(|&number| joins(number, round)).collect();
            // Half of the rounds have their txgs turn while they write.
            let turning = async {
                for _ in 0..if round % 2 == 0 { 4 } else { 0 } {
                    pool.sync_now().await?;
                }
                Ok::<_, PoolError>(())
            };
            let writing = try_join_all(joined.iter().map(|&number| {
                let (zfs, file) = &made[number];
                write(zfs, *file, round * 1000 + number as u64, number % 2 == 0)
            }));
            futures::try_join!(turning, writing).unwrap();
            joined.iter().for_each(|&number| expected[number] = round * 1000 + number as u64);
            if round % 5 == 0 {
                pool.sync_now().await.unwrap();
            }
        }
        // What was not written stably must only have its txg.
        pool.sync_now().await.unwrap();
        for number in (0..DATASETS).step_by(3) {
            let (zfs, file) = &made[number];
            write(zfs, *file, 77_000 + number as u64, true).await.unwrap();
            expected[number] = 77_000 + number as u64;
        }
    });
    // As a power cut now would leave it: logs have something to replay.
    let crashed = world.copy();
    world.env.block_on(pool.close(PoolState::Destroyed)).unwrap();
    crashed.check();
    let (world, pool) = (&crashed, crashed.import());
    world.env.block_on(async {
        for (number, value) in expected.iter().enumerate() {
            assert_eq!(read(&pool, number).await, *value, "dataset {number}");
        }
        pool.close(PoolState::Exported).await.unwrap();
    });
    world.check();
}
