//! Pools that were open when the daemon went down and could not be opened again: how they are shown, and how they come
//! back.
//!
//! ```text
//!  cache file ─► layout, as it was ─► devices that are there? ─► `zpool list`, `zpool status`: UNAVAIL
//!                                           │ others than at the last attempt, twice the same
//!                                           ▼
//!                                     opened again, mounted
//! ```
//! While a pool is absent, the daemon looks every two seconds where the paths of its devices lead. The daemon polls,
//! because inotify reports nothing about a directory that is missing itself. Who lists pools waits a moment for a pool
//! whose devices are all there, and sees the pool as it is then.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use control::{PoolHealth, PoolInfo, VdevAux, VdevInfo, VdevKind, VdevState};
use env::{BoxFuture, Machine};
use futures::channel::oneshot;
use futures::future::select;

use crate::cache::CachedPool;
use crate::props::{Prop, Source};
use crate::restore::{Absent, AtStart};
use crate::{Holder, Runner};

/// The interval between two looks at the devices of pools that are absent.
pub const LOOK: Duration = Duration::from_secs(2);

/// The time that a list of pools waits for pools whose devices are all there.
const LIST_WAIT: Duration = Duration::from_secs(5);

/// What the paths of a pool's devices lead to.
pub type Presence = Vec<Option<(u64, u64)>>;

/// Looks where the paths of a pool's devices lead.
pub fn presence(machine: &dyn Machine, cached: &CachedPool) -> Presence {
    cached.devices.iter().map(|device| machine.identity(Path::new(device))).collect()
}

impl Holder {
    /// The pools that are absent and are tried again, as `zpool list` shows them.
    pub(super) fn absent_infos(&self) -> Vec<PoolInfo> {
        let opening = vec!["It is being opened.".to_owned()];
        let mut cached: Vec<(CachedPool, Vec<String>)> =
            self.waiting.lock().iter().map(|waiting| (waiting.clone(), opening.clone())).collect();
        let absent = self.absent.lock();
        let tried_again = absent.iter().filter(|absent| absent.is_tried_again);
        cached.extend(tried_again.map(|absent| (absent.cached.clone(), absent.why.stderr.clone())));
        drop(absent);
        // A pool leaves these lists a moment after it has been opened.
        let open = self.pools.read();
        let closed = cached
            .into_iter()
            .filter(|(cached, _)| !open.values().any(|held| held.pool.guid().get() == cached.guid));
        closed.map(|(cached, why)| info_of(&*self.machine, &cached, why)).collect()
    }

    /// Opens absent pools again when their devices come back, as long as a pool is absent.
    pub(super) fn follow_absent(&self) {
        if self.absent.lock().iter().any(|absent| absent.is_tried_again) {
            self.env.spawn("absent pools", Box::pin(bring_back(Weak::clone(&self.own))));
        }
    }

    /// True if a pool of this name is absent and is tried again.
    pub(super) fn has_absent(&self, name: &str) -> bool {
        self.absent.lock().iter().any(|absent| absent.is_tried_again && absent.cached.name == name)
    }

    /// Tries the pools again whose devices have all come back, and waits for the end of that, though not for long. The
    /// attempt goes on if nobody waits any more.
    pub(super) async fn try_complete(&self) {
        let is_complete = |absent: &Absent| {
            absent.is_tried_again && presence(&*self.machine, &absent.cached).iter().all(Option::is_some)
        };
        if !self.absent.lock().iter().any(is_complete) {
            return;
        }
        let tried = tried_on(&self.runner, Weak::clone(&self.own));
        select(Box::pin(tried), self.env.sleep(LIST_WAIT)).await;
    }

    /// Tries the pools again whose devices are others than at the last attempt. Returns false if no pool is absent.
    async fn try_absent(&self) -> bool {
        for (name, guid) in self.absent_with_other_devices() {
            // Nobody makes or imports a pool of this name meanwhile.
            let _turn = self.turns.of(&name, "open").await;
            let found = self.absent.lock().extract_if(.., |absent| absent.cached.guid == guid).next();
            // An import has opened the pool meanwhile.
            let Some(Absent { cached, .. }) = found else { continue };
            tracing::info!(pool = name, "devices have come or gone: the pool is tried again");
            // The pool stays listed.
            self.waiting.lock().push(cached.clone());
            self.restore_one(cached, AtStart::Mount).await;
            self.remember();
        }
        self.absent.lock().iter().any(|absent| absent.is_tried_again)
    }

    fn absent_with_other_devices(&self) -> Vec<(String, u64)> {
        let is_back = |absent: &mut Absent| {
            let found = presence(&*self.machine, &absent.cached);
            // Devices come back one after the other, so that two looks in a row must agree while one is missing.
            let is_settled = found == absent.seen || found.iter().all(Option::is_some);
            absent.seen.clone_from(&found);
            let is_other = found != absent.tried && found.iter().any(Option::is_some);
            absent.is_tried_again && is_settled && is_other
        };
        let mut absent = self.absent.lock();
        let back = absent
            .iter_mut()
            .filter_map(|absent| is_back(absent).then(|| (absent.cached.name.clone(), absent.cached.guid)));
        back.collect()
    }
}

async fn bring_back(holder: Weak<Holder>) {
    loop {
        let Some(env) = holder.upgrade().map(|holder| Arc::clone(&holder.env)) else { return };
        env.sleep(LOOK).await;
        let Some(runner) = holder.upgrade().map(|holder| Arc::clone(&holder.runner)) else { return };
        if !tried_on(&runner, Weak::clone(&holder)).await {
            return;
        }
    }
}

/// Has a thread of the runner try absent pools again. Returns false if no pool is absent then.
async fn tried_on(runner: &Arc<dyn Runner>, holder: Weak<Holder>) -> bool {
    let (end, ended) = oneshot::channel();
    let work: BoxFuture<'static, ()> = Box::pin(async move {
        let Some(holder) = holder.upgrade() else { return };
        _ = end.send(holder.try_absent().await);
    });
    runner.run(work).await;
    ended.await == Ok(true)
}

/// The layout of a pool without figures, which change all the time.
pub fn layout(mut vdev: VdevInfo) -> VdevInfo {
    vdev.children = vdev.children.into_iter().map(layout).collect();
    let children = std::mem::take(&mut vdev.children);
    VdevInfo {
        path: vdev.path,
        whole_disk: vdev.whole_disk,
        ashift: vdev.ashift,
        children,
        ..VdevInfo::new(vdev.kind, vdev.id, vdev.guid, vdev.class)
    }
}

/// A pool that is absent for this reason, as `zpool list` and `zpool status` show it.
pub fn info_of(machine: &dyn Machine, cached: &CachedPool, why: Vec<String>) -> PoolInfo {
    let mut root = cached.layout.clone().unwrap_or_else(|| leaves_of(cached));
    judge(&mut root, &|path| machine.identity(&PathBuf::from(path)).is_some());
    let facts = [("guid", cached.guid.into()), ("health", PoolHealth::Unavail.word().into())];
    let prop = |(name, value): (&str, _)| (name.to_owned(), Prop { value, source: Source::None });
    PoolInfo {
        guid: cached.guid,
        health: PoolHealth::Unavail,
        txg: cached.txg,
        props: facts.map(prop).into(),
        is_absent: true,
        absent_because: why,
        ..PoolInfo::new(&cached.name, root)
    }
}

/// The layout of a pool of which only the paths are known.
fn leaves_of(cached: &CachedPool) -> VdevInfo {
    let class = control::VdevClass::Normal;
    let leaf = |(id, path): (u64, &String)| VdevInfo {
        path: Some(path.clone()),
        ..VdevInfo::new(VdevKind::File, id, 0, class)
    };
    let children = (0..).zip(&cached.devices).map(leaf).collect();
    VdevInfo { children, ..VdevInfo::new(VdevKind::Root, 0, cached.guid, class) }
}

/// Gives each vdev the state that follows from the devices that are there.
fn judge(vdev: &mut VdevInfo, is_there: &impl Fn(&str) -> bool) {
    vdev.children.iter_mut().for_each(|child| judge(child, is_there));
    let lost = vdev.shown_children().filter(|child| !child.state.is_readable()).count();
    let count = vdev.shown_children().count();
    let spare = match vdev.kind {
        VdevKind::Mirror | VdevKind::Replacing | VdevKind::Spare => count.saturating_sub(1),
        VdevKind::Raidz { parity } | VdevKind::Draid { parity, .. } => usize::from(parity),
        _ => 0,
    };
    (vdev.state, vdev.aux) = match vdev.kind.is_leaf() {
        true if vdev.path.as_deref().is_some_and(is_there) => (VdevState::Online, VdevAux::None),
        true => (VdevState::CantOpen, VdevAux::OpenFailed),
        false if lost > spare => (VdevState::CantOpen, VdevAux::NoReplicas),
        false if vdev.kind == VdevKind::Root => (VdevState::CantOpen, VdevAux::None),
        false if lost > 0 => (VdevState::Degraded, VdevAux::None),
        false => (VdevState::Online, VdevAux::None),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::VdevClass;

    fn vdev(kind: VdevKind, children: Vec<VdevInfo>) -> VdevInfo {
        VdevInfo { children, ..VdevInfo::new(kind, 0, 1, VdevClass::Normal) }
    }

    fn disk(path: &str) -> VdevInfo {
        VdevInfo { path: Some(path.to_owned()), ..vdev(VdevKind::Disk, Vec::new()) }
    }

    #[test]
    fn states_follow_from_the_devices_that_are_there() {
        let mirror = |kind| vdev(VdevKind::Root, vec![vdev(kind, vec![disk("a"), disk("b"), disk("c")])]);
        let states = |kind, there: &[&str]| {
            let mut root = mirror(kind);
            judge(&mut root, &|path| there.contains(&path));
            (root.aux, root.children[0].state, root.children[0].children[2].state)
        };
        let (gone, here) = (VdevState::CantOpen, VdevState::Online);
        assert_eq!(states(VdevKind::Mirror, &[]), (VdevAux::NoReplicas, gone, gone));
        assert_eq!(states(VdevKind::Mirror, &["c"]), (VdevAux::None, VdevState::Degraded, here));
        assert_eq!(states(VdevKind::Raidz { parity: 1 }, &["c"]), (VdevAux::NoReplicas, gone, here));
        assert_eq!(states(VdevKind::Mirror, &["a", "b", "c"]), (VdevAux::None, here, here));
    }

    #[test]
    fn a_layout_has_no_figures() {
        let mut root = vdev(VdevKind::Root, vec![disk("a")]);
        let wanted = root.clone();
        root.stats.allocated_bytes = 7;
        root.children[0].stats.read_errors = 1;
        root.children[0].state = VdevState::Faulted;
        assert_eq!(layout(root), wanted);
    }
}
