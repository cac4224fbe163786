//! Requests about streams of snapshots that go out.

use crate::call::{Call, calls};
use crate::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

calls! {
    /// Writes a snapshot, or several, as a stream: its bytes come before the answer.
    change DatasetSend at "/v1/dataset/send" to "send" snapshot may Send as Stream gives () {
        /// Full name of the last snapshot; none where there is a token.
        snapshot: String,
        /// What a receiver gave out to be gone on with: it says which snapshot, from where on.
        token: Option<String>,
        /// Full name of a snapshot or bookmark that the receiver has; none for a full stream.
        from: Option<String>,
        /// All snapshots in between, too.
        all: bool,
        /// Blocks above 128 KiB whole.
        large_blocks: bool,
        /// Blocks that lie in their pointers so.
        embedded: bool,
        /// Blocks as they are stored, compressed.
        compressed: bool,
        /// As they are stored at all: where nothing is encrypted, that is all of the above.
        raw: bool,
        /// All datasets below, too, with their properties.
        replicate: bool,
        /// With properties.
        props: bool,
        /// Of properties only those that came with a stream.
        backup: bool,
        /// With who holds snapshots.
        holds: bool,
        /// Datasets below without the snapshot are left out.
        skip_missing: bool,
        /// Datasets below that are left out.
        excluded: Vec<String>,
        /// What follows the `#` in the name of the redaction bookmark whose blocks are left out.
        redact: Option<String>,
        /// Of the dataset what was received in part, and kept.
        saved: bool,
    }

    /// The datasets below that a stream leaves out for they have not the snapshot.
    show DatasetSendSkipped at "/v1/dataset/send/skipped" gives Vec<String> {
        /// The stream.
        send: DatasetSend,
    }

    /// What a stream would have, snapshot by snapshot in the order of the stream.
    show DatasetSendSize at "/v1/dataset/send/size" gives Vec<SendSize> {
        /// The stream.
        send: DatasetSend,
    }
}

/// A snapshot of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendSize {
    /// Its full name.
    pub snapshot: String,
    /// Full name of the snapshot or bookmark that it is told by the difference to.
    pub from: Option<String>,
    /// Bytes of the stream.
    pub bytes: u64,
}
