//! The way from an objset to a stream.

use std::sync::Arc;

use dmu::Objset;
use dmu::zap::Zap;
use env::boxed;
use futures::io::AsyncWrite;
use futures::stream::{self, StreamExt, TryStreamExt};
use ondisk::NvList;
use ondisk::dnode::DNODES_PER_BLOCK;
use ondisk::objset::ObjsetType;
use ondisk::send::{DrrBegin, DrrBody, DrrRecord, HeaderType, StreamFeatures, begin_names};
use ondisk::znode::{MASTER_NODE, ZPL_VERSION_SA, master};
use zio::{Keep, Zio};

use crate::ahead::{Ahead, Pending};
use crate::compose::{Composer, Contents, How, Piece};
use crate::redact::Redacted;
use crate::walk::{Found, FoundBlock, From, Walk};
use crate::write::{Output, Tally, Writer};
use crate::{SendError, SendOrder, Summary};

/// Writes a snapshot, whose objset this is, as one substream; gives what it wrote. The objset must stay as it is
/// meanwhile: a snapshot's does. At most some 16 MiB are read ahead of the sink.
///
/// # Errors
/// See [`SendError`].
pub async fn send<W>(objset: &Arc<Objset>, order: &SendOrder, sink: W) -> Result<Summary, SendError>
where
    W: AsyncWrite + Unpin + Send,
{
    run(objset, order, Writer::new(sink), Reading::Blocks).await
}

/// What [`send`] would write, in all: exact, and without reading data.
///
/// # Errors
/// As there, but for blocks of data.
#[boxed]
pub async fn size_of(objset: &Arc<Objset>, order: &SendOrder) -> Result<Summary, SendError> {
    run(objset, order, Tally::default(), Reading::Nothing).await
}

/// Whether blocks of data are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Blocks,
    Nothing,
}

async fn run<O: Output>(
    objset: &Arc<Objset>,
    order: &SendOrder,
    out: O,
    reading: Reading,
) -> Result<Summary, SendError> {
    check(objset, order)?;
    let features = order.stream_features(has_attributes(objset).await?);
    let from = order
        .resume
        .map_or(From::default(), |resume| From { object: resume.object.get(), offset: resume.offset });
    let zio = Arc::clone(objset.zio());
    let (walk, max_block) =
        Walk::begin(Arc::clone(&zio), objset.id(), &objset.root(), order.born_after(), from).await?;
    let end_of_objects = max_block.saturating_add(1).saturating_mul(DNODES_PER_BLOCK as u64);
    let (begin, payload) = begin(objset, order, features);
    let mut composer =
        Composer::begin(out, begin, &payload, features, order.target.guid, end_of_objects).await?;
    // Each step moves the walk, which is large.
    let walk = Box::new(Redacted::new(walk, objset, &order.redaction));
    let found =
        stream::try_unfold(walk, |mut walk| async move { Ok(walk.next().await?.map(|found| (found, walk))) });
    let pending = found.map_ok(|found| pending(&zio, features, reading, found));
    let mut pieces = Ahead::new(Box::pin(pending));
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        if order.cut_after.is_some_and(|last| piece.found.object() > last.get()) {
            break;
        }
        composer.take(&piece).await?;
    }
    match order.cut_after {
        None => composer.end().await,
        Some(_) => composer.cut().await,
    }
}

/// Refuses what would come out wrong.
fn check(objset: &Objset, order: &SendOrder) -> Result<(), SendError> {
    let used = order.target.features;
    let unsupported = |what| Err(SendError::Unsupported { objset: objset.id(), what });
    match () {
        () if objset.root().uses_crypt() => unsupported("an encrypted dataset"),
        () if used.large_microzap && !(order.form.large_blocks && used.large_blocks) => {
            Err(SendError::LargeMicrozap { objset: objset.id() })
        }
        () => Ok(()),
    }
}

/// Whether files have system attributes, and perhaps spill blocks.
async fn has_attributes(objset: &Arc<Objset>) -> Result<bool, SendError> {
    if objset.kind() != ObjsetType::Zfs {
        return Ok(false);
    }
    let id = objset.id();
    let dnode = objset
        .hold(MASTER_NODE)
        .await
        .map_err(|source| SendError::Master { objset: id, source: Box::new(source) })?;
    let damaged = |source| SendError::MasterZap { objset: id, source: Box::new(source) };
    let master = Zap::open(dnode).await.map_err(damaged)?;
    let version = master.lookup_u64(master::VERSION.as_bytes()).await.map_err(damaged)?;
    Ok(version.is_some_and(|version| version >= ZPL_VERSION_SA))
}

fn begin(objset: &Objset, order: &SendOrder, features: StreamFeatures) -> (DrrRecord, Vec<u8>) {
    let target = &order.target;
    let begin = DrrBegin {
        creation_time: target.creation_time.into(),
        objset_type: (objset.kind().raw() as u32).into(),
        flags: order.begin_flags().into(),
        toguid: target.guid.into(),
        fromguid: order.origin.map_or(0, |origin| origin.guid).into(),
        ..DrrBegin::new(HeaderType::Substream, features)
    };
    let payload = begin_payload(order);
    let record = DrrRecord {
        payload_len: payload.len() as u32,
        ..DrrRecord::new(DrrBody::Begin(begin.named(&target.name)))
    };
    (record, payload)
}

/// The nvlist of a stream that has something to say beyond its BEGIN, padded to words of 64 bits.
fn begin_payload(order: &SendOrder) -> Vec<u8> {
    let mut list = NvList::default();
    let redaction = &order.redaction;
    for (name, snaps) in [
        (begin_names::REDACT_SNAPS, &redaction.snaps),
        (begin_names::REDACT_FROM_SNAPS, &redaction.from_snaps),
    ] {
        if let Some(snaps) = snaps {
            list.add_u64_array(name, snaps.clone());
        }
    }
    if let Some(resume) = order.resume {
        list.add_u64(begin_names::RESUME_OBJECT, resume.object.get());
        list.add_u64(begin_names::RESUME_OFFSET, resume.offset);
    }
    if list.is_empty() {
        return Vec::new();
    }
    let mut payload = list.encode();
    payload.resize(payload.len().next_multiple_of(8), 0);
    payload
}

/// How what was found becomes a piece of the stream.
fn pending(zio: &Arc<Zio>, features: StreamFeatures, reading: Reading, found: Found) -> Pending<Piece> {
    let (block, how) = match &found {
        Found::Data(block) => (*block, How::of(features, &block.bp)),
        Found::Spill { block, .. } => (*block, How::Contents),
        _ => return ready(found, Contents::None),
    };
    let bytes = match how {
        How::Embedded => return ready(found, Contents::None),
        How::Stored => block.bp.psize().get() as usize,
        How::Contents => block.bp.lsize().get() as usize,
    };
    if reading == Reading::Nothing {
        return ready(found, Contents::Unread(bytes));
    }
    let zio = Arc::clone(zio);
    let read = async move { Ok(Piece { found, contents: Contents::Read(read(&zio, &block, how).await?) }) };
    Pending { bytes, read: Box::pin(read) }
}

fn ready(found: Found, contents: Contents) -> Pending<Piece> {
    Pending { bytes: 0, read: Box::pin(std::future::ready(Ok(Piece { found, contents }))) }
}

/// What is read here is read once: it is not kept.
async fn read(zio: &Zio, block: &FoundBlock, how: How) -> Result<Arc<env::IoBuf>, SendError> {
    let (bp, bookmark) = (&block.bp, &block.bookmark);
    let read = match how {
        How::Stored => zio.read_stored(bp, bookmark).await,
        How::Contents | How::Embedded => zio.read_as(bp, bookmark, Keep::No).await,
    };
    read.map_err(|source| SendError::Block { bookmark: *bookmark, source: Box::new(source) })
}
