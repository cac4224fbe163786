//! Snapshots: made, renamed, destroyed.
//!
//! ```text
//!  zfs snapshot ─► logs that wait are replayed ─► sync of the open txg: datasets written ─► task: snapshots of all
//! ```
//! What was acknowledged before somebody asked for a snapshot is in the txg that is open then, or in an earlier one, so
//! the snapshot is made in the sync of that txg and of no earlier one.
//! (test: `a_snapshot_has_what_was_acknowledged_before_it`)

use std::sync::Arc;
use std::time::Duration;

use dmu::Tx;
use dsl::{DatasetName, DslError, PropValue, TemporaryHold};
use env::boxed;

use crate::create::birth;
use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError};

/// Snapshots destroyed by one txg, at most.
const DESTROYED_AT_ONCE: usize = 200;
/// For so long a txg goes on destroying snapshots: writers wait for it when much is dirty.
const DESTROYING_AT_ONCE: Duration = Duration::from_millis(50);

impl Pool {
    /// Makes snapshots, `pool/fs@name` each, of one moment: all of them or none. `props` are set on each.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], [`DslError::Exists`], [`DslError::BadName`], [`DslError::NoSpace`]; when a log that
    /// is part of what a snapshot is to have cannot be replayed.
    #[boxed]
    pub async fn snapshot(
        self: &Arc<Self>,
        names: Vec<String>,
        props: Vec<(String, PropValue)>,
    ) -> Result<(), PoolError> {
        for name in &names {
            let (of, _) = parts(name)?;
            self.replay_log_of(of).await?;
        }
        loop {
            let (names, props) = (names.clone(), props.clone());
            let made = self.in_sync(|pool, tx| async move { pool.make_snapshots(&tx, &names, &props).await });
            let made = made.await;
            if !came_too_early(&made) {
                return made;
            }
        }
    }

    /// Makes a snapshot that is destroyed when the hold with this `tag` is released, by
    /// [`Pool::release`] or by the next import.
    ///
    /// # Errors
    /// As [`Pool::snapshot`] and [`Pool::hold`].
    #[boxed]
    pub async fn temporary_snapshot(self: &Arc<Self>, name: &str, tag: &str) -> Result<(), PoolError> {
        let (of, _) = parts(name)?;
        self.replay_log_of(of).await?;
        loop {
            let (name, tag) = (name.to_owned(), tag.to_owned());
            let made = self.in_sync(|pool, tx| async move { pool.make_temporary(&tx, name, tag).await });
            let made = made.await;
            if !came_too_early(&made) {
                return made;
            }
        }
    }

    async fn make_temporary(&self, tx: &Tx, name: String, tag: String) -> Result<(), PoolError> {
        self.check_task_room(&name, 2 * DATASET_BYTES)?;
        self.make_snapshots(tx, std::slice::from_ref(&name), &[]).await?;
        let (snapshot, now) = (self.dsl.resolve(&name).await?, self.env.wall_clock());
        let hold = TemporaryHold { snapshot: snapshot.dataset, tag };
        self.dsl.hold_temporarily(tx, &hold, now).await?;
        self.note_event(tx, "hold", Some(&snapshot), &format!("tag={} temp=1 refs=1", hold.tag)).await?;
        self.dsl.destroy_snapshot(tx, &snapshot, now).await?;
        self.note_event(tx, "defer_destroy", Some(&snapshot), " ").await
    }

    /// Has the log of a dataset replayed if it waits for that.
    pub(crate) async fn replay_log_of(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        let open = self.datasets.read().get(&dataset.objset()).cloned();
        match open.filter(|open| open.is_claimed()) {
            Some(open) => self.replay_log(&open).await,
            None => Ok(()),
        }
    }

    async fn make_snapshots(
        &self,
        tx: &Tx,
        names: &[String],
        props: &[(String, PropValue)],
    ) -> Result<(), PoolError> {
        for (prop, value) in props {
            self.dsl.check_prop(prop, value).await?;
        }
        let (mut of, mut coming_bytes) = (Vec::with_capacity(names.len()), 0_u64);
        for name in names {
            let (head, snapshot) = parts(name)?;
            let head = self.dsl.resolve(head).await?;
            self.dsl.check_snapshot(tx, &head, snapshot, &self.space.pool_space()).await?;
            coming_bytes = coming_bytes.saturating_add(self.snapshot_bytes(&head).await?);
            self.check_task_room(&head.name, coming_bytes)?;
            of.push((head, snapshot));
        }
        for (head, snapshot) in of {
            let (birth, now) = (birth(&self.env), self.env.wall_clock());
            let made = self.dsl.create_snapshot(tx, &head, snapshot, birth, now).await?;
            for (prop, value) in props {
                self.dsl.set_snapshot_prop(tx, made.dataset, prop, value).await?;
            }
            self.note_event(tx, "snapshot", Some(&made), " ").await?;
        }
        Ok(())
    }

    /// Destroys snapshots: none of them if one is held, has clones or is being read; `later`: those are destroyed
    /// once nothing keeps them any more. Many take several txgs.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], [`DslError::HasHolds`], [`DslError::HasClones`], [`PoolError::Busy`].
    #[boxed]
    pub async fn destroy_snapshots(
        self: &Arc<Self>,
        names: Vec<String>,
        later: bool,
    ) -> Result<(), PoolError> {
        let found = self.dsl.oldest_first(&names).await?;
        for snapshot in &found {
            self.dsl.check_snapshot_removable(snapshot, later).await?;
            self.readers.check_unread(snapshot.objset())?;
        }
        let mut rest = found.as_slice();
        while !rest.is_empty() {
            let some = rest[..rest.len().min(DESTROYED_AT_ONCE)].to_vec();
            let done =
                self.in_sync(move |pool, tx| async move { pool.remove_snapshots(&tx, &some, later).await });
            rest = &rest[done.await?..];
        }
        Ok(())
    }

    /// What would be freed if two snapshots of a dataset and all between them were destroyed, in bytes.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`]; when they cannot be read.
    #[boxed]
    pub async fn reclaimable(&self, first: &str, last: &str) -> Result<u64, PoolError> {
        let (first, last) = (self.dsl.resolve(first).await?, self.dsl.resolve(last).await?);
        Ok(self.dsl.reclaimable(first.dataset, last.dataset).await?)
    }

    /// Destroys some of these snapshots, the first at least; says how many are done with.
    async fn remove_snapshots(&self, tx: &Tx, some: &[DatasetName], later: bool) -> Result<usize, PoolError> {
        let mut going = Vec::with_capacity(some.len());
        for snapshot in some {
            match self.dsl.resolve(&snapshot.name).await {
                Ok(found) if found.dataset == snapshot.dataset => {
                    self.dsl.check_snapshot_removable(snapshot, later).await?;
                    going.push((snapshot, Some(self.readers.keep_out(snapshot.objset())?)));
                }
                // Somebody else was quicker.
                Ok(_) | Err(DslError::NoSuchDataset { .. }) => going.push((snapshot, None)),
                Err(error) => return Err(error.into()),
            }
        }
        let (begun, mut done) = (self.env.now(), 0);
        for (snapshot, kept_out) in going {
            if done > 0 && self.env.now() - begun > DESTROYING_AT_ONCE {
                break;
            }
            if kept_out.is_some() {
                let gone = self.dsl.destroy_snapshot(tx, snapshot, self.env.wall_clock()).await?;
                let what = if gone { "destroy" } else { "defer_destroy" };
                self.note_event(tx, what, Some(snapshot), " ").await?;
            }
            done += 1;
        }
        Ok(done)
    }

    /// Gives snapshots other names, full old and full new ones: all of them or none.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], [`DslError::Exists`], [`DslError::BadName`], [`DslError::NoRename`].
    #[boxed]
    pub async fn rename_snapshots(self: &Arc<Self>, pairs: Vec<(String, String)>) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            for (name, new_name) in &pairs {
                pool.dsl.check_rename_snapshot(name, new_name).await?;
            }
            for (name, new_name) in &pairs {
                let old = pool.dsl.resolve(name).await?;
                pool.dsl.rename_snapshot(&tx, name, new_name, pool.env.wall_clock()).await?;
                let (_, new) = parts(new_name)?;
                pool.note_event(&tx, "rename", Some(&old), &format!("-> @{new}")).await?;
            }
            Ok(())
        })
        .await
    }
}

/// Whether something was refused for it would have been done in the txg of a snapshot; in the next it can be.
pub(crate) fn came_too_early<T>(done: &Result<T, PoolError>) -> bool {
    matches!(done, Err(PoolError::Dsl(DslError::TryAgain { .. })))
}

/// A snapshot's name as its dataset's and what follows the `@`.
pub(crate) fn parts(name: &str) -> Result<(&str, &str), PoolError> {
    let none = || DslError::BadName { name: name.to_owned(), why: "it is no snapshot" };
    Ok(name.split_once('@').ok_or_else(none)?)
}
