//! `multihost=on`: what its owner writes, when it stops, and when it goes on. Two hosts on simulated disks, with a virtual clock.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dsl::PropValue;
use ondisk::UberblockPhys;
use pool::{Heartbeats, Host, ImportSpec, Pool, PoolError, PoolSpec, Tuning, find_pools};
use sim::{DiskModel, DiskSpec, Sim, SimHost};
use vdev::{NewVdev, PoolState};

const POOL: &str = "tank";
const DISKS: [&str; 2] = ["a", "b"];
const A: u64 = 0xa;
const B: u64 = 0xb;
const SECOND: Duration = Duration::from_secs(1);

fn paths() -> Vec<PathBuf> {
    DISKS.iter().map(PathBuf::from).collect()
}

fn world(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    for disk in DISKS {
        sim.add_disk(PathBuf::from(disk), DiskSpec::new(256 << 20, DiskModel::ssd()));
    }
    sim
}

/// Txgs end when the test says so.
fn tuning(id: u64) -> Tuning {
    let host = Host { id, name: format!("host-{id:x}"), ..Host::default() };
    Tuning { host, txg_timeout: Duration::from_secs(100_000), ..Tuning::default() }
}

async fn on<T: Send + 'static>(host: &SimHost, work: impl Future<Output = T> + Send + 'static) -> T {
    host.run(work).await.expect("it lives")
}

async fn create_with(host: &SimHost, tuning: Tuning) -> Arc<Pool> {
    let mirror = NewVdev {
        paths: paths(),
        ashift: None,
        bias: vdev::Bias::log(false),
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let spec = PoolSpec {
        name: POOL.into(),
        stored_name: None,
        vdevs: vec![mirror],
        root_props: Vec::new(),
        comment: None,
        force: false,
    };
    let env = host.env();
    on(host, async move { Pool::create(env, spec, tuning).await.expect("a pool is made of new disks") }).await
}

async fn create(host: &SimHost) -> Arc<Pool> {
    create_with(host, tuning(A)).await
}

async fn set(host: &SimHost, pool: &Arc<Pool>, is_on: bool) -> Result<(), PoolError> {
    let pool = Arc::clone(pool);
    let value = Some(PropValue::Number(is_on.into()));
    on(host, async move { pool.set_pool_prop("multihost", value).await }).await
}

/// A new pool of host A's with heartbeats.
async fn beating(sim: &Sim) -> (SimHost, Arc<Pool>) {
    let host = SimHost::new(sim);
    let pool = create(&host).await;
    set(&host, &pool, true).await.expect("it has a number");
    (host, pool)
}

async fn import(host: &SimHost, id: u64, force: bool) -> Result<Arc<Pool>, PoolError> {
    let spec = ImportSpec { paths: paths(), name: Some(POOL.into()), force, ..ImportSpec::default() };
    let env = host.env();
    on(host, async move { Pool::import(env, &spec, tuning(id)).await }).await
}

async fn newest(sim: &Sim) -> UberblockPhys {
    find_pools(&sim.env(), &paths()).await.remove(0).uberblock.expect("there is one")
}

/// Slots of a ring of uberblocks.
fn slots(pool: &Pool) -> u64 {
    ondisk::label::uberblock_slots(pool.vdevs().tops()[0].ashift())
}

/// Waits until a heartbeat was begun and has long landed, so that none is under way.
async fn after_a_heartbeat(sim: &Sim, host: &SimHost) {
    let told = host.writes();
    while host.writes() == told {
        sim.env().sleep(SECOND / 1000).await;
    }
    sim.env().sleep(SECOND / 10).await;
}

async fn close(host: &SimHost, pool: Arc<Pool>) {
    on(host, async move { pool.close(PoolState::Exported).await.expect("closes") }).await;
}

async fn clear(host: &SimHost, pool: &Arc<Pool>) -> Result<(), PoolError> {
    let pool = Arc::clone(pool);
    on(host, async move { pool.clear(&|_| true).await }).await
}

#[test]
fn without_multihost_no_heartbeat_is_written() {
    let sim = world(1);
    sim.run_until(async {
        let host = SimHost::new(&sim);
        let pool = create(&host).await;
        let (before, found) = (host.writes(), newest(&sim).await);
        sim.env().sleep(60 * SECOND).await;
        assert_eq!(host.writes(), before);
        assert_eq!((found.mmp_delay.get(), found.mmp_config.get()), (0, 0));
        assert!(found.mmp().is_some(), "a writer that knows of heartbeats, and writes none");
        set(&host, &pool, true).await.expect("on");
        sim.env().sleep(2 * SECOND).await;
        set(&host, &pool, false).await.expect("off");
        let (before, found) = (host.writes(), newest(&sim).await);
        sim.env().sleep(60 * SECOND).await;
        assert_eq!((host.writes(), found.mmp_delay.get()), (before, 0));
        close(&host, pool).await;
    });
}

#[test]
fn each_leaf_gets_a_heartbeat_an_interval_in_its_last_slot() {
    let sim = world(2);
    sim.run_until(async {
        let (host, pool) = beating(&sim).await;
        let synced = newest(&sim).await;
        after_a_heartbeat(&sim, &host).await;
        let (before, counts) = (host.writes(), pool.heartbeats());
        sim.env().sleep(10 * SECOND).await;
        after_a_heartbeat(&sim, &host).await;
        let beats = host.writes() - before;
        assert!((19..=21).contains(&beats), "{beats} heartbeats of two leaves in ten seconds");
        assert_eq!(pool.heartbeats().landed - counts.landed, beats);
        let found = newest(&sim).await;
        let mmp = found.mmp().expect("it tells of heartbeats");
        assert_eq!((mmp.interval_ms, mmp.fail_intervals), (Some(1000), Some(10)));
        assert!(mmp.sequence >= Some(1));
        assert_eq!((found.txg, found.rootbp), (synced.txg, synced.rootbp), "it says nothing new");
        assert!(found.timestamp.get() >= synced.timestamp.get() + 9);
        let delay = Duration::from_nanos(found.mmp_delay.get());
        assert!(delay >= SECOND / 2 && delay <= SECOND, "{delay:?}");
        for disk in DISKS {
            let device = sim.env().open(&PathBuf::from(disk), env::OpenMode::ReadOnly).await.expect("opens");
            let labels = vdev::LeafLabels::read(&device).await;
            let slots = slots(&pool);
            let is_beat = |found: &&vdev::FoundUberblock| {
                found.uberblock.mmp().and_then(|mmp| mmp.sequence).is_some_and(|sequence| sequence > 0)
            };
            let beats: Vec<_> = labels.uberblocks.iter().filter(is_beat).collect();
            assert!(!beats.is_empty() && beats.iter().all(|found| found.slot == slots - 1), "{disk}");
            let labels_used: std::collections::BTreeSet<usize> =
                beats.iter().map(|found| found.label).collect();
            assert!(labels_used.len() > 1, "{labels_used:?}");
        }
        close(&host, pool).await;
    });
}

#[test]
fn uberblocks_of_txgs_leave_the_slot_of_heartbeats_alone() {
    let sim = world(3);
    sim.run_until(async {
        let (host, pool) = beating(&sim).await;
        let txgs = slots(&pool) + 4;
        for _ in 0..txgs {
            let pool = Arc::clone(&pool);
            on(&host, async move { pool.sync_now().await.expect("stable") }).await;
        }
        let device = sim.env().open(&PathBuf::from("a"), env::OpenMode::ReadOnly).await.expect("opens");
        let labels = vdev::LeafLabels::read(&device).await;
        let last = slots(&pool) - 1;
        let of_txg = |found: &&vdev::FoundUberblock| {
            found.slot == last && found.uberblock.mmp().and_then(|mmp| mmp.sequence) == Some(0)
        };
        assert_eq!(labels.uberblocks.iter().filter(of_txg).count(), 0);
        close(&host, pool).await;
    });
}

#[test]
fn a_host_without_a_number_may_neither_turn_it_on_nor_import_such_a_pool() {
    let sim = world(4);
    sim.run_until(async {
        let nobody = SimHost::new(&sim);
        let pool = create_with(&nobody, tuning(0)).await;
        let refused = set(&nobody, &pool, true).await;
        assert!(matches!(refused, Err(PoolError::NoHostId)), "{refused:?}");
        assert!(!pool.multihost());
        close(&nobody, pool).await;
        let host = SimHost::new(&sim);
        let pool = import(&host, A, false).await.expect("exported");
        set(&host, &pool, true).await.expect("on");
        close(&host, pool).await;
        let refused = import(&nobody, 0, true).await.map(drop);
        assert!(matches!(refused, Err(PoolError::NoHostId)), "{refused:?}");
        let pool = import(&host, A, false).await.expect("its devices were let go of");
        assert!(pool.multihost(), "it is kept in the pool");
        host.die();
        let refused = import(&nobody, 0, true).await.map(drop);
        assert!(matches!(refused, Err(PoolError::NoHostId)), "{refused:?}");
    });
}

#[test]
fn a_living_owner_keeps_its_pool_and_a_dead_one_is_waited_out_and_the_pool_claimed() {
    let sim = world(5);
    sim.run_until(async {
        let (a, _pool) = beating(&sim).await;
        let b = SimHost::new(&sim);
        let refused = import(&b, B, true).await.map(drop);
        assert!(matches!(refused, Err(PoolError::ActiveElsewhere { hostid: A, .. })), "{refused:?}");
        assert_eq!(b.writes(), 0);
        a.die();
        let begun = sim.env().now();
        let pool = import(&b, B, true).await.expect("its owner is dead");
        let waited = sim.env().now() - begun;
        // Twice ten intervals, up to a quarter more, and ten for the claim.
        assert!(waited >= 30 * SECOND && waited <= 37 * SECOND, "{waited:?}");
        assert!(pool.multihost(), "it goes on with what the pool says");
        close(&b, pool).await;
    });
}

#[test]
fn of_two_hosts_that_wait_at_the_same_time_one_gets_the_pool_at_most() {
    let mut taken = 0;
    for seed in 1..=12 {
        let sim = world(seed);
        taken += sim.run_until(async {
            let (a, _pool) = beating(&sim).await;
            sim.env().sleep(3 * SECOND).await;
            a.die();
            let (b, c) = (SimHost::new(&sim), SimHost::new(&sim));
            let later = async {
                sim.env().sleep(SECOND * (seed % 3) as u32).await;
                import(&c, 0xc, true).await
            };
            let (by_b, by_c) = futures::join!(import(&b, B, true), later);
            let winners = usize::from(by_b.is_ok()) + usize::from(by_c.is_ok());
            assert!(winners <= 1, "seed {seed}: two hosts have the pool");
            winners
        });
    }
    assert!(taken > 0, "nobody ever gets it");
}

#[test]
fn a_pool_whose_heartbeats_do_not_land_is_suspended() {
    let sim = world(6);
    sim.run_until(async {
        let (host, pool) = beating(&sim).await;
        sim.env().sleep(5 * SECOND).await;
        assert!(pool.suspended().is_none());
        host.pause();
        sim.env().sleep(11 * SECOND).await;
        let before = host.writes();
        // Somebody asks for a txg in the very moment in which the host goes on.
        let syncing = Arc::clone(&pool);
        let stable = host.run(async move { syncing.sync_now().await });
        let stable = futures::future::select(Box::pin(stable), sim.env().sleep(60 * SECOND));
        host.resume();
        assert!(matches!(stable.await, futures::future::Either::Right(_)), "acknowledged after the pause");
        assert_eq!(host.writes(), before, "it wrote after the pause");
        assert!(pool.suspended().is_some() && pool.is_suspended_for_heartbeats());
    });
}

#[test]
fn a_pause_shorter_than_the_limit_is_no_reason_to_stop() {
    let sim = world(7);
    sim.run_until(async {
        let (host, pool) = beating(&sim).await;
        for _ in 0..5 {
            host.pause();
            sim.env().sleep(8 * SECOND).await;
            host.resume();
            sim.env().sleep(2 * SECOND).await;
        }
        assert!(pool.suspended().is_none());
        let syncing = Arc::clone(&pool);
        on(&host, async move { syncing.sync_now().await.expect("stable") }).await;
        close(&host, pool).await;
    });
}

#[test]
fn without_a_limit_heartbeats_that_fail_are_ignored() {
    let sim = world(8);
    sim.run_until(async {
        let host = SimHost::new(&sim);
        let heartbeats = Heartbeats { fail_intervals: 0, ..Heartbeats::default() };
        let pool = create_with(&host, Tuning { heartbeats, ..tuning(A) }).await;
        set(&host, &pool, true).await.expect("on");
        host.pause();
        sim.env().sleep(100 * SECOND).await;
        host.resume();
        let syncing = Arc::clone(&pool);
        on(&host, async move { syncing.sync_now().await.expect("stable") }).await;
        assert!(pool.suspended().is_none());
        assert_eq!(newest(&sim).await.mmp().and_then(|mmp| mmp.fail_intervals), Some(0));
        host.die();
        // Its owner never stops: as often as this host says, and what the owner needed for one on top.
        let (b, begun) = (SimHost::new(&sim), sim.env().now());
        import(&b, B, true).await.expect("its owner is dead");
        assert!(sim.env().now() - begun >= 20 * 2 * SECOND);
    });
}

#[test]
fn clear_takes_a_pool_up_again_that_nobody_took() {
    let sim = world(9);
    sim.run_until(async {
        let (host, pool) = beating(&sim).await;
        host.pause();
        sim.env().sleep(30 * SECOND).await;
        host.resume();
        sim.env().sleep(SECOND).await;
        assert!(pool.is_suspended_for_heartbeats());
        let begun = sim.env().now();
        clear(&host, &pool).await.expect("nobody took it");
        assert!(sim.env().now() - begun >= 20 * SECOND, "it looks as long as an import");
        assert!(pool.suspended().is_none());
        let syncing = Arc::clone(&pool);
        on(&host, async move { syncing.sync_now().await.expect("stable") }).await;
        let before = pool.heartbeats().landed;
        sim.env().sleep(5 * SECOND).await;
        assert!(pool.heartbeats().landed >= before + 9);
        close(&host, pool).await;
    });
}

#[test]
fn clear_leaves_a_pool_to_the_host_that_took_it() {
    // Also to one that is just taking it, or exported it since.
    for (secs, exports) in [(60, false), (60, true), (22, false)] {
        let sim = world(10);
        sim.run_until(async {
            let (a, pool) = beating(&sim).await;
            sim.env().sleep(2 * SECOND).await;
            let b = SimHost::new(&sim);
            a.pause();
            let taking = import(&b, B, true);
            let stop = sim.env().sleep(secs * SECOND);
            let (taken, ()) = futures::join!(taking, async {
                stop.await;
                a.resume();
                sim.env().sleep(SECOND).await;
                if secs < 30 {
                    let refused = clear(&a, &pool).await;
                    assert!(matches!(refused, Err(PoolError::ActiveElsewhere { .. })), "{refused:?}");
                }
            });
            let taken = taken.expect("a is held up");
            if exports {
                close(&b, taken).await;
            }
            let before = a.writes();
            let refused = clear(&a, &pool).await;
            assert!(matches!(refused, Err(PoolError::ActiveElsewhere { hostid: B, .. })), "{refused:?}");
            assert!(pool.suspended().is_some());
            let given_up = Arc::clone(&pool);
            on(&a, async move { given_up.abandon().await }).await;
            assert_eq!(a.writes(), before, "it wrote to b's pool");
        });
    }
}

#[test]
fn slow_devices_suspend_the_pool_when_none_is_quick() {
    let sim = world(11);
    sim.run_until(async {
        let (host, pool) = beating(&sim).await;
        sim.disk("b").set_delay(15 * SECOND);
        sim.env().sleep(45 * SECOND).await;
        assert!(pool.suspended().is_none(), "one is enough");
        assert!(pool.heartbeats().skipped > 0 || pool.heartbeats().landed > 60);
        sim.disk("a").set_delay(15 * SECOND);
        sim.env().sleep(25 * SECOND).await;
        assert!(pool.is_suspended_for_heartbeats());
        for disk in DISKS {
            sim.disk(disk).set_delay(Duration::ZERO);
        }
        sim.env().sleep(60 * SECOND).await;
        assert!(pool.suspended().is_some(), "it goes on by command only");
        clear(&host, &pool).await.expect("nobody took it");
        let syncing = Arc::clone(&pool);
        on(&host, async move { syncing.sync_now().await.expect("stable") }).await;
        assert!(pool.vdevs().leaves().iter().all(|leaf| leaf.state().0 == vdev::VdevState::Online));
        close(&host, pool).await;
    });
}

#[test]
fn after_a_power_cut_at_any_heartbeat_its_own_host_takes_the_pool_back_at_once() {
    for seed in 1..=16 {
        let sim = world(seed);
        let txg = sim.run_until(async {
            let (_host, pool) = beating(&sim).await;
            sim.env().sleep(Duration::from_micros(seed * 333_337 % 3_000_000)).await;
            pool.txgs().synced_txg()
        });
        let later = sim.power_cut(seed).boot(seed + 100);
        later.run_until(async {
            let host = SimHost::new(&later);
            let begun = later.env().now();
            let pool = import(&host, A, false).await.expect("it left it itself");
            assert!(pool.opened_txg() >= txg && later.env().now() - begun < SECOND * 2, "seed {seed}");
            close(&host, pool).await;
        });
    }
}
