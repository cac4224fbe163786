//! Errors of files in the words of the system, and other words that file commands share.

use engine::refusal;
use sawmill::{Error, FileKind};
use zpl::ZplError;

/// What went wrong, as strerror(3) would say it where it can.
pub fn reason(error: &Error) -> String {
    match error {
        Error::Refused(failure) => failure.to_string(),
        Error::File { source, .. } => file(source),
        Error::LeadsOut { .. } => "symbolic link leads out of the dataset".into(),
        Error::TooManyLinks { .. } => "Too many levels of symbolic links".into(),
        Error::Pool(error) => refusal::chain(error),
    }
}

/// The same for an error of the file layer.
pub fn file(error: &ZplError) -> String {
    match error {
        ZplError::NotFound => "No such file or directory".into(),
        ZplError::NotDirectory => "Not a directory".into(),
        ZplError::IsDirectory => "Is a directory".into(),
        ZplError::Exists => "File exists".into(),
        ZplError::NotEmpty => "Directory not empty".into(),
        ZplError::NameTooLong => "File name too long".into(),
        ZplError::ReadOnly => "Read-only file system".into(),
        ZplError::NoSpace => "No space left on device".into(),
        ZplError::QuotaExceeded => "Disk quota exceeded".into(),
        ZplError::TooBig => "File too large".into(),
        error => refusal::chain(error),
    }
}

/// The letter in front of a mode.
pub fn letter(kind: FileKind) -> char {
    match kind {
        FileKind::Fifo => 'p',
        FileKind::CharDevice => 'c',
        FileKind::Directory => 'd',
        FileKind::BlockDevice => 'b',
        FileKind::File => '-',
        FileKind::Symlink => 'l',
        FileKind::Socket => 's',
    }
}
