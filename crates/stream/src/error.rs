//! What can go wrong in a send.

use dmu::DmuError;
use dmu::zap::ZapError;
use ondisk::OndiskError;
use units::{ObjectId, ObjsetId};
use zio::{Bookmark, ZioError};

/// Why a stream was not written to its end. What was written is of no use but to be resumed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// A block cannot be read.
    #[error("block {bookmark} cannot be sent")]
    Block {
        /// Which block.
        bookmark: Bookmark,
        /// Why.
        #[source]
        source: Box<ZioError>,
    },
    /// A structure makes no sense.
    #[error("objset {objset} object {object}: damaged")]
    Damaged {
        /// Whose objset.
        objset: ObjsetId,
        /// Of which object.
        object: ObjectId,
        /// What is wrong with it.
        #[source]
        source: OndiskError,
    },
    /// An object cannot be looked at.
    #[error("objset {objset} object {object} cannot be sent")]
    Object {
        /// Whose objset.
        objset: ObjsetId,
        /// Which object.
        object: ObjectId,
        /// Why.
        #[source]
        source: Box<DmuError>,
    },
    /// The version of the file system cannot be read.
    #[error("objset {objset}: the master node cannot be read")]
    Master {
        /// Whose objset.
        objset: ObjsetId,
        /// Why.
        #[source]
        source: Box<DmuError>,
    },
    /// The same, of the ZAP that it is.
    #[error("objset {objset}: the master node cannot be read")]
    MasterZap {
        /// Whose objset.
        objset: ObjsetId,
        /// Why.
        #[source]
        source: Box<ZapError>,
    },
    /// Large micro ZAPs must not be split, and large blocks were not asked for.
    #[error("objset {objset} has large micro ZAPs: it can be sent with large blocks only")]
    LargeMicrozap {
        /// Whose objset.
        objset: ObjsetId,
    },
    /// A kind of stream that is not written yet.
    #[error("objset {objset}: {what} cannot be sent")]
    Unsupported {
        /// Whose objset.
        objset: ObjsetId,
        /// What it has.
        what: &'static str,
    },
    /// Nobody takes the stream any more.
    #[error("the stream cannot be written on after {written_bytes} bytes")]
    Sink {
        /// Bytes that were written before.
        written_bytes: u64,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
