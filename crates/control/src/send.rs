//! Requests about streams of snapshots that go out.

use crate::call::{Call, calls};
use crate::{Failure, FailureKind};
use serde::{Deserialize, Serialize};

calls! {
    /// Writes a snapshot, or several, as a stream: its bytes come before the answer.
    change DatasetSend at "/v1/dataset/send" to "send" snapshot gives () {
        /// Full name of the last snapshot.
        snapshot: String,
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
    }

    /// What a stream would have, snapshot by snapshot in the order of the stream.
    change DatasetSendSize at "/v1/dataset/send/size" gives Vec<SendSize> {
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
