//! Requests about streams of snapshots that come in.

use crate::call::{Call, NameValue, calls};
use crate::{Failure, FailureKind, Peer};
use serde::{Deserialize, Serialize};

calls! {
    /// Receives a stream, whose bytes come behind the request; tells of each snapshot that it had.
    change DatasetReceive at "/v1/dataset/receive" of target unless dry_run to "receive" target may Receive by maker as Stream gives Vec<ReceivedSnapshot> {
        /// Full name of a dataset, or of a snapshot.
        target: String,
        /// Which dataset below the target it is, by the name that it was sent with.
        naming: ReceiveNaming,
        /// Properties of new datasets, as typed.
        props: Vec<NameValue>,
        /// What came since the snapshot that the stream starts from may go.
        force: bool,
        /// Do not mount what is new.
        no_mount: bool,
        /// Only say what would be received.
        dry_run: bool,
        /// What came of a stream that breaks off is kept.
        resumable: bool,
        /// Properties that are not taken over from the stream.
        excluded_props: Vec<String>,
        /// Holds are not taken over.
        skip_holds: bool,
        /// What is in use is unmounted, too.
        force_unmount: bool,
        /// What is damaged of the snapshot that is there is put right.
        heal: bool,
        /// Who receives, where that is not the daemon's own user.
        maker: Option<Peer>,
    }

    /// Gives up what was received in part for a dataset, and kept.
    change DatasetReceiveAbort at "/v1/dataset/receive/abort" of name to "destroy" name may AbortReceive gives () {
        /// Full name of the dataset.
        name: String,
    }
}

/// How a dataset is called that is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveNaming {
    /// As the target is.
    #[default]
    Target,
    /// All of its name but the pool goes below the target.
    AllButPool,
    /// The last part of its name goes below the target.
    Last,
}

/// A snapshot that was received, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedSnapshot {
    /// The name that it was sent with.
    pub sent_as: String,
    /// Its full name here.
    pub snapshot: String,
    /// It was told by the difference to an earlier one.
    pub is_incremental: bool,
    /// Bytes of the stream.
    pub bytes: u64,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// It was there already.
    pub is_known: bool,
    /// What could not be taken over with it.
    pub warnings: Vec<String>,
}
