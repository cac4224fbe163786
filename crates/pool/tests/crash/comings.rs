//! Devices are attached, replaced, detached, taken out and brought back, in an order drawn from the seed, while clients
//! write; and the power is cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures::future::join_all;
use pool::{Absence, ImportSpec, Pool, PoolError};
use sim::{CrashImage, DiskModel, DiskSpec, Sim};
use units::LeafOffset;
use vdev::{Bias, Leaf, NewVdev, PoolState, VdevState};

use crate::attached::{at, check, promise, whole};
use crate::dice::Dice;
use crate::shape::{DISK_BYTES, LOG, POOL, brisk};
use crate::space;
use crate::story::{Tell, drawn, number, run, tell};

/// The pool is made of the first and of the last.
const DISKS: [&str; 9] = ["/a", "/b", "/c", "/d", "/e", "/f", "/m", "/n", "/l"];
const COMMANDS: usize = 24;
const CLIENTS: usize = 4;
const IMAGES: usize = 6;
const PAUSE: Duration = Duration::from_millis(1);
/// Leaves of one vdev, at most.
const LEAVES_MAX: usize = 4;

fn disks(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    for path in DISKS {
        sim.add_disk(path, DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    }
    sim
}

/// A disk that is in no vdev.
fn spare_disk(pool: &Pool, dice: &mut Dice) -> Option<&'static str> {
    let leaves = pool.vdevs().leaves();
    let is_free = |disk: &&str| !leaves.iter().any(|leaf| leaf.path().starts_with(disk));
    let free: Vec<_> = DISKS.into_iter().filter(is_free).collect();
    dice.pick(&free).copied()
}

/// Does something to a leaf; tells what, and what came of it.
async fn command(sim: &Sim, pool: &Arc<Pool>, dice: &mut Dice) -> (String, Result<(), PoolError>) {
    let leaves = pool.vdevs().leaves();
    let leaf: Arc<Leaf> = Arc::clone(dice.pick(&leaves).expect("a pool has leaves"));
    let (guid, path) = (leaf.guid(), leaf.path());
    let is_narrow = pool.vdevs().top(leaf.vdev()).is_ok_and(|top| top.leaves().len() < LEAVES_MAX);
    let told = |what: &str| format!("{what} {}", path.display());
    match (dice.below(7), spare_disk(pool, dice).filter(|_| is_narrow)) {
        (0 | 1, Some(new)) => (told(&format!("attach {new} to")), pool.attach(guid, &at(new)).await),
        (2, Some(new)) => (told(&format!("replace with {new}")), pool.replace(guid, &at(new)).await),
        (3, _) => (told("detach"), pool.detach(guid).await),
        (4, _) => {
            let absence = if dice.below(2) == 0 { Absence::Offline } else { Absence::Faulted };
            let for_now = dice.below(2) == 0;
            let done = pool.take_offline(guid, absence, for_now).await;
            (told(&format!("{absence:?}, for now: {for_now},")), done)
        }
        (5, _) => {
            let out = leaves.iter().find(|leaf| !leaf.is_usable()).map_or(guid, |leaf| leaf.guid());
            (told("online, or another than"), pool.bring_online(out).await.map(|_| ()))
        }
        _ => {
            sim.env().sleep(Duration::from_millis(1 + dice.below(60))).await;
            ("wait".to_owned(), Ok(()))
        }
    }
}

/// What cannot be done is refused in words.
fn is_refusal(error: &PoolError) -> bool {
    matches!(error, PoolError::Device(_))
}

/// Everything is brought back, and made whole.
async fn bring_all_back(sim: &Sim, pool: &Arc<Pool>) {
    for leaf in pool.vdevs().leaves().iter().filter(|leaf| !leaf.is_usable()) {
        let state = pool.bring_online(leaf.guid()).await.expect("it is there");
        assert_eq!(state, VdevState::Online);
    }
    whole(sim, pool).await;
}

async fn check_promises(pool: &Arc<Pool>, promised: impl Iterator<Item = u64>) {
    let fs = pool.filesystem(POOL).await.expect("its log is whole");
    for number in promised {
        check(&fs.zfs, number).await;
    }
}

fn judge(image: &CrashImage, seed: u64, promised: u64) {
    let sim = image.boot(seed);
    sim.stop_recording();
    run(&sim, async {
        let paths = DISKS.iter().map(PathBuf::from).collect();
        let spec = ImportSpec { paths, name: Some(POOL.into()), ..ImportSpec::default() };
        let pool = Pool::import(sim.env(), &spec, brisk()).await.expect("every crash state imports");
        let is_promised = |number: &u64| image.is_after(&format!("promised {number}"));
        check_promises(&pool, (0..promised).filter(is_promised)).await;
        bring_all_back(&sim, &pool).await;
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
}

#[test]
fn devices_come_and_go_at_random_and_nothing_promised_is_lost() {
    let _tell = Tell;
    let runs = number("SAWMILL_CRASH_RUNS").unwrap_or(2);
    let seeds = number("SAWMILL_CRASH_SEED").map_or(43_000..43_000 + runs, |seed| seed..seed + 1);
    let (mut done, mut refused) = (0, 0);
    for seed in seeds {
        tell(format!("seed {seed}"));
        let sim = disks(seed);
        let promised = AtomicU64::new(0);
        run(&sim, async {
            let mut dice = Dice::new(seed, 0);
            let pool = LOG.create(&sim, brisk()).await;
            let fs = pool.filesystem(POOL).await.expect("it opens");
            sim.start_recording();
            let is_over = AtomicBool::new(false);
            let client = async || {
                while !is_over.load(SeqCst) {
                    promise(&sim, &fs.zfs, promised.fetch_add(1, SeqCst)).await;
                    sim.env().sleep(PAUSE).await;
                }
            };
            let commands = async {
                for _ in 0..COMMANDS {
                    let (told, result) = command(&sim, &pool, &mut dice).await;
                    tell(format!("seed {seed}, {told}: {result:?}"));
                    match result {
                        Ok(()) => done += 1,
                        Err(error) if is_refusal(&error) => refused += 1,
                        Err(error) => panic!("{told}: {error}"),
                    }
                }
                is_over.store(true, SeqCst);
            };
            futures::join!(join_all((0..CLIENTS).map(|_| client())), commands);
            bring_all_back(&sim, &pool).await;
            drop(fs);
            check_promises(&pool, 0..promised.load(SeqCst)).await;
            space::check(&pool).await;
        });
        for image in drawn(&sim.recording(), IMAGES) {
            tell(format!("seed {seed}, {}", image.story()));
            judge(&image, seed, promised.load(SeqCst));
        }
    }
    println!("{done} commands done, {refused} refused");
    assert!(done > 8, "{done} done, {refused} refused");
}

/// Reads a leaf until it is out of use: the last of the reads has its device a while longer.
async fn read_until_closed(leaf: &Leaf) {
    while leaf.read(LeafOffset::new(8 << 20), 4 << 20).await.is_ok() {}
}

#[test]
fn a_device_that_was_just_detached_is_free() {
    const TIMES: usize = 24;
    let _tell = Tell;
    let sim = disks(43_100);
    run(&sim, async {
        let pool = LOG.create(&sim, brisk()).await;
        for time in 0..TIMES {
            let guid_of = |path: &str| crate::attached::guid(&pool, path);
            pool.attach(guid_of("/a"), &at("/b")).await.expect("attached");
            whole(&sim, &pool).await;
            let detached = pool.vdevs().leaf(guid_of("/b")).expect("it is there");
            let take_again = async {
                pool.detach(detached.guid()).await.expect("a has everything");
                tell(format!("detached, and taken at once, {time}"));
                match time % 3 {
                    0 => pool.attach(guid_of("/a"), &at("/b")).await.expect("attached"),
                    1 => pool.replace(guid_of("/l"), &at("/b")).await.expect("replaced"),
                    _ => {
                        let log =
                            NewVdev { paths: vec!["/b".into()], bias: Bias::log(true), ..NewVdev::default() };
                        pool.add(vec![log], false).await.expect("added");
                    }
                }
            };
            futures::join!(read_until_closed(&detached), take_again);
            whole(&sim, &pool).await;
            match time % 3 {
                0 => pool.detach(guid_of("/b")).await.expect("a has everything"),
                1 => {
                    while pool.vdevs().leaves().iter().any(|leaf| leaf.path() == Path::new("/l")) {
                        sim.env().sleep(PAUSE).await;
                    }
                    pool.replace(guid_of("/b"), &at("/l")).await.expect("replaced");
                    whole(&sim, &pool).await;
                    while pool.vdevs().leaves().iter().any(|leaf| leaf.path() == Path::new("/b")) {
                        sim.env().sleep(PAUSE).await;
                    }
                }
                _ => {
                    let log = pool.vdevs().leaf(guid_of("/b")).expect("it is there").vdev();
                    pool.remove_log(log).await.expect("it is empty");
                }
            }
        }
    });
}
