//! What can go wrong with files and directories.

use std::sync::Arc;

use dmu::DmuError;
use dmu::zap::ZapError;
use journal::JournalError;
use ondisk::OndiskError;
use units::{ObjectId, ObjsetId};
use zil::ZilError;

/// An error of the file layer: one variant for each condition a front gives its own errno.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ZplError {
    /// No such name in the directory, or no such object (`ENOENT`).
    #[error("not found")]
    NotFound,
    /// The object is gone or was never a file: a handle outlived it (`ESTALE`).
    #[error("object {object} is no longer there")]
    Stale {
        /// The number asked for.
        object: ObjectId,
    },
    /// The name is taken (`EEXIST`).
    #[error("exists")]
    Exists,
    /// A directory is needed (`ENOTDIR`).
    #[error("not a directory")]
    NotDirectory,
    /// A directory will not do (`EISDIR`).
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries (`ENOTEMPTY`).
    #[error("directory not empty")]
    NotEmpty,
    /// An argument makes no sense (`EINVAL`).
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// The operation is refused whoever asks (`EPERM`).
    #[error("not permitted: {0}")]
    NotPermitted(&'static str),
    /// The caller lacks the right (`EACCES`).
    #[error("access denied")]
    AccessDenied,
    /// A name is longer than the format allows (`ENAMETOOLONG`).
    #[error("name too long")]
    NameTooLong,
    /// Bytes that are no text where the dataset takes only UTF-8 (`EILSEQ`).
    #[error("name is not UTF-8")]
    NameNotText,
    /// Past the largest file or attribute (`EFBIG`).
    #[error("too big")]
    TooBig,
    /// A directory that hands its project on takes nothing of another (`EXDEV`).
    #[error("belongs to another project")]
    OtherProject,
    /// No more links can be made (`EMLINK`).
    #[error("too many links")]
    TooManyLinks,
    /// No such extended attribute (`ENODATA`).
    #[error("no such attribute")]
    NoAttribute,
    /// `SEEK_DATA` or `SEEK_HOLE` found none (`ENXIO`).
    #[error("nothing there")]
    NoSuchOffset,
    /// The dataset is read-only (`EROFS`).
    #[error("read-only")]
    ReadOnly,
    /// The pool is full (`ENOSPC`).
    #[error("no space left")]
    NoSpace,
    /// The dataset's quota is used up (`EDQUOT`).
    #[error("quota exceeded")]
    QuotaExceeded,
    /// Something the format knows and this code does not do (`EOPNOTSUPP`).
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    /// A structure of the file layer makes no sense (`EIO`).
    #[error("objset {objset} object {object}: damaged: {what}")]
    Damaged {
        /// Whose objset.
        objset: ObjsetId,
        /// Which object.
        object: ObjectId,
        /// What is wrong with it.
        what: String,
    },
    /// Bytes that do not decode (`EIO`).
    #[error("cannot decode")]
    Decode(#[from] OndiskError),
    /// The objset failed (`EIO`).
    #[error("objset failed")]
    Dmu(#[source] Arc<DmuError>),
    /// A directory or table failed (`EIO`).
    #[error("directory or table failed")]
    Zap(#[source] Arc<ZapError>),
    /// What was written cannot be made stable (`EIO`).
    #[error("intent log failed")]
    Log(#[from] ZilError),
}

impl ZplError {
    /// True if a part of the file system is lost, see [`DmuError::is_loss`].
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Decode(_) => true,
            Self::Dmu(error) => error.is_loss(),
            Self::Zap(error) => error.is_loss(),
            _ => false,
        }
    }
}

/// Results of the file layer.
pub type Result<T, E = ZplError> = std::result::Result<T, E>;

impl From<DmuError> for ZplError {
    fn from(error: DmuError) -> Self {
        match error {
            DmuError::NoSpace => Self::NoSpace,
            DmuError::QuotaExceeded => Self::QuotaExceeded,
            DmuError::NoSuchObject { object, .. } => Self::Stale { object },
            DmuError::NameExists { .. } => Self::Exists,
            DmuError::NoSuchName { .. } => Self::NotFound,
            other => Self::Dmu(Arc::new(other)),
        }
    }
}

impl From<JournalError> for ZplError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::Txg(error) => error.into(),
            JournalError::Log(error) => error.into(),
        }
    }
}

impl From<ZapError> for ZplError {
    fn from(error: ZapError) -> Self {
        match error {
            ZapError::Exists { .. } => Self::Exists,
            ZapError::NotFound { .. } => Self::NotFound,
            ZapError::BadName { .. } => Self::NameTooLong,
            ZapError::Full { .. } => Self::NoSpace,
            ZapError::Dmu(error) => error.into(),
            other => Self::Zap(Arc::new(other)),
        }
    }
}
