//! The one place where an error of the file layer becomes a number.

use rustix::io::Errno;
use zpl::ZplError;

/// The errno that a program sees.
pub(crate) fn errno(error: &ZplError) -> Errno {
    match error {
        ZplError::NotFound => Errno::NOENT,
        ZplError::Stale { .. } => Errno::STALE,
        ZplError::Exists => Errno::EXIST,
        ZplError::NotDirectory => Errno::NOTDIR,
        ZplError::IsDirectory => Errno::ISDIR,
        ZplError::NotEmpty => Errno::NOTEMPTY,
        ZplError::Invalid(_) => Errno::INVAL,
        ZplError::NotPermitted(_) => Errno::PERM,
        ZplError::AccessDenied => Errno::ACCESS,
        ZplError::NameTooLong => Errno::NAMETOOLONG,
        ZplError::NameNotText => Errno::ILSEQ,
        ZplError::TooBig => Errno::FBIG,
        ZplError::OtherProject => Errno::XDEV,
        ZplError::TooManyLinks => Errno::MLINK,
        ZplError::NoAttribute => Errno::NODATA,
        ZplError::NoSuchOffset => Errno::NXIO,
        ZplError::ReadOnly => Errno::ROFS,
        ZplError::NoSpace => Errno::NOSPC,
        ZplError::QuotaExceeded => Errno::DQUOT,
        ZplError::Unsupported(_) => Errno::OPNOTSUPP,
        ZplError::Damaged { .. }
        | ZplError::Decode(_)
        | ZplError::Dmu(_)
        | ZplError::Zap(_)
        | ZplError::Log(_) => {
            tracing::error!(%error, source = ?std::error::Error::source(error), "a request failed");
            Errno::IO
        }
    }
}
