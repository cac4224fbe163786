//! Resumes an interrupted stream, at the end of the part that was kept or before it.

use std::sync::Arc;

use dmu::Tx;
use dsl::DatasetName;
use dsl::features::LARGE_BLOCKS;
use env::boxed;
use ondisk::send::{ResumeState, StreamFeatures, begin_names};

use super::place::{Place, refuse};
use super::{ReceiveOrder, ReceiveRefusal};
use crate::dataset::snapshots::parts;
use crate::{Pool, PoolError, Sealed};

impl Pool {
    /// The dataset that the first part of a stream was received into.
    pub(super) async fn place_of_part(self: &Arc<Self>, order: &ReceiveOrder) -> Result<Place, PoolError> {
        let order = order.clone();
        self.in_sync(|pool, tx| async move { pool.find_part(&tx, &order).await }).await
    }

    async fn find_part(self: &Arc<Self>, tx: &Tx, order: &ReceiveOrder) -> Result<Place, PoolError> {
        let features = order.begin.features();
        self.check_features(features).await?;
        let (head, _) = parts(&order.snapshot)?;
        let head = match self.dsl.resolve(head).await {
            Err(dsl::DslError::NoSuchDataset { .. }) => return refuse(ReceiveRefusal::NoDestination),
            found => found?,
        };
        let is_new = self.sealed(&head.name).await? == Some(Sealed::HalfReceived);
        if !is_new && order.begin.fromguid.get() == 0 && !order.force {
            return refuse(ReceiveRefusal::ResumesExisting);
        }
        let Some(into) = self.half_received(&head).await? else {
            return refuse(ReceiveRefusal::NothingToResume);
        };
        let state = self.part_for(order, &into).await?;
        if self.datasets.read().contains_key(&into.objset()) {
            return refuse(ReceiveRefusal::Busy);
        }
        self.check_props(&head, &order.props).await?;
        for (prop, value) in order.props.iter().filter(|_| is_new) {
            self.dsl.set_prop(tx, into.dir, prop, value).await?;
        }
        self.note_event(tx, "resume receive", Some(&into), " ").await?;
        let (open, receiving) = self.open_place(tx, &into, None).await?;
        Ok(Place { into, is_new, open, receiving, before_bytes: state.point.bytes })
    }

    /// What was kept, if it ends where the stream goes on.
    async fn part_for(&self, order: &ReceiveOrder, into: &DatasetName) -> Result<ResumeState, PoolError> {
        let (begin, features) = (&order.begin, order.begin.features());
        let Some(state) = self.dsl.resume_state(into.dataset).await? else {
            return refuse(ReceiveRefusal::NothingToResume);
        };
        let number = |name| order.list.get_u64(name);
        let (object, offset) = (number(begin_names::RESUME_OBJECT), number(begin_names::RESUME_OFFSET));
        // A token that was read before the interruption names an earlier position. The records
        // after that position arrive a second time, with the same contents.
        let goes_on =
            object.zip(offset).is_some_and(|begins| begins <= (state.point.object, state.point.offset));
        let is_same = (state.toguid, state.fromguid) == (begin.toguid.get(), begin.fromguid.get());
        let has_root = !self.dsl.dataset(into.dataset).await?.bp.is_hole();
        if !goes_on || !is_same || !has_root || !self.dsl.snapshots(into).await?.is_empty() {
            return refuse(ReceiveRefusal::NothingToResume);
        }
        if !features.has(StreamFeatures::LARGE_BLOCKS) && self.dsl.dataset_uses(into, &LARGE_BLOCKS).await? {
            return refuse(ReceiveRefusal::NoLargeBlocks);
        }
        Ok(state)
    }

    /// Gives up what was kept of a stream for a dataset: its name is the dataset's.
    ///
    /// # Errors
    /// [`ReceiveRefusal::NothingToResume`], [`ReceiveRefusal::Busy`] while it is being received; those of destroying.
    #[boxed]
    pub async fn abort_receive(self: &Arc<Self>, name: &str) -> Result<(), PoolError> {
        let head = self.dsl.resolve(name).await?;
        let Some(half) = self.half_received(&head).await? else {
            return refuse(ReceiveRefusal::NothingToResume);
        };
        if half == head && !self.dsl.can_be_resumed(half.dataset).await? {
            return refuse(ReceiveRefusal::NothingToResume);
        }
        if self.datasets.read().contains_key(&half.objset()) {
            return refuse(ReceiveRefusal::Busy);
        }
        self.destroy_filesystem(&half.name).await
    }

    /// What is kept of a stream that was received into a head in part: the dataset that has it, the head itself or a hidden
    /// one below it, and what is known of the stream.
    ///
    /// # Errors
    /// Those of reading the meta-objset.
    #[boxed]
    pub async fn saved_part(
        &self,
        head: &DatasetName,
    ) -> Result<Option<(DatasetName, ResumeState)>, PoolError> {
        if let Some(state) = self.dsl.resume_state(head.dataset).await? {
            return Ok(Some((head.clone(), state)));
        }
        let Some(below) = self.dsl.receiving_below(head).await? else { return Ok(None) };
        Ok(self.dsl.resume_state(below.dataset).await?.map(|state| (below, state)))
    }

    /// What was kept of a stream for a dataset, if anything was.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn resume_state(&self, head: &DatasetName) -> Result<Option<ResumeState>, PoolError> {
        Ok(self.saved_part(head).await?.map(|(_, state)| state))
    }
}
