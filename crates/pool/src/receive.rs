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
//! the next import.
//!
//! Invariants
//! - A stream that is damaged, cut, or does not fit leaves nothing behind.
//!   (test: `a_stream_that_breaks_off_leaves_nothing`)
//! - What is received is what was sent (test: `what_is_received_is_what_was_sent`).

mod end;
mod leftover;
mod place;

use std::sync::Arc;

use dsl::{DatasetName, PropValue};
use futures::io::AsyncRead;
use ondisk::ByteOrder;
use ondisk::send::{DrrBegin, DrrBody, StreamFeatures};
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
    /// The dataset has been changed since the snapshot that the stream starts from.
    #[error("destination has been modified since most recent snapshot")]
    Modified,
    /// Something is being received into the dataset already.
    #[error("destination is being received into")]
    Busy,
}

/// A stream to be received.
#[derive(Clone, Debug)]
pub struct ReceiveOrder {
    /// How it begins.
    pub begin: DrrBegin,
    /// Full name of the snapshot that is made of it.
    pub snapshot: String,
    /// The snapshot that a new dataset is made a clone of: the one that the stream starts from.
    pub origin: Option<String>,
    /// What is set on a new dataset.
    pub props: Vec<(String, PropValue)>,
    /// The dataset may have been changed: what it has since goes, snapshots too.
    pub force: bool,
}

/// A stream that has come to its end, all of it on its way to disk. It is not there before [`Self::finish`].
pub struct Received {
    pool: Arc<Pool>,
    order: ReceiveOrder,
    into: DatasetName,
    is_new: bool,
}

impl Pool {
    /// Receives what comes after a BEGIN, up to the END. `source` has read the BEGIN, and nothing after that.
    ///
    /// # Errors
    /// [`PoolError::Receive`], [`PoolError::Stream`], [`PoolError::NeedsFeature`]; those of making a dataset. Nothing is
    /// left behind.
    pub async fn receive<R: AsyncRead + Unpin + Send>(
        self: &Arc<Self>,
        order: ReceiveOrder,
        source: &mut Reader<R>,
    ) -> Result<Received, PoolError> {
        check_kind(order.begin.features())?;
        if source.order() != ByteOrder::Little {
            return Err(unsupported("a stream of the other byte order"));
        }
        let Place { into, is_new, objset } = self.make_place(&order).await?;
        let mut receiver = Receiver::new(objset, &order.begin);
        let received = Received { pool: Arc::clone(self), order, into, is_new };
        match take_all(&mut receiver, source).await {
            Ok(()) => Ok(received),
            Err(error) => {
                drop(receiver);
                received.abandon().await;
                Err(error)
            }
        }
    }
}

/// Takes records up to the END.
async fn take_all<R: AsyncRead + Unpin + Send>(
    receiver: &mut Receiver,
    source: &mut Reader<R>,
) -> Result<(), PoolError> {
    loop {
        let record = source.next_record().await.map_err(stream::ReceiveError::from)?;
        // A reader gives nothing more only behind an END.
        let Some(record) = record.filter(|record| !matches!(record.record.body, DrrBody::End(_))) else {
            return Ok(());
        };
        receiver.take(record).await?;
    }
}

fn unsupported(what: &'static str) -> PoolError {
    PoolError::Receive(ReceiveRefusal::Unsupported { what })
}

/// Whether streams of such a kind are received at all.
fn check_kind(features: StreamFeatures) -> Result<(), PoolError> {
    use StreamFeatures as S;
    let kinds = [
        (S::DEDUP.with(S::DEDUPPROPS), "a deduplicated stream"),
        (S::RAW, "a raw stream"),
        (S::REDACTED, "a redacted stream"),
        (S::RESUMING, "a resumed stream"),
    ];
    match kinds.into_iter().find(|(kind, _)| features.has_any(*kind)) {
        Some((_, what)) => Err(unsupported(what)),
        None if features.unknown() != S::NONE => Err(PoolError::Receive(ReceiveRefusal::UnknownFeature)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
