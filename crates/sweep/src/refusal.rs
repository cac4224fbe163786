//! Why a sweep is not started or stopped.

use crate::Kind;

/// Why, in OpenZFS's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepRefusal {
    /// The pool has no such device.
    #[error("no such device in pool")]
    NoSuchDevice,
    /// It is a group of devices, or out of use.
    #[error("invalid device")]
    NotUsable,
    /// It is being initialized.
    #[error("currently initializing")]
    Initializing,
    /// It is not.
    #[error("there is no active initialization")]
    NotInitializing,
    /// It is being trimmed.
    #[error("currently trimming")]
    Trimming,
    /// It is not.
    #[error("there is no active trim")]
    NotTrimming,
    /// The device cannot forget, or not as it is asked to.
    #[error("trim operations are not supported by this device")]
    CannotTrim,
    /// Nothing can be noted of its devices, or it is not known what of their bytes is free: pools of old versions, and draid.
    #[error("operation not supported on this type of pool")]
    NotHere,
}

impl SweepRefusal {
    /// It is being done, or something that rules it out.
    #[must_use]
    pub fn under_way(kind: Kind) -> Self {
        match kind {
            Kind::Initialize => Self::Initializing,
            Kind::Trim => Self::Trimming,
        }
    }

    pub(crate) fn not_under_way(kind: Kind) -> Self {
        match kind {
            Kind::Initialize => Self::NotInitializing,
            Kind::Trim => Self::NotTrimming,
        }
    }
}
