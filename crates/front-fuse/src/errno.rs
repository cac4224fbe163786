//! The one place where an error of the file layer becomes a number.

use fuser::Errno;
use zpl::ZplError;

/// The errno that a program sees.
pub(crate) fn errno(error: &ZplError) -> Errno {
    match error {
        ZplError::NotFound => Errno::ENOENT,
        ZplError::Stale { .. } => Errno::ESTALE,
        ZplError::Exists => Errno::EEXIST,
        ZplError::NotDirectory => Errno::ENOTDIR,
        ZplError::IsDirectory => Errno::EISDIR,
        ZplError::NotEmpty => Errno::ENOTEMPTY,
        ZplError::Invalid(_) => Errno::EINVAL,
        ZplError::NotPermitted(_) => Errno::EPERM,
        ZplError::AccessDenied => Errno::EACCES,
        ZplError::NameTooLong => Errno::ENAMETOOLONG,
        ZplError::NameNotText => Errno::from_i32(libc::EILSEQ),
        ZplError::TooBig => Errno::EFBIG,
        ZplError::TooManyLinks => Errno::EMLINK,
        ZplError::NoAttribute => Errno::NO_XATTR,
        ZplError::NoSuchOffset => Errno::ENXIO,
        ZplError::ReadOnly => Errno::EROFS,
        ZplError::NoSpace => Errno::ENOSPC,
        ZplError::QuotaExceeded => Errno::from_i32(libc::EDQUOT),
        ZplError::Unsupported(_) => Errno::EOPNOTSUPP,
        ZplError::Damaged { .. }
        | ZplError::Decode(_)
        | ZplError::Dmu(_)
        | ZplError::Zap(_)
        | ZplError::Log(_) => {
            tracing::error!(%error, source = ?std::error::Error::source(error), "a request failed");
            Errno::EIO
        }
    }
}
