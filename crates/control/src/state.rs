//! States and reasons, in the format's words.

use serde::{Deserialize, Serialize};

/// What a vdev is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VdevClass {
    /// Ordinary data and metadata.
    #[default]
    Normal,
    /// Deduplication tables.
    Dedup,
    /// Metadata and small blocks.
    Special,
    /// Intent logs.
    Log,
    /// Second-level read cache.
    Cache,
    /// Hot spares.
    Spare,
}

impl VdevClass {
    /// The name in JSON output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Dedup => "dedup",
            Self::Special => "special",
            Self::Log => "log",
            Self::Cache => "l2cache",
            Self::Spare => "spare",
        }
    }
}

/// State of one vdev, best last, as the format numbers them from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VdevState {
    /// Not open.
    Closed,
    /// Taken offline by the administrator.
    Offline,
    /// Pulled out while open.
    Removed,
    /// Could not be opened; the reason is in [`VdevAux`].
    CantOpen,
    /// Too many errors, or declared bad.
    Faulted,
    /// Works, but part of its redundancy is gone.
    Degraded,
    /// Works.
    #[default]
    Online,
}

impl VdevState {
    /// The raw name, as JSON output has it.
    pub fn raw_word(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Offline => "OFFLINE",
            Self::Removed => "REMOVED",
            Self::CantOpen => "CANT_OPEN",
            Self::Faulted => "FAULTED",
            Self::Degraded => "DEGRADED",
            Self::Online => "ONLINE",
        }
    }

    /// The name in the tables of `zpool status` and `zpool list`.
    pub fn word(self, aux: VdevAux) -> &'static str {
        match (self, aux) {
            (Self::CantOpen, VdevAux::CorruptData | VdevAux::BadLog) => "FAULTED",
            (Self::CantOpen, VdevAux::SplitPool) => "SPLIT",
            (Self::CantOpen, _) => "UNAVAIL",
            (Self::Closed, _) => "OFFLINE",
            (state, _) => state.raw_word(),
        }
    }

    /// Whether the vdev can be read.
    pub fn is_readable(self) -> bool {
        self >= Self::Degraded
    }
}

macro_rules! aux {
    ($($(#[$doc:meta])* $name:ident = $json:literal, $text:expr;)*) => {
        /// Why a vdev is in its state.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum VdevAux {
            $($(#[$doc])* $name,)*
        }

        impl VdevAux {
            /// The name in JSON output.
            pub fn json_word(self) -> &'static str {
                match self { $(Self::$name => $json,)* }
            }

            /// The reason as `zpool status` shows it behind the counters.
            pub fn reason(self) -> Option<&'static str> {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

aux! {
    /// Nothing to tell.
    #[default]
    None = "NONE", Option::None;
    /// The device is not there, or the system would not open it.
    OpenFailed = "OPEN_FAILED", Some("cannot open");
    /// What it holds makes no sense.
    CorruptData = "CORRUPT_DATA", Some("corrupted data");
    /// Too many children are gone.
    NoReplicas = "NO_REPLICAS", Some("insufficient replicas");
    /// The tree is not whole: the guids do not add up.
    BadGuidSum = "BAD_GUID_SUM", Some("missing device");
    /// Smaller than it was, or than is allowed.
    TooSmall = "TOO_SMALL", Some("invalid label");
    /// Its label belongs to something else.
    BadLabel = "BAD_LABEL", Some("invalid label");
    /// Written by newer software.
    VersionNewer = "VERSION_NEWER", Some("newer version");
    /// Uses features unknown here.
    UnsupFeature = "UNSUP_FEAT", Some("unsupported feature(s)");
    /// A spare that another pool uses.
    Spared = "SPARED", Some("currently in use");
    /// Failed too often.
    ErrExceeded = "ERR_EXCEEDED", Some("too many errors");
    /// I/O failed and could not be repeated.
    IoFailure = "IO_FAILURE", Some("experienced I/O failures");
    /// An intent log could not be read at import.
    BadLog = "BAD_LOG", Some("bad intent log");
    /// Declared bad by the administrator or a diagnosis.
    External = "EXTERNAL", Some("external device fault");
    /// Went into another pool.
    SplitPool = "SPLIT_POOL", Some("split into new pool");
    /// Its sectors are larger than the vdev's.
    BadAshift = "BAD_ASHIFT", Some("unsupported minimum blocksize");
    /// Another host holds it.
    Active = "ACTIVE", Some("currently in use");
    /// The device was imported without the pool and has states that the pool does not have.
    Elsewhere = "ACTIVE", Some("written by another system");
    /// All children were taken offline.
    ChildrenOffline = "CHILDREN_OFFLINE", Some("all children offline");
}

/// Health of a whole pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolHealth {
    /// All is well.
    #[default]
    Online,
    /// Works with less redundancy, or without a log.
    Degraded,
    /// Declared bad.
    Faulted,
    /// Cannot be read.
    Unavail,
    /// I/O failed for good; everything waits.
    Suspended,
}

impl PoolHealth {
    /// The word users see.
    pub fn word(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Degraded => "DEGRADED",
            Self::Faulted => "FAULTED",
            Self::Unavail => "UNAVAIL",
            Self::Suspended => "SUSPENDED",
        }
    }
}
