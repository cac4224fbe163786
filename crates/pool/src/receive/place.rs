//! Where a stream is received: a dataset that nobody uses before it is whole.

use std::sync::Arc;

use dmu::{Objset, Tx};
use dsl::features::{
    EMBEDDED_DATA, Feature, LARGE_BLOCKS, LARGE_DNODE, LARGE_MICROZAP, LONGNAME, LZ4_COMPRESS, PROJECT_QUOTA,
    REDACTED_DATASETS, USEROBJ_ACCOUNTING, ZSTD_COMPRESS,
};
use dsl::{DatasetName, DslError, RECEIVING};
use ondisk::objset::ObjsetType;
use ondisk::send::{ResumeState, StreamFeatures, begin_flags, begin_names};
use ondisk::zil::ZilHeader;
use units::ObjectId;
use zerocopy::FromZeros;

use super::{ReceiveOrder, ReceiveRefusal, unsupported};
use crate::create::birth;
use crate::dataset::open::{OpenDataset, State};
use crate::dataset::snapshots::{came_too_early, parts};
use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError, Sealed};

/// See the module.
pub(super) struct Place {
    pub into: DatasetName,
    /// It is the dataset itself, rather than one on its behalf.
    pub is_new: bool,
    pub open: Arc<OpenDataset>,
    /// The dataset is busy as long as this value has references.
    pub receiving: Arc<()>,
    /// Bytes of the stream that were received before.
    pub before_bytes: u64,
}

/// What a stream may have, and the pool's feature that it takes then.
const NEEDED: [(StreamFeatures, &Feature); 8] = [
    (StreamFeatures::REDACTED, &REDACTED_DATASETS),
    (StreamFeatures::LZ4, &LZ4_COMPRESS),
    (StreamFeatures::ZSTD, &ZSTD_COMPRESS),
    (StreamFeatures::EMBED_DATA, &EMBEDDED_DATA),
    (StreamFeatures::LARGE_BLOCKS, &LARGE_BLOCKS),
    (StreamFeatures::LARGE_DNODE, &LARGE_DNODE),
    (StreamFeatures::LARGE_MICROZAP, &LARGE_MICROZAP),
    (StreamFeatures::LONGNAME, &LONGNAME),
];
/// Those that a dataset uses from then on, whatever comes of it: what is sent of it again must tell of them.
const USED: [(StreamFeatures, &Feature); 3] = [
    (StreamFeatures::LARGE_BLOCKS, &LARGE_BLOCKS),
    (StreamFeatures::LARGE_MICROZAP, &LARGE_MICROZAP),
    (StreamFeatures::LONGNAME, &LONGNAME),
];

pub(super) fn refuse<T>(refusal: ReceiveRefusal) -> Result<T, PoolError> {
    Err(PoolError::Receive(refusal))
}

fn is_limit(prop: &str) -> bool {
    ["quota", "reservation", "refquota", "refreservation"].contains(&prop)
}

/// What a place begins with, and whether it is the dataset itself.
struct Beginning {
    name: String,
    is_new: bool,
    source: Option<DatasetName>,
}

impl Pool {
    /// Makes the dataset that a stream is received into.
    pub(super) async fn make_place(self: &Arc<Self>, order: &ReceiveOrder) -> Result<Place, PoolError> {
        let (head, _) = parts(&order.snapshot)?;
        match self.replay_log_of(head).await {
            Ok(()) | Err(PoolError::Dsl(DslError::NoSuchDataset { .. })) => {}
            Err(error) => return Err(error),
        }
        loop {
            let order = order.clone();
            let made = self.in_sync(|pool, tx| async move { pool.place(&tx, &order).await }).await;
            if !came_too_early(&made) {
                return made;
            }
        }
    }

    /// Whether the pool has what a stream may have.
    pub(super) async fn check_features(&self, features: StreamFeatures) -> Result<(), PoolError> {
        for (_, feature) in NEEDED.into_iter().filter(|(wanted, _)| features.has(*wanted)) {
            if !self.is_enabled(feature).await? {
                return Err(PoolError::NeedsFeature { name: feature.name });
            }
        }
        Ok(())
    }

    async fn place(self: &Arc<Self>, tx: &Tx, order: &ReceiveOrder) -> Result<Place, PoolError> {
        let features = order.begin.features();
        self.check_features(features).await?;
        let kind = match ObjsetType::from_raw(order.begin.objset_type.get().into()) {
            Ok(kind @ (ObjsetType::Zfs | ObjsetType::Zvol)) => kind,
            _ => return Err(unsupported("a stream of neither files nor a volume")),
        };
        let redacted_by = order.redact_snaps();
        if redacted_by.is_none() && features.has(StreamFeatures::REDACTED) {
            return refuse(ReceiveRefusal::NotRedactedAlike);
        }
        let resume = match order.resumable {
            true => Some(ResumeState::of(&order.begin).map_err(|_| unsupported("a name that is no text"))?),
            false => None,
        };
        let Beginning { name, is_new, source } = self.beginning(order).await?;
        self.check_task_room(&name, DATASET_BYTES)?;
        self.check_order_props(order, is_new).await?;
        if let Some(source) = &source {
            self.check_redaction(order, source).await?;
        }
        let into = match &source {
            Some(source) => self.dsl.clone_snapshot(tx, source, &name, birth(&self.env)).await?,
            None => self.dsl.create_dataset(tx, &name, birth(&self.env)).await?,
        };
        if is_new && source.is_some() {
            self.dsl.begin_livelist(tx, &into).await?;
        }
        self.dsl.set_inconsistent(tx, into.dataset, true).await?;
        // What it is a clone of may be redacted by others.
        self.dsl.set_redacted(tx, into.dataset, redacted_by).await?;
        if is_new {
            self.dsl.grant_to_maker(tx, &into, order.maker).await?;
        }
        for (prop, value) in order.props.iter().filter(|(prop, _)| is_new || !is_limit(prop)) {
            self.dsl.set_prop(tx, into.dir, prop, value).await?;
        }
        // How blocks are stored is to be known now. What cannot be, and limits, are seen to in the end.
        for (prop, value) in order.received_props.iter().filter(|(prop, _)| is_new && !is_limit(prop)) {
            _ = self.dsl.set_received_prop(tx, &into, prop, value).await;
        }
        for (_, feature) in USED.into_iter().filter(|(used, _)| features.has(*used)) {
            self.dsl.activate_feature(tx, into.dataset, feature).await?;
        }
        if let Some(state) = &resume {
            self.dsl.begin_resumable(tx, into.dataset, state).await?;
        }
        self.note_event(tx, "receive", Some(&into), " ").await?;
        let (open, receiving) = self.open_place(tx, &into, source.is_none().then_some(kind)).await?;
        Ok(Place { into, is_new, open, receiving, before_bytes: 0 })
    }

    /// Checks, before any record of the stream is applied, that the requested properties can be
    /// set: a quota must not be below the space in use, and a reservation must fit in the free
    /// space.
    async fn check_order_props(&self, order: &ReceiveOrder, is_new: bool) -> Result<(), PoolError> {
        let (head, _) = parts(&order.snapshot)?;
        if is_new {
            return self.check_new_props(head, &order.props).await;
        }
        let head = self.dsl.resolve(head).await?;
        self.check_props(&head, &order.props).await
    }

    /// What is to be made, if the stream can be received.
    async fn beginning(&self, order: &ReceiveOrder) -> Result<Beginning, PoolError> {
        let (head, _) = parts(&order.snapshot)?;
        let from = order.begin.fromguid.get();
        let found = match self.dsl.resolve(head).await {
            Ok(found) => found,
            Err(DslError::NoSuchDataset { .. }) => {
                let source = match &order.origin {
                    Some(origin) => Some(self.origin_of(order, origin).await?),
                    None if from == 0 => None,
                    None => return refuse(ReceiveRefusal::NoDestination),
                };
                return Ok(Beginning { name: head.to_owned(), is_new: true, source });
            }
            Err(error) => return Err(error.into()),
        };
        if from == 0 && !order.force {
            return refuse(ReceiveRefusal::Exists);
        }
        if let Some(half) = self.half_received(&found).await? {
            let is_kept = self.dsl.can_be_resumed(half.dataset).await?;
            return refuse(if is_kept { ReceiveRefusal::HasPart } else { ReceiveRefusal::Busy });
        }
        self.check_readable(&found).await?;
        if from == 0 {
            self.check_overwritten(&found).await?;
        }
        if self.dsl.resolve(&order.snapshot).await.is_ok() {
            return Err(DslError::Exists { name: order.snapshot.clone() }.into());
        }
        let source = match from {
            0 => None,
            guid => Some(self.source(&found, guid, order.force).await?),
        };
        let is_whole = order.begin.features().has(StreamFeatures::LARGE_BLOCKS);
        if let Some(source) = &source
            && !is_whole
            && self.dsl.dataset_uses(source, &LARGE_BLOCKS).await?
        {
            return refuse(ReceiveRefusal::NoLargeBlocks);
        }
        Ok(Beginning { name: format!("{head}/{RECEIVING}"), is_new: false, source })
    }

    /// Whether a stream makes good what was left out of the snapshot that it starts from, or leaves out as much.
    async fn check_redaction(&self, order: &ReceiveOrder, source: &DatasetName) -> Result<(), PoolError> {
        let Some(lacking) = self.dsl.redact_snaps(source).await? else { return Ok(()) };
        if order.begin.fromguid.get() == 0 {
            return Ok(());
        }
        let is_subset = |snaps: &[u64]| snaps.iter().all(|snap| lacking.contains(snap));
        let from = order.list.get_u64_array(begin_names::REDACT_FROM_SNAPS);
        let fits = match from.or(order.redact_snaps()) {
            Some(snaps) => is_subset(snaps),
            // One of those by which it was redacted has changed all that is lacking.
            None => lacking.contains(&order.begin.toguid.get()),
        };
        if fits { Ok(()) } else { refuse(ReceiveRefusal::NotRedactedAlike) }
    }

    /// The snapshot that a new dataset is made a clone of. A full stream that tells what is not there, too, may be received on
    /// any.
    async fn origin_of(&self, order: &ReceiveOrder, origin: &str) -> Result<DatasetName, PoolError> {
        let found = self.dsl.resolve(origin).await?;
        if !found.is_snapshot() {
            return refuse(ReceiveRefusal::NoSource);
        }
        let guid = self.dsl.dataset(found.dataset).await?.guid.get();
        let fits = match order.begin.fromguid.get() {
            0 => order.begin.flags.get() & begin_flags::FREERECORDS != 0,
            from => from == guid,
        };
        if fits { Ok(found) } else { refuse(ReceiveRefusal::NoSource) }
    }

    /// What is received into on behalf of a head, or was: it itself, or the hidden one below it.
    pub(super) async fn half_received(&self, head: &DatasetName) -> Result<Option<DatasetName>, PoolError> {
        match self.sealed(&head.name).await? {
            Some(Sealed::HalfReceived) => Ok(Some(head.clone())),
            _ => Ok(self.dsl.receiving_below(head).await?),
        }
    }

    /// Whether a full stream may take the place of a dataset.
    async fn check_overwritten(&self, head: &DatasetName) -> Result<(), PoolError> {
        let dir = self.dsl.dir(head.dir).await?;
        if !self.dsl.snapshots(head).await?.is_empty() {
            return refuse(ReceiveRefusal::HasSnapshots);
        }
        if self.dsl.origin_name(&dir, &self.name()).await?.is_some() {
            return refuse(ReceiveRefusal::IsClone);
        }
        Ok(())
    }

    /// The snapshot that a stream starts from, which nothing has come after unless that may go.
    async fn source(&self, head: &DatasetName, guid: u64, force: bool) -> Result<DatasetName, PoolError> {
        let mut found = None;
        for snapshot in self.dsl.snapshots(head).await? {
            if self.dsl.dataset(snapshot.dataset).await?.guid.get() == guid {
                found = Some(snapshot);
            }
        }
        let Some(source) = found else { return refuse(ReceiveRefusal::NoSource) };
        if !force {
            self.check_unchanged(head, &source).await?;
        }
        let txg = self.dsl.dataset(source.dataset).await?.creation_txg.get();
        self.dsl.check_bookmarks_before(head, txg).await?;
        Ok(source)
    }

    /// Whether a dataset is as a snapshot of it is.
    ///
    /// # Errors
    /// [`ReceiveRefusal::NotLatest`], [`ReceiveRefusal::Modified`].
    pub(super) async fn check_unchanged(
        &self,
        head: &DatasetName,
        since: &DatasetName,
    ) -> Result<(), PoolError> {
        let (now, then) = (self.dsl.dataset(head.dataset).await?, self.dsl.dataset(since.dataset).await?);
        if now.prev_snapshot.get() != since.dataset.get() {
            return refuse(ReceiveRefusal::NotLatest);
        }
        if now.bp.birth().get() <= then.creation_txg.get() {
            return Ok(());
        }
        // The root has the header of the log, too, which is no change of what is in the dataset.
        let mut trees = Vec::new();
        for (of, root) in [(head, now.bp), (since, then.bp)] {
            let props = self.effective_props(of).await?;
            let objset = Objset::open(self.objset_context(of, &props), root).await?;
            trees.push(objset.hold(ObjectId::META_DNODE).await?.synced_image());
        }
        if trees[0] == trees[1] { Ok(()) } else { refuse(ReceiveRefusal::Modified) }
    }

    /// Adds the objset of a new place to the txgs. The dataset is busy as long as the returned
    /// reference exists. `kind` is given if the objset is still empty.
    pub(super) async fn open_place(
        self: &Arc<Self>,
        tx: &Tx,
        into: &DatasetName,
        kind: Option<ObjsetType>,
    ) -> Result<(Arc<OpenDataset>, Arc<()>), PoolError> {
        let props = self.effective_props(into).await?;
        let context = self.objset_context(into, &props);
        let objset = match kind {
            None => Objset::open(context, self.dsl.dataset(into.dataset).await?.bp).await?,
            Some(kind) => Objset::create(context, kind),
        };
        if kind == Some(ObjsetType::Zfs) {
            let (objects, projects) =
                (self.is_enabled(&USEROBJ_ACCOUNTING).await?, self.is_enabled(&PROJECT_QUOTA).await?);
            objset.account_from_birth(objects, projects);
            for (is_used, feature) in [(objects, &USEROBJ_ACCOUNTING), (projects, &PROJECT_QUOTA)] {
                if is_used {
                    self.dsl.activate_feature(tx, into.dataset, feature).await?;
                }
            }
        }
        // A stream must not drive out what is read. (test: `what_is_received_stays_out_of_the_cache`)
        objset.keep_no_data();
        // What a snapshot's header of a log names is not this dataset's; and what is empty gets a root.
        objset.set_zil_header(tx.txg(), ZilHeader::new_zeroed());
        let receiving = Arc::new(());
        let state = State::Receiving(Arc::downgrade(&receiving));
        Ok((self.adopt(into, objset, props, state).await?, receiving))
    }
}
