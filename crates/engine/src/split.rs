//! Splitting pools.

use crate::props::Occasion;
use crate::settings::Settings;
use crate::{Holder, names, refusal};
use control::{Failure, FailureKind, PoolSplit, SplitOff};
use env::BoxFuture;
use pool::{Pool, PoolError};
use std::sync::Arc;
use units::Guid;
use vdev::PoolState;

impl Holder {
    pub(super) async fn split(&self, call: PoolSplit) -> Result<SplitOff, Failure> {
        let held = self.pool(&call.pool)?;
        let refuse =
            |kind, reason: &str| Failure::new(kind, format!("Unable to split {}: {reason}", call.pool));
        let cannot = |error: &PoolError| refuse(FailureKind::Invalid, &refusal::reason(error));
        names::check_new_pool(&call.new_name)
            .map_err(|error| refuse(FailureKind::Invalid, &error.to_string()))?;
        let settings =
            Settings::read(&call.props, Occasion::Import, &|reason| refuse(FailureKind::Invalid, reason))?;
        if settings.read_only {
            let reason = "property readonly can only be set at import time";
            return Err(refuse(FailureKind::Invalid, reason));
        }
        let named: Vec<_> = call.vdevs.iter().copied().map(Guid::new).collect();
        let leaves = held.pool.plan_split(&named).map_err(|error| cannot(&error))?;
        let leaves =
            leaves.values().filter_map(|guid| held.pool.vdevs().leaf(*guid).ok()).collect::<Vec<_>>();
        let mut split = SplitOff {
            guid: 0,
            vdevs: leaves.iter().map(|leaf| leaf.guid().get()).collect(),
            paths: leaves.iter().map(|leaf| leaf.path().to_string_lossy().into_owned()).collect(),
        };
        if call.dry_run {
            return Ok(split);
        }
        if self.pools.read().contains_key(&call.new_name) || self.siblings.has_name(&call.new_name) {
            return Err(refuse(FailureKind::Exists, "pool already exists"));
        }
        let work: BoxFuture<'_, Result<Arc<Pool>, PoolError>> =
            Box::pin(held.pool.split(&call.new_name, &named, self.tuning()));
        let other = work.await.map_err(|error| cannot(&error))?;
        split.guid = other.guid().get();
        let kept = settings.keep_in(&other).await;
        let closed = other.close(PoolState::Exported).await;
        if closed.is_err() {
            // It is there, and says that it is exported: somebody else may open it.
            other.abandon().await;
        }
        self.remember();
        kept.and(closed).map_err(|error| cannot(&error))?;
        tracing::info!(pool = call.pool, new = call.new_name, "split");
        Ok(split)
    }
}
