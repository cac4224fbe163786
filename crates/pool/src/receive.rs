//! Receiving a stream: a snapshot that somebody sent, and the dataset that it is of.
//!
//! ```text
//!                ┌─ no dataset yet ─► a new one, or a clone of the origin    ┐  flagged inconsistent, and so
//!  BEGIN ─ place ┤                                                           ├─ nobody's to open
//!                └─ there is one ───► `%recv` below it, a clone of the       ┘
//!                                      snapshot that the stream starts from
//!                 records ─► stream::Receiver, over as many txgs as it takes
//!  END ─ finish ─┬─ new:  snapshot made, flag taken off
//!                └─ else: `%recv` and the dataset exchange what they have, snapshot made, `%recv` destroyed
//! ```
//! The end is one task of one sync: a crash finds the dataset as it was, or with the snapshot. Before that the dataset
//! that is there is not touched. What is left of a stream that broke off is destroyed at once, and after a crash by
//! the next import; unless it was to be kept ([`ReceiveOrder::resumable`]): then the dataset stays with a note of how far
//! it is, written with each txg, and a stream that goes on from there is received into the same.
//!
//! Invariants
//! - While a stream is being received, its dataset is neither destroyed, renamed, rolled back nor
//!   promoted, and a partially received dataset gets no snapshot
//!   (test: `a_receive_keeps_its_dataset_busy`).
//! - A stream that is damaged, cut, or does not fit leaves nothing behind.
//!   (test: `a_stream_that_breaks_off_leaves_nothing`)
//! - What is kept of one is what its note says, whatever ended it (tests: `a_stream_that_breaks_off_is_gone_on_with`, the
//!   crash lane `receives`).
//! - What is received is what was sent (test: `what_is_received_is_what_was_sent`).

mod busy;
mod end;
mod heal;
mod leftover;
mod place;
mod props;
mod resume;

use std::sync::Arc;

use dsl::{DatasetName, PropValue};
use futures::io::AsyncRead;
use ondisk::send::{DrrBegin, DrrBody, StreamFeatures, begin_names};
use ondisk::{ByteOrder, NvList};
use stream::{Reader, Receiver};

use crate::receive::place::Place;
use crate::{Pool, PoolError};

/// Why a stream is not received, though nothing is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveRefusal {
    /// It needs a receiver that knows more than is known today.
    #[error("stream has unsupported feature")]
    UnknownFeature,
    /// It is of a kind that is not received yet.
    #[error("{what} is not supported yet")]
    Unsupported {
        /// Which.
        what: &'static str,
    },
    /// It is a full stream, and the dataset is there.
    #[error("destination exists")]
    Exists,
    /// It is a full stream to take the place of a dataset that has snapshots.
    #[error("destination has snapshots")]
    HasSnapshots,
    /// It is a full stream to take the place of a clone.
    #[error("destination is a clone")]
    IsClone,
    /// It starts from a snapshot, and the dataset is not there.
    #[error("destination does not exist")]
    NoDestination,
    /// It starts from a snapshot that the dataset has not.
    #[error("no snapshot of the dataset is the one that the stream starts from")]
    NoSource,
    /// It starts from a snapshot that is not the dataset's latest.
    #[error("most recent snapshot does not match incremental source")]
    NotLatest,
    /// It has blocks in pieces that the dataset has whole.
    #[error("incremental send stream requires -L (--large-block), to match previous receive")]
    NoLargeBlocks,
    /// Something was left out of the snapshot that the stream starts from which the stream does not make good, and does not
    /// leave out itself.
    #[error("invalid backup stream")]
    NotRedactedAlike,
    /// A snapshot is to be healed that is another one than the stream's.
    #[error("local snapshot doesn't match the snapshot in the provided stream")]
    NotThatSnapshot,
    /// What came of a damaged block is not what it was, or not all of it.
    #[error("corrective receive was not able to reconstruct the data needed for healing.")]
    CannotReconstruct,
    /// The dataset has been changed since the snapshot that the stream starts from.
    #[error("destination has been modified since most recent snapshot")]
    Modified,
    /// Something is being received into the dataset already.
    #[error("destination is being received into")]
    Busy,
    /// Something has been received into the dataset in part, and is kept to be gone on with.
    #[error("destination contains partially-complete state from \"zfs receive -s\"")]
    HasPart,
    /// It goes on with a full stream that takes the place of a dataset, which has to be said again.
    #[error("destination exists")]
    ResumesExisting,
    /// It does not go on where something ends that was received in part.
    #[error("nothing was received that it goes on with")]
    NothingToResume,
}

/// A stream to be received.
#[derive(Clone, Debug)]
pub struct ReceiveOrder {
    /// How it begins.
    pub begin: DrrBegin,
    /// Where in what is read that is, in bytes.
    pub begin_offset: u64,
    /// Full name of the snapshot that is made of it.
    pub snapshot: String,
    /// The snapshot that a new dataset is made a clone of: the one that the stream starts from.
    pub origin: Option<String>,
    /// What is set on a new dataset.
    pub props: Vec<(String, PropValue)>,
    /// What the stream says of it; see [`Pool::receive_props`], which has the last word.
    pub received_props: Vec<(String, PropValue)>,
    /// The dataset may have been changed: what it has since goes, snapshots too.
    pub force: bool,
    /// What came of a stream that breaks off is kept.
    pub resumable: bool,
    /// Who gets what makers of datasets are granted where a new one is.
    pub maker: u32,
    /// What came with the BEGIN.
    pub list: NvList,
}

impl ReceiveOrder {
    /// Snapshots by which the stream is redacted.
    fn redact_snaps(&self) -> Option<&[u64]> {
        let snaps = self.list.get_u64_array(begin_names::REDACT_SNAPS);
        snaps.filter(|_| self.begin.features().has(StreamFeatures::REDACTED))
    }

    /// Something is left out of it, or was out of what it starts from.
    fn is_redacted(&self) -> bool {
        self.redact_snaps().is_some() || self.list.contains(begin_names::REDACT_FROM_SNAPS)
    }
}

/// A stream that has come to its end, all of it on its way to disk. It is not there before [`Self::finish`].
pub struct Received {
    pool: Arc<Pool>,
    order: ReceiveOrder,
    into: DatasetName,
    is_new: bool,
    /// Something came that is worth keeping.
    has_begun: bool,
    /// Keeps the dataset busy.
    _receiving: Arc<()>,
}

impl Pool {
    /// Receives what comes after a BEGIN, up to the END. `source` has read the BEGIN, and nothing after that.
    ///
    /// # Errors
    /// [`PoolError::Receive`], [`PoolError::Stream`], [`PoolError::NeedsFeature`]; those of making a dataset. Nothing is
    /// left behind that was not to be kept.
    pub async fn receive<R: AsyncRead + Unpin + Send>(
        self: &Arc<Self>,
        order: ReceiveOrder,
        source: &mut Reader<R>,
    ) -> Result<Received, PoolError> {
        check_kind(order.begin.features())?;
        // A note of how far it is does not say what was left out.
        let resumable = order.resumable && !order.is_redacted();
        let order = ReceiveOrder { resumable, ..order };
        if source.order() != ByteOrder::Little {
            return Err(unsupported("a stream of the other byte order"));
        }
        let is_resumed = order.begin.features().has(StreamFeatures::RESUMING);
        let place =
            if is_resumed { self.place_of_part(&order).await? } else { self.make_place(&order).await? };
        let Place { into, is_new, open, receiving, before_bytes } = place;
        let mut receiver = Receiver::new(Arc::clone(&open.objset), &order.begin);
        if order.resumable || is_resumed {
            let progress: stream::Progress = Arc::new(move |txg, point| open.note_received(txg, point));
            receiver = receiver.telling(order.begin_offset, before_bytes, progress);
        }
        let mut received = Received {
            pool: Arc::clone(self),
            order,
            into,
            is_new,
            has_begun: is_resumed,
            _receiving: receiving,
        };
        let taken = take_all(&mut receiver, source, &mut received.has_begun).await;
        let is_on_top = received.order.begin.fromguid.get() == 0 && received.order.origin.is_some();
        let taken = match taken {
            Ok(()) if is_on_top => receiver.free_beyond().await.map_err(PoolError::from),
            taken => taken,
        };
        match taken {
            Ok(()) => Ok(received),
            Err(error) => {
                drop(receiver);
                received.give_up().await;
                Err(error)
            }
        }
    }
}

/// Takes records up to the END; notes when the first has come.
async fn take_all<R: AsyncRead + Unpin + Send>(
    receiver: &mut Receiver,
    source: &mut Reader<R>,
    has_begun: &mut bool,
) -> Result<(), PoolError> {
    loop {
        let record = source.next_record().await.map_err(stream::ReceiveError::from)?;
        // A reader gives nothing more only behind an END.
        let Some(record) = record.filter(|record| !matches!(record.record.body, DrrBody::End(_))) else {
            return Ok(());
        };
        *has_begun = true;
        receiver.take(record).await?;
    }
}

fn unsupported(what: &'static str) -> PoolError {
    PoolError::Receive(ReceiveRefusal::Unsupported { what })
}

/// Whether streams of such a kind are received at all.
fn check_kind(features: StreamFeatures) -> Result<(), PoolError> {
    use StreamFeatures as S;
    let kinds = [(S::DEDUP.with(S::DEDUPPROPS), "a deduplicated stream"), (S::RAW, "a raw stream")];
    match kinds.into_iter().find(|(kind, _)| features.has_any(*kind)) {
        Some((_, what)) => Err(unsupported(what)),
        None if features.unknown() != S::NONE => Err(PoolError::Receive(ReceiveRefusal::UnknownFeature)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
