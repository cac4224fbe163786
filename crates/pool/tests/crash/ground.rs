//! A pool made once, on which any number of histories begin.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use env::BoxFuture;
use pool::{Filesystem, Pool, Tuning};
use sim::{CrashImage, DiskModel, Sim};
use units::LABEL_START_BYTES;
use vdev::PoolState;
use zpl::Zfs;

use crate::model::Model;
use crate::shape::{POOL, Shape, brisk};
use crate::steps::{self, Hand};
use crate::story::{run, tell};

/// Bytes of a leaf that are never used. A pool that cannot read a block reads these bytes, and so
/// learns whether the device can be read at all.
pub const PROBED: Range<u64> = LABEL_START_BYTES - 4096..LABEL_START_BYTES;

/// No txg ends by itself.
pub fn quiet() -> Tuning {
    Tuning { txg_timeout: Duration::from_secs(100_000), ..brisk() }
}

pub struct Ground {
    pub shape: &'static Shape,
    pub seed: u64,
    image: CrashImage,
    prepared: Model,
}

impl Ground {
    pub fn new(shape: &'static Shape, seed: u64, disks: DiskModel) -> Self {
        tell(format!("seed {seed}, shape \"{}\": making the pool", shape.name));
        let sim = Sim::seed(seed);
        shape.add_disks(&sim, disks);
        let prepared = run(&sim, async {
            let pool = shape.create(&sim, quiet()).await;
            let fs = pool.filesystem(POOL).await.expect("the root file system opens");
            let prepared = steps::prepare(&fs.zfs).await;
            drop(fs);
            pool.close(PoolState::Exported).await.expect("a pool closes");
            prepared
        });
        Self { shape, seed, image: sim.power_cut(seed), prepared }
    }

    /// The same pool after something was done to it.
    pub fn with(self, change: fn(Arc<Pool>) -> BoxFuture<'static, ()>) -> Self {
        let sim = self.boot();
        sim.stop_recording();
        run(&sim, async {
            let pool = self.shape.import(&sim, quiet(), false).await.expect("a sound pool imports");
            change(Arc::clone(&pool)).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
        Self { image: sim.power_cut(self.seed), ..self }
    }

    pub fn story(&self) -> String {
        format!("seed {}, shape \"{}\"", self.seed, self.shape.name)
    }

    /// A world with the pool in it, exported.
    pub fn boot(&self) -> Sim {
        self.image.boot(self.seed)
    }

    /// Its file system, and a log whose first block a stable header names.
    pub async fn open(&self, sim: &Sim) -> (Arc<Pool>, Arc<Filesystem>) {
        let pool = self.shape.import(sim, quiet(), false).await.expect("a sound pool imports");
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        pool.sync_now().await.expect("sync");
        assert!(fs.log.as_ref().is_some_and(zil::LogHandle::is_fast), "the log is ready");
        (pool, fs)
    }

    /// Somebody to work in it.
    pub async fn hand<'a>(&self, sim: &Sim, zfs: &'a Zfs) -> Hand<'a> {
        Hand::new(sim, zfs, self.prepared.clone()).await
    }
}
