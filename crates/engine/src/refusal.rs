//! From errors of the engine to the words users know.

use crate::front::MountError;
use control::{Failure, FailureKind};
use dmu::DmuError;
use dsl::DslError;
use env::DeviceError;
use pool::{PoolError, ReceiveRefusal, RemovalRefusal, ScrubRefusal, ZvolError};
use std::error::Error;
use std::fmt::Write;
use stream::{ReadError, ReceiveError};
use vdev::VdevError;

/// Why nothing can be done with a pool whose devices fail.
const SUSPENDED: &str = "pool I/O is currently suspended";

/// An error and all that caused it, in one line, each said once.
pub fn chain(error: &dyn Error) -> String {
    let mut text = words(error);
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = words(next);
        if !text.ends_with(&words) {
            _ = write!(text, ": {words}");
        }
        cause = next.source();
    }
    text
}

/// An error without the number that the system's has behind it.
pub fn words(error: &dyn Error) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    match text.rsplit_once(" (os error ") {
        Some((words, number)) if number.ends_with(')') => words.to_owned(),
        _ => text.to_owned(),
    }
}

/// `cannot VERB 'WHAT': REASON` for an error of a pool.
pub fn pool(verb: &str, what: &str, error: &PoolError) -> Failure {
    let (kind, reason) = kind_and_reason(error);
    Failure::cannot(kind, verb, what, &reason)
}

/// Why snapshots were not made: the one that is named, or all.
pub fn create_snapshots(error: &PoolError) -> Failure {
    let (kind, reason) = kind_and_reason(error);
    match dataset_of(error) {
        Some(name) => Failure::cannot(kind, "create snapshot", name, &reason),
        None => Failure::new(kind, format!("cannot create snapshots : {reason}")),
    }
}

/// Why snapshots were not destroyed: the one that is named, or all.
pub fn destroy_snapshots(error: &PoolError) -> Failure {
    let (kind, reason) = kind_and_reason(error);
    match dataset_of(error) {
        Some(name) => Failure::new(kind, format!("cannot destroy snapshot {name}: {reason}")),
        None => Failure::new(kind, format!("cannot destroy snapshots: {reason}")),
    }
}

/// The dataset that an error is about, if it says so.
fn dataset_of(error: &PoolError) -> Option<&str> {
    match error {
        PoolError::Dsl(
            DslError::NoSuchDataset { name }
            | DslError::Exists { name }
            | DslError::BadName { name, .. }
            | DslError::InUse { name, .. },
        ) => Some(name),
        _ => None,
    }
}

/// The reason alone.
pub fn reason(error: &PoolError) -> String {
    kind_and_reason(error).1
}

/// Kind and reason. Every error has its words; a new one picks its own to compile.
pub fn kind_and_reason(error: &PoolError) -> (FailureKind, String) {
    use FailureKind as K;
    let whole = || chain(error);
    match error {
        PoolError::NoSuchPool => (K::NoSuchPool, error.to_string()),
        PoolError::Ambiguous => (K::Invalid, error.to_string()),
        PoolError::MissingVdev { .. } => (K::Unavailable, error.to_string()),
        PoolError::NoUberblock | PoolError::DeviceShrunk { .. } => (K::Unavailable, whole()),
        PoolError::ForeignHost { .. } | PoolError::ActiveElsewhere { .. } => (K::Busy, error.to_string()),
        PoolError::NoHostId => (K::Invalid, error.to_string()),
        PoolError::TwoHistories { .. } => (K::Busy, error.to_string()),
        PoolError::LeftAlone(_) => (K::Unavailable, error.to_string()),
        PoolError::DeviceInUse { .. } => (K::Busy, whole()),
        PoolError::ReadOnly => (K::Invalid, error.to_string()),
        PoolError::Suspended { .. } => (K::Unavailable, SUSPENDED.into()),
        PoolError::Busy { .. } => (K::Busy, "dataset is busy".into()),
        PoolError::Scrub(refusal) => (K::Busy, scrub_reason(*refusal).to_owned()),
        PoolError::Removal(RemovalRefusal::NoRoom) => (K::NoSpace, error.to_string()),
        PoolError::Removal(RemovalRefusal::Unsupported) => (K::Unsupported, error.to_string()),
        PoolError::Removal(_) => (K::Busy, whole()),
        PoolError::Checkpoint(_) => (K::Busy, error.to_string()),
        PoolError::Device(_) => (K::Invalid, error.to_string()),
        PoolError::Split(pool::SplitRefusal::Busy) => (K::Busy, error.to_string()),
        PoolError::Split(_) | PoolError::VdevProp(_) => (K::Invalid, error.to_string()),
        PoolError::NeedsFeature { .. } => (K::Unsupported, error.to_string()),
        PoolError::Receive(refusal) => (receive_kind(*refusal), error.to_string()),
        PoolError::Redact(_) => (K::Invalid, error.to_string()),
        PoolError::Redaction(_) => (K::Other, whole()),
        PoolError::Stream(stream) => stream_reason(stream),
        PoolError::HalfReceived { .. } => (K::Busy, "dataset is being received".into()),
        PoolError::UnsupportedFeatures { .. } => (K::Unsupported, "unsupported version or feature".into()),
        PoolError::Encrypted { .. } => (K::Unsupported, whole()),
        PoolError::NotFilesystem { .. } | PoolError::NotVolume { .. } => (K::Invalid, whole()),
        PoolError::Damaged { .. } | PoolError::SpaceMap { .. } | PoolError::Geometry(_) => {
            (K::Other, whole())
        }
        PoolError::Vdev(vdev) => vdev_reason(vdev),
        PoolError::Dmu(dmu) => dmu_reason(dmu),
        PoolError::Dsl(dsl) => dsl_reason(dsl),
        PoolError::Zio(_)
        | PoolError::Evacuation(_)
        | PoolError::Zap(_)
        | PoolError::Zil(_)
        | PoolError::Zpl(_) => (K::Other, whole()),
        PoolError::Zvol(zvol) => match &**zvol {
            ZvolError::ReadOnly => (K::Invalid, "dataset is read-only".into()),
            ZvolError::Closed => (K::Busy, "dataset is busy".into()),
            ZvolError::TooFar { .. } | ZvolError::Size { .. } => (K::Invalid, whole()),
            ZvolError::Dmu(dmu) => dmu_reason(dmu),
            _ => (K::Other, whole()),
        },
    }
}

/// Why a scrub was not started, paused or stopped, in the words scripts know.
pub fn scrub_reason(refusal: ScrubRefusal) -> &'static str {
    match refusal {
        ScrubRefusal::Running => "currently scrubbing; use 'zpool scrub -s' to cancel scrub",
        ScrubRefusal::Paused => "scrub is paused; use 'zpool scrub' to resume scrub",
        ScrubRefusal::None => "there is no active scrub",
        ScrubRefusal::Resilvering => "currently resilvering",
        ScrubRefusal::PausedToCancel => {
            "scrub is paused; use 'zpool scrub' to resume or 'zpool scrub -s' to cancel scrub"
        }
        ScrubRefusal::ErrorScrubbing => {
            "currently error scrubbing; use 'zpool scrub -s' to cancel error scrub"
        }
        ScrubRefusal::ErrorScrubPaused => "error scrub is paused; use 'zpool scrub -e' to resume error scrub",
        ScrubRefusal::NoErrorLogs => {
            "the feature head_errlog is not enabled; use 'zpool set feature@head_errlog=enabled' to enable the feature"
        }
    }
}

fn receive_kind(refusal: ReceiveRefusal) -> FailureKind {
    use ReceiveRefusal as R;
    match refusal {
        R::UnknownFeature | R::Unsupported { .. } => FailureKind::Unsupported,
        R::Exists | R::HasSnapshots | R::IsClone => FailureKind::Exists,
        R::NoDestination | R::NoSource => FailureKind::NoSuchDataset,
        R::NotLatest | R::NoLargeBlocks => FailureKind::Invalid,
        R::ResumesExisting => FailureKind::Exists,
        R::NothingToResume | R::NotRedactedAlike | R::NotThatSnapshot | R::CannotReconstruct => {
            FailureKind::Invalid
        }
        R::Modified | R::Busy | R::HasPart => FailureKind::Busy,
    }
}

/// Why a stream could not be received to its end: the stream's fault, or the pool's.
fn stream_reason(error: &ReceiveError) -> (FailureKind, String) {
    match error {
        ReceiveError::Read(ReadError::Truncated { .. }) => (FailureKind::Invalid, "incomplete stream".into()),
        ReceiveError::Read(ReadError::Checksum { .. }) => {
            (FailureKind::Invalid, "invalid stream (checksum mismatch)".into())
        }
        ReceiveError::Read(
            ReadError::Io { .. } | ReadError::BadRecord { .. } | ReadError::OutOfPlace { .. },
        )
        | ReceiveError::BadRecord { .. } => {
            (FailureKind::Invalid, format!("invalid stream ({})", chain(error)))
        }
        ReceiveError::Unsupported { what, .. } => {
            (FailureKind::Unsupported, format!("receiving {what} is not supported yet"))
        }
        ReceiveError::Objset { source, .. } => dmu_reason(source),
    }
}

fn vdev_reason(error: &VdevError) -> (FailureKind, String) {
    match error {
        VdevError::TooSmall { .. } => {
            (FailureKind::Unavailable, "one or more devices is less than the minimum size (64M)".into())
        }
        VdevError::Open { source: DeviceError::InUse { .. }, .. } => {
            (FailureKind::Busy, "one or more devices is in use".into())
        }
        VdevError::Open { source: DeviceError::Missing { .. }, .. } | VdevError::NoReplica { .. } => {
            (FailureKind::Unavailable, "one or more devices is currently unavailable".into())
        }
        VdevError::UnsupportedKind { .. } => {
            (FailureKind::Unsupported, "unsupported version or feature".into())
        }
        _ => (FailureKind::Other, chain(error)),
    }
}

fn dmu_reason(error: &DmuError) -> (FailureKind, String) {
    match error {
        DmuError::NoSpace => (FailureKind::NoSpace, "out of space".into()),
        DmuError::QuotaExceeded => (FailureKind::NoSpace, "disk quota exceeded".into()),
        DmuError::Suspended { .. } => (FailureKind::Unavailable, SUSPENDED.into()),
        _ => (FailureKind::Other, chain(error)),
    }
}

fn dsl_reason(error: &DslError) -> (FailureKind, String) {
    match error {
        DslError::NoSuchDataset { .. } => (FailureKind::NoSuchDataset, "dataset does not exist".into()),
        DslError::Exists { .. } => (FailureKind::Exists, "dataset already exists".into()),
        DslError::BadName { why, .. } => (FailureKind::Invalid, (*why).to_owned()),
        DslError::HasChildren { .. } => (FailureKind::Busy, "filesystem has children".into()),
        DslError::HasSnapshots { .. } => (FailureKind::Busy, "filesystem has snapshots".into()),
        DslError::InUse { .. } | DslError::HasHolds { .. } | DslError::TryAgain { .. } => {
            (FailureKind::Busy, "dataset is busy".into())
        }
        DslError::HasClones { .. } => (FailureKind::Busy, "snapshot has dependent clones".into()),
        DslError::NotLatest { .. } => (FailureKind::Busy, "more recent snapshots or bookmarks exist".into()),
        DslError::NotClone { .. } => (FailureKind::Invalid, "not a cloned filesystem".into()),
        DslError::NotOfDataset { .. } => {
            (FailureKind::Invalid, "source is not an ancestor of the new bookmark's dataset".into())
        }
        DslError::TagExists { .. } => (FailureKind::Exists, "tag already exists on this dataset".into()),
        DslError::NoSuchTag { .. } => (FailureKind::NoSuchDataset, "no such tag on this dataset".into()),
        DslError::BookmarksDisabled => (FailureKind::Unsupported, "bookmark feature not enabled".into()),
        DslError::NoRename { why, .. } => (FailureKind::Invalid, (*why).to_owned()),
        DslError::NoSpace { .. } => (FailureKind::NoSpace, "out of space".into()),
        DslError::FeatureDisabled { .. } => (
            FailureKind::Unsupported,
            "pool and or dataset must be upgraded to set this property or value".into(),
        ),
        DslError::Limit { why } => (FailureKind::NoSpace, (*why).to_owned()),
        DslError::BadProperty { property, why } => (FailureKind::Invalid, format!("'{property}': {why}")),
        DslError::Damaged { .. } | DslError::Zap(_) => (FailureKind::Other, chain(error)),
        DslError::Dmu(dmu) => dmu_reason(dmu),
    }
}

/// `cannot mount 'WHAT': REASON`.
pub fn mount(verb: &str, what: &str, error: &MountError) -> Failure {
    let (kind, reason) = match error {
        MountError::NotEmpty { .. } => (FailureKind::Busy, "directory is not empty".to_owned()),
        MountError::Busy { .. } => (FailureKind::Busy, "pool or dataset is busy".to_owned()),
        MountError::Hides { .. } | MountError::Unfinished { .. } | MountError::SeenElsewhere { .. } => {
            (FailureKind::Busy, error.to_string())
        }
        MountError::MountPoint { .. } | MountError::Refused { .. } | MountError::Short(_) => {
            (FailureKind::Other, chain(error))
        }
    };
    Failure::cannot(kind, verb, what, &reason)
}

/// A mount cannot follow a property, and the property is restored.
pub fn remount(dataset: &str, error: &MountError) -> Failure {
    let reason = match error {
        MountError::Refused { source, .. } => source.to_string(),
        _ => chain(error),
    };
    Failure::new(FailureKind::Busy, format!("unable to remount '{dataset}': {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_told_already_is_not_told_again() {
        let cause = || std::io::Error::from_raw_os_error(122);
        let error = MountError::MountPoint { path: "/p/a".into(), source: cause() };
        assert_eq!(chain(&error), "cannot make mount point /p/a: Disk quota exceeded");
        assert_eq!(words(&cause()), "Disk quota exceeded");
    }
}
