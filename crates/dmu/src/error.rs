//! What can go wrong in an objset.

use units::{BlockId, ObjectId, ObjsetId, Txg};

/// An error of the data management unit, with the coordinates `zdb` would need.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DmuError {
    /// No object has that number.
    #[error("objset {objset}: no object {object}")]
    NoSuchObject {
        /// Whose objset.
        objset: ObjsetId,
        /// The number asked for.
        object: ObjectId,
    },
    /// An object with that number exists already.
    #[error("objset {objset}: object {object} exists")]
    ObjectExists {
        /// Whose objset.
        objset: ObjsetId,
        /// The number asked for.
        object: ObjectId,
    },
    /// A block cannot be read or written.
    #[error("objset {objset} object {object} block {block}: I/O failed")]
    Io {
        /// Whose objset.
        objset: ObjsetId,
        /// Of which object.
        object: ObjectId,
        /// Which block, at level 0.
        block: BlockId,
        /// Why.
        #[source]
        source: Box<zio::ZioError>,
    },
    /// A structure read from disk makes no sense.
    #[error("objset {objset} object {object}: damaged: {what}")]
    Damaged {
        /// Whose objset.
        objset: ObjsetId,
        /// Of which object.
        object: ObjectId,
        /// What is wrong with it.
        what: String,
    },
    /// An argument does not fit the object: a size, an offset, a type.
    #[error("objset {objset} object {object}: {what}")]
    Invalid {
        /// Whose objset.
        objset: ObjsetId,
        /// Of which object.
        object: ObjectId,
        /// What does not fit.
        what: &'static str,
    },
    /// The pool has no room for the change.
    #[error("out of space")]
    NoSpace,
    /// The dataset's quota leaves no room for the change.
    #[error("quota exceeded")]
    QuotaExceeded,
    /// The pool stopped syncing: the txg can no longer become stable.
    #[error("pool suspended at txg {txg}")]
    Suspended {
        /// The txg that failed.
        txg: Txg,
    },
    /// The name is in the ZAP already.
    #[error("object {object}: name exists")]
    NameExists {
        /// The ZAP object.
        object: ObjectId,
    },
    /// The name is not in the ZAP.
    #[error("object {object}: no such name")]
    NoSuchName {
        /// The ZAP object.
        object: ObjectId,
    },
}

impl DmuError {
    /// True if the bytes that are there are not what was written ([`zio::ZioError::is_damage`]).
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.is_damage(),
            Self::Damaged { .. } => true,
            _ => false,
        }
    }

    /// True if data is lost and the pool can do nothing about it: a block is lost as in
    /// [`zio::ZioError::is_loss`], or a structure is invalid.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.is_loss(),
            Self::Damaged { .. } => true,
            _ => false,
        }
    }
}
