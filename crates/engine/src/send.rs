//! Sending snapshots as streams.
//!
//! ```text
//!  call ─► plan: which snapshot, told by the difference to which ─► stream::send, one after the other ─► sink
//!     └──► gather: a package's list, and its datasets' streams ──┘
//! ```
//! A snapshot stays open while it is sent, and so cannot be destroyed. If a name belongs to another
//! snapshot than when the plan was made, the send ends with an error.

use crate::gather::Gathering;
use crate::head_sends::HeadSend;
use crate::lineage::{Lineage, Snapshot};
use crate::package::{Package, PackageStream};
use crate::streams::Until;
use crate::{Held, Holder, names, refusal};
use control::{ByteSink, DatasetSend, Failure, FailureKind, SendSize};
use dmu::Objset;
use dsl::features::{
    EMBEDDED_DATA, Feature, LARGE_BLOCKS, LARGE_DNODE, LARGE_MICROZAP, LONGNAME, LZ4_COMPRESS, ZSTD_COMPRESS,
};
use dsl::{DatasetName, DslError};
use ondisk::send::{ResumeState, StreamFeatures};
use pool::PinnedSnapshots;
use std::collections::BTreeSet;
use std::sync::Arc;
use stream::{Compound, Features, Form, Origin, Resume, SendError, SendOrder, Target, TokenError};
use units::{ObjectId, Txg};

/// A snapshot of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its full name.
    pub snapshot: String,
    /// Its full name in the stream.
    pub sent_as: String,
    /// Its guid, if the plan has it.
    pub guid: Option<u64>,
    /// The snapshot or bookmark that the receiver has by then.
    pub from: Option<String>,
    /// The guid of `from`, if the plan has it.
    pub from_guid: Option<u64>,
    /// True if the receiver has `from` in another dataset and creates a clone of it.
    pub is_of_clone: bool,
}

impl Part {
    /// Returns the part for the head of a dataset, with OpenZFS's name of a head in a stream.
    fn of_head(dataset: &str, from: Option<&str>) -> Self {
        Self { sent_as: format!("{dataset}@--head--"), ..Self::of(dataset, from) }
    }

    fn is_head(&self) -> bool {
        !self.snapshot.contains('@')
    }

    /// A snapshot that is sent under its own name.
    fn of(snapshot: &str, from: Option<&str>) -> Self {
        let is_of_clone = from.is_some_and(|from| names::head_of(from) != names::head_of(snapshot));
        Self {
            snapshot: snapshot.to_owned(),
            sent_as: snapshot.to_owned(),
            guid: None,
            from: from.map(str::to_owned),
            from_guid: None,
            is_of_clone,
        }
    }
}

impl From<PackageStream> for Part {
    fn from(stream: PackageStream) -> Self {
        let PackageStream { snapshot, sent_as, guid, from, is_of_clone } = stream;
        let (from, from_guid) = from.unzip();
        Self { snapshot, sent_as, guid: Some(guid), from, from_guid, is_of_clone }
    }
}

/// Everything that a call sends.
#[derive(Default)]
struct SendPlan {
    /// The package list that precedes the streams, if any.
    package: Option<Package>,
    parts: Vec<Part>,
    /// Datasets that do not have the snapshot.
    skipped: Vec<String>,
}

/// Where a stream goes.
pub(super) type Sink = Until<ByteSink>;

impl Holder {
    pub(super) async fn send(&self, call: &DatasetSend, sink: ByteSink) -> Result<(), Failure> {
        let mut sink = self.streams.sink(sink);
        let call = &self.known(call).await?;
        let held = self.pool_of(&call.snapshot)?;
        if call.saved {
            return self.send_saved(&held, call, &mut sink).await;
        }
        let plan = self.planned(&held, call).await?;
        let list = plan.package.as_ref().map(Package::list);
        let parts = plan.parts;
        // Snapshots that are still to be sent are not destroyed while an earlier snapshot is sent.
        let _pins = match call.all || call.replicate {
            true => Some(self.pinned(&held, &parts).await?),
            false => None,
        };
        if !call.all && list.is_none() {
            return self.send_each(&held, call, &parts, &mut sink).await;
        }
        let cut = |_| broken(&call.snapshot);
        let features = StreamFeatures::NONE.with_if(call.holds, StreamFeatures::HOLDS);
        let whole = Compound::begin(sink, &call.snapshot, features, list.as_ref()).await;
        let mut whole = whole.map_err(cut)?;
        self.send_each(&held, call, &parts, whole.sink()).await?;
        whole.end().await.map(drop).map_err(cut)
    }

    pub(super) async fn send_size(&self, call: &DatasetSend) -> Result<Vec<SendSize>, Failure> {
        let call = &self.known(call).await?;
        let held = self.pool_of(&call.snapshot)?;
        if call.saved {
            return self.saved_size(&held, call).await;
        }
        let mut sizes = Vec::new();
        for part in self.planned(&held, call).await?.parts {
            let (order, objset) = self.opened(&held, call, &part).await?;
            let size = stream::size_of(&objset, &order).await;
            let bytes = size.map_err(|error| cannot_send(&part.snapshot, &error))?.stream_bytes();
            sizes.push(SendSize { snapshot: part.snapshot, from: part.from, bytes });
        }
        Ok(sizes)
    }

    /// The snapshots that a stream has, in its order.
    pub(super) async fn sent_snapshots(&self, call: &DatasetSend) -> Result<Vec<String>, Failure> {
        let call = &self.known(call).await?;
        if call.saved {
            return Ok(vec![call.snapshot.clone()]);
        }
        let held = self.pool_of(&call.snapshot)?;
        let parts = self.planned(&held, call).await?.parts;
        Ok(parts.into_iter().map(|part| part.snapshot).collect())
    }

    /// What to send, where a token says it in other words.
    async fn known(&self, call: &DatasetSend) -> Result<DatasetSend, Failure> {
        let Some(token) = &call.token else { return Ok(call.clone()) };
        let state = stream::token_state(token).map_err(|error| bad_token(&error))?;
        let name = state.toname.as_str();
        let gone = |reason: String| {
            Failure::new(FailureKind::NoSuchDataset, format!("cannot resume send: {reason}"))
        };
        let no_longer = || gone(format!("'{name}' used in the initial send no longer exists"));
        let held = self.pool_of(name).map_err(|_| no_longer())?;
        let snapshot = match self.snapshot_near(&held, name, state.toguid).await? {
            Some(snapshot) => snapshot,
            None if held.pool.dsl().resolve(name).await.is_ok() => {
                return Err(gone(format!(
                    "'{name}' is no longer the same snapshot used in the initial send"
                )));
            }
            None => return Err(no_longer()),
        };
        let from = match state.fromguid {
            0 => None,
            guid => {
                let found = self.source_of_guid(&held, &snapshot, guid).await?;
                Some(found.ok_or_else(|| gone(format!("incremental source {guid:#x} no longer exists")))?)
            }
        };
        let form = state.form;
        Ok(DatasetSend {
            snapshot,
            from,
            large_blocks: call.large_blocks || form.large_blocks,
            embedded: call.embedded || form.embedded,
            compressed: call.compressed || form.compressed,
            ..call.clone()
        })
    }

    /// Datasets below that are left out for they have not the snapshot.
    pub(super) async fn send_skipped(&self, call: &DatasetSend) -> Result<Vec<String>, Failure> {
        let call = &self.known(call).await?;
        let held = self.pool_of(&call.snapshot)?;
        Ok(self.planned(&held, call).await?.skipped)
    }

    async fn planned(&self, held: &Held, call: &DatasetSend) -> Result<SendPlan, Failure> {
        let mut plan = self.package(held, call).await?;
        plan.parts = match &plan.package {
            Some(package) if call.replicate => {
                let streams = package.streams(call.all || call.from.is_none());
                let streams =
                    streams.map_err(|error| refuse(FailureKind::Invalid, &call.snapshot, &error.to_string()));
                streams?.into_iter().map(Part::from).collect()
            }
            _ => self.parts(held, call).await?,
        };
        Ok(plan)
    }

    /// Returns a plan for a package, without its streams.
    async fn package(&self, held: &Held, call: &DatasetSend) -> Result<SendPlan, Failure> {
        let has_list = call.replicate || call.props || call.holds || call.backup && !call.all;
        let Some((head, to)) = call.snapshot.split_once('@').filter(|_| has_list) else {
            return Ok(SendPlan::default());
        };
        self.dataset(held, &call.snapshot).await?;
        // Of a single stream it is not said here what it starts from: that may be another dataset's.
        let from = call.from.as_deref().filter(|_| call.replicate || call.all);
        let from = match from {
            Some(from) => self.source_of_all(held, head, from).await?,
            None => None,
        };
        let how = Gathering {
            fromsnap: from.clone(),
            tosnap: Some(to.to_owned()),
            recursive: call.replicate,
            all: call.all,
            props: call.props,
            received: call.backup,
            holds: call.holds,
            skip_missing: call.skip_missing,
            excluded: call.excluded.clone(),
        };
        let gathered = self.gather(held, head, &how).await?;
        let package = Package {
            fromsnap: from,
            tosnap: to.to_owned(),
            recursive: call.replicate,
            raw: call.raw,
            members: gathered.members,
        };
        Ok(SendPlan { package: Some(package), skipped: gathered.skipped, parts: Vec::new() })
    }

    /// What a receiver has of all datasets, by what follows the `@`; none where that is what the first is a clone of.
    async fn source_of_all(&self, held: &Held, head: &str, from: &str) -> Result<Option<String>, Failure> {
        self.dataset(held, from).await?;
        match from.split_once('@') {
            Some((of, snap)) if of == head => Ok(Some(snap.to_owned())),
            _ => Ok(None),
        }
    }

    async fn parts(&self, held: &Held, call: &DatasetSend) -> Result<Vec<Part>, Failure> {
        let marks = match call.from.as_deref().filter(|from| from.contains('#')) {
            Some(from) => self.bookmarks_of(held, names::head_of(from)).await?,
            None => Vec::new(),
        };
        plan(&self.lineage(held).await?, &marks, call)
    }

    async fn send_each(
        &self,
        held: &Held,
        call: &DatasetSend,
        parts: &[Part],
        sink: &mut Sink,
    ) -> Result<(), Failure> {
        for part in parts {
            let _unmounted =
                if part.is_head() { self.begin_head_send(held, &part.snapshot).await? } else { None };
            let (order, objset) = self.opened(held, call, part).await?;
            let sent = stream::send(&objset, &order, &mut *sink).await;
            let sent = sent.map_err(|error| cannot_send(&part.snapshot, &error))?;
            tracing::info!(snapshot = part.snapshot, bytes = sent.stream_bytes(), "sent");
        }
        Ok(())
    }

    /// Makes the head of a dataset ready to be sent: the dataset stays unmounted, and all writes
    /// are in the head on disk. In a pool that is open for reading only, nothing can change, and
    /// the dataset may be mounted.
    async fn begin_head_send(&self, held: &Held, dataset: &str) -> Result<Option<HeadSend>, Failure> {
        if held.pool.is_read_only() {
            return Ok(None);
        }
        let objset = self.dataset(held, dataset).await?.objset();
        let begun = self.mounts.begin_head_send(dataset, objset);
        let begun = begun.ok_or_else(|| refuse(FailureKind::Busy, dataset, "Device or resource busy"))?;
        self.replay_before(held).await;
        held.pool.sync_now().await.map_err(|error| refusal::pool("sync", dataset, &error))?;
        Ok(Some(begun))
    }

    async fn pinned(&self, held: &Held, parts: &[Part]) -> Result<PinnedSnapshots, Failure> {
        let names = parts.iter().flat_map(|part| [Some(&part.snapshot), part.from.as_ref()]).flatten();
        let names: BTreeSet<String> = names.filter(|name| name.contains('@')).cloned().collect();
        let names: Vec<String> = names.into_iter().collect();
        let pinned = held.pool.pin_snapshots(&names).await;
        pinned.map_err(|error| refusal::pool("open", names.first().map_or("", String::as_str), &error))
    }

    /// Opens a snapshot and returns what is sent and how. The snapshot is opened before its
    /// properties are read.
    async fn opened(
        &self,
        held: &Held,
        call: &DatasetSend,
        part: &Part,
    ) -> Result<(SendOrder, Arc<Objset>), Failure> {
        let objset = self.objset(held, &part.snapshot).await?;
        let dataset = self.dataset(held, &part.snapshot).await?;
        let order = self.order(held, call, part, &dataset).await?;
        let is_planned = |planned: Option<u64>, is: Option<u64>| planned.is_none() || planned == is;
        let is_same = dataset.objset() == objset.id()
            && is_planned(part.guid, Some(order.target.guid))
            && is_planned(part.from_guid, order.origin.map(|origin| origin.guid));
        if is_same {
            return Ok((order, objset));
        }
        let reason = "the snapshot was replaced by another one of the same name";
        Err(refuse(FailureKind::Busy, &part.snapshot, reason))
    }

    /// A snapshot's objset: as long as somebody has it, the snapshot stays.
    async fn objset(&self, held: &Held, snapshot: &str) -> Result<Arc<Objset>, Failure> {
        let opened = held.pool.frozen_objset(snapshot).await.map_err(|error| {
            let (kind, reason) = refusal::kind_and_reason(&error);
            refuse(kind, snapshot, &reason)
        })?;
        opened.ok_or_else(|| refuse(FailureKind::Invalid, snapshot, "nothing was ever in it"))
    }

    async fn order(
        &self,
        held: &Held,
        call: &DatasetSend,
        part: &Part,
        dataset: &DatasetName,
    ) -> Result<SendOrder, Failure> {
        let cannot = |error: DslError| refuse(FailureKind::Other, &part.snapshot, &refusal::chain(&error));
        let dsl = held.pool.dsl();
        let phys = dsl.dataset(dataset.dataset).await.map_err(cannot)?;
        let features = features(held, dataset).await.map_err(cannot)?;
        let origin = match &part.from {
            Some(from) => {
                let origin = self.origin(held, &part.snapshot, from).await?;
                Some(Origin { is_of_clone: part.is_of_clone, ..origin })
            }
            None => None,
        };
        let is_before = |origin: &Origin| origin.creation_txg.get() < phys.creation_txg.get();
        // A head is older than its own snapshots.
        if !part.is_head() && !origin.as_ref().is_none_or(is_before) {
            return Err(not_earlier(&part.snapshot));
        }
        let (large_blocks, embedded, compressed) = (call.large_blocks, call.embedded, call.compressed);
        Ok(SendOrder {
            target: Target::of(&part.sent_as, &phys, features),
            origin,
            form: Form { large_blocks, embedded, compressed },
            resume: resume_of(call)?,
            redaction: self.redaction(held, call, part).await?,
            cut_after: None,
        })
    }

    /// What the receiver has.
    pub(super) async fn origin(&self, held: &Held, snapshot: &str, from: &str) -> Result<Origin, Failure> {
        let is_of_clone = names::head_of(from) != names::head_of(snapshot);
        if !from.contains('#') {
            let dataset = self.dataset(held, from).await?.dataset;
            let phys = held.pool.dsl().dataset(dataset).await;
            let phys = phys.map_err(|error| refuse(FailureKind::Other, snapshot, &refusal::chain(&error)))?;
            let creation_txg = Txg::new(phys.creation_txg.get());
            return Ok(Origin { guid: phys.guid.get(), creation_txg, is_of_clone });
        }
        let marks = held.pool.bookmarks(names::head_of(from)).await;
        let marks = marks.map_err(|error| refusal::pool("open", from, &error))?;
        let mark = marks.into_iter().find(|mark| mark.name == from);
        let mark = mark.ok_or_else(|| no_source(snapshot, from))?;
        Ok(Origin { guid: mark.guid, creation_txg: Txg::new(mark.creation_txg), is_of_clone })
    }
}

/// What of the format is in use, as far as streams depend on it.
pub(super) async fn features(held: &Held, dataset: &DatasetName) -> Result<Features, DslError> {
    let dsl = held.pool.dsl();
    let used = async |feature: &Feature| dsl.dataset_uses(dataset, feature).await;
    let active =
        async |feature: &Feature| Ok::<_, DslError>(dsl.feature_count(feature).await?.is_some_and(|n| n > 0));
    Ok(Features {
        large_blocks: used(&LARGE_BLOCKS).await?,
        zstd: used(&ZSTD_COMPRESS).await?,
        large_dnode: used(&LARGE_DNODE).await?,
        longname: used(&LONGNAME).await?,
        large_microzap: used(&LARGE_MICROZAP).await?,
        embedded_data: active(&EMBEDDED_DATA).await?,
        lz4: active(&LZ4_COMPRESS).await?,
    })
}

/// What a stream has, in order; `marks` are the bookmarks of the dataset that it starts from, if it is one of them.
///
/// # Errors
/// When what is sent, or what it starts from, is not there, or the one does not come after the other.
pub fn plan(lineage: &Lineage, marks: &[Snapshot], call: &DatasetSend) -> Result<Vec<Part>, Failure> {
    let name = call.snapshot.as_str();
    let is_head = !name.contains(['@', '#']);
    let part = |from| if is_head { Part::of_head(name, from) } else { Part::of(name, from) };
    // A head is later than all of its snapshots.
    let createtxg = match lineage.snapshot(name) {
        Some(snapshot) => snapshot.createtxg,
        None if is_head => u64::MAX,
        None => return Err(Failure::no_such_dataset(name)),
    };
    let Some(from) = call.from.as_deref() else {
        return Ok(vec![part(None)]);
    };
    let source = match from.contains('#') {
        true => marks.iter().find(|mark| mark.name == from).ok_or_else(|| no_source(name, from))?,
        false => lineage.snapshot(from).ok_or_else(|| Failure::no_such_dataset(from))?,
    };
    let head = names::head_of(name);
    let is_history = lineage.is_history_of(head, names::head_of(from), source.createtxg);
    if !is_history || source.createtxg >= createtxg {
        return Err(not_earlier(name));
    }
    if is_head {
        return Ok(vec![part(Some(from))]);
    }
    let is_between = |other: &&Snapshot| (source.createtxg..createtxg).contains(&other.createtxg);
    let between = lineage.snapshots_of(head).iter().filter(|other| call.all && is_between(other));
    let between = between.map(|other| other.name.as_str()).filter(|other| *other != from);
    let mut parts: Vec<Part> = Vec::new();
    for to in between.chain([name]) {
        let before = parts.last().map_or(from, |last| last.snapshot.as_str());
        let part = Part::of(to, Some(before));
        parts.push(part);
    }
    Ok(parts)
}

/// Where a stream begins that goes on with one.
fn resume_of(call: &DatasetSend) -> Result<Option<Resume>, Failure> {
    let Some(token) = &call.token else { return Ok(None) };
    let ResumeState { point, .. } = stream::token_state(token).map_err(|error| bad_token(&error))?;
    Ok(Some(Resume { object: ObjectId::new(point.object), offset: point.offset }))
}

fn bad_token(error: &TokenError) -> Failure {
    Failure::new(FailureKind::Invalid, format!("cannot resume send: {error}"))
}

/// `warning: cannot send 'SNAPSHOT': REASON`
pub(super) fn refuse(kind: FailureKind, snapshot: &str, reason: &str) -> Failure {
    Failure::new(kind, format!("warning: cannot send '{snapshot}': {reason}"))
}

fn not_earlier(snapshot: &str) -> Failure {
    refuse(FailureKind::Invalid, snapshot, "not an earlier snapshot from the same fs")
}

pub(super) fn no_source(snapshot: &str, from: &str) -> Failure {
    refuse(FailureKind::NoSuchDataset, snapshot, &format!("incremental source ({from}) does not exist"))
}

/// Nobody reads any more.
fn broken(snapshot: &str) -> Failure {
    refuse(FailureKind::Other, snapshot, "Broken pipe")
}

pub(super) fn cannot_send(snapshot: &str, error: &SendError) -> Failure {
    match error {
        SendError::Sink { .. } => broken(snapshot),
        SendError::LargeMicrozap { .. } => {
            let reason = "source snapshot contains large microzaps, need -L (--large-block) or -w (--raw) to \
                          generate stream";
            refuse(FailureKind::Invalid, snapshot, reason)
        }
        SendError::Unsupported { what, .. } => {
            refuse(FailureKind::Unsupported, snapshot, &format!("sending {what} is not supported yet"))
        }
        SendError::Block { .. }
        | SendError::Object { .. }
        | SendError::Damaged { .. }
        | SendError::Master { .. }
        | SendError::MasterZap { .. } => refuse(FailureKind::Other, snapshot, &refusal::chain(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// p/a with @1 to @3 and a bookmark of each of the first two, p/c a clone of p/a@2 with @4.
    fn planned(snapshot: &str, from: Option<&str>, all: bool) -> Result<Vec<(String, String)>, String> {
        let mut family = Lineage::default();
        ["p", "p/a"].iter().for_each(|name| family.add_head(name, None));
        family.add_head("p/c", Some("p/a@2"));
        (1..=3).for_each(|number| family.add_snapshot(&format!("p/a@{number}"), number));
        family.add_snapshot("p/c@4", 4);
        let marks = [1, 2].map(|number| Snapshot { name: format!("p/a#{number}"), createtxg: number });
        let call = DatasetSend {
            snapshot: snapshot.to_owned(),
            from: from.map(str::to_owned),
            all,
            ..DatasetSend::default()
        };
        let parts = plan(&family, &marks, &call).map_err(|failure| failure.stderr.join("\n"))?;
        Ok(parts.into_iter().map(|part| (part.snapshot, part.from.unwrap_or_default())).collect())
    }

    fn parts(parts: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        Ok(parts.iter().map(|(to, from)| ((*to).to_owned(), (*from).to_owned())).collect())
    }

    #[test]
    fn snapshots_are_told_by_the_difference_to_what_comes_before() {
        assert_eq!(planned("p/a@2", None, false), parts(&[("p/a@2", "")]));
        assert_eq!(planned("p/a@3", Some("p/a@1"), false), parts(&[("p/a@3", "p/a@1")]));
        assert_eq!(planned("p/a@3", Some("p/a#1"), false), parts(&[("p/a@3", "p/a#1")]));
        assert_eq!(planned("p/c@4", Some("p/a@1"), false), parts(&[("p/c@4", "p/a@1")]));
        assert_eq!(planned("p/a@3", Some("p/a@1"), true), parts(&[("p/a@2", "p/a@1"), ("p/a@3", "p/a@2")]));
        assert_eq!(planned("p/c@4", Some("p/a@2"), true), parts(&[("p/c@4", "p/a@2")]));
        assert_eq!(planned("p/a", None, false), parts(&[("p/a", "")]));
        assert_eq!(planned("p/a", Some("p/a@3"), false), parts(&[("p/a", "p/a@3")]));
        assert_eq!(planned("p/c", Some("p/a#2"), false), parts(&[("p/c", "p/a#2")]));
    }

    #[test]
    fn only_what_came_before_can_be_started_from() {
        let later =
            |name| Err(format!("warning: cannot send '{name}': not an earlier snapshot from the same fs"));
        for from in ["p/a@1", "p/a@2", "p/c@4", "p/a#1"] {
            assert_eq!(planned("p/a@1", Some(from), false), later("p/a@1"), "{from}");
        }
        assert_eq!(planned("p/c@4", Some("p/a@3"), false), later("p/c@4"));
        assert_eq!(planned("p/c", Some("p/a@3"), false), later("p/c"), "of later than the origin");
        assert_eq!(planned("p/a@9", None, false), Err("cannot open 'p/a@9': dataset does not exist".into()));
        assert_eq!(
            planned("p/a@2", Some("p/a@9"), false),
            Err("cannot open 'p/a@9': dataset does not exist".into())
        );
        assert_eq!(
            planned("p/a@3", Some("p/a#3"), false),
            Err("warning: cannot send 'p/a@3': incremental source (p/a#3) does not exist".into())
        );
    }
}
