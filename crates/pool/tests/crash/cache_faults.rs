//! Each request that a cache device gets in a small run fails in its turn, once or from then on, or finds the device gone,
//! silent or slow.
//!
//! Whatever befalls it, every read gives what was written, no read or commit is late, and the device is shown as what it is;
//! once it is well it is used again; and a power cut leaves a pool that imports with it.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use env::{Env, FaultOp};
use pool::{Filesystem, ImportSpec, Pool, Tuning};
use sim::{CrashImage, DiskModel, DiskSpec, Sim};
use units::ObjectId;
use vdev::{Leaf, PoolState, VdevState};
use zpl::{Cred, NewNode, WriteFlags};

use crate::shape::{DISK_BYTES, LOG_DEADMAN, POOL, SINGLE, brisk};
use crate::story::{Tell, number, run, tell};

const BLOCK_BYTES: usize = 128 << 10;
/// Three times what memory has room for.
const BLOCKS: usize = 96;
const MEMORY_BYTES: u64 = 4 << 20;
const ROUNDS: usize = 3;
const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
/// How long a read waits for a cache device, and what the pool's own disk takes at most: for a block, and for the indirect
/// block that points to it.
const READ_MAX: Duration = Duration::from_millis(2 * (100 + 30));
/// A commit asks the cache device nothing.
const COMMIT_MAX: Duration = Duration::from_millis(60);
/// It is looked at four times in its time; what an import or an export does besides is short.
const HANG_MAX: Duration = Duration::from_millis(300 + 75 + 200);
/// A device that tells no labels may have to spin up, and is waited for so long; one that still has a request is then asked
/// for a second whether it is free.
const LABELS_MAX: Duration = Duration::from_secs(30 + 1);
/// A hundred times what the disk takes for a stable write, and less than a read waits.
const SLOW: Duration = Duration::from_millis(70);
/// One in so many faults is tried in every test run, and all of writes, which are few.
const STEP: usize = 37;
/// Ten blocks in a row that cannot be read are too many; each is tried twice, and others may be on their way.
const READS_FAILED_MAX: u64 = 24;

/// What befalls the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Once(FaultOp, u64),
    FromThen(FaultOp, u64),
    /// It is taken away at its nth request.
    Gone(u64),
    /// It answers nothing from its nth request on.
    Hang(u64),
    /// It takes a hundred times as long from its nth request on.
    Slow(u64),
}

impl Fault {
    fn order(self, sim: &Sim) {
        let disk = sim.disk("/k");
        let faults = disk.faults();
        match self {
            Self::None => {}
            Self::Once(op, nth) => faults.fail_nth(op, nth),
            Self::FromThen(op, nth) => faults.fail_range(op, nth, u64::MAX),
            Self::Gone(nth) => faults.disappear_at(nth),
            Self::Hang(nth) => disk.hang_from(nth),
            Self::Slow(nth) => disk.straggle_from(nth, SLOW),
        }
    }

    /// How the device has to be shown after `seen` reads, writes and flushes; `before` of them before the last round.
    fn state(self, before: [u64; 3], seen: [u64; 3]) -> Option<VdevState> {
        let [reads, writes, _] = seen;
        let total = |seen: [u64; 3]| seen.iter().sum::<u64>();
        let is_lost = match self {
            // What fails once is tried once more.
            Self::None | Self::Slow(_) | Self::Once(..) => false,
            Self::FromThen(FaultOp::Write, nth) => writes >= nth,
            Self::FromThen(FaultOp::Read, nth) if reads < nth => false,
            Self::FromThen(FaultOp::Read, nth) if reads >= nth + READS_FAILED_MAX => true,
            Self::Gone(nth) | Self::Hang(nth) if total(seen) < nth => false,
            Self::Gone(nth) | Self::Hang(nth) if total(before) >= nth => true,
            // It is on the way there.
            _ => return None,
        };
        Some(if is_lost { VdevState::Faulted } else { VdevState::Online })
    }
}

/// Noise, a little further on for each block.
fn block(number: usize) -> &'static [u8] {
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut random = fastrand::Rng::with_seed(2);
        (0..BLOCK_BYTES + BLOCKS).map(|_| random.u8(..)).collect()
    });
    &NOISE[number..number + BLOCK_BYTES]
}

fn tuning() -> Tuning {
    Tuning { cache_bytes: MEMORY_BYTES, retry_after: Duration::from_secs(3600), ..brisk() }
}

/// A world in which time is kept.
struct World<'a> {
    sim: &'a Sim,
    pool: Arc<Pool>,
    fs: Arc<Filesystem>,
    file: ObjectId,
    commits: ObjectId,
}

impl<'a> World<'a> {
    async fn import(sim: &'a Sim) -> Self {
        let paths = ["/a", "/k"].map(PathBuf::from).to_vec();
        let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
        let begun = sim.now();
        let pool = Pool::import(sim.env(), &spec, tuning()).await;
        let pool = pool.expect("a cache device keeps nobody from an import");
        let took = sim.now() - begun;
        let is_unread = pool.cache_leaves()[0].state().0 == VdevState::Unavail;
        let max = if is_unread { LABELS_MAX + HANG_MAX } else { HANG_MAX };
        assert!(took < max, "the import took {took:?}");
        let fs = pool.filesystem(POOL).await.expect("it opens");
        let object =
            async |name: &[u8]| fs.zfs.lookup(fs.zfs.root(), name).await.expect("it is there").object;
        let (file, commits) = (object(b"file").await, object(b"commits").await);
        // The first commit waits for the txg that begins its chain.
        fs.zfs.write(commits, 0, &[1; 512], SYNC).await.expect("write");
        Self { sim, pool, fs, file, commits }
    }

    /// Reads all of the file, commits, and leaves the device time for what fell out of memory.
    async fn round(&self) {
        let mut found = vec![0; BLOCK_BYTES];
        for number in 0..BLOCKS {
            let (begun, at) = (self.sim.now(), (number * BLOCK_BYTES) as u64);
            let read = self.fs.zfs.read(self.file, at, &mut found).await.expect("it reads");
            assert!(read == BLOCK_BYTES && found == block(number), "block {number}");
            let took = self.sim.now() - begun;
            assert!(took < READ_MAX, "block {number} took {took:?}");
        }
        let begun = self.sim.now();
        self.fs.zfs.write(self.commits, 0, &[2; 512], SYNC).await.expect("write");
        let took = self.sim.now() - begun;
        assert!(took < COMMIT_MAX, "a commit took {took:?}");
        self.sim.sleep(LOG_DEADMAN * 3 / 2).await;
    }

    /// What is well again is used again once somebody says so.
    async fn mend(self, leaf: &Leaf) {
        self.sim.disk("/k").faults().heal();
        self.sim.disk("/k").answer();
        self.pool.clear(&|_| true).await.expect("cleared");
        assert_eq!(leaf.state().0, VdevState::Online);
        let before = self.pool.cache_device_stats().hits;
        for _ in 0..ROUNDS {
            self.round().await;
        }
        let stats = self.pool.cache_device_stats();
        assert!(stats.hits > before, "{stats:?}");
        self.export().await;
    }

    async fn export(self) {
        let begun = self.sim.now();
        drop(self.fs);
        self.pool.close(PoolState::Exported).await.expect("it closes");
        let took = self.sim.now() - begun;
        assert!(took < HANG_MAX, "the export took {took:?}");
    }
}

/// An exported pool with a file, a part of which is on the cache device.
fn made(seed: u64) -> CrashImage {
    let sim = Sim::seed(seed);
    sim.add_disk("/a", DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    sim.add_disk("/k", DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    run(&sim, async {
        let pool = SINGLE.create(&sim, tuning()).await;
        pool.add_caches(&["/k".into()], None).await.expect("added");
        let fs = pool.filesystem(POOL).await.expect("it opens");
        for name in [&b"file"[..], b"commits"] {
            fs.zfs.create(fs.zfs.root(), name, NewNode::File, 0o644, Cred::default()).await.expect("made");
        }
        let file = fs.zfs.lookup(fs.zfs.root(), b"file").await.expect("it is there").object;
        for number in 0..BLOCKS {
            let at = (number * BLOCK_BYTES) as u64;
            fs.zfs.write(file, at, block(number), WriteFlags::default()).await.expect("written");
        }
        pool.sync_now().await.expect("synced");
        sim.sleep(LOG_DEADMAN).await;
        drop(fs);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    sim.power_cut(seed)
}

/// What comes after the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The device is well again, and somebody says so.
    Mended,
    /// The power is cut.
    Cut,
}

/// The run with that fault in it; what the device was asked.
fn trial(image: &CrashImage, seed: u64, fault: Fault, after: After) -> [u64; 3] {
    tell(format!("seed {seed}, {fault:?}"));
    let sim = image.boot(seed);
    fault.order(&sim);
    let seen = run(&sim, async {
        let world = World::import(&sim).await;
        let mut before = requests(&sim);
        for _ in 0..ROUNDS {
            before = requests(&sim);
            world.round().await;
        }
        let leaf = Arc::clone(&world.pool.cache_leaves()[0]);
        let (is, seen) = (leaf.state().0, requests(&sim));
        let stats = world.pool.cache_device_stats();
        let expected = fault.state(before, seen).unwrap_or(is);
        // What cannot be read when it is opened is not taken for a cache device at all.
        let is_as_expected = is == expected || (expected, is) == (VdevState::Faulted, VdevState::Unavail);
        assert!(is_as_expected, "{is:?}, not {expected:?}; {before:?}, then {seen:?}: {stats:?}");
        assert!(fault != Fault::None || stats.hits > 20, "{stats:?}");
        assert!(world.pool.suspended().is_none() && world.pool.vdevs().state().0 == VdevState::Online);
        match after {
            After::Cut => drop(world),
            After::Mended => world.mend(&leaf).await,
        }
        seen
    });
    if after == After::Mended {
        return seen;
    }
    let cut = sim.power_cut(seed);
    tell(format!("seed {seed}, {fault:?}, and the power cut: {}", cut.story()));
    let sim = cut.boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let world = World::import(&sim).await;
        world.round().await;
        world.export().await;
    });
    seen
}

fn requests(sim: &Sim) -> [u64; 3] {
    let disk = sim.disk("/k");
    [FaultOp::Read, FaultOp::Write, FaultOp::Flush].map(|op| disk.faults().seen(op))
}

/// All there are to try where nothing failing leads to so many reads, writes and flushes.
fn faults([reads, writes, flushes]: [u64; 3]) -> Vec<Fault> {
    let each = |op, count| (1..=count).flat_map(move |nth| [Fault::Once(op, nth), Fault::FromThen(op, nth)]);
    let late = (1..=reads + writes + flushes).flat_map(|n| [Fault::Gone(n), Fault::Hang(n), Fault::Slow(n)]);
    let of_reads = each(FaultOp::Read, reads);
    of_reads.chain(each(FaultOp::Write, writes)).chain(each(FaultOp::Flush, flushes)).chain(late).collect()
}

#[test]
fn any_request_of_a_cache_device_may_fail() {
    let _tell = Tell;
    let seed = number("SAWMILL_CRASH_SEED").unwrap_or(73_000);
    let image = made(seed);
    let asked = trial(&image, seed, Fault::None, After::Mended);
    let all: Vec<_> =
        faults(asked).into_iter().flat_map(|fault| [(fault, After::Mended), (fault, After::Cut)]).collect();
    let step = number("SAWMILL_CRASH_RUNS").map_or(STEP, |_| 1);
    let is_of_write =
        |fault| matches!(fault, Fault::Once(FaultOp::Write, _) | Fault::FromThen(FaultOp::Write, _));
    let mut tried = 0;
    for (n, &(fault, after)) in all.iter().enumerate() {
        if n.is_multiple_of(step) || is_of_write(fault) {
            trial(&image, seed, fault, after);
            tried += 1;
        }
    }
    println!("{tried} of {} faults; {asked:?} reads, writes and flushes without any", all.len());
    let [reads, writes, _] = asked;
    assert!(reads > 20 && writes > 3, "{asked:?}");
}
