//! A log block that nothing on disk leads to any more: a write failed, and the power went soon after.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use env::FaultOp;
use futures::future::{join, select};
use metaslab::Class;
use oracle::zdb::ZdbError;
use pool::{ImportSpec, Pool};
use sim::{CrashImage, DiskModel, Sim};
use vdev::PoolState;

use crate::attached::{check, promise};
use crate::ground::quiet;
use crate::shape::{POOL, SINGLE_TWO_LOGS as LOGS};
use crate::space;
use crate::story::{Tell, run, tell};

/// Files that are made before the power goes, all in one txg, the last of them with the log block that cannot be written.
const FILES: u64 = 5;
/// The time that a write to a log takes.
const DELAY: Duration = Duration::from_millis(5);
const MOMENT: Duration = Duration::from_millis(1);

/// What a power cut leaves when a log block of a txg could not be written, which names another, and that was allocated in
/// the same txg; while the other is being written, with a record of the next txg, the first txg becomes stable.
fn leaky(seed: u64, checkpointed: bool) -> CrashImage {
    let sim = Sim::seed(seed);
    LOGS.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = LOGS.create(&sim, quiet()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        if checkpointed {
            pool.make_checkpoint().await.expect("there is none");
        }
        pool.sync_now().await.expect("txgs turn");
        for number in 0..FILES - 1 {
            promise(&sim, &fs.zfs, number).await;
        }
        for path in ["/l", "/m"] {
            let disk = sim.disk(path);
            disk.set_delay(DELAY);
            // Each write is tried twice.
            disk.faults().fail_range(FaultOp::Write, 1, 2);
        }
        let after = |moments: u32| sim.env().sleep(moments * MOMENT);
        let turns = async {
            after(1).await;
            pool.sync_now().await.expect("txgs turn");
        };
        let next = async {
            after(2).await;
            promise(&sim, &fs.zfs, FILES).await;
        };
        let commits = join(promise(&sim, &fs.zfs, FILES - 1), next);
        // The next txg, which would give back what is left of the chain, has not begun to be written by then.
        select(pin!(turns), pin!(commits)).await;
    });
    sim.power_cut(seed)
}

/// Bytes of log vdevs that are allocated.
fn taken(pool: &Pool) -> u64 {
    pool.zio().with_allocator(|allocator| allocator.space(Class::Log).allocated.get())
}

/// Bytes of them that logs hold.
async fn held(pool: &Arc<Pool>) -> u64 {
    let mut places = BTreeSet::new();
    for log in pool.logs().await.expect("datasets read") {
        let mut walk = log.walk();
        while let Some(block) = walk.next().await.expect("its device is there") {
            places.extend(block.bp.dvas().map(|dva| (dva.vdev, dva.offset, dva.asize)));
        }
    }
    let is_log = |pool: &Pool, vdev| pool.vdevs().top(vdev).is_ok_and(|top| top.is_log());
    places.iter().filter(|(vdev, ..)| is_log(pool, *vdev)).map(|(.., asize)| asize.get()).sum()
}

/// What zdb says of the disks of a world now.
fn by_zdb(sim: &Sim) -> Result<(), ZdbError> {
    space::check_by_zdb(&LOGS, |path, offset, len| sim.disk(path).peek(offset, len))
}

/// Whether zdb finds a leak; `None` without zdb.
fn leaks_to_zdb(sim: &Sim) -> Option<bool> {
    match by_zdb(sim) {
        Ok(()) => Some(false),
        Err(ZdbError::Missing(_)) => None,
        Err(ZdbError::Unhappy { verdict, .. }) if verdict.contains("leaked space") => Some(true),
        Err(other) => panic!("{other}"),
    }
}

/// Imports what a crash left; what of log vdevs is taken then, and held.
fn figures(image: &CrashImage, how: ImportSpec) -> (u64, u64) {
    let sim = image.boot(1);
    run(&sim, async {
        let pool = LOGS.import_as(&sim, quiet(), how).await.expect("every crash state imports");
        (taken(&pool), held(&pool).await)
    })
}

/// The first worlds in which something leaked: what a power cut left, and the bytes of log vdevs that were taken.
fn leaks(count: usize) -> Vec<(CrashImage, u64)> {
    let read_only = || ImportSpec { read_only: true, ..ImportSpec::default() };
    let seeds = 46_000..46_040;
    let tried = seeds.map(|seed| {
        tell(format!("seed {seed}"));
        let image = leaky(seed, false);
        let (taken, held) = figures(&image, read_only());
        println!("seed {seed}: {taken} bytes taken, {held} held");
        (taken > held).then_some((image, taken))
    });
    let found: Vec<_> = tried.flatten().take(count).collect();
    assert_eq!(found.len(), count, "nothing leaks any more that an import has to give back");
    found
}

#[test]
fn what_a_failed_write_left_on_a_log_is_given_back_by_the_next_import() {
    let _tell = Tell;
    for (image, before) in leaks(2) {
        assert_ne!(leaks_to_zdb(&image.boot(1)), Some(false));
        let sim = image.boot(1);
        run(&sim, async {
            let pool = LOGS.import(&sim, quiet(), false).await.expect("every crash state imports");
            let (taken, held) = (taken(&pool), held(&pool).await);
            assert!(held > 0 && taken == held, "{before} bytes were taken, {taken} are, {held} held");
        });
        // It goes down again with its logs claimed, and the next import finds nothing to free.
        let again = sim.power_cut(1);
        assert_ne!(leaks_to_zdb(&again.boot(1)), Some(true));
        let sim = again.boot(1);
        run(&sim, async {
            let pool = LOGS.import(&sim, quiet(), false).await.expect("every crash state imports");
            assert_eq!(taken(&pool), held(&pool).await);
            let fs = pool.filesystem(POOL).await.expect("its log is whole");
            for number in 0..FILES {
                check(&fs.zfs, number).await;
            }
            promise(&sim, &fs.zfs, FILES + 1).await;
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        space::judged_by_zdb(&LOGS, &sim);
    }
}

#[test]
fn nothing_is_freed_that_some_log_may_hold() {
    let _tell = Tell;
    let without_logs = ImportSpec { without_logs: true, ..ImportSpec::default() };
    for (image, _) in leaks(1) {
        let (taken, held) = figures(&image, without_logs.clone());
        assert!(taken > held, "{taken} bytes taken, {held} held: some log may go on behind a missing device");
    }
    let with_checkpoint = (46_100..46_140).map(|seed| figures(&leaky(seed, true), ImportSpec::default()));
    let left = with_checkpoint.filter(|(taken, held)| taken > held).count();
    assert!(left > 0, "the checkpoint has logs of its own, and something was freed");
}
