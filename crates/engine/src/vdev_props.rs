//! Properties of vdevs.

use crate::props::is_user_prop;
use crate::{Held, Holder, refusal};
use control::{Failure, FailureKind, NameValue, PoolSet, PoolVdevProps};
use dsl::PropValue;
use env::BoxFuture;
use pool::PoolError;
use units::Guid;

/// The exit code of commands that fail in the library, and that of what the engine says no to (EINVAL).
const LIBRARY_FAILED: u8 = 255;
const INVALID: u8 = 22;
/// Longest text that is kept.
const TEXT_MAX_BYTES: usize = 8192;

/// Properties that tell something, and cannot be set.
const READ_ONLY: [&str; 40] = [
    "name",
    "capacity",
    "state",
    "guid",
    "asize",
    "psize",
    "ashift",
    "size",
    "free",
    "allocated",
    "expandsize",
    "fragmentation",
    "bootsize",
    "parity",
    "devid",
    "physpath",
    "encpath",
    "fru",
    "parent",
    "children",
    "numchildren",
    "read_errors",
    "write_errors",
    "checksum_errors",
    "initialize_errors",
    "null_ops",
    "read_ops",
    "write_ops",
    "free_ops",
    "claim_ops",
    "trim_ops",
    "read_bytes",
    "write_bytes",
    "free_bytes",
    "claim_bytes",
    "trim_bytes",
    "removing",
    "trim_support",
    "trim_errors",
    "slow_ios",
];
/// Properties of OpenZFS that nothing here heeds.
const UNHEEDED: [&str; 6] = ["checksum_n", "checksum_t", "io_n", "io_t", "slow_io_n", "slow_io_t"];

/// What is to be kept for a text that was typed; `None` takes the property back.
fn parse(name: &str, text: &str) -> Result<Option<PropValue>, String> {
    let switch = |text: &str| match text {
        "on" => Ok(1),
        "off" => Ok(0),
        _ => Err(format!("'{name}' must be one of 'on | off'")),
    };
    match name {
        _ if READ_ONLY.contains(&name) => Err(format!("'{name}' is readonly")),
        _ if UNHEEDED.contains(&name) => Err(format!("property '{name}' is not supported yet")),
        "allocating" => switch(text).map(|on| Some(PropValue::Number(on))),
        "failfast" if switch(text)? == 0 => Err("property 'failfast' is not supported yet".to_owned()),
        "failfast" => Ok(None),
        "comment" | "path" => {
            let value = Some(text).filter(|text| !text.is_empty());
            within_bounds(name, text).map(|()| value.map(|text| PropValue::Text(text.to_owned())))
        }
        _ if is_user_prop(name) => {
            let value = Some(text).filter(|text| !text.is_empty());
            within_bounds(name, text).map(|()| value.map(|text| PropValue::Text(text.to_owned())))
        }
        _ => Err(format!("invalid property: '{name}'")),
    }
}

fn within_bounds(name: &str, text: &str) -> Result<(), String> {
    if text.len() < TEXT_MAX_BYTES { Ok(()) } else { Err(format!("'{name}' is too long")) }
}

/// Sets a property of a vdev.
pub(crate) async fn set(held: &Held, call: &PoolSet) -> Result<(), Failure> {
    let vdev = call.vdev.as_deref().unwrap_or_default();
    let refuse = |reason: &str| {
        let line = format!("cannot set property {} for {vdev} on {}: {reason}", call.name, call.pool);
        Failure::new(FailureKind::Invalid, line)
    };
    let value = parse(&call.name, &call.value).map_err(|reason| refuse(&reason).exits(LIBRARY_FAILED))?;
    let kept: BoxFuture<'_, Result<(), PoolError>> =
        Box::pin(held.pool.set_vdev_prop(Guid::new(call.vdev_guid), &call.name, value));
    kept.await.map_err(|error| refuse(&refusal::reason(&error)).exits(INVALID))
}

impl Holder {
    /// What was set on vdevs; nothing on those that keep nothing.
    pub(super) async fn vdev_props(&self, call: &PoolVdevProps) -> Result<Vec<Vec<NameValue>>, Failure> {
        let held = self.pool(&call.pool)?;
        let mut all = Vec::with_capacity(call.vdevs.len());
        for vdev in &call.vdevs {
            let kept = match held.pool.vdev_props(Guid::new(*vdev)).await {
                Ok(kept) => kept,
                Err(PoolError::VdevProp(_)) => Default::default(),
                Err(error) => return Err(refusal::pool("get properties of", &call.pool, &error)),
            };
            let text = |(name, value): (String, PropValue)| match value {
                PropValue::Text(text) if name == "comment" || is_user_prop(&name) => Some((name, text)),
                _ => None,
            };
            all.push(kept.into_iter().filter_map(text).collect());
        }
        Ok(all)
    }
}
