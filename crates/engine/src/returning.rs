//! Devices that an open pool works without, and that come back: they are brought online, and get what they missed.
//!
//! ```text
//!  a leaf fails or is missing ─► every two seconds: where does its path lead? ─► nowhere, or to the same as when it failed
//!                                                          │ elsewhere, twice the same
//!                                                          ▼
//!                                             online, as by `zpool online` ─► resilver
//! ```
//! A device that the administrator took out stays out. A device that failed and never went away is not tried again,
//! because nothing says that it would not fail again. `zpool clear` and `zpool online` do that.
//!
//! A device that is not the pool's replaces the one that failed if the pool has `autoreplace=on` and the device does not
//! look used.

use crate::Holder;
use crate::absent::LOOK;
use crate::settings::AUTO_REPLACE;
use control::PoolAttach;
use env::{BoxFuture, Machine};
use parking_lot::Mutex;
use pool::Pool;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use units::Guid;
use vdev::{Leaf, VdevAux};

/// What a path leads to: device and inode.
type Identity = Option<(u64, u64)>;

/// The pools whose failed devices are watched.
#[derive(Default)]
pub struct Returning(Mutex<BTreeSet<Guid>>);

/// What was seen at the path of a leaf that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    /// At the last look.
    last: Identity,
    /// When it was tried last, or when it failed.
    tried: Identity,
}

impl Look {
    /// The first look at a leaf that has failed. A path that could not be opened may lead to the device by now.
    fn first(found: Identity, aux: VdevAux) -> Self {
        Self { last: found, tried: found.filter(|_| aux != VdevAux::OpenFailed) }
    }

    /// Takes note of what is at the path now. Returns whether the leaf is to be tried.
    fn again(&mut self, found: Identity) -> bool {
        let is_settled = self.last == found;
        self.last = found;
        let is_other = is_settled && found != self.tried;
        if is_other || found.is_none() {
            self.tried = found;
        }
        is_other && found.is_some()
    }
}

/// The leaves that a pool works without and that nobody has taken out.
fn failed(pool: &Pool) -> Vec<Arc<Leaf>> {
    let mut leaves = pool.vdevs().leaves();
    leaves.retain(|leaf| leaf.has_failed_by_itself());
    leaves
}

/// Looks at the paths of leaves. Returns those to be tried, with their paths.
fn to_try(machine: &dyn Machine, pool: &Pool, looks: &mut BTreeMap<Guid, Look>) -> Vec<(Guid, PathBuf)> {
    let failed = failed(pool);
    looks.retain(|guid, _| failed.iter().any(|leaf| leaf.guid() == *guid));
    let is_back = |leaf: &Arc<Leaf>| {
        let (guid, path) = (leaf.guid(), leaf.path());
        let found = machine.identity(&path);
        let look = looks.entry(guid).or_insert_with(|| Look::first(found, leaf.state().1));
        look.again(found).then_some((guid, path))
    };
    failed.iter().filter_map(is_back).collect()
}

impl Holder {
    /// Watches for failed devices of a pool to come back, as long as the pool has any.
    pub(super) fn follow_returning(&self, pool: &Arc<Pool>) {
        let mut watched = self.returning.0.lock();
        if !pool.is_read_only() && !failed(pool).is_empty() && watched.insert(pool.guid()) {
            let watch = watch(Weak::clone(&self.own), Arc::downgrade(pool), pool.guid());
            self.env.spawn("returning devices", Box::pin(watch));
        }
    }

    /// Whether a pool has all of its devices again, and is watched no more.
    fn is_complete(&self, pool: &Pool, watched_as: Guid) -> bool {
        let mut watched = self.returning.0.lock();
        let is_complete = failed(pool).is_empty();
        if is_complete {
            watched.remove(&watched_as);
        }
        is_complete
    }

    async fn bring_back(&self, pool: &Arc<Pool>, leaf: Guid, path: PathBuf) {
        let name = pool.name();
        let _turn = self.turns.of(&name, "online").await;
        tracing::info!(pool = name, path = %path.display(), "a device is back: it is brought online");
        let brought: BoxFuture<'_, _> = Box::pin(pool.bring_online(leaf));
        if let Err(error) = brought.await {
            tracing::warn!(pool = name, path = %path.display(), %error, "the device stays out of use");
        }
        let is_out = pool.vdevs().leaf(leaf).is_ok_and(|leaf| !leaf.is_usable());
        if is_out && pool.is_prop_on(AUTO_REPLACE).await.unwrap_or_default() {
            self.replace_in_place(&name, leaf, &path).await;
        }
    }

    /// Replaces a leaf that failed by what is at its path now, unless that looks used.
    async fn replace_in_place(&self, pool: &str, leaf: Guid, path: &Path) {
        let path = path.to_string_lossy().into_owned();
        let call = PoolAttach {
            pool: pool.to_owned(),
            device: path.clone(),
            vdev: Some(leaf.get()),
            new_device: path.clone(),
            path: path.clone(),
            replace: true,
            ..PoolAttach::default()
        };
        match self.attach(call).await {
            Ok(()) => tracing::info!(pool, path, "a new device replaces the one that failed"),
            Err(failure) => tracing::warn!(pool, path, reason = %failure, "the new device is not taken"),
        }
    }
}

async fn watch(holder: Weak<Holder>, pool: Weak<Pool>, guid: Guid) {
    let mut looks = BTreeMap::new();
    loop {
        let Some(env) = holder.upgrade().map(|holder| Arc::clone(&holder.env)) else { return };
        env.sleep(LOOK).await;
        let Some(holder) = holder.upgrade() else { return };
        let Some(pool) = pool.upgrade() else {
            holder.returning.0.lock().remove(&guid);
            return;
        };
        if holder.is_complete(&pool, guid) {
            return;
        }
        for (leaf, path) in to_try(&*holder.machine, &pool, &mut looks) {
            let (runner, holder, pool) = (Arc::clone(&holder.runner), Arc::clone(&holder), Arc::clone(&pool));
            let work: BoxFuture<'static, ()> =
                Box::pin(async move { holder.bring_back(&pool, leaf, path).await });
            runner.run(work).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_tried_when_its_path_leads_elsewhere_than_before() {
        let (old, new) = (Some((1, 10)), Some((1, 11)));
        let tries = |mut look: Look, seen: &[Identity]| -> Vec<bool> {
            seen.iter().map(|found| look.again(*found)).collect()
        };
        let failed = |found| Look::first(found, VdevAux::IoFailure);
        assert_eq!(tries(failed(old), &[old, old]), [false, false], "it failed and is there");
        assert_eq!(tries(failed(old), &[None, old, old, old]), [false, false, true, false]);
        assert_eq!(tries(failed(old), &[new, new, new]), [false, true, false], "another device");
        assert_eq!(tries(failed(old), &[new, old, new, old]), [false; 4], "not twice the same");
        let missing = |found| Look::first(found, VdevAux::OpenFailed);
        assert_eq!(tries(missing(old), &[old, old]), [true, false], "it came back before the first look");
        assert_eq!(tries(missing(None), &[None, old, old]), [false, false, true]);
    }
}
