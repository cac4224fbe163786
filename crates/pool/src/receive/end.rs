//! What was received is there from now on, or is gone.

use std::sync::Arc;

use dmu::Tx;
use dsl::{Birth, DatasetName};
use env::boxed;
use units::ObjectId;

use super::{ReceiveRefusal, Received};
use crate::create::birth;
use crate::dataset::snapshots::{came_too_early, parts};
use crate::{Pool, PoolError};

impl Received {
    /// Full name of the dataset that the snapshot will be of.
    #[must_use]
    pub fn head(&self) -> &str {
        parts(&self.order.snapshot).map_or(self.order.snapshot.as_str(), |(head, _)| head)
    }

    /// Whether the dataset was not there before.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Makes the snapshot, and the dataset what it has. Nobody may be using the dataset.
    ///
    /// # Errors
    /// [`PoolError::Receive`] when it has been changed meanwhile; [`PoolError::Busy`]; those of making and destroying
    /// snapshots. Nothing of the stream is left then that was not to be kept.
    #[boxed]
    pub async fn finish(self) -> Result<(), PoolError> {
        let finished = self.try_to_finish().await;
        if finished.is_err() {
            self.give_up().await;
        }
        finished
    }

    async fn try_to_finish(&self) -> Result<(), PoolError> {
        let _nobody_opens_it = self.pool.loading.write().await;
        if !self.is_new {
            self.pool.close_filesystem(self.head()).await?;
        }
        loop {
            let (order, into, is_new) = (self.order.clone(), self.into.clone(), self.is_new);
            let done = self.pool.in_sync(move |pool, tx| async move {
                let ending = Ending { pool: &pool, order: &order, into: &into };
                if is_new { ending.of_new(&tx).await } else { ending.of_existing(&tx).await }
            });
            let done = done.await;
            if !came_too_early(&done) {
                return done;
            }
        }
    }

    /// Gives up what was received: nothing of it is left unless that was to be kept. Where that cannot be, the next import
    /// sees to it.
    #[boxed]
    pub async fn give_up(self) {
        if self.order.resumable && self.has_begun {
            return self.keep().await;
        }
        let gone = self.destroy().await;
        if let Err(error) = gone {
            let dataset = self.into.name;
            tracing::warn!(dataset, %error, "what was received by half stays until the next import");
        }
    }

    async fn destroy(&self) -> Result<(), PoolError> {
        self.leave().await?;
        self.pool.destroy_filesystem(&self.into.name).await
    }

    /// Leaves what was received as it is, for a stream that goes on with it.
    async fn keep(self) {
        if let Err(error) = self.leave().await {
            let dataset = self.into.name;
            tracing::warn!(dataset, %error, "the receive can be resumed after the next import");
        }
    }

    /// Writes all received data and removes the dataset from the txgs.
    async fn leave(&self) -> Result<(), PoolError> {
        let into = self.into.clone();
        let left = self.pool.in_sync(|pool, _| async move {
            pool.leave_place(&into);
            Ok(())
        });
        left.await
    }
}

/// What the last task needs.
struct Ending<'a> {
    pool: &'a Arc<Pool>,
    order: &'a super::ReceiveOrder,
    into: &'a DatasetName,
}

impl Ending<'_> {
    async fn of_new(&self, tx: &Tx) -> Result<(), PoolError> {
        let (_, snapshot) = parts(&self.order.snapshot)?;
        let dsl = &self.pool.dsl;
        // Somebody may have destroyed or renamed it.
        if dsl.resolve(&self.into.name).await? != *self.into {
            return Err(PoolError::Receive(ReceiveRefusal::Modified));
        }
        dsl.check_received_snapshot(tx, self.into, snapshot, &self.pool.space.pool_space()).await?;
        self.pool.leave_place(self.into);
        dsl.set_inconsistent(tx, self.into.dataset, false).await?;
        dsl.end_resumable(tx, self.into.dataset).await?;
        self.make_snapshot(tx, self.into).await
    }

    async fn of_existing(&self, tx: &Tx) -> Result<(), PoolError> {
        let (pool, dsl) = (self.pool, &self.pool.dsl);
        let (name, snapshot) = parts(&self.order.snapshot)?;
        let head = dsl.resolve(name).await?;
        if pool.datasets.read().contains_key(&head.objset()) {
            return Err(PoolError::Busy { objset: head.objset() });
        }
        if dsl.receiving_below(&head).await?.as_ref() != Some(self.into) {
            return Err(PoolError::Receive(ReceiveRefusal::Modified));
        }
        let newer = self.newer(&head).await?;
        // Before the exchange, because a later refusal would report the receive as failed although
        // the exchange was done.
        let _nobody_opens_origin = pool.keep_out_of_origin(self.into).await?;
        let mut keep_out = Vec::new();
        for going in &newer {
            dsl.check_snapshot_removable(going, false).await?;
            keep_out.push(pool.readers.keep_out(going.objset())?);
        }
        dsl.check_exchange(&head, self.into).await?;
        dsl.check_snapshot(tx, &head, snapshot, &pool.space.pool_space()).await?;
        pool.leave_place(self.into);
        for going in &newer {
            dsl.destroy_snapshot(tx, going, pool.env.wall_clock()).await?;
            pool.note_event(tx, "destroy", Some(going), " ").await?;
        }
        dsl.exchange(tx, &head, self.into).await?;
        self.make_snapshot(tx, &head).await?;
        pool.remove_head_alone(tx, self.into).await?;
        pool.use_without_log(tx, &head).await
    }

    /// Snapshots since the one that the stream starts from, latest first: only if they may go.
    async fn newer(&self, head: &DatasetName) -> Result<Vec<DatasetName>, PoolError> {
        let dsl = &self.pool.dsl;
        let source = dsl.dataset(self.into.dataset).await?.prev_snapshot.get();
        let snapshots = dsl.snapshots(head).await?;
        let changed = PoolError::Receive(ReceiveRefusal::Modified);
        match snapshots.iter().find(|snapshot| snapshot.dataset.get() == source) {
            Some(source) if !self.order.force => self.pool.check_unchanged(head, source).await?,
            Some(_) => {}
            // Promotion has moved it elsewhere. A full stream takes the place of what has no snapshots.
            None if self.order.begin.fromguid.get() != 0 || !snapshots.is_empty() => return Err(changed),
            None => {}
        }
        let mut newer = Vec::new();
        let mut at = dsl.dataset(head.dataset).await?.prev_snapshot.get();
        while at != source {
            let snapshot = snapshots.iter().find(|snapshot| snapshot.dataset.get() == at);
            newer.push(snapshot.cloned().ok_or_else(|| changed.clone())?);
            at = dsl.dataset(ObjectId::new(at)).await?.prev_snapshot.get();
        }
        Ok(newer)
    }

    /// The snapshot has the guid and the time that it was sent with.
    async fn make_snapshot(&self, tx: &Tx, head: &DatasetName) -> Result<(), PoolError> {
        let (_, snapshot) = parts(&self.order.snapshot)?;
        let begin = &self.order.begin;
        let drawn = birth(&self.pool.env);
        let birth = Birth { guid: begin.toguid.get(), now_secs: begin.creation_time.get(), ..drawn };
        let now = self.pool.env.wall_clock();
        self.pool.dsl.create_snapshot(tx, head, snapshot, birth, now).await?;
        self.pool.note_event(tx, "finish receiving", Some(head), &format!("snap={snapshot}")).await
    }
}

impl Pool {
    /// All that was received is written: the objset takes part in txgs no more.
    fn leave_place(&self, into: &DatasetName) {
        self.datasets.write().remove(&into.objset());
        self.space.forget(into.objset());
    }
}
