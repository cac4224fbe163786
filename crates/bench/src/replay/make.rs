//! The pool with a long log, made by a process that then ends as if it had been killed.

use std::sync::Arc;
use std::time::Duration;

use device::RealEnv;
use pool::{PoolError, Tuning};
use units::ObjectId;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use super::Plan;
use crate::dice::Dice;
use crate::world::{self, POOL, Shape};

/// The log that was made.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Made {
    /// Its blocks.
    pub blocks: u64,
    /// Bytes that these have.
    pub bytes: u64,
}

/// Makes the pool; the caller ends the process. `None` when a group with records in it was synced: then the
/// log devices are too small.
///
/// # Errors
/// When the pool cannot be made.
pub fn make(env: &Arc<RealEnv>, plan: &Plan) -> Result<Option<Made>, PoolError> {
    // No group syncs by itself while records are made.
    let tuning = Tuning {
        txg_timeout: Duration::from_secs(86_400),
        dirty_limit_bytes: Some(1 << 40),
        log_share_percent: 100,
        cache_bytes: plan.cache,
        ..Tuning::default()
    };
    let record = plan.size.next_power_of_two().clamp(4096, 128 << 10) as u64;
    let shape = Shape { main: plan.main.clone(), log: plan.log.clone(), record, ..Shape::default() };
    let pool = world::make(env, &shape, tuning)?;
    env.block_on(async {
        let fs = pool.filesystem(POOL).await?;
        let files = make_files(&fs.zfs, plan.files).await?;
        fs.zfs.sync().await?;
        pool.sync_now().await?;
        let synced = pool.txgs().synced_txg();
        let log = fs.log.as_ref().expect("a pool that can be changed");
        let before = log.stats();
        write(&fs.zfs, &files, plan).await?;
        let after = log.stats();
        if pool.txgs().synced_txg() > synced.next() {
            return Ok(None);
        }
        Ok(Some(Made {
            blocks: after.block_sizes.iter().sum::<u64>() - before.block_sizes.iter().sum::<u64>(),
            bytes: after.allocated_bytes - before.allocated_bytes,
        }))
    })
}

async fn make_files(zfs: &Zfs, files: usize) -> Result<Vec<ObjectId>, PoolError> {
    let mut made = Vec::new();
    for n in 0..files {
        let name = format!("file{n}");
        made.push(
            zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o600, Cred::default()).await?.object,
        );
    }
    Ok(made)
}

async fn write(zfs: &Zfs, files: &[ObjectId], plan: &Plan) -> Result<(), PoolError> {
    let mut dice = Dice::new(plan.span);
    let data = dice.noise(plan.size);
    let places = (plan.span / files.len() as u64 / plan.size as u64).max(1);
    for n in 0..plan.records {
        let file = files[n % files.len()];
        let offset = dice.roll() % places * plan.size as u64;
        zfs.write(file, offset, &data, WriteFlags::default()).await?;
        if (n + 1) % plan.batch == 0 || n + 1 == plan.records {
            zfs.sync().await?;
        }
    }
    Ok(())
}
