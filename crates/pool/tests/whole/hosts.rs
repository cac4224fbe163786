//! Pools that another host has, or had: a simulated disk that two hosts reach.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ondisk::MmpConfig;
use pool::{
    Candidate, Host, ImportSpec, Left, LeftAlone, Pool, PoolError, PoolSpec, Tuning, find_pools,
    watch_for_owner,
};
use sim::{DiskModel, DiskSpec, Sim};
use units::Txg;
use vdev::{LabelSync, NewVdev, PoolState};

const POOL: &str = "tank";
const DISK: &str = "disk";
const A: u64 = 0xa;
const B: u64 = 0xb;
/// OpenZFS's defaults: a heartbeat a second, ten may fail.
const INTERVAL_MS: u32 = 1000;
const FAIL_INTERVALS: u16 = 10;

/// Txgs end when the test says so.
fn host(id: u64) -> Tuning {
    let host = Host { id, name: format!("host-{id:x}"), ..Host::default() };
    Tuning { host, txg_timeout: Duration::from_secs(100_000), ..Tuning::default() }
}

async fn create(sim: &Sim) -> Arc<Pool> {
    let disk = NewVdev {
        paths: vec![PathBuf::from(DISK)],
        ashift: None,
        bias: vdev::Bias::log(false),
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let spec = PoolSpec {
        name: POOL.into(),
        stored_name: None,
        vdevs: vec![disk],
        root_props: Vec::new(),
        comment: None,
        force: false,
    };
    Pool::create(sim.env(), spec, host(A)).await.expect("a pool is made of a new disk")
}

fn spec() -> ImportSpec {
    ImportSpec { paths: vec![PathBuf::from(DISK)], name: Some(POOL.into()), ..ImportSpec::default() }
}

fn left(hostid: u64, txg: Txg) -> ImportSpec {
    ImportSpec { left: Some(Left { hostid, txg, ..Left::default() }), ..spec() }
}

async fn found(sim: &Sim) -> Candidate {
    find_pools(&sim.env(), &[PathBuf::from(DISK)]).await.remove(0)
}

/// What a host with `multihost=on` writes to say that it lives.
async fn beat(sim: &Sim, pool: &Pool, sequence: u16) {
    let mmp = MmpConfig {
        interval_ms: Some(INTERVAL_MS),
        sequence: Some(sequence),
        fail_intervals: Some(FAIL_INTERVALS),
    };
    beat_as(sim, pool, mmp, Duration::from_secs(1)).await;
}

/// The same, with any times.
async fn beat_as(sim: &Sim, pool: &Pool, mmp: MmpConfig, delay: Duration) {
    let candidate = found(sim).await;
    let mut uberblock = candidate.uberblock.expect("there is one");
    uberblock.mmp_config.set(mmp.to_word());
    uberblock.mmp_delay.set(u64::try_from(delay.as_nanos()).expect("centuries at most"));
    let none = BTreeSet::new();
    let sync = LabelSync {
        uberblock: &uberblock,
        pool: &candidate.pool,
        dirty: &none,
        written: &none,
        multihost: true,
    };
    pool.vdevs().sync_labels(&sync).await.expect("written");
}

/// A world in which host A's power was cut, with or without heartbeats before.
fn after_a(heartbeats: bool) -> Sim {
    let sim = Sim::seed(7);
    sim.add_disk(PathBuf::from(DISK), DiskSpec::new(256 << 20, DiskModel::ssd()));
    sim.run_until(async {
        let pool = create(&sim).await;
        pool.sync_now().await.expect("stable");
        if heartbeats {
            beat(&sim, &pool, 1).await;
        }
    });
    sim.power_cut(7).boot(8)
}

async fn import(sim: &Sim, spec: ImportSpec, id: u64) -> Arc<Pool> {
    Pool::import(sim.env(), &spec, host(id)).await.expect("may be opened")
}

async fn refusal(sim: &Sim, spec: ImportSpec, id: u64) -> PoolError {
    Pool::import(sim.env(), &spec, host(id)).await.map(drop).expect_err("may not be opened")
}

#[test]
fn a_host_takes_back_what_it_left_and_nothing_else() {
    let sim = after_a(false);
    let txg = sim
        .run_until(async { find_pools(&sim.env(), &[PathBuf::from(DISK)]).await[0].uberblock })
        .expect("there is one")
        .txg();
    sim.run_until(async {
        let foreign = refusal(&sim, left(B, txg), B).await;
        assert!(matches!(foreign, PoolError::ForeignHost { hostid: A, .. }), "{foreign:?}");
        let older = refusal(&sim, left(A, txg.next()), A).await;
        assert!(matches!(older, PoolError::LeftAlone(LeftAlone::Older)), "{older:?}");
        // The number may have changed since; what counts is under which it was left.
        let pool = import(&sim, left(A, txg), B).await;
        pool.close(PoolState::Exported).await.expect("closes");
        let exported = refusal(&sim, left(A, txg), A).await;
        assert!(matches!(exported, PoolError::LeftAlone(LeftAlone::Exported)), "{exported:?}");
        let pool = import(&sim, spec(), B).await;
        pool.close(PoolState::Destroyed).await.expect("closes");
        let destroyed = refusal(&sim, left(B, txg), B).await;
        assert!(matches!(destroyed, PoolError::LeftAlone(LeftAlone::Destroyed)), "{destroyed:?}");
    });
}

#[test]
fn a_dead_owner_with_heartbeats_is_waited_out() {
    let sim = after_a(true);
    sim.run_until(async {
        let begun = sim.env().now();
        let refused = refusal(&sim, spec(), B).await;
        assert!(matches!(refused, PoolError::ForeignHost { hostid: A, .. }), "{refused:?}");
        let interval = Duration::from_millis(INTERVAL_MS.into());
        assert!(sim.env().now() - begun < interval, "nobody waits to be refused");
        import(&sim, ImportSpec { force: true, ..spec() }, B).await;
        let waited = sim.env().now() - begun;
        let span = interval * u32::from(FAIL_INTERVALS) * 2;
        assert!(waited >= span && waited < span * 2, "{waited:?}");
    });
}

#[test]
fn a_living_owner_keeps_its_pool_whatever_is_asked() {
    let sim = Sim::seed(7);
    sim.add_disk(PathBuf::from(DISK), DiskSpec::new(256 << 20, DiskModel::ssd()));
    sim.run_until(async {
        let owner = create(&sim).await;
        owner.sync_now().await.expect("stable");
        beat(&sim, &owner, 1).await;
        let (alive, world) = (Arc::clone(&owner), &sim);
        let beats = async move {
            for sequence in 2..5 {
                world.env().sleep(Duration::from_secs(3)).await;
                beat(world, &alive, sequence).await;
            }
        };
        let force = ImportSpec { force: true, ..spec() };
        let (refused, ()) = futures::join!(refusal(&sim, force, B), beats);
        assert!(matches!(refused, PoolError::ActiveElsewhere { hostid: A, .. }), "{refused:?}");
        owner.close(PoolState::Exported).await.expect("closes");
        import(&sim, spec(), B).await;
    });
}

/// A world in which host A's power was cut, and whose uberblock states times that nobody waits for.
fn after_a_forged(interval_ms: Option<u32>, fail_intervals: Option<u16>, delay: Duration) -> Sim {
    let sim = Sim::seed(7);
    sim.add_disk(PathBuf::from(DISK), DiskSpec::new(256 << 20, DiskModel::ssd()));
    sim.run_until(async {
        let pool = create(&sim).await;
        pool.sync_now().await.expect("stable");
        let mmp = MmpConfig { interval_ms, sequence: Some(1), fail_intervals };
        beat_as(&sim, &pool, mmp, delay).await;
    });
    sim.power_cut(7).boot(8)
}

/// Times of more than an hour, each in another field.
fn forged() -> [Sim; 3] {
    let years = Duration::from_nanos(1 << 56);
    [
        after_a_forged(None, None, years),
        after_a_forged(Some(INTERVAL_MS), Some(0), years),
        after_a_forged(Some((1 << 24) - 1), Some(u16::MAX), Duration::from_secs(1)),
    ]
}

#[test]
fn an_owner_that_may_be_silent_for_years_is_refused_at_once() {
    for sim in forged() {
        sim.run_until(async {
            let begun = sim.env().now();
            let refused = refusal(&sim, ImportSpec { force: true, ..spec() }, B).await;
            let is_too_long = matches!(refused, PoolError::LeftAlone(LeftAlone::SilentTooLong { .. }));
            assert!(is_too_long, "{refused:?}");
            assert!(sim.env().now() - begun < Duration::from_secs(1), "it is not watched");
            // The host that the labels name opens its own pool, and everybody may read.
            let read_only = import(&sim, ImportSpec { read_only: true, ..spec() }, B).await;
            read_only.close(PoolState::Exported).await.expect("closes");
            import(&sim, spec(), A).await;
        });
    }
}

#[test]
fn a_label_delays_a_list_of_pools_by_half_a_minute_at_most() {
    for sim in forged() {
        sim.run_until(async {
            let (begun, candidate) = (sim.env().now(), found(&sim).await);
            let watched = watch_for_owner(&sim.env(), &candidate, &host(B)).await;
            watched.expect("nobody has it");
            let waited = sim.env().now() - begun;
            assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(35), "{waited:?}");
        });
    }
}

/// Imports a pool of a dead owner with force, on a host whose program ends after `span`. Returns why
/// the import failed, and how long it took.
async fn interrupted(sim: &Sim, tuning: &Tuning, span: Duration) -> (PoolError, Duration) {
    let (begun, spec) = (sim.env().now(), ImportSpec { force: true, ..spec() });
    let importing = Pool::import(sim.env(), &spec, tuning.clone());
    let ends = async {
        sim.env().sleep(span).await;
        tuning.ending.begin();
    };
    let (imported, ()) = futures::join!(importing, ends);
    (imported.map(drop).expect_err("interrupted"), sim.env().now() - begun)
}

#[test]
fn a_program_that_ends_waits_for_no_owner() {
    let sim = after_a(true);
    sim.run_until(async {
        let (tuning, span) = (host(B), Duration::from_secs(5));
        for _ in 0..2 {
            let (error, took) = interrupted(&sim, &tuning, span).await;
            assert!(matches!(error, PoolError::LeftAlone(LeftAlone::Ending)), "{error:?}");
            assert!(took < span + Duration::from_secs(1), "{took:?}");
        }
        let watched = watch_for_owner(&sim.env(), &found(&sim).await, &tuning).await;
        assert!(matches!(watched, Err(PoolError::LeftAlone(LeftAlone::Ending))), "{watched:?}");
    });
}

#[test]
fn a_claim_that_is_interrupted_is_taken_back() {
    let sim = after_a(true);
    sim.run_until(async {
        let before = found(&sim).await.uberblock;
        // The watch takes 20 to 25 seconds, and the claim ten more.
        let (error, _) = interrupted(&sim, &host(B), Duration::from_secs(27)).await;
        assert!(matches!(error, PoolError::LeftAlone(LeftAlone::Ending)), "{error:?}");
        assert_eq!(found(&sim).await.uberblock, before);
        import(&sim, ImportSpec { force: true, ..spec() }, B).await;
    });
}
