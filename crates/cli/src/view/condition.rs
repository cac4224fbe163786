//! What ails a pool, decided from its tree, and the words for it.
//!
//! One ailment is named, the worst: a table walked from the top. Devices count where they
//! are leaves, caches among them.

use control::{PoolHealth, PoolInfo, ScanFunction, ScanState, VdevAux, VdevInfo, VdevState};

/// What ails a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Healthy,
    /// The pool could not be opened, although enough devices are there.
    NotOpened,
    /// Devices are being brought up to date.
    Resilvering,
    /// Devices fail, and what the pool cannot do without waits for them.
    Suspended,
    /// Multihost writes failed or were late: another system may have taken the pool.
    HeartbeatsFailed,
    /// The pool met damage, or a defect of this program, and cannot go on.
    Stopped,
    /// An intent log could not be read at import.
    BadLog,
    /// Devices failed too often, and too many of them.
    FaultedFatal,
    /// Devices are missing, too many of them.
    MissingFatal,
    /// Labels are missing or wrong, on too many devices.
    BadLabelFatal,
    /// Another system wrote to devices, too many of them.
    WrittenElsewhereFatal,
    /// The pool's metadata makes no sense.
    CorruptPool,
    /// Files are damaged.
    CorruptData,
    /// A device failed too often.
    Faulted,
    /// A device is missing.
    Missing,
    /// Another system wrote to a device while the device was away.
    WrittenElsewhere,
    /// A label is missing or wrong.
    BadLabel,
    /// A device makes errors.
    Failing,
    /// A device was taken offline.
    Offline,
    /// A device was pulled out.
    Removed,
    /// It could have features that it has not; that is no ailment.
    LacksFeatures,
}

/// Decides what ails a pool.
pub fn condition(pool: &PoolInfo) -> Condition {
    use Condition as C;
    let leaf = |bad: fn(&VdevInfo) -> bool| {
        pool.root.leaves().chain(pool.caches.iter().flat_map(VdevInfo::leaves)).any(bad)
    };
    let resilvering = |scan: control::ScanInfo| {
        scan.function == ScanFunction::Resilver && scan.state == ScanState::Scanning
    };
    let fatal = pool.root.state == VdevState::CantOpen || pool.health == PoolHealth::Unavail;
    let table: [(bool, C); 20] = [
        (pool.stopped, C::Stopped),
        (pool.is_absent && pool.root.aux != VdevAux::NoReplicas, C::NotOpened),
        (pool.scan.is_some_and(resilvering), C::Resilvering),
        (pool.heartbeats_failed, C::HeartbeatsFailed),
        (pool.health == PoolHealth::Suspended, C::Suspended),
        (pool.bad_log, C::BadLog),
        (fatal && leaf(is_faulted), C::FaultedFatal),
        (fatal && leaf(is_written_elsewhere), C::WrittenElsewhereFatal),
        (fatal && leaf(is_missing), C::MissingFatal),
        (fatal && leaf(is_mislabelled), C::BadLabelFatal),
        (fatal, C::CorruptPool),
        (pool.error_count != 0, C::CorruptData),
        (leaf(is_faulted), C::Faulted),
        (leaf(is_missing), C::Missing),
        (leaf(is_written_elsewhere), C::WrittenElsewhere),
        (leaf(is_mislabelled), C::BadLabel),
        (leaf(is_failing), C::Failing),
        (leaf(|v| v.state == VdevState::Offline), C::Offline),
        (leaf(|v| v.state == VdevState::Removed), C::Removed),
        (pool.lacks_features, C::LacksFeatures),
    ];
    table.into_iter().find(|(holds, _)| *holds).map_or(C::Healthy, |(_, condition)| condition)
}

fn is_faulted(vdev: &VdevInfo) -> bool {
    vdev.state == VdevState::Faulted
}

fn is_missing(vdev: &VdevInfo) -> bool {
    vdev.state == VdevState::CantOpen && vdev.aux == VdevAux::OpenFailed
}

fn is_written_elsewhere(vdev: &VdevInfo) -> bool {
    vdev.state == VdevState::CantOpen && vdev.aux == VdevAux::Elsewhere
}

fn is_mislabelled(vdev: &VdevInfo) -> bool {
    vdev.state == VdevState::CantOpen && vdev.aux != VdevAux::OpenFailed
}

fn is_failing(vdev: &VdevInfo) -> bool {
    let errors = vdev.stats.read_errors + vdev.stats.write_errors + vdev.stats.checksum_errors;
    vdev.state == VdevState::Degraded || errors != 0
}

/// The words for a condition, as `zpool status` shows them: lines of `status:` and
/// `action:`, and the id of the page `see:` points to.
pub struct Words {
    /// What is wrong.
    pub status: &'static [&'static str],
    /// What to do.
    pub action: &'static [&'static str],
    /// Of its page.
    pub message_id: Option<&'static str>,
}

/// Where pages about conditions are.
pub const PAGES: &str = "https://openzfs.github.io/openzfs-docs/msg/";

const fn words(
    status: &'static [&'static str],
    action: &'static [&'static str],
    message_id: Option<&'static str>,
) -> Option<Words> {
    Some(Words { status, action, message_id })
}

impl Condition {
    /// The words for an open pool; none when healthy.
    pub fn words(self) -> Option<Words> {
        const ATTACH: &[&str] = &["Attach the missing device and online it using 'zpool online'."];
        match self {
            Self::Healthy => None,
            Self::Missing => words(
                &[
                    "One or more devices could not be opened.  Sufficient replicas exist for",
                    "the pool to continue functioning in a degraded state.",
                ],
                ATTACH,
                Some("ZFS-8000-2Q"),
            ),
            Self::MissingFatal => words(
                &["Devices are missing, and what is left does not hold all data."],
                ATTACH,
                Some("ZFS-8000-3C"),
            ),
            Self::WrittenElsewhere => words(
                &[
                    "Another system wrote to one or more devices while the devices were not part",
                    "of this pool.  The pool does not use them, because their data differ.",
                ],
                &[
                    "Give up the data of the device using 'zpool labelclear -f', then use",
                    "'zpool replace'; or export the pool, and select the device using",
                    "'zpool import -d'.",
                ],
                None,
            ),
            Self::WrittenElsewhereFatal => words(
                &["Devices hold different histories of the pool, and no history is complete."],
                &["Export the pool, and select the devices of one history using 'zpool import -d'."],
                None,
            ),
            Self::BadLabel => words(
                &[
                    "One or more devices could not be used because the label is missing or",
                    "invalid.  Sufficient replicas exist for the pool to continue",
                    "functioning in a degraded state.",
                ],
                &["Replace the device using 'zpool replace'."],
                Some("ZFS-8000-4J"),
            ),
            Self::BadLabelFatal => words(
                &["Labels are missing or invalid, and what is left does not hold all data."],
                &["Bring the right devices back, or restore the pool from a backup."],
                Some("ZFS-8000-5E"),
            ),
            Self::Faulted => words(
                &[
                    "One or more devices are faulted in response to persistent errors.",
                    "Sufficient replicas exist for the pool to continue functioning in a",
                    "degraded state.",
                ],
                &["Replace the faulted device, or use 'zpool clear' to mark the device", "repaired."],
                None,
            ),
            Self::FaultedFatal => words(
                &["Devices failed too often, and what is left does not hold all data."],
                &["Bring the devices back and run 'zpool clear', or restore from a backup."],
                None,
            ),
            Self::Offline => words(
                &[
                    "One or more devices has been taken offline by the administrator.",
                    "Sufficient replicas exist for the pool to continue functioning in a",
                    "degraded state.",
                ],
                &["Online the device using 'zpool online' or replace the device with", "'zpool replace'."],
                None,
            ),
            Self::Removed => words(
                &["A device was pulled out while in use.  The others hold all data."],
                &["Put it back and run 'zpool online'."],
                None,
            ),
            Self::Failing => words(
                &["A device made errors; what it returned wrong was repaired where possible."],
                &["Watch it.  Run 'zpool clear' to reset the counters."],
                Some("ZFS-8000-9P"),
            ),
            Self::CorruptData => words(
                &["Some files are damaged, and no good copy of them is left."],
                &["Restore the files from a backup; 'zpool status -v' lists them."],
                Some("ZFS-8000-8A"),
            ),
            Self::NotOpened => words(
                &["The pool was open when the daemon ended, and could not be opened again:"],
                &["Use 'zpool import' to try again."],
                None,
            ),
            Self::CorruptPool => words(
                &["The pool cannot be opened: its metadata is incomplete or damaged."],
                &["Restore the pool from a backup."],
                Some("ZFS-8000-72"),
            ),
            Self::BadLog => words(
                &["An intent log record could not be read."],
                &["Bring the log device back and import again, or import with '-m' without it."],
                Some("ZFS-8000-K4"),
            ),
            Self::Suspended => words(
                &["One or more devices are faulted in response to IO failures."],
                &["Make sure the affected devices are connected, then run 'zpool clear'."],
                Some("ZFS-8000-HC"),
            ),
            Self::HeartbeatsFailed => words(
                &[
                    "The pool is suspended because multihost writes failed or were delayed;",
                    "another system could import the pool undetected.",
                ],
                &[
                    "Make sure the pool's devices are connected, then reboot your system and",
                    "import the pool or run 'zpool clear' to resume the pool.",
                ],
                Some("ZFS-8000-MM"),
            ),
            Self::Stopped => words(
                &[
                    "The pool met damage, or failing devices with failmode=panic, and has stopped.",
                    "Nothing more is written to it.",
                ],
                &["Run 'zpool export -f' and import the pool again."],
                None,
            ),
            Self::LacksFeatures => words(
                &[
                    "Some supported and requested features are not enabled on the pool.",
                    "The pool can still be used, but some features are unavailable.",
                ],
                &[
                    "Enable all features using 'zpool upgrade'. Once this is done,",
                    "the pool may no longer be accessible by software that does not support",
                    "the features. See zpool-features(7) for details.",
                ],
                None,
            ),
            Self::Resilvering => words(
                &["A device is being brought up to date.  The pool can be used meanwhile."],
                &["Wait until the resilver is done."],
                None,
            ),
        }
    }

    /// The one line `zpool import` tells about a pool that it found.
    pub fn import_status(self) -> Option<&'static str> {
        Some(match self {
            Self::Healthy
            | Self::LacksFeatures
            | Self::Suspended
            | Self::HeartbeatsFailed
            | Self::NotOpened
            | Self::Stopped
            | Self::Failing => {
                return None;
            }
            Self::Missing | Self::MissingFatal | Self::Removed => {
                "One or more devices are missing from the system."
            }
            Self::WrittenElsewhere | Self::WrittenElsewhereFatal => {
                "One or more devices were written by another system, and have another history."
            }
            Self::BadLabel | Self::BadLabelFatal => "One or more devices contains corrupted data.",
            Self::CorruptData => "The pool data is corrupted.",
            Self::CorruptPool => "The pool metadata is incomplete or corrupted.",
            Self::Offline => "One or more devices are offlined.",
            Self::Faulted | Self::FaultedFatal => "One or more devices are faulted.",
            Self::BadLog => "An intent log record cannot be read.",
            Self::Resilvering => "One or more devices were being resilvered.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::p1;

    #[test]
    fn the_worst_ailment_is_the_one_named() {
        let mut pool = p1();
        assert_eq!(condition(&pool), Condition::Healthy);
        pool.caches[0].state = VdevState::Offline;
        assert_eq!(condition(&pool), Condition::Offline);
        pool.root.children[0].children[0].stats.checksum_errors = 1;
        assert_eq!(condition(&pool), Condition::Failing);
        let log = &mut pool.root.children[1].children;
        (log[0].state, log[0].aux) = (VdevState::CantOpen, VdevAux::BadLabel);
        assert_eq!(condition(&pool), Condition::BadLabel);
        let log = &mut pool.root.children[1].children;
        (log[1].state, log[1].aux) = (VdevState::CantOpen, VdevAux::OpenFailed);
        assert_eq!(condition(&pool), Condition::Missing);
        let log = &mut pool.root.children[1].children;
        (log[1].state, log[1].aux) = (VdevState::CantOpen, VdevAux::Elsewhere);
        assert_eq!(condition(&pool), Condition::WrittenElsewhere);
        pool.root.children[0].children[1].state = VdevState::Faulted;
        assert_eq!(condition(&pool), Condition::Faulted);
        pool.error_count = 2;
        assert_eq!(condition(&pool), Condition::CorruptData);
        pool.root.state = VdevState::CantOpen;
        assert_eq!(condition(&pool), Condition::FaultedFatal);
        pool.bad_log = true;
        assert_eq!(condition(&pool), Condition::BadLog);
        pool.health = PoolHealth::Suspended;
        assert_eq!(condition(&pool), Condition::Suspended);
        pool.heartbeats_failed = true;
        assert_eq!(condition(&pool), Condition::HeartbeatsFailed);
        pool.stopped = true;
        assert_eq!(condition(&pool), Condition::Stopped);
    }

    #[test]
    fn no_command_is_recommended_that_there_is_not() {
        use Condition as C;
        let all = [
            C::Resilvering,
            C::Suspended,
            C::HeartbeatsFailed,
            C::Stopped,
            C::BadLog,
            C::FaultedFatal,
            C::MissingFatal,
            C::WrittenElsewhereFatal,
            C::BadLabelFatal,
            C::CorruptPool,
            C::CorruptData,
            C::Faulted,
            C::Missing,
            C::WrittenElsewhere,
            C::BadLabel,
            C::Failing,
            C::Offline,
            C::Removed,
            C::LacksFeatures,
        ];
        for words in all.into_iter().filter_map(C::words) {
            let text = [words.status, words.action].concat().join(" ");
            for command in text.split("'zpool ").skip(1) {
                let name = command.split([' ', '\'']).next().unwrap_or_default();
                assert!(crate::zpool::PROGRAM.commands.iter().any(|known| known.spec.name == name), "{text}");
            }
        }
    }

    #[test]
    fn a_spare_never_makes_a_pool_ail() {
        let mut pool = p1();
        pool.spares[0].state = VdevState::CantOpen;
        assert_eq!(condition(&pool), Condition::Healthy);
    }
}
