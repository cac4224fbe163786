//! Devices that are taken out of use and brought back.

use crate::attach::{Meant, meant, target};
use crate::{Held, Holder, refusal, vdevs};
use control::{DeviceState, Failure, FailureKind, PoolOffline, PoolOnline, PoolReopen};
use env::BoxFuture;
use pool::{Absence, PoolError};
use units::Guid;
use vdev::VdevError;

/// A group of devices is meant, and one device asked for.
const NO_DEVICE: &str = "operation not supported on this type of pool";

impl Holder {
    pub(super) async fn offline(&self, call: PoolOffline) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let verb = if call.fault { "fault" } else { "offline" };
        let refuse = |reason: &str| refuse(verb, &call.device, reason);
        let leaf = device(&held, call.vdev).map_err(refuse)?;
        let absence = if call.fault { Absence::Faulted } else { Absence::Offline };
        let out = held.pool.take_offline(leaf, absence, call.temporary);
        let done = self.taking_out(&held, leaf, out).await;
        done.map_err(|error| refuse(&refusal::reason(&error)))
    }

    pub(super) async fn online(&self, call: PoolOnline) -> Result<DeviceState, Failure> {
        let held = self.pool(&call.pool)?;
        let verb = if call.expand { "expand" } else { "online" };
        let refuse = |reason: &str| refuse(verb, &call.device, reason);
        let leaf = device(&held, call.vdev).map_err(refuse)?;
        if call.expand && held.pool.vdevs().leaf(leaf).is_err() {
            return Err(refuse("cannot expand cache devices"));
        }
        let brought: BoxFuture<'_, Result<_, PoolError>> = Box::pin(held.pool.bring_online(leaf));
        let state = brought.await.map_err(|error| refuse_return(verb, &call.device, &error))?;
        if call.expand {
            held.pool.expand_beside(leaf).await.map_err(|error| refuse(&refusal::reason(&error)))?;
        }
        Ok(DeviceState { state: vdevs::state_of(state) })
    }

    pub(super) async fn reopen(&self, call: PoolReopen) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let reopened: BoxFuture<'_, Result<_, PoolError>> = Box::pin(held.pool.reopen_devices());
        reopened.await.map_err(|error| match error {
            PoolError::Vdev(VdevError::WrittenElsewhere { .. }) => {
                refuse_return("reopen", &call.pool, &error)
            }
            _ => refusal::pool("reopen", &call.pool, &error),
        })
    }
}

/// Reports that a device which was written elsewhere is not resilvered. The administrator must
/// decide what to do with it.
fn refuse_return(verb: &str, device: &str, error: &PoolError) -> Failure {
    let failure = refuse(verb, device, &refusal::reason(error));
    match error {
        PoolError::Vdev(VdevError::WrittenElsewhere { .. }) => {
            let hint = "Give up what it has with 'zpool labelclear -f', and use 'zpool replace' then; or export the \
                        pool, and choose the device with 'zpool import -d'.";
            failure.and(hint)
        }
        _ => failure,
    }
}

/// The device that is meant: a leaf of a vdev, or a cache device.
fn device(held: &Held, vdev: Option<u64>) -> Result<Guid, &'static str> {
    let guid = match vdev.map(|guid| meant(held, Guid::new(guid))) {
        Some(Meant::Cache(guid)) => return Ok(guid),
        _ => target(held, vdev)?,
    };
    if held.pool.vdevs().leaf(guid).is_ok() { Ok(guid) } else { Err(NO_DEVICE) }
}

/// These messages have no quotes.
fn refuse(verb: &str, device: &str, reason: &str) -> Failure {
    Failure::new(FailureKind::Invalid, format!("cannot {verb} {device}: {reason}"))
}
