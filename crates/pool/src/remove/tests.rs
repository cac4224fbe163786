use std::sync::Arc;

use sim::{DiskModel, DiskSpec, Sim};
use units::VdevId;
use vdev::{Bias, NewVdev};

use crate::{Pool, PoolError, PoolSpec, RemovalRefusal, Tuning};

const LOG: VdevId = VdevId::new(1);

fn vdev(path: &str, is_log: bool) -> NewVdev {
    NewVdev {
        paths: vec![path.into()],
        ashift: None,
        bias: Bias::log(is_log),
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    }
}

async fn pool(sim: &Sim) -> Arc<Pool> {
    let spec = PoolSpec {
        name: "tank".into(),
        stored_name: None,
        vdevs: vec![vdev("a", false), vdev("l", true)],
        root_props: Vec::new(),
        comment: None,
        force: false,
    };
    Pool::create(sim.env(), spec, Tuning::default()).await.expect("a pool is made of new disks")
}

#[test]
fn what_is_no_log_is_not_removed() {
    let sim = Sim::seed(8);
    for path in ["a", "l"] {
        sim.add_disk(path, DiskSpec::new(128 << 20, DiskModel::ssd()));
    }
    sim.run_until(async {
        let pool = pool(&sim).await;
        let refused = pool.remove_log(VdevId::new(0)).await;
        assert!(matches!(refused, Err(PoolError::Removal(RemovalRefusal::NotLog))), "{refused:?}");
        pool.make_checkpoint().await.expect("made");
        let refused = pool.remove_log(LOG).await;
        assert!(matches!(refused, Err(PoolError::Checkpoint(_))), "{refused:?}");
        pool.discard_checkpoint().await.expect("discarded");
        pool.wait_discarded().await.expect("all of it");
        pool.remove_log(LOG).await.expect("nothing is in the way");
        assert!(pool.remove_log(LOG).await.is_err(), "it is gone");
    });
}
