//! Taking devices out of pools.

use crate::{Holder, refusal};
use control::{Failure, FailureKind, PoolRemove, PoolRemoveCost, PoolRemoveStop};
use pool::{Pool, PoolError, RemovalRefusal};
use std::sync::Arc;
use units::{Guid, VdevId};

/// Pools of older versions have no word for a vdev that is gone.
const HOLES_SINCE: u64 = 26;
/// What OpenZFS says of a device that is part of something which can only go as a whole.
const NOT_BY_ITSELF: &str = "operation not supported on this type of pool";

/// What a guid is of.
enum Found {
    Log(VdevId),
    Data(VdevId),
    PartOfTop,
    Auxiliary,
}

impl Holder {
    pub(super) async fn remove(&self, call: PoolRemove) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let guid = Guid::new(call.vdev);
        // These messages have no quotes.
        let refuse =
            |kind, reason: &str| Failure::new(kind, format!("cannot remove {}: {reason}", call.name));
        let removed = match find(&held.pool, guid) {
            None => return Err(refuse(FailureKind::Invalid, "no such device in pool")),
            Some(Found::PartOfTop) => return Err(refuse(FailureKind::Unsupported, NOT_BY_ITSELF)),
            Some(Found::Auxiliary) => held.pool.remove_auxiliary(guid).await,
            Some(Found::Data(vdev)) => held.pool.evacuate(vdev).await,
            Some(Found::Log(_)) if held.pool.version() < HOLES_SINCE => {
                let reason = "pool must be upgraded to support log removal";
                return Err(refuse(FailureKind::Unsupported, reason));
            }
            Some(Found::Log(vdev)) => held.pool.remove_log(vdev).await,
        };
        removed.map_err(|error| told(&error, &refuse))?;
        tracing::info!(pool = call.pool, device = call.name, "removed, or removal begun");
        self.remember();
        Ok(())
    }

    /// Gives up the removal of a data vdev.
    pub(super) async fn stop_removal(&self, call: PoolRemoveStop) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let refuse = |error: &PoolError| {
            Failure::new(FailureKind::Invalid, format!("cannot cancel removal: {}", refusal::reason(error)))
        };
        held.pool.cancel_evacuation().await.map_err(|error| refuse(&error))?;
        tracing::info!(pool = call.pool, "removal given up");
        Ok(())
    }

    /// How much memory a mapping would take; nothing for what leaves none.
    pub(super) fn removal_cost(&self, call: &PoolRemoveCost) -> Result<u64, Failure> {
        let held = self.pool(&call.pool)?;
        Ok(match find(&held.pool, Guid::new(call.vdev)) {
            Some(Found::Data(vdev)) => held.pool.evacuation_cost(vdev),
            _ => 0,
        })
    }
}

fn find(pool: &Arc<Pool>, guid: Guid) -> Option<Found> {
    let tops = pool.vdevs().tops_with_devices();
    if let Some(top) = tops.iter().find(|top| top.guid() == guid) {
        return Some(if top.is_log() { Found::Log(top.id()) } else { Found::Data(top.id()) });
    }
    let auxiliaries = [pool.spares(), pool.caches()].concat();
    if auxiliaries.iter().any(|auxiliary| auxiliary.guid == guid) {
        return Some(Found::Auxiliary);
    }
    tops.iter().any(|top| top.node().has(guid)).then_some(Found::PartOfTop)
}

fn told(error: &PoolError, refuse: &dyn Fn(FailureKind, &str) -> Failure) -> Failure {
    match error {
        PoolError::Removal(RemovalRefusal::NeedsKey { dataset }) => {
            let refused = refuse(FailureKind::Busy, "Mount encrypted datasets to replay logs.");
            refused.and(format!("the log of '{dataset}' waits for its key"))
        }
        error => refuse(FailureKind::Other, &refusal::reason(error)),
    }
}
