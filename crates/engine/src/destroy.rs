//! Closing pools: export, destroy, and the daemon's end.

use crate::front::UnmountReach;
use crate::mounts::{Entry, MountTable};
use crate::props::Source;
use crate::{Held, Holder, refusal};
use control::{Failure, FailureKind, Said};
use pool::PoolError;
use std::path::PathBuf;
use std::sync::Arc;
use vdev::PoolState;

impl Holder {
    /// Unmounts all of a pool and closes it, leaving labels that say `state`.
    pub(super) async fn close(
        &self,
        name: &str,
        state: PoolState,
        force: bool,
        said: &Said,
    ) -> Result<(), Failure> {
        if state == PoolState::Exported && self.forget_absent(name) {
            return Ok(());
        }
        let held = self.pool(name)?;
        let verb = if state == PoolState::Destroyed { "destroy" } else { "export" };
        if let Some(txg) = held.pool.suspended() {
            if !force {
                return Err(refusal::pool(verb, name, &PoolError::Suspended { txg }));
            }
            return self.give_up(&held).await;
        }
        // Checked before the file systems are unmounted, because a later refusal would leave them
        // unmounted.
        let heads = self.dataset_names(&held, name).await.unwrap_or_default();
        if held.pool.find_receiving(&heads).await.is_ok_and(|receiving| receiving.is_some()) {
            return Err(Failure::cannot(FailureKind::Busy, verb, name, "pool is busy"));
        }
        let places = self.automatic_places(&held, |dataset| crate::names::is_within(dataset, name)).await;
        let going = self.mounts.sessions_below(name);
        let busy = Failure::cannot(FailureKind::Busy, verb, name, "pool is busy");
        refuse_seen_elsewhere(&going, force, busy, &format!("zpool {verb} -f {name}"))?;
        self.take(&going, UnmountReach::for_change(force)).await?;
        self.mounts.forget(&places);
        // What is only read keeps no history.
        _ = held.pool.log_history(&said.command, said.uid);
        held.pool.close(state).await.map_err(|e| refusal::pool(verb, name, &e))?;
        self.let_go(name);
        tracing::info!(pool = name, "{verb}ed");
        Ok(())
    }

    /// Nothing waits any more for the devices of a pool that is suspended; everything that did fails.
    pub(super) async fn abandon_suspended(&self, name: &str) {
        match self.pool(name) {
            Ok(held) if held.pool.suspended().is_some() => held.pool.abandon().await,
            _ => {}
        }
    }

    /// The same of all pools.
    pub(super) async fn abandon_all_suspended(&self) {
        for held in self.all() {
            self.abandon_suspended(&held.pool.name()).await;
        }
    }

    /// Lets go of a suspended pool; its devices stay as they are. First of all it is given up, for what
    /// keeps a file system from being unmounted may be waiting for it.
    async fn give_up(&self, held: &Held) -> Result<(), Failure> {
        let name = held.pool.name();
        held.pool.abandon().await;
        self.mounts.unmount_by_force(&self.mounts.sessions_below(&name))?;
        self.let_go(&name);
        tracing::warn!(pool = name, "given up while suspended");
        Ok(())
    }

    /// Where these datasets are mounted, as far as nobody chose the place: directories that mounting made,
    /// the deepest last.
    pub(super) async fn automatic_places(&self, held: &Held, meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let mut places = Vec::new();
        for mounted in self.mounts.list() {
            if meant(&mounted.dataset)
                && let Ok(info) = self.dataset_info(held, &mounted.dataset).await
                && info.props.get("mountpoint").is_some_and(|place| is_automatic(&place.source))
            {
                places.push(PathBuf::from(mounted.mountpoint));
            }
        }
        places.sort();
        places
    }

    /// Everything stable, nothing mounted: what may follow is the end of the process. Pools
    /// stay in the cache file.
    pub(super) async fn settle_all(&self) {
        // Changes may be waiting for their devices.
        self.abandon_all_suspended().await;
        let _all = self.turns.all().await;
        let others = self.all().into_iter().filter(|held| held.pool.suspended().is_none());
        if let Err(failure) = self.mounts.unmount_all() {
            tracing::warn!(%failure, "still mounted");
        }
        for held in others {
            if let Err(error) = held.pool.leave().await {
                tracing::error!(pool = held.pool.name(), error = refusal::chain(&error), "not synced");
                held.pool.abandon().await;
            }
        }
        self.pools.write().clear();
    }
}

/// Refuses a change of datasets that something else shows beside their mounts, unless it is made by force. `remedy` is
/// the command that makes it by force.
pub fn refuse_seen_elsewhere(
    going: &[Arc<Entry>],
    force: bool,
    busy: Failure,
    remedy: &str,
) -> Result<(), Failure> {
    let seen = if force { None } else { MountTable::seen_elsewhere(going) };
    let Some((place, by)) = seen else { return Ok(()) };
    Err(busy.and(format!("{by} still shows what is mounted at '{place}'; '{remedy}' ends that")))
}

fn is_automatic(source: &Source) -> bool {
    matches!(source, Source::Default | Source::Inherited(_))
}
