//! Devices of a pool that get another beside them, and that are let go of.

use crate::admit::{self, Allowance, Claim, LeafFacts};
use crate::props::Occasion;
use crate::settings::Settings;
use crate::spec::{Layout, VdevSpec};
use crate::{Held, Holder, refusal};
use control::{Failure, FailureKind, PoolAttach, PoolDetach, VdevClass};
use env::{BoxFuture, DeviceError};
use pool::PoolError;
use std::path::{Path, PathBuf};
use units::Guid;
use vdev::{NewLeaf, NodeKind, VdevError};

/// The exit code of commands that fail in the library: scripts expect it.
const LIBRARY_FAILED: u8 = 255;

/// Why a spare that waits is no device to work with.
pub(crate) const IS_SPARE: &str = "device is reserved as a hot spare";

/// A leaf that a user means, among other things that he could mean.
pub(crate) enum Meant {
    /// A vdev.
    Vdev(Guid),
    /// A hot spare that waits.
    Spare,
    /// A cache device.
    Cache(Guid),
}

impl Holder {
    pub(super) async fn attach(&self, call: PoolAttach) -> Result<(), Failure> {
        let _taking = self.taking.lock().await;
        let held = self.pool(&call.pool)?;
        let refuse = |reason: &str| refuse_attach(&call, reason);
        let spare = self.spare_of(&held, Path::new(&call.path)).filter(|_| call.replace);
        if spare.is_none() {
            self.check_new(&call, &held).await?;
        }
        let settings = Settings::read(&call.props, Occasion::Creation, &|reason| refuse(reason))?;
        let target = target(&held, call.vdev).map_err(refuse)?;
        check_target(&held, target, &call).map_err(refuse)?;
        let top = held.pool.vdevs().leaf(target).and_then(|leaf| held.pool.vdevs().top(leaf.vdev()));
        if spare.is_some() && top.is_ok_and(|top| top.is_log()) {
            return Err(refuse("cannot replace a log with a spare"));
        }
        // The property `ashift` of the pool applies only to new vdevs. This device must support the
        // sector size of the vdev that it joins.
        let path = PathBuf::from(&call.path);
        let new = NewLeaf { path, ashift: settings.ashift, ..NewLeaf::default() };
        let put: BoxFuture<'_, Result<(), PoolError>> = match (call.replace, spare) {
            (false, _) => Box::pin(held.pool.attach(target, &new)),
            (true, None) => Box::pin(held.pool.replace(target, &new)),
            (true, Some(spare)) => Box::pin(held.pool.stand_in(target, spare)),
        };
        put.await.map_err(|error| refuse(&reason(&error, &call)))?;
        tracing::info!(pool = call.pool, new = call.path, replace = call.replace, "attached");
        self.remember();
        Ok(())
    }

    pub(super) async fn detach(&self, call: PoolDetach) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let refuse = |reason: &str| {
            let line = format!("cannot detach {}: {reason}", call.device);
            Failure::new(FailureKind::Invalid, line).exits(LIBRARY_FAILED)
        };
        let target = target(&held, call.vdev).map_err(refuse)?;
        if held.pool.vdevs().leaf(target).is_err() {
            return Err(refuse("only applicable to mirror and replacing vdevs"));
        }
        let detached = self.taking_out(&held, target, held.pool.detach(target)).await;
        detached.map_err(|error| refuse(&refusal::reason(&error)))?;
        tracing::info!(pool = call.pool, device = call.device, "detached");
        Ok(())
    }

    /// Whether the new device may be taken.
    async fn check_new(&self, call: &PoolAttach, held: &Held) -> Result<(), Failure> {
        let spec =
            VdevSpec { class: VdevClass::Normal, layout: Layout::Single, devices: vec![call.path.clone()] };
        let specs = [spec];
        let mut facts = self.facts(&specs).await?;
        for facts in facts.values_mut().filter(|_| call.replace) {
            self.look_again(call, held, facts).await;
        }
        let allow = Allowance { in_use: call.force, replication_mismatch: true, forced: call.force };
        admit::check_in_use(&specs, &facts, allow)
    }

    /// The guid of a device that is on the pool's list of spares.
    fn spare_of(&self, held: &Held, path: &Path) -> Option<Guid> {
        let identity = self.machine.identity(path)?;
        let is_it = |spare: &pool::Auxiliary| self.machine.identity(&spare.path) == Some(identity);
        held.pool.spares().into_iter().find(is_it).map(|spare| spare.guid)
    }

    /// A new disk may be where the one was that it replaces: then its labels tell whether it is the pool's.
    async fn look_again(&self, call: &PoolAttach, held: &Held, facts: &mut LeafFacts) {
        let is_its_place = |guid| {
            let leaf = held.pool.vdevs().leaf(guid);
            leaf.is_ok_and(|leaf| leaf.path() == Path::new(&call.path))
        };
        let is_active = matches!(facts.claim, Some((Claim::Active, _)));
        if is_active && call.vdev.is_some_and(|guid| is_its_place(Guid::new(guid))) {
            facts.claim = self.claim_by_label(Path::new(&call.path)).await;
        }
    }
}

fn refuse_attach(call: &PoolAttach, reason: &str) -> Failure {
    let PoolAttach { device, new_device, .. } = call;
    let line = match call.replace {
        false => format!("cannot attach {new_device} to {device}: {reason}"),
        true => format!("cannot replace {device} with {new_device}: {reason}"),
    };
    Failure::new(FailureKind::Invalid, line).exits(LIBRARY_FAILED)
}

/// The vdev that is meant, if it is one.
pub(crate) fn target(held: &Held, vdev: Option<u64>) -> Result<Guid, &'static str> {
    match vdev.map(|guid| meant(held, Guid::new(guid))) {
        None => Err("no such device in pool"),
        Some(Meant::Spare) => Err(IS_SPARE),
        Some(Meant::Cache(_)) => Err("device is in use as a cache"),
        Some(Meant::Vdev(guid)) => Ok(guid),
    }
}

pub(crate) fn meant(held: &Held, guid: Guid) -> Meant {
    let is_at_work = held.pool.vdevs().leaf(guid).is_ok();
    let is_in = |list: Vec<pool::Auxiliary>| list.iter().any(|one| one.guid == guid);
    match () {
        () if !is_at_work && is_in(held.pool.spares()) => Meant::Spare,
        () if is_in(held.pool.caches()) => Meant::Cache(guid),
        () => Meant::Vdev(guid),
    }
}

/// What no vdev can do, in words of its own.
fn check_target(held: &Held, target: Guid, call: &PoolAttach) -> Result<(), &'static str> {
    let tops = held.pool.vdevs().tops();
    let of = |guid| tops.iter().find(|top| top.guid() == guid && top.leaves().len() > 1);
    let is_raidz = |kind| matches!(kind, NodeKind::Raidz { .. });
    if !call.replace && of(target).is_some_and(|top| is_raidz(top.kind())) {
        return Err("raidz expansion is not supported yet");
    }
    let Ok(leaf) = held.pool.vdevs().leaf(target) else {
        return Err("can only attach to mirrors and top-level disks");
    };
    let in_raidz = held.pool.vdevs().top(leaf.vdev()).is_ok_and(|top| is_raidz(top.kind()));
    if call.replace && call.sequential && in_raidz {
        return Err("only mirror and dRAID vdevs support sequential reconstruction");
    }
    Ok(())
}

fn reason(error: &PoolError, call: &PoolAttach) -> String {
    match error {
        PoolError::Vdev(VdevError::TooSmall { .. }) => "device is too small".to_owned(),
        PoolError::Vdev(VdevError::BadAshift { .. }) => {
            let words = "The new device cannot have a higher alignment requirement than the top-level vdev.";
            words.to_owned()
        }
        PoolError::Vdev(VdevError::Open { source: DeviceError::InUse { .. }, .. }) => {
            format!("{} is busy", call.new_device)
        }
        other => refusal::reason(other),
    }
}
