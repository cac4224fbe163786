//! Receiving streams of snapshots.
//!
//! ```text
//!  BEGIN ─► whose it is ─► pool's turn: place made ─► records, in nobody's turn ─► pool's turn: unmount, finish, mount
//! ```
//! A stream may come for hours: others change the pool meanwhile, and what they do to the dataset is found out at the end.

use crate::create::dataset_props;
use crate::props::Occasion;
use crate::{Held, Holder, names, refusal, volumes};
use control::{
    ByteSource, DatasetKind, DatasetReceive, Failure, FailureKind, ReceiveNaming, ReceivedSnapshot,
};
use futures::io::BufReader;
use ondisk::objset::ObjsetType;
use ondisk::send::{DrrBegin, DrrBody, HeaderType, begin_flags};
use pool::{PoolError, ReceiveOrder, ReceiveRefusal};
use std::sync::Arc;
use stream::{ReadError, ReceiveError, StreamRecord};

/// What is read of a stream at a time.
const BUFFER_BYTES: usize = 256 << 10;

type Reader = stream::Reader<BufReader<ByteSource>>;

impl Holder {
    pub(super) async fn receive(
        &self,
        call: &DatasetReceive,
        source: ByteSource,
    ) -> Result<Vec<ReceivedSnapshot>, Failure> {
        let held = self.pool_of_target(&call.target)?;
        let mut reader = Reader::new(BufReader::with_capacity(BUFFER_BYTES, source));
        let mut received = Vec::new();
        while let Some(record) = reader.next_record().await.map_err(|error| no_stream(&error))? {
            let StreamRecord { record, payload, .. } = record;
            let DrrBody::Begin(begin) = record.body else { continue };
            if begin.header_type() == Ok(HeaderType::Compound) {
                check_compound(call, &payload)?;
            } else {
                received.push(self.receive_one(&held, call, begin, &mut reader).await?);
            }
        }
        Ok(received)
    }

    fn pool_of_target(&self, target: &str) -> Result<Arc<Held>, Failure> {
        let head = names::head_of(target);
        let checked = match target.contains('@') {
            true => names::check_snapshot(target),
            false => names::check_dataset(head),
        };
        let refuse = |kind, reason: &str| Failure::new(kind, format!("cannot receive: {reason}"));
        checked.map_err(|error| refuse(FailureKind::Invalid, &error.to_string()))?;
        let no_such = || refuse(FailureKind::NoSuchPool, &format!("specified fs ({head}) does not exist"));
        self.pool_of(head).map_err(|_| no_such())
    }

    /// Receives a snapshot, whose BEGIN was read.
    async fn receive_one(
        &self,
        held: &Held,
        call: &DatasetReceive,
        begin: DrrBegin,
        reader: &mut Reader,
    ) -> Result<ReceivedSnapshot, Failure> {
        let is_incremental = begin.fromguid.get() != 0;
        let prefix = prefix(is_incremental);
        let sent_as = begin.name().map_err(|_| {
            Failure::new(FailureKind::Invalid, "cannot receive: invalid stream (bad snapshot name)")
        })?;
        let sent_as = sent_as.to_owned();
        let snapshot = destination(call, &sent_as)
            .map_err(|reason| Failure::new(FailureKind::Invalid, format!("{prefix}: {reason}")))?;
        let (begun, start) = (self.env.now(), reader.offset());
        if call.dry_run {
            skip(reader).await.map_err(|error| no_stream(&error))?;
        } else {
            let order = self.order_of(held, call, begin, &snapshot).await?;
            self.receive_order(held, call, order, reader).await?;
        }
        let millis = u64::try_from(self.env.now().saturating_sub(begun).as_millis()).unwrap_or(u64::MAX);
        let bytes = reader.offset().saturating_sub(start);
        tracing::info!(snapshot, bytes, millis, "received");
        Ok(ReceivedSnapshot { sent_as, snapshot, is_incremental, bytes, millis })
    }

    async fn order_of(
        &self,
        held: &Held,
        call: &DatasetReceive,
        begin: DrrBegin,
        snapshot: &str,
    ) -> Result<ReceiveOrder, Failure> {
        let prefix = prefix(begin.fromguid.get() != 0);
        let cannot = |reason: &str| Failure::new(FailureKind::Invalid, format!("{prefix}: {reason}"));
        let is_volume = begin.objset_type.get() == ObjsetType::Zvol.raw() as u32;
        let kind = if is_volume { DatasetKind::Volume } else { DatasetKind::Filesystem };
        let props = dataset_props(&call.props, kind, Occasion::Later, &cannot)?;
        volumes::check_copied(&props).map_err(|reason| cannot(&reason))?;
        let head = names::head_of(snapshot);
        let is_there = held.pool.dsl().resolve(head).await.is_ok();
        let is_clone = begin.flags.get() & begin_flags::CLONE != 0;
        let origin = match !is_there && is_clone {
            true => Some(
                self.snapshot_of_guid(held, begin.fromguid.get())
                    .await?
                    .ok_or_else(|| cannot(&format!("local origin for clone {snapshot} does not exist")))?,
            ),
            false => None,
        };
        if !is_there {
            self.see_to_parent(held, call, head, &cannot).await?;
        }
        Ok(ReceiveOrder { begin, snapshot: snapshot.to_owned(), origin, props, force: call.force })
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
        if call.naming == ReceiveNaming::Target {
            return Err(cannot(&format!("destination '{parent}' does not exist")));
        }
        let _turn = self.turns.of(&held.pool.name(), "receive").await;
        self.create_parents(held, parent).await
    }

    /// The snapshot that has a guid, wherever in the pool.
    async fn snapshot_of_guid(&self, held: &Held, guid: u64) -> Result<Option<String>, Failure> {
        let dsl = held.pool.dsl();
        let name = held.pool.name();
        let cannot = |error| crate::datasets::cannot_open(&name, error);
        for head in dsl.list(&name).await.map_err(cannot)? {
            for snapshot in dsl.snapshots(&head).await.map_err(cannot)? {
                if dsl.dataset(snapshot.dataset).await.map_err(cannot)?.guid.get() == guid {
                    return Ok(Some(snapshot.name));
                }
            }
        }
        Ok(None)
    }

    async fn receive_order(
        &self,
        held: &Held,
        call: &DatasetReceive,
        order: ReceiveOrder,
        reader: &mut Reader,
    ) -> Result<(), Failure> {
        let is_incremental = order.begin.fromguid.get() != 0;
        let snapshot = order.snapshot.clone();
        let head = names::head_of(&snapshot);
        let props = order.props.clone();
        let cannot = async |error: PoolError| {
            let eg = match error {
                PoolError::Receive(ReceiveRefusal::HasSnapshots) => self.a_snapshot_of(held, head).await,
                _ => String::new(),
            };
            refused(&snapshot, is_incremental, &eg, &error)
        };
        let received = match held.pool.receive(order, reader).await {
            Ok(received) => received,
            Err(error) => return Err(cannot(error).await),
        };
        let _turn = self.turns.of(&held.pool.name(), "receive").await;
        let (is_new, mounted) = (received.is_new(), self.mounted_under(head));
        let datasets: Vec<String> = mounted.iter().map(|(dataset, _)| dataset.clone()).collect();
        let finished = match self.mounts.unmount_each(&datasets, call.force) {
            Ok(()) => match received.finish().await {
                Ok(()) => Ok(()),
                Err(error) => Err(cannot(error).await),
            },
            Err(in_use) => {
                received.abandon().await;
                Err(in_use)
            }
        };
        let remounted = self.mount_those_again(held, &mounted).await;
        finished.and(remounted)?;
        if !is_new {
            for (prop, value) in props {
                let set = held.pool.set_prop(head, &prop, Some(value)).await;
                set.map_err(|error| refusal::pool("set property for", head, &error))?;
            }
        }
        if is_new && !call.no_mount { self.mount_received(held, head).await } else { Ok(()) }
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

/// Reads up to the END.
async fn skip(reader: &mut Reader) -> Result<(), ReadError> {
    while let Some(record) = reader.next_record().await? {
        if matches!(record.record.body, DrrBody::End(_)) {
            break;
        }
    }
    Ok(())
}

/// Snapshots in a row can be received; what comes with properties cannot yet.
fn check_compound(call: &DatasetReceive, list: &[u8]) -> Result<(), Failure> {
    if !list.is_empty() {
        let line = "cannot receive: receiving a stream with properties is not supported yet";
        return Err(Failure::new(FailureKind::Unsupported, line));
    }
    if call.target.contains('@') {
        let line = "cannot receive: cannot specify snapshot name for multi-snapshot stream";
        return Err(Failure::new(FailureKind::Invalid, line));
    }
    Ok(())
}

/// Full name of the snapshot that one becomes that was sent under another name.
///
/// # Errors
/// When the call does not go with such a name.
pub fn destination(call: &DatasetReceive, sent_as: &str) -> Result<String, String> {
    let (head, snapshot) = sent_as.split_once('@').ok_or("invalid stream (bad snapshot name)")?;
    let target = call.target.as_str();
    let below = match call.naming {
        ReceiveNaming::Target if target.contains('@') => return Ok(target.to_owned()),
        ReceiveNaming::Target => "",
        ReceiveNaming::AllButPool if target.contains('@') => {
            return Err("invalid argument - snapshot not allowed with -d".to_owned());
        }
        ReceiveNaming::Last if target.contains('@') => {
            return Err("invalid argument - snapshot not allowed with -e".to_owned());
        }
        ReceiveNaming::AllButPool => head.split_once('/').map_or("", |(_, rest)| rest),
        ReceiveNaming::Last => head.rsplit('/').next().unwrap_or(head),
    };
    let slash = if below.is_empty() { "" } else { "/" };
    let name = format!("{target}{slash}{below}@{snapshot}");
    names::check_snapshot(&name).map_err(|error| error.to_string())?;
    Ok(name)
}

fn prefix(is_incremental: bool) -> &'static str {
    if is_incremental { "cannot receive incremental stream" } else { "cannot receive new filesystem stream" }
}

/// What came is no stream, or not all of one.
fn no_stream(error: &ReadError) -> Failure {
    let reason = match error {
        ReadError::Io { .. } | ReadError::Truncated { .. } => "failed to read from stream".to_owned(),
        ReadError::BadRecord { offset: 0, .. } => "invalid stream (bad magic number)".to_owned(),
        ReadError::Checksum { .. } => "invalid stream (checksum mismatch)".to_owned(),
        ReadError::BadRecord { .. } | ReadError::OutOfPlace { .. } => {
            format!("invalid stream ({})", refusal::chain(error))
        }
    };
    Failure::new(FailureKind::Invalid, format!("cannot receive: {reason}"))
}

/// Why a snapshot was not received; `eg` is one of those in the way, if any are.
fn refused(snapshot: &str, is_incremental: bool, eg: &str, error: &PoolError) -> Failure {
    use ReceiveRefusal as R;
    let head = names::head_of(snapshot);
    let (kind, reason) = refusal::kind_and_reason(error);
    let lines = match error {
        PoolError::Receive(R::Exists) => {
            [format!("destination '{head}' exists"), "must specify -F to overwrite it".to_owned()]
        }
        PoolError::Receive(R::HasSnapshots) => {
            [format!("destination has snapshots (eg. {eg})"), "must destroy them to overwrite it".to_owned()]
        }
        PoolError::Receive(R::IsClone) => {
            [format!("destination '{head}' is a clone"), "must destroy it to overwrite it".to_owned()]
        }
        PoolError::Receive(R::NoSource | R::NotLatest) => {
            [format!("most recent snapshot of {head} does not"), "match incremental source".to_owned()]
        }
        PoolError::Receive(R::Modified) => {
            [format!("destination {head} has been modified"), "since most recent snapshot".to_owned()]
        }
        PoolError::Dsl(dsl::DslError::Exists { .. }) => {
            return Failure::new(kind, format!("cannot restore to {snapshot}: destination already exists"));
        }
        PoolError::Receive(R::NoDestination) => {
            [format!("destination '{head}' does not exist"), String::new()]
        }
        PoolError::NeedsFeature { .. } => {
            ["pool must be upgraded to receive this stream.".to_owned(), String::new()]
        }
        PoolError::Stream(stream) => [broken(stream, reason), String::new()],
        _ => [reason, String::new()],
    };
    let [first, second] = lines;
    let failure = Failure::new(kind, format!("{}: {first}", prefix(is_incremental)));
    if second.is_empty() { failure } else { failure.and(second) }
}

/// What is wrong with a stream, in the words scripts know.
fn broken(error: &ReceiveError, reason: String) -> String {
    match error {
        ReceiveError::Read(ReadError::Checksum { .. }) => "checksum mismatch".to_owned(),
        ReceiveError::Read(ReadError::Truncated { .. } | ReadError::Io { .. }) => {
            "incomplete stream".to_owned()
        }
        _ => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(target: &str, naming: ReceiveNaming) -> Result<String, String> {
        let call = DatasetReceive { target: target.to_owned(), naming, ..DatasetReceive::default() };
        destination(&call, "tank/a/b@s")
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
        assert_eq!(destination(&call, "tank@s"), Ok("p@s".to_owned()));
    }

    #[test]
    fn refusals_have_the_words_that_scripts_know() {
        let said = |is_incremental, error: PoolError| {
            refused("p/a@s", is_incremental, "p/a@1", &error).stderr.join("\n")
        };
        for (is_incremental, refusal, want) in [
            (
                false,
                ReceiveRefusal::Exists,
                "cannot receive new filesystem stream: destination 'p/a' exists\nmust specify -F to overwrite it",
            ),
            (
                false,
                ReceiveRefusal::HasSnapshots,
                "cannot receive new filesystem stream: destination has snapshots (eg. p/a@1)\n\
                 must destroy them to overwrite it",
            ),
            (
                true,
                ReceiveRefusal::Modified,
                "cannot receive incremental stream: destination p/a has been modified\nsince most recent snapshot",
            ),
            (
                true,
                ReceiveRefusal::NoSource,
                "cannot receive incremental stream: most recent snapshot of p/a does not\nmatch incremental source",
            ),
        ] {
            assert_eq!(said(is_incremental, PoolError::Receive(refusal)), want);
        }
        let cut = ReceiveError::Read(ReadError::Truncated { offset: 7 });
        assert_eq!(said(false, cut.into()), "cannot receive new filesystem stream: incomplete stream");
        let exists = dsl::DslError::Exists { name: "p/a@s".to_owned() };
        assert_eq!(said(true, exists.into()), "cannot restore to p/a@s: destination already exists");
    }
}
