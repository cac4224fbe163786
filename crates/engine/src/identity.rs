//! A pool's guid, changed.

use crate::{Holder, refusal};
use control::{Failure, FailureKind, PoolReguid};
use env::BoxFuture;
use pool::PoolError;
use units::Guid;

/// The exit code of commands that fail in the library: scripts expect it.
const LIBRARY_FAILED: u8 = 255;

impl Holder {
    pub(super) async fn reguid(&self, call: PoolReguid) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let refuse =
            |kind, reason: &str| Failure::cannot(kind, "reguid", &call.pool, reason).exits(LIBRARY_FAILED);
        let is_taken = |guid: u64| {
            let is_here = self.all().iter().any(|held| held.pool.guid().get() == guid);
            is_here || self.siblings.name_of(guid).is_some()
        };
        match call.guid {
            Some(0) => return Err(refuse(FailureKind::Invalid, "invalid argument for this pool operation")),
            Some(guid) if is_taken(guid) => return Err(refuse(FailureKind::Exists, "pool already exists")),
            _ => {}
        }
        let changed: BoxFuture<'_, Result<(), PoolError>> =
            Box::pin(held.pool.change_guid(call.guid.map(Guid::new)));
        changed.await.map_err(|error| refuse(FailureKind::Unavailable, &refusal::reason(&error)))?;
        tracing::info!(pool = call.pool, guid = held.pool.guid().get(), "has another guid");
        self.remember();
        Ok(())
    }
}
