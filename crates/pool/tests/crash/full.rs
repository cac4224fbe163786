//! Logs that fill, and a log that fails in the world of threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use device::{Options, RealEnv};
use env::{Env, FaultOp, Faults, Faulty, RamDevice};
use futures::channel::oneshot;
use futures::future::{Either, join_all, select};
use parking_lot::Mutex;
use pool::{ImportSpec, Pool, PoolSpec, Tuning};
use sim::{DiskModel, DiskSpec, Sim};
use units::{ObjectId, VdevId};
use vdev::{NewVdev, PoolState};
use zil::LogEvent;
use zpl::{Cred, NewNode, SetAttributes, WriteFlags, Zfs, ZplError};

use crate::dice::Dice;
use crate::shape::{DISK_BYTES, LOG, POOL, SINGLE, brisk};
use crate::space;
use crate::story::{Tell, run, tell};

const CHUNK_BYTES: usize = 256 << 10;
const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };

/// No txg ends by itself.
fn patient() -> Tuning {
    Tuning {
        txg_timeout: Duration::from_secs(100_000),
        dirty_limit_bytes: Some(8 << 30),
        log_share_percent: 100,
        ..Tuning::default()
    }
}

/// Writers that rewrite their files chunk by chunk, round by round, each write stable before
/// the next.
#[derive(Clone, Copy, Debug)]
struct Rewriting {
    writers: u64,
    chunks: u64,
    rounds: u64,
}

/// Newest acknowledged round by writer and chunk.
type Rounds = Arc<Mutex<BTreeMap<(u64, u64), u64>>>;

fn chunk(writer: u64, chunk: u64, round: u64) -> Vec<u8> {
    if round == 0 { vec![0; CHUNK_BYTES] } else { Dice::new(writer << 32 | chunk, round).bytes(CHUNK_BYTES) }
}

impl Rewriting {
    async fn prepare(self, pool: &Pool, zfs: &Zfs) {
        for writer in 0..self.writers {
            let name = format!("file{writer}");
            let file = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
            let file = file.expect("create").object;
            for at in 0..self.chunks {
                let zeros = chunk(writer, at, 0);
                zfs.write(file, at * CHUNK_BYTES as u64, &zeros, WriteFlags::default()).await.expect("write");
            }
            // From here on there is a chain, and with the next txg it can be used.
            zfs.fsync(file, false).await.expect("fsync");
        }
        pool.sync_now().await.expect("sync");
    }

    async fn write(self, zfs: Arc<Zfs>, writer: u64, rounds: Rounds) {
        self.try_to_write(zfs, writer, rounds).await.expect("write");
    }

    async fn try_to_write(self, zfs: Arc<Zfs>, writer: u64, rounds: Rounds) -> Result<(), ZplError> {
        let file = file(&zfs, writer).await;
        for round in 1..=self.rounds {
            for at in 0..self.chunks {
                let bytes = chunk(writer, at, round);
                zfs.write(file, at * CHUNK_BYTES as u64, &bytes, SYNC).await?;
                rounds.lock().insert((writer, at), round);
            }
        }
        Ok(())
    }

    /// Starts all writers; ready when they are done.
    fn start(self, sim: &Sim, zfs: &Arc<Zfs>, rounds: &Rounds) -> impl Future<Output = ()> + use<> {
        let ends = (0..self.writers).map(|writer| {
            let (sender, receiver) = oneshot::channel();
            let work = self.write(Arc::clone(zfs), writer, Arc::clone(rounds));
            sim.spawn(
                "writer",
                Box::pin(async move {
                    work.await;
                    // Nobody listens when the power is cut first.
                    let _ = sender.send(());
                }),
            );
            receiver
        });
        let ends = join_all(ends.collect::<Vec<_>>());
        async move { ends.await.into_iter().for_each(|end| end.expect("a writer ends by itself")) }
    }

    /// Each chunk is of its newest acknowledged round, or of the next, or partly of that.
    async fn check(self, zfs: &Zfs, rounds: &Rounds) {
        for writer in 0..self.writers {
            let file = file(zfs, writer).await;
            for at in 0..self.chunks {
                let mut bytes = vec![0; CHUNK_BYTES];
                zfs.read(file, at * CHUNK_BYTES as u64, &mut bytes).await.expect("read");
                let round = rounds.lock().get(&(writer, at)).copied().unwrap_or(0);
                let (old, new) = (chunk(writer, at, round), chunk(writer, at, round + 1));
                let head = bytes.iter().zip(&new).take_while(|(a, b)| a == b).count();
                assert!(
                    bytes[head..] == old[head..],
                    "chunk {at} of writer {writer} is not of round {round}"
                );
            }
        }
    }
}

async fn file(zfs: &Zfs, writer: u64) -> ObjectId {
    zfs.lookup(zfs.root(), format!("file{writer}").as_bytes()).await.expect("prepared").object
}

/// What a run is to find out.
struct Filling {
    seed: u64,
    main_bytes: u64,
    rewriting: Rewriting,
    /// The power is cut so long after the start, or when all is done.
    cut: Option<Duration>,
}

impl Filling {
    /// Runs into the cut, calls `told` when all was done before it, and imports what is left.
    fn run(&self, told: impl Fn(&Pool, u64, &zil::ZilStats)) {
        tell(format!(
            "seed {}, {:?} in {} bytes, cut {:?}",
            self.seed, self.rewriting, self.main_bytes, self.cut
        ));
        let sim = Sim::seed(self.seed);
        sim.add_disk("/a", DiskSpec::new(self.main_bytes, DiskModel::ssd()));
        sim.add_disk("/l", DiskSpec::new(64 << 20, DiskModel::ssd()));
        let rounds = Rounds::default();
        run(&sim, async {
            let pool = LOG.create(&sim, patient()).await;
            let fs = pool.filesystem(POOL).await.expect("the root file system opens");
            self.rewriting.prepare(&pool, &fs.zfs).await;
            let txg = pool.txgs().open_txg();
            let writing = self.rewriting.start(&sim, &fs.zfs, &rounds);
            let cut = sim.sleep(self.cut.unwrap_or(Duration::from_secs(1000)));
            match select(Box::pin(writing), cut).await {
                Either::Left(_) => {
                    let groups = pool.txgs().open_txg().get() - txg.get();
                    told(&pool, groups, &fs.log.as_ref().expect("a log").stats());
                }
                Either::Right(_) => assert!(self.cut.is_some(), "the writers are held up"),
            }
        });
        // Only what is at risk now matters.
        sim.start_recording();
        let image = sim.power_cut(self.seed);
        drop(sim);
        tell(format!("seed {}, {:?}, {}", self.seed, self.rewriting, image.story()));
        let sim = image.boot(self.seed);
        run(&sim, async {
            let pool = LOG.import(&sim, brisk(), false).await.expect("every crash state imports");
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            self.rewriting.check(&fs.zfs, &rounds).await;
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
    }
}

/// Where a run is cut: in its course, and after it.
const CUTS: [Option<Duration>; 3] = [Some(Duration::from_millis(40)), Some(Duration::from_millis(150)), None];

#[test]
fn a_log_that_fills_within_one_group_goes_on_in_the_main_pool_without_waiting() {
    let _tell = Tell;
    for (seed, cut) in (21_000..).zip(CUTS) {
        let rewriting = Rewriting { writers: 3, chunks: 100, rounds: 1 };
        Filling { seed, main_bytes: 8 << 30, rewriting, cut }.run(|pool, groups, stats| {
            assert_eq!(groups, 0, "nobody waited for a group");
            let blocks = |vdev| stats.homes.get(&VdevId::new(vdev)).map_or(0, |home| home.blocks);
            assert!(blocks(1) > 0 && blocks(0) > 0, "{:?}", stats.homes);
            let events = pool.log_events();
            assert!(events.iter().any(|event| matches!(event, LogEvent::Spilled { .. })), "{events:?}");
        });
    }
}

#[test]
fn a_busy_log_has_groups_synced_before_it_is_full() {
    let _tell = Tell;
    tell("a busy log, groups that nothing else hurries".into());
    let sim = Sim::seed(20_900);
    LOG.add_disks(&sim, DiskModel::nvram());
    sim.stop_recording();
    run(&sim, async {
        let tuning = Tuning { log_share_percent: Tuning::default().log_share_percent, ..patient() };
        let pool = LOG.create(&sim, tuning).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        let rewriting = Rewriting { writers: 3, chunks: 4, rounds: 40 };
        rewriting.prepare(&pool, &fs.zfs).await;
        let first = pool.txgs().synced_txg();
        let rounds = Rounds::default();
        let work = |writer| rewriting.try_to_write(Arc::clone(&fs.zfs), writer, Arc::clone(&rounds));
        for ended in join_all((0..rewriting.writers).map(work)).await {
            ended.expect("there is room");
        }
        let stats = fs.log.as_ref().expect("a log").stats();
        assert!(stats.written_bytes > DISK_BYTES, "more than the log holds: {}", stats.written_bytes);
        assert_eq!(stats.homes.keys().copied().collect::<Vec<_>>(), [VdevId::new(1)]);
        assert!(pool.txgs().synced_txg() > first, "groups were synced");
        let events = pool.log_events();
        assert!(!events.iter().any(|event| matches!(event, LogEvent::Spilled { .. })), "{events:?}");
        drop(fs);
        space::check(&pool).await;
    });
}

#[test]
fn a_log_that_fills_the_main_pool_too_falls_back_to_groups_and_leaves_them_room() {
    let _tell = Tell;
    for (seed, cut) in (22_000..).zip(CUTS) {
        let rewriting = Rewriting { writers: 3, chunks: 4, rounds: 40 };
        Filling { seed, main_bytes: 64 << 20, rewriting, cut }.run(|pool, groups, _| {
            assert!(groups > 0, "there is no room for all of it in one group");
            assert_eq!(pool.suspended(), None);
        });
    }
}

#[test]
fn small_commits_that_fill_a_pool_with_log_blocks_leave_groups_their_room() {
    let _tell = Tell;
    tell("small commits in a small pool".into());
    let sim = Sim::seed(23_000);
    SINGLE.add_disks(&sim, DiskModel::nvram());
    sim.stop_recording();
    run(&sim, async {
        let pool = SINGLE.create(&sim, patient()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        let rewriting = Rewriting { writers: 1, chunks: 1, rounds: 0 };
        rewriting.prepare(&pool, &fs.zfs).await;
        let file = file(&fs.zfs, 0).await;
        for round in 0..17_000 {
            let set = SetAttributes { permissions: Some(round % 0o1000), ..SetAttributes::default() };
            fs.zfs.set_attributes(file, set).await.expect("set attributes");
            fs.zfs.fsync(file, false).await.expect("fsync");
        }
        assert_eq!(pool.suspended(), None);
        let events = pool.log_events();
        assert!(events.iter().any(|event| matches!(event, LogEvent::NoSpace { .. })), "{events:?}");
        drop(fs);
        space::check(&pool).await;
    });
}

#[test]
fn a_pool_whose_only_disk_fails_tells_every_writer_and_loses_nothing_acknowledged() {
    let _tell = Tell;
    type Fail = fn(&Faults);
    let ways: [(&str, Fail); 3] = [
        ("writes", |faults| faults.fail_range(FaultOp::Write, 40, u64::MAX)),
        ("flushes", |faults| faults.fail_range(FaultOp::Flush, 4, u64::MAX)),
        ("everything", Faults::disappear),
    ];
    for (seed, (what, fail)) in (24_000..).zip(ways) {
        tell(format!("seed {seed}, {what} fail"));
        let sim = Sim::seed(seed);
        SINGLE.add_disks(&sim, DiskModel::ssd());
        let rewriting = Rewriting { writers: 3, chunks: 4, rounds: 20 };
        let rounds = Rounds::default();
        run(&sim, async {
            let pool = SINGLE.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("the root file system opens");
            let refuse = Some(dsl::PropValue::Number(pool::FailMode::Continue as u64));
            pool.set_pool_prop("failmode", refuse).await.expect("a property is set");
            rewriting.prepare(&pool, &fs.zfs).await;
            fail(sim.disk("/a").faults());
            let work = |writer| rewriting.try_to_write(Arc::clone(&fs.zfs), writer, Arc::clone(&rounds));
            for ended in join_all((0..rewriting.writers).map(work)).await {
                ended.expect_err("nothing can be made stable");
            }
            assert!(pool.suspended().is_some());
            pool.sync_now().await.expect_err("suspended");
        });
        sim.start_recording();
        let image = sim.power_cut(seed);
        drop(sim);
        let sim = image.boot(seed);
        run(&sim, async {
            let pool = SINGLE.import(&sim, brisk(), false).await.expect("every crash state imports");
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            rewriting.check(&fs.zfs, &rounds).await;
        });
    }
}

/// A pool in memory: a device for data, one for the log, each with its faults.
struct InMemory {
    data: RamDevice,
    log: RamDevice,
}

impl InMemory {
    fn new() -> Self {
        Self { data: RamDevice::new(256 << 20), log: RamDevice::new(64 << 20) }
    }

    fn world(&self) -> (Arc<RealEnv>, [Faults; 2]) {
        let env = RealEnv::new(Options::default());
        let faults = [("ram:a", &self.data), ("ram:l", &self.log)].map(|(path, device)| {
            let faults = Faults::none();
            env.register(path, Arc::new(Faulty::new(Arc::new(device.clone()), faults.clone())));
            faults
        });
        (env, faults)
    }

    /// Threads at work, the log failing in their midst; then the process is gone.
    fn work(&self, rewriting: Rewriting, fail: impl Fn(&Faults)) -> Rounds {
        let (env, [of_data, of_log]) = self.world();
        let vdev = |path: &str, is_log| NewVdev {
            paths: vec![path.into()],
            ashift: None,
            bias: vdev::Bias::log(is_log),
            create_txg: 4,
            parity: 0,
            ..NewVdev::default()
        };
        let vdevs = vec![vdev("ram:a", false), vdev("ram:l", true)];
        let spec = PoolSpec {
            name: POOL.into(),
            stored_name: None,
            vdevs,
            root_props: vec![],
            comment: None,
            force: false,
        };
        let pool = env.block_on(Pool::create(env.clone(), spec, brisk())).expect("a new pool");
        let zfs = Arc::clone(&env.block_on(pool.filesystem(POOL)).expect("a file system").zfs);
        env.block_on(rewriting.prepare(&pool, &zfs));
        let rounds = Rounds::default();
        std::thread::scope(|scope| {
            for writer in 0..rewriting.writers {
                let work = rewriting.write(Arc::clone(&zfs), writer, Arc::clone(&rounds));
                scope.spawn(|| env.block_on(work));
            }
            // Some writes later.
            while rounds.lock().len() < 3 {
                std::thread::yield_now();
            }
            fail(&of_log);
        });
        env.block_on(pool.sync_now()).expect("the pool goes on");
        // The tasks of the dead process can do no more harm.
        of_data.disappear();
        of_log.disappear();
        rounds
    }

    fn check(&self, rewriting: Rewriting, rounds: &Rounds) {
        let (env, [_, of_log]) = self.world();
        of_log.disappear();
        let paths = vec!["ram:a".into(), "ram:l".into()];
        let spec = ImportSpec { paths, without_logs: true, ..ImportSpec::default() };
        env.block_on(async {
            let pool = Pool::import(env.clone(), &spec, brisk()).await.expect("it can do without its log");
            let fs = pool.filesystem(POOL).await.expect("a file system");
            rewriting.check(&fs.zfs, rounds).await;
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
    }
}

#[test]
fn threads_go_on_when_their_log_fails() {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for fail in [
            |faults: &Faults| faults.fail_all(FaultOp::Write),
            |faults: &Faults| faults.fail_all(FaultOp::Flush),
            |faults: &Faults| faults.disappear(),
        ] {
            let memory = InMemory::new();
            let rewriting = Rewriting { writers: 4, chunks: 8, rounds: 3 };
            let rounds = memory.work(rewriting, fail);
            memory.check(rewriting, &rounds);
        }
        // Nobody listens when time is up.
        let _ = sender.send(());
    });
    receiver.recv_timeout(Duration::from_secs(60)).expect("nobody waits for ever, and nobody panics");
}
