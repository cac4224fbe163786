//! Cache devices on real files, judged by `zdb`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use device::{Options, RealEnv};
use env::Env;
use l2arc::CacheDeviceStats;
use oracle::zdb::Zdb;
use pool::{Absence, ImportSpec, Pool, PoolSpec, Tuning};
use tempfile::TempDir;
use units::{Guid, ObjectId};
use vdev::{NewVdev, PoolState, VdevState};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

const POOL_BYTES: u64 = 512 << 20;
/// Far less than is read.
const MEMORY_BYTES: u64 = 16 << 20;
const BLOCK_BYTES: usize = 128 << 10;
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    env: Arc<RealEnv>,
    dir: TempDir,
}

impl World {
    fn new(cache_bytes: u64) -> Self {
        let world = Self { env: RealEnv::new(Options::default()), dir: TempDir::new().unwrap() };
        for (name, bytes) in [("a", POOL_BYTES), ("k", cache_bytes)] {
            std::fs::File::create(world.path(name)).unwrap().set_len(bytes).unwrap();
        }
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn env(&self) -> Arc<dyn Env> {
        self.env.clone()
    }

    fn create(&self) -> Arc<Pool> {
        let vdevs = vec![NewVdev { paths: vec![self.path("a")], ..NewVdev::default() }];
        let spec = PoolSpec {
            name: "whirl".into(),
            stored_name: None,
            vdevs,
            root_props: vec![],
            comment: None,
            force: false,
        };
        self.env.block_on(Pool::create(self.env(), spec, tuning())).unwrap()
    }

    fn import(&self) -> Arc<Pool> {
        let paths = vec![self.path("a"), self.path("k")];
        let spec = ImportSpec { paths, name: Some("whirl".into()), ..ImportSpec::default() };
        self.env.block_on(Pool::import(self.env(), &spec, tuning())).unwrap()
    }

    fn add_cache(&self, pool: &Arc<Pool>) -> Guid {
        self.env.block_on(pool.add_caches(&[self.path("k")], None)).unwrap();
        pool.caches()[0].guid
    }

    fn export(&self, pool: &Arc<Pool>) {
        self.env.block_on(pool.close(PoolState::Exported)).unwrap();
    }

    fn zfs(&self, pool: &Arc<Pool>) -> Arc<Zfs> {
        Arc::clone(&self.env.block_on(pool.filesystem("whirl")).unwrap().zfs)
    }

    /// A file of so many blocks, each of which tells its number.
    fn write(&self, pool: &Arc<Pool>, blocks: usize) -> ObjectId {
        let zfs = self.zfs(pool);
        self.env.block_on(async {
            let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
            for number in 0..blocks {
                let at = (number * BLOCK_BYTES) as u64;
                zfs.write(made.object, at, &block(number), WriteFlags::default()).await.unwrap();
            }
            pool.sync_now().await.unwrap();
            made.object
        })
    }

    fn find(&self, pool: &Arc<Pool>) -> ObjectId {
        let zfs = self.zfs(pool);
        self.env.block_on(async { zfs.lookup(zfs.root(), b"file").await.unwrap().object })
    }

    /// Reads the file and makes sure of each byte.
    fn read(&self, pool: &Arc<Pool>, file: ObjectId, blocks: usize) {
        let zfs = self.zfs(pool);
        let mut found = vec![0; BLOCK_BYTES];
        for number in 0..blocks {
            let at = (number * BLOCK_BYTES) as u64;
            let read = self.env.block_on(zfs.read(file, at, &mut found)).unwrap();
            assert!(read == BLOCK_BYTES && found == block(number), "block {number}");
        }
    }

    /// Reads the file until what the cache devices did satisfies somebody.
    fn read_until(
        &self,
        pool: &Arc<Pool>,
        (file, blocks): (ObjectId, usize),
        is_enough: impl Fn(&CacheDeviceStats) -> bool,
    ) {
        let start = Instant::now();
        while !is_enough(&pool.cache_device_stats()) {
            assert!(start.elapsed() < PATIENCE, "{:?}", pool.cache_device_stats());
            self.read(pool, file, blocks);
        }
    }

    fn check_pool(&self) {
        if let Err(error) = Zdb::new(self.dir.path(), "whirl").check() {
            panic!("{error}");
        }
    }
}

/// Half of it is noise, so that it is compressed, and to more than half.
fn block(number: usize) -> Vec<u8> {
    let mut state = number as u64 * 2 + 1;
    let mut bytes = Vec::with_capacity(BLOCK_BYTES);
    while bytes.len() < BLOCK_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = if bytes.len() < BLOCK_BYTES / 4 { number as u64 } else { state };
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn tuning() -> Tuning {
    Tuning { cache_bytes: MEMORY_BYTES, ..Tuning::default() }
}

/// What `zdb` finds on a cache device: valid logs, invalid ones, and its exit code.
fn logs(path: &Path) -> (u64, u64, Option<i32>) {
    let run = Command::new("zdb").arg("-l").arg(path).output();
    let run = run.expect("zdb runs");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let number_before = |words: &str| {
        let line = text.lines().find(|line| line.ends_with(words));
        let line = line.unwrap_or_else(|| panic!("no line '{words}' in {text}"));
        let words = line.split_whitespace().find_map(|word| word.parse().ok());
        words.unwrap_or_else(|| panic!("no number in {line}"))
    };
    (number_before("with valid cksum"), number_before("with invalid cksum"), run.status.code())
}

#[test]
fn what_fell_out_of_memory_is_read_from_the_cache_device() {
    const BLOCKS: usize = 400;
    let world = World::new(192 << 20);
    let pool = world.create();
    world.add_cache(&pool);
    let file = world.write(&pool, BLOCKS);
    world.read_until(&pool, (file, BLOCKS), |stats| stats.hits > 1000);
    let stats = pool.cache_device_stats();
    // A busy machine may keep a read waiting for so long that the pool is asked.
    assert!(stats.wrong_bytes == 0 && stats.failed_reads < stats.hits / 10, "{stats:?}");
    let written = stats.blocks;
    world.export(&pool);
    drop(pool);
    world.check_pool();
    let (valid, invalid, code) = logs(&world.path("k"));
    println!("{written} blocks, {valid} logs");
    assert!(valid > 10 && invalid == 0 && code == Some(0), "{valid} valid, {invalid} invalid, {code:?}");

    let pool = world.import();
    let file = world.find(&pool);
    world.read(&pool, file, BLOCKS);
    let stats = pool.cache_device_stats();
    assert!(stats.rebuilt >= written, "{written} blocks were there: {stats:?}");
    assert!(stats.hits > 200, "{stats:?}");
    world.export(&pool);
}

#[test]
fn a_device_that_is_full_goes_round_and_round() {
    const BLOCKS: usize = 1200;
    let world = World::new(96 << 20);
    let pool = world.create();
    let guid = world.add_cache(&pool);
    let file = world.write(&pool, BLOCKS);
    world.read_until(&pool, (file, BLOCKS), |stats| stats.written > 3 * BLOCKS as u64);
    let stats = pool.cache_device_stats();
    // A busy machine may keep a read waiting for so long that the pool is asked.
    assert!(stats.wrong_bytes == 0 && stats.failed_reads < stats.hits / 10, "{stats:?}");
    let (room, used) = pool.cache_room(guid).expect("in use");
    assert!(used <= room && used > room / 2, "{used} bytes of {room}");
    world.export(&pool);
    drop(pool);
    let (valid, invalid, code) = logs(&world.path("k"));
    assert!(valid > 10 && invalid == 0 && code == Some(0), "{valid} valid, {invalid} invalid, {code:?}");

    let pool = world.import();
    let file = world.find(&pool);
    world.read_until(&pool, (file, BLOCKS), |stats| stats.hits > 100);
    let stats = pool.cache_device_stats();
    // A busy machine may keep a read waiting for so long that the pool is asked.
    assert!(stats.wrong_bytes == 0 && stats.failed_reads < stats.hits / 10, "{stats:?}");
    assert!(stats.rebuilt > 200, "{stats:?}");
    world.export(&pool);
    world.check_pool();
}

#[test]
fn a_cache_device_is_taken_out_brought_back_and_removed() {
    const BLOCKS: usize = 300;
    let world = World::new(128 << 20);
    let pool = world.create();
    let guid = world.add_cache(&pool);
    let file = world.write(&pool, BLOCKS);
    world.read_until(&pool, (file, BLOCKS), |stats| stats.hits > 0);
    world.env.block_on(pool.take_offline(guid, Absence::Offline, false)).unwrap();
    world.read(&pool, file, BLOCKS);
    assert_eq!(pool.cache_device_stats().blocks, 0);
    world.export(&pool);
    drop(pool);

    let pool = world.import();
    let leaf = || Arc::clone(&pool.cache_leaves()[0]);
    assert_eq!(leaf().state().0, VdevState::Offline, "it stays out");
    assert_eq!(world.env.block_on(pool.bring_online(guid)).unwrap(), VdevState::Online);
    let file = world.find(&pool);
    world.read_until(&pool, (file, BLOCKS), |stats| stats.rebuilt > 0 && stats.hits > 0);
    world.env.block_on(pool.remove_auxiliary(guid)).unwrap();
    assert!(pool.caches().is_empty());
    world.read(&pool, file, BLOCKS);
    world.export(&pool);
    drop(pool);
    world.check_pool();
    assert!(world.import().caches().is_empty());
}
