//! Free space is initialized and trimmed: all of it and nothing else, while clients write, devices go, and the power is cut.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use metaslab::NextFree;
use pool::sweep::{Kind, Order, PATTERN, State, SweepRefusal};
use pool::{Absence, Pool, Tuning};
use sim::{CrashImage, CrashPlan, DiskModel, Sim};
use units::{Guid, LABEL_START_BYTES, VdevOffset};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::attached::guid;
use crate::shape::{DISK_BYTES, LOG, MIRROR, POOL, RAIDZ, SINGLE, Shape, brisk};
use crate::space;
use crate::story::{Tell, number, run, tell};
use crate::writers::{check_files, promised, promised_in, under_load};

const START: Order = Order::Start { rate: 0, secure: false };
const ZERO: Duration = Duration::ZERO;
/// Runs of which the mean is taken.
const RUNS: u64 = 12;
/// How often free space is swept under load.
const PASSES: usize = 3;
/// Crash states of a run that are imported.
const IMAGES_MAX: usize = 6;
/// Of these, one in so many is judged by `zdb`.
const ZDB_ONE_IN: usize = 6;
/// What txgs that turn meanwhile may have used and freed again.
const IN_USE_MEANWHILE: usize = 2 << 20;

fn leaves(pool: &Pool) -> Vec<Guid> {
    pool.vdevs().leaves().iter().map(|leaf| leaf.guid()).collect()
}

async fn order(pool: &Arc<Pool>, kind: Kind, order: Order) {
    let refused = pool.sweep(kind, order, &leaves(pool)).await.expect("it is stable");
    assert_eq!(refused, [], "{kind:?} {order:?}");
}

fn states(pool: &Pool, kind: Kind) -> Vec<State> {
    pool.vdevs().leaves().iter().map(|leaf| pool.sweep_report(leaf, kind).record.state).collect()
}

async fn complete(sim: &Sim, pool: &Pool, kind: Kind) {
    while states(pool, kind).iter().any(|state| *state != State::Complete) {
        sim.sleep(Duration::from_millis(5)).await;
    }
}

/// Bytes of each disk that are free.
fn free(pool: &Pool) -> BTreeMap<PathBuf, Vec<bool>> {
    let mut free = BTreeMap::new();
    for top in pool.vdevs().tops() {
        let runs: Vec<_> = pool.zio().with_allocator(|allocator| {
            let metaslabs = allocator.metaslabs(top.id()).iter();
            metaslabs.flat_map(|metaslab| metaslab.free_runs().collect::<Vec<_>>()).collect()
        });
        for leaf in top.leaves() {
            let sectors: &mut Vec<bool> =
                free.entry(leaf.path()).or_insert_with(|| vec![false; DISK_BYTES as usize / 512]);
            for run in &runs {
                let share = top.share_of(leaf, VdevOffset::new(run.start), run.len()).expect("in range");
                let Some(share) = share else { continue };
                let first = share.start.get() as usize / 512;
                sectors[first..first + share.len as usize / 512].fill(true);
            }
        }
    }
    free
}

/// Files are written, and every second one is removed again: free space in many pieces.
async fn prepare(sim: &Sim, pool: &Arc<Pool>) {
    let fs = pool.filesystem(POOL).await.expect("it opens");
    let mut noise = vec![0; 100_000];
    fastrand::Rng::with_seed(7).fill(&mut noise);
    for number in 0..60 {
        let name = format!("old{number}");
        let made = fs.zfs.create(fs.zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default());
        let file = made.await.expect("create").object;
        fs.zfs.write(file, 0, &noise, WriteFlags::default()).await.expect("write");
    }
    pool.sync_now().await.expect("txgs turn");
    for number in (0..60).step_by(2) {
        fs.zfs.unlink(fs.zfs.root(), format!("old{number}").as_bytes()).await.expect("removed");
    }
    sim.sleep(Duration::from_millis(200)).await;
}

async fn check_old(pool: &Arc<Pool>) {
    let fs = pool.filesystem(POOL).await.expect("it opens");
    let mut noise = vec![0; 100_000];
    fastrand::Rng::with_seed(7).fill(&mut noise);
    let mut found = vec![0; noise.len()];
    for number in (1..60).step_by(2) {
        let file = fs.zfs.lookup(fs.zfs.root(), format!("old{number}").as_bytes()).await.expect("it stayed");
        fs.zfs.read(file.object, 0, &mut found).await.expect("read");
        assert!(found == noise, "old{number} is as it was");
    }
}

fn is_pattern(sector: &[u8]) -> bool {
    sector.as_chunks::<8>().0.iter().all(|word| *word == PATTERN.to_le_bytes())
}

#[test]
fn all_that_is_free_is_swept_and_nothing_else() {
    let _tell = Tell;
    for (seed, shape) in [(47_000, &SINGLE), (47_001, &MIRROR), (47_002, &RAIDZ), (47_003, &LOG)] {
        tell(format!("seed {seed}, {}", shape.name));
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::ssd());
        run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            prepare(&sim, &pool).await;
            let before = free(&pool);
            order(&pool, Kind::Initialize, START).await;
            complete(&sim, &pool, Kind::Initialize).await;
            let after = free(&pool);
            for (path, was_free) in &before {
                let bytes = sim.disk(path).peek(0, DISK_BYTES as usize);
                let sectors = bytes.chunks(512).zip(was_free.iter().zip(&after[path]));
                let (mut left_out, mut swept) = (0, 0);
                for (at, (sector, (was_free, is_free))) in sectors.enumerate() {
                    let is_pattern = is_pattern(sector);
                    assert!(at as u64 * 512 >= LABEL_START_BYTES || !is_pattern, "labels are as they were");
                    left_out += usize::from(*was_free && *is_free && !is_pattern) * 512;
                    swept += usize::from(*was_free && is_pattern) * 512;
                }
                assert!(left_out < IN_USE_MEANWHILE, "{left_out} bytes of {} left out", path.display());
                assert!(swept > 20 << 20, "{swept} bytes of {} swept", path.display());
            }
            check_old(&pool).await;
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        space::judged_by_zdb(shape, &sim);
    }
}

/// Free bytes of the first vdev that somebody holds.
fn held_bytes(pool: &Pool) -> u64 {
    let vdev = pool.vdevs().tops()[0].id();
    pool.zio().with_allocator(|allocator| {
        let (mut from, mut held) = (0, 0);
        loop {
            match allocator.hold_free(vdev, VdevOffset::new(from), 1 << 20) {
                NextFree::Held(run) => {
                    allocator.give_back(vdev, run);
                    from = run.end;
                }
                NextFree::Busy(run) => {
                    held += run.len();
                    from = run.end;
                }
                NextFree::None => return held,
            }
        }
    })
}

#[test]
fn nobody_is_given_what_is_being_swept() {
    let _tell = Tell;
    for kind in Kind::ALL {
        tell(format!("{kind:?} of a device that takes its time"));
        let sim = Sim::seed(47_050);
        SINGLE.add_disks(&sim, DiskModel::ssd());
        run(&sim, async {
            let pool = SINGLE.create(&sim, brisk()).await;
            // Each request takes that long.
            sim.disk("/a").set_delay(Duration::from_millis(20));
            order(&pool, kind, START).await;
            let mut held = 0;
            for _ in 0..100 {
                sim.sleep(Duration::from_millis(3)).await;
                held += u64::from(held_bytes(&pool) > 0);
            }
            assert!(held > 5, "at {held} of 100 moments");
            order(&pool, kind, Order::Suspend).await;
            assert_eq!(held_bytes(&pool), 0, "it has stopped");
            space::check(&pool).await;
        });
    }
}

/// Sweeps all leaves again and again.
async fn sweep_often(sim: &Sim, pool: &Arc<Pool>, kind: Kind) {
    for _ in 0..PASSES {
        order(pool, kind, START).await;
        complete(sim, pool, kind).await;
        if kind == Kind::Initialize {
            order(pool, kind, Order::Forget).await;
        }
    }
}

#[test]
fn a_sweep_under_load_leaves_every_block_as_it_was() {
    let _tell = Tell;
    let cases = [(&SINGLE, 47_100), (&MIRROR, 47_101), (&RAIDZ, 47_102), (&LOG, 47_103)];
    for ((shape, seed), kind) in cases.into_iter().flat_map(|case| Kind::ALL.map(|kind| (case, kind))) {
        let seed = number("SAWMILL_CRASH_SEED").unwrap_or(seed);
        tell(format!("seed {seed}, {}, {kind:?}", shape.name));
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::ssd());
        run(&sim, async {
            // One txg after the other, so that blocks are allocated all the time.
            let pool = shape.create(&sim, Tuning { txg_timeout: Duration::from_millis(1), ..brisk() }).await;
            prepare(&sim, &pool).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            under_load(&sim, &fs.zfs, sweep_often(&sim, &pool, kind)).await;
            // What a cache has says nothing of the disks.
            pool.zio().set_cache_limit(0);
            check_files(&fs.zfs, &promised_in(&sim)).await;
            drop(fs);
            check_old(&pool).await;
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        space::judged_by_zdb(shape, &sim);
    }
}

/// How long all but one in a hundred commits take at most, without sweeps and during each kind.
fn p99s(shape: &Shape, seed: u64) -> [Duration; 3] {
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = shape.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        let mut p99s =
            [under_load(&sim, &fs.zfs, sim.sleep(Duration::from_millis(400))).await.p99(), ZERO, ZERO];
        for (kind, p99) in Kind::ALL.into_iter().zip(&mut p99s[1..]) {
            let work = async {
                order(&pool, kind, START).await;
                complete(&sim, &pool, kind).await;
            };
            *p99 = under_load(&sim, &fs.zfs, work).await.p99();
        }
        p99s
    })
}

#[test]
fn commits_hardly_wait_for_a_sweep() {
    let _tell = Tell;
    // Of one run it is a matter of chance: a txg's sync more or less.
    for (shape, first) in [(&SINGLE, 47_800), (&MIRROR, 47_810), (&LOG, 47_820)] {
        tell(format!("seeds from {first} on, {}", shape.name));
        let sums = (first..first + RUNS)
            .map(|seed| p99s(shape, seed))
            .fold([ZERO; 3], |sums, p99s| std::array::from_fn(|at| sums[at] + p99s[at]));
        println!(
            "{}: mean p99 {:?}: alone, initializing, trimming",
            shape.name,
            sums.map(|sum| sum / RUNS as u32)
        );
        assert!(sums[1] * 2 < sums[0] * 3 && sums[2] * 2 < sums[0] * 3, "{}: {sums:?}", shape.name);
    }
}

/// Imports what a power cut left: all that was promised is there, and a sweep that had begun goes to its end.
fn judge(image: &CrashImage, shape: &Shape, seed: u64, kind: Kind, with_zdb: bool) -> State {
    let sim = image.boot(seed);
    sim.stop_recording();
    let found = run(&sim, async {
        let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
        let found = states(&pool, kind);
        let fs = pool.filesystem(POOL).await.expect("its log is whole");
        check_files(&fs.zfs, &promised(image.marks().iter().map(|mark| mark.label.as_str()))).await;
        drop(fs);
        let has_begun = found.iter().all(|state| matches!(state, State::Active | State::Complete));
        assert!(has_begun || !image.is_after("begun"), "{found:?}: it was begun");
        if has_begun {
            complete(&sim, &pool, kind).await;
        }
        check_old(&pool).await;
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        found[0]
    });
    if with_zdb {
        space::judged_by_zdb(shape, &sim);
    }
    found
}

fn cut_while_swept(kind: Kind, seeds: std::ops::Range<u64>) {
    let _tell = Tell;
    let seeds = number("SAWMILL_CRASH_SEED").map_or(seeds, |seed| seed..seed + 1);
    let images_max = number("SAWMILL_CRASH_IMAGES").map_or(IMAGES_MAX, |count| count as usize);
    let (mut seen, mut judged) = (BTreeMap::new(), 0);
    for seed in seeds {
        let shape = [&LOG, &MIRROR, &RAIDZ][seed as usize % 3];
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, DiskModel::ssd());
        run(&sim, async {
            let pool = shape.create(&sim, brisk()).await;
            prepare(&sim, &pool).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            sim.start_recording();
            let work = async {
                // A trim is slowed down, or it would be over too soon for most cuts.
                let rate = if kind == Kind::Trim { 150 << 20 } else { 0 };
                order(&pool, kind, Order::Start { rate, secure: false }).await;
                sim.mark("begun");
                complete(&sim, &pool, kind).await;
            };
            under_load(&sim, &fs.zfs, work).await;
        });
        let recording = sim.recording();
        // One at a time, drawn evenly: each holds what was written, and that is all of the disks.
        let plan = CrashPlan { subsets: 0, exhaustive_up_to: 0, ..CrashPlan::new(seed) };
        let every = recording.len() / images_max;
        let mut next = every / 2;
        for image in recording.crash_images_by(plan) {
            let (cut, variant) = image.position();
            // Nothing at risk was written, everything, or the last write in part, by turns.
            if cut < next || variant != judged % 3 {
                continue;
            }
            next += every;
            tell(format!("{kind:?}, seed {seed}, {}", image.story()));
            let found = judge(&image, shape, seed, kind, judged % ZDB_ONE_IN == ZDB_ONE_IN / 2);
            *seen.entry(found as u64).or_insert(0) += 1;
            judged += 1;
        }
    }
    println!("{kind:?}: crash states by state: {seen:?}");
    assert!(seen.get(&(State::Active as u64)).is_some_and(|count| *count > 4), "{seen:?}");
}

#[test]
fn a_power_cut_while_free_space_is_initialized_damages_nothing() {
    cut_while_swept(Kind::Initialize, 47_200..47_203);
}

#[test]
fn a_power_cut_while_free_space_is_trimmed_damages_nothing() {
    cut_while_swept(Kind::Trim, 47_300..47_302);
}

#[test]
fn initializing_goes_on_after_an_export() {
    let _tell = Tell;
    tell("an export amid initializing".into());
    let sim = Sim::seed(47_400);
    MIRROR.add_disks(&sim, DiskModel::ssd());
    let reached = run(&sim, async {
        let pool = MIRROR.create(&sim, brisk()).await;
        order(&pool, Kind::Initialize, START).await;
        let leaf = Arc::clone(&pool.vdevs().leaves()[0]);
        let offset = || pool.sweep_report(&leaf, Kind::Initialize).record.offset;
        while offset().get() < DISK_BYTES / 3 {
            sim.sleep(Duration::from_millis(1)).await;
        }
        let reached = offset();
        pool.close(PoolState::Exported).await.expect("it closes");
        reached
    });
    space::judged_by_zdb(&MIRROR, &sim);
    run(&sim, async {
        let pool = MIRROR.import(&sim, brisk(), false).await.expect("it imports");
        let leaf = Arc::clone(&pool.vdevs().leaves()[0]);
        let written = leaf.stats().snapshot().write.bytes;
        let report = pool.sweep_report(&leaf, Kind::Initialize);
        assert_eq!(report.record.state, State::Active);
        assert!(report.record.offset >= reached, "{} after {reached}", report.record.offset);
        complete(&sim, &pool, Kind::Initialize).await;
        let more = leaf.stats().snapshot().write.bytes - written;
        assert!(more < DISK_BYTES * 3 / 4, "{more} bytes are not all of it again");
    });
}

#[test]
fn a_leaf_that_is_away_is_swept_on_when_it_is_back() {
    let _tell = Tell;
    tell("a leaf that goes and comes".into());
    let sim = Sim::seed(47_500);
    MIRROR.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = MIRROR.create(&sim, brisk()).await;
        order(&pool, Kind::Initialize, START).await;
        let away = guid(&pool, "/b");
        pool.take_offline(away, Absence::Offline, false).await.expect("the other has all");
        sim.sleep(Duration::from_secs(10)).await;
        assert_eq!(states(&pool, Kind::Initialize), [State::Complete, State::Active]);
        let order = pool.sweep(Kind::Initialize, Order::Suspend, &[away]).await.expect("nothing to do");
        assert_eq!(order, [(away, SweepRefusal::NotUsable)]);
        pool.bring_online(away).await.expect("it is there");
        complete(&sim, &pool, Kind::Initialize).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(&MIRROR, &sim);
}

#[test]
fn a_device_that_goes_is_not_swept_any_more() {
    let _tell = Tell;
    tell("a leaf that is detached".into());
    let sim = Sim::seed(47_600);
    MIRROR.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = MIRROR.create(&sim, brisk()).await;
        order(&pool, Kind::Initialize, START).await;
        sim.sleep(Duration::from_millis(20)).await;
        pool.detach(guid(&pool, "/b")).await.expect("the other has all");
        let left = sim.disk("/b").peek(0, DISK_BYTES as usize);
        complete(&sim, &pool, Kind::Initialize).await;
        assert!(left == sim.disk("/b").peek(0, DISK_BYTES as usize), "it is nobody's to write to");
        let unswept = left.chunks(512).rev().skip(2048).take(2048).filter(|sector| is_pattern(sector));
        assert_eq!(unswept.count(), 0, "it went before it was done");
        space::check(&pool).await;
    });
}

#[test]
fn sweeps_are_told_what_to_do_and_say_why_not() {
    let _tell = Tell;
    tell("orders".into());
    let sim = Sim::seed(47_700);
    MIRROR.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = MIRROR.create(&sim, brisk()).await;
        // So slow that nothing is done before it is stopped.
        ["/a", "/b"].iter().for_each(|disk| sim.disk(disk).set_delay(Duration::from_millis(10)));
        let (a, b, group) = (guid(&pool, "/a"), guid(&pool, "/b"), pool.vdevs().tops()[0].guid());
        let say = async |kind, order, leaves: &[Guid]| {
            let refused = pool.sweep(kind, order, leaves).await.expect("it is stable");
            refused.into_iter().map(|(_, refusal)| refusal).collect::<Vec<_>>()
        };
        use SweepRefusal as R;
        let (init, trim) = (Kind::Initialize, Kind::Trim);
        assert_eq!(say(init, START, &[group, Guid::new(9)]).await, [R::NotUsable, R::NoSuchDevice]);
        assert_eq!(say(init, Order::Cancel, &[a]).await, [R::NotInitializing]);
        assert_eq!(say(trim, Order::Suspend, &[a]).await, [R::NotTrimming]);
        assert_eq!(say(init, START, &[a]).await, []);
        assert_eq!(say(init, START, &[a, b]).await, [R::Initializing]);
        assert_eq!(states(&pool, init), [State::Active; 2], "the other was begun");
        assert_eq!(say(init, Order::Forget, &[a]).await, [R::Initializing]);
        assert_eq!(say(init, Order::Suspend, &[b]).await, []);
        assert_eq!(say(init, Order::Suspend, &[a, b]).await, [R::NotInitializing]);
        assert_eq!(states(&pool, init), [State::Active, State::Suspended], "all or none");
        let at = pool.sweep_report(&pool.vdevs().leaves()[1], init).record;
        sim.sleep(Duration::from_millis(50)).await;
        assert_eq!(pool.sweep_report(&pool.vdevs().leaves()[1], init).record, at, "it waits");
        assert_eq!(say(init, Order::Cancel, &[a, b]).await, []);
        assert_eq!(states(&pool, init), [State::Canceled; 2]);
        assert_eq!(say(init, Order::Forget, &[a, b]).await, []);
        assert_eq!(states(&pool, init), [State::None; 2]);
        ["/a", "/b"].iter().for_each(|disk| sim.disk(disk).set_delay(Duration::ZERO));
        let secure = Order::Start { rate: 0, secure: true };
        assert_eq!(say(trim, secure, &[a]).await, [R::CannotTrim]);
        // A mebibyte a second: of some 60 of them few are done at once.
        assert_eq!(say(trim, Order::Start { rate: 1 << 20, secure: false }, &[a]).await, []);
        sim.sleep(Duration::from_secs(8)).await;
        let report = pool.sweep_report(&pool.vdevs().leaves()[0], trim);
        assert_eq!(report.record.state, State::Active);
        assert!(report.done_bytes * 2 < report.total_bytes, "{report:?}");
        let (asked, auto) = pool.trim_counts();
        assert!(asked.discarded.count > 0 && asked.discarded.bytes <= report.done_bytes, "{asked:?}");
        assert_eq!(auto, Default::default());
        assert_eq!(say(trim, Order::Suspend, &[a]).await, []);
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    run(&sim, async {
        let pool = MIRROR.import(&sim, brisk(), false).await.expect("it imports");
        assert_eq!(states(&pool, Kind::Trim), [State::Suspended, State::None]);
        let record = pool.sweep_report(&pool.vdevs().leaves()[0], Kind::Trim).record;
        assert_eq!(record.rate, 1 << 20);
        assert_eq!(states(&pool, Kind::Initialize), [State::None; 2]);
    });
    space::judged_by_zdb(&MIRROR, &sim);
}
