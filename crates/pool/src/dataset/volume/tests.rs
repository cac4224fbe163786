//! Logs of volumes: written here into a pool of OpenZFS's, as a crash leaves them, and replayed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use device::{Options, RealEnv};
use dmu::{Dnode, EarlyBlock, Estimate};
use env::{Durability, Env};
use ondisk::zil::LogRecord;
use ondisk::zil::record::{LrCloneRange, LrTruncate, LrWrite};
use ondisk::{Blkptr, ObjectType};
use oracle::golden;
use oracle::zdb::Zdb;
use tempfile::TempDir;
use units::BlockId;
use vdev::PoolState;
use zil::{IntentLog, Itx, Live, LoggedWrite, Record, Scope, WriteData};

use crate::dataset::open::OpenDataset;
use crate::{ImportSpec, Pool, Tuning};
use zvol::{DATA, Volume};

const POOL: &str = "whirl";
const VOLUME: &str = "whirl/v8k";
const BLOCK: usize = 8192;

struct World {
    env: Arc<RealEnv>,
    dir: TempDir,
}

impl World {
    /// A copy of a pool with volumes.
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        golden::copy("g12-zvol", dir.path());
        Self { env: RealEnv::new(Options::default()), dir }
    }

    fn images(&self) -> PathBuf {
        self.dir.path().join("img")
    }

    async fn import(&self, images: &Path, read_only: bool) -> Arc<Pool> {
        let files = std::fs::read_dir(images).expect("images");
        let paths = files.map(|file| file.expect("readable").path()).collect();
        let spec =
            ImportSpec { paths, name: Some(POOL.into()), read_only, force: true, ..ImportSpec::default() };
        // No txg ends unless somebody waits for it.
        let tuning = Tuning { txg_timeout: Duration::from_secs(10_000), ..Tuning::default() };
        Pool::import(Arc::clone(&self.env) as Arc<dyn Env>, &spec, tuning).await.expect("it imports")
    }

    /// The devices as a crash would leave them now.
    fn cut_off(&self, name: &str) -> PathBuf {
        let to = self.dir.path().join(name);
        std::fs::create_dir(&to).expect("a directory");
        for file in std::fs::read_dir(self.images()).expect("images") {
            let file = file.expect("readable");
            std::fs::copy(file.path(), to.join(file.file_name())).expect("copied");
        }
        to
    }
}

/// A volume in use, as a writer of volumes would have it.
struct Writer {
    pool: Arc<Pool>,
    volume: Arc<Volume>,
    open: Arc<OpenDataset>,
    data: Arc<Dnode>,
}

impl Writer {
    async fn of(pool: &Arc<Pool>) -> Self {
        // The pool came with empty logs of its datasets.
        for open in pool.with_claimed_logs() {
            pool.replay_log(&open).await.expect("it is sound");
        }
        let volume = pool.open_volume(VOLUME).await.expect("it opens");
        let open = pool.look_up(VOLUME).await.expect("it is open");
        let data = open.objset.hold(DATA).await.expect("it has bytes");
        let writer = Self { pool: Arc::clone(pool), volume, open, data };
        writer.intent_log().prime().await;
        pool.sync_now().await.expect("it syncs");
        writer
    }

    fn intent_log(&self) -> &IntentLog<Live> {
        self.volume.log().expect("it has a log")
    }

    fn log(&self, txg: units::Txg, record: Record) {
        self.intent_log().assign(txg, Itx { scope: Scope::Object(DATA), record });
    }

    async fn plain(&self, record: LogRecord) {
        let tx = self.open.objset.txgs().join().expect("it is open");
        self.log(tx.txg(), Record::Plain(record));
    }

    async fn write(&self, offset: u64, bytes: &[u8]) {
        let tx = self.open.objset.txgs().join().expect("it is open");
        let data = WriteData::Bytes(Arc::from(bytes));
        let length = bytes.len() as u64;
        self.log(tx.txg(), Record::Write(LoggedWrite { object: DATA, offset, length, data }));
    }

    /// A block that the log only names.
    async fn write_block(&self, block: u64, bytes: &[u8]) {
        let offset = block * BLOCK as u64;
        let plan = self.open.objset.plan(Estimate::default()).await.expect("it may");
        self.data.write(&plan, offset, bytes).await.expect("it is written");
        let tx = self.open.objset.txgs().join().expect("it is open");
        assert_eq!(plan.apply().expect("it is made"), tx.txg());
        let placed = self.open.objset.place_early(&self.data, tx.txg(), BlockId::new(block));
        let Some(EarlyBlock::Placed(write)) = placed else { panic!("there is room") };
        for dva in write.bp().dvas() {
            write.write(dva, Durability::Stable).await.expect("it is written");
        }
        write.ended(true);
        let (data, length) = (WriteData::Indirect(*write.bp()), bytes.len() as u64);
        self.log(tx.txg(), Record::Write(LoggedWrite { object: DATA, offset, length, data }));
    }

    async fn free(&self, offset: u64, length: u64) {
        self.plain(LogRecord::Truncate(LrTruncate { object: DATA, offset, length })).await;
    }

    /// A block that the volume had before, and its bytes.
    async fn old_block(&self) -> (Blkptr, Vec<u8>) {
        let blocks = self.open.objset.all_blocks().await.expect("they are read");
        let is_data = |bp: &&Blkptr| bp.lsize().get() == BLOCK as u64 && bp.object_type() == ObjectType::ZVOL;
        let bp = *blocks.iter().find(is_data).expect("it has data");
        let bytes = self.pool.zio.read(&bp, &zio::Bookmark::default()).await.expect("it reads");
        (bp, bytes.to_vec())
    }

    async fn share(&self, block: u64, blkptrs: Vec<Blkptr>) {
        let block_bytes = BLOCK as u64;
        let (offset, length) = (block * block_bytes, blkptrs.len() as u64 * block_bytes);
        self.plain(LogRecord::CloneRange(LrCloneRange {
            object: DATA,
            offset,
            length,
            block_bytes,
            blkptrs,
        }))
        .await;
    }

    async fn commit(&self) {
        let before = self.pool.txgs().synced_txg();
        self.intent_log().commit(None).await.expect("it is promised");
        assert_eq!(self.pool.txgs().synced_txg(), before, "by the log, not by a txg");
    }
}

/// Bytes that do not compress.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut dice = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| dice.u8(..)).take(len).collect()
}

async fn contents(pool: &Arc<Pool>) -> Vec<u8> {
    let volume = pool.volume(VOLUME).await.expect("it is there");
    let mut bytes = vec![0; volume.size_bytes() as usize];
    assert_eq!(volume.read(0, &mut bytes).await.expect("it reads"), bytes.len());
    bytes
}

/// Whether the volume's log is still to be replayed.
fn waits(pool: &Pool) -> bool {
    pool.with_claimed_logs().iter().any(|open| open.name().name == VOLUME)
}

/// What the volume is to hold, and what is written to it to get there.
async fn write_all(writer: &Writer, bytes: &mut [u8]) {
    let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
    writer.write(4096, &noise(5000, 1)).await;
    put(4096, &noise(5000, 1));
    writer.write(1 << 20, &noise(300_000, 2)).await;
    put(1 << 20, &noise(300_000, 2));
    writer.write_block(400, &noise(BLOCK, 3)).await;
    put(400 * BLOCK, &noise(BLOCK, 3));
    writer.free(1 << 20, 100_000).await;
    put(1 << 20, &[0; 100_000]);
    writer.free(10, 3).await;
    put(10, &[0; 3]);
    // The named block once more, in part, and its bytes elsewhere.
    writer.write(400 * BLOCK as u64 + 9, &[7; 99]).await;
    put(400 * BLOCK + 9, &[7; 99]);
    // What another part of the volume has had for long, and a hole.
    let (shared, old) = writer.old_block().await;
    writer.share(500, vec![shared, Blkptr::HOLE]).await;
    put(500 * BLOCK, &old);
    put(501 * BLOCK, &[0; BLOCK]);
    writer.write(600 * BLOCK as u64, &noise(1, 4)).await;
    put(600 * BLOCK, &noise(1, 4));
    writer.commit().await;
}

#[test]
fn what_a_volume_was_promised_is_replayed_at_import() {
    let world = World::new();
    world.env.block_on(async {
        let pool = world.import(&world.images(), false).await;
        let before = contents(&pool).await;
        let mut expected = before.clone();
        let writer = Writer::of(&pool).await;
        write_all(&writer, &mut expected).await;
        let images = world.cut_off("cut");

        let looking = world.import(&images, true).await;
        assert!(looking.log_waits(VOLUME).await.expect("it can be told"), "whoever only looks is told");
        assert!(!looking.log_waits("whirl/v8k@s").await.expect("it can be told"), "snapshots have no log");
        assert!(contents(&looking).await == before);
        drop(looking);

        let pool = world.import(&images, false).await;
        pool.replay_logs().await.expect("it is sound");
        // Who only looks sees what the last txg left.
        pool.sync_now().await.expect("it syncs");
        assert!(contents(&pool).await == expected, "replayed");
        assert!(!waits(&pool));
        pool.close(PoolState::Exported).await.expect("it closes");
        drop(pool);
        let looking = world.import(&images, true).await;
        assert!(!looking.log_waits(VOLUME).await.expect("it can be told"), "nothing is left in it");
        assert!(contents(&looking).await == expected, "stored");
        drop(looking);
        Zdb::new(&images, POOL).check().unwrap_or_else(|damage| panic!("{damage}"));
    });
}

#[test]
fn records_that_lead_out_of_a_volume_stop_replay_and_keep_the_log() {
    let foreign = LogRecord::Remove(ondisk::zil::record::LrRemove { dir: DATA, name: b"x".to_vec() });
    let past = |offset| LogRecord::Truncate(LrTruncate { object: DATA, offset, length: u64::MAX - 10 });
    let hole = LrWrite { object: DATA, offset: 16 << 20, length: 512, ..LrWrite::default() };
    for (nth, record) in [foreign, past(5), past(500), LogRecord::Write(hole)].into_iter().enumerate() {
        let world = World::new();
        world.env.block_on(async {
            let pool = world.import(&world.images(), false).await;
            let writer = Writer::of(&pool).await;
            writer.plain(record).await;
            writer.commit().await;
            let images = world.cut_off("cut");
            let pool = world.import(&images, false).await;
            for _ in 0..2 {
                pool.replay_logs().await.map(drop).expect_err("no volume logs that");
                assert!(waits(&pool), "record {nth}: it is kept");
            }
        });
    }
}
