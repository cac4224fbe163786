//! When changes become stable, and what that is to spare: properties that file systems and volumes have.

/// The default of [`DataPolicy::immediate_write_bytes`].
pub const IMMEDIATE_WRITE_BYTES: u64 = 32 << 10;

/// When changes become stable (`sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// When somebody asks for it (`sync=standard`).
    Standard,
    /// Before each operation returns (`sync=always`).
    Always,
    /// With their txg, whatever anybody asks for (`sync=disabled`).
    Disabled,
}

impl SyncPolicy {
    /// Whether changes go to the log.
    #[must_use]
    pub fn is_logged(self) -> bool {
        self != Self::Disabled
    }

    /// Whether a write is followed by a commit; `asked`: its writer wants that (`O_SYNC`).
    #[must_use]
    pub fn commits(self, asked: bool) -> bool {
        match self {
            Self::Standard => asked,
            Self::Always => true,
            Self::Disabled => false,
        }
    }
}

/// What synchronous writes are to spare (`logbias`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBias {
    /// Time.
    Latency,
    /// Devices: data are written once, in place, and not to log devices.
    Throughput,
}

/// How the data of writes go to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPolicy {
    /// When they become stable.
    pub sync: SyncPolicy,
    /// What is to be spared.
    pub log_bias: LogBias,
    /// Without log devices, data from this length on are written in place (`zfs_immediate_write_sz`).
    pub immediate_write_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::SyncPolicy::{Always, Disabled, Standard};

    #[test]
    fn a_write_is_followed_by_a_commit_when_its_writer_or_the_property_wants_that() {
        let commits = |sync: super::SyncPolicy| (sync.commits(false), sync.commits(true));
        assert_eq!(
            (commits(Standard), commits(Always), commits(Disabled)),
            ((false, true), (true, true), (false, false))
        );
    }
}
