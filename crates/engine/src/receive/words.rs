//! Why a stream was not received, in the words that scripts know.

use crate::{names, refusal};
use control::{Failure, FailureKind};
use ondisk::send::{DrrBegin, StreamFeatures};
use pool::{PoolError, ReceiveRefusal};
use stream::{ReadError, ReceiveError};

pub(super) fn is_resumed(begin: &DrrBegin) -> bool {
    begin.features().has(StreamFeatures::RESUMING)
}

pub(super) fn prefix(begin: &DrrBegin) -> &'static str {
    match (is_resumed(begin), begin.fromguid.get()) {
        (true, _) => "cannot receive resume stream",
        (false, 0) => "cannot receive new filesystem stream",
        (false, _) => "cannot receive incremental stream",
    }
}

pub(super) fn bad_list() -> Failure {
    Failure::new(FailureKind::Invalid, "cannot receive: invalid stream (malformed nvlist)")
}

/// What came is no stream, or not all of one.
pub(super) fn no_stream(error: &ReadError) -> Failure {
    let reason = match error {
        ReadError::Io { .. } | ReadError::Truncated { .. } => "failed to read from stream".to_owned(),
        ReadError::BadRecord { offset: 0, .. } => "invalid stream (bad magic number)".to_owned(),
        ReadError::Checksum { .. } => "invalid stream (checksum mismatch)".to_owned(),
        ReadError::BadRecord { .. } | ReadError::OutOfPlace { .. } => {
            format!("invalid stream ({})", refusal::chain(error))
        }
    };
    Failure::new(FailureKind::Invalid, format!("cannot receive: {reason}"))
}

/// Why a snapshot was not received; `eg` is one of those in the way, if any are.
pub(super) fn refused(snapshot: &str, begin: &DrrBegin, eg: &str, error: &PoolError) -> Failure {
    use ReceiveRefusal as R;
    let head = names::head_of(snapshot);
    let (kind, reason) = refusal::kind_and_reason(error);
    let lines = match error {
        PoolError::Receive(R::Exists) => {
            [format!("destination '{head}' exists"), "must specify -F to overwrite it".to_owned()]
        }
        PoolError::Receive(R::HasSnapshots) => {
            [format!("destination has snapshots (eg. {eg})"), "must destroy them to overwrite it".to_owned()]
        }
        PoolError::Receive(R::IsClone) => {
            [format!("destination '{head}' is a clone"), "must destroy it to overwrite it".to_owned()]
        }
        PoolError::Receive(R::NoSource | R::NotLatest) => {
            [format!("most recent snapshot of {head} does not"), "match incremental source".to_owned()]
        }
        PoolError::Receive(R::Modified) => {
            [format!("destination {head} has been modified"), "since most recent snapshot".to_owned()]
        }
        PoolError::Receive(R::HasPart) => {
            let line =
                format!("destination {head} contains partially-complete state from \"zfs receive -s\".");
            [line, String::new()]
        }
        PoolError::Receive(R::ResumesExisting) => [
            format!("Resuming recv on existing destination '{head}'"),
            "must specify -F to overwrite it".to_owned(),
        ],
        PoolError::Receive(R::NothingToResume) => ["invalid backup stream".to_owned(), String::new()],
        PoolError::Receive(R::Busy) => ["dataset is busy".to_owned(), String::new()],
        PoolError::Dsl(dsl::DslError::Exists { .. }) => {
            return Failure::new(kind, format!("cannot restore to {snapshot}: destination already exists"));
        }
        PoolError::Receive(R::NoDestination) => {
            [format!("destination '{head}' does not exist"), String::new()]
        }
        PoolError::NeedsFeature { .. } => {
            ["pool must be upgraded to receive this stream.".to_owned(), String::new()]
        }
        PoolError::Stream(stream) => [broken(stream, reason), String::new()],
        _ => [reason, String::new()],
    };
    let [first, second] = lines;
    let failure = Failure::new(kind, format!("{}: {first}", prefix(begin)));
    if second.is_empty() { failure } else { failure.and(second) }
}

/// What is wrong with a stream, in the words scripts know.
fn broken(error: &ReceiveError, reason: String) -> String {
    match error {
        ReceiveError::Read(ReadError::Checksum { .. }) => "checksum mismatch".to_owned(),
        ReceiveError::Read(ReadError::Truncated { .. } | ReadError::Io { .. }) => {
            "incomplete stream".to_owned()
        }
        _ => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::send::HeaderType;

    #[test]
    fn refusals_have_the_words_that_scripts_know() {
        let said = |is_incremental, error: PoolError| {
            let begin = DrrBegin {
                fromguid: u64::from(is_incremental).into(),
                ..DrrBegin::new(HeaderType::Substream, StreamFeatures::NONE)
            };
            refused("p/a@s", &begin, "p/a@1", &error).stderr.join("\n")
        };
        for (is_incremental, refusal, want) in [
            (
                false,
                ReceiveRefusal::Exists,
                "cannot receive new filesystem stream: destination 'p/a' exists\nmust specify -F to overwrite it",
            ),
            (
                false,
                ReceiveRefusal::HasSnapshots,
                "cannot receive new filesystem stream: destination has snapshots (eg. p/a@1)\n\
                 must destroy them to overwrite it",
            ),
            (
                true,
                ReceiveRefusal::Modified,
                "cannot receive incremental stream: destination p/a has been modified\nsince most recent snapshot",
            ),
            (
                true,
                ReceiveRefusal::NoSource,
                "cannot receive incremental stream: most recent snapshot of p/a does not\nmatch incremental source",
            ),
        ] {
            assert_eq!(said(is_incremental, PoolError::Receive(refusal)), want);
        }
        let cut = ReceiveError::Read(ReadError::Truncated { offset: 7 });
        assert_eq!(said(false, cut.into()), "cannot receive new filesystem stream: incomplete stream");
        let exists = dsl::DslError::Exists { name: "p/a@s".to_owned() };
        assert_eq!(said(true, exists.into()), "cannot restore to p/a@s: destination already exists");
    }
}
