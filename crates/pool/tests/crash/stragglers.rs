//! A log that is slow and alive: what a commit takes beside another log that is well, by virtual time.
//!
//! `cargo test --release -p sawmill-pool --test crash stragglers -- --nocapture` prints what all of them took;
//! `SAWMILL_STRAGGLER_COMMITS` makes more commits of each.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use futures::future::join_all;
use pool::{Filesystem, Pool, Tuning};
use sim::{DiskModel, DiskSpec, Sim, Slowness};
use units::{ObjectId, VdevId};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::shape::{LOG, POOL, Shape, TWO_LOGS};
use crate::story::{Tell, number, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const WRITE_BYTES: usize = 8 << 10;
const FILE_WRITES: u64 = 32;
/// What a writer does between two commits.
const PAUSE: Duration = Duration::from_micros(20);
const DISK_BYTES: u64 = 1 << 30;
const COMMITS: u64 = 20_000;

/// Who commits to which logs; `/m` is the one that may be slow.
#[derive(Clone, Copy)]
struct Load {
    shape: &'static Shape,
    logs: DiskModel,
    writers: u64,
    commits: u64,
    pause: Duration,
    txg_timeout: Duration,
}

fn commits() -> u64 {
    number("SAWMILL_STRAGGLER_COMMITS").unwrap_or(COMMITS)
}

fn load(shape: &'static Shape, logs: DiskModel, writers: u64) -> Load {
    Load { shape, logs, writers, commits: commits(), pause: PAUSE, txg_timeout: Duration::from_millis(100) }
}

/// What commits took.
#[derive(Debug)]
struct Taken {
    /// In order of time, and how long it was until then.
    all: Vec<(Duration, Duration)>,
    sorted: Vec<Duration>,
    /// Blocks that `/m` got, and all.
    blocks: [u64; 2],
}

impl Taken {
    fn new(all: Vec<(Duration, Duration)>, blocks: [u64; 2]) -> Self {
        let mut sorted: Vec<_> = all.iter().map(|(_, took)| *took).collect();
        sorted.sort();
        Self { all, sorted, blocks }
    }

    fn at(&self, part: f64) -> Duration {
        self.sorted[((self.sorted.len() as f64 * part) as usize).min(self.sorted.len() - 1)]
    }

    /// How many took longer than so long.
    fn over(&self, limit: Duration) -> usize {
        self.sorted.len() - self.sorted.partition_point(|took| *took <= limit)
    }

    fn text(&self) -> String {
        let [slow, all] = self.blocks;
        let us = |took: Duration| format!("{:8.0}", took.as_secs_f64() * 1e6);
        let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|part| us(self.at(part)));
        let mean = us(self.sorted.iter().sum::<Duration>() / self.sorted.len() as u32);
        let span = self.all.last().map_or(Duration::ZERO, |(when, _)| *when);
        format!(
            "p50 {p50} p99 {p99} p99.9 {p999} max {max} mean {mean} µs; {slow:6} of {all:6} blocks to it; {:.1} s",
            span.as_secs_f64()
        )
    }
}

/// Blocks written to `/m`, and to both.
fn blocks(fs: &Filesystem) -> [u64; 2] {
    let homes = fs.log.as_ref().expect("a log").stats().homes;
    let of = |vdev| homes.get(&VdevId::new(vdev)).map_or(0, |home| home.blocks);
    [of(2), homes.values().map(|home| home.blocks).sum()]
}

/// A pool, and a file for each writer.
async fn made(sim: &Sim, load: Load) -> (Arc<Pool>, Arc<Filesystem>, Vec<ObjectId>) {
    for path in load.shape.disks() {
        let is_log = ["/l", "/m"].contains(&path.to_str().expect("a short name"));
        let model = if is_log { load.logs } else { DiskModel::ssd() };
        sim.add_disk(path, DiskSpec::new(DISK_BYTES, model));
    }
    let tuning = Tuning { txg_timeout: load.txg_timeout, ..Tuning::default() };
    let pool = load.shape.create(sim, tuning).await;
    let fs = pool.filesystem(POOL).await.expect("the root file system opens");
    let mut files = Vec::new();
    for writer in 0..load.writers {
        let name = format!("file{writer}");
        let made = fs.zfs.create(fs.zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default());
        files.push(made.await.expect("create").object);
    }
    pool.sync_now().await.expect("sync");
    (pool, fs, files)
}

/// Does the commits of all writers; when each ended and what it took.
async fn work(
    sim: &Sim,
    fs: &Filesystem,
    files: &[ObjectId],
    Load { commits, pause, .. }: Load,
) -> Vec<(Duration, Duration)> {
    let (taken, done, begun) = (RefCell::default(), RefCell::new(0), sim.now());
    let writers = files.iter().map(|&file| {
        let (taken, done): (&RefCell<Vec<_>>, &RefCell<u64>) = (&taken, &done);
        Box::pin(async move {
            loop {
                let number = *done.borrow();
                if number == commits {
                    return;
                }
                *done.borrow_mut() += 1;
                let since = sim.now();
                let place = number % FILE_WRITES * WRITE_BYTES as u64;
                fs.zfs.write(file, place, &[7; WRITE_BYTES], SYNC).await.expect("write");
                let now = sim.now();
                taken.borrow_mut().push((now - begun, now - since));
                sim.sleep(pause).await;
            }
        })
    });
    join_all(writers).await;
    taken.into_inner()
}

/// What commits take while `/m` is slow in that way.
fn taken(seed: u64, load: Load, slowness: Option<Slowness>) -> Taken {
    let sim = Sim::seed(seed);
    sim.stop_recording();
    run(&sim, async {
        let (pool, fs, files) = made(&sim, load).await;
        // Both are known before one is slow.
        work(&sim, &fs, &files, Load { commits: 200, ..load }).await;
        let before = blocks(&fs);
        if let Some(slowness) = slowness {
            sim.disk("/m").slow_down(Some(slowness));
        }
        let all = work(&sim, &fs, &files, load).await;
        let after = blocks(&fs);
        drop(fs);
        pool.close(PoolState::Exported).await.expect("a pool closes");
        Taken::new(all, [0, 1].map(|n| after[n] - before[n]))
    })
}

/// Prints what commits take, and gives it.
fn measured(kind: &str, model: DiskModel, writers: u64, way: &Way) -> Taken {
    let Way { what, shape, slowness } = way;
    tell(format!("{kind}, {writers} writers, {what}"));
    let taken = taken(81_000, load(shape, model, writers), *slowness);
    let met = taken.over(late(model));
    println!("{kind:5} {writers:2} {what:9} {} late {met}", taken.text());
    taken
}

/// In which way `/m` is slow, if it is there.
struct Way {
    what: &'static str,
    shape: &'static Shape,
    slowness: Option<Slowness>,
}

const ONE_LOG: Way = Way { what: "one log", shape: &LOG, slowness: None };
const TWO_LOGS_WELL: Way = Way { what: "two logs", shape: &TWO_LOGS, slowness: None };
const ONE_PERCENT: Way =
    Way { what: "1 % x100", shape: &TWO_LOGS, slowness: Some(Slowness { one_in: 100, times: 100 }) };
const TENFOLD: Way =
    Way { what: "all x10", shape: &TWO_LOGS, slowness: Some(Slowness { one_in: 1, times: 10 }) };
const HUNDREDFOLD: Way =
    Way { what: "all x100", shape: &TWO_LOGS, slowness: Some(Slowness { one_in: 1, times: 100 }) };

#[test]
fn a_slow_log_beside_a_quick_one_is_not_seen_in_the_99_9th_percentile() {
    let _tell = Tell;
    let measured = |way| measured("ssd", DiskModel::ssd(), 1, way);
    let well = measured(&TWO_LOGS_WELL);
    for way in [&ONE_PERCENT, &HUNDREDFOLD] {
        let slow = measured(way);
        let (is, should) = (slow.at(0.999), well.at(0.999));
        assert!(is < should * 5 / 4, "{}: {is:?}, and {should:?} if both are well", way.what);
    }
    if number("SAWMILL_STRAGGLER_COMMITS").is_none() {
        return;
    }
    for (kind, model) in [("nvram", DiskModel::nvram()), ("ssd", DiskModel::ssd())] {
        for writers in [1, 32] {
            for way in [&ONE_LOG, &TWO_LOGS_WELL, &ONE_PERCENT, &TENFOLD, &HUNDREDFOLD] {
                self::measured(kind, model, writers, way);
            }
        }
    }
}

#[test]
fn a_log_that_turns_slow_gets_nothing_until_it_is_quick_again() {
    let _tell = Tell;
    let (seed, writers, times) = (81_100, 1, 100);
    tell(format!("seed {seed}, all of its writes x{times}"));
    let model = DiskModel::nvram();
    // Half a minute of commits.
    let pace = Load {
        pause: Duration::from_millis(20),
        txg_timeout: Duration::from_secs(5),
        ..load(&TWO_LOGS, model, writers)
    };
    let load = Load { commits: 1500 * writers, ..pace };
    let sim = Sim::seed(seed);
    sim.stop_recording();
    run(&sim, async {
        let (pool, fs, files) = made(&sim, load).await;
        work(&sim, &fs, &files, Load { commits: 200, ..load }).await;
        let so_far = blocks(&fs);
        assert!(so_far[0] > 0, "both are in use: {so_far:?}");
        sim.disk("/m").slow_down(Some(Slowness { one_in: 1, times }));
        let slow = Taken::new(work(&sim, &fs, &files, load).await, blocks(&fs));
        println!("x{times}: {} late {}", slow.text(), slow.over(late(model)));
        // What it was to get before that was known.
        assert!(slow.over(late(model)) <= 3, "{}", slow.text());
        sim.disk("/m").slow_down(None);
        work(&sim, &fs, &files, Load { commits: load.commits * 2, ..load }).await;
        let before = blocks(&fs);
        work(&sim, &fs, &files, Load { commits: 100 * writers, ..load }).await;
        let [to_it, all] = blocks(&fs);
        assert!(to_it > before[0], "{to_it} of {all} blocks, {} of {} before", before[0], before[1]);
        drop(fs);
        pool.close(PoolState::Exported).await.expect("a pool closes");
    });
}

/// Longer than a healthy log's write takes, or a batch of them.
fn late(model: DiskModel) -> Duration {
    model.stable_write.quantiles[4] + model.write.quantiles[4] + model.flush.quantiles[4] + PAUSE
}
