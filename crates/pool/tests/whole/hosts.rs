//! Pools that another host has, or had: a simulated disk that two hosts reach.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ondisk::MmpConfig;
use pool::{Host, ImportSpec, Left, LeftAlone, Pool, PoolError, PoolSpec, Tuning, find_pools};
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

/// What a host with `multihost=on` writes to say that it lives.
async fn beat(sim: &Sim, pool: &Pool, sequence: u16) {
    let candidate = find_pools(&sim.env(), &[PathBuf::from(DISK)]).await.remove(0);
    let mut uberblock = candidate.uberblock.expect("there is one");
    let mmp = MmpConfig {
        interval_ms: Some(INTERVAL_MS),
        sequence: Some(sequence),
        fail_intervals: Some(FAIL_INTERVALS),
    };
    uberblock.mmp_config.set(mmp.to_word());
    uberblock.mmp_delay.set(1_000_000_000);
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
