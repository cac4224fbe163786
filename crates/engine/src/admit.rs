//! Whether a specification may become part of a pool: the checks between the words a
//! user typed and the engine.
//!
//! ```text
//!  specification ─► in use? ─► mixed redundancy? ─► (mount point, dry run) ─► same device
//!                     │ -f takes exported and           │ -f takes it         twice? sizes?
//!                     ▼ potentially active ones          ▼
//!                   refused, with every device named   refused at the first mismatch
//! ```
//!
//! Pure functions over [`LeafFacts`]; who asks gathers those from devices and labels. The
//! order of the checks is the order in which scripts expect to hear of them.
//!
//! Invariants
//! - A device of an open pool is never taken, force or not
//!   (test: `force_never_takes_a_device_of_an_open_pool`).

mod replication;

use crate::spec::{Layout, VdevSpec};
use control::{Failure, FailureKind, PoolInfo, VdevClass};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Smallest device of a pool.
pub const DEVICE_MIN_BYTES: u64 = 64 << 20;

/// How far a pool's claim on a device goes, from its label and from what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// Part of a pool that is open here.
    Active,
    /// Its pool was exported.
    Exported,
    /// Its pool was neither exported nor destroyed, and is not open here.
    PotentiallyActive,
    /// A hot spare of a pool that is open here.
    Spare,
}

/// What is known of a device before it is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafFacts {
    /// Usable size.
    pub size_bytes: u64,
    /// A block device, as against a file.
    pub is_block_device: bool,
    /// What makes two paths the same device, where that is known.
    pub identity: Option<(u64, u64)>,
    /// The pool that claims it, if one does.
    pub claim: Option<(Claim, String)>,
    /// What else it holds, as far as that can be told: `ext4`, `xfs`, ….
    pub foreign: Option<String>,
}

/// The facts of all devices of a specification, by path.
pub type Facts = BTreeMap<String, LeafFacts>;

/// What the checks may overlook.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance {
    /// Devices that only look used.
    pub in_use: bool,
    /// Vdevs of different redundancy.
    pub replication_mismatch: bool,
    /// It came as `-f`: what is left cannot be overridden.
    pub forced: bool,
}

/// Which command asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `zpool create`.
    Create,
    /// `zpool add`.
    Add,
}

/// `invalid vdev specification` with the line that says whether `-f` would help.
fn invalid_spec(allow: Allowance, lines: impl IntoIterator<Item = String>) -> Failure {
    let hint = match allow.forced {
        false => "use '-f' to override the following errors:",
        true => "the following errors must be manually repaired:",
    };
    let head = Failure::new(FailureKind::Invalid, "invalid vdev specification").and(hint);
    lines.into_iter().fold(head, Failure::and)
}

/// The first checks: devices in use, then redundancy. `pool` is the pool to be added to.
///
/// # Errors
/// The words to print.
pub fn check_spec(
    specs: &[VdevSpec],
    facts: &Facts,
    pool: Option<&PoolInfo>,
    allow: Allowance,
) -> Result<(), Failure> {
    check_in_use(specs, facts, allow)?;
    if !allow.replication_mismatch {
        replication::check(specs, facts, pool).map_err(|line| invalid_spec(allow, [line]))?;
    }
    if pool.is_none() && !specs.iter().any(|s| s.class == VdevClass::Normal) {
        return Err(invalid_spec(allow, ["at least one general top-level vdev must be specified".into()]));
    }
    Ok(())
}

/// The first check alone: devices in use.
///
/// # Errors
/// The words to print.
pub fn check_in_use(specs: &[VdevSpec], facts: &Facts, allow: Allowance) -> Result<(), Failure> {
    let devices = specs.iter().flat_map(|s| s.devices.iter().map(move |d| (s, d)));
    let lines: Vec<String> = devices
        .filter_map(|(spec, device)| {
            let facts = facts.get(device)?;
            match (&facts.claim, &facts.foreign) {
                (Some((claim, pool)), _) => claim_line(device, *claim, pool, spec.class, allow),
                (None, Some(what)) if !allow.in_use => Some(foreign_line(device, what)),
                _ => None,
            }
        })
        .collect();
    if lines.is_empty() { Ok(()) } else { Err(invalid_spec(allow, lines)) }
}

fn claim_line(device: &str, claim: Claim, pool: &str, class: VdevClass, allow: Allowance) -> Option<String> {
    match claim {
        Claim::Active => Some(format!("{device} is part of active pool '{pool}'")),
        // Pools may share hot spares.
        Claim::Spare if class == VdevClass::Spare => None,
        Claim::Spare => Some(format!("{device} is reserved as a hot spare for pool {pool}")),
        _ if allow.in_use => None,
        Claim::Exported => Some(format!("{device} is part of exported pool '{pool}'")),
        Claim::PotentiallyActive => Some(format!("{device} is part of potentially active pool '{pool}'")),
    }
}

/// Other owners' data is as easily lost as a pool's.
fn foreign_line(device: &str, what: &str) -> String {
    format!("{device} contains a filesystem of type '{what}'")
}

/// The last checks, once all else is known to be well: one device twice, and sizes.
///
/// # Errors
/// The words to print.
pub fn check_devices(purpose: Purpose, pool: &str, specs: &[VdevSpec], facts: &Facts) -> Result<(), Failure> {
    let verb = if purpose == Purpose::Create { "create" } else { "add to" };
    let mut seen = Vec::new();
    for facts in specs.iter().flat_map(|s| &s.devices).filter_map(|d| facts.get(d)) {
        if facts.identity.is_some() && seen.contains(&facts.identity) {
            return Err(same_device(purpose, verb, pool));
        }
        seen.push(facts.identity);
    }
    let small = |spec: &VdevSpec| {
        let mut sizes = spec.devices.iter().filter_map(|d| facts.get(d)).map(|f| f.size_bytes);
        sizes.any(|size| size < DEVICE_MIN_BYTES)
    };
    match specs.iter().find(|spec| small(spec)).map(|spec| spec.class) {
        None => Ok(()),
        Some(class) => Err(too_small(purpose, verb, pool, class)),
    }
}

fn same_device(purpose: Purpose, verb: &str, pool: &str) -> Failure {
    let reason = "one or more vdevs refer to the same device";
    match purpose {
        Purpose::Add => Failure::cannot(FailureKind::Invalid, verb, pool, reason),
        Purpose::Create => Failure::cannot(FailureKind::Invalid, verb, pool, &format!("{reason}, or one of"))
            .and("the devices is part of an active md or lvm device"),
    }
}

fn too_small(purpose: Purpose, verb: &str, pool: &str, class: VdevClass) -> Failure {
    let reason = match (purpose, class) {
        (_, VdevClass::Log) => "one or more devices is currently unavailable",
        (Purpose::Create, _) => "one or more devices is less than the minimum size (64M)",
        (Purpose::Add, _) => "device is less than the minimum size (64M)",
    };
    Failure::cannot(FailureKind::Unavailable, verb, pool, reason)
}

/// Whether the engine can build it at all.
///
/// # Errors
/// Names the first part it cannot.
pub fn check_supported(specs: &[VdevSpec]) -> Result<(), Failure> {
    for spec in specs {
        let what = match (spec.class, spec.layout) {
            (VdevClass::Log, Layout::Raidz { .. }) => "raidz log",
            _ => continue,
        };
        let line = format!("invalid vdev specification: {what} is not supported yet");
        return Err(Failure::new(FailureKind::Unsupported, line));
    }
    Ok(())
}

/// Whether a pool's root could be mounted there.
///
/// # Errors
/// The words to print.
pub fn check_mountpoint(mountpoint: &str) -> Result<(), Failure> {
    if mountpoint.starts_with('/') || mountpoint == "none" || mountpoint == "legacy" {
        return Ok(());
    }
    let reason = "must be an absolute path, 'legacy', or 'none'";
    Err(Failure::new(FailureKind::Invalid, format!("invalid mountpoint '{mountpoint}': {reason}")))
}

/// Whether a new pool may be called so, in the words of `zpool create`.
///
/// # Errors
/// The words to print.
pub fn check_pool_name(name: &str) -> Result<(), Failure> {
    crate::names::check_new_pool(name).map_err(|e| {
        Failure::cannot(FailureKind::Invalid, "create", name, &e.to_string())
            .and("pool name may have been omitted")
    })
}

#[cfg(test)]
mod tests;
