//! Receiving streams of snapshots.
//!
//! ```text
//!  BEGIN ─► whose it is ─► pool's turn: place made ─► records, in nobody's turn ─► pool's turn: unmount, finish, mount
//! ```
//! A stream may come for hours: others change the pool meanwhile, and what they do to the dataset is found out at the end.

mod carried;
mod receiver;
mod words;

use crate::align::Followed;
use crate::create::dataset_props;
use crate::front::UnmountReach;
use crate::package::Package;
use crate::props::{Occasion, dataset_prop};
use crate::taken::MountPlaces;
use crate::{Held, Holder, names, refusal, volumes};
use carried::Carried;
use control::{
    ByteSource, DatasetKind, DatasetReceive, DatasetReceiveAbort, Failure, FailureKind, ReceiveNaming,
    ReceivedSnapshot,
};
use ondisk::NvList;
use ondisk::objset::ObjsetType;
use ondisk::send::{DrrBegin, DrrBody, HeaderType, RECORD_BYTES, StreamFeatures, begin_flags};
use pool::{PoolError, ReceiveOrder, ReceiveRefusal, Received};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use stream::{ReadError, ReceiveError, StreamRecord};
use words::{bad_list, is_resumed, no_stream, prefix, refused};

/// Set by `-o`, it is no property, but the snapshot that the new dataset is to be a clone of.
const ORIGIN: &str = "origin";

/// If the command of a stream has died, its received part is kept within a sync or two. A stream
/// that continues it waits up to this long.
const KEEPING_MAX: Duration = Duration::from_secs(10);
/// How often the wait checks for that.
const KEEPING_LOOK: Duration = Duration::from_millis(20);

type Reader = stream::Reader<ByteSource>;

/// What the streams of a package are parts of.
#[derive(Default)]
struct Whole {
    package: Option<Package>,
    /// Full name of the topmost dataset at the sender's.
    sendfs: Option<String>,
    has_holds: bool,
    /// The guids of the snapshots whose streams were received.
    came: BTreeSet<u64>,
}

impl Whole {
    /// Returns the package that the local tree is aligned with. A single stream has none.
    fn followed(&self) -> Option<Followed<'_>> {
        let package = self.package.as_ref().filter(|package| package.recursive)?;
        Some(Followed { package, sendfs: self.sendfs.as_deref()?, came: &self.came })
    }
}

/// When a tree is aligned with a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    After,
}

impl Holder {
    pub(super) async fn receive(
        &self,
        call: &DatasetReceive,
        source: ByteSource,
    ) -> Result<Vec<ReceivedSnapshot>, Failure> {
        let held = self.pool_of_target(&call.target)?;
        if call.naming != ReceiveNaming::Target && !call.target.contains('@') {
            held.pool.dsl().resolve(&call.target).await.map_err(|_| no_target(&call.target))?;
        }
        let mut reader = Reader::new(self.streams.source(source));
        let mut received = Vec::new();
        let mut whole = Whole::default();
        while let Some(record) = reader.next_record().await.map_err(|error| no_stream(&error))? {
            let StreamRecord { offset, record, payload } = record;
            let DrrBody::Begin(begin) = record.body else { continue };
            if begin.header_type() == Ok(HeaderType::Compound) {
                whole = begin_package(call, &begin, &payload)?;
                self.align_with(&held, call, &whole, Moment::Before).await?;
            } else {
                let list = match payload.is_empty() {
                    true => NvList::new(),
                    false => NvList::decode(&payload).map_err(|_| bad_list())?,
                };
                let start = Start { begin, offset, list };
                received.push(self.receive_one(&held, call, &whole, start, &mut reader).await?);
                whole.came.insert(begin.toguid.get());
            }
        }
        // Datasets that came may be those that others belong below.
        self.align_with(&held, call, &whole, Moment::After).await?;
        Ok(received)
    }

    /// Aligns the local tree with a package. Before the streams of a full package, the local
    /// datasets are unknown.
    async fn align_with(
        &self,
        held: &Held,
        call: &DatasetReceive,
        whole: &Whole,
        moment: Moment,
    ) -> Result<(), Failure> {
        let Some(followed) = whole.followed().filter(|_| !call.dry_run) else { return Ok(()) };
        let top = format!("{}@{}", followed.sendfs, followed.package.tosnap);
        let top = destination(call, &top, Some(followed.sendfs))
            .map_err(|reason| Failure::new(FailureKind::Invalid, format!("cannot receive: {reason}")))?;
        let may = self.may_align(call, names::head_of(&top)).await?;
        match moment {
            Moment::Before if may && followed.package.fromsnap.is_some() => {
                self.align(held, call, &followed).await
            }
            Moment::After if may => self.align_at_last(held, call, &followed).await,
            // What comes will be refused.
            _ => Ok(()),
        }
    }

    fn pool_of_target(&self, target: &str) -> Result<Arc<Held>, Failure> {
        let head = names::head_of(target);
        let checked = match target.contains('@') {
            true => names::check_snapshot(target),
            false => names::check_dataset(head),
        };
        let refuse = |kind, reason: &str| Failure::new(kind, format!("cannot receive: {reason}"));
        checked.map_err(|error| refuse(FailureKind::Invalid, &error.to_string()))?;
        self.pool_of(head).map_err(|_| no_target(head))
    }

    /// Receives a snapshot, whose BEGIN was read.
    async fn receive_one(
        &self,
        held: &Held,
        call: &DatasetReceive,
        whole: &Whole,
        start: Start,
        reader: &mut Reader,
    ) -> Result<ReceivedSnapshot, Failure> {
        let begin = start.begin;
        let is_incremental = begin.fromguid.get() != 0;
        let prefix = prefix(&begin);
        let sent_as = begin.name().map_err(|_| {
            Failure::new(FailureKind::Invalid, "cannot receive: invalid stream (bad snapshot name)")
        })?;
        let sent_as = sent_as.to_owned();
        let mut snapshot = destination(call, &sent_as, whole.sendfs.as_deref())
            .map_err(|reason| Failure::new(FailureKind::Invalid, format!("{prefix}: {reason}")))?;
        // The reader is one record ahead.
        let (begun, first) = (self.env.now(), start.offset.saturating_add(RECORD_BYTES as u64));
        let sent_head = names::head_of(&sent_as);
        let is_top = whole.sendfs.as_deref().is_none_or(|sendfs| sendfs == sent_head);
        if is_incremental && (!is_top || call.naming != ReceiveNaming::Target) {
            snapshot = self.wherever_it_is(held, &begin, snapshot).await?;
        }
        let is_new = wants_new(call, &begin);
        if let Some(followed) = whole.followed().filter(|_| is_new && !call.dry_run) {
            snapshot = self.below_its_parent(held, &followed, sent_head, snapshot).await?;
            let head = names::head_of(&snapshot);
            let is_there = held.pool.dsl().resolve(head).await.is_ok();
            if call.force && (is_there || followed.package.fromsnap.is_some()) {
                self.make_room(held, call, &followed, (head, sent_head, begin.fromguid.get())).await?;
            }
        }
        // A package may be received again where it was received before. A single stream of
        // something new needs an unused name.
        let is_known = (whole.followed().is_some() || !is_new)
            && !call.heal
            && self.has_snapshot(held, names::head_of(&snapshot), begin.toguid.get()).await?;
        let mut warnings = Vec::new();
        if call.heal {
            self.check_receiver(call, &begin, &snapshot).await?;
            self.heal(held, call, &begin, &snapshot, reader).await?;
        } else if call.dry_run || is_known {
            skip(reader).await.map_err(|error| no_stream(&error))?;
        } else {
            self.check_receiver(call, &begin, &snapshot).await?;
            let head = names::head_of(&snapshot);
            // The stream of a clone continues a dataset that has taken over the clone's origin.
            let continues = whole.followed().is_some()
                && begin.fromguid.get() != 0
                && self.has_snapshot(held, head, begin.fromguid.get()).await?;
            let mut carried = Carried::of(whole, sent_head, begin.toguid.get(), call, is_top);
            let mut call = call.clone();
            warnings = self.leave_out_denied(held, &mut call, &mut carried, &snapshot).await?;
            self.check_received_new(held, (&call, &carried, is_top), &begin, &snapshot).await?;
            let order = self.order_of(held, &call, start, &snapshot, (&carried, is_top, continues)).await?;
            warnings.extend(self.receive_order(held, &call, order, carried, reader).await?);
        }
        let millis = u64::try_from(self.env.now().saturating_sub(begun).as_millis()).unwrap_or(u64::MAX);
        let bytes = reader.offset().saturating_sub(first);
        tracing::info!(snapshot, bytes, millis, "received");
        Ok(ReceivedSnapshot { sent_as, snapshot, is_incremental, bytes, millis, is_known, warnings })
    }

    /// Puts right what is damaged of a snapshot.
    async fn heal(
        &self,
        held: &Held,
        call: &DatasetReceive,
        begin: &DrrBegin,
        snapshot: &str,
        reader: &mut Reader,
    ) -> Result<(), Failure> {
        let cannot = |kind, reason: &str| Failure::new(kind, format!("{}: {reason}", prefix(begin)));
        let Ok(dataset) = held.pool.dsl().resolve(snapshot).await else {
            let reason = "corrective recv must specify an existing snapshot to heal";
            return Err(cannot(FailureKind::NoSuchDataset, reason));
        };
        let there = held.pool.dsl().dataset(dataset.dataset).await;
        let there = there.map_err(|error| crate::datasets::cannot_open(snapshot, error))?;
        if there.guid != begin.toguid {
            return Err(cannot(FailureKind::Invalid, &ReceiveRefusal::NotThatSnapshot.to_string()));
        }
        if call.dry_run {
            return skip(reader).await.map_err(|error| no_stream(&error));
        }
        let healed = held.pool.heal_snapshot(begin, snapshot, reader).await;
        let healed = healed.map_err(|error| refused(snapshot, begin, "", &error))?;
        tracing::info!(snapshot, blocks = healed, "put right");
        Ok(())
    }

    /// The name that a snapshot gets whose dataset has another name here than it would have: it is known by the snapshot that
    /// the stream starts from.
    async fn wherever_it_is(
        &self,
        held: &Held,
        begin: &DrrBegin,
        snapshot: String,
    ) -> Result<String, Failure> {
        let (head, last) = snapshot.split_once('@').unwrap_or((&snapshot, ""));
        let is_clone = begin.flags.get() & begin_flags::CLONE != 0;
        if is_clone || is_resumed(begin) || held.pool.dsl().resolve(head).await.is_ok() {
            return Ok(snapshot);
        }
        match self.snapshot_near(held, head, begin.fromguid.get()).await? {
            Some(from) => Ok(format!("{}@{last}", names::head_of(&from))),
            None => Ok(snapshot),
        }
    }

    /// Returns the name of a new dataset whose parent has another name here. The parent is found by
    /// its snapshots, and is later moved together with the new dataset.
    async fn below_its_parent(
        &self,
        held: &Held,
        followed: &Followed<'_>,
        sent_head: &str,
        snapshot: String,
    ) -> Result<String, Failure> {
        let (head, snap) = snapshot.split_once('@').unwrap_or((&snapshot, ""));
        let Some((parent, last)) = head.rsplit_once('/') else { return Ok(snapshot) };
        if held.pool.dsl().resolve(parent).await.is_ok() {
            return Ok(snapshot);
        }
        let member = followed.package.members.iter().find(|member| member.name == sent_head);
        match self.snapshot_near(held, parent, member.map_or(0, |member| member.parent_from)).await? {
            Some(found) => Ok(format!("{}/{last}@{snap}", names::head_of(&found))),
            None => Ok(snapshot),
        }
    }

    async fn has_snapshot(&self, held: &Held, head: &str, guid: u64) -> Result<bool, Failure> {
        let dsl = held.pool.dsl();
        let Ok(head) = dsl.resolve(head).await else { return Ok(false) };
        let cannot = |error| crate::datasets::cannot_open(&head.name, error);
        for snapshot in dsl.snapshots(&head).await.map_err(cannot)? {
            if dsl.dataset(snapshot.dataset).await.map_err(cannot)?.guid.get() == guid {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn order_of(
        &self,
        held: &Held,
        call: &DatasetReceive,
        start: Start,
        snapshot: &str,
        (carried, is_top, continues): (&Carried, bool, bool),
    ) -> Result<ReceiveOrder, Failure> {
        let Start { begin, offset: begin_offset, list } = start;
        let prefix = prefix(&begin);
        let cannot = |reason: &str| Failure::new(FailureKind::Invalid, format!("{prefix}: {reason}"));
        let kind = kind_of(&begin);
        let mut props = self.props_for(call, kind, is_top, &cannot)?;
        volumes::check_copied(&props).map_err(|reason| cannot(&reason))?;
        let head = names::head_of(snapshot);
        if call.maker.is_some() && kind == DatasetKind::Filesystem {
            self.distrust_files(held, head, &mut props).await?;
        }
        let is_there = held.pool.dsl().resolve(head).await.is_ok();
        let is_clone = begin.flags.get() & begin_flags::CLONE != 0;
        let asked = call.props.iter().find(|(name, _)| name == ORIGIN).map(|(_, origin)| origin.clone());
        let origin = match (is_there, asked) {
            (true, asked) if !is_resumed(&begin) && !continues && (is_clone || asked.is_some()) => {
                return Err(self.exists(held, call, &begin, snapshot).await);
            }
            (false, Some(origin)) => {
                self.dataset(held, &origin).await?;
                Some(origin)
            }
            (false, None) if is_clone => Some(
                self.snapshot_near(held, head, begin.fromguid.get())
                    .await?
                    .ok_or_else(|| cannot(&format!("local origin for clone {snapshot} does not exist")))?,
            ),
            _ => None,
        };
        if let Some(origin) = &origin {
            self.check_origin(call, &begin, origin).await?;
        }
        if !is_there && !is_resumed(&begin) {
            self.see_to_parent(held, call, head, &cannot).await?;
        }
        let (snapshot, force, resumable) = (snapshot.to_owned(), call.force, call.resumable);
        let is_taken = |name: &String| !carried.inherited.contains(name);
        let received = carried.props.iter().flatten().filter(|(name, _)| is_taken(name));
        let received_props = received.cloned().collect();
        Ok(ReceiveOrder {
            begin,
            begin_offset,
            snapshot,
            origin,
            props,
            received_props,
            force,
            resumable,
            maker: call.maker.as_ref().map_or(self.host().uid, |maker| maker.uid),
            list,
        })
    }

    /// Returns the error for a clone whose name is taken by a dataset that not even force replaces.
    async fn exists(&self, held: &Held, call: &DatasetReceive, begin: &DrrBegin, snapshot: &str) -> Failure {
        let eg = self.a_snapshot_of(held, names::head_of(snapshot)).await;
        let refusal = match (call.force, eg.is_empty()) {
            (false, _) => ReceiveRefusal::Exists,
            (true, false) => ReceiveRefusal::HasSnapshots,
            (true, true) => ReceiveRefusal::IsClone,
        };
        // The error names the stream a full stream, because it would create a new dataset.
        refused(snapshot, &DrrBegin { fromguid: 0.into(), ..*begin }, &eg, &refusal.into())
    }

    /// What is to be set on a dataset. Of those below the topmost, what they do not inherit from it and can have.
    fn props_for(
        &self,
        call: &DatasetReceive,
        kind: DatasetKind,
        is_top: bool,
        cannot: &dyn Fn(&str) -> Failure,
    ) -> Result<Vec<(String, dsl::PropValue)>, Failure> {
        let is_own = |name: &str| {
            let def = dataset_prop(name);
            def.is_some_and(|def| def.access != crate::props::Access::Inherit && def.applies.to(kind))
        };
        let props = call.props.iter().filter(|(name, _)| name != ORIGIN && (is_top || is_own(name)));
        let props = props.cloned().collect::<Vec<_>>();
        dataset_props(&props, kind, Occasion::Later, cannot)
    }

    /// What a new dataset lies below is there, or is made where the name below the target is the sender's.
    async fn see_to_parent(
        &self,
        held: &Held,
        call: &DatasetReceive,
        head: &str,
        cannot: &impl Fn(&str) -> Failure,
    ) -> Result<(), Failure> {
        let Some(parent) = names::parent_of(head) else { return Ok(()) };
        if held.pool.dsl().resolve(parent).await.is_ok() {
            return Ok(());
        }
        if call.naming != ReceiveNaming::AllButPool {
            return Err(cannot(&format!("destination '{parent}' does not exist")));
        }
        let _turn = self.turns.of(&held.pool.name(), "receive").await;
        self.create_parents(held, parent, call.maker.as_ref()).await
    }

    /// Receives a stream. A stream that continues an interrupted one waits until the received part
    /// is kept, because the command of the earlier stream may have died only a moment ago.
    async fn received_once_left(
        &self,
        held: &Held,
        order: &ReceiveOrder,
        reader: &mut Reader,
    ) -> Result<Received, PoolError> {
        let mut waited = Duration::ZERO;
        loop {
            match held.pool.receive(order.clone(), reader).await {
                Err(PoolError::Receive(ReceiveRefusal::Busy))
                    if is_resumed(&order.begin) && waited < KEEPING_MAX =>
                {
                    self.env.sleep(KEEPING_LOOK).await;
                    waited += KEEPING_LOOK;
                }
                done => return done,
            }
        }
    }

    async fn receive_order(
        &self,
        held: &Held,
        call: &DatasetReceive,
        order: ReceiveOrder,
        carried: Carried,
        reader: &mut Reader,
    ) -> Result<Vec<String>, Failure> {
        let (begin, resumable) = (order.begin, order.resumable);
        let snapshot = order.snapshot.clone();
        let head = names::head_of(&snapshot);
        let props = order.props.clone();
        let cannot = async |error: PoolError| {
            let eg = match error {
                PoolError::Receive(ReceiveRefusal::HasSnapshots) => self.a_snapshot_of(held, head).await,
                _ => String::new(),
            };
            let failure = refused(&snapshot, &begin, &eg, &error);
            if resumable { self.with_token(held, head, &error, failure).await } else { failure }
        };
        let received = match self.received_once_left(held, &order, reader).await {
            Ok(received) => received,
            Err(error) => return Err(cannot(error).await),
        };
        let _turn = self.turns.of(&held.pool.name(), "receive").await;
        let is_new = received.is_new();
        let before = if is_new { None } else { self.session_terms(held, head).await };
        let suspended = match self.suspend(head).await {
            Ok(suspended) => suspended,
            Err(in_use) => {
                received.give_up().await;
                return Err(in_use);
            }
        };
        let those = if suspended.is_some() { Vec::new() } else { self.mounted_under(head) };
        let taken = match self.take(&those, UnmountReach::for_change(call.force || call.force_unmount)).await
        {
            Ok(taken) => taken,
            Err(in_use) => {
                received.give_up().await;
                return Err(in_use);
            }
        };
        let mut finished = match received.finish().await {
            Ok(()) => Ok(()),
            Err(error) => Err(cannot(error).await),
        };
        if let Some(suspended) = suspended {
            finished = finished.and(self.resume(held, head, suspended).await);
        }
        if let Err(failure) = finished {
            return Err(self.put_back_after(&taken, failure).await);
        }
        if !is_new && !props.is_empty() {
            let set = held.pool.set_props(head, props).await;
            set.map_err(|error| refusal::pool("set property for", head, &error))?;
        }
        let mut warnings = self.take_over(held, &snapshot, head, carried).await;
        self.put_back_what_is_there(held, &taken).await?;
        // The stream was received, whether or not the dataset can be mounted.
        let places = if call.maker.is_some() { MountPlaces::Former } else { MountPlaces::Present };
        if let Err(failure) = self.follow_terms(held, head, before, places).await {
            warnings.extend(failure.stderr);
        }
        if is_new && !call.no_mount {
            match call.maker {
                Some(_) => self.refuse_mount(held, head).await?,
                None => self.mount_received(held, head).await?,
            }
        }
        Ok(warnings)
    }

    /// The failure of a stream that broke off, with how to go on where something of it was kept.
    async fn with_token(&self, held: &Held, head: &str, error: &PoolError, failure: Failure) -> Failure {
        let PoolError::Stream(broken) = error else { return failure };
        let broke_off = matches!(
            **broken,
            ReceiveError::Read(
                ReadError::Checksum { .. } | ReadError::Truncated { .. } | ReadError::Io { .. }
            )
        );
        let Ok(head) = held.pool.dsl().resolve(head).await else { return failure };
        let (Some(first), true) = (failure.stderr.first(), broke_off) else { return failure };
        let Ok(Some(state)) = held.pool.resume_state(&head).await else { return failure };
        let prefix = first.split(": ").next().unwrap_or_default();
        Failure::new(failure.kind, format!("{prefix}: checksum mismatch or incomplete stream."))
            .and("Partially received snapshot is saved.")
            .and("A resuming stream can be generated on the sending system by running:")
            .and(format!("    zfs send -t {}", stream::token(&state)))
    }

    /// Gives up what was received in part.
    pub(super) async fn abort_receive(&self, call: DatasetReceiveAbort) -> Result<(), Failure> {
        let name = call.name.as_str();
        let held = self.pool_of(name)?;
        self.dataset(&held, name).await?;
        held.pool.abort_receive(name).await.map_err(|error| match error {
            PoolError::Receive(ReceiveRefusal::NothingToResume) => {
                let line = format!("'{name}' does not have any resumable receive state to abort");
                Failure::new(FailureKind::Invalid, line)
            }
            PoolError::Receive(ReceiveRefusal::Busy) => {
                Failure::cannot(FailureKind::Busy, "destroy", name, "dataset is busy")
            }
            error => refusal::pool("destroy", name, &error),
        })
    }

    /// Mounts what is new, if it has files.
    async fn mount_received(&self, held: &Held, head: &str) -> Result<(), Failure> {
        match self.nature_of(held, head).await.kind {
            DatasetKind::Filesystem => self.mount_along(held, head).await,
            _ => Ok(()),
        }
    }

    async fn a_snapshot_of(&self, held: &Held, head: &str) -> String {
        let dsl = held.pool.dsl();
        let Ok(head) = dsl.resolve(head).await else { return String::new() };
        dsl.snapshots(&head)
            .await
            .ok()
            .and_then(|all| all.into_iter().next())
            .map_or_else(String::new, |s| s.name)
    }
}

fn no_target(head: &str) -> Failure {
    let line = format!("cannot receive: specified fs ({head}) does not exist");
    Failure::new(FailureKind::NoSuchPool, line)
}

/// The kind of the dataset in a stream.
fn kind_of(begin: &DrrBegin) -> DatasetKind {
    match begin.objset_type.get() == ObjsetType::Zvol.raw() as u32 {
        true => DatasetKind::Volume,
        false => DatasetKind::Filesystem,
    }
}

/// True if a stream creates a new dataset.
fn wants_new(call: &DatasetReceive, begin: &DrrBegin) -> bool {
    let is_clone = begin.flags.get() & begin_flags::CLONE != 0;
    let has_origin = call.props.iter().any(|(name, _)| name == ORIGIN);
    !is_resumed(begin) && (begin.fromguid.get() == 0 || is_clone || has_origin)
}

/// Reads up to the END.
async fn skip(reader: &mut Reader) -> Result<(), ReadError> {
    while let Some(record) = reader.next_record().await? {
        if matches!(record.record.body, DrrBody::End(_)) {
            break;
        }
    }
    Ok(())
}

/// What the BEGIN of several streams says.
fn begin_package(call: &DatasetReceive, begin: &DrrBegin, list: &[u8]) -> Result<Whole, Failure> {
    let package = match list.is_empty() {
        true => None,
        false => {
            let list = NvList::decode(list).map_err(|_| bad_list())?;
            Some(Package::of(&list).map_err(|_| bad_list())?)
        }
    };
    if call.target.contains('@') && package.as_ref().is_none_or(|package| package.recursive) {
        let line = "cannot receive: cannot specify snapshot name for multi-snapshot stream";
        return Err(Failure::new(FailureKind::Invalid, line));
    }
    let name = begin.name().map_err(|_| bad_list())?;
    let has_holds = begin.features().has(StreamFeatures::HOLDS);
    let sendfs = Some(names::head_of(name).to_owned());
    Ok(Whole { package, sendfs, has_holds, came: BTreeSet::new() })
}

/// Full name of the snapshot that one becomes that was sent under another name; `sendfs` is the topmost dataset of the
/// package that it is in.
///
/// # Errors
/// When the call does not go with such a name.
pub fn destination(call: &DatasetReceive, sent_as: &str, sendfs: Option<&str>) -> Result<String, String> {
    let (head, snapshot) = sent_as.split_once('@').ok_or("invalid stream (bad snapshot name)")?;
    let target = call.target.as_str();
    let below = match call.naming {
        ReceiveNaming::Target if target.contains('@') => return Ok(target.to_owned()),
        ReceiveNaming::Target => {
            let below = head.strip_prefix(sendfs.unwrap_or(head)).unwrap_or_default();
            below.strip_prefix('/').unwrap_or_default()
        }
        ReceiveNaming::AllButPool if target.contains('@') => {
            return Err("invalid argument - snapshot not allowed with -d".to_owned());
        }
        ReceiveNaming::Last if target.contains('@') => {
            return Err("invalid argument - snapshot not allowed with -e".to_owned());
        }
        ReceiveNaming::AllButPool => head.split_once('/').map_or("", |(_, rest)| rest),
        ReceiveNaming::Last => {
            let parent = names::parent_of(sendfs.unwrap_or(head)).map_or(0, |parent| parent.len() + 1);
            head.get(parent..).unwrap_or(head)
        }
    };
    let slash = if below.is_empty() { "" } else { "/" };
    let name = format!("{target}{slash}{below}@{snapshot}");
    names::check_snapshot(&name).map_err(|error| error.to_string())?;
    Ok(name)
}

/// How a stream of a snapshot begins.
struct Start {
    begin: DrrBegin,
    /// Where in what is read.
    offset: u64,
    /// What came with it.
    list: NvList,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(target: &str, naming: ReceiveNaming) -> Result<String, String> {
        let call = DatasetReceive { target: target.to_owned(), naming, ..DatasetReceive::default() };
        destination(&call, "tank/a/b@s", None)
    }

    #[test]
    fn names_follow_the_target_and_what_was_sent() {
        use ReceiveNaming::{AllButPool, Last, Target};
        for (target, naming, want) in [
            ("p/x", Target, Ok("p/x@s")),
            ("p/x@t", Target, Ok("p/x@t")),
            ("p/x", AllButPool, Ok("p/x/a/b@s")),
            ("p/x", Last, Ok("p/x/b@s")),
            ("p/x@t", AllButPool, Err("invalid argument - snapshot not allowed with -d")),
            ("p/x@t", Last, Err("invalid argument - snapshot not allowed with -e")),
        ] {
            let want = want.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(named(target, naming), want, "{target} {naming:?}");
        }
        let call = DatasetReceive { target: "p".to_owned(), naming: AllButPool, ..DatasetReceive::default() };
        assert_eq!(destination(&call, "tank@s", None), Ok("p@s".to_owned()));
        for (naming, want) in [(Target, "p/x/b@s"), (AllButPool, "p/x/a/b@s"), (Last, "p/x/a/b@s")] {
            let call = DatasetReceive { target: "p/x".to_owned(), naming, ..DatasetReceive::default() };
            assert_eq!(destination(&call, "tank/a/b@s", Some("tank/a")), Ok(want.to_owned()), "{naming:?}");
        }
    }
}
