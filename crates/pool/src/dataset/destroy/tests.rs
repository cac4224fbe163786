use std::path::PathBuf;

use ondisk::dsl::dataset_flags;
use sim::{DiskModel, DiskSpec, Sim};
use vdev::{NewVdev, PoolState};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::create::birth;
use crate::{Pool, PoolError, PoolSpec, Sealed, Tuning};

async fn pool(sim: &Sim) -> std::sync::Arc<Pool> {
    let disk = NewVdev {
        paths: vec![PathBuf::from("disk")],
        ashift: None,
        bias: vdev::Bias::log(false),
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let spec = PoolSpec {
        name: "tank".into(),
        stored_name: None,
        vdevs: vec![disk],
        root_props: Vec::new(),
        comment: None,
        force: false,
    };
    Pool::create(sim.env(), spec, Tuning::default()).await.expect("a pool is made of a new disk")
}

/// What a receive leaves that was cut off before its first block: a dataset that is not consistent.
async fn receive_by_half(pool: &std::sync::Arc<Pool>, name: &'static str) -> Result<(), PoolError> {
    pool.in_sync(move |pool, tx| async move {
        let made = pool.dsl.create_dataset(&tx, name, birth(&pool.env)).await?;
        let mut phys = pool.dsl.dataset(made.dataset).await?;
        phys.flags = U64::new(phys.flags.get() | dataset_flags::INCONSISTENT);
        let dnode = pool.dsl.mos().hold(made.dataset).await?;
        Ok(dnode.set_bonus(&tx, dnode.bonus_type(), phys.as_bytes())?)
    })
    .await
}

#[test]
fn what_came_in_by_half_is_known_as_such_and_can_be_destroyed() {
    let sim = Sim::seed(3);
    sim.add_disk(PathBuf::from("disk"), DiskSpec::new(256 << 20, DiskModel::ssd()));
    sim.run_until(async {
        let pool = pool(&sim).await;
        receive_by_half(&pool, "tank/half").await.expect("made");
        assert_eq!(pool.sealed("tank/half").await.expect("known"), Some(Sealed::HalfReceived));
        assert_eq!(pool.sealed("tank").await.expect("known"), None);
        assert!(pool.filesystem("tank/half").await.is_err(), "it is no file system");
        pool.destroy_filesystem("tank/half").await.expect("destroyed");
        assert!(pool.dsl().resolve("tank/half").await.is_err());
        pool.close(PoolState::Exported).await.expect("closes");
    });
}
