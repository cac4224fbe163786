//! What can go wrong with a ZAP.

use units::{BlockId, ObjectId};

use crate::DmuError;

/// Why a ZAP operation failed. Carries what `zdb -dddd <dataset> <object>` needs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ZapError {
    /// An entry of that name is there already.
    #[error("object {object}: the ZAP has an entry {name:?} already")]
    Exists {
        /// The ZAP.
        object: ObjectId,
        /// The name, bytes that are not UTF-8 replaced.
        name: String,
    },
    /// There is no entry of that name.
    #[error("object {object}: the ZAP has no entry {name:?}")]
    NotFound {
        /// The ZAP.
        object: ObjectId,
        /// The name, bytes that are not UTF-8 replaced.
        name: String,
    },
    /// The name is empty, longer than 1023 bytes or contains a NUL; or the ZAP's keys are of
    /// the other kind (names, arrays of `u64`).
    #[error("object {object}: a key of {bytes} bytes cannot be a name in this ZAP")]
    BadName {
        /// The ZAP.
        object: ObjectId,
        /// Length of the name.
        bytes: usize,
    },
    /// The value is longer than the 8 KiB that the format allows, or than a leaf holds.
    #[error("object {object}: a value of {bytes} bytes is too large for the ZAP")]
    ValueTooLarge {
        /// The ZAP.
        object: ObjectId,
        /// Length of the value.
        bytes: usize,
    },
    /// The entry is there, but its value is not a single `u64`.
    #[error("object {object}: the value of {name:?} is not one 64-bit integer")]
    NotU64 {
        /// The ZAP.
        object: ObjectId,
        /// The name.
        name: String,
    },
    /// So many names share their hash that no further split can part them.
    #[error("object {object}: the ZAP cannot take more names with this hash")]
    Full {
        /// The ZAP.
        object: ObjectId,
    },
    /// The ZAP uses something of the format that is not supported.
    #[error("object {object}: the ZAP uses {what}, which is not supported")]
    Unsupported {
        /// The ZAP.
        object: ObjectId,
        /// What it uses.
        what: &'static str,
    },
    /// The block's checksum held, but what it says makes no sense.
    #[error("object {object} block {block}: damaged ZAP: {what}")]
    Damaged {
        /// The ZAP.
        object: ObjectId,
        /// The block.
        block: BlockId,
        /// What was wrong.
        what: &'static str,
    },
    /// Blocks could not be read or written.
    #[error(transparent)]
    Dmu(#[from] DmuError),
}

impl ZapError {
    /// True if a part of the ZAP is lost, see [`DmuError::is_loss`].
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Dmu(error) => error.is_loss(),
            _ => false,
        }
    }
}

/// What is wrong with a block, before anyone knows which block it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage(pub(super) &'static str);

impl Damage {
    /// The same with its place.
    pub(super) fn at(self, object: ObjectId, block: u64) -> ZapError {
        ZapError::Damaged { object, block: BlockId::new(block), what: self.0 }
    }
}
