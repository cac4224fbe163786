//! The checks of space and objects find a planted object without an owner.

use std::sync::Arc;

use dmu::Estimate;
use dmu::zap::Zap;
use oracle::needs::Need;
use oracle::zdb::ZdbError;
use pool::Pool;
use sim::{DiskModel, Sim};
use vdev::PoolState;
use zpl::{Cred, NewNode};

use crate::ground::quiet;
use crate::shape::{POOL, SINGLE};
use crate::space;
use crate::story::run;

/// Creates a pool whose root directory has lost the name of a file.
async fn with_lost_file(sim: &Sim) -> Arc<Pool> {
    let pool = SINGLE.create(sim, quiet()).await;
    let fs = pool.filesystem(POOL).await.expect("it opens");
    let (objset, root) = (fs.zfs.objset(), fs.zfs.root());
    fs.zfs.create(root, b"lost", NewNode::File, 0o644, Cred::default()).await.expect("created");
    pool.sync_now().await.expect("synced");
    let plan = objset.plan(Estimate::default()).await.expect("planned");
    let names = Zap::hold(objset, root).await.expect("a directory");
    names.remove(&plan, b"lost").await.expect("it has that name");
    plan.apply().expect("applied");
    pool
}

fn world() -> Sim {
    let sim = Sim::seed(9400);
    SINGLE.add_disks(&sim, DiskModel::instant());
    sim
}

#[test]
#[should_panic(expected = "objects that there are, and those that somebody has")]
fn a_planted_object_without_a_name_is_found() {
    let sim = world();
    run(&sim, async { space::check(&with_lost_file(&sim).await).await });
}

#[test]
fn a_planted_object_without_a_name_is_found_by_zdb() {
    let sim = world();
    run(&sim, async {
        let pool = with_lost_file(&sim).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    match space::check_by_zdb(&SINGLE, |path, offset, len| sim.disk(path).peek(offset, len)) {
        Err(ZdbError::Missing(error)) => Need::Zdb.is_missing(&error.to_string()),
        Err(ZdbError::Unhappy { verdict, .. }) => assert!(verdict.contains("leaked"), "{verdict}"),
        Ok(()) => panic!("zdb finds nothing"),
    }
}
