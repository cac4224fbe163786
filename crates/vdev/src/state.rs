//! Health of a vdev, and the reason for it.

/// Health, from worst to best. The numbers are the format's (`vdev_state_t`), as tools show them.
///
/// ```text
///                 open, labels right
///   UNAVAIL ────────────────────────► ONLINE ◄──────────────┐
///      ▲                                │ write or flush    │ reopen (zpool clear,
///      │ device gone                    │ failed, sibling   │ zpool online)
///      └────────────────────────────────┤ has the data      │
///                                       ▼                   │
///                                    FAULTED ───────────────┤
///      OFFLINE ◄── administrator ── any                     │
///         └─────────────────────────────────────────────────┘
/// ```
/// A crash in any state: OFFLINE and FAULTED are in the configuration once the next txg has
/// synced. An import tries a FAULTED data device again, unless the administrator took it out: it may
/// have been the fault of another system. What it missed is noted ([`crate::Dtl`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum VdevState {
    /// Never opened.
    #[default]
    Closed = 1,
    /// Taken out by the administrator.
    Offline = 2,
    /// Pulled out while in use.
    Removed = 3,
    /// Could not be opened, or went away.
    Unavail = 4,
    /// Taken out because of errors; what it holds may be old.
    Faulted = 5,
    /// Works, but not as well as it should.
    Degraded = 6,
    /// As it should be.
    Online = 7,
}

impl VdevState {
    /// Whether I/O may go there.
    #[must_use]
    pub const fn is_usable(self) -> bool {
        matches!(self, Self::Online | Self::Degraded)
    }
}

impl std::fmt::Display for VdevState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Closed => "CLOSED",
            Self::Offline => "OFFLINE",
            Self::Removed => "REMOVED",
            Self::Unavail => "UNAVAIL",
            Self::Faulted => "FAULTED",
            Self::Degraded => "DEGRADED",
            Self::Online => "ONLINE",
        })
    }
}

/// Why a vdev is not ONLINE. The numbers are the format's (`vdev_aux_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum VdevAux {
    /// No reason known, or none needed.
    #[default]
    None = 0,
    /// Opening failed.
    OpenFailed = 1,
    /// Labels are missing or those of something else.
    CorruptData = 2,
    /// Too few children are left.
    NoReplicas = 3,
    /// Smaller than it has to be.
    TooSmall = 5,
    /// Labels can be read but do not belong here.
    BadLabel = 6,
    /// Too many errors.
    ErrExceeded = 11,
    /// An I/O failed.
    IoFailure = 12,
    /// Forced by the administrator.
    External = 14,
    /// It was split off, into a pool of its own.
    SplitPool = 15,
    /// The device was imported without the pool and has states that the pool does not have. In the
    /// format, this number marks a device that is in use on another host.
    Elsewhere = 18,
}

impl VdevAux {
    /// What the configuration stores as `aux_state`, for the two reasons that it stores.
    #[must_use]
    pub const fn stored_name(self) -> Option<&'static str> {
        match self {
            Self::ErrExceeded | Self::IoFailure => Some("err_exceeded"),
            Self::External => Some("external"),
            _ => None,
        }
    }

    /// The reason behind a stored `aux_state`.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        match name {
            "external" => Self::External,
            _ => Self::ErrExceeded,
        }
    }
}
