//! Logs kept beside a pool that has none of its own, and read back.

use std::sync::Arc;

use dsl::features::LOG_SPACEMAP;
use metaslab::{Change, ChangeKind, Changes, MetaslabId};
use sim::{DiskSpec, Sim};
use units::{Asize, VdevId, VdevOffset};
use vdev::{Bias, NewVdev};

use super::*;
use crate::{Pool, PoolSpec, Tuning};

/// A metaslab that nothing else uses.
const PLACE: Place = (VdevId::new(0), MetaslabId::new(3));
const SIZE: Asize = Asize::new(8192);

type Shared = Arc<async_lock::Mutex<Logs>>;

async fn pool_without_logs(sim: &Sim) -> Arc<Pool> {
    let vdevs = vec![NewVdev {
        paths: vec!["/a".into()],
        ashift: None,
        bias: Bias::log(false),
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    }];
    let spec = PoolSpec {
        name: "whirl".into(),
        stored_name: None,
        vdevs,
        root_props: vec![],
        comment: None,
        force: false,
    };
    let features: Vec<_> =
        dsl::NEW_POOL_FEATURES.iter().copied().filter(|&feature| *feature != LOG_SPACEMAP).collect();
    let pool = Pool::create_with(sim.env(), spec, &features, Tuning::default()).await;
    let pool = pool.expect("a pool is made of a new disk");
    let made = pool.in_sync(|pool, tx| async move {
        let zap = Zap::create(pool.dsl.mos(), &tx, &ZapSpec::new(ObjectType::OTN_ZAP_METADATA)).await?;
        let directory = pool.dsl.directory();
        directory.add_u64(&tx, LOG_SPACEMAP_ZAP.as_bytes(), zap.object().get()).await?;
        Ok(())
    });
    made.await.expect("there is room");
    pool
}

/// A txg that logs such changes, pass by pass.
async fn group(pool: &Arc<Pool>, logs: &Shared, passes: Vec<Vec<Change>>) {
    let logs = Arc::clone(logs);
    let logged = pool.in_sync(move |pool, tx| async move {
        let at = At { dsl: &pool.dsl, tx: &tx, zio: &pool.zio, vdevs: &pool.vdevs };
        for changes in passes {
            let changes = Changes::from([(PLACE, changes)]);
            logs.lock().await.append(&at, &pool.space_maps, &changes).await?;
        }
        Ok(())
    });
    logged.await.expect("there is room");
}

/// What an import would learn of the metaslab.
async fn read_back(pool: &Pool) -> Vec<Change> {
    let maps = SpaceMaps::default();
    let mut logs = Logs::default();
    for top in pool.vdevs.tops() {
        maps.find(&pool.dsl, &top, &mut logs).await.expect("a vdev has its maps");
    }
    logs.read(&pool.dsl, &maps).await.expect("the logs agree with each other");
    logs.unflushed(PLACE).into_iter().flat_map(Unflushed::changes).collect()
}

fn change(kind: ChangeKind, at: u64) -> Change {
    Change { kind, offset: VdevOffset::new(at), len: SIZE }
}

#[test]
fn changes_that_cancel_out_in_one_pass_leave_older_logs_in_use_for_the_next() {
    let sim = Sim::seed(1);
    sim.add_disk("/a", DiskSpec::instant(256 << 20));
    sim.run_until(async {
        let pool = pool_without_logs(&sim).await;
        let start =
            u64::from(PLACE.1.get()) << pool.vdevs.top(PLACE.0).expect("a vdev").config().metaslab_shift;
        let (one, other) = (start, start + SIZE.get());
        let logs = Shared::default();
        let (alloc, free) = (|at| change(ChangeKind::Alloc, at), |at| change(ChangeKind::Free, at));
        group(&pool, &logs, vec![vec![alloc(one)]]).await;
        assert_eq!(read_back(&pool).await, [alloc(one)]);
        // What the older log allocated is freed; the logs say nothing in sum, for a pass.
        group(&pool, &logs, vec![vec![free(one)], vec![alloc(other)]]).await;
        assert_eq!(read_back(&pool).await, [alloc(other)]);
        // With a pass to itself, and nothing in sum after that: the next txg begins anew.
        group(&pool, &logs, vec![vec![free(other)]]).await;
        assert_eq!(read_back(&pool).await, []);
        group(&pool, &logs, vec![vec![alloc(one)], vec![free(one)], vec![alloc(other)]]).await;
        assert_eq!(read_back(&pool).await, [alloc(other)]);
    });
}
